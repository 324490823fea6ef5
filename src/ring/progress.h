/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The internal thread: one per process, started with the first accelerated
 * socket.  It polls the rings that nobody polled for a while, runs their timers
 * and follows netlink.  It tries rings, it never waits for one.
 *
 * While the program works, it looks once per VMA_PROGRESS_ENGINE_INTERVAL; when
 * nothing moves, it sleeps until a frame arrives or a timer is due.
 */
#ifndef RING_PROGRESS_H
#define RING_PROGRESS_H

#include <stdbool.h>

#include "ring/ring.h"

/* 0 or -errno; once per process (again after progress_forget()). */
int progress_start(void);
/* Joins it; called by itself, from its hook, it ends when that returns. */
void progress_stop(void);
/* In a forked child: there is no thread any more. */
void progress_forget(void);
bool progress_running(void);

/*
 * Called from the internal thread after each round, without a ring held.  True: it
 * has more to do, soon.
 */
void progress_set_hook(bool (*hook)(void));

/*
 * Called from the internal thread, without a ring held, when fd can be read; -1: none.
 */
enum progress_watched { PROGRESS_ICMP, PROGRESS_FAMILY, PROGRESS_WATCHED };
void progress_watch(enum progress_watched what, int fd, void (*readable)(void));

/* any, atomic: the thread sleeps for long and does not know of new timers. */
extern int progress_asleep;
void progress_wake(void);
/* any: its hook is wanted now, whatever it does. */
void progress_kick(void);

/* holder: arms a timer of the ring's wheel, and sees to it that somebody runs it. */
static inline void ring_arm(struct ring *ring, struct timer *timer, nsec_t when)
{
	wheel_arm(&ring->wheel, timer, when);
	__atomic_store_n(&ring->arms, ring->arms + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	/* Pairs with the membarrier(2) in progress.c: it sees ->arms or we see this. */
	if (__builtin_expect(__atomic_load_n(&progress_asleep, __ATOMIC_RELAXED), 0))
		progress_wake();
}

#endif
