/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeps on a queue of the mlx5 port, and tells what woke it:
 *
 *	sleeper INTERFACE ADDRESS PORT
 *
 * Prints "ready", and then a line for each burst of datagrams that the peer sends (traffic knock):
 * whether the burst has made an event by the time it has arrived, or "late event" if one came then.
 * LATE in the environment: waits for such a one.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/param.h"
#include "net/netlink/netlink.h"
#include "ring/mlx5/port_mlx5.h"
#include "tests/mlx5/stock.h"

#define BURST_MAX 64
#define WAIT_MSEC 30000

static struct port_queue *queue;
static struct flow_key key, other;
static const struct netlink_events no_events;

static const char *variable(const char *name)
{
	return getenv(name);
}

static void open_queue(const char *interface, const char *address, uint16_t number)
{
	char why[PORT_WHY] = "";
	struct port *port;

	key = (struct flow_key){.local = addr_v4(inet_addr(address)),
				.local_port = htons(number),
				.proto = IPPROTO_UDP};
	other = key;
	other.local_port = htons((uint16_t)(number + 2));
	stock_check(!netlink_open(&no_events), "netlink");
	stock_check(!port_mlx5_kind.open((int)if_nametoindex(interface), &port, why) &&
			    !port->ops->open_queue(port, &queue, why) &&
			    !queue->ops->add_flow(queue, &key),
		    why);
}

static int open_bell(const char *address, uint16_t number)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(number),
				 .sin_addr.s_addr = inet_addr(address)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	stock_check(!bind(fd, (struct sockaddr *)&at, sizeof(at)), "bind");
	return fd;
}

static bool has_event(int msec)
{
	struct pollfd pfd = {.events = POLLIN};

	stock_check(queue->ops->fds(queue, &pfd.fd) == 1, "fds");
	return poll(&pfd, 1, msec) == 1;
}

/* The card has done all that it does about earlier frames when it answers a command. */
static void await_card(void)
{
	stock_check(!queue->ops->add_flow(queue, &other) && !queue->ops->del_flow(queue, &other),
		    "a command");
}

static int take_all(void)
{
	struct pkt *pkts[BURST_MAX];
	int n = 0;

	for (int some; (some = queue->ops->rx_burst(queue, pkts, BURST_MAX)) > 0; n += some)
		for (int i = 0; i < some; i++)
			pkt_free(pkts[i]);
	return n;
}

int main(int argc, char **argv)
{
	uint16_t number;
	int bell;
	char byte;

	if (argc != 4)
		return 2;
	number = (uint16_t)atoi(argv[3]);
	clock_init();
	param_init(variable);
	open_queue(argv[1], argv[2], number);
	bell = open_bell(argv[2], (uint16_t)(number + 1));
	stock_check(queue->ops->arm(queue), "arm");
	puts("ready");
	fflush(stdout);
	for (;;) {
		const char *what = "no event";

		stock_check(recv(bell, &byte, sizeof(byte), 0) == sizeof(byte), "recv");
		await_card();
		if (has_event(0))
			what = "event";
		else if (getenv("LATE") && has_event(WAIT_MSEC))
			what = "late event";
		int n = take_all();

		/* The next burst comes when this one is told. */
		stock_check(queue->ops->arm(queue), "arm");
		printf("%d frames, %s\n", n, what);
		fflush(stdout);
	}
}
