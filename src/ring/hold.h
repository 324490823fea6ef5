/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holding a ring: one thread at a time works on it.
 *
 * Role		hold_acquire(), hold_release(): app and internal; hold_try(): any.
 *		The mode is a constant at every hot call, so the compiler makes
 *		separate code for each mode.
 * Lifetime	embedded in struct ring.
 * Ordering	what a holder wrote is visible to the next one.
 *		HOLD_SINGLE: the program has one thread.  It executes a plain
 *		store and a load.  The internal thread sets ->wanted and calls
 *		membarrier(2), after which either it sees ->inside or the
 *		program's thread sees ->wanted.
 * Progress	a thread holds one ring at a time and waits for none while it
 *		holds one (hold_current tells).  A signal handler that interrupts
 *		the holder of a ring is refused; it does not deadlock.
 */
#ifndef RING_HOLD_H
#define RING_HOLD_H

#include <ck_spinlock.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/busy.h"
#include "base/delay.h"

enum hold_mode {
	HOLD_SINGLE, /* the program has one thread: no locked instruction */
	HOLD_SPIN,
	HOLD_MUTEX,
	HOLD_YIELD, /* more threads than cores: yields after a few spins */
	HOLD_MODES,
};

/* The ring that this thread holds is hold_current (base/busy.h). */
struct hold {
	ck_spinlock_fas_t spin;
	int inside; /* atomic: HOLD_SINGLE, the program's thread writes: 1 while it holds */
	int wanted; /* atomic: HOLD_SINGLE, the internal thread writes: 1 while it wants or holds */
	pthread_mutex_t mutex;
};

void hold_init(struct hold *hold);

/*
 * Prepares the process for HOLD_SINGLE.  False: membarrier(2) is missing, and the caller must
 * use another mode.
 */
bool hold_single_supported(void);

/* app, HOLD_SINGLE: ->wanted is set; waits until it is not, with ->inside set on return. */
void hold_wait_wanted(struct hold *hold);

/*
 * Takes a spin lock that is taken.  Its holder releases it within some microseconds, unless it
 * lost its processor; after `spins` rounds the caller yields its own, too.
 */
#define HOLD_SPINS 2000
#define HOLD_SPINS_SHARED 100 /* HOLD_YIELD: holders often lose their processor */
void hold_lock_slow(ck_spinlock_fas_t *spin, int spins);
/* internal, HOLD_SINGLE: does not wait; release with hold_release_other(). */
bool hold_try_single(struct hold *hold);

/* Waits for the ring.  False, without waiting: this thread holds one already. */
static inline __attribute__((always_inline)) bool hold_acquire(struct hold *hold,
							       enum hold_mode mode)
{
	if (__builtin_expect(hold_current != NULL, 0))
		return false;
	/* Orders it before the lock is taken: a signal handler in between must be refused, too. */
	__atomic_store_n(&hold_current, hold, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	delay_at(DELAY_HOLD_ACQUIRE);
	switch (mode) {
	case HOLD_SINGLE:
		__atomic_store_n(&hold->inside, 1, __ATOMIC_RELAXED);
		/* Pairs with membarrier(2) in hold_try_single(): no fence instruction here. */
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		/* acquire: pairs with the stores of 0 in hold_release_other(), hold_try_single() */
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
 * Does not wait.  False: another thread holds the ring, or this thread holds one already.
 * In HOLD_SINGLE only the internal thread calls it; release with hold_release_other().
 */
static inline bool hold_try(struct hold *hold, enum hold_mode mode)
{
	bool got;

	if (hold_current)
		return false;
	/* Orders it before the lock is taken: a signal handler in between must be refused, too. */
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
		/* release: pairs with the load of ->inside in hold_try_single() */
		__atomic_store_n(&hold->inside, 0, __ATOMIC_RELEASE);
		break;
	case HOLD_MUTEX:
		pthread_mutex_unlock(&hold->mutex);
		break;
	default:
		ck_spinlock_fas_unlock(&hold->spin);
		break;
	}
	/* Orders it after the release: a signal handler in between is still refused. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&hold_current, NULL, __ATOMIC_RELAXED);
}

/* Releases what hold_try() took: in HOLD_SINGLE that set ->wanted, not ->inside. */
static inline void hold_release_other(struct hold *hold, enum hold_mode mode)
{
	if (mode != HOLD_SINGLE) {
		hold_release(hold, mode);
		return;
	}
	/* release: pairs with the loads of ->wanted in hold_acquire(), hold_wait_wanted() */
	__atomic_store_n(&hold->wanted, 0, __ATOMIC_RELEASE);
	/* Orders it after the release: a signal handler in between is still refused. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&hold_current, NULL, __ATOMIC_RELAXED);
}

#endif
