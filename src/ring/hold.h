/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holding a ring: one thread at a time works on it.
 *
 * Role		hold_acquire(), hold_release(): app and internal; hold_try(): any.
 *		The mode is a constant at every hot call, so the compiler makes
 *		separate code for each mode.
 * Lifetime	embedded in struct ring.
 * Ordering	what a holder wrote is visible to the next one.
 *		HOLD_SINGLE: one thread of the program, the owner, holds rings by
 *		plain stores and loads.  Another thread sets hold_single.wanted
 *		and calls membarrier(2), after which either it sees
 *		hold_single.inside, or the owner sees hold_single.wanted.
 *		The internal thread wants one ring, and gives it back.  A second
 *		thread of the program wants all of them for good: the process
 *		goes over to HOLD_SPIN as soon as the owner is in no ring.
 * Progress	a thread holds one ring at a time and waits for none while it
 *		holds one (hold_current tells).  A signal handler that interrupts
 *		the holder of a ring is refused; it does not deadlock.
 */
#ifndef RING_HOLD_H
#define RING_HOLD_H

#include <assert.h>
#include <ck_spinlock.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/busy.h"
#include "base/delay.h"

enum hold_mode {
	HOLD_SINGLE, /* the program has one thread so far: no locked instruction */
	HOLD_SPIN,
	HOLD_MUTEX,
	HOLD_YIELD, /* more threads than cores: yields after a few spins */
	HOLD_MODES,
};

/*
 * The thread mode of this process: set before the first ring is made.  It changes once at most,
 * from HOLD_SINGLE to HOLD_SPIN, while no thread holds a ring: what a thread took in the old mode
 * it has released in the old mode.
 */
extern enum hold_mode ring_mode;

/* any */
static inline enum hold_mode ring_mode_now(void)
{
	/* acquire: pairs with the store in go_over() (hold.c) */
	return __atomic_load_n(&ring_mode, __ATOMIC_ACQUIRE);
}

/* The ring that this thread holds is hold_current (base/busy.h). */
struct hold {
	ck_spinlock_fas_t spin; /* HOLD_SINGLE: free */
	pthread_mutex_t mutex;
};

void hold_init(struct hold *hold);

/* HOLD_SINGLE, of the process: who holds rings. */
struct hold_single {
	struct hold *inside; /* atomic, the owner writes: the ring that it holds or is about to */
	/*
	 * atomic, under lock to write: the ring that the internal thread wants or holds, NULL:
	 * none; HOLD_LEFT: a second thread has come, or HOLD_SINGLE has ended.
	 */
	struct hold *wanted;
	bool left; /* atomic, under lock to write: ring_mode is HOLD_SPIN now */
	int tid;   /* under lock: of the owner, the first thread that held a ring; 0: none yet */
	ck_spinlock_fas_t lock;
} __attribute__((aligned(64)));
extern struct hold_single hold_single;

/*
 * This thread is the owner, or was until HOLD_SINGLE ended: then hold_single.wanted is HOLD_LEFT.
 * The thread itself writes.
 */
extern __thread bool hold_owner __attribute__((tls_model("initial-exec")));

/*
 * Prepares the process for membarrier(2).  False: it is missing, and the caller must use another
 * mode than HOLD_SINGLE.
 */
bool hold_single_supported(void);
/* Where no other thread exists: whichever thread comes first is the owner. */
void hold_single_begin(void);
/* In a child of fork(2): its thread may be another one than the owner.  Any mode. */
void hold_fork_child(void);
/*
 * any, holding no ring, about to end the process: the calling thread may hold rings from now on;
 * if it is a second one the process goes over to HOLD_SPIN without a warning.
 */
void hold_at_exit(void);
/* any: has the process gone over from HOLD_SINGLE to HOLD_SPIN? */
static inline bool hold_single_left(void)
{
	/* acquire: pairs with the store in go_over() (hold.c) */
	return __atomic_load_n(&hold_single.left, __ATOMIC_ACQUIRE);
}

/*
 * app, HOLD_SINGLE, not the owner: becomes the owner; or the process goes over, and the thread
 * takes the spin lock.  False: it can neither (the user was told).
 */
bool hold_as_other(struct hold *hold);
/*
 * app, HOLD_SINGLE, the owner: hold_single.wanted is set.  On return the ring is held: by
 * hold_single.inside, or, after HOLD_SINGLE, by the spin lock.
 */
void hold_wait_wanted(struct hold *hold);

/*
 * Takes a spin lock that is taken.  Its holder releases it within some microseconds, unless it
 * lost its processor; after `spins` rounds the caller yields its own, too.
 */
#define HOLD_SPINS 2000
#define HOLD_SPINS_SHARED 100 /* HOLD_YIELD: holders often lose their processor */
void hold_lock_slow(ck_spinlock_fas_t *spin, int spins);
/*
 * internal, HOLD_SINGLE: does not wait for the owner; release with hold_release_other(), or, if
 * HOLD_SINGLE has ended meanwhile (hold_single_left()), as in HOLD_SPIN.
 */
bool hold_try_single(struct hold *hold);

/* app, HOLD_SINGLE, the owner: as hold_acquire(). */
static inline __attribute__((always_inline)) void hold_enter_single(struct hold *hold)
{
	delay_at(DELAY_HOLD_OWNER);
	__atomic_store_n(&hold_single.inside, hold, __ATOMIC_RELAXED);
	/* Pairs with membarrier(2) in hold.c: no fence instruction here. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	/* acquire: pairs with the stores to ->wanted in hold.c and hold_release_other() */
	if (__builtin_expect(__atomic_load_n(&hold_single.wanted, __ATOMIC_ACQUIRE) != NULL, 0))
		hold_wait_wanted(hold);
}

/*
 * Waits for the ring.  False, without waiting: this thread holds one already, or it is a second
 * thread in HOLD_SINGLE and hold_as_other() failed.
 */
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
		/* The compare that notices a second thread, which may not write ->inside. */
		if (__builtin_expect(hold_owner, 1)) {
			hold_enter_single(hold);
		} else if (!hold_as_other(hold)) {
			__atomic_store_n(&hold_current, NULL, __ATOMIC_RELAXED);
			return false;
		}
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
		/*
		 * A call that began before the process went over holds the spin lock; until
		 * then nobody does.  Before ->inside, after which another thread may take it.
		 */
		ck_spinlock_fas_unlock(&hold->spin);
		/* release: pairs with the loads of ->inside in hold.c */
		__atomic_store_n(&hold_single.inside, NULL, __ATOMIC_RELEASE);
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

/* Releases what hold_try() took: in HOLD_SINGLE that is ->wanted, not ->inside. */
static inline void hold_release_other(struct hold *hold, enum hold_mode mode)
{
	if (mode != HOLD_SINGLE) {
		hold_release(hold, mode);
		return;
	}
	/* release: pairs with the loads of ->wanted in hold_enter_single(), hold_wait_wanted() */
	__atomic_store_n(&hold_single.wanted, NULL, __ATOMIC_RELEASE);
	ck_spinlock_fas_unlock(&hold_single.lock);
	/* Orders it after the release: a signal handler in between is still refused. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&hold_current, NULL, __ATOMIC_RELAXED);
}

/* The first statement of a function for the holder.  It is an assertion. */
#define ring_assert_held(ring) ((void)(ring), assert(hold_current == &(ring)->hold))

#endif
