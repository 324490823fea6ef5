/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait.h"

#include <errno.h>

#include "base/param.h"
#include "sock/sock_internal.h"

#define FDS_MAX (2 + 4 * PORT_FDS_MAX)

void sock_wait_begin(struct sock_wait *wait, struct sock_ref ref, uint32_t events, nsec_t timeout)
{
	wait->ref = ref;
	wait->events = events;
	wait->polls = params.rx_poll ? params.rx_poll : 1;
	wait->deadline = timeout ? clock_now() + timeout : NSEC_NEVER;
	wait->handled = sock_signals.handled;
	wait->restarted = sock_signals.restart;
	spin_start(&wait->spin);
}

/* signal(7): SA_RESTART restarts a call unless it has a timeout. */
static bool interrupted(const struct sock_wait *wait)
{
	unsigned handled = sock_signals.handled - wait->handled;

	return handled &&
	       (wait->deadline != NSEC_NEVER || sock_signals.restart - wait->restarted != handled);
}

/* Descriptors whose readability may concern the socket. */
static unsigned collect_fds(const struct sock *sk, struct ring **rings, unsigned n_rings,
			    struct pollfd *fds)
{
	unsigned n = 1; /* fds[0] is the waiter's */

	if (sock_twin_matters(sk))
		fds[n++] = (struct pollfd){.fd = sk->twin, .events = POLLIN};
	for (unsigned r = 0; r < n_rings; r++) {
		for (int i = 0; i < rings[r]->n_fds && n < FDS_MAX; i++)
			fds[n++] = (struct pollfd){.fd = rings[r]->fds[i], .events = POLLIN};
	}
	return n;
}

/*
 * Sleeps until the socket has something, by whichever thread it was received.
 * What sets the events is the holder, so looking once more after the watch is
 * in place leaves no gap.
 */
static int sleep_on(struct sock_wait *wait)
{
	struct waiter *waiter = waiter_self();
	struct ring *rings[SOCK_RINGS_MAX], *ring;
	struct pollfd fds[FDS_MAX];
	struct watch watch;
	unsigned n, n_rings;
	int rc;

	if (!waiter)
		return 0; /* no descriptor to sleep on: goes on polling */
	watch_init(&watch, waiter, wait->ref.sk, wait->events);
	rc = sock_hold_cold(wait->ref, &ring);
	if (rc)
		return rc;
	watch_add(&watch);
	waiter_prepare(waiter);
	/* Errors and the end of the stream are events, too. */
	if (sock_events(wait->ref.sk) & (wait->events | EPOLLERR | EPOLLHUP)) {
		waiter_cancel(waiter);
		watch_remove(&watch);
		ring_release_cold(ring);
		waiter_take(waiter);
		return 0;
	}
	ring_release_cold(ring);
	n_rings = sock_rings(wait->ref.sk, rings, SOCK_RINGS_MAX);
	n = collect_fds(wait->ref.sk, rings, n_rings, fds);
	ring_sleep_begin(rings, n_rings);
	rc = waiter_sleep(waiter, fds, n, wait->deadline, NULL);
	ring_sleep_end(rings, n_rings);
	if (rc > 0 && sock_twin_matters(wait->ref.sk) && fds[1].revents)
		__atomic_store_n(&wait->ref.sk->twin_events, EPOLLIN | EPOLLRDNORM,
				 __ATOMIC_RELAXED);
	/* The watch is ours and on this stack: it goes even if the socket went. */
	if (sock_hold_cold(wait->ref, &ring) == 0) {
		watch_remove(&watch);
		ring_release_cold(ring);
	}
	waiter_take(waiter);
	return rc == -EINTR ? -EINTR : 0;
}

int sock_wait_next(struct sock_wait *wait)
{
	struct ring *home = __atomic_load_n(&wait->ref.sk->home, __ATOMIC_ACQUIRE);
	const struct inet_sock *so = inet_of(wait->ref.sk);
	nsec_t now = home->now;
	int rc;

	if (__builtin_expect(so->n_rings > 1, 0)) {
		struct ring *rings[SOCK_RINGS_MAX];
		unsigned n = sock_rings(wait->ref.sk, rings, SOCK_RINGS_MAX);

		for (unsigned i = 0; i < n; i++) {
			if (rings[i] != home)
				sock_poll_ring(rings[i]);
		}
	}
	if (__builtin_expect(sock_signals.handled != wait->handled, 0) && interrupted(wait))
		return -EINTR;
	if (wait->deadline != NSEC_NEVER && clock_now() >= wait->deadline)
		return -EAGAIN;
	if (wait->polls < 0) {
		spin_round(&wait->spin, now);
		return 0;
	}
	if (home->q && wait->polls > 0) {
		wait->polls--;
		spin_round(&wait->spin, now);
		return 0;
	}
	rc = sleep_on(wait);
	if (rc == -EINTR && !interrupted(wait))
		rc = sock_signals.handled != wait->handled ? 0 : -EINTR;
	return rc;
}
