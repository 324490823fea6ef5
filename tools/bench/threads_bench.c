/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program with two threads, to run with or without the library.
 *
 *	threads_bench CPU,CPU hammer IP PORT
 *		each thread sends 14-byte datagrams from its own socket, as fast as
 *		possible: datagrams per second of one thread alone, and of both together
 *	threads_bench CPU,CPU hop IP PORT TURNS
 *		the two threads use one socket in turns: 200 echoes each
 *	threads_bench serve PORT
 *		echoes datagrams to PORT, ignores those to PORT + 1; prints "ready"
 *
 * With a ring per thread the socket migrates from thread to thread; the log of the library
 * shows how long that takes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/bench/crew.h"

#define SLICES 25
#define BATCH 16
#define SIZE 14
#define ECHOES 200
#define PAUSE 60000 /* usec between two turns: by then a started move has ended */

static struct sockaddr_in peer = {.sin_family = AF_INET};
static const char payload[SIZE] = "thirteen char";

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "threads_bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int connected(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&peer, sizeof(peer)))
		die("connect");
	return fd;
}

/* ---- hammer --------------------------------------------------------------------- */

/* A socket that the thread creates and uses. */
static unsigned send_some(struct worker *worker)
{
	static int fds[CREW_MAX];

	if (!fds[worker->number])
		fds[worker->number] = connected();
	for (int i = 0; i < BATCH; i++) {
		if (send(fds[worker->number], payload, SIZE, 0) != SIZE)
			die("send");
	}
	return BATCH;
}

static void hammer(const int cpus[2])
{
	struct crew crew = {.size = 2, .work = send_some};
	double alone[SLICES], both[SLICES], rate[SLICES];

	crew_start(&crew, cpus, true);
	crew_slice(&crew, 2);
	for (unsigned i = 0; i < SLICES; i++) {
		crew_slice(&crew, 1);
		alone[i] = crew_rate(&crew, 1) * 1e9;
		crew_slice(&crew, 2);
		both[i] = crew_rate(&crew, 2) * 1e9;
		rate[i] = both[i] / alone[i];
	}
	crew_end(&crew);
	printf("alone=%.0f both=%.0f rate=%.3f\n", crew_median(alone, SLICES),
	       crew_median(both, SLICES), crew_median(rate, SLICES));
}

/* ---- hop ------------------------------------------------------------------------ */

struct hopper {
	pthread_barrier_t gate;
	int cpus[2];
	int turns;
	int fd;
};

static void echo(int fd)
{
	char buf[SIZE];

	if (send(fd, payload, SIZE, 0) != SIZE || recv(fd, buf, SIZE, 0) != SIZE)
		die("echo");
}

static void take_turns(struct hopper *h, int number)
{
	place_pin(h->cpus[number]);
	for (int turn = 0; turn < h->turns; turn++) {
		for (int i = 0; turn % 2 == number && i < ECHOES; i++)
			echo(h->fd);
		if (turn % 2 == number)
			usleep(PAUSE);
		pthread_barrier_wait(&h->gate);
	}
}

static void *second(void *arg)
{
	take_turns(arg, 1);
	return NULL;
}

static void hop(const int cpus[2], int turns)
{
	struct hopper h = {.cpus = {cpus[0], cpus[1]}, .turns = turns, .fd = connected()};
	struct timeval patience = {.tv_sec = 2};
	pthread_t thread;

	setsockopt(h.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	pthread_barrier_init(&h.gate, NULL, 2);
	if (pthread_create(&thread, NULL, second, &h))
		die("thread");
	take_turns(&h, 0);
	pthread_join(thread, NULL);
	printf("turns=%d\n", turns);
}

/* ---- serve ------------------------------------------------------------------------ */

static int bound(int port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof(any)))
		die("bind");
	return fd;
}

__attribute__((noreturn)) static void serve(int port)
{
	int fd = bound(port);
	char buf[2048];

	bound(port + 1);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);

		if (n >= 0)
			sendto(fd, buf, (size_t)n, 0, (struct sockaddr *)&from, len);
	}
}

int main(int argc, char **argv)
{
	int cpus[2];

	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(atoi(argv[2]));
	if (argc < 5 || inet_pton(AF_INET, argv[3], &peer.sin_addr) != 1) {
		fprintf(stderr, "usage: threads_bench CPU,CPU hammer|hop IP PORT [TURNS]\n");
		return 2;
	}
	crew_parse_cpus(argv[1], cpus);
	peer.sin_port = htons((uint16_t)atoi(argv[4]));
	clock_init();
	if (!strcmp(argv[2], "hop"))
		hop(cpus, argc > 5 ? atoi(argv[5]) : 30);
	else
		hammer(cpus);
	return 0;
}
