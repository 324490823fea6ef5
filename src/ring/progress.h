/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The internal thread: one per process, started before the first ring is opened.  It polls
 * the rings that no other thread polled since its last round, runs their timers, services the
 * ports and follows netlink.  It tries rings and never waits for one.
 *
 * While other threads use rings, it makes a round once per VMA_PROGRESS_ENGINE_INTERVAL.  A
 * frame for a ring that no thread polls at that moment makes it take the frame at once.  If a
 * thread does poll, frames of that ring do not wake it for a while: for 200 us the first time,
 * for four intervals at most.  When no thread uses rings, and no frames arrive, it blocks until
 * a frame arrives or a timer is due.
 *
 * Role		progress_start(), progress_stop(), progress_running(),
 *		progress_watch(): one thread at a time (the control lock).
 *		progress_wake(), progress_kick(), progress_set_hook(): any.
 */
#ifndef RING_PROGRESS_H
#define RING_PROGRESS_H

#include <stdbool.h>

#include "ring/ring.h"

/* Starts the thread; does nothing if it runs.  0 or -errno. */
int progress_start(void);
/* Ends and joins the thread.  Called by the thread itself, from its hook: it ends afterwards. */
void progress_stop(void);
/* In a forked child, which has no internal thread. */
void progress_forget(void);
bool progress_running(void);

/*
 * The internal thread calls hook after each round, holding no ring.  The hook returns true when
 * it has more to do soon.
 */
void progress_set_hook(bool (*hook)(void));

/*
 * The internal thread calls readable, holding no ring, when fd can be read, from now on, also if
 * it sleeps; -1: not any more.
 * One descriptor for each function, and PROGRESS_WATCHED functions.
 */
#define PROGRESS_WATCHED 5
void progress_watch(int fd, void (*readable)(void));

/*
 * any, atomic: the internal thread writes 1 while it blocks until the next timer that it knows;
 * progress_wake() writes 0.
 */
extern int progress_asleep;
/*
 * Longest sleep, in case a wake-up is lost.  Constant while the thread runs; tests prolong it, so
 * that a lost one costs more than any stop of the machine.
 */
extern nsec_t progress_sleep_max;
/* any: ends such a long sleep; does nothing otherwise. */
void progress_wake(void);
/* any: the internal thread makes a round, and calls its hook, at once. */
void progress_kick(void);
/*
 * The internal thread, holding a ring that it polls: other threads use that ring, in a way that ->polls does not
 * tell.  It leaves the ring alone as if they polled it.
 */
void progress_note_use(void);

/* holder: arms a timer of the ring's wheel; the internal thread runs it if no other thread does. */
static inline void ring_arm(struct ring *ring, struct timer *timer, nsec_t when)
{
	ring_assert_held(ring);
	wheel_arm(&ring->wheel, timer, when);
	__atomic_store_n(&ring->arms, ring->arms + 1, __ATOMIC_RELAXED);
	/* Pairs with membarrier(2) in sleep_long(): that sees ->arms, or we see progress_asleep. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(__atomic_load_n(&progress_asleep, __ATOMIC_RELAXED), 0))
		progress_wake();
}

#endif
