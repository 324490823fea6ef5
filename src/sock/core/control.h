/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control lock: one mutex for the slow calls of the whole process (bind, connect, listen,
 * close, options, moves, process sharing).  Where a comment says "control lock", the caller
 * has this lock.
 *
 * Role		any thread that holds no ring.  A thread with the lock may hold rings, one at a
 *		time; a thread that holds a ring never takes the lock.
 * Signals	are blocked in the thread that has the lock, so that no signal handler finds it
 *		locked by its own thread.
 */
#ifndef SOCK_CORE_CONTROL_H
#define SOCK_CORE_CONTROL_H

#include <assert.h>
#include <stdbool.h>

#include "base/busy.h"

/*
 * False: this thread holds a ring (it runs a signal handler that interrupted a hot call), and
 * the call fails with -EAGAIN.  The internal thread uses control_trylock() only.
 */
bool control_lock(void) __attribute__((warn_unused_result));
bool control_trylock(void);
void control_unlock(void);

/* Before fork(), with signals blocked: takes the lock.  The child makes a new one and has it. */
void control_fork_prepare(void);
void control_fork_child(void);
/* In parent and child: unlocks. */
void control_fork_done(void);

/* Does this thread have the lock? */
bool control_is_held(void);

/*
 * The first statements of a function that needs the lock, and of one that must be called with
 * no ring held.  They are assertions.
 */
#define control_assert_held() assert(control_is_held())
#define control_assert_no_ring() assert(!hold_current)

#endif
