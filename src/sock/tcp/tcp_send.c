/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending on TCP sockets.  Written once, instantiated per thread mode.
 */
#include <errno.h>

#include "sock/core/access.h"
#include "sock/share/share.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/udp/cmsg.h"
#include "sock/udp/iov.h"
#include "sock/wait/wait.h"

#define POLL_ON_TX 16384 /* unacknowledged bytes from which a send looks for ACKs first */

int tcp_not_connected(struct inet_sock *so, bool sending)
{
	int error;

	if (sock_is_exported(&so->sk))
		return SOCK_FETCH;
	error = so->inet == INET_TCP ? sock_take_error(so) : 0;
	if (error)
		return -error; /* of a connection that was dissolved */
	if (sending)
		return -EPIPE;
	return so->inet != INET_LISTEN && so->shut_rd ? 0 : -ENOTCONN;
}

static void keep_error(struct inet_sock *so, int error)
{
	if (error > 0 && error != EAGAIN && error != EINTR && error != EPIPE &&
	    error != -SOCK_KERNEL)
		__atomic_store_n(&so->tcp.kept_error, error, __ATOMIC_RELAXED);
}

ssize_t tcp_partial(struct inet_sock *so, size_t done, int rc)
{
	if (rc != -EFAULT) /* of this call's memory, not of the connection */
		keep_error(so, -rc);
	return (ssize_t)done;
}

void sock_keep_error(struct sock_ref ref, int error)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;

	if (sock_hold_cold(ref, &ring))
		return;
	if (so->inet == INET_TCP)
		keep_error(so, error);
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
	if (so->inet == INET_TCP && so->connected && !so->tcp.connecting)
		room = tcp_writable_bytes(&so->tcp.conn);
	ring_release_cold(ring);
	return room;
}

/* MSG_MORE and MSG_OOB in the engine's words. */
static inline unsigned send_flags(int flags)
{
	return (flags & MSG_MORE ? TCP_SEND_MORE : 0u) | (flags & MSG_OOB ? TCP_SEND_OOB : 0u);
}

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
		rc = tcp_not_connected(so, true);
		ring_release(ring, mode);
		return rc;
	}
	rc = -tcp_kept_error(so);
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
		if (*n < 0 && *n != -EAGAIN && *n != -EFAULT)
			so->tcp.error = 0; /* reported */
		if (__builtin_expect(*n < 0 || tcp_is_full(conn), 0))
			tcp_update_events(so, 0);
	}
	tcp_after(so, ring);
	ring_release(ring, mode);
	return 0;
}

/*
 * MSG_FASTOPEN: connects first; without a cookie of the server, which is what the kernel
 * begins with, too.  Control messages have no effect, but have to be right.
 */
static __attribute__((noinline)) int before_send(struct sock_ref ref, const struct msghdr *msg,
						 int flags)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	bool begun;
	int rc = cmsg_check(msg);

	if (rc || !(flags & MSG_FASTOPEN))
		return rc;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	rc = so->inet == INET_TCP && so->tcp.connecting ? -EALREADY : -EISCONN;
	begun = so->inet != INET_TCP || so->connected;
	ring_release_cold(ring);
	if (begun)
		return rc;
	if (!msg->msg_name)
		return -EINVAL;
	return tcp_sock_connect(ref, msg->msg_name, msg->msg_namelen);
}

static inline __attribute__((always_inline)) ssize_t
send_mode(struct sock_ref ref, const struct msghdr *msg, int flags, enum hold_mode mode)
{
	struct inet_sock *so = inet_of(ref.sk);
	bool dontwait = (flags & MSG_DONTWAIT) || ref.sk->nonblock;
	struct iovec stack[IOV_STACK], *iov = msg->msg_iov, *copy = NULL;
	size_t count = msg->msg_iovlen, want = iov_total(iov, count), done = 0;
	bool waiting = false, resolved = false;
	SOCK_WAIT(wait);
	ssize_t n = 0;
	int rc;

	if (__builtin_expect((flags & MSG_FASTOPEN) || msg->msg_controllen, 0)) {
		rc = before_send(ref, msg, flags);
		if (rc)
			return rc;
	}
	for (;;) {
		rc = send_round(ref, iov, (int)count, flags, &n, &resolved, mode);
		if (__builtin_expect(rc > 0, 0))
			continue;
		if (__builtin_expect(rc != 0, 0)) {
			if (rc == SOCK_FETCH && !(rc = share_fetch(ref, TCP_PATIENCE(dontwait))))
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
				copy = iov = iov_copy(iov, count, stack);
			if (!copy) {
				rc = -ENOBUFS;
				break;
			}
			iov_advance(&iov, &count, (size_t)n);
		}
		if (!waiting) {
			if (share_nonblock(so))
				break;
			sock_wait_begin(&wait, ref, EPOLLOUT, sock_timeout(&so->sndtimeo));
			waiting = true;
		}
		rc = sock_wait_next(&wait);
		if (__builtin_expect(rc != 0, 0))
			break;
	}
	if (copy)
		iov_copy_free(copy, stack);
	return done ? tcp_partial(so, done, rc) : rc;
}

#define X(name, mode)                                                                     \
	ssize_t tcp_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags) \
	{                                                                                 \
		return send_mode(ref, msg, flags, mode);                                  \
	}
TCP_MODES(X)
#undef X
