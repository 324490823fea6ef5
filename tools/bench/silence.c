/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The first real send after some silence, with dummy sends meanwhile and without.
 *
 *	silence udp|tcp IP PORT cold|warm MSEC COUNT
 *
 * COUNT times: an echo server's answer is taken; then, for MSEC milliseconds, the program does other
 * work: once a millisecond it reads and writes a part of some memory, which displaces what a send
 * needs from the caches; warm: it makes a dummy send before.  Then it sends.  Prints the nanoseconds
 * of that send: the median, and the fewest.
 */
#include <arpa/inet.h>
#include <mellanox/vma_extra.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 100
#define PATIENCE 5000	  /* msec */
#define OTHER (8u << 20)  /* bytes of other work: more than a second-level cache */
#define PART (256u << 10) /* of it in a millisecond */
#define COUNT_MAX 100

static char message[SIZE];
static unsigned char other[OTHER];
static size_t at;
static int sock;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerrorname_np(errno));
	exit(1);
}

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* All is received, and acknowledged by the answer. */
static void take_answer(void)
{
	char answer[SIZE];
	struct pollfd p = {.fd = sock, .events = POLLIN};

	if (poll(&p, 1, PATIENCE) != 1)
		die("no answer");
	if (recv(sock, answer, SIZE, MSG_WAITALL) != SIZE)
		die("recv");
}

static void work_for(long long nsec)
{
	long long end = now() + nsec;

	for (size_t i = 0; i < PART; i += 64)
		other[(at + i) % OTHER]++;
	at += PART;
	while (now() < end)
		;
}

static void be_silent(int msec, bool warm)
{
	for (int i = 0; i < msec; i++) {
		/* EAGAIN: the acknowledgement has not arrived yet. */
		if (warm && send(sock, message, SIZE, VMA_SND_FLAGS_DUMMY) != SIZE &&
		    errno != EAGAIN)
			die("dummy send");
		work_for(1000000);
	}
}

static int by_size(const void *a, const void *b)
{
	const long long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	long long times[COUNT_MAX];
	int one = 1, count = argc == 7 ? atoi(argv[6]) : 0;
	bool warm;

	if (count < 1 || count > COUNT_MAX)
		return 2;
	warm = !strcmp(argv[4], "warm");
	if (warm && !vma_get_api())
		die("no library"); /* the kernel would send the dummies */
	inet_pton(AF_INET, argv[2], &to.sin_addr);
	to.sin_port = htons((uint16_t)atoi(argv[3]));
	sock = socket(AF_INET, strcmp(argv[1], "tcp") ? SOCK_DGRAM : SOCK_STREAM, 0);
	if (sock < 0 || connect(sock, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	if (!strcmp(argv[1], "tcp"))
		setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (int i = -1; i < count; i++) { /* the first one finds the route */
		long long began;

		if (i >= 0)
			be_silent(atoi(argv[5]), warm);
		began = now();
		if (send(sock, message, SIZE, 0) != SIZE)
			die("send");
		if (i >= 0)
			times[i] = now() - began;
		take_answer();
	}
	qsort(times, (size_t)count, sizeof(*times), by_size);
	printf("ns=%lld fewest=%lld\n", times[count / 2], times[0]);
	return 0;
}
