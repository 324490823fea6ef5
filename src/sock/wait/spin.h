/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a polling thread yields when it shares its core.
 *
 * If a poller was descheduled between two rounds, another thread runs on its core.  Two
 * spinning threads on one core cost each other whole time slices, milliseconds each turn;
 * when both yield after each round, a turn takes a microsecond.  What one call learns is used
 * by the next calls of the thread, because the calls of a ping-pong are short.
 *
 * Time alone is no evidence: a host that takes the virtual processor away leaves the same gaps, and
 * slow yields, and a poller that yields then sees less for nothing.  So the kernel is asked whether
 * it switched threads (sys_switches()): once for each gap, and once or twice in SPIN_SHARED while
 * yields are slow.
 *
 * A thread that does not yield in its turn keeps the core for a time slice, and the kernel takes what the
 * poller has left of its own for given away: then one turn of a microsecond comes in many milliseconds.
 * So after a turn that was longer than SPIN_GAP the poller does not yield for a while; for less than SPIN_GAP,
 * or two that poll on one core would answer each other like that.
 *
 * A thread that waits for a process of this host (beside) waits for somebody who needs a core.  If that is its own,
 * the kernel may let it poll for a whole time slice first, and with it a chain of processes takes a slice for each
 * step.  So it yields once in SPIN_BESIDE, before it has seen a gap, too.
 *
 * If other threads had the core for a millisecond of one call, and nothing arrived, there are
 * more threads than processors, and polling takes time from the threads that the call waits
 * for.  The thread then sleeps, as if its time for polling were over.
 *
 * Role		app, holding no ring.
 */
#ifndef SOCK_WAIT_SPIN_H
#define SOCK_WAIT_SPIN_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/param.h"

#define SPIN_GAP (100 * NSEC_PER_USEC)	  /* between two rounds: perhaps descheduled */
#define SPIN_OWN (80 * NSEC_PER_USEC)	  /* without yields, after a gap */
#define SPIN_TURN (3 * NSEC_PER_USEC / 2) /* a yield this long may have let another thread run */
#define SPIN_SHARED (10 * NSEC_PER_MSEC)  /* how long the core is expected to stay shared */
#define SPIN_LOST NSEC_PER_MSEC		  /* of one call, to others, while nothing arrived */
#define SPIN_BESIDE \
	(16 * NSEC_PER_USEC) /* between two yields of a thread that waits for this host */

#define SPIN_CANCEL 256 /* rounds between two cancellation points; a power of two */

struct spin {
	nsec_t last;  /* time of the last round; 0: none yet */
	nsec_t lost;  /* time that other threads had */
	nsec_t given; /* time of the last yield, or of the first round */
	unsigned rounds;
	bool late;   /* see spin_was_late() */
	bool beside; /* processes of this host are waited for; whoever waits sets it */
};

/* This thread shares its core until this time. */
extern __thread nsec_t spin_shared_until __attribute__((tls_model("initial-exec")));

/* It does not yield until this time. */
extern __thread nsec_t spin_own_until __attribute__((tls_model("initial-exec")));

/* sys_switches(), sys_sched_yield(); tests replace them. */
extern long (*spin_switches)(void);
extern int (*spin_give)(void);

void spin_yield(struct spin *spin);

/* More than SPIN_GAP passed between two rounds; the second one began at now. */
void spin_gap(struct spin *spin, nsec_t now);

/* A cancellation point, now and then: blocking calls have to be one, and some never sleep. */
void spin_cancellable(void);

static inline void spin_start(struct spin *spin)
{
	spin->last = 0;
	spin->lost = 0;
	spin->rounds = 0;
	spin->late = false;
	spin->beside = false;
}

/* Other threads need the core more: it is time to sleep. */
static inline bool spin_is_crowded(const struct spin *spin)
{
	return __builtin_expect(spin->lost > SPIN_LOST, 0);
}

/* After a round that began at now and found nothing. */
static inline void spin_round(struct spin *spin, nsec_t now)
{
	if (__builtin_expect(!spin->last, 0))
		spin->given = now;
	else if (__builtin_expect(now - spin->last > SPIN_GAP, 0))
		spin_gap(spin, now);
	spin->last = now;
	if (__builtin_expect(now < spin_shared_until || params.rx_poll_yield ||
				     (spin->beside && now - spin->given > SPIN_BESIDE),
			     0))
		spin_yield(spin);
	if (__builtin_expect(++spin->rounds % SPIN_CANCEL == 0, 0))
		spin_cancellable();
}

/*
 * Other threads had the core for long since the last call of this function.  Work that is
 * due once in so many rounds is due then: rounds are frequent only while they are quick.
 */
static inline bool spin_was_late(struct spin *spin)
{
	bool late = spin->late;

	spin->late = false;
	return late;
}

#endif
