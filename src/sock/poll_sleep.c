/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping in poll(2) and select(2): on the shadow, on the descriptors of the
 * rings, and on the watches of the members.
 */
#include <errno.h>
#include <pthread.h>

#include "base/mem.h"
#include "base/sys.h"
#include "sock/poll_events.h"
#include "sock/poll_internal.h"

#define NAP (10 * NSEC_PER_MSEC) /* when a descriptor says what nobody wants to hear */

struct sleep {
	struct call *call;
	struct waiter *waiter;
	struct sleep_fds fds;
	nfds_t n_watched; /* members whose watch may be added */
	unsigned n_sets;  /* sets that know */
	bool on_rings;
};

static void wake_up(struct sleep *sleep)
{
	struct call *call = sleep->call;

	if (sleep->on_rings)
		ring_set_woken(&call->rings);
	for (nfds_t m = 0; m < sleep->n_watched; m++) {
		struct member *member = &call->members[m];
		struct ring *ring;

		if (member->set) {
			if (sleep->n_sets) {
				sleep->n_sets--;
				epoll_woken(member->set);
			}
			continue;
		}
		/* If it is gone, so is the watch from its list. */
		if (sock_hold(member->ref, &ring)) {
			watch_remove(&member->watch);
			sock_release(ring);
		}
	}
	waiter_discard(sleep->waiter);
	sleep_fds_fini(&sleep->fds);
}

static void cancelled(void *arg)
{
	struct sleep *sleep = arg;

	wake_up(sleep);
	mem_free(sleep->call->owned);
	poll_end(sleep->call);
}

/* False: one of them ended, or this is a signal handler that interrupted the library. */
static bool watch_members(struct sleep *sleep)
{
	struct call *call = sleep->call;

	for (; sleep->n_watched < call->n_members; sleep->n_watched++) {
		struct member *member = &call->members[sleep->n_watched];
		struct ring *ring;

		if (member->set)
			continue;
		watch_init(&member->watch, sleep->waiter, member->ref.sk,
			   poll_events_wanted((uint16_t)call->fds[member->at].events));
		if (!sock_hold(member->ref, &ring))
			return false;
		watch_add(&member->watch);
		sock_release(ring);
	}
	return true;
}

/* Fills in the descriptors; sets within are told that we sleep for them. */
static void collect_fds(struct sleep *sleep)
{
	struct call *call = sleep->call;

	for (nfds_t i = 0; i < call->n; i++) {
		const struct pollfd *shadow = &call->shadow[i];
		bool deaf = call->deaf && shadow->revents && !call->fds[i].revents;

		if (shadow->fd >= 0 && !deaf)
			sleep_fds_add(&sleep->fds, shadow->fd, shadow->events);
	}
	for (nfds_t m = 0; m < call->n_members; m++) {
		if (!call->members[m].set)
			continue;
		epoll_sleep(call->members[m].set, &sleep->fds);
		sleep->n_sets++;
	}
	sleep_fds_add_rings(&sleep->fds, &call->rings);
}

static int sleep_watching(struct sleep *sleep)
{
	struct call *call = sleep->call;
	nsec_t deadline = call->deadline;
	int ready = 0, rc;

	collect_fds(sleep);
	waiter_prepare(sleep->waiter);
	/* What came before the watches is seen here, what comes later wakes us. */
	if (ring_set_poll(&call->rings) || !poll_check_members(call, &ready) || ready ||
	    sock_rings_generation() != call->gen) {
		waiter_cancel(sleep->waiter);
		return 0;
	}
	ring_set_sleep(&call->rings);
	sleep->on_rings = true;
	if (call->deaf && deadline > clock_now() + NAP)
		deadline = clock_now() + NAP;
	rc = waiter_sleep(sleep->waiter, sleep->fds.fds, sleep->fds.n, deadline,
			  call->signals.mask);
	if (rc == -EINVAL)
		rc = 0; /* more than RLIMIT_NOFILE allows: goes on polling */
	return rc < 0 ? rc : 0;
}

int poll_sleep(struct call *call)
{
	struct sleep sleep = {.call = call, .waiter = waiter_self()};
	int rc = 0;

	if (call->gen != sock_rings_generation() || call->n_sets)
		poll_follow_rings(call);
	if (!sleep.waiter ||
	    !sleep_fds_init(&sleep.fds, (unsigned)call->n + call->n_sets * EPOLL_SLEEP_FDS,
			    &call->rings)) {
		sys_sched_yield(); /* no memory: goes on polling */
		return 0;
	}
	pthread_cleanup_push(cancelled, &sleep);
	if (watch_members(&sleep))
		rc = sleep_watching(&sleep);
	pthread_cleanup_pop(0);
	wake_up(&sleep);
	return rc;
}
