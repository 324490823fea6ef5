/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutexes of the library.  They are held with signals blocked, so that a signal handler of the
 * program that calls us never finds a mutex locked by its own thread.  pthread_mutex_lock()
 * itself is called only here and where signals are blocked or deferred in another way
 * (busy.h); tests/lint/text_test.sh has the list.
 *
 * Role		any thread, handlers included.  Pairs nest; only the outermost pair
 *		makes system calls (signals.h).
 */
#ifndef BASE_MUTEX_H
#define BASE_MUTEX_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/signals.h"

/* The caller has blocked signals and keeps them blocked until it has unlocked the mutex. */
static inline void mutex_lock_blocked(pthread_mutex_t *mutex)
{
	assert(signals_are_blocked());
	pthread_mutex_lock(mutex);
}

static inline void mutex_unlock_blocked(pthread_mutex_t *mutex)
{
	assert(signals_are_blocked());
	pthread_mutex_unlock(mutex);
}

static inline void mutex_lock(pthread_mutex_t *mutex)
{
	signals_block();
	mutex_lock_blocked(mutex);
}

static inline void mutex_unlock(pthread_mutex_t *mutex)
{
	mutex_unlock_blocked(mutex);
	signals_unblock();
}

/* Does not block; false if the mutex is locked. */
static inline bool mutex_trylock(pthread_mutex_t *mutex)
{
	signals_block();
	if (!pthread_mutex_trylock(mutex))
		return true;
	signals_unblock();
	return false;
}

#endif
