/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending on TCP sockets.  Written once, instantiated per thread mode. */
#include <errno.h>

#include "sock/core/access.h"
#include "sock/core/msg/cmsg.h"
#include "sock/core/msg/iov.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/wait/wait.h"
#include "sock/wait/zerocopy.h"

#define POLL_ON_TX 16384 /* unacknowledged bytes beyond which a send polls for ACKs first */

int tcp_not_connected(struct inet_sock *so, bool sending)
{
	int error;

	if (sock_is_exported(&so->sk))
		return SOCK_FETCH;
	error = so->inet == INET_TCP ? sock_take_error(so) : 0;
	if (error)
		return -error; /* of a connection that was disconnected */
	if (sending)
		return -EPIPE;
	return so->inet != INET_LISTEN && so->shut_rd ? 0 : -ENOTCONN;
}

static void keep_error(uint8_t *kept, int error)
{
	if (error > 0 && error != EAGAIN && error != EINTR && error != EPIPE &&
	    error != -SOCK_KERNEL)
		__atomic_store_n(kept, (uint8_t)error, __ATOMIC_RELAXED);
}

ssize_t tcp_partial(struct inet_sock *so, size_t done, int rc)
{
	if (rc != -EFAULT) /* an error of the call, not of the connection */
		keep_error(&so->tcp.kept_error, -rc);
	return (ssize_t)done;
}

void sock_keep_error(struct sock_ref ref, int error)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;

	if (sock_hold_cold(ref, &ring))
		return;
	if (so->inet == INET_TCP)
		keep_error(&so->tcp.kept_error, error);
	else if (so->inet == INET_LOCAL)
		keep_error(&so->shm.kept_error, error);
	ring_release_cold(ring);
}

size_t sock_room(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	size_t room = 0;

	if (sock_hold_cold(ref, &ring))
		return 0;
	ring_poll(ring);
	if (sock_has_connection(so) && !sock_is_connecting(so))
		room = tcp_writable_bytes(&so->tcp.conn);
	else if (sock_life_is(so, LIFE_LOCAL) && so->shm.established)
		room = byte_ring_reader_closed(&so->shm.out) ? UINT32_MAX /* the peer resets it */
							     : byte_ring_space(&so->shm.out);
	ring_release_cold(ring);
	return room;
}

_Static_assert(TCP_SEND_EOR == MSG_EOR && TCP_SEND_MORE == MSG_MORE && TCP_SEND_OOB == MSG_OOB,
	       "the engine has no headers of sockets");

/* What the engine knows of them. */
static inline unsigned send_flags(int flags)
{
	return (unsigned)flags & (TCP_SEND_EOR | TCP_SEND_MORE | TCP_SEND_OOB);
}

/*
 * MSG_FASTOPEN: connects first, without a cookie of the server, as the kernel does the first
 * time. Control messages have no effect, but must be valid. Dummy sends: tcp_dummy_check().
 */
static __attribute__((noinline)) int send_prepare(struct sock_ref ref, const struct msghdr *msg,
						  int flags)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	bool begun;
	int rc = cmsg_check(msg);

	if (!rc && sock_is_dummy(flags))
		return tcp_dummy_check(ref, flags);
	if (rc || !(flags & MSG_FASTOPEN))
		return rc;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	rc = sock_has_connection(so) && sock_is_connecting(so) ? -EALREADY : -EISCONN;
	begun = so->inet != INET_TCP || sock_has_connection(so);
	ring_release_cold(ring);
	if (begun)
		return rc;
	if (!msg->msg_name)
		return -EINVAL;
	return tcp_sock_connect(ref, msg->msg_name, msg->msg_namelen);
}

struct send {
	struct sock_ref ref;
	int flags;
	struct iovec *iov; /* what is left to send: the program's array, or copy */
	size_t count;
	size_t want, done;
	size_t sent;			  /* by the last try */
	struct iovec *copy, *const stack; /* stack[IOV_STACK] */
	bool resolved;			  /* the route was looked up in this call */
};

static inline __attribute__((always_inline)) bool send_try(void *arg, struct ring *ring,
							   struct sock_wait *wait, ssize_t *n)
{
	struct send *s = arg;
	struct inet_sock *so = inet_of(s->ref.sk);
	struct tcp_conn *conn = &so->tcp.conn;
	uint32_t unacked;

	(void)wait;
	if (__builtin_expect(!sock_has_connection(so), 0)) {
		*n = tcp_not_connected(so, true);
		return *n != SOCK_FETCH;
	}
	*n = -tcp_take_kept_error(so);
	if (__builtin_expect(*n != 0, 0))
		return true;
	if (__builtin_expect(sock_is_connecting(so), 0)) {
		ring_poll(ring);
		tcp_after(so, ring);
		*n = SOCK_TRY_WAIT;
		return false;
	}
	s->sent = 0;
	if (__builtin_expect(!dst_fresh(&so->tcp.dst) && !s->resolved, 0)) {
		*n = SOCK_TRY_ASIDE;
		return false;
	}
	if (sock_is_dummy(s->flags)) {
		*n = tcp_dummy_try(so, ring, s->iov, s->count);
		s->done = *n > 0 ? (size_t)*n : 0;
		return true;
	}
	sock_access_tx(so);
	unacked = tcp_unacked_bytes(conn);
	if (!unacked)
		__atomic_store_n(&so->tcp.sends_as, 0, __ATOMIC_RELAXED);
	if (unacked > POLL_ON_TX)
		ring_poll(ring);
	else
		ring_set_now(ring, clock_now());
	*n = tcp_send(conn, s->iov, (int)s->count, send_flags(s->flags), ring->now);
	if (__builtin_expect(*n < 0, 0)) {
		if (*n != -EAGAIN)
			sock_count(so, tx_errors, 1);
		else if (wait->dontwait && !sock_wait_is_over(wait))
			sock_count(so, tx_eagains, 1);
		if (*n != -EAGAIN && *n != -EFAULT)
			so->tcp.error = 0; /* reported */
	}
	if (__builtin_expect(*n < 0 || tcp_is_full(conn), 0))
		tcp_update_events(so, 0);
	tcp_after(so, ring);
	if (__builtin_expect(*n < 0 && *n != -EAGAIN, 0))
		return true;
	if (*n > 0) {
		s->sent = (size_t)*n;
		s->done += s->sent;
	}
	if (__builtin_expect(s->done >= s->want, 1)) {
		*n = 0;
		return true;
	}
	*n = s->sent ? SOCK_TRY_ASIDE : SOCK_TRY_WAIT;
	return false;
}

/* The route must be looked up again; or a part was sent, and the rest must follow. */
static inline __attribute__((always_inline)) ssize_t send_aside(void *arg, struct sock_wait *wait)
{
	struct send *s = arg;
	int rc;

	if (!s->sent) {
		s->resolved = true;
		rc = tcp_resolve(s->ref);
		return rc ? rc : SOCK_TRY_AGAIN;
	}
	if (wait->dontwait)
		return SOCK_TRY_WAIT;
	if (!iov_continue(&s->iov, &s->count, s->sent, &s->copy, s->stack))
		return -ENOBUFS;
	return SOCK_TRY_WAIT;
}

static inline __attribute__((always_inline)) ssize_t
send_mode(struct sock_ref ref, const struct msghdr *msg, int flags, enum hold_mode mode)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_call call = SOCK_CALL(ref, flags, EPOLLOUT);
	struct iovec stack[IOV_STACK];
	struct send s = {.ref = ref,
			 .flags = flags,
			 .iov = msg->msg_iov,
			 .count = msg->msg_iovlen,
			 .want = iov_total(msg->msg_iov, msg->msg_iovlen),
			 .stack = stack};
	int rc;

	if (__builtin_expect((flags & (MSG_FASTOPEN | MSG_ZEROCOPY | VMA_SND_FLAGS_DUMMY)) ||
				     msg->msg_controllen,
			     0)) {
		if (flags & MSG_ZEROCOPY)
			return zerocopy_send(ref, msg, flags);
		rc = send_prepare(ref, msg, flags);
		if (rc)
			return rc;
		if (so->inet == INET_LOCAL) /* it has connected to a process of this host */
			return sock_ops_of(ref.sk)->send(ref, msg, flags & ~MSG_FASTOPEN);
	}
	rc = (int)sock_wait_loop(call, mode, send_try, send_aside, &s);
	if (__builtin_expect(s.copy != NULL, 0))
		iov_copy_free(s.copy, stack);
	return s.done ? tcp_partial(so, s.done, rc) : rc;
}

#define X(name, mode)                                                                     \
	ssize_t tcp_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags) \
	{                                                                                 \
		return send_mode(ref, msg, flags, mode);                                  \
	}
SOCK_MODES(X)
#undef X
