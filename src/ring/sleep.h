/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping: of the threads that wait for the same thing, an event wakes only those it needs
 * (the Leader/Followers pattern).
 *
 * A place is what threads block at: a ring, an epoll set, or the waiter of one thread.  Each
 * sleeper has a wakeup, an eventfd on which only its thread blocks.  The first sleeper at a
 * place is its leader: it alone also blocks on the place's descriptors.  What arrives there
 * wakes the leader; it takes that in, which notifies the threads concerned, and blocks again.
 * A leader that leaves signals the wakeup of the next sleeper, which becomes the leader.
 *
 *	sleep_begin(&sleep);
 *	sleep_enter(&sleep, &sleeper, &place, false);		any number of places
 *	for (;;) {
 *		if (!sleep_listen(&sleep) || there is something)
 *			break;
 *		fds[1...] = the descriptors of places where sleeper.watch is set;
 *			    of a ring, after ring_arm_fds()
 *		rc = sleep_now(&sleep, fds, n, deadline, mask);
 *		break for a signal, a deadline, or a descriptor of the caller;
 *		take in what the places have	(poll the rings)
 *	}
 *	sleep_end(&sleep);
 *
 * Role		sleep_place_*, sleep_call*(): any, holding a ring or not.  The
 *		rest: the thread that sleeps, holding no ring.  Its signal handlers
 *		may sleep, too: sleeps of one thread nest.
 * Lifetime	a place outlives its sleepers; a sleep and its sleepers are on the
 *		stack of their thread.  A wakeup is signalled under the lock of a place
 *		where its owner is a sleeper, so not after the owner has left.
 * Ordering	no thread stays blocked while there is something for it:
 *		(1) Events.  A thread with news publishes it by a locked instruction
 *		or with a full fence, then calls the place.  A sleeper marks itself
 *		blocked, then looks for news.  Both take the place's lock: if the
 *		caller came first, the sleeper looks later and sees the news; else
 *		the caller finds the sleeper blocked and signals its wakeup.
 *		(2) Descriptors.  While a place has sleepers, its leader is either
 *		blocked in ppoll(2) with the descriptors, which returns at once if
 *		one is readable; or it is awake.  Then it takes in what is there and
 *		blocks as the leader again, or it leaves: the next sleeper becomes
 *		the leader, and is woken if it is blocked.  When the last sleeper
 *		leaves a ring, the internal thread is woken and blocks on the ring's
 *		descriptors instead.
 *		(3) A sleeper that is awake looks before it blocks again, so one
 *		awake sleeper is enough for a call.  A sleeper that was called, and
 *		leaves a shared place for a reason of its own without looking, passes
 *		the call on: it calls sleep_call().
 *		(4) A signal handler of the program may run for long, or never
 *		return.  It begins with sleep_interrupted(): its thread leaves all
 *		places, and its wakeup ends the interrupted sleep when the handler
 *		returns.  (A handler that interrupts its thread under a place's lock
 *		or holding a ring delays the threads that want these as long as it
 *		runs; the sleep ends all the same.)
 * Progress	a place's lock is held for some instructions and a write(2), never
 *		while its holder is blocked.  A signal handler that interrupts it is
 *		refused, as one that interrupts the holder of a ring.
 */
#ifndef RING_SLEEP_H
#define RING_SLEEP_H

#include <ck_spinlock.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/list.h"

struct sleep_place {
	ck_spinlock_fas_t lock;
	/* lock to write, any to read, atomic */
	unsigned sleepers; /* guests included */
	/* lock */
	unsigned awake;	    /* sleepers in ->own that are not blocked */
	bool busy;	    /* what busy_begin() returned to the holder of the lock */
	struct list own;    /* of struct sleeper; the first is the leader */
	struct list guests; /* of struct sleeper; they block here on behalf of another place */
	/* set at creation, read by all */
	bool wake_internal; /* a ring: the internal thread takes over without sleepers */
	uint32_t ring;	    /* its number; RECORDER_NO_RING: it is something else */
	/* any, atomic: sleeps of leaders, and those that ended because of a descriptor */
	uint64_t requests, received;
};

/* A thread at a place. */
struct sleeper {
	struct list link; /* of place->own or guests; its lock */
	struct sleep_place *place;
	struct sleep *sleep;
	struct sleeper *next; /* of the sleep */
	bool blocked;	      /* lock of the place */
	/* its thread */
	bool guest;
	bool in;    /* linked at the place */
	bool watch; /* set by sleep_listen(): leader, blocks on the place's descriptors */
};

struct wakeup {
	int fd;	       /* atomic, its thread writes; -1: none yet, or no descriptor was left */
	int signalled; /* atomic: any sets 1, its thread sets 0 */
};

/* One sleep of a thread, at any number of places. */
struct sleep {
	struct wakeup *wakeup;
	struct sleeper *first;
	struct sleep *outer;		   /* the sleep that a signal handler interrupted */
	volatile sig_atomic_t interrupted; /* its thread has left all places */
};

/* wake_internal: the internal thread is woken when the last sleeper leaves. */
void sleep_place_init(struct sleep_place *place, bool wake_internal);

/* The number of sleepers and guests; out of date at once unless the caller has the lock. */
static inline unsigned sleep_place_used(const struct sleep_place *place)
{
	return __atomic_load_n(&place->sleepers, __ATOMIC_RELAXED);
}

/*
 * any: there is news at the place, which the caller published before (Ordering).  Wakes all
 * guests, and one sleeper of ->own unless one is awake.
 */
void sleep_call_slow(struct sleep_place *place, bool all);

static inline void sleep_call(struct sleep_place *place)
{
	/* Pairs with sleep_enter(): that sleeper sees the news, or we see the sleeper. */
	if (__builtin_expect(__atomic_load_n(&place->sleepers, __ATOMIC_SEQ_CST) != 0, 0))
		sleep_call_slow(place, false);
}

/* any: as sleep_call(), but wakes every sleeper; each looks at everything again. */
static inline void sleep_call_all(struct sleep_place *place)
{
	/* Pairs with sleep_enter(), as in sleep_call(). */
	if (__builtin_expect(__atomic_load_n(&place->sleepers, __ATOMIC_SEQ_CST) != 0, 0))
		sleep_call_slow(place, true);
}

/* any: a signal handler that interrupts the holder of the lock is refused, see Progress. */
void sleep_place_lock(struct sleep_place *place);
void sleep_place_unlock(struct sleep_place *place);

/* Begins a sleep of this thread, at no place yet; makes the thread's wakeup at the first call. */
void sleep_begin(struct sleep *sleep);

/*
 * The thread is at the place, awake.  guest: it is woken by every call and never leads; the
 * caller watches descriptors of its own.
 */
void sleep_enter(struct sleep *sleep, struct sleeper *sleeper, struct sleep_place *place,
		 bool guest);

/*
 * Marks the thread blocked at all its places: from here on calls signal its wakeup.  False: a
 * signal handler has run, and the thread is at no place any more; end this sleep.
 */
bool sleep_listen(struct sleep *sleep);

/*
 * Blocks until the wakeup is signalled, one of fds is ready (n descriptors; fds[0] is
 * overwritten with the wakeup's), the deadline has passed (NSEC_NEVER: there is none) or a
 * signal arrives; mask as in ppoll(2), may be NULL.  Afterwards the thread is awake at all
 * places.  Returns the number of ready descriptors without the first, -EINTR, or another error
 * of ppoll(2); may return 0 early.  A cancellation point: a thread that is cancelled here must
 * end the sleep in a cleanup handler.
 */
int sleep_now(struct sleep *sleep, struct pollfd *fds, unsigned n, nsec_t deadline,
	      const sigset_t *mask);

/* Leaves all places; the next sleepers become leaders.  Does nothing the second time. */
void sleep_end(struct sleep *sleep);

/* A signal handler of the program calls this first: its thread leaves all its places. */
void sleep_interrupted(void);

/* In a forked child, where no other thread exists: the descriptors belong to the parent. */
void sleep_fork_child(void);

#endif
