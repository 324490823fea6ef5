/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Readiness: how a socket tells whoever waits for it.
 *
 * A socket keeps a mask of events that are true now (sock->events).  Whoever
 * waits (a blocked call, poll, select, an epoll set) has a waiter and one watch
 * per socket.  When an event happens, the holder of the socket's ring pushes the
 * watch on the waiter's ready queue and wakes the waiter if it sleeps.
 *
 * Role		watch_add(), watch_remove(), ready_notify(): the holder of the
 *		ring the socket is homed on.  waiter_*: the waiter's owner (for
 *		an epoll set: whoever holds its mutex; any number of threads may
 *		sleep at its waiter).
 * Lifetime	a watch removed from its socket may still be in the ready queue:
 *		its owner drains the queue (waiter_discard()) before it frees it.
 *		A thread may be cancelled in sleep_now(): who has a watch on his
 *		stack removes it in a cleanup handler.
 * Ordering	a push is visible to waiter_take(), and so is what the notifier
 *		wrote before it.  Nobody sleeps through an event: a notifier
 *		pushes (a locked instruction, hence a fence), then calls the place
 *		where the waiter's threads sleep (ring/sleep.h); a waiter lies down
 *		there, then looks at the queue.
 * Progress	lock-free for the notifier while nobody sleeps; a watch is in the
 *		queue once at most.
 */
#ifndef SOCK_CORE_READY_H
#define SOCK_CORE_READY_H

#include <ck_stack.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "ring/sleep.h"
#include "sock/core/sock.h"

struct waiter {
	/* any, atomic */
	ck_stack_t ready; /* of struct watch, newest first */
	int users;	  /* epoll sets: threads in a wait; for EPOLLEXCLUSIVE */
	/* see ring/sleep.h */
	struct sleep_place sleepers;
};

#define WATCH_QUEUED 1
#define WATCH_GONE 2 /* with WATCH_QUEUED: it is the last time */

struct watch {
	ck_stack_entry_t ready_link; /* first */
	struct list link;	     /* of sock->watches; holder of the socket's ring */
	struct waiter *waiter;
	struct sock *sk;
	uint32_t events; /* EPOLL* bits that matter; EPOLLERR and EPOLLHUP always do */
	int queued;	 /* any, atomic: WATCH_* while in waiter->ready, else 0 */
	bool gone;	 /* owner: the socket ended; written by watch_next() */
	bool of_set;	 /* set before watch_add(): an entry of an epoll set */
	bool async;	 /* likewise: O_ASYNC, see async.h; it has no waiter */
};

_Static_assert(offsetof(struct watch, ready_link) == 0, "an entry is its watch");

void waiter_init(struct waiter *waiter);

/* The waiter of this thread, for calls that block; made at first use, NULL: no memory. */
struct waiter *waiter_self(void);

/*
 * All watches notified since the last call, oldest first; watch_next() gives
 * the following one, and from then on watch may be notified again.
 */
struct watch *waiter_take(struct waiter *waiter);
struct watch *watch_next(struct watch *watch);

/* Empties the queue, for owners that look at their sockets themselves. */
void waiter_discard(struct waiter *waiter);

/* Is there anything to take?  Costs one load. */
static inline bool waiter_pending(const struct waiter *waiter)
{
	return ck_pr_load_ptr(&waiter->ready.head) != NULL;
}

/* Any: one of those who sleep looks, unless one is up and will; guests always do. */
static inline void waiter_wake(struct waiter *waiter)
{
	sleep_call(&waiter->sleepers);
}

/* Any: whoever sleeps looks at everything again. */
static inline void waiter_wake_all(struct waiter *waiter)
{
	sleep_call_all(&waiter->sleepers);
}

void watch_init(struct watch *watch, struct waiter *waiter, struct sock *sk, uint32_t events);
/* holder */
void watch_add(struct watch *watch);
void watch_remove(struct watch *watch); /* harmless when not added */
/* The socket ends: removes the watch and tells its owner. */
void watch_end(struct watch *watch);

/* Any: pushes the watch on its waiter's queue as if an event had happened. */
void watch_push(struct watch *watch);

void ready_notify_slow(struct sock *sk, uint32_t events);

/*
 * holder: events happened (EPOLL* bits), new ones or the same again.  Set
 * sk->events first.
 */
static inline void ready_notify(struct sock *sk, uint32_t events)
{
	if (!list_empty(&sk->watches))
		ready_notify_slow(sk, events);
}

/* holder: whoever waits for it looks at everything again. */
void ready_wake_all(struct sock *sk);

/* In a forked child, where no other thread exists: descriptors are the parent's. */
extern unsigned ready_forks;
void ready_fork_child(void);

#endif
