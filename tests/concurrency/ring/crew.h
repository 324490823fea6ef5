/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads that begin together, and what is bounded in time.
 *
 * In HOLD_SINGLE a crew is the program's one thread (number 0) and the internal
 * thread (number 1); in the other modes it is CREW_MAX threads of the program.
 */
#ifndef TESTS_CONCURRENCY_RING_CREW_H
#define TESTS_CONCURRENCY_RING_CREW_H

#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "ring/ring.h"
#include "vma_test.h"

#define CREW_MAX 4
#define CREW_TIME (400 * NSEC_PER_MSEC) /* of a test in one mode */

static const enum hold_mode crew_modes[] = {HOLD_SINGLE, HOLD_SPIN, HOLD_MUTEX, HOLD_YIELD};
#define CREW_MODES (sizeof(crew_modes) / sizeof(crew_modes[0]))

/* cmocka's belong to the thread that runs the test. */
#define CREW_CHECK(what)                                                                   \
	do {                                                                               \
		if (!(what)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			abort();                                                           \
		}                                                                          \
	} while (0)

struct crew;

struct hand {
	struct crew *crew;
	unsigned number;
	unsigned seed;
	pthread_t thread;
};

struct crew {
	/* set before it begins */
	void (*work)(struct hand *hand);
	unsigned size;
	nsec_t end;
	/* any, atomic */
	unsigned meeting, arrived;
	struct hand hands[CREW_MAX];
};

static inline bool crew_goes_on(const struct crew *crew)
{
	return clock_now() < crew->end;
}

/* All arrive before anybody leaves; they leave together, not when they are woken. */
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

/* Some hundred nanoseconds, or a turn for another thread. */
static inline void hand_dawdle(struct hand *hand)
{
	unsigned n = (unsigned)rand_r(&hand->seed) % 64;

	if (n == 0)
		sched_yield();
	for (volatile unsigned i = 0; i < n; i++)
		;
}

/*
 * Stores to lines that the others store to as well: they wait in the store
 * buffer, and whatever is stored next waits behind them, while loads overtake
 * it.  A missing fence shows after this, or hardly ever.
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
	struct hand *hand = arg;

	ring_thread.internal = ring_mode == HOLD_SINGLE && hand->number == 1;
	crew_meet(hand->crew);
	hand->crew->work(hand);
	CREW_CHECK(!hold_current);
	ring_thread.internal = false;
	return NULL;
}

/* Runs work on every hand, in the mode; returns when all have. */
static inline void crew_run(enum hold_mode mode, unsigned size, void (*work)(struct hand *hand))
{
	struct crew crew = {.work = work};

	clock_init();
	assert_true(mode != HOLD_SINGLE || hold_single_supported());
	ring_mode = mode;
	crew.size = mode == HOLD_SINGLE ? 2 : size;
	crew.end = clock_now() + CREW_TIME;
	for (unsigned i = 0; i < crew.size; i++) {
		struct hand *hand = &crew.hands[i];

		*hand = (struct hand){.crew = &crew, .number = i, .seed = 4711 + i};
		assert_int_equal(pthread_create(&hand->thread, NULL, crew_main, hand), 0);
	}
	for (unsigned i = 0; i < crew.size; i++)
		pthread_join(crew.hands[i].thread, NULL);
}

/* As the hot calls do it: the mode is a constant.  False: hold_try() found it held. */
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
