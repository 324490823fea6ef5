/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending on local connections.  Written once, instantiated per thread mode. */
#include <errno.h>

#include "sock/core/msg/cmsg.h"
#include "sock/core/msg/iov.h"
#include "sock/local/capture/local_capture.h"
#include "sock/local/local_sock.h"
#include "sock/wait/wait.h"
#include "sock/wait/zerocopy.h"

struct send {
	struct sock_ref ref;
	unsigned flags;	   /* of byte_ring_write() */
	struct iovec *iov; /* what is left to send: the program's array, or copy */
	size_t count;
	size_t want, done;
	size_t sent;			  /* by the last try */
	struct iovec *copy, *const stack; /* stack[IOV_STACK] */
};

/* holder: the connection takes nothing now.  -EAGAIN: wait. */
static __attribute__((noinline)) ssize_t not_sent(struct inet_sock *so, struct ring *ring,
						  ssize_t rc, size_t want)
{
	struct shm_state *shm = &so->shm;

	if (!local_is_one(so))
		return local_not_here(so, -EPIPE);
	if (shm->kept_error) {
		rc = -shm->kept_error;
		shm->kept_error = 0;
		return rc;
	}
	ring_poll(ring);
	if (!shm->established)
		return shm->error ? -local_conn_take_error(so) : shm->ended ? -EPIPE : -EAGAIN;
	if (shm->ended || so->shut_wr)
		return shm->error ? -local_conn_take_error(so) : -EPIPE;
	if (rc == -EFAULT || rc == -EPIPE)
		return rc;
	if (rc == -EAGAIN) {
		if (byte_ring_space(&shm->out))
			return SOCK_TRY_AGAIN;
		local_conn_want_space(so);
		return rc;
	}
	rc = local_conn_failed(so, (int)rc, true);
	return rc ? rc : (ssize_t)want;
}

static inline bool is_ready(const struct inet_sock *so)
{
	return local_is_one(so) && so->shm.established && !so->shm.ended && !so->shm.kept_error;
}

static inline __attribute__((always_inline)) bool send_try(void *arg, struct ring *ring,
							   struct sock_wait *wait, ssize_t *n)
{
	struct send *s = arg;
	struct inet_sock *so = inet_of(s->ref.sk);
	struct shm_state *shm = &so->shm;

	s->sent = 0;
	*n = -EAGAIN;
	if (__builtin_expect(is_ready(so) && s->want, 1))
		*n = byte_ring_write(&shm->out, s->iov, (int)s->count, s->flags);
	if (__builtin_expect(*n > 0, 1)) {
		local_end_post(&shm->end);
		if (__builtin_expect(shm->captured, 0))
			local_capture_sent(so, (uint32_t)*n);
		s->sent = (size_t)*n;
		s->done += s->sent;
		shm->sends++;
		if (__builtin_expect(s->done >= s->want, 1)) {
			if (__builtin_expect(!byte_ring_has_plenty(&shm->out), 0))
				local_conn_short(so);
			*n = 0;
			return true;
		}
		/* A non-blocking call: the next one waits until there is space. */
		local_conn_want_space(so);
		*n = SOCK_TRY_ASIDE;
		return false;
	}
	if (!s->want && is_ready(so) && !so->shut_wr) {
		*n = 0;
		return true;
	}
	*n = not_sent(so, ring, *n, s->want - s->done);
	if (*n == SOCK_TRY_AGAIN || *n == SOCK_FETCH)
		return false;
	if (*n > 0) { /* lost, as the kernel would lose them */
		s->done += (size_t)*n;
		*n = 0;
		return true;
	}
	if (*n == -EAGAIN) {
		if (wait->dontwait && !sock_wait_is_over(wait))
			sock_count(so, tx_eagains, 1);
		*n = SOCK_TRY_WAIT;
		return false;
	}
	sock_count(so, tx_errors, 1);
	return true;
}

/* A part was sent, and the rest must follow. */
static inline __attribute__((always_inline)) ssize_t send_aside(void *arg, struct sock_wait *wait)
{
	struct send *s = arg;

	if (wait->dontwait)
		return SOCK_TRY_WAIT;
	if (!iov_continue(&s->iov, &s->count, s->sent, &s->copy, s->stack))
		return -ENOBUFS;
	return SOCK_TRY_WAIT;
}

/*
 * Control messages have no effect, but must be valid; MSG_FASTOPEN comes too late; there are no
 * dummy sends.
 */
static __attribute__((noinline)) int send_prepare(const struct msghdr *msg, int flags)
{
	int rc = cmsg_check(msg);

	if (sock_is_dummy(flags))
		return -EINVAL;
	return !rc && (flags & MSG_FASTOPEN) ? -EISCONN : rc;
}

static inline __attribute__((always_inline)) ssize_t
send_mode(struct sock_ref ref, const struct msghdr *msg, int flags, enum hold_mode mode)
{
	struct sock_call call = SOCK_CALL(ref, flags, EPOLLOUT);
	struct iovec stack[IOV_STACK];
	struct send s = {.ref = ref,
			 .flags = flags & MSG_OOB ? BYTE_RING_URGENT : 0u,
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
		rc = send_prepare(msg, flags);
		if (rc)
			return rc;
	}
	rc = (int)sock_wait_loop(call, mode, send_try, send_aside, &s);
	if (__builtin_expect(s.copy != NULL, 0))
		iov_copy_free(s.copy, stack);
	if (__builtin_expect(s.done && rc < 0 && rc != -EFAULT, 0))
		sock_keep_error(ref, -rc);
	return s.done ? (ssize_t)s.done : rc;
}

#define X(name, mode)                                                                       \
	ssize_t local_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags) \
	{                                                                                   \
		return send_mode(ref, msg, flags, mode);                                    \
	}
SOCK_MODES(X)
#undef X
