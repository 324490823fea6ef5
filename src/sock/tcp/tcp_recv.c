/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving on TCP sockets: the usual call is written once and instantiated per
 * thread mode; calls with conditions (MSG_WAITALL, SO_RCVLOWAT...) are below it.
 */
#include <errno.h>

#include "base/sys.h"
#include "base/user.h"
#include "sock/core/access.h"
#include "sock/share/share.h"
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
	if (n == -ENOTCONN && so->tcp.connecting)
		return -EAGAIN; /* as the kernel: waits for the handshake */
	if (n == -ENOTCONN && so->tcp.dead)
		return 0; /* the error was told: now it is the end */
	return n;
}

/* holder: nothing can be read, whatever is there: *rc is why, or 0 for the end. */
static inline bool is_refused(struct inet_sock *so, int *rc)
{
	if (__builtin_expect(so->inet != INET_TCP || !so->connected, 0)) {
		*rc = tcp_not_connected(so, false);
		return true;
	}
	*rc = -tcp_kept_error(so);
	return *rc != 0;
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

/*
 * One round: waits for nothing.  *n is what was taken; the return value is 0, or
 * an error that ends the call.
 */
static inline __attribute__((always_inline)) int recv_round(struct sock_ref ref,
							    const struct msghdr *msg, ssize_t *n,
							    nsec_t *stamp, enum hold_mode mode)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct tcp_conn *conn = &so->tcp.conn;
	struct ring *ring;
	int rc = sock_hold_mode(ref, &ring, mode);

	if (__builtin_expect(rc != 0, 0))
		return rc;
	*n = 0;
	if (__builtin_expect(!is_refused(so, &rc), 1)) {
		sock_access_rx(so);
		if (!tcp_readable_bytes(conn))
			ring_poll(ring);
		else
			ring_set_now(ring, clock_now());
		*stamp = stamp_of_next(so);
		*n = taken(so, ring,
			   tcp_recv(conn, msg->msg_iov, (int)msg->msg_iovlen, false, ring->now));
	}
	ring_release(ring, mode);
	return rc;
}

/* 1: taken; 0, -errno or SOCK_FETCH. */
static int take_urgent(struct sock_ref ref, uint8_t *byte, bool peek)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	if (so->inet == INET_TCP && so->connected) {
		ring_poll(ring);
		rc = tcp_recv_urgent(&so->tcp.conn, byte, peek);
		tcp_update_events(so, 0);
		tcp_after(so, ring);
	} else {
		rc = sock_is_exported(&so->sk) ? SOCK_FETCH : -EINVAL;
	}
	ring_release_cold(ring);
	return rc;
}

/* The urgent byte: waits for a process that has the connection, never for the byte. */
static __attribute__((noinline)) ssize_t recv_oob(struct sock_ref ref, struct msghdr *msg,
						  int flags)
{
	uint8_t byte = 0;
	int rc;

	do {
		rc = take_urgent(ref, &byte, flags & MSG_PEEK);
	} while (rc == SOCK_FETCH && !(rc = share_fetch(ref, TCP_PATIENCE((flags & MSG_DONTWAIT) ||
									  ref.sk->nonblock))));
	if (rc <= 0)
		return rc;
	msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	msg->msg_flags = MSG_OOB;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		if (msg->msg_iov[i].iov_len) {
			return user_copy(msg->msg_iov[i].iov_base, &byte, 1) ? 1 : -EFAULT;
		}
	}
	msg->msg_flags |= MSG_TRUNC;
	return 0;
}

/* ---- with conditions (app, no ring held) ---------------------------------------------- */

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

/* As recv_round(); patient: the call may still wait. */
static int round_ordered(struct order *o, bool patient, ssize_t *n)
{
	struct inet_sock *so = inet_of(o->ref.sk);
	struct ring *ring;
	int rc = sock_hold_cold(o->ref, &ring);

	if (rc)
		return rc;
	*n = 0;
	if (!is_refused(so, &rc)) {
		sock_access_rx(so);
		ring_poll(ring);
		*n = -EAGAIN;
		o->stamp = stamp_of_next(so);
		if (!patient || !is_too_little(o, so))
			*n = taken(so, ring, take_ordered(o, so, ring->now));
	}
	ring_release_cold(ring);
	return rc;
}

/* Something is there, so sleeping for EPOLLIN would be none. */
static void nap(const struct order *o)
{
	struct timespec ts = {0, 1000000};

	if ((o->least > 1 || (o->flags & MSG_PEEK)) && (sock_events(o->ref.sk) & EPOLLIN))
		sys_ppoll(NULL, 0, &ts, NULL);
}

/* 0 or what ends the call; o->done is what was taken. */
static int recv_waiting(struct order *o, bool dontwait)
{
	struct inet_sock *so = inet_of(o->ref.sk);
	bool all = (o->flags & MSG_WAITALL) && !(o->flags & MSG_PEEK);
	bool waiting = false, patient = !dontwait;
	SOCK_WAIT(wait);
	ssize_t n = 0;
	int rc, why = -EAGAIN;

	for (;;) {
		rc = round_ordered(o, patient, &n);
		if (rc == SOCK_FETCH && !(rc = share_fetch(o->ref, TCP_PATIENCE(dontwait))))
			continue;
		if (rc || (n <= 0 && n != -EAGAIN))
			return rc ? rc : (int)n;
		if (n > 0) {
			o->done += (size_t)n;
			if (!all || o->done >= o->size)
				return 0;
			if (!(o->flags & MSG_TRUNC))
				iov_advance(&o->iov, &o->count, (size_t)n);
			continue;
		}
		if (!patient)
			return why;
		if (!waiting) {
			if (share_nonblock(so)) {
				patient = false;
				continue;
			}
			sock_wait_begin(&wait, o->ref, EPOLLIN | EPOLLRDHUP,
					sock_timeout(&so->rcvtimeo));
			waiting = true;
		}
		rc = sock_wait_next(&wait);
		if (rc && rc != -EAGAIN && rc != -EINTR)
			return rc;
		if (rc && !o->size)
			return 0; /* as Linux: it was asked for nothing, and has waited */
		if (rc) {
			why = rc; /* once more, for what there is */
			patient = false;
		} else {
			nap(o);
		}
	}
}

static __attribute__((noinline)) ssize_t recv_ordered(struct sock_ref ref, struct msghdr *msg,
						      int flags, size_t size)
{
	struct inet_sock *so = inet_of(ref.sk);
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
	rc = recv_waiting(&o, (flags & MSG_DONTWAIT) || ref.sk->nonblock);
	iov_copy_free(copy, stack);
	if (!o.done && rc)
		return rc;
	finish(ref, msg, o.stamp);
	return o.done ? tcp_partial(so, o.done, rc) : 0;
}

/* ---- the usual call --------------------------------------------------------------------- */

static inline __attribute__((always_inline)) ssize_t
recv_mode(struct sock_ref ref, struct msghdr *msg, int flags, enum hold_mode mode)
{
	const int conditions = MSG_OOB | MSG_ERRQUEUE | MSG_PEEK | MSG_WAITALL | MSG_TRUNC;
	struct inet_sock *so = inet_of(ref.sk);
	size_t size = iov_total(msg->msg_iov, msg->msg_iovlen);
	bool dontwait = (flags & MSG_DONTWAIT) || ref.sk->nonblock;
	bool waiting = false;
	SOCK_WAIT(wait);
	nsec_t stamp = 0;
	ssize_t n = 0;
	int rc;

	if (__builtin_expect((flags & conditions) || !size ||
				     __atomic_load_n(&so->rcvlowat, __ATOMIC_RELAXED) > 1,
			     0))
		return recv_ordered(ref, msg, flags, size);
	for (;;) {
		rc = recv_round(ref, msg, &n, &stamp, mode);
		if (__builtin_expect(rc != 0, 0)) {
			if (rc == SOCK_FETCH && !(rc = share_fetch(ref, TCP_PATIENCE(dontwait))))
				continue;
			return rc;
		}
		if (n != -EAGAIN)
			break;
		if (dontwait)
			return -EAGAIN;
		if (!waiting) {
			if (share_nonblock(so))
				return -EAGAIN;
			sock_wait_begin(&wait, ref, EPOLLIN | EPOLLRDHUP,
					sock_timeout(&so->rcvtimeo));
			waiting = true;
		}
		rc = sock_wait_next(&wait);
		if (__builtin_expect(rc != 0, 0))
			return rc;
	}
	if (n < 0)
		return n;
	finish(ref, msg, stamp);
	return n;
}

#define X(name, mode)                                                               \
	ssize_t tcp_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags) \
	{                                                                           \
		return recv_mode(ref, msg, flags, mode);                            \
	}
TCP_MODES(X)
#undef X
