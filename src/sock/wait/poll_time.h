/* SPDX-License-Identifier: BSD-2-Clause */
/* The timeouts of poll, select and epoll_wait. */
#ifndef SOCK_WAIT_POLL_TIME_H
#define SOCK_WAIT_POLL_TIME_H

#include "base/clock.h"
#include "base/param.h"
#include "sock/wait/spin.h"

/*
 * No call may return early by the kernel's clock, which differs from ours by some
 * microseconds.  The kernel itself is 50 microseconds late.
 */
#define POLL_SLACK (10 * NSEC_PER_USEC)

/* timeout: 0 is now, NSEC_NEVER none. */
static inline nsec_t poll_deadline(nsec_t start, nsec_t timeout)
{
	if (timeout <= 0)
		return start;
	return timeout < NSEC_NEVER - POLL_SLACK - start ? start + timeout + POLL_SLACK
							 : NSEC_NEVER;
}

/* When to stop polling and sleep. */
static inline nsec_t poll_spin_end(nsec_t start)
{
	if (params.select_poll < 0)
		return NSEC_NEVER;
	return start + params.select_poll * NSEC_PER_USEC;
}

/* Is it time to sleep? */
static inline bool poll_spin_ended(nsec_t now, nsec_t end, const struct spin *spin)
{
	return now >= end || (end != NSEC_NEVER && spin_is_crowded(spin));
}

#endif
