/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The one loop of all calls that may block: receive, send, accept, connect.
 *
 *	hold the home ring; try; release; wait; again
 *
 * A call provides a try function, which runs with the home ring held and does not block.
 * The loop does what is the same for all calls: it fetches an exported socket, returns
 * SOCK_KERNEL for a socket that fell back to the kernel, observes O_NONBLOCK, MSG_DONTWAIT
 * and the timeouts, and ends with -EINTR after a signal handler.  It first polls, then
 * sleeps.  After a timeout or a signal there is one last try.
 *
 * Role		app, holding no ring.
 * Lifetime	while a thread waits, the socket lives: a close() by another thread takes
 *		effect when the last call has left, as the kernel keeps a file open
 *		during a call.
 */
#ifndef SOCK_WAIT_WAIT_H
#define SOCK_WAIT_WAIT_H

#include <errno.h>

#include "base/cleanup.h"
#include "sock/core/inet_sock.h"
#include "sock/core/kind.h"
#include "sock/wait/spin.h"

/* What a try returns beside results; SOCK_FETCH: the socket is exported. */
#define SOCK_TRY_WAIT (-4098)  /* nothing there: wait, unless the call must not block */
#define SOCK_TRY_AGAIN (-4099) /* try again at once */
#define SOCK_TRY_ASIDE (-4100) /* call aside() first, which runs with no ring held */

/* The mode of calls that are not instantiated for each thread mode. */
#define SOCK_WAIT_COLD HOLD_MODES

struct sock_call {
	struct sock_ref ref;
	struct sock_signals before; /* when the call began: handlers that run later interrupt it */
	uint32_t events;	    /* EPOLL* that end a sleep; a call with EPOLLIN receives */
	int dontwait;		    /* 0; MSG_DONTWAIT, or SOCK_NONBLOCKING, or both */
};

#define SOCK_NONBLOCKING 1 /* O_NONBLOCK was set when the call began */

/* A call with flags (MSG_DONTWAIT), beginning now: struct sock_call call = SOCK_CALL(...). */
#define SOCK_CALL(sock_ref, flags, wanted)                                               \
	{                                                                                \
		.ref = (sock_ref), .before = sock_signals, .events = (wanted),           \
		.dontwait = ((flags)&MSG_DONTWAIT) |                                     \
			    __atomic_load_n(&(sock_ref).sk->nonblock, __ATOMIC_RELAXED), \
	}

/* The state of a call between two tries. */
struct sock_wait {
	struct sock_ref ref; /* sk NULL: the call has not waited yet */
	uint32_t events;
	int polls;	 /* left before sleeping; negative: never sleep */
	nsec_t deadline; /* NSEC_NEVER: none */
	struct sock_signals before;
	int why;	    /* the result when it must not wait: -EAGAIN or -EINTR */
	bool dontwait;	    /* the call must not wait, or not any longer */
	bool polled_others; /* a call that must not wait has polled the socket's other rings */
	struct spin spin;
	struct cleanup undo; /* of the whole wait */
};

/*
 * holder: one try.  True: *n is the result of the call.  False: *n is SOCK_FETCH or
 * SOCK_TRY_*.
 */
typedef bool sock_try_fn(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n);

/* No ring held: the result of the call, SOCK_TRY_WAIT or SOCK_TRY_AGAIN. */
typedef ssize_t sock_aside_fn(void *arg, struct sock_wait *wait);

/* The time is over, or a signal handler ran: this is the last try. */
static inline bool sock_wait_is_over(const struct sock_wait *wait)
{
	return wait->dontwait && wait->ref.sk;
}

/*
 * After a try that found nothing, or (fetch) found the socket exported.  0: try again.
 * Otherwise the result of the call: -EAGAIN: the time is over; -EINTR: a signal handler
 * ran and the call is not restarted; -EBADF: the socket was closed; an error of the fetch.
 */
int sock_wait_on(struct sock_wait *wait, struct sock_ref ref, uint32_t events, bool fetch);

/*
 * app, no ring held: has another process cleared O_NONBLOCK, so that a call that would return -EAGAIN
 * blocks?  Asks the kernel if other processes may have the socket, once in 50 us.  True also if the
 * socket is gone: the next try finds that.
 */
bool sock_wait_blocks_now(struct sock_ref ref);

void sock_wait_finish(struct sock_wait *wait);

static inline void sock_wait_end(struct sock_wait *wait)
{
	if (__builtin_expect(wait->ref.sk != NULL, 0))
		sock_wait_finish(wait);
}

/* The call must not wait, and sock_wait_on() would do nothing: the call returns wait->why. */
static inline bool sock_wait_refused(const struct sock_wait *wait, struct sock_ref ref,
				     bool receives)
{
	uint8_t n = __atomic_load_n(&inet_of(ref.sk)->n_rings, __ATOMIC_RELAXED);

	return wait->dontwait &&
	       (!receives || ((n < 2 || wait->polled_others) && !sock_is_exported(ref.sk)));
}

/* The call, which must not wait, finds that it may. */
static inline bool sock_wait_may_block(const struct sock_call *call)
{
	struct inet_sock *so = inet_of(call->ref.sk);
	uint64_t shared = __atomic_load_n(&sock_shared_id, __ATOMIC_RELAXED);

	/* The socket may have been closed in the meantime: then the next try returns -EBADF. */
	return __atomic_load_n(&so->id, __ATOMIC_RELAXED) <= shared &&
	       call->dontwait == SOCK_NONBLOCKING && sock_wait_blocks_now(call->ref);
}

/* holder: a receive found nothing.  Counts it if the call returns -EAGAIN. */
static inline void sock_wait_count(struct inet_sock *so, const struct sock_wait *wait)
{
	struct sock_ref ref = {&so->sk, 0};

	if (wait->dontwait && !wait->ref.sk && sock_wait_refused(wait, ref, true)) {
		sock_count(so, rx_misses, 1);
		sock_count(so, rx_eagains, 1);
	}
}

static inline __attribute__((always_inline)) int
sock_wait_hold(struct sock_ref ref, struct ring **ring, enum hold_mode mode)
{
	return mode == SOCK_WAIT_COLD ? sock_hold_cold(ref, ring) : sock_hold_mode(ref, ring, mode);
}

static inline __attribute__((always_inline)) void sock_wait_release(struct ring *ring,
								    enum hold_mode mode)
{
	if (mode == SOCK_WAIT_COLD)
		ring_release_cold(ring);
	else
		ring_release(ring, mode);
}

/*
 * Makes the call.  try and aside get arg; aside is NULL if try never returns SOCK_TRY_ASIDE.
 * Both are constants, like mode, and inlined.
 */
static inline __attribute__((always_inline)) ssize_t sock_wait_loop(struct sock_call call,
								    enum hold_mode mode,
								    sock_try_fn *try,
								    sock_aside_fn *aside, void *arg)
{
	struct sock_wait wait
		__attribute__((cleanup(sock_wait_end))); /* not cleared: it is large */
	struct ring *ring;
	ssize_t n;
	int rc;

	wait.ref.sk = NULL;
	wait.before = call.before;
	wait.why = -EAGAIN;
	wait.dontwait = call.dontwait;
	wait.polled_others = false;
	wait.spin.late = false;
	for (;;) {
		rc = sock_wait_hold(call.ref, &ring, mode);
		if (__builtin_expect(rc != 0, 0))
			return rc;
		if (__builtin_expect(try(arg, ring, &wait, &n), 1)) {
			sock_wait_release(ring, mode);
			return n;
		}
		sock_wait_release(ring, mode);
		if (aside && n == SOCK_TRY_ASIDE)
			n = aside(arg, &wait);
		if (n == SOCK_TRY_AGAIN)
			continue;
		if (n != SOCK_TRY_WAIT && n != SOCK_FETCH)
			return n;
		if (n == SOCK_TRY_WAIT &&
		    sock_wait_refused(&wait, call.ref, call.events & EPOLLIN)) {
			if (__builtin_expect(!sock_wait_may_block(&call), 1))
				return wait.why;
			call.dontwait = wait.dontwait = false;
			continue;
		}
		rc = sock_wait_on(&wait, call.ref, call.events, n == SOCK_FETCH);
		if (rc)
			return rc;
	}
}

#endif
