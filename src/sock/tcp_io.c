/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending and receiving on TCP sockets.  Written once, instantiated per thread
 * mode.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/param.h"
#include "sock/family.h"
#include "sock/move.h"
#include "sock/tcp_internal.h"
#include "sock/wait.h"

#define POLL_ON_TX 16384 /* unacknowledged bytes from which a send looks for ACKs first */
#define IOV_STACK 16
#define PATIENCE(dontwait) ((dontwait) ? FAMILY_PATIENCE : 0)

/* holder: the error of a call on a socket that is not connected. */
static __attribute__((noinline)) int not_connected(struct inet_sock *so, bool sending)
{
	int error;

	if (sock_is_away(&so->sk))
		return SOCK_FETCH;
	error = so->inet == INET_TCP ? sock_take_error(so) : 0;
	if (error)
		return -error; /* of a connection that was dissolved */
	if (so->inet == INET_LISTEN || !so->connected)
		return sending ? -EPIPE : so->shut_rd ? 0 : -ENOTCONN;
	return -ENOTCONN;
}

/* An error that ends a call which moved some bytes is told by the next one. */
static ssize_t partial(struct inet_sock *so, size_t done, int rc)
{
	if (rc < 0 && rc != -EAGAIN && rc != -EINTR && rc != -EPIPE && rc != SOCK_KERNEL)
		__atomic_store_n(&so->tcp.kept_error, -rc, __ATOMIC_RELAXED);
	return (ssize_t)done;
}

/* holder: such an error, once; 0: none. */
static inline int kept_error(struct inet_sock *so)
{
	int error = __atomic_load_n(&so->tcp.kept_error, __ATOMIC_RELAXED);

	if (__builtin_expect(error, 0))
		__atomic_store_n(&so->tcp.kept_error, 0, __ATOMIC_RELAXED);
	return error;
}

/* ---- receiving -------------------------------------------------------------------------- */

/* MSG_TRUNC: the bytes are thrown away instead of copied, tcp(7). */
static ssize_t discard(struct inet_sock *so, const struct msghdr *msg, nsec_t now)
{
	char scratch[4096];
	size_t want = 0, done = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		want += msg->msg_iov[i].iov_len;
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

/* holder: what is there now; -EAGAIN when nothing is. */
static inline ssize_t take(struct inet_sock *so, struct ring *ring, const struct iovec *iov,
			   int iovcnt, const struct msghdr *msg, int flags, nsec_t now)
{
	ssize_t n;

	if (__builtin_expect(flags & MSG_TRUNC, 0))
		n = discard(so, msg, now);
	else
		n = tcp_recv(&so->tcp.conn, iov, iovcnt, flags & MSG_PEEK, now);
	if (n < 0 && n != -EAGAIN && n != -ENOTCONN)
		so->tcp.error = 0; /* reported */
	if (n != -EAGAIN) {
		tcp_update_events(so, 0);
		tcp_after(so, ring);
	}
	return n;
}

/* Skips n bytes of a copy of the program's vector. */
static void advance(struct iovec **iov, size_t *count, size_t n)
{
	while (*count && n >= (*iov)->iov_len) {
		n -= (*iov)->iov_len;
		(*iov)++;
		(*count)--;
	}
	if (*count && n) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + n;
		(*iov)->iov_len -= n;
	}
}

static size_t total(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

/* A copy that advance() may change: on the stack when it is short. */
static struct iovec *copy_iov(const struct iovec *iov, size_t count, struct iovec *stack)
{
	struct iovec *copy = stack;

	if (count > IOV_STACK)
		copy = mem_alloc(count * sizeof(*copy));
	if (copy)
		memcpy(copy, iov, count * sizeof(*copy));
	return copy;
}

/*
 * One round: waits for nothing.  *n is what was taken; the return value is 0, or
 * an error that ends the call.
 */
static inline __attribute__((always_inline)) int recv_round(struct sock_ref ref,
							    const struct iovec *iov, int iovcnt,
							    const struct msghdr *msg, int flags,
							    ssize_t *n, enum hold_mode mode)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc = sock_hold_mode(ref, &ring, mode);

	if (__builtin_expect(rc != 0, 0))
		return rc;
	if (__builtin_expect(so->inet != INET_TCP || !so->connected, 0)) {
		rc = not_connected(so, false);
		*n = 0;
	} else if (__builtin_expect((rc = -kept_error(so)) != 0, 0)) {
		*n = 0;
	} else {
		sock_access_rx(so);
		if (!tcp_readable_bytes(&so->tcp.conn))
			ring_poll(ring);
		else
			ring_set_now(ring, clock_now());
		*n = take(so, ring, iov, iovcnt, msg, flags, ring->now);
		if (*n == -EAGAIN && so->shut_rd)
			*n = 0;
		if (*n == -ENOTCONN && so->tcp.connecting)
			*n = -EAGAIN; /* as the kernel: waits for the handshake */
		else if (*n == -ENOTCONN && so->tcp.dead)
			*n = 0; /* the error was told: now it is the end */
	}
	ring_release(ring, mode);
	return rc;
}

/* The urgent byte: never waits. */
static __attribute__((noinline)) ssize_t recv_oob(struct sock_ref ref, struct msghdr *msg,
						  int flags)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	uint8_t byte = 0;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	rc = -EINVAL;
	ring_poll(ring);
	if (so->inet == INET_TCP)
		rc = tcp_recv_urgent(&so->tcp.conn, &byte, flags & MSG_PEEK);
	tcp_update_events(so, 0);
	tcp_after(so, ring);
	ring_release_cold(ring);
	if (rc <= 0)
		return rc;
	msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	msg->msg_flags = MSG_OOB;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		if (msg->msg_iov[i].iov_len) {
			*(uint8_t *)msg->msg_iov[i].iov_base = byte;
			return 1;
		}
	}
	msg->msg_flags |= MSG_TRUNC;
	return 0;
}

/* MSG_MORE and MSG_OOB in the engine's words. */
static inline unsigned send_flags(int flags)
{
	return (flags & MSG_MORE ? TCP_SEND_MORE : 0u) | (flags & MSG_OOB ? TCP_SEND_OOB : 0u);
}

static inline __attribute__((always_inline)) ssize_t
recv_mode(struct sock_ref ref, struct msghdr *msg, int flags, enum hold_mode mode)
{
	struct inet_sock *so = inet_of(ref.sk);
	bool dontwait = (flags & MSG_DONTWAIT) || ref.sk->nonblock;
	struct iovec stack[IOV_STACK], *iov = msg->msg_iov, *copy = NULL;
	size_t count = msg->msg_iovlen, want = 0, done = 0;
	bool waiting = false;
	SOCK_WAIT(wait);
	ssize_t n = 0;
	int rc;

	if (__builtin_expect(flags & (MSG_OOB | MSG_ERRQUEUE), 0))
		return flags & MSG_OOB ? recv_oob(ref, msg, flags) : -EAGAIN;
	msg->msg_flags = 0;
	msg->msg_namelen = 0;
	msg->msg_controllen = 0;
	if (__builtin_expect(total(iov, count) == 0, 0))
		return 0;
	if (__builtin_expect((flags & MSG_WAITALL) && !(flags & (MSG_PEEK | MSG_TRUNC)), 0)) {
		want = total(iov, count);
		copy = copy_iov(iov, count, stack);
		if (!copy)
			return -ENOBUFS;
		iov = copy;
	}
	for (;;) {
		rc = recv_round(ref, iov, (int)count, msg, flags, &n, mode);
		if (__builtin_expect(rc != 0, 0)) {
			if (rc == SOCK_FETCH && !(rc = family_fetch(ref, PATIENCE(dontwait))))
				continue;
			break;
		}
		if (n != -EAGAIN) {
			if (n <= 0) {
				rc = (int)n;
				break;
			}
			done += (size_t)n;
			if (done >= want)
				break;
			advance(&iov, &count, (size_t)n);
			continue;
		}
		rc = -EAGAIN;
		if (dontwait)
			break;
		if (!waiting) {
			if (family_nonblock(so))
				break;
			sock_wait_begin(&wait, ref, EPOLLIN | EPOLLRDHUP,
					sock_timeout(&so->rcvtimeo));
			waiting = true;
		}
		rc = sock_wait_next(&wait);
		if (__builtin_expect(rc != 0, 0))
			break;
	}
	if (copy && copy != stack)
		mem_free(copy);
	return done ? partial(so, done, rc) : rc;
}

/* ---- sending ------------------------------------------------------------------------------- */

/*
 * One round of a send: as recv_round(), and 1: the way to the peer was found
 * anew, try again at once.
 */
static inline __attribute__((always_inline)) int send_round(struct sock_ref ref,
							    const struct iovec *iov, int iovcnt,
							    int flags, ssize_t *n, bool *resolved,
							    enum hold_mode mode)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct tcp_conn *conn = &so->tcp.conn;
	struct ring *ring;
	int rc = sock_hold_mode(ref, &ring, mode);

	if (__builtin_expect(rc != 0, 0))
		return rc;
	if (__builtin_expect(so->inet != INET_TCP || !so->connected, 0)) {
		rc = not_connected(so, true);
		ring_release(ring, mode);
		return rc;
	}
	rc = -kept_error(so);
	if (__builtin_expect(rc != 0, 0)) {
		ring_release(ring, mode);
		return rc;
	}
	if (__builtin_expect(so->tcp.connecting, 0)) {
		ring_poll(ring);
		*n = -EAGAIN;
	} else if (__builtin_expect(!dst_fresh(&so->tcp.dst) && !*resolved, 0)) {
		*resolved = true;
		ring_release(ring, mode);
		rc = tcp_resolve(ref);
		*n = 0;
		return rc ? rc : 1;
	} else {
		sock_access_tx(so);
		if (tcp_unacked_bytes(conn) > POLL_ON_TX)
			ring_poll(ring);
		else
			ring_set_now(ring, clock_now());
		*n = tcp_send(conn, iov, iovcnt, send_flags(flags), ring->now);
		if (*n < 0 && *n != -EAGAIN)
			so->tcp.error = 0; /* reported */
		if (__builtin_expect(*n < 0 || tcp_is_full(conn), 0))
			tcp_update_events(so, 0);
	}
	tcp_after(so, ring);
	ring_release(ring, mode);
	return 0;
}

static inline __attribute__((always_inline)) ssize_t
send_mode(struct sock_ref ref, const struct msghdr *msg, int flags, enum hold_mode mode)
{
	struct inet_sock *so = inet_of(ref.sk);
	bool dontwait = (flags & MSG_DONTWAIT) || ref.sk->nonblock;
	struct iovec stack[IOV_STACK], *iov = msg->msg_iov, *copy = NULL;
	size_t count = msg->msg_iovlen, want = total(iov, count), done = 0;
	bool waiting = false, resolved = false;
	SOCK_WAIT(wait);
	ssize_t n = 0;
	int rc;

	if (__builtin_expect(flags & MSG_FASTOPEN, 0))
		return -EOPNOTSUPP;
	for (;;) {
		rc = send_round(ref, iov, (int)count, flags, &n, &resolved, mode);
		if (__builtin_expect(rc > 0, 0))
			continue;
		if (__builtin_expect(rc != 0, 0)) {
			if (rc == SOCK_FETCH && !(rc = family_fetch(ref, PATIENCE(dontwait))))
				continue;
			break;
		}
		if (__builtin_expect(n < 0 && n != -EAGAIN, 0)) {
			rc = (int)n;
			break;
		}
		if (n > 0)
			done += (size_t)n;
		if (__builtin_expect(done >= want, 1))
			break;
		rc = -EAGAIN;
		if (dontwait)
			break;
		if (n > 0) {
			if (!copy)
				copy = iov = copy_iov(iov, count, stack);
			if (!copy) {
				rc = -ENOBUFS;
				break;
			}
			advance(&iov, &count, (size_t)n);
		}
		if (!waiting) {
			if (family_nonblock(so))
				break;
			sock_wait_begin(&wait, ref, EPOLLOUT, sock_timeout(&so->sndtimeo));
			waiting = true;
		}
		rc = sock_wait_next(&wait);
		if (__builtin_expect(rc != 0, 0))
			break;
	}
	if (copy && copy != stack)
		mem_free(copy);
	return done ? partial(so, done, rc) : rc;
}

#define X(name, mode)                                                                     \
	ssize_t tcp_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags)       \
	{                                                                                 \
		return recv_mode(ref, msg, flags, mode);                                  \
	}                                                                                 \
	ssize_t tcp_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags) \
	{                                                                                 \
		return send_mode(ref, msg, flags, mode);                                  \
	}
TCP_MODES(X)
#undef X
