/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A mutex of a few instructions, for calls that take it each time: pthread_mutex_lock() and its
 * counterpart are sixty.
 *
 * Role		any thread, between busy_lock() and busy_unlock(): a signal handler that
 *		interrupts the owner must not take it.  It does not nest.
 * Lifetime	all zero: free.  In a forked child it is cleared, whoever had it in the parent.
 * Ordering	what an owner wrote is visible to the next one.
 * Progress	a thread that finds it taken sleeps in the kernel.  Whoever has slept leaves it marked
 *		as wanted, so that its own release wakes the next one.
 */
#ifndef SOCK_WAIT_LIGHT_H
#define SOCK_WAIT_LIGHT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/busy.h"

enum {
	LIGHT_FREE,
	LIGHT_TAKEN,
	LIGHT_WANTED, /* taken, and threads may sleep */
};

struct light_mutex {
	uint32_t state; /* any, atomic */
};

void light_wait(struct light_mutex *mutex);
void light_wake(struct light_mutex *mutex);

static inline void light_lock(struct light_mutex *mutex)
{
	uint32_t state = LIGHT_FREE;

	assert(busy_locks);
	/* acquire: pairs with light_unlock() */
	if (__builtin_expect(!__atomic_compare_exchange_n(&mutex->state, &state, LIGHT_TAKEN, false,
							  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED),
			     0))
		light_wait(mutex);
}

static inline void light_unlock(struct light_mutex *mutex)
{
	/* release: pairs with light_lock() and light_wait() */
	if (__builtin_expect(__atomic_exchange_n(&mutex->state, LIGHT_FREE, __ATOMIC_RELEASE) ==
				     LIGHT_WANTED,
			     0))
		light_wake(mutex);
}

#endif
