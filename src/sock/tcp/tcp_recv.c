/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving on TCP sockets. The usual call is written once and instantiated per thread mode;
 * calls with conditions (MSG_WAITALL, SO_RCVLOWAT...) precede it.
 */
#include <errno.h>

#include "base/sys.h"
#include "base/user.h"
#include "sock/core/access.h"
#include "sock/core/msg/cmsg.h"
#include "sock/core/msg/iov.h"
#include "sock/tcp/tcp_read.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/wait/wait.h"
#include "sock/wait/zerocopy.h"

/* holder: when the next byte arrived; real is 0: timestamps are off, or there is no data. */
static __attribute__((noinline)) struct pkt_arrival arrival_of_next(const struct inet_sock *so)
{
	const struct pkt *head = so->tcp.conn.rcv.head;

	if (!so->told || !head)
		return (struct pkt_arrival){0};
	return (struct pkt_arrival){head->stamp, pkt_device_stamp(head)};
}

/* holder: as arrival_of_next(); the program reads the byte now. */
static __attribute__((noinline)) void arrival_of_told(const struct inet_sock *so,
						      struct pkt_arrival *arrival)
{
	*arrival = arrival_of_next(so);
	sock_stats_latency(so, arrival->real);
}

/* App, no ring held: fills in control messages. */
static __attribute__((noinline)) void fill_control(struct sock_ref ref, struct msghdr *msg,
						   const struct pkt_arrival *arrival)
{
	struct ring *ring;

	if (sock_hold_cold(ref, &ring)) {
		msg->msg_controllen = 0;
		return;
	}
	cmsg_fill_stream(inet_of(ref.sk)->opt, arrival, (int)tcp_unread(&inet_of(ref.sk)->tcp.conn),
			 msg);
	ring_release_cold(ring);
}

/* The call succeeded: fills in the rest of msg. */
static inline void fill_msg(struct sock_ref ref, struct msghdr *msg,
			    const struct pkt_arrival *arrival)
{
	msg->msg_flags = 0;
	msg->msg_namelen = 0;
	if (__builtin_expect(__atomic_load_n(&inet_of(ref.sk)->told, __ATOMIC_RELAXED), 0))
		fill_control(ref, msg, arrival);
	else
		msg->msg_controllen = 0;
}

#define WAIT_EVENTS (EPOLLIN | EPOLLRDHUP)

/* holder: the callback has to see what is there; the result and *n of a try. */
static bool hidden(struct inet_sock *so, struct sock_wait *wait, ssize_t *n)
{
	if (so->shut_rd) {
		*n = 0;
		return true;
	}
	sock_wait_count(so, wait);
	*n = SOCK_TRY_WAIT;
	return false;
}

/* ---- urgent data -------------------------------------------------------------------- */

struct urgent {
	struct inet_sock *so;
	uint8_t byte;
	bool peek;
};

/* *n is 1: there was a byte. */
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
		*n = sock_is_exported(&so->sk) ? SOCK_FETCH
		     : so->inet == INET_LISTEN ? -ENOTCONN
					       : -EINVAL;
	}
	return *n != SOCK_FETCH;
}

/* MSG_OOB: waits until the connection is imported, but not for the byte. */
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
		if (!msg->msg_iov[i].iov_len)
			continue;
		/* MSG_TRUNC: the byte is not copied. */
		return (flags & MSG_TRUNC) || user_copy(msg->msg_iov[i].iov_base, &u.byte, 1)
			       ? 1
			       : -EFAULT;
	}
	msg->msg_flags |= MSG_TRUNC;
	return 0;
}

/* ---- with conditions (app, no ring held) -------------------------------------------- */

/* A call with conditions. */
struct conditional_recv {
	struct sock_ref ref;
	int flags;
	size_t size;  /* bytes of the buffers */
	size_t least; /* bytes that must be there before any are read, if it may wait */
	size_t done;  /* MSG_WAITALL: bytes read so far */
	struct pkt_arrival arrival; /* of the latest bytes */
	struct iovec *iov;	    /* buffers for the next bytes */
	size_t count;
};

/* MSG_TRUNC: discards the bytes instead of copying them, tcp(7). */
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

/* holder: does SO_PEEK_OFF apply? Not in front of urgent data. */
static bool uses_peek_offset(const struct conditional_recv *o, const struct inet_sock *so)
{
	return (o->flags & MSG_PEEK) && !so->tcp.conn.urgent && tcp_peek_offset(&so->tcp.conn) >= 0;
}

/* holder: bytes that the call can read. */
static size_t bytes_here(const struct conditional_recv *o, const struct inet_sock *so)
{
	size_t here = tcp_readable_bytes(&so->tcp.conn), skip;

	if (!uses_peek_offset(o, so))
		return here;
	skip = (size_t)tcp_peek_offset(&so->tcp.conn);
	return here > skip ? here - skip : 0;
}

/* holder */
static ssize_t conditional_take(struct conditional_recv *o, struct inet_sock *so, nsec_t now)
{
	struct tcp_conn *conn = &so->tcp.conn;

	if (!o->size && tcp_readable_bytes(conn))
		return 0; /* no bytes are wanted, and there are some */
	if (uses_peek_offset(o, so))
		return tcp_peek(conn, o->flags & MSG_TRUNC ? NULL : o->iov, (int)o->count,
				o->size < UINT32_MAX ? (uint32_t)o->size : UINT32_MAX);
	if (o->size && (o->flags & MSG_TRUNC))
		return discard(so, o->size - o->done, o->flags & MSG_PEEK, now);
	return tcp_recv(conn, o->iov, (int)o->count, o->flags & MSG_PEEK, now);
}

/* holder: some bytes are there, but the call waits for more. */
static bool must_wait_for_more(const struct conditional_recv *o, const struct inet_sock *so)
{
	size_t here = bytes_here(o, so);

	return here && here < o->least && !sock_is_over(so) && !so->tcp.conn.urgent;
}

static bool conditional_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct conditional_recv *o = arg;
	struct inet_sock *so = inet_of(o->ref.sk);
	bool all = (o->flags & MSG_WAITALL) && !(o->flags & MSG_PEEK);

	*n = 0;
	if (sock_wait_is_over(wait) && !o->size)
		return true; /* as Linux: a call for no bytes has waited */
	if (tcp_read_refused(so, n))
		return *n != SOCK_FETCH;
	sock_access_rx(so);
	ring_poll(ring);
	if (__builtin_expect(tcp_filter_hides(so), 0))
		return hidden(so, wait, n);
	o->arrival = arrival_of_next(so);
	*n = SOCK_TRY_ASIDE;
	if (!wait->dontwait && must_wait_for_more(o, so))
		return false;
	*n = tcp_read_result(so, ring, conditional_take(o, so, ring->now));
	if (*n > 0) {
		if (!(o->flags & MSG_PEEK)) {
			sock_count(so, rx_reads, 1);
			sock_stats_latency(so, o->arrival.real);
		}
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
	sock_wait_count(so, wait);
	*n = SOCK_TRY_ASIDE;
	return false;
}

/* Some bytes are there, so waiting for EPOLLIN would return at once: sleeps for a millisecond. */
static ssize_t conditional_aside(void *arg, struct sock_wait *wait)
{
	const struct conditional_recv *o = arg;

	if (wait->ref.sk && !wait->dontwait && (o->least > 1 || (o->flags & MSG_PEEK)) &&
	    (sock_events(o->ref.sk) & EPOLLIN))
		sys_sleep(NSEC_PER_MSEC);
	return SOCK_TRY_WAIT;
}

static __attribute__((noinline)) ssize_t recv_conditional(struct sock_ref ref, struct msghdr *msg,
							  int flags, size_t size)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_call call = SOCK_CALL(ref, flags, WAIT_EVENTS);
	struct iovec stack[IOV_STACK], *copy;
	struct conditional_recv o = {.ref = ref, .flags = flags, .size = size, .least = 1};
	uint32_t lowat = __atomic_load_n(&so->rcvlowat, __ATOMIC_RELAXED);
	int rc;

	if (lowat == SOCK_HIDDEN)
		lowat = 1; /* the callback decides when there is something to read */

	if (flags & MSG_ERRQUEUE)
		return zerocopy_read(ref, msg);
	if (flags & MSG_OOB)
		return recv_oob(ref, msg, flags);
	if ((flags & MSG_PEEK) && (flags & MSG_WAITALL))
		o.least = size;
	else if (!(flags & MSG_WAITALL))
		o.least = lowat < size ? lowat : size;
	copy = iov_copy(msg->msg_iov, msg->msg_iovlen, stack);
	if (!copy)
		return -ENOBUFS;
	o.iov = copy;
	o.count = msg->msg_iovlen;
	rc = (int)sock_wait_loop(call, SOCK_WAIT_COLD, conditional_try, conditional_aside, &o);
	iov_copy_free(copy, stack);
	if (!o.done && rc)
		return rc;
	fill_msg(ref, msg, &o.arrival);
	return o.done ? tcp_partial(so, o.done, rc) : 0;
}

/* ---- the usual call ----------------------------------------------------------------- */

struct recv {
	struct inet_sock *so;
	const struct msghdr *msg;
	struct pkt_arrival arrival; /* device: only if real is not 0 */
};

static inline __attribute__((always_inline)) bool recv_try(void *arg, struct ring *ring,
							   struct sock_wait *wait, ssize_t *n)
{
	struct recv *r = arg;
	struct inet_sock *so = r->so;
	struct tcp_conn *conn = &so->tcp.conn;

	if (__builtin_expect(tcp_read_refused(so, n), 0))
		return *n != SOCK_FETCH;
	sock_access_rx(so);
	if (!tcp_readable_bytes(conn))
		ring_poll(ring);
	else
		ring_set_now(ring, clock_now());
	if (__builtin_expect(so->told, 0)) {
		if (tcp_filter_hides(so)) {
			ring_poll(ring);
			return hidden(so, wait, n);
		}
		arrival_of_told(so, &r->arrival);
	}
	*n = tcp_read_result(so, ring,
			     tcp_recv(conn, r->msg->msg_iov, (int)r->msg->msg_iovlen, false,
				      ring->now));
	if (__builtin_expect(*n != -EAGAIN, 1)) {
		if (*n > 0)
			sock_count(so, rx_reads, 1);
		return true;
	}
	sock_wait_count(so, wait);
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
	struct recv r;
	ssize_t n;

	if (__builtin_expect((flags & conditions) || !size ||
				     __atomic_load_n(&so->rcvlowat, __ATOMIC_RELAXED) > 1,
			     0))
		return recv_conditional(ref, msg, flags, size);
	r.so = so;
	r.msg = msg;
	r.arrival.real = 0;
	n = sock_wait_loop(call, mode, recv_try, NULL, &r);
	if (n >= 0)
		fill_msg(ref, msg, &r.arrival);
	return n;
}

#define X(name, mode)                                                               \
	ssize_t tcp_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags) \
	{                                                                           \
		return recv_mode(ref, msg, flags, mode);                            \
	}
SOCK_MODES(X)
#undef X
