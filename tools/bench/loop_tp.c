/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages one way over the loop-back port: what sockets and the TCP engine can do
 * when there is neither a wire nor a kernel.
 *
 *	loop_tp CPU,CPU
 *
 * One thread sends messages of 100 bytes for SECONDS, the other one reads them, each
 * with a ring of its own; one send a message, and reads of what is there, as sockperf
 * does.  Prints messages_per_s for TCP_NODELAY, and nagle for a socket without it,
 * as sockperf has it unless it is told otherwise.
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
	pthread_barrier_t gate; /* both are on their processors */
	/* reader, when it has ended */
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

/* Messages a second that were received. */
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
