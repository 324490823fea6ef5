/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hierarchical timer wheel.
 *
 * Role		whoever owns the wheel (a ring: its holder).  Not thread-safe.
 * Clock	callers pass the time; the wheel never reads it.
 * Resolution	WHEEL_TICK.  A timer never fires early; it fires at the first
 *		wheel_run() at or after its time rounded up to a tick.
 * Cost		arm and cancel O(1); run O(expired + ticks passed), and one
 *		comparison when nothing can be due.
 */
#ifndef BASE_WHEEL_H
#define BASE_WHEEL_H

#include "base/clock.h"
#include "base/list.h"

#define WHEEL_TICK (NSEC_PER_MSEC / 4)
#define WHEEL_BITS 6
#define WHEEL_SLOTS (1 << WHEEL_BITS)
#define WHEEL_LEVELS 5 /* 64^5 ticks of 250 us, three days; later timers are filed again */

struct timer;
typedef void (*timer_fn)(struct timer *timer, nsec_t now);

/* Embedded by its user. Call timer_init(); zero-initialisation is not enough. */
struct timer {
	struct list link;
	nsec_t when; /* NSEC_NEVER when not armed */
	timer_fn fire;
};

struct wheel {
	uint64_t tick;	     /* the next tick to process */
	nsec_t next;	     /* no timer is due before; NSEC_NEVER: none armed */
	unsigned armed;	     /* timers in the wheel */
	struct list overdue; /* armed for a past tick, fire in the next run */
	uint64_t occupied[WHEEL_LEVELS];
	struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

void wheel_init(struct wheel *wheel, nsec_t now);

void timer_init(struct timer *timer, timer_fn fire);

static inline bool timer_armed(const struct timer *timer)
{
	return timer->when != NSEC_NEVER;
}

/* Arms or re-arms; NSEC_NEVER cancels. A time in a past tick fires at the next wheel_run(). */
void wheel_arm(struct wheel *wheel, struct timer *timer, nsec_t when);

/* Does nothing when the timer is not armed. */
void wheel_cancel(struct wheel *wheel, struct timer *timer);

void wheel_run_expired(struct wheel *wheel, nsec_t now);

/*
 * Fires all timers due at now, in order of ticks. A timer is disarmed before its function runs;
 * the function may arm or cancel any timer and may free its own object. A timer that a function
 * arms for the past fires at the next run, so every run ends.
 */
static inline void wheel_run(struct wheel *wheel, nsec_t now)
{
	if (now >= wheel->next)
		wheel_run_expired(wheel, now);
}

/* The latest time of the next necessary wheel_run(); NSEC_NEVER if none. */
static inline nsec_t wheel_next(const struct wheel *wheel)
{
	return wheel->next;
}

#endif
