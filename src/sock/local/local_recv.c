/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving on local connections.  The usual call is written once and instantiated per thread
 * mode; calls with conditions (MSG_WAITALL, SO_RCVLOWAT...) precede it.
 */
#include <errno.h>

#include "base/sys.h"
#include "base/user.h"
#include "sock/core/msg/cmsg.h"
#include "sock/core/msg/iov.h"
#include "sock/local/capture/local_capture.h"
#include "sock/local/local_sock.h"
#include "sock/wait/wait.h"
#include "sock/wait/zerocopy.h"

#define WAIT_EVENTS (EPOLLIN | EPOLLRDHUP)

__attribute__((noinline)) void local_read_aside(struct inet_sock *so, ssize_t n)
{
	struct shm_state *shm = &so->shm;

	if (shm->peek_offset) /* as the kernel: it stays at its byte */
		shm->peek_offset = n + 1 < shm->peek_offset ? shm->peek_offset - (int32_t)n : 1;
	local_filter_read(so);
}

__attribute__((noinline)) ssize_t local_nothing_read(struct inet_sock *so, ssize_t rc)
{
	struct shm_state *shm = &so->shm;

	if (rc == -EFAULT)
		return rc;
	if (!local_is_one(so))
		return local_not_here(so, so->shut_rd ? 0 : -ENOTCONN);
	if (!shm->established)
		return shm->error ? -local_conn_take_error(so) : shm->ended ? 0 : -EAGAIN;
	if (rc == 0)
		return 0; /* an error that came after the FIN is for SO_ERROR */
	if (shm->ended || rc == -EPROTO || rc == -ECONNRESET)
		return local_conn_failed(so, (int)rc, false);
	if (shm->error)
		return -local_conn_take_error(so);
	return so->shut_rd && rc == -EAGAIN ? 0 : rc;
}

/* holder, no urgent byte is ahead: reads what there is. */
static inline ssize_t read_bytes(struct inet_sock *so, const struct iovec *iov, size_t count)
{
	ssize_t n;

	if (__builtin_expect(!local_is_ready(so), 0))
		return local_nothing_read(so, -EAGAIN);
	n = byte_ring_read(&so->shm.in, iov, (int)count, false);
	if (__builtin_expect(n <= 0, 0))
		return local_nothing_read(so, n);
	local_after_read(so, n);
	return n;
}

/* ---- urgent data ---------------------------------------------------------------------------- */

/*
 * holder: the bytes that one read gets: it ends before the urgent byte.  At that byte, which is not
 * part of the stream unless SO_OOBINLINE is set, skips it; a peek, for which *skip says what it skips anyway, leaves it.
 */
static uint32_t bytes_to_mark(struct inet_sock *so, bool peek, size_t *skip)
{
	uint32_t there = byte_ring_readable(&so->shm.in);
	int64_t ahead;

	if (__builtin_expect(so->shm.captured, 0))
		local_capture_arrived(so);
	if (!there || !byte_ring_urgent(&so->shm.in, &ahead) || ahead < 0)
		return there;
	if (ahead > 0)
		return there < ahead ? there : (uint32_t)ahead;
	if (so->opt->oobinline)
		return there;
	if (peek) {
		++*skip;
		return there;
	}
	byte_ring_discard(&so->shm.in, 1);
	if (there == 1)
		local_conn_events(so, 0); /* nothing is read after it */
	return there - 1;
}

struct urgent {
	struct inet_sock *so;
	bool peek;
	uint8_t byte;
};

/* As tcp(7): EINVAL if there is none, or it was read or skipped. */
static bool urgent_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct urgent *u = arg;
	struct inet_sock *so = u->so;
	struct shm_state *shm = &so->shm;
	struct iovec iov = {&u->byte, 1};
	int64_t ahead;

	(void)wait;
	*n = local_is_ready(so) ? -EINVAL : local_not_here(so, -EINVAL);
	if (!local_is_ready(so))
		return *n != SOCK_FETCH;
	ring_poll(ring);
	byte_ring_readable(&shm->in);
	if (!byte_ring_urgent(&shm->in, &ahead) || ahead < 0 || so->opt->oobinline ||
	    shm->urgent_done == shm->in.urgent)
		return true;
	*n = byte_ring_peek_at(&shm->in, (uint32_t)ahead, &iov, 1);
	if (*n == 1 && !u->peek) {
		shm->urgent_done = shm->in.urgent;
		local_conn_events(so, 0);
	}
	return true;
}

static ssize_t recv_oob(struct sock_ref ref, struct msghdr *msg, int flags)
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

/* ---- with conditions ------------------------------------------------------------------------ */

struct conditional {
	struct sock_ref ref;
	int flags;
	size_t size;  /* bytes of the buffers */
	size_t least; /* bytes that must be there before any are read, if it may wait */
	size_t done;  /* MSG_WAITALL: bytes read so far */
	struct iovec *iov;
	size_t count;
};

/* iov without the bytes beyond n; the caller restores what *cut says. */
static size_t cut_to(struct iovec *iov, size_t *count, size_t n, size_t *cut)
{
	size_t at = 0;

	while (at < *count && n > iov[at].iov_len)
		n -= iov[at++].iov_len;
	if (at == *count)
		return SIZE_MAX;
	*cut = iov[at].iov_len - n;
	iov[at].iov_len = n;
	*count = at + 1;
	return at;
}

/* holder: reads, peeks or discards up to n bytes, n > 0, which are there. */
static ssize_t take(struct conditional *c, struct inet_sock *so, size_t n, size_t skip)
{
	struct byte_ring_reader *in = &so->shm.in;
	size_t count = c->count, cut = 0, at;
	bool peek = c->flags & MSG_PEEK;
	ssize_t rc;

	if (c->flags & MSG_TRUNC) {
		n = n < c->size - c->done ? n : c->size - c->done;
		return peek ? (ssize_t)n : byte_ring_discard(in, (uint32_t)n);
	}
	at = cut_to(c->iov, &count, n, &cut);
	rc = skip ? byte_ring_peek_at(in, (uint32_t)skip, c->iov, (int)count)
		  : byte_ring_read(in, c->iov, (int)count, peek);
	if (at != SIZE_MAX)
		c->iov[at].iov_len += cut;
	return rc;
}

/* holder: the bytes that a peek skips (SO_PEEK_OFF). */
static size_t peek_skip(const struct conditional *c, const struct inet_sock *so)
{
	int32_t offset = so->shm.peek_offset;

	return (c->flags & MSG_PEEK) && offset > 0 ? (size_t)offset - 1 : 0;
}

/* holder: what there is, once; a result of read_bytes(). */
static ssize_t take_once(struct conditional *c, struct inet_sock *so, bool wait)
{
	size_t there, skip = peek_skip(c, so);
	enum byte_ring_end end;
	ssize_t n;

	if (so->rcvlowat == SOCK_HIDDEN && local_filter_hides(so))
		return so->shut_rd ? 0 : -EAGAIN;
	end = byte_ring_end(&so->shm.in); /* before it is known how much there is */
	there = bytes_to_mark(so, c->flags & MSG_PEEK, &skip);
	if (there <= skip)
		return local_nothing_read(so, end == BYTE_RING_FINISHED ? 0 : -EAGAIN);
	there -= skip;
	if (!c->size)
		return 0;
	if (wait && there < c->least && !sock_is_over(so) && !local_has_mark(so))
		return -EAGAIN;
	n = take(c, so, there, skip);
	if (n > 0 && !(c->flags & MSG_PEEK))
		local_after_read(so, n);
	else if (n > 0 && so->shm.peek_offset)
		so->shm.peek_offset += (int32_t)n;
	return n;
}

static bool conditional_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct conditional *c = arg;
	struct inet_sock *so = inet_of(c->ref.sk);
	bool all = (c->flags & MSG_WAITALL) && !(c->flags & MSG_PEEK);

	*n = 0;
	if (sock_wait_is_over(wait) && !c->size)
		return true; /* as Linux: a call for no bytes has waited */
	ring_poll(ring);
	*n = local_is_ready(so) ? take_once(c, so, !wait->dontwait)
				: local_nothing_read(so, -EAGAIN);
	if (*n > 0) {
		c->done += (size_t)*n;
		if (!(c->flags & MSG_PEEK))
			so->shm.reads++;
		if (all && c->done < c->size) {
			if (!(c->flags & MSG_TRUNC))
				iov_advance(&c->iov, &c->count, (size_t)*n);
			*n = SOCK_TRY_AGAIN;
			return false;
		}
		*n = 0;
	}
	if (*n != -EAGAIN)
		return *n != SOCK_FETCH;
	sock_wait_count(so, wait);
	*n = SOCK_TRY_ASIDE;
	return false;
}

/* Some bytes are there, so waiting for EPOLLIN would return at once: sleeps for a millisecond. */
static ssize_t conditional_aside(void *arg, struct sock_wait *wait)
{
	const struct conditional *c = arg;

	if (wait->ref.sk && !wait->dontwait && (c->least > 1 || (c->flags & MSG_PEEK)) &&
	    (sock_events(c->ref.sk) & EPOLLIN))
		sys_sleep(NSEC_PER_MSEC);
	return SOCK_TRY_WAIT;
}

/* holder: as TCP_INQ says it: 1 where only the end is left. */
static int inq_of(struct inet_sock *so)
{
	uint32_t there = byte_ring_readable(&so->shm.in);

	return there ? (int)there : byte_ring_end(&so->shm.in) != BYTE_RING_OPEN;
}

static __attribute__((noinline)) void fill_control(struct sock_ref ref, struct msghdr *msg)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct pkt_arrival now = {.real = clock_real()};
	struct ring *ring;

	if (sock_hold_cold(ref, &ring)) {
		msg->msg_controllen = 0;
		return;
	}
	cmsg_fill_stream(so->opt, &now, local_is_one(so) ? inq_of(so) : 0, msg);
	ring_release_cold(ring);
}

/* The call succeeded: fills in the rest of msg. */
static inline void fill_msg(struct sock_ref ref, struct msghdr *msg)
{
	msg->msg_flags = 0;
	msg->msg_namelen = 0;
	if (__builtin_expect(__atomic_load_n(&inet_of(ref.sk)->told, __ATOMIC_RELAXED), 0))
		fill_control(ref, msg);
	else
		msg->msg_controllen = 0;
}

static __attribute__((noinline)) ssize_t recv_conditional(struct sock_ref ref, struct msghdr *msg,
							  int flags, size_t size)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_call call = SOCK_CALL(ref, flags, WAIT_EVENTS);
	struct iovec stack[IOV_STACK], *copy;
	struct conditional c = {.ref = ref, .flags = flags, .size = size, .least = 1};
	uint32_t lowat = __atomic_load_n(&so->rcvlowat, __ATOMIC_RELAXED);
	int rc;

	if (lowat == SOCK_HIDDEN)
		lowat = 1; /* the callback decides when there is something to read */
	if (flags & MSG_ERRQUEUE)
		return zerocopy_read(ref, msg);
	if (flags & MSG_OOB)
		return recv_oob(ref, msg, flags);
	if ((flags & MSG_PEEK) && (flags & MSG_WAITALL))
		c.least = size;
	else if (!(flags & MSG_WAITALL))
		c.least = lowat < size ? lowat : size;
	copy = iov_copy(msg->msg_iov, msg->msg_iovlen, stack);
	if (!copy)
		return -ENOBUFS;
	c.iov = copy;
	c.count = msg->msg_iovlen;
	rc = (int)sock_wait_loop(call, SOCK_WAIT_COLD, conditional_try, conditional_aside, &c);
	iov_copy_free(copy, stack);
	if (!c.done && rc)
		return rc;
	fill_msg(ref, msg);
	if (c.done && rc < 0 && rc != -EFAULT)
		sock_keep_error(ref, -rc);
	return (ssize_t)c.done;
}

/* ---- the usual call ------------------------------------------------------------------------- */

struct recv {
	struct inet_sock *so;
	const struct msghdr *msg;
	bool mark; /* an urgent byte was met, or a capture runs: the call is made with conditions */
};

/* holder: an error that was kept is reported; otherwise, what is captured is looked at before it is read. */
static __attribute__((noinline)) ssize_t recv_unusual(struct recv *r)
{
	struct shm_state *shm = &r->so->shm;
	uint8_t error = __atomic_load_n(&shm->kept_error, __ATOMIC_RELAXED);

	shm->kept_error = 0;
	r->mark = !error;
	return -error;
}

static inline __attribute__((always_inline)) bool recv_try(void *arg, struct ring *ring,
							   struct sock_wait *wait, ssize_t *n)
{
	struct recv *r = arg;
	struct inet_sock *so = r->so;

	if (__builtin_expect(local_is_ready(so), 1)) {
		if (!byte_ring_readable(&so->shm.in))
			ring_poll(ring);
		if (__builtin_expect(local_has_mark(so), 0)) {
			r->mark = true;
			*n = 0;
			return true;
		}
	} else {
		ring_poll(ring);
	}
	if (__builtin_expect(__atomic_load_n(&so->shm.unusual, __ATOMIC_RELAXED) != 0, 0)) {
		*n = recv_unusual(r);
		return true;
	}
	*n = read_bytes(so, r->msg->msg_iov, r->msg->msg_iovlen);
	if (__builtin_expect(*n != -EAGAIN, 1)) {
		if (*n > 0)
			so->shm.reads++;
		return *n != SOCK_FETCH;
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
	struct recv r = {.so = so, .msg = msg};
	ssize_t n;

	if (__builtin_expect((flags & conditions) || !size ||
				     __atomic_load_n(&so->rcvlowat, __ATOMIC_RELAXED) > 1,
			     0))
		return recv_conditional(ref, msg, flags, size);
	n = sock_wait_loop(call, mode, recv_try, NULL, &r);
	if (__builtin_expect(r.mark, 0))
		return recv_conditional(ref, msg, flags, size);
	if (n >= 0)
		fill_msg(ref, msg);
	return n;
}

#define X(name, mode)                                                                 \
	ssize_t local_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags) \
	{                                                                             \
		return recv_mode(ref, msg, flags, mode);                              \
	}
SOCK_MODES(X)
#undef X
