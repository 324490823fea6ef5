/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control lock: serialises slow calls of the whole process.
 *
 * Role		any thread that holds no ring.  Who has it may take rings, never the other
 *		way round.
 * Signals	are blocked while it is held, so that no handler meets a lock of its own
 *		thread.
 */
#ifndef SOCK_CORE_CONTROL_H
#define SOCK_CORE_CONTROL_H

#include <assert.h>
#include <stdbool.h>

#include "base/busy.h"

/*
 * False for a thread that holds a ring (a handler that came in the middle of a hot call): the
 * call is refused with -EAGAIN.  The internal thread only tries it.
 */
bool control_lock(void) __attribute__((warn_unused_result));
bool control_trylock(void);
void control_unlock(void);

/* Before fork(), with signals blocked; the child makes it anew, and has it, too. */
void control_fork_prepare(void);
void control_fork_child(void);
/* In both: lets go of it. */
void control_fork_done(void);

/* Does this thread have it? */
bool control_is_held(void);

/*
 * At the beginning of what may be called with the lock only; and of what may be called with
 * no ring held, either.  Builds with assertions end the process where that is not so.
 */
#define control_assert_held() assert(control_is_held())
#define control_assert_no_ring() assert(!hold_current)

#endif
