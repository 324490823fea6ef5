/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Manners of a thread that polls: when it shares its core it yields.
 *
 * A poller that was descheduled between two rounds has company on its core.
 * Two spinners there cost each other whole time slices, milliseconds a turn;
 * when both yield after each round, a turn is a microsecond.  What one call
 * learns holds for the next ones of the thread: a ping-pong makes short calls.
 *
 * Where others had the core for a millisecond of one call, and nothing arrived, there are
 * more threads than processors, and polling takes from those that we wait for.  The thread
 * sleeps then, as if its time for polling were over.
 *
 * Role		app, holding no ring.
 */
#ifndef SOCK_WAIT_SPIN_H
#define SOCK_WAIT_SPIN_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/param.h"

#define SPIN_GAP (100 * NSEC_PER_USEC)	  /* between two rounds: we were descheduled */
#define SPIN_TURN (3 * NSEC_PER_USEC / 2) /* a yield this long let somebody else run */
#define SPIN_SHARED (10 * NSEC_PER_MSEC)  /* company is expected to stay so long */
#define SPIN_LOST NSEC_PER_MSEC		  /* of one call to others, in vain: they need it more */

#define SPIN_CANCEL 256 /* rounds between two cancellation points; a power of two */

struct spin {
	nsec_t last; /* round; 0: none yet */
	nsec_t lost; /* time that others had */
	unsigned rounds;
	bool late; /* see spin_was_late() */
};

/* This thread has company until then. */
extern __thread nsec_t spin_shared_until __attribute__((tls_model("initial-exec")));

void spin_yield(struct spin *spin);

/* A cancellation point, now and then: blocking calls are, and some never sleep. */
void spin_cancellable(void);

static inline void spin_start(struct spin *spin)
{
	spin->last = 0;
	spin->lost = 0;
	spin->rounds = 0;
	spin->late = false;
}

/* Others need the core more: it is time to sleep. */
static inline bool spin_is_crowded(const struct spin *spin)
{
	return __builtin_expect(spin->lost > SPIN_LOST, 0);
}

/* After a round that found nothing and began at now. */
static inline void spin_round(struct spin *spin, nsec_t now)
{
	if (__builtin_expect(now - spin->last > SPIN_GAP && spin->last, 0)) {
		spin_shared_until = now + SPIN_SHARED;
		spin->late = true;
		spin->lost += now - spin->last;
	}
	spin->last = now;
	if (__builtin_expect(now < spin_shared_until || params.rx_poll_yield, 0))
		spin_yield(spin);
	if (__builtin_expect(++spin->rounds % SPIN_CANCEL == 0, 0))
		spin_cancellable();
}

/*
 * Since it was asked last, others had the core for long.  What is done once in so many rounds
 * is due then: rounds are cheap only while they are quick.
 */
static inline bool spin_was_late(struct spin *spin)
{
	bool late = spin->late;

	spin->late = false;
	return late;
}

#endif
