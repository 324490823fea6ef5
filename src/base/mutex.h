/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mutexes of the library.  A signal handler of the program that interrupts a thread and
 * calls us must not find a mutex taken by its own thread, so they are held with signals
 * blocked.  pthread_mutex_lock() itself is called here, and where signals are held off in
 * another way (busy.h): tests/lint has the list.
 *
 * Role		any thread, handlers included.  Pairs nest; only the outermost costs
 *		system calls (signals.h).
 */
#ifndef BASE_MUTEX_H
#define BASE_MUTEX_H

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/signals.h"

/* Of a caller that has blocked signals, and keeps them so until it has let go. */
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

/* Does not wait; false: somebody has it. */
static inline bool mutex_trylock(pthread_mutex_t *mutex)
{
	signals_block();
	if (!pthread_mutex_trylock(mutex))
		return true;
	signals_unblock();
	return false;
}

#endif
