/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping in poll(2) and select(2): on the shadow, on the rings' descriptors, and on the
 * watches of the members.
 */
#include <errno.h>
#include <pthread.h>

#include "base/busy.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/core/poll_events.h"
#include "sock/wait/poll_internal.h"

#define NAP (10 * NSEC_PER_MSEC) /* when a descriptor has only events that were not asked for */

struct nap {
	struct call *call;
	struct waiter *waiter;
	nfds_t n_watched; /* members whose watch may have been added */
	unsigned forks;	  /* ready_forks when it began */
	struct rest rest;
};

static void wake_up(struct nap *nap)
{
	struct call *call = nap->call;

	rest_end(&nap->rest);
	if (nap->forks != ready_forks)
		return; /* a child of a fork() in the sleep: the sockets have new lists */
	for (nfds_t m = 0; m < nap->n_watched; m++) {
		struct member *member = &call->members[m];
		struct ring *ring;

		/* If the socket has ended, its list has no watch any more. */
		if (!member->set && sock_hold(member->ref, &ring)) {
			watch_remove(&member->watch);
			sock_release(ring);
		}
	}
	waiter_discard(nap->waiter);
}

static void cancelled(void *arg)
{
	struct nap *nap = arg;

	wake_up(nap);
}

/* False: a socket ended, or the caller is a signal handler that interrupted the library. */
static bool watch_members(struct nap *nap)
{
	struct call *call = nap->call;

	for (; nap->n_watched < call->n_members; nap->n_watched++) {
		struct member *member = &call->members[nap->n_watched];
		struct ring *ring;

		if (member->set)
			continue;
		watch_init(&member->watch, nap->waiter, member->ref.sk,
			   poll_events_wanted((uint16_t)call->fds[member->at].events));
		if (!sock_hold(member->ref, &ring))
			return false;
		watch_add(&member->watch);
		sock_release(ring);
	}
	return true;
}

/* The call's own descriptors; at nested sets it is a guest. */
static void collect_fds(struct nap *nap)
{
	struct call *call = nap->call;

	for (nfds_t i = 0; i < call->n; i++) {
		const struct pollfd *shadow = &call->shadow[i];
		bool deaf = call->deaf && shadow->revents && !call->fds[i].revents;

		if (shadow->fd >= 0 && !deaf)
			sleep_fds_add(&nap->rest.fds, shadow->fd, shadow->events);
	}
	for (nfds_t m = 0; m < call->n_members; m++) {
		struct member *member = &call->members[m];

		if (member->set)
			epoll_sleep(member->set, &nap->rest, &member->guest);
	}
}

/*
 * Before the thread blocks: events from before the watches are seen here, and signal handlers from
 * before the sleep; later ones wake it.
 */
static bool is_quiet(const struct nap *nap)
{
	struct call *call = nap->call;
	int ready = 0;

	waiter_discard(nap->waiter); /* first: events from here on wake the thread again */
	return poll_check_members(call, &ready) && !ready && sock_rings_generation() == call->gen &&
	       !poll_signals_interrupted(&call->signals);
}

static int sleep_watching(struct nap *nap)
{
	struct call *call = nap->call;
	nsec_t deadline = call->deadline;
	int rc = 0;

	collect_fds(nap);
	if (call->deaf && deadline > clock_now() + NAP)
		deadline = clock_now() + NAP;
	while (!rc && sleep_listen(&nap->rest.sleep) && is_quiet(nap))
		rc = rest_now(&nap->rest, deadline, call->signals.mask);
	if (rc == -EINVAL)
		rc = 0; /* more than RLIMIT_NOFILE allows: continues polling */
	return rc < 0 ? rc : 0;
}

int poll_sleep(struct call *call)
{
	struct nap nap; /* not cleared: it is large */
	struct cleanup undo;
	bool watching;
	int rc = 0;

	if (sock_in_callback) { /* which may wait for a datagram that only its return lets in */
		call->deadline = 0;
		return 0;
	}
	if (call->gen != sock_rings_generation() || call->n_sets)
		poll_follow_rings(call);
	nap.call = call;
	nap.waiter = waiter_self();
	nap.n_watched = 0;
	nap.forks = ready_forks;
	busy_lock(); /* a signal handler may jump out of the sleep, not of its begin or end */
	if (!nap.waiter || !rest_begin(&nap.rest, nap.waiter, &call->rings,
				       (unsigned)call->n + call->n_sets * EPOLL_SLEEP_FDS)) {
		busy_unlock();
		sys_sched_yield(); /* no memory: continues polling */
		return 0;
	}
	cleanup_push(&undo, cancelled, &nap);
	watching = watch_members(&nap);
	busy_unlock();
	if (watching)
		rc = sleep_watching(&nap);
	busy_lock();
	cleanup_pop(&undo);
	wake_up(&nap);
	busy_unlock();
	return rc;
}
