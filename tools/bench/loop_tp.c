/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages in one direction over the loop-back port: the speed of sockets and of the TCP
 * engine without an interface and a kernel.
 *
 *	loop_tp CPU,CPU
 *
 * One thread sends messages of 100 bytes for SECONDS, the other one reads them; each has its own
 * ring.  As in sockperf, each message is one send, and a read takes everything that has arrived.
 * Prints messages_per_s with TCP_NODELAY, and nagle without it, the default of sockperf.
 */
#include <pthread.h>
#include <stdio.h>

#include "tests/lib/loop_net.h"
#include "tests/lib/loop_pair.h"
#include "tools/bench/crew.h"

#define SECONDS 1
#define SIZE 100
#define BUFFER 65536

struct stream {
	struct loop_pair pair;
	int cpus[2];
	pthread_barrier_t gate; /* both threads are pinned */
	/* written by the reader at its end */
	uint64_t bytes;
};

static void *read_all(void *arg)
{
	static char buf[BUFFER];
	struct stream *s = arg;
	ssize_t n;

	place_pin(s->cpus[1]);
	pthread_barrier_wait(&s->gate);
	while ((n = tsock_recv(&s->pair.to, buf, sizeof(buf), 0)) > 0)
		s->bytes += (uint64_t)n;
	NET_CHECK_EQ(n, 0);
	return NULL;
}

/* Received messages per second. */
static double stream(const int cpus[2], bool nodelay)
{
	struct stream s = {.cpus = {cpus[0], cpus[1]}};
	static const char message[SIZE];
	nsec_t start, now;
	pthread_t reader;

	loop_pair_open(&s.pair, nodelay);
	pthread_barrier_init(&s.gate, NULL, 2);
	NET_CHECK_EQ(pthread_create(&reader, NULL, read_all, &s), 0);
	place_pin(cpus[0]);
	pthread_barrier_wait(&s.gate);
	start = clock_now();
	do {
		for (int i = 0; i < 64; i++)
			NET_CHECK_EQ(tsock_send(&s.pair.from, message, SIZE, 0), SIZE);
		now = clock_now();
	} while (now - start < SECONDS * NSEC_PER_SEC);
	NET_CHECK_EQ(tsock_shutdown(&s.pair.from, SHUT_WR), 0);
	pthread_join(reader, NULL);
	pthread_barrier_destroy(&s.gate);
	now = clock_now();
	loop_pair_close(&s.pair);
	return (double)s.bytes / SIZE * NSEC_PER_SEC / (double)(now - start);
}

int main(int argc, char **argv)
{
	int cpus[2];

	if (argc != 2) {
		fprintf(stderr, "usage: loop_tp CPU,CPU\n");
		return 2;
	}
	crew_parse_cpus(argv[1], cpus);
	loop_pair_start();
	printf("messages_per_s=%.0f ", stream(cpus, true));
	printf("nagle=%.0f\n", stream(cpus, false));
	return 0;
}
