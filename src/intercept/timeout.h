/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timeouts of programs as durations. No timeout is NSEC_NEVER, and so is one of more than a
 * hundred years.
 */
#ifndef INTERCEPT_TIMEOUT_H
#define INTERCEPT_TIMEOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

#include "base/clock.h"

#define TIMEOUT_LONGEST_SEC ((time_t)100 * 366 * 86400)

static inline nsec_t timeout_of_msec(int msec)
{
	return msec < 0 ? NSEC_NEVER : msec * NSEC_PER_MSEC;
}

/* False: not a valid duration, EINVAL. */
static inline bool timeout_of_timespec(const struct timespec *timeout, nsec_t *nsec)
{
	*nsec = NSEC_NEVER;
	if (!timeout)
		return true;
	if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= NSEC_PER_SEC)
		return false;
	if (timeout->tv_sec <= TIMEOUT_LONGEST_SEC)
		*nsec = timeout->tv_sec * NSEC_PER_SEC + timeout->tv_nsec;
	return true;
}

/* As the kernel: more than a second of microseconds is fine. */
static inline bool timeout_of_timeval(const struct timeval *timeout, nsec_t *nsec)
{
	struct timespec ts;

	if (!timeout)
		return timeout_of_timespec(NULL, nsec);
	if (timeout->tv_sec < 0 || timeout->tv_usec < 0)
		return false;
	ts.tv_sec = timeout->tv_sec <= TIMEOUT_LONGEST_SEC ? timeout->tv_sec : TIMEOUT_LONGEST_SEC;
	ts.tv_sec += timeout->tv_usec / 1000000;
	ts.tv_nsec = timeout->tv_usec % 1000000 * 1000;
	return timeout_of_timespec(&ts, nsec);
}

#endif
