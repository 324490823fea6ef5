/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping: who waits for the same thing as others does not wake for all of it.
 *
 * A place is where threads sleep: a ring, an epoll set, what one thread waits
 * for.  Each sleeper has a wakeup, an eventfd nobody else sleeps on.  The first one
 * at a place is its leader: he alone sleeps on the place's descriptors, too.
 * What arrives there wakes him; he takes it in, which notifies whom it concerns,
 * and lies down again.  When he leaves, he hands the watch to the next one,
 * whom his wakeup wakes to take it over.
 *
 *	sleep_begin(&sleep);
 *	sleep_enter(&sleep, &sleeper, &place, false);		any number of them
 *	for (;;) {
 *		if (!sleep_listen(&sleep) || there is something)
 *			break;
 *		fds[1...] = the descriptors of places where sleeper.watch
 *		rc = sleep_now(&sleep, fds, n, deadline, mask);
 *		break for a signal, a deadline, or a descriptor of one's own;
 *		take in what the places have	(poll the rings)
 *	}
 *	sleep_end(&sleep);
 *
 * Role		sleep_place_*, sleep_call*(): any, holding a ring or not.  The
 *		rest: the thread that sleeps, holding no ring.  Its signal handlers
 *		may sleep, too: one sleep inside another.
 * Lifetime	a place outlives its sleepers; a sleep and its sleepers are on the
 *		stack of their thread.  A wakeup is signalled under the lock of a place
 *		where its owner is, so nobody rings it once he has left.
 * Ordering	nobody sleeps while there is something for him:
 *		(1) Events.  Who has news makes it visible, then calls the place; a
 *		sleeper lies down, then looks.  Both go through the place's lock: if
 *		the caller came first, the sleeper looks after it, and sees; else the
 *		caller finds him lying and rings.
 *		(2) Descriptors.  While a place has sleepers, its first one either
 *		lies with the descriptors in his ppoll(2), which returns at once if
 *		one is readable; or is up, and then takes in what is there and lies
 *		down as leader, or leaves, which makes the next one first and rings
 *		him if he lies.  When the last one leaves, whoever relieves him (of
 *		rings: the internal thread) is woken.
 *		(3) A sleeper who is up looks before he lies down again.  So one who
 *		is up is enough for a call; what he heard and does not take when he
 *		leaves, he passes on: sleep_call() again, if he leaves a place that
 *		others share for a reason of his own.
 *		(4) A signal handler of the program may run for long, or never
 *		return.  It begins with sleep_interrupted(): its thread leaves all
 *		places, and its wakeup ends the sleep when it returns to it.  (One
 *		that finds it at a place's lock, or holding a ring, delays those
 *		who want that as long as it runs; the sleep ends all the same.)
 * Progress	a place's lock is held for some instructions and a write(2), never
 *		in a sleep.  A signal handler that comes in meanwhile is refused as
 *		one that interrupts the holder of a ring is.
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
	unsigned up;	    /* of ->own: not lying */
	bool busy;	    /* its holder is, because of it */
	struct list own;    /* of struct sleeper; the first is the leader */
	struct list guests; /* those who sleep here on behalf of another place */
	/* set at creation, read by all */
	bool relieved; /* the internal thread watches while nobody sleeps here */
};

/* A thread at a place. */
struct sleeper {
	struct list link; /* of place->own or guests; its lock */
	struct sleep_place *place;
	struct sleep *sleep;
	struct sleeper *next; /* of the sleep */
	bool lying;	      /* lock of the place */
	/* its thread */
	bool guest;
	bool in;
	bool watch; /* as of sleep_listen(): sleep on the descriptors of the place */
};

struct wakeup {
	int fd;	       /* -1: none yet, or out of descriptors */
	int signalled; /* any, atomic: 1 until its owner answers */
};

/* One sleep of a thread, at any number of places. */
struct sleep {
	struct wakeup *wakeup;
	struct sleeper *first;
	struct sleep *outer;		   /* the one that a signal handler interrupted */
	volatile sig_atomic_t interrupted; /* we are nowhere any more */
};

/* relieved: the internal thread is woken when the last sleeper leaves. */
void sleep_place_init(struct sleep_place *place, bool relieved);

static inline unsigned sleep_place_used(const struct sleep_place *place)
{
	return __atomic_load_n(&place->sleepers, __ATOMIC_RELAXED);
}

/*
 * There is something at the place: all guests are woken, and one of its own unless
 * one is up.  The caller has made it visible before.
 */
void sleep_call_slow(struct sleep_place *place, bool all);

static inline void sleep_call(struct sleep_place *place)
{
	/* Pairs with sleep_enter(): it sees what is there or we see it. */
	if (__builtin_expect(__atomic_load_n(&place->sleepers, __ATOMIC_SEQ_CST) != 0, 0))
		sleep_call_slow(place, false);
}

/* As above; everybody at the place looks at everything again. */
static inline void sleep_call_all(struct sleep_place *place)
{
	if (__builtin_expect(__atomic_load_n(&place->sleepers, __ATOMIC_SEQ_CST) != 0, 0))
		sleep_call_slow(place, true);
}

/* A signal handler that comes in between is refused, see Progress. */
void sleep_place_lock(struct sleep_place *place);
void sleep_place_unlock(struct sleep_place *place);

void sleep_begin(struct sleep *sleep);

/* We are at the place, up.  guest: call us always; we watch its descriptors ourselves. */
void sleep_enter(struct sleep *sleep, struct sleeper *sleeper, struct sleep_place *place,
		 bool guest);

/*
 * Lies down everywhere: from here on calls ring.  False: a signal handler came in
 * between, we are nowhere; end this sleep.
 */
bool sleep_listen(struct sleep *sleep);

/*
 * Sleeps until the wakeup rings, or one of fds (n of them; fds[0] is overwritten and
 * stands for the wakeup) is ready, or deadline (NSEC_NEVER: none), or a signal; mask as
 * in ppoll(2), may be NULL.  We are up afterwards.  Number of ready fds beyond the
 * first, or -EINTR, or ppoll's other errors.  May return 0 early.  A cancellation
 * point: who is cancelled here ends the sleep in a cleanup handler.
 */
int sleep_now(struct sleep *sleep, struct pollfd *fds, unsigned n, nsec_t deadline,
	      const sigset_t *mask);

/* Leaves all places, with the watch handed over; harmless when done twice. */
void sleep_end(struct sleep *sleep);

/* First thing of a signal handler of the program: its thread is not asleep meanwhile. */
void sleep_interrupted(void);

/* In a forked child, where no other thread exists: descriptors are the parent's. */
void sleep_fork_child(void);

#endif
