/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two threads that free the same packets at the same time, round after round: each packet is freed
 * once.  The test's thread fills packets 0 to FREERS_BATCH - 1 before each round.
 */
#ifndef TESTS_CONCURRENCY_SOCK_FREERS_H
#define TESTS_CONCURRENCY_SOCK_FREERS_H

#include <pthread.h>

#include "duo.h"

#define FREERS_BATCH 8
#define FREERS_ROUNDS 300

struct freers {
	int (*free_one)(unsigned i); /* 0: it is free now */
	int twice;		     /* what it returns if it was free already */
	unsigned freed;		     /* atomic */
	bool ends;		     /* written between the barriers */
	pthread_barrier_t begin, end;
	pthread_t tids[2];
};

static void *freer(void *arg)
{
	struct freers *f = arg;

	for (;;) {
		pthread_barrier_wait(&f->begin);
		if (f->ends)
			return NULL;
		for (unsigned i = 0; i < FREERS_BATCH; i++) {
			int rc = f->free_one(i);

			NET_CHECK(rc == 0 || rc == f->twice);
			if (!rc)
				__atomic_fetch_add(&f->freed, 1, __ATOMIC_RELAXED);
		}
		pthread_barrier_wait(&f->end);
	}
}

static void freers_start(struct freers *f)
{
	f->freed = 0;
	f->ends = false;
	pthread_barrier_init(&f->begin, NULL, 3);
	pthread_barrier_init(&f->end, NULL, 3);
	for (unsigned i = 0; i < 2; i++)
		NET_CHECK_EQ(pthread_create(&f->tids[i], NULL, freer, f), 0);
}

/* round: from 0 on. */
static void freers_free(struct freers *f, unsigned round)
{
	pthread_barrier_wait(&f->begin);
	pthread_barrier_wait(&f->end);
	NET_CHECK_EQ(f->freed, (round + 1) * FREERS_BATCH); /* each once */
}

static void freers_stop(struct freers *f)
{
	f->ends = true;
	pthread_barrier_wait(&f->begin);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(f->tids[i], NULL);
}

#endif
