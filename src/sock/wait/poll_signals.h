/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals during a call that spins: as if the thread slept in the kernel.
 *
 * Without a mask, a signal handler that has run since the call began ends the call.  With a
 * mask, the program's signals are blocked while the thread spins, and every look at the
 * kernel (ppoll(2) with the mask and a timeout of 0) admits a pending signal that the mask
 * allows, exactly as a sleep with the mask does: the call ends with -EINTR if and only if a
 * handler ran under the mask.
 *
 * Role		the thread in the call.
 */
#ifndef SOCK_WAIT_POLL_SIGNALS_H
#define SOCK_WAIT_POLL_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "sock/core/sock.h"

struct poll_signals {
	const sigset_t *mask; /* the call's, or NULL */
	unsigned handled;     /* when the call began */
	bool blocked;
	uint64_t before; /* the thread's own mask while blocked */
};

static inline void poll_signals_begin(struct poll_signals *signals, const sigset_t *mask)
{
	signals->mask = mask;
	signals->handled = sock_signals.handled;
	signals->blocked = false;
}

void poll_signals_block_slow(struct poll_signals *signals);
void poll_signals_end_slow(struct poll_signals *signals);

/* The call is about to wait. */
static inline void poll_signals_block(struct poll_signals *signals)
{
	if (signals->mask && !signals->blocked)
		poll_signals_block_slow(signals);
}

/* Also when the thread is cancelled. */
static inline void poll_signals_end(struct poll_signals *signals)
{
	if (signals->blocked)
		poll_signals_end_slow(signals);
}

static inline bool poll_signals_interrupted(const struct poll_signals *signals)
{
	return !signals->mask && sock_signals.handled != signals->handled;
}

#endif
