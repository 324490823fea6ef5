/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that receives messages of 100 bytes in each way that the extra API has; steps counts its
 * instructions.
 *
 *	extra IP PORT COUNT
 *
 * An echo server is at IP and PORT, over UDP and TCP.  The names are udp_recv_1, udp_callback_14...:
 * one call of a function that takes so many messages, which have arrived at the port before it;
 * and udp_dummy, tcp_dummy: a dummy send.  Each is counted COUNT times.
 */
#include <arpa/inet.h>
#include <mellanox/vma_extra.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "tests/budget/program.h"
#include "tools/bench/steps.h"

#define SIZE 100
#define BURST 14	      /* their echoes may come as one segment */
#define WARM_UP 1200000000ull /* nsec: the clock is calibrated once a second from then on */

static struct vma_api_t *api;
static int fd, epfd;
static unsigned wanted, taken, seen; /* bytes to take; bytes taken; bytes seen by the callback */

static int (*do_epoll_wait)(int, struct epoll_event *, int, int);
static ssize_t (*do_recv)(int, void *, size_t, int);
static ssize_t (*do_send)(int, const void *, size_t, int);

/* ---- the ways: each takes wanted bytes ---------------------------------------------------- */

static __attribute__((noinline)) void take_recv(void)
{
	char buf[SIZE];

	for (taken = 0; taken < wanted; taken += SIZE) {
		if (do_recv(fd, buf, SIZE, 0) != SIZE)
			die("recv");
	}
}

static __attribute__((noinline)) void take_epoll(void)
{
	struct epoll_event event;
	char buf[SIZE];

	for (taken = 0; taken < wanted; taken += SIZE) {
		if (do_epoll_wait(epfd, &event, 1, -1) != 1)
			die("epoll_wait");
		if (do_recv(fd, buf, SIZE, 0) != SIZE)
			die("recv");
	}
}

static __attribute__((noinline)) void take_zcopy(void)
{
	char buf[sizeof(struct vma_packets_t) +
		 BURST * (sizeof(struct vma_packet_t) + sizeof(struct iovec))];
	struct vma_packets_t *packets = (struct vma_packets_t *)(void *)buf;

	for (taken = 0; taken < wanted;) {
		int flags = MSG_VMA_ZCOPY_FORCE;
		int n = api->recvfrom_zcopy(fd, buf, sizeof(buf), &flags, NULL, NULL);

		if (n <= 0 || api->free_packets(fd, packets->pkts, packets->n_packet_num))
			die("recvfrom_zcopy");
		taken += (unsigned)n;
	}
}

/* The program waits for anything, as it would for other sockets, too. */
static __attribute__((noinline)) void take_callback(void)
{
	struct epoll_event event;

	while (seen < wanted) {
		if (do_epoll_wait(epfd, &event, 1, 0) != 0)
			die("epoll_wait");
	}
}

static vma_recv_callback_retval_t callback(int sock, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	seen += (unsigned)iov[0].iov_len;
	return VMA_PACKET_DROP;
}

/* ---- counting ---------------------------------------------------------------------------- */

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static void arrive(unsigned messages)
{
	static const char message[SIZE];
	unsigned long before = received_bytes();

	for (unsigned i = 0; i < messages; i++) {
		if (do_send(fd, message, SIZE, 0) != SIZE)
			die("send");
	}
	await_received(before, messages * SIZE);
	wanted = messages * SIZE;
	seen = 0;
}

static void count_way(const char *proto, const char *way, void (*take)(void), int count)
{
	static char names[32][32];
	static unsigned used;

	for (unsigned messages = 1; messages <= BURST; messages += BURST - 1) {
		char *name = names[used++];

		snprintf(name, sizeof(names[0]), "%s_%s_%u", proto, way, messages);
		for (int i = messages == 1 ? 0 : count / 2; i < count; i++) {
			arrive(messages); /* calibrates the clock, if that is due */
			take();
			arrive(messages);
			steps_count((void *)take, name);
			take();
		}
	}
}

static void count_dummy(const char *name, int count)
{
	static const char message[SIZE];

	for (int i = 0; i < count; i++) {
		arrive(1);
		take_recv();
		steps_count((void *)do_send, name);
		if (do_send(fd, message, SIZE, VMA_SND_FLAGS_DUMMY) != SIZE)
			die("dummy send");
	}
}

static void count_all(const char *proto, int type, const struct sockaddr_in *to, int count)
{
	struct epoll_event event = {.events = EPOLLIN};
	uint64_t warm = now() + WARM_UP;
	int one = 1;

	fd = socket(AF_INET, type, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		die("connect");
	if (type == SOCK_STREAM)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (now() < warm) {
		arrive(1);
		take_recv();
	}
	count_way(proto, "recv", take_recv, count);
	count_way(proto, "zcopy", take_zcopy, count);
	count_dummy(type == SOCK_STREAM ? "tcp_dummy" : "udp_dummy", count);
	epfd = epoll_create1(0);
	if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event))
		die("epoll");
	count_way(proto, "epoll", take_epoll, count);
	if (!api->register_recv_callback(fd, callback, NULL))
		count_way(proto, "callback", take_callback, count);
	close(epfd);
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};

	if (argc != 4 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		return 2;
	to.sin_port = htons((uint16_t)atoi(argv[2]));
	api = vma_get_api();
	if (!api)
		die("no library");
	do_epoll_wait = (int (*)(int, struct epoll_event *, int, int))function("epoll_wait");
	do_recv = (ssize_t(*)(int, void *, size_t, int))function("recv");
	do_send = (ssize_t(*)(int, const void *, size_t, int))function("send");
	count_all("udp", SOCK_DGRAM, &to, atoi(argv[3]));
	count_all("tcp", SOCK_STREAM, &to, atoi(argv[3]));
	return 0;
}
