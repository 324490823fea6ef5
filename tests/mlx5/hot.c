/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hot path of the mlx5 port, and of the stock libraries.
 *
 *	hot count|time port|verbs DEVICE INTERFACE ADDRESS PORT COUNT BURST [PEER LENGTH]
 *
 * Echoes COUNT bursts of datagrams (traffic ring; with PEER it asks traffic obey there for them).
 * Measured: recv, the call that takes in a burst and posts as many buffers; send, which posts the
 * answers, rings the doorbell, and takes the completion of the burst before.  count: the
 * instructions, by steps.  time: prints a line for each,
 *
 *	call=recv burst_ns=830 worst_ns=4112 calls=2000
 *
 * the median and the maximum.
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/param.h"
#include "net/netlink/netlink.h"
#include "ring/mlx5/port_mlx5.h"
#include "tests/mlx5/stock.h"
#include "tools/bench/steps.h"

#define DEPTH 256 /* as VMA_RX_WRE and VMA_TX_WRE */
#define BURST_MAX 16
#define SLOT 2048
#define INLINE_MAX 204 /* VMA_TX_MAX_INLINE */
#define COUNT_MAX 100000

static int burst, count, bell = -1;

static struct sockaddr_in address_of(const char *address, unsigned number)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)number),
				    .sin_addr.s_addr = inet_addr(address)};
}

/* The peer rings the kernel's bell after each burst. */
static void bell_open(const char *address, unsigned number)
{
	struct sockaddr_in at = address_of(address, number);

	bell = socket(AF_INET, SOCK_DGRAM, 0);
	stock_check(!bind(bell, (struct sockaddr *)&at, sizeof(at)), "bind");
}

/* The rule is there: the first burst may come. */
static void ask_peer(const char *peer, unsigned number, const char *length)
{
	struct sockaddr_in to = address_of(peer, number);
	char text[64];
	int n = snprintf(text, sizeof(text), "%u %d %d %s", number, count, burst, length);

	stock_check(sendto(bell, text, (size_t)n, 0, (struct sockaddr *)&to, sizeof(to)) == n,
		    "sendto the peer");
}

/* ---- a measured call ---------------------------------------------------------------------- */

/* Of the bursts' calls. */
struct timed {
	const char *name;
	unsigned n;
	nsec_t took[COUNT_MAX];
};

static bool counts; /* instructions, by steps; else time */
static struct timed times[2] = {{.name = "recv"}, {.name = "send"}};

static int measure(int (*call)(void), struct timed *timed)
{
	nsec_t began;
	int rc;

	if (counts) {
		steps_count((void *)call, timed->name);
		return call();
	}
	began = clock_now();
	rc = call();
	timed->took[timed->n++] = clock_now() - began;
	return rc;
}

static int compare(const void *a, const void *b)
{
	nsec_t difference = *(const nsec_t *)a - *(const nsec_t *)b;

	return difference < 0 ? -1 : difference > 0;
}

static void print_times(void)
{
	for (struct timed *timed = times; timed < times + 2; timed++) {
		qsort(timed->took, timed->n, sizeof(timed->took[0]), compare);
		printf("call=%s burst_ns=%lld worst_ns=%lld calls=%u\n", timed->name,
		       (long long)timed->took[timed->n / 2], (long long)timed->took[timed->n - 1],
		       timed->n);
	}
}

/* A burst has arrived: what came before the bell.  So the card has sent all answers before. */
static void await_burst(void)
{
	char byte;

	stock_check(recv(bell, &byte, sizeof(byte), 0) == sizeof(byte), "recv");
}

/* Both ways: the checksums stay right. */
static void turn(uint8_t *frame)
{
	struct {
		struct ethhdr eth;
		struct iphdr ip;
		struct udphdr udp;
	} __attribute__((packed)) *h = (void *)frame, was = *h;

	memcpy(h->eth.h_dest, was.eth.h_source, ETH_ALEN);
	memcpy(h->eth.h_source, was.eth.h_dest, ETH_ALEN);
	h->ip.saddr = was.ip.daddr;
	h->ip.daddr = was.ip.saddr;
	h->udp.source = was.udp.dest;
	h->udp.dest = was.udp.source;
}

/* ---- the port ----------------------------------------------------------------------------- */

static struct port_queue *queue;
static struct pkt *in[BURST_MAX], *out[BURST_MAX];

__attribute__((noinline)) static int port_recv(void)
{
	return queue->ops->rx_burst(queue, in, burst);
}

__attribute__((noinline)) static int port_send(void)
{
	struct port_queue *q = queue;
	int (*put)(struct port_queue *, struct pkt *) = q->ops->tx_put;
	struct pkt **pkt = out, **end = out + burst;

	while (pkt < end)
		put(q, *pkt++);
	q->ops->tx_flush(q);
	return 0;
}

static const struct netlink_events no_events;

static void port_open(const char *interface, const char *address, unsigned number)
{
	struct flow_key key = {.local = addr_v4(inet_addr(address)),
			       .local_port = htons((uint16_t)number),
			       .proto = IPPROTO_UDP};
	char why[PORT_WHY] = "";
	struct port *port;

	stock_check(!netlink_open(&no_events), "netlink");
	stock_check(!port_mlx5_kind.open((int)if_nametoindex(interface), &port, why) &&
			    !port->ops->open_queue(port, &queue, why) &&
			    !queue->ops->add_flow(queue, &key),
		    why);
}

static void port_round(void)
{
	await_burst();
	stock_check(measure(port_recv, &times[0]) == burst, "not all of a burst");
	for (int i = 0; i < burst; i++) {
		out[i] = queue->ops->tx_get(queue);
		stock_check(out[i] != NULL, "no frame");
		memcpy(out[i]->frame, in[i]->frame, in[i]->frame_len);
		out[i]->frame_len = in[i]->frame_len;
		turn(out[i]->frame);
		pkt_free(in[i]);
	}
	measure(port_send, &times[1]);
}

/* ---- the stock libraries ------------------------------------------------------------------ */

static struct stock stock;
static uint8_t memory[2 * DEPTH][SLOT] __attribute__((aligned(4096)));
static struct ibv_wc wcs[BURST_MAX];
static struct ibv_sge sges[BURST_MAX], recv_sges[BURST_MAX];
static struct ibv_send_wr sends[BURST_MAX];
static struct ibv_recv_wr recvs[BURST_MAX];
static bool sent;

__attribute__((noinline)) static int verbs_recv(void)
{
	struct ibv_recv_wr *bad;
	int n = ibv_poll_cq(stock.recv_cq, burst, wcs);

	if (ibv_post_recv(stock.qp, recvs, &bad))
		return -1;
	return n;
}

__attribute__((noinline)) static int verbs_send(void)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	if (ibv_post_send(stock.qp, sends, &bad))
		return -1;
	return sent ? ibv_poll_cq(stock.send_cq, 1, &wc) : 1;
}

/* Requests for the slots from `first` on, as a list. */
static void prepare_receives(unsigned first)
{
	for (int i = 0; i < burst; i++) {
		unsigned slot = (first + (unsigned)i) % DEPTH;

		recv_sges[i] = (struct ibv_sge){(uintptr_t)memory[slot], SLOT, stock.mr->lkey};
		recvs[i] = (struct ibv_recv_wr){.wr_id = slot,
						.sg_list = &recv_sges[i],
						.num_sge = 1,
						.next = i + 1 < burst ? &recvs[i + 1] : NULL};
	}
}

static void verbs_open(const char *device, const char *address, unsigned number)
{
	struct ibv_recv_wr *bad;

	stock_open(&stock, device, memory, sizeof(memory), DEPTH, INLINE_MAX);
	for (int first = 0; first + burst <= DEPTH - burst; first += burst) {
		prepare_receives((unsigned)first);
		stock_check(!ibv_post_recv(stock.qp, recvs, &bad), "post_recv");
	}
	stock_add_rule(&stock, address, number);
}

static void verbs_round(void)
{
	static unsigned next = DEPTH;

	await_burst();
	/* The slots that are free: those of the burst before the last one. */
	prepare_receives(next - (unsigned)burst);
	next += (unsigned)burst;
	stock_check(measure(verbs_recv, &times[0]) == burst, "not all of a burst");
	for (int i = 0; i < burst; i++) {
		uint8_t *answer = memory[DEPTH + i];
		uint32_t len = wcs[i].byte_len;

		stock_check(wcs[i].status == IBV_WC_SUCCESS, "a receive");
		memcpy(answer, memory[wcs[i].wr_id], len);
		turn(answer);
		sges[i] = (struct ibv_sge){(uintptr_t)answer, len, stock.mr->lkey};
		sends[i] = (struct ibv_send_wr){.sg_list = &sges[i],
						.num_sge = 1,
						.opcode = IBV_WR_SEND,
						.send_flags =
							(len <= INLINE_MAX ? IBV_SEND_INLINE : 0u) |
							(i + 1 < burst ? 0u : IBV_SEND_SIGNALED),
						.next = i + 1 < burst ? &sends[i + 1] : NULL};
	}
	stock_check(measure(verbs_send, &times[1]) == 1, "a send");
	sent = true;
}

static const char *variable(const char *name)
{
	return getenv(name);
}

int main(int argc, char **argv)
{
	unsigned number;
	bool is_port;

	if (argc != 9 && argc != 11)
		return 2;
	counts = !strcmp(argv[1], "count");
	is_port = !strcmp(argv[2], "port");
	number = (unsigned)atoi(argv[6]);
	count = atoi(argv[7]);
	burst = atoi(argv[8]);
	stock_check(burst > 0 && burst <= BURST_MAX, "a burst");
	stock_check(count > 0 && count <= COUNT_MAX, "a count");
	clock_init();
	param_init(variable);
	if (is_port)
		port_open(argv[4], argv[5], number);
	else
		verbs_open(argv[3], argv[5], number);
	bell_open(argv[5], number + 1);
	puts("ready");
	fflush(stdout);
	if (argc == 11)
		ask_peer(argv[9], number, argv[10]);
	/* The peer sends the next burst when it has the answers to this one. */
	for (int n = count; n > 0; n--)
		is_port ? port_round() : verbs_round();
	await_burst(); /* the peer has the last answers */
	if (!counts)
		print_times();
	return 0;
}
