/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving on TCP sockets: the usual call is written once and instantiated per
 * thread mode; calls with conditions (MSG_WAITALL, SO_RCVLOWAT...) are below it.
 */
#include <errno.h>

#include "base/sys.h"
#include "base/user.h"
#include "sock/core/access.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/udp/cmsg.h"
#include "sock/udp/iov.h"
#include "sock/wait/wait.h"

/* holder: what is there now; -EAGAIN when nothing is. */
static inline ssize_t taken(struct inet_sock *so, struct ring *ring, ssize_t n)
{
	if (__builtin_expect(n == -EFAULT, 0))
		return n;
	if (n < 0 && n != -EAGAIN && n != -ENOTCONN)
		so->tcp.error = 0; /* reported */
	if (n != -EAGAIN) {
		tcp_update_events(so, 0);
		tcp_after(so, ring);
	} else if (so->shut_rd) {
		n = 0;
	}
	if (n == -ENOTCONN && sock_is_connecting(so))
		return -EAGAIN; /* as the kernel: waits for the handshake */
	if (n == -ENOTCONN && sock_has_ended(so))
		return 0; /* the error was told: now it is the end */
	return n;
}

/* holder: nothing can be read, whatever is there: *n is why, or 0 for the end, or SOCK_FETCH. */
static inline bool is_refused(struct inet_sock *so, ssize_t *n)
{
	if (__builtin_expect(!sock_has_connection(so), 0)) {
		*n = tcp_not_connected(so, false);
		return true;
	}
	*n = -tcp_kept_error(so);
	return *n != 0;
}

/* holder: when the next byte came; 0: nobody asked for that, or there is none. */
static inline nsec_t stamp_of_next(const struct inet_sock *so)
{
	if (__builtin_expect(!so->told, 1) || !so->tcp.conn.rcv.head)
		return 0;
	return so->tcp.conn.rcv.head->stamp;
}

/* App, no ring held: what comes beside the bytes. */
static __attribute__((noinline)) void tell(struct sock_ref ref, struct msghdr *msg, nsec_t stamp)
{
	struct ring *ring;

	if (sock_hold_cold(ref, &ring)) {
		msg->msg_controllen = 0;
		return;
	}
	cmsg_fill_stream(inet_of(ref.sk)->opt, stamp, (int)tcp_unread(&inet_of(ref.sk)->tcp.conn),
			 msg);
	ring_release_cold(ring);
}

/* A call that succeeded fills in what is not bytes. */
static inline void finish(struct sock_ref ref, struct msghdr *msg, nsec_t stamp)
{
	msg->msg_flags = 0;
	msg->msg_namelen = 0;
	if (__builtin_expect(__atomic_load_n(&inet_of(ref.sk)->told, __ATOMIC_RELAXED), 0))
		tell(ref, msg, stamp);
	else
		msg->msg_controllen = 0;
}

#define WAIT_EVENTS (EPOLLIN | EPOLLRDHUP)

/* ---- urgent data -------------------------------------------------------------------- */

struct urgent {
	struct inet_sock *so;
	uint8_t byte;
	bool peek;
};

/* *n is 1: taken. */
static bool urgent_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct urgent *u = arg;
	struct inet_sock *so = u->so;

	(void)wait;
	if (sock_has_connection(so)) {
		ring_poll(ring);
		*n = tcp_recv_urgent(&so->tcp.conn, &u->byte, u->peek);
		tcp_update_events(so, 0);
		tcp_after(so, ring);
	} else {
		*n = sock_is_exported(&so->sk) ? SOCK_FETCH : -EINVAL;
	}
	return *n != SOCK_FETCH;
}

/* The urgent byte: waits for a process that has the connection, never for the byte. */
static __attribute__((noinline)) ssize_t recv_oob(struct sock_ref ref, struct msghdr *msg,
						  int flags)
{
	struct urgent u = {.so = inet_of(ref.sk), .peek = flags & MSG_PEEK};
	struct sock_call call = SOCK_CALL(ref, flags, WAIT_EVENTS);
	ssize_t rc = sock_wait_loop(call, SOCK_WAIT_COLD, urgent_try, NULL, &u);

	if (rc <= 0)
		return rc;
	msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	msg->msg_flags = MSG_OOB;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		if (msg->msg_iov[i].iov_len) {
			return user_copy(msg->msg_iov[i].iov_base, &u.byte, 1) ? 1 : -EFAULT;
		}
	}
	msg->msg_flags |= MSG_TRUNC;
	return 0;
}

/* ---- with conditions (app, no ring held) -------------------------------------------- */

/* What a call is to bring. */
struct order {
	struct sock_ref ref;
	int flags;
	size_t size;	   /* bytes of the buffers */
	size_t least;	   /* bytes that must be there before any are taken, if it may wait */
	size_t done;	   /* MSG_WAITALL: taken so far */
	nsec_t stamp;	   /* of the latest */
	struct iovec *iov; /* where the next ones go */
	size_t count;
};

/* MSG_TRUNC: the bytes are thrown away instead of copied, tcp(7). */
static ssize_t discard(struct inet_sock *so, size_t want, bool peek, nsec_t now)
{
	char scratch[4096];
	size_t done = 0, here = tcp_readable_bytes(&so->tcp.conn);

	if (peek && here)
		return (ssize_t)(here < want ? here : want);
	while (done < want) {
		struct iovec iov = {scratch,
				    want - done < sizeof(scratch) ? want - done : sizeof(scratch)};
		ssize_t n = tcp_recv(&so->tcp.conn, &iov, 1, false, now);

		if (n <= 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* holder: SO_PEEK_OFF acts; in front of urgent data it does not. */
static bool has_offset(const struct order *o, const struct inet_sock *so)
{
	return (o->flags & MSG_PEEK) && !so->tcp.conn.urgent && tcp_peek_offset(&so->tcp.conn) >= 0;
}

/* holder: bytes for the call. */
static size_t bytes_here(const struct order *o, const struct inet_sock *so)
{
	size_t here = tcp_readable_bytes(&so->tcp.conn), skip;

	if (!has_offset(o, so))
		return here;
	skip = (size_t)tcp_peek_offset(&so->tcp.conn);
	return here > skip ? here - skip : 0;
}

/* holder */
static ssize_t take_ordered(struct order *o, struct inet_sock *so, nsec_t now)
{
	struct tcp_conn *conn = &so->tcp.conn;

	if (!o->size && tcp_readable_bytes(conn))
		return 0; /* nothing is wanted, and it would be here */
	if (has_offset(o, so))
		return tcp_peek(conn, o->flags & MSG_TRUNC ? NULL : o->iov, (int)o->count,
				o->size < UINT32_MAX ? (uint32_t)o->size : UINT32_MAX);
	if (o->size && (o->flags & MSG_TRUNC))
		return discard(so, o->size - o->done, o->flags & MSG_PEEK, now);
	return tcp_recv(conn, o->iov, (int)o->count, o->flags & MSG_PEEK, now);
}

/* holder: some bytes are here, and more have to come. */
static bool is_too_little(const struct order *o, const struct inet_sock *so)
{
	const uint32_t end = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
	size_t here = bytes_here(o, so);

	return here && here < o->least && !(sock_own_events(so) & end) && !so->tcp.conn.urgent;
}

static bool ordered_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct order *o = arg;
	struct inet_sock *so = inet_of(o->ref.sk);
	bool all = (o->flags & MSG_WAITALL) && !(o->flags & MSG_PEEK);

	*n = 0;
	if (sock_wait_is_over(wait) && !o->size)
		return true; /* as Linux: it was asked for nothing, and has waited */
	if (is_refused(so, n))
		return *n != SOCK_FETCH;
	sock_access_rx(so);
	ring_poll(ring);
	o->stamp = stamp_of_next(so);
	*n = SOCK_TRY_ASIDE;
	if (!wait->dontwait && is_too_little(o, so))
		return false;
	*n = taken(so, ring, take_ordered(o, so, ring->now));
	if (*n > 0) {
		o->done += (size_t)*n;
		if (all && o->done < o->size) {
			if (!(o->flags & MSG_TRUNC))
				iov_advance(&o->iov, &o->count, (size_t)*n);
			*n = SOCK_TRY_AGAIN;
			return false;
		}
		*n = 0;
	}
	if (*n != -EAGAIN)
		return true;
	*n = SOCK_TRY_ASIDE;
	return false;
}

/* Something is there, so sleeping for EPOLLIN would be none. */
static ssize_t ordered_aside(void *arg, struct sock_wait *wait)
{
	const struct order *o = arg;
	struct timespec ts = {0, 1000000};

	if (wait->ref.sk && !wait->dontwait && (o->least > 1 || (o->flags & MSG_PEEK)) &&
	    (sock_events(o->ref.sk) & EPOLLIN))
		sys_ppoll(NULL, 0, &ts, NULL);
	return SOCK_TRY_WAIT;
}

static __attribute__((noinline)) ssize_t recv_ordered(struct sock_ref ref, struct msghdr *msg,
						      int flags, size_t size)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_call call = SOCK_CALL(ref, flags, WAIT_EVENTS);
	struct iovec stack[IOV_STACK], *copy;
	struct order o = {.ref = ref, .flags = flags, .size = size, .least = 1};
	uint32_t lowat = __atomic_load_n(&so->rcvlowat, __ATOMIC_RELAXED);
	int rc;

	if (flags & MSG_OOB)
		return recv_oob(ref, msg, flags);
	if (flags & MSG_ERRQUEUE)
		return -EAGAIN;
	if ((flags & MSG_PEEK) && (flags & MSG_WAITALL))
		o.least = size;
	else if (!(flags & MSG_WAITALL))
		o.least = lowat < size ? lowat : size;
	copy = iov_copy(msg->msg_iov, msg->msg_iovlen, stack);
	if (!copy)
		return -ENOBUFS;
	o.iov = copy;
	o.count = msg->msg_iovlen;
	rc = (int)sock_wait_loop(call, SOCK_WAIT_COLD, ordered_try, ordered_aside, &o);
	iov_copy_free(copy, stack);
	if (!o.done && rc)
		return rc;
	finish(ref, msg, o.stamp);
	return o.done ? tcp_partial(so, o.done, rc) : 0;
}

/* ---- the usual call ----------------------------------------------------------------- */

struct recv {
	struct inet_sock *so;
	const struct msghdr *msg;
	nsec_t stamp;
};

static inline __attribute__((always_inline)) bool recv_try(void *arg, struct ring *ring,
							   struct sock_wait *wait, ssize_t *n)
{
	struct recv *r = arg;
	struct inet_sock *so = r->so;
	struct tcp_conn *conn = &so->tcp.conn;

	(void)wait;
	if (__builtin_expect(is_refused(so, n), 0))
		return *n != SOCK_FETCH;
	sock_access_rx(so);
	if (!tcp_readable_bytes(conn))
		ring_poll(ring);
	else
		ring_set_now(ring, clock_now());
	r->stamp = stamp_of_next(so);
	*n = taken(so, ring,
		   tcp_recv(conn, r->msg->msg_iov, (int)r->msg->msg_iovlen, false, ring->now));
	if (__builtin_expect(*n != -EAGAIN, 1))
		return true;
	*n = SOCK_TRY_WAIT;
	return false;
}

static inline __attribute__((always_inline)) ssize_t
recv_mode(struct sock_ref ref, struct msghdr *msg, int flags, enum hold_mode mode)
{
	const int conditions = MSG_OOB | MSG_ERRQUEUE | MSG_PEEK | MSG_WAITALL | MSG_TRUNC;
	struct inet_sock *so = inet_of(ref.sk);
	size_t size = iov_total(msg->msg_iov, msg->msg_iovlen);
	struct sock_call call = SOCK_CALL(ref, flags, WAIT_EVENTS);
	struct recv r = {.so = so, .msg = msg};
	ssize_t n;

	if (__builtin_expect((flags & conditions) || !size ||
				     __atomic_load_n(&so->rcvlowat, __ATOMIC_RELAXED) > 1,
			     0))
		return recv_ordered(ref, msg, flags, size);
	n = sock_wait_loop(call, mode, recv_try, NULL, &r);
	if (n >= 0)
		finish(ref, msg, r.stamp);
	return n;
}

#define X(name, mode)                                                               \
	ssize_t tcp_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags) \
	{                                                                           \
		return recv_mode(ref, msg, flags, mode);                            \
	}
TCP_MODES(X)
#undef X
