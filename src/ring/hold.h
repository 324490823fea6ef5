/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holding a ring: how one thread at a time gets to work on it.
 *
 * Role		hold_acquire(), hold_release(): app and internal; hold_try(): any.
 *		The mode is a constant at every hot call, so each mode is code
 *		of its own.
 * Lifetime	embedded in struct ring.
 * Ordering	what a holder wrote is visible to the next one.
 *		HOLD_SINGLE: the program has one thread.  It pays a plain store
 *		and a load; whoever else wants in (the internal thread) sets
 *		->wanted and calls membarrier(2), after which either it sees
 *		->inside or the application sees ->wanted.
 * Progress	a thread holds one ring at a time and waits for none while it
 *		holds one (hold_current tells).  A signal handler that comes in
 *		while its thread holds a ring is refused, never deadlocked.
 */
#ifndef RING_HOLD_H
#define RING_HOLD_H

#include <ck_spinlock.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/busy.h"
#include "base/delay.h"

enum hold_mode {
	HOLD_SINGLE, /* one thread: no locked instruction */
	HOLD_SPIN,
	HOLD_MUTEX,
	HOLD_YIELD, /* yields soon: more threads than cores */
	HOLD_MODES,
};

struct hold {
	ck_spinlock_fas_t spin;
	int inside; /* HOLD_SINGLE, app: 1 while held */
	int wanted; /* HOLD_SINGLE, internal: 1 while it wants or holds */
	pthread_mutex_t mutex;
};

/* The ring this thread holds: hold_current, see base/busy.h. */

void hold_init(struct hold *hold);

/*
 * Prepares the process for HOLD_SINGLE; false when membarrier(2) is missing:
 * the caller must use another mode.
 */
bool hold_single_supported(void);

void hold_wait_wanted(struct hold *hold);

/*
 * A holder is done after some microseconds, unless it lost its processor; then
 * whoever waits gives his away, too, instead of burning a time slice.
 */
#define HOLD_SPINS 2000
#define HOLD_SPINS_SHARED 100 /* HOLD_YIELD: that is the usual case */
void hold_lock_slow(ck_spinlock_fas_t *spin, int spins);
bool hold_try_single(struct hold *hold);

/* Waits for the ring.  False, at once, when this thread already holds one. */
static inline __attribute__((always_inline)) bool hold_acquire(struct hold *hold,
							       enum hold_mode mode)
{
	if (__builtin_expect(hold_current != NULL, 0))
		return false;
	/* Before the lock: a signal handler in between must be refused, too. */
	__atomic_store_n(&hold_current, hold, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	delay_at(DELAY_HOLD_ACQUIRE);
	switch (mode) {
	case HOLD_SINGLE:
		__atomic_store_n(&hold->inside, 1, __ATOMIC_RELAXED);
		__atomic_signal_fence(__ATOMIC_SEQ_CST); /* membarrier() does the rest */
		/* acquire: pairs with hold_release_single() by the internal thread */
		if (__builtin_expect(__atomic_load_n(&hold->wanted, __ATOMIC_ACQUIRE), 0))
			hold_wait_wanted(hold);
		break;
	case HOLD_MUTEX:
		pthread_mutex_lock(&hold->mutex);
		break;
	case HOLD_YIELD:
		if (!ck_spinlock_fas_trylock(&hold->spin))
			hold_lock_slow(&hold->spin, HOLD_SPINS_SHARED);
		break;
	case HOLD_SPIN:
	default:
		if (__builtin_expect(!ck_spinlock_fas_trylock(&hold->spin), 0))
			hold_lock_slow(&hold->spin, HOLD_SPINS);
		break;
	}
	delay_at(DELAY_HOLD_ACQUIRED);
	return true;
}

/*
 * Does not wait.  In HOLD_SINGLE it is for threads other than the program's
 * (the internal thread); release with hold_release_other().
 */
static inline bool hold_try(struct hold *hold, enum hold_mode mode)
{
	bool got;

	if (hold_current)
		return false;
	__atomic_store_n(&hold_current, hold, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	switch (mode) {
	case HOLD_SINGLE:
		got = hold_try_single(hold);
		break;
	case HOLD_MUTEX:
		got = pthread_mutex_trylock(&hold->mutex) == 0;
		break;
	default:
		got = ck_spinlock_fas_trylock(&hold->spin);
		break;
	}
	if (!got)
		__atomic_store_n(&hold_current, NULL, __ATOMIC_RELAXED);
	delay_at(DELAY_HOLD_ACQUIRED);
	return got;
}

static inline __attribute__((always_inline)) void hold_release(struct hold *hold,
							       enum hold_mode mode)
{
	delay_at(DELAY_HOLD_RELEASE);
	switch (mode) {
	case HOLD_SINGLE:
		/* release: pairs with hold_try_single() */
		__atomic_store_n(&hold->inside, 0, __ATOMIC_RELEASE);
		break;
	case HOLD_MUTEX:
		pthread_mutex_unlock(&hold->mutex);
		break;
	default:
		ck_spinlock_fas_unlock(&hold->spin);
		break;
	}
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&hold_current, NULL, __ATOMIC_RELAXED);
}

/* After hold_try(): in HOLD_SINGLE the flag is another one. */
static inline void hold_release_other(struct hold *hold, enum hold_mode mode)
{
	if (mode != HOLD_SINGLE) {
		hold_release(hold, mode);
		return;
	}
	/* release: pairs with hold_acquire() and hold_wait_wanted() */
	__atomic_store_n(&hold->wanted, 0, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&hold_current, NULL, __ATOMIC_RELAXED);
}

#endif
