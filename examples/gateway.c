/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A gateway for orders, which are rare: its path to the exchange is cold when one must leave.
 *
 *	gateway cold|warm|room IP PORT ORDERS PAUSE
 *
 * Sends ORDERS orders to an exchange that answers each with as many bytes, PAUSE milliseconds apart.
 * warm: each millisecond a dummy send walks the path, and nothing leaves.  room: the same, and each
 * order waits in a frame of the port, so that only headers are missing when it must leave.  Prints
 * what a send has cost, without the pauses.  Without the library, both do what cold does.
 */
#include <arpa/inet.h>
#include <mellanox/vma_extra.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <vma/vma.h>

#include "cost.h"

#define ORDER 100 /* bytes */

static int sock;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void connect_to(const char *ip, const char *port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	int one = 1;

	if (inet_pton(AF_INET, ip, &to.sin_addr) != 1)
		die("address");
	sock = socket(AF_INET, SOCK_STREAM, 0);
	if (sock < 0 || connect(sock, (struct sockaddr *)&to, sizeof(to)) ||
	    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die("connect");
}

/* Stands for everything else that the program does, and evicts the path from the caches. */
static void work_elsewhere(void)
{
	static volatile char memory[4 << 20];

	for (size_t i = 0; i < sizeof(memory); i += 64)
		memory[i]++;
}

/*
 * EAGAIN: an order is not acknowledged yet, so the path is warm.  Any other error says that this
 * socket has no dummy sends: EINVAL, if the kernel serves it.
 */
static void keep_warm(const char *order)
{
	if (send(sock, order, ORDER, VMA_SND_FLAGS_DUMMY) < 0 && errno != EAGAIN)
		die("dummy send");
}

/* The order of a program that knows it before it must leave. */
static struct vma_room_t prepare(const struct vma_ext_t *vma, const char *order)
{
	struct vma_room_t room;

	if (vma->vma_reserve(sock, ORDER, &room, NULL))
		die("vma_reserve");
	memcpy(room.data, order, ORDER);
	return room;
}

/* vma NULL: there is no room. */
static void send_order(const struct vma_ext_t *vma, const struct vma_room_t *room,
		       const char *order)
{
	ssize_t n = vma ? vma->vma_commit(sock, room->id, ORDER, 0, NULL, 0)
			: send(sock, order, ORDER, 0);

	if (n != ORDER)
		die("send");
}

static void await_answer(void)
{
	char answer[ORDER];
	size_t got = 0;

	while (got < sizeof(answer)) {
		ssize_t n = recv(sock, answer + got, sizeof(answer) - got, 0);

		if (n <= 0)
			die("recv");
		got += (size_t)n;
	}
}

int main(int argc, char **argv)
{
	const struct timespec msec = {.tv_nsec = 1000000};
	char order[ORDER] = "buy";
	const struct vma_ext_t *vma = NULL;
	struct vma_room_t room;
	struct cost sum = {0}, begin, spent;
	uint64_t orders;
	int counter = cost_open(), pause;
	bool warm;

	if (argc != 6)
		return 2;
	/* Only the library knows the flag: the kernel would send the dummy. */
	warm = strcmp(argv[1], "cold") && vma_get_api();
	if (!strcmp(argv[1], "room"))
		vma = vma_get_ext();
	orders = strtoull(argv[4], NULL, 10);
	pause = atoi(argv[5]);
	connect_to(argv[2], argv[3]);
	for (uint64_t i = 0; i < orders; i++) {
		if (vma)
			room = prepare(vma, order);
		for (int ms = 0; ms < pause; ms++) {
			nanosleep(&msec, NULL);
			work_elsewhere();
			if (warm)
				keep_warm(order);
		}
		begin = cost_now(counter);
		send_order(vma, &room, order);
		spent = cost_since(counter, begin);
		sum.nsec += spent.nsec;
		sum.instructions += spent.instructions;
		await_answer();
	}
	cost_print(argv[1], counter, sum, orders);
	return 0;
}
