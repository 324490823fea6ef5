/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Readiness: how a socket notifies blocked calls, poll, select and epoll sets.
 *
 * A socket keeps a mask of the events that are true now (sock->events).  Each of the above
 * has a waiter, and one watch for each socket.  When an event happens, the holder of the
 * socket's ring pushes the watch on the waiter's ready queue, and wakes a thread if one
 * sleeps at the waiter.
 *
 * Role		watch_add(), watch_remove(), ready_notify(): the holder of the
 *		socket's home ring.  waiter_*: the waiter's owner (for an epoll set:
 *		the thread that has its mutex; any number of threads may sleep at
 *		its waiter).
 * Lifetime	a watch that was removed from its socket may still be in the ready queue:
 *		its owner empties the queue (waiter_discard()) before it frees the watch.
 *		A thread may be cancelled in sleep_now(): a watch on its stack is removed
 *		by a cleanup handler.
 * Ordering	a push is visible to waiter_take(), and so is what the notifier
 *		wrote before it.  No thread sleeps through an event: a notifier
 *		pushes (a locked instruction, hence a fence), then calls the place
 *		where the waiter's threads sleep (ring/sleep.h); a thread marks itself
 *		blocked there, then looks at the queue.
 * Progress	lock-free for the notifier while no thread sleeps; a watch is in the
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
	int users;	  /* epoll sets, for EPOLLEXCLUSIVE: threads in epoll_wait(2) */
	/* see ring/sleep.h */
	struct sleep_place sleepers;
};

#define WATCH_QUEUED 1
#define WATCH_GONE 2 /* with WATCH_QUEUED: the socket ended, the watch is not queued again */

struct watch;

/* Of watches without a waiter: of O_ASYNC (async.h), of socketxtreme (extra/xtreme.h). */
struct watch_ops {
	/* holder: as ready_notify(). */
	void (*notify)(struct watch *watch, uint32_t events);
	/* The socket ends, and the watch is in no list any more: frees it. */
	void (*free)(struct watch *watch);
};

struct watch {
	ck_stack_entry_t ready_link; /* first */
	struct list link;	     /* of sock->watches; holder of the socket's ring */
	struct waiter *waiter;	     /* NULL: ->ops */
	const struct watch_ops *ops; /* set before watch_add(), NULL: ->waiter */
	struct sock *sk;
	uint32_t events; /* EPOLL* bits that matter; EPOLLERR and EPOLLHUP always do */
	int queued;	 /* any, atomic: WATCH_* while in waiter->ready, else 0 */
	bool gone;	 /* owner: the socket ended; written by watch_next() */
	bool of_set;	 /* set before watch_add(): an entry of an epoll set */
};

_Static_assert(offsetof(struct watch, ready_link) == 0, "an entry is its watch");

void waiter_init(struct waiter *waiter);

/* This thread's waiter, for calls that block; made at the first call.  NULL: no memory. */
struct waiter *waiter_self(void);

/*
 * Takes all watches that were notified since the last call; returns the oldest, or NULL.
 * watch_next() returns the next one, and from then on watch may be notified again.
 */
struct watch *waiter_take(struct waiter *waiter);
struct watch *watch_next(struct watch *watch);

/* Empties the queue, for owners that check the events of their sockets themselves. */
void waiter_discard(struct waiter *waiter);

/* Is there anything to take?  Costs one load. */
static inline bool waiter_pending(const struct waiter *waiter)
{
	return ck_pr_load_ptr(&waiter->ready.head) != NULL;
}

/* any: wakes one thread, unless one is awake at the waiter, and all guests; see sleep_call(). */
static inline void waiter_wake(struct waiter *waiter)
{
	sleep_call(&waiter->sleepers);
}

/* any: wakes all threads that sleep at the waiter; each looks at everything again. */
static inline void waiter_wake_all(struct waiter *waiter)
{
	sleep_call_all(&waiter->sleepers);
}

void watch_init(struct watch *watch, struct waiter *waiter, struct sock *sk, uint32_t events);
/* holder */
void watch_add(struct watch *watch);
void watch_remove(struct watch *watch); /* does nothing if it was not added */
/* holder: the socket ends: removes the watch and notifies its owner, with WATCH_GONE. */
void watch_end(struct watch *watch);

/* any: pushes the watch on its waiter's queue as if an event had happened. */
void watch_push(struct watch *watch);

void ready_notify_slow(struct sock *sk, uint32_t events);

/*
 * holder: events (EPOLL* bits) happened, possibly ones that were true already.  The caller has
 * set sk->events before.
 */
static inline void ready_notify(struct sock *sk, uint32_t events)
{
	if (!list_empty(&sk->watches))
		ready_notify_slow(sk, events);
}

/* holder: every thread that waits for the socket wakes and looks at everything again. */
void ready_wake_all(struct sock *sk);

/* In a forked child, where no other thread exists: the descriptors belong to the parent. */
extern unsigned ready_forks; /* forks between this process and the first one */
void ready_fork_child(void);

#endif
