/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait.h"

#include <errno.h>

#include "base/param.h"
#include "sock/sock_internal.h"

#define FDS_MAX (2 + 4 * PORT_FDS_MAX)

void sock_wait_begin(struct sock_wait *wait, struct sock_ref ref, uint32_t events, nsec_t timeout)
{
	/* Pairs with sock_close(): it counts us, or we find the socket gone. */
	__atomic_fetch_add(&ref.sk->waiters, 1, __ATOMIC_SEQ_CST);
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
		fds[n++] = (struct pollfd){.fd = sock_twin(sk), .events = POLLIN};
	for (unsigned r = 0; r < n_rings; r++) {
		int ring_fd[PORT_FDS_MAX], n_fds = ring_fds(rings[r], ring_fd);

		for (int i = 0; i < n_fds && n < FDS_MAX; i++)
			fds[n++] = (struct pollfd){.fd = ring_fd[i], .events = POLLIN};
	}
	return n;
}

/* One sleep: what has to be undone after it, also when the thread is cancelled. */
struct sleep {
	struct sock_wait *wait;
	struct waiter *waiter;
	struct watch watch;
	struct ring *rings[SOCK_RINGS_MAX];
	unsigned n_rings;
};

static void wake_up(void *arg)
{
	struct sleep *sleep = arg;
	struct ring *ring;

	ring_sleep_end(sleep->rings, sleep->n_rings);
	/* The watch is on this stack: it goes, unless the socket ended and took it off. */
	if (sock_hold_cold(sleep->wait->ref, &ring) == 0) {
		watch_remove(&sleep->watch);
		ring_release_cold(ring);
	}
	waiter_discard(sleep->waiter);
}

/*
 * Puts the watch in place.  What sets the events is the holder, so looking once
 * more while we are it leaves no gap.  True: there is nothing yet, sleep.
 */
static bool lie_down(struct sleep *sleep, struct ring *ring)
{
	const struct sock *sk = sleep->wait->ref.sk;
	/* Errors and the end of the stream are events, too. */
	uint32_t wanted = sleep->wait->events | EPOLLERR | EPOLLHUP;
	bool nothing;

	watch_add(&sleep->watch);
	waiter_prepare(sleep->waiter);
	nothing = !(sock_events(sk) & wanted);
	if (!nothing) {
		waiter_cancel(sleep->waiter);
		watch_remove(&sleep->watch);
	}
	ring_release_cold(ring);
	if (!nothing)
		waiter_discard(sleep->waiter);
	return nothing;
}

static void note_twin(const struct sock_wait *wait, const struct pollfd *fds)
{
	if (sock_twin_matters(wait->ref.sk) && fds[1].revents)
		__atomic_store_n(&wait->ref.sk->twin_events, EPOLLIN | EPOLLRDNORM,
				 __ATOMIC_RELAXED);
}

static void cancelled(void *arg)
{
	sock_wait_end(arg);
}

/* A cancellation point. */
static int sleep_guarded(struct sleep *sleep, struct pollfd *fds, unsigned n)
{
	int rc;

	ring_sleep_begin(sleep->rings, sleep->n_rings);
	pthread_cleanup_push(cancelled, sleep->wait);
	pthread_cleanup_push(wake_up, sleep);
	rc = waiter_sleep(sleep->waiter, fds, n, sleep->wait->deadline, NULL);
	pthread_cleanup_pop(1);
	pthread_cleanup_pop(0);
	return rc;
}

/* Sleeps until the socket has something, by whichever thread it was received. */
static int sleep_on(struct sock_wait *wait)
{
	struct sleep sleep = {.wait = wait, .waiter = waiter_self()};
	struct pollfd fds[FDS_MAX];
	struct ring *ring;
	unsigned n;
	int rc;

	if (!sleep.waiter)
		return 0; /* no memory to sleep with: goes on polling */
	watch_init(&sleep.watch, sleep.waiter, wait->ref.sk, wait->events);
	rc = sock_hold_cold(wait->ref, &ring);
	if (rc)
		return rc;
	if (!lie_down(&sleep, ring))
		return 0;
	sleep.n_rings = sock_rings(wait->ref.sk, sleep.rings, SOCK_RINGS_MAX);
	n = collect_fds(wait->ref.sk, sleep.rings, sleep.n_rings, fds);
	rc = sleep_guarded(&sleep, fds, n);
	if (rc > 0)
		note_twin(wait, fds);
	return rc == -EINTR ? -EINTR : 0;
}

int sock_wait_next(struct sock_wait *wait)
{
	struct ring *home = __atomic_load_n(&wait->ref.sk->home, __ATOMIC_ACQUIRE);
	const struct inet_sock *so = inet_of(wait->ref.sk);
	nsec_t now = __atomic_load_n(&home->now, __ATOMIC_RELAXED);
	int rc;

	if (__builtin_expect(__atomic_load_n(&so->n_rings, __ATOMIC_RELAXED) > 1, 0))
		sock_poll_others(wait->ref.sk);
	if (__builtin_expect(sock_signals.handled != wait->handled, 0) && interrupted(wait))
		return -EINTR;
	if (wait->deadline != NSEC_NEVER && clock_now() >= wait->deadline)
		return -EAGAIN;
	if (wait->polls < 0) {
		spin_round(&wait->spin, now);
		return 0;
	}
	if (ring_queue(home) && wait->polls > 0) {
		wait->polls--;
		spin_round(&wait->spin, now);
		return 0;
	}
	rc = sleep_on(wait);
	if (rc == -EINTR && !interrupted(wait))
		rc = sock_signals.handled != wait->handled ? 0 : -EINTR;
	return rc;
}
