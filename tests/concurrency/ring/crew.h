/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that begin together, and work for a limited time.  On a busy machine a thread may not
 * have run at all when that is over: a test that is about nothing then works once in any case, or
 * says what has to be reached (crew_run_until()).
 *
 * In HOLD_SINGLE a crew is the only thread of the program (number 0) and the internal
 * thread (number 1); in the other modes it is CREW_MAX threads of the program.
 */
#ifndef TESTS_CONCURRENCY_RING_CREW_H
#define TESTS_CONCURRENCY_RING_CREW_H

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "ring/ring.h"
#include "tests/check.h"
#include "vma_test.h"

#define CREW_MAX 4
#define CREW_TIME (400 * NSEC_PER_MSEC)	  /* duration of a test in one mode */
#define CREW_PATIENCE (60 * NSEC_PER_SEC) /* longer than that, with what was not reached by then */

static const enum hold_mode crew_modes[] = {HOLD_SINGLE, HOLD_SPIN, HOLD_MUTEX, HOLD_YIELD};
#define CREW_MODES (sizeof(crew_modes) / sizeof(crew_modes[0]))

struct crew;

struct worker {
	struct crew *crew;
	unsigned number;
	unsigned seed;
	pthread_t thread;
};

struct crew {
	/* set before the threads start */
	void (*work)(struct worker *worker);
	bool (*enough)(void); /* any; NULL: the time alone decides */
	unsigned size;
	nsec_t end;
	/* any, atomic */
	unsigned meeting, arrived;
	struct worker workers[CREW_MAX];
};

static inline bool crew_goes_on(const struct crew *crew)
{
	nsec_t now = clock_now();

	return now < crew->end ||
	       (crew->enough && !crew->enough() && now < crew->end + CREW_PATIENCE);
}

/* All threads arrive before any leaves; they leave together, because they spin. */
static inline void crew_meet(struct crew *crew)
{
	unsigned meeting = __atomic_load_n(&crew->meeting, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(&crew->arrived, 1, __ATOMIC_ACQ_REL) == crew->size) {
		__atomic_store_n(&crew->arrived, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&crew->meeting, meeting + 1, __ATOMIC_RELEASE);
		return;
	}
	for (unsigned n = 0; __atomic_load_n(&crew->meeting, __ATOMIC_ACQUIRE) == meeting; n++) {
		if (n > 10000)
			sched_yield();
	}
}

/* Waits some hundred nanoseconds, or yields to another thread. */
static inline void worker_pause(struct worker *worker)
{
	unsigned n = (unsigned)rand_r(&worker->seed) % 64;

	if (n == 0)
		sched_yield();
	for (volatile unsigned i = 0; i < n; i++)
		;
}

/*
 * Stores to cache lines that the other threads store to as well. These stores wait in the store
 * buffer, and the next store waits behind them, while loads overtake it. Without this, a
 * missing fence hardly ever shows.
 */
static inline void crew_stall_stores(void)
{
	static struct {
		_Alignas(64) unsigned word;
	} lines[8];

	for (unsigned i = 0; i < 8; i++)
		__atomic_store_n(&lines[i].word, i, __ATOMIC_RELAXED);
}

static inline void *crew_main(void *arg)
{
	struct worker *worker = arg;

	ring_thread.internal = ring_mode == HOLD_SINGLE && worker->number == 1;
	crew_meet(worker->crew);
	worker->crew->work(worker);
	TEST_CHECK(!hold_current);
	ring_thread.internal = false;
	return NULL;
}

/*
 * Runs work in every thread, in the mode, until the time is over and enough() is true; returns when
 * all have finished.
 */
static inline void crew_run_until(enum hold_mode mode, unsigned size,
				  void (*work)(struct worker *worker), bool (*enough)(void))
{
	struct crew crew = {.work = work, .enough = enough};

	clock_init();
	assert_true(mode != HOLD_SINGLE || hold_single_supported());
	ring_mode = mode;
	if (mode == HOLD_SINGLE)
		hold_single_begin();
	crew.size = mode == HOLD_SINGLE ? 2 : size;
	crew.end = clock_now() + CREW_TIME;
	for (unsigned i = 0; i < crew.size; i++) {
		struct worker *worker = &crew.workers[i];

		*worker = (struct worker){.crew = &crew, .number = i, .seed = 4711 + i};
		assert_int_equal(pthread_create(&worker->thread, NULL, crew_main, worker), 0);
	}
	for (unsigned i = 0; i < crew.size; i++)
		pthread_join(crew.workers[i].thread, NULL);
}

static inline void crew_run(enum hold_mode mode, unsigned size, void (*work)(struct worker *worker))
{
	crew_run_until(mode, size, work, NULL);
}

/* As the hot calls do: the mode is a constant. False: hold_try() failed. */
static inline bool crew_hold(struct ring *ring)
{
	if (ring_thread.internal)
		return ring_try(ring);
	switch (ring_mode) {
	case HOLD_SINGLE:
		return ring_hold(ring, HOLD_SINGLE);
	case HOLD_MUTEX:
		return ring_hold(ring, HOLD_MUTEX);
	case HOLD_YIELD:
		return ring_hold(ring, HOLD_YIELD);
	case HOLD_SPIN:
	default:
		return ring_hold(ring, HOLD_SPIN);
	}
}

static inline void crew_release(struct ring *ring)
{
	if (ring_thread.internal) {
		ring_release_cold(ring);
		return;
	}
	switch (ring_mode) {
	case HOLD_SINGLE:
		ring_release(ring, HOLD_SINGLE);
		break;
	case HOLD_MUTEX:
		ring_release(ring, HOLD_MUTEX);
		break;
	case HOLD_YIELD:
		ring_release(ring, HOLD_YIELD);
		break;
	case HOLD_SPIN:
	default:
		ring_release(ring, HOLD_SPIN);
		break;
	}
}

#endif
