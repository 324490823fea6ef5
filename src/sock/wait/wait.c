/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/wait.h"

#include <errno.h>

#include "base/busy.h"
#include "base/param.h"
#include "sock/core/extra/filter.h"
#include "sock/wait/poll_rings.h"

static void cancelled(void *arg)
{
	struct sock_wait *wait = arg;

	sock_wait_leave(wait->ref);
}

void sock_wait_finish(struct sock_wait *wait)
{
	busy_lock(); /* as in begin() */
	cleanup_pop(&wait->undo);
	sock_wait_leave(wait->ref);
	busy_unlock();
}

/*
 * timeout: 0 means none, as SO_RCVTIMEO does. A signal handler that jumps finds the thread counted and
 * the cleanup record there, or neither.
 */
static void begin(struct sock_wait *wait, struct sock_ref ref, uint32_t events, nsec_t timeout)
{
	busy_lock();
	/*
	 * Pairs with sock_close(): either it counts this thread, or this thread finds the
	 * socket gone.
	 */
	__atomic_fetch_add(&ref.sk->waiters, 1, __ATOMIC_SEQ_CST);
	wait->ref = ref;
	wait->events = events;
	wait->polls = params.rx_poll ? params.rx_poll : 1;
	wait->deadline = timeout ? clock_now() + timeout : NSEC_NEVER;
	spin_start(&wait->spin);
	/* Pairs with sock_set_home(); where the socket goes later makes little difference. */
	wait->spin.beside = wait->polls > 0 &&
			    ring_is_beside(__atomic_load_n(&ref.sk->home, __ATOMIC_ACQUIRE));
	cleanup_push(&wait->undo, cancelled, wait);
	busy_unlock();
}

static bool interrupted(const struct sock_wait *wait)
{
	return sock_signals_interrupt(&wait->before, wait->deadline != NSEC_NEVER);
}

/* One sleep, and what has to be undone after it, also when the thread is cancelled. */
struct nap {
	struct sock_wait *wait;
	struct waiter *waiter;
	struct watch watch;
	unsigned forks; /* ready_forks when it began */
	struct ring_set rings;
	struct rest rest;
};

static void wake_up(void *arg)
{
	struct nap *nap = arg;
	struct ring *ring;

	rest_end(&nap->rest);
	if (nap->forks != ready_forks)
		return; /* a child of a fork() in the sleep: the socket has a new list */
	/* The watch is on this stack: removes it, unless the socket ended and has removed it. */
	if (sock_hold_cold(nap->wait->ref, &ring) == 0) {
		watch_remove(&nap->watch);
		ring_release_cold(ring);
	}
	waiter_discard(nap->waiter);
}

static bool same_rings(const struct nap *nap)
{
	struct ring_set now = {.n = 0};

	ring_set_add_sock(&now, nap->wait->ref.sk);
	if (now.n != nap->rings.n)
		return false;
	for (unsigned i = 0; i < now.n; i++) {
		if (now.rings[i] != nap->rings.rings[i])
			return false;
	}
	return true;
}

/*
 * Before the thread blocks: the watch is in place, so earlier events are seen here, and
 * later ones wake the thread.  A socket that moves wakes all threads that wait for it; one
 * that was exported before the watch was in place has not woken this one.  Likewise a signal handler
 * that ran before the sleep began has not ended it.
 */
static bool is_quiet(const struct nap *nap)
{
	/* Errors and the end of the stream count, too. */
	uint32_t wanted = nap->wait->events | EPOLLERR | EPOLLHUP;
	uint32_t events = sock_events(nap->wait->ref.sk);

	if (events & SOCK_COMPLETED)
		wanted &= ~EPOLLERR;
	return !waiter_pending(nap->waiter) && !(events & wanted) &&
	       !sock_is_exported(nap->wait->ref.sk) && same_rings(nap) && !interrupted(nap->wait);
}

static int sleep_watching(struct nap *nap)
{
	struct sock *sk = nap->wait->ref.sk;
	struct rest *rest = &nap->rest;
	int rc = 0;

	if (sock_twin_matters(sk))
		sleep_fds_add(&rest->fds, sock_twin(sk), POLLIN);
	while (!rc && sleep_listen(&rest->sleep) && is_quiet(nap))
		rc = rest_now(rest, nap->wait->deadline, NULL);
	if (rc > 0 && rc != REST_EXPIRED)
		__atomic_store_n(&sk->twin_events, EPOLLIN | EPOLLRDNORM, __ATOMIC_RELAXED);
	return rc;
}

/* A cancellation point.  In busy_lock(), but for the sleep, from which a signal handler may jump. */
static int sleep_guarded(struct nap *nap)
{
	struct cleanup undo;
	int rc;

	cleanup_push(&undo, wake_up, nap);
	busy_unlock();
	rc = sleep_watching(nap);
	busy_lock();
	cleanup_pop(&undo);
	wake_up(nap);
	return rc;
}

/* In busy_lock(): the thread begins to sleep, and ends it. */
static int begin_and_end_sleep(struct sock_wait *wait)
{
	struct nap nap; /* not cleared: it is large */
	struct ring *ring;
	int rc;

	nap.wait = wait;
	nap.forks = ready_forks;
	nap.waiter = waiter_self();
	if (!nap.waiter)
		return 0; /* no memory to sleep with: continues polling */
	nap.rings.n = 0;
	ring_set_add_sock(&nap.rings, wait->ref.sk);
	if (!rest_begin(&nap.rest, nap.waiter, &nap.rings, 1))
		return 0;
	watch_init(&nap.watch, nap.waiter, wait->ref.sk, wait->events);
	rc = sock_hold_cold(wait->ref, &ring);
	if (rc) {
		rest_end(&nap.rest);
		return rc;
	}
	watch_add(&nap.watch);
	if (wait->events & EPOLLIN)
		sock_count(inet_of(wait->ref.sk), rx_misses, 1);
	ring_release_cold(ring);
	rc = sleep_guarded(&nap);
	return rc == -EINTR ? -EINTR : 0;
}

/* Sleeps until the socket has an event, whichever thread received it. */
static int sleep_on(struct sock_wait *wait)
{
	int rc;

	busy_lock();
	rc = begin_and_end_sleep(wait);
	busy_unlock();
	return rc;
}

/*
 * Polls the socket's other rings, lets other threads run, sleeps when the polling budget
 * is spent.
 */
static int next(struct sock_wait *wait)
{
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	struct ring *home = __atomic_load_n(&wait->ref.sk->home, __ATOMIC_ACQUIRE);
	const struct inet_sock *so = inet_of(wait->ref.sk);
	nsec_t now = __atomic_load_n(&home->now, __ATOMIC_RELAXED);
	int rc;

	if (__builtin_expect(__atomic_load_n(&so->n_rings, __ATOMIC_RELAXED) > 1, 0))
		sock_poll_others(wait->ref.sk);
	if (__builtin_expect(interrupted(wait), 0))
		return -EINTR;
	if (wait->deadline != NSEC_NEVER && clock_now() >= wait->deadline)
		return -EAGAIN;
	if (wait->polls < 0) {
		spin_round(&wait->spin, now);
		return 0;
	}
	if (ring_queue(home) && wait->polls > 0 && !spin_is_crowded(&wait->spin)) {
		wait->polls--;
		spin_round(&wait->spin, now);
		return 0;
	}
	rc = sleep_on(wait);
	if (rc == -EINTR && !interrupted(wait))
		rc = sock_signals.handled != wait->before.handled ? 0 : -EINTR;
	return rc;
}

/* O_NONBLOCK belongs to the file: another process may have changed it.  0, 1, or an error. */
static int nonblock_now(struct sock_ref ref)
{
	uint64_t shared = __atomic_load_n(&sock_shared_id, __ATOMIC_RELAXED);

	if (__builtin_expect(__atomic_load_n(&inet_of(ref.sk)->id, __ATOMIC_RELAXED) > shared, 1))
		return 0;
	return sock_upcalls.nonblock_ask(ref);
}

/*
 * Between two questions about the flag: a thread that polls pays less than a hundredth, and a process
 * that has forked another one to clear it, and waited for it, finds it cleared.
 */
#define ASK_INTERVAL (50 * NSEC_PER_USEC)
#define ASKED 64 /* a power of two */

/* any, atomic: which socket asked last, and when; two that share an entry ask more often. */
static uint64_t asked[ASKED];

bool sock_wait_blocks_now(struct sock_ref ref)
{
	uint64_t id = __atomic_load_n(&inet_of(ref.sk)->id, __ATOMIC_RELAXED);
	uint64_t now = id << 32 | (uint32_t)(clock_now() / ASK_INTERVAL);

	if (__atomic_load_n(&asked[id % ASKED], __ATOMIC_RELAXED) == now)
		return false;
	__atomic_store_n(&asked[id % ASKED], now, __ATOMIC_RELAXED);
	return nonblock_now(ref) != 1;
}

/* Inside a callback, nothing can arrive that a callback has to pass first. */
static bool is_filtered(const struct inet_sock *so)
{
	return so->inet == INET_UDP ? __atomic_load_n(&so->udp.filter, __ATOMIC_RELAXED) != NULL
				    : sock_filter_state(so) != TCP_FILTER_NONE;
}

int sock_wait_on(struct sock_wait *wait, struct sock_ref ref, uint32_t events, bool fetch)
{
	struct inet_sock *so = inet_of(ref.sk);
	bool receives = events & EPOLLIN;
	int rc;

	if (sock_wait_is_over(wait))
		return wait->why;
	/* A datagram socket that is exported still sends, by its twin. */
	if (__builtin_expect(fetch || (receives && sock_is_exported(ref.sk)), 0)) {
		if (wait->ref.sk && interrupted(wait))
			return -EINTR; /* also: a child of a fork() in a callback */
		return sock_upcalls.fetch(ref, wait->dontwait ? SHARE_FETCH_MAX : 0);
	}
	if (wait->dontwait) {
		wait->polled_others = true; /* once */
		sock_poll_others(ref.sk);
		return 0;
	}
	if (!wait->ref.sk) {
		if (__builtin_expect(sock_in_callback && receives, 0) && is_filtered(so))
			return -EAGAIN;
		rc = nonblock_now(ref);
		wait->dontwait = rc == 1;
		if (rc)
			return rc < 0 ? rc : 0; /* one more try, as a nonblocking call */
		begin(wait, ref, events, sock_timeout(receives ? &so->rcvtimeo : &so->sndtimeo));
	}
	rc = next(wait);
	if (rc != -EAGAIN && rc != -EINTR)
		return rc;
	wait->why = rc;
	wait->dontwait = true;
	return 0;
}
