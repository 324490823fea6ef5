/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The raw limit of a stream: the frames per second that the xdp port of one process sends
 * and the port of another process receives, when neither reads their contents.
 *
 *	port_flood CPU,CPU SIZE IFNAME NETNS IFNAME NETNS
 *
 * Sends frames of SIZE bytes from the first interface to the second one for SECONDS, and
 * prints frames_per_s, the rate of those that arrived.  A NETNS is a name of ip-netns(8).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "ring/xdp/port_xdp.h"
#include "tools/bench/place.h"

#define SECONDS 2
#define BURST 64
#define PATIENCE (10 * NSEC_PER_SEC) /* until both ports are open */

/* Shared by both processes; atomic. */
struct board {
	uint8_t mac[6]; /* address of the receiver; written before ready */
	bool ready;
	uint64_t received; /* number of our frames */
};

static struct board *board;
static unsigned size;

__attribute__((noreturn)) static void die(const char *what, const char *why)
{
	fprintf(stderr, "port_flood: %s: %s\n", what, why);
	exit(1);
}

static struct port_queue *open_port(int cpu, const char *ifname, const char *netns)
{
	struct port_queue *q;
	char why[PORT_WHY];
	struct port *port;

	place_pin(cpu);
	place_enter_netns(netns);
	if (port_xdp_open((int)if_nametoindex(ifname), &port, why) ||
	    port->ops->open_queue(port, &q, why))
		die(ifname, why);
	if (size > ETH_HDR + port->mtu)
		die(ifname, "its MTU is smaller than the frames");
	return q;
}

static struct endpoint end(uint32_t last)
{
	return (struct endpoint){.addr = addr_v4(htonl(0x0a090000 + last)), .port = htons(7)};
}

/* ---- the two ends ------------------------------------------------------------- */

static void receive(struct port_queue *q)
{
	struct flow_key key = {
		.local = end(2).addr, .local_port = end(2).port, .proto = IPPROTO_UDP};
	struct pkt *pkts[BURST];
	uint64_t n = 0;
	int got;

	if (q->ops->add_flow(q, &key))
		die("flow", "refused");
	memcpy(board->mac, q->port->mac, sizeof(board->mac));
	__atomic_store_n(&board->ready, true, __ATOMIC_RELEASE); /* pairs with flood() */
	for (;;) {
		got = q->ops->rx_burst(q, pkts, BURST);
		for (int i = 0; i < got; i++) {
			n += pkts[i]->frame_len == size;
			pkt_free(pkts[i]);
		}
		if (got)
			__atomic_store_n(&board->received, n, __ATOMIC_RELAXED);
	}
}

static void send_burst(struct port_queue *q, const uint8_t *frame)
{
	for (int i = 0; i < BURST; i++) {
		struct pkt *pkt = q->ops->tx_get(q);

		if (!pkt)
			break;
		memcpy(pkt->frame, frame, size);
		pkt->frame_len = size;
		q->ops->tx_put(q, pkt);
	}
	q->ops->tx_flush(q);
}

static double flood(struct port_queue *q)
{
	struct frame_params fp = {.src_mac = q->port->mac,
				  .dst_mac = board->mac,
				  .src = end(1),
				  .dst = end(2),
				  .proto = IPPROTO_UDP,
				  .ttl = 64};
	static uint8_t frame[65536], payload[65536];
	struct frame_template tmpl;
	struct pkt *pkts[BURST];
	struct iovec iov = {payload, size - ETH_HDR - IP4_HDR - UDP_HDR};
	nsec_t start = clock_now(), now = start;

	while (!__atomic_load_n(&board->ready, __ATOMIC_ACQUIRE))
		if (clock_now() - start > PATIENCE)
			die("receiver", "is not ready");
	frame_template_init(&tmpl, &fp);
	frame_build_udp(&tmpl, frame, &iov, 1, iov.iov_len);
	for (start = clock_now(); now - start < SECONDS * NSEC_PER_SEC; now = clock_now()) {
		send_burst(q, frame);
		for (int n = q->ops->rx_burst(q, pkts, BURST); n > 0; n--)
			pkt_free(pkts[n - 1]);
	}
	return (double)__atomic_load_n(&board->received, __ATOMIC_RELAXED) * NSEC_PER_SEC /
	       (double)(now - start);
}

static const char *variable(const char *name)
{
	return getenv(name);
}

int main(int argc, char **argv)
{
	int cpu[2];
	double rate;
	pid_t pid;

	if (argc != 7 || sscanf(argv[1], "%d,%d", &cpu[0], &cpu[1]) != 2 ||
	    sscanf(argv[2], "%u", &size) != 1 || size < 60 || size > 9000)
		die("usage", "port_flood CPU,CPU SIZE IFNAME NETNS IFNAME NETNS");
	clock_init();
	param_init(variable);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED)
		die("memory", strerror(errno));
	pid = fork();
	if (pid < 0)
		die("fork", strerror(errno));
	if (!pid)
		receive(open_port(cpu[1], argv[5], argv[6]));
	rate = flood(open_port(cpu[0], argv[3], argv[4]));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("frames_per_s=%.0f frame_bytes=%u\n", rate, size);
	return 0;
}
