/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A handler of a multicast feed, in four steps: each is a way to receive the same messages.
 *
 *	feed socket|zcopy|callback|xtreme GROUP PORT INTERFACE MESSAGES
 *
 *	socket		the socket calls, which every program has
 *	zcopy		recvfrom_zcopy(): the message stays where the port put it
 *	callback	the library calls the program for each message
 *	xtreme		socketxtreme_poll(): the messages of the ring, with VMA_SOCKETXTREME=1
 *
 * INTERFACE is the address of the interface.  A message begins with its number, 8 bytes in this
 * host's order; the first one has 0.  The program ends after the message MESSAGES - 1, and prints
 * what each of them has cost, with the time that it waited for them, and how many did not arrive.
 *
 * Without the library, and xtreme without VMA_SOCKETXTREME=1, they do what socket does.
 */
#include <arpa/inet.h>
#include <mellanox/vma_extra.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"

static struct vma_api_t *api;
static int sock, ring, counter;
static uint64_t last;	  /* number of the last message */
static uint64_t received; /* messages */
static struct cost begin; /* when the first one came */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* All steps end here: this is where a program would look at the message. */
static void handle(const void *message, size_t len)
{
	uint64_t number;

	if (len < sizeof(number))
		return;
	memcpy(&number, message, sizeof(number));
	if (received && number <= last)
		return; /* the feed repeats it */
	if (!received++)
		begin = cost_now(counter);
	last = number;
}

static void await(int fd, int msec)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (poll(&p, 1, msec) < 0)
		die("poll");
}

/* ---- step 1: the socket calls -------------------------------------------------------------- */

static void by_socket(void)
{
	char message[2048];
	ssize_t n = recv(sock, message, sizeof(message), MSG_DONTWAIT);

	if (n >= 0)
		handle(message, (size_t)n);
	else
		await(sock, -1);
}

/* ---- step 2: without a copy ---------------------------------------------------------------- */

static void by_zcopy(void)
{
	char buf[256];
	struct vma_packets_t *packets = (struct vma_packets_t *)(void *)buf;
	int flags = MSG_DONTWAIT;
	int n = api->recvfrom_zcopy(sock, buf, sizeof(buf), &flags, NULL, NULL);

	if (n < 0) {
		await(sock, -1);
	} else if (!(flags & MSG_VMA_ZCOPY)) {
		handle(buf, (size_t)n); /* it came through the kernel, and was copied */
	} else {
		handle(packets->pkts[0].iov[0].iov_base, packets->pkts[0].iov[0].iov_len);
		if (api->free_packets(sock, packets->pkts, packets->n_packet_num))
			die("free_packets");
	}
}

/* ---- step 3: the callback ------------------------------------------------------------------ */

static vma_recv_callback_retval_t on_message(int fd, size_t pieces, struct iovec iov[],
					     struct vma_info_t *info, void *context)
{
	(void)fd;
	(void)pieces;
	(void)info;
	(void)context;
	handle(iov[0].iov_base, iov[0].iov_len);
	return VMA_PACKET_DROP; /* the program needs it no more */
}

/* Any call that waits runs the callback; what comes through the kernel is read. */
static void by_callback(void)
{
	char message[2048];
	ssize_t n;

	await(sock, 1);
	n = recv(sock, message, sizeof(message), MSG_DONTWAIT);
	if (n >= 0)
		handle(message, (size_t)n);
}

/* ---- step 4: socketxtreme ------------------------------------------------------------------ */

static void by_xtreme(void)
{
	static bool waited; /* and the poll found nothing before */
	struct vma_completion_t c[16];
	int n = api->socketxtreme_poll(ring, c, 16, 0);

	if (n < 0)
		die("socketxtreme_poll");
	for (int i = 0; i < n; i++) {
		if (!(c[i].events & VMA_SOCKETXTREME_PACKET))
			continue;
		handle(c[i].packet.buff_lst->payload, c[i].packet.total_len);
		if (api->socketxtreme_free_vma_packets(&c[i].packet, 1))
			die("socketxtreme_free_vma_packets");
	}
	if (n) {
		waited = false;
	} else if (!waited) {
		await(ring, -1);
		waited = true;
	} else {
		by_socket(); /* the ring is readable: it came through the kernel */
		waited = false;
	}
}

/* -------------------------------------------------------------------------------------------- */

static void join(char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
	struct ip_mreq group;
	int room = 4 << 20;

	if (inet_pton(AF_INET, argv[0], &group.imr_multiaddr) != 1 ||
	    inet_pton(AF_INET, argv[2], &group.imr_interface) != 1)
		die("address");
	to.sin_addr = group.imr_multiaddr;
	sock = socket(AF_INET, SOCK_DGRAM, 0);
	if (sock < 0 || setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) ||
	    bind(sock, (struct sockaddr *)&to, sizeof(to)) ||
	    setsockopt(sock, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof(group)))
		die("socket");
}

int main(int argc, char **argv)
{
	void (*step)(void) = by_socket;
	uint64_t messages;

	if (argc != 6)
		return 2;
	messages = strtoull(argv[5], NULL, 10);
	counter = cost_open();
	api = vma_get_api();
	join(argv + 2);
	if (api && !strcmp(argv[1], "zcopy"))
		step = by_zcopy;
	if (api && !strcmp(argv[1], "callback")) {
		if (api->register_recv_callback(sock, on_message, NULL))
			die("register_recv_callback");
		step = by_callback;
	}
	if (api && !strcmp(argv[1], "xtreme") &&
	    api->vma_extra_supported_mask & VMA_EXTRA_API_SOCKETXTREME_POLL) {
		if (api->get_socket_rings_fds(sock, &ring, 1) != 1)
			die("get_socket_rings_fds");
		step = by_xtreme;
	}
	printf("ready\n");
	fflush(stdout);
	while (last + 1 < messages)
		step();
	cost_print(argv[1], counter, cost_since(counter, begin), received);
	printf("lost: %llu\n", (unsigned long long)(messages - received));
	return 0;
}
