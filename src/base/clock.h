/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Monotonic time in nanoseconds.
 *
 * Role		any thread; clock_init() runs once at start, before threads.
 * Clock	the time-stamp counter where the kernel itself trusts it (the
 *		current clocksource is "tsc" and the CPU says it is invariant),
 *		else clock_gettime(2).  Values compare with CLOCK_MONOTONIC to
 *		within some microseconds; never mix them with wall-clock time.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* A point in time or a duration. Signed, so that differences can be negative. */
typedef int64_t nsec_t;

#define NSEC_PER_USEC ((nsec_t)1000)
#define NSEC_PER_MSEC ((nsec_t)1000000)
#define NSEC_PER_SEC ((nsec_t)1000000000)
#define NSEC_NEVER INT64_MAX

/* Calibrates the counter, in less than 100 µs. A second call does nothing. */
void clock_init(void);

/* The current monotonic time. About 10 ns with the counter. */
nsec_t clock_now(void);

/* Wall-clock time (CLOCK_REALTIME), for timestamps shown to programs. */
nsec_t clock_real(void);

#endif
