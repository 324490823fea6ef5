/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending datagrams.  The code is written once and instantiated for each thread mode.
 */
#include <errno.h>

#include "base/param.h"
#include "base/sys.h"
#include "sock/core/access.h"
#include "sock/core/extra/message.h"
#include "sock/core/msg/family.h"
#include "sock/core/msg/iov.h"
#include "sock/core/stats/sock_stats.h"
#include "sock/udp/udp_pace.h"
#include "sock/udp/udp_sock.h"
#include "sock/wait/wait.h"

#define SEND_SPECIAL (MSG_OOB | MSG_MORE | VMA_SND_FLAGS_DUMMY)

/* For sends without control messages. */
static __attribute__((noinline)) int resolve(struct sock_ref ref, const struct endpoint *to)
{
	struct udp_way way = {.to = *to, .plain = true};

	return udp_resolve(ref, &way);
}

bool udp_may_reach(const struct inet_sock *so, const struct msghdr *msg)
{
	struct endpoint to;

	return !msg->msg_name ||
	       (sock_addr_read(so, &to, msg->msg_name, msg->msg_namelen) && to.port);
}

int udp_twin_error(struct inet_sock *so)
{
	int error = 0;
	socklen_t len = sizeof(error);

	sock_look_at_twin(&so->sk);
	if (!(__atomic_load_n(&so->sk.twin_events, __ATOMIC_RELAXED) & EPOLLERR))
		return 0;
	return sys_getsockopt(sock_twin(&so->sk), SOL_SOCKET, SO_ERROR, &error, &len) ? 0 : error;
}

/* Unusual calls.  SEND_ON: the call is an ordinary one after all. */
#define SEND_ON (SOCK_KERNEL - 1)
static __attribute__((noinline)) ssize_t send_unusual(struct sock_ref ref, const struct msghdr *msg,
						      int flags, const struct inet_sock *so)
{
	bool dummy = sock_is_dummy(flags);
	unsigned special = UDP_BUILDS | (dummy ? 0 : UDP_PACED | UDP_STAMPED);
	int rc;

	if ((flags & SEND_SPECIAL & ~VMA_SND_FLAGS_DUMMY) || msg->msg_controllen ||
	    (__atomic_load_n(&so->udp.special, __ATOMIC_RELAXED) & special))
		return dummy ? -EINVAL : udp_send_special(ref, msg, flags);
	if (dummy) /* a first send would bind it; an error in the twin is not for this call */
		return sock_life_is(so, LIFE_OPEN) ? -EINVAL : SEND_ON;
	if (!udp_may_reach(so, msg))
		return SOCK_KERNEL; /* its error comes before a pending one */
	rc = udp_twin_error(inet_of(ref.sk));
	return rc ? -rc : SEND_ON;
}

/* holder: the data cannot be read from the program's memory. */
static __attribute__((noinline, cold)) ssize_t unreadable(struct pkt *pkt)
{
	pkt_free(pkt);
	return -EFAULT;
}

/* What has to happen before the next try, holding no ring. */
enum send_aside {
	ASIDE_FRAME,   /* no frame was free */
	ASIDE_RESOLVE, /* the destination has to be found */
	ASIDE_TWIN, /* it ends the call: local_by_twin() with phase 0; the next one: with phase 1 */
};

struct send {
	struct sock_ref ref;
	const struct msghdr *msg;
	size_t len;
	struct endpoint *to; /* msg_name; or so->remote, to resolve it */
	unsigned aside;	     /* enum send_aside */
	bool dummy;	     /* nothing leaves, and nothing is counted */
	int flags;
	int tries;
};

/*
 * holder: an empty frame.  NULL: no frame is free, or *n is the result of a send in
 * fragments.
 */
static inline __attribute__((always_inline)) struct pkt *frame_for(const struct send *s,
								   struct inet_sock *so,
								   struct ring *ring,
								   struct dst *dst, ssize_t *n)
{
	*n = -ENOBUFS;
	if (__builtin_expect(s->len <= dst->payload_max, 1))
		return ring_tx_get(ring);
	*n = s->dummy ? -EMSGSIZE : udp_send_fragments(so, ring, dst, s->msg->msg_iov, s->len);
	return NULL;
}

/*
 * holder: to a receiver on this host, or by the kernel.  -ESTALE: the destination is not valid;
 * SOCK_TRY_ASIDE - n: send.aside is ASIDE_TWIN + n.
 */
static __attribute__((noinline, cold)) ssize_t
send_without_ring(struct inet_sock *so, struct dst *dst, const struct msghdr *msg, size_t len,
		  bool dummy, bool dontwait)
{
	int phase = SOCK_KERNEL; /* only the kernel reaches it */

	if (dst->verdict == VERDICT_LOCAL || dst->fans)
		return dummy ? -EINVAL
			     : sock_upcalls.local_send(so, dst, msg, len,
						       dontwait && !params.tx_nonblocked_eagains);
	if (!dummy && so->udp.local)
		phase = sock_upcalls.local_by_kernel(so, dst);
	if (phase == -ESTALE)
		return phase;
	if (!dummy)
		sock_stats_twin_send(so, len);
	return phase < 0 ? SOCK_KERNEL : SOCK_TRY_ASIDE - phase;
}

static inline __attribute__((always_inline)) bool send_try(void *arg, struct ring *ring,
							   struct sock_wait *wait, ssize_t *n)
{
	struct send *s = arg;
	struct inet_sock *so = inet_of(s->ref.sk);
	const struct msghdr *msg = s->msg;
	struct dst *dst;
	struct pkt *pkt;

	if (msg->msg_name)
		dst = udp_find_plain(so, s->to);
	else
		dst = so->udp.connected ? &so->udp.dst : NULL;
	*n = SOCK_KERNEL;
	if (__builtin_expect(so->shut_wr || (!dst && !msg->msg_name), 0))
		return true; /* EPIPE, EDESTADDRREQ */
	s->aside = !dst || !dst_fresh(dst) ? ASIDE_RESOLVE : ASIDE_FRAME;
	if (__builtin_expect(!s->aside && !dst->ring, 0)) {
		*n = send_without_ring(so, dst, msg, s->len, s->dummy, wait->dontwait);
		if (*n <= SOCK_TRY_ASIDE) {
			s->aside = ASIDE_TWIN + (unsigned)(SOCK_TRY_ASIDE - *n);
			*n = SOCK_TRY_ASIDE;
			return false;
		}
		if (*n == -ENOBUFS) {
			ring_poll(ring); /* sent frames come back */
			*n = SOCK_TRY_ASIDE;
			return false;
		}
		if (*n != -ESTALE)
			return true;
		s->aside = ASIDE_RESOLVE;
	}
	if (__builtin_expect(s->aside, 0)) {
		if (!msg->msg_name)
			*s->to = so->remote;
		*n = SOCK_TRY_ASIDE;
		return false;
	}
	pkt = frame_for(s, so, ring, dst, n);
	if (__builtin_expect(!pkt, 0)) {
		if (*n != -ENOBUFS)
			return true;
		ring_poll(ring); /* sent frames come back */
		*n = SOCK_TRY_ASIDE;
		return false;
	}
	pkt->frame_len = (uint32_t)frame_build_udp(&dst->tmpl, pkt->frame, msg->msg_iov,
						   (int)msg->msg_iovlen, s->len);
	if (__builtin_expect(s->dummy, 0)) {
		*n = pkt->frame_len ? (ssize_t)s->len : -EFAULT;
		pkt_free(pkt);
		return true;
	}
	if (__builtin_expect(pkt->frame_len == 0, 0)) {
		sock_count(so, tx_errors, 1);
		*n = unreadable(pkt);
		return true;
	}
	dst_send(dst, ring, pkt);
	udp_count_sent(so, s->len);
	sock_access_tx(so);
	*n = (ssize_t)s->len;
	return true;
}

/* The kernel makes the call, and all later ones to this host; see by_twin(). */
static __attribute__((noinline, cold)) ssize_t to_kernel(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;

	if (params.local && !sock_hold_cold(ref, &ring)) {
		if (so->udp.local)
			sock_upcalls.local_send_stop(so);
		ring_release_cold(ring);
	}
	return SOCK_KERNEL;
}

/* Resolves the destination; or, if that was fresh, no frame was free. */
static inline __attribute__((always_inline)) ssize_t send_aside(void *arg, struct sock_wait *wait)
{
	struct send *s = arg;
	int rc;

	if (s->aside >= ASIDE_TWIN)
		return sock_upcalls.local_by_twin(s->ref, s->msg, s->flags,
						  (int)(s->aside - ASIDE_TWIN));
	if (s->aside == ASIDE_FRAME) {
		if (s->dummy)
			return -EAGAIN;
		if (wait->dontwait && !sock_wait_is_over(wait))
			return params.tx_nonblocked_eagains ? -EAGAIN : (ssize_t)s->len;
		return SOCK_TRY_WAIT;
	}
	if (++s->tries > UDP_RESOLVE_TRIES)
		return to_kernel(s->ref);
	rc = resolve(s->ref, s->to);
	return rc ? rc : SOCK_TRY_AGAIN;
}

static inline __attribute__((always_inline)) ssize_t
send_mode(struct sock_ref ref, const struct msghdr *msg, int flags, enum hold_mode mode)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_call call = SOCK_CALL(ref, flags, EPOLLOUT);
	struct endpoint to;
	struct send s = {.ref = ref,
			 .msg = msg,
			 .len = iov_total(msg->msg_iov, msg->msg_iovlen),
			 .to = &to,
			 .dummy = sock_is_dummy(flags),
			 .flags = flags};

	if (__builtin_expect(
		    (flags & SEND_SPECIAL) || msg->msg_controllen || !udp_sends_plainly(so), 0)) {
		ssize_t n = send_unusual(ref, msg, flags, so);

		if (n != SEND_ON)
			return n;
	}
	if (msg->msg_name && !sock_addr_read(so, &to, msg->msg_name, msg->msg_namelen))
		return to_kernel(ref); /* it knows the right error, or what the address means */
	return sock_wait_loop(call, mode, send_try, send_aside, &s);
}

#define X(name, mode)                                                                     \
	ssize_t udp_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags) \
	{                                                                                 \
		return send_mode(ref, msg, flags, mode);                                  \
	}
SOCK_MODES(X)
#undef X

/* ---- batches (vma.h) ---------------------------------------------------------------------- */

struct batch_send {
	struct send s; /* first; of the next message, if loaded */
	struct msghdr msg;
	struct iovec iov;
	struct endpoint to;
	struct vma_message_t *messages;
	unsigned count, done;
	bool loaded;
};

static __attribute__((noinline)) struct dst *find_ready(struct inet_sock *so, struct ring *ring,
							const struct vma_message_t *m)
{
	struct endpoint to;
	struct dst *dst = sock_addr_read(so, &to, m->addr, m->addr_len) ? udp_find_plain(so, &to)
									: NULL;

	return dst && dst_is_ready(dst, ring) ? dst : NULL;
}

/* holder: sends messages as long as they need only what is there. */
static __attribute__((noinline)) void send_ready(struct batch_send *b, struct ring *ring)
{
	struct inet_sock *so = inet_of(b->s.ref.sk);
	struct dst *own = so->udp.connected ? &so->udp.dst : NULL, *dst;
	struct vma_message_t *m = b->messages + b->done, *end = b->messages + b->count;

	if (so->shut_wr)
		return;
	if (own && !dst_is_ready(own, ring))
		own = NULL;
	for (; m < end; m++) {
		dst = m->addr ? find_ready(so, ring, m) : own;
		if (!dst || !udp_send_ready(so, ring, dst, m->data, m->size))
			break;
		m->done = m->size;
	}
	b->done = (unsigned)(m - b->messages);
}

/* There is a next message.  False: only sock_ops.send knows what its address means. */
static bool load_next(struct batch_send *b)
{
	const struct vma_message_t *m = &b->messages[b->done];

	b->msg = message_header(m, &b->iov);
	b->s.len = m->size;
	b->s.tries = 0;
	b->loaded = true;
	return !m->addr || sock_addr_read(inet_of(b->s.ref.sk), &b->to, m->addr, m->addr_len);
}

/* The message was sent, or that is what the program is told. */
static void note_sent(struct batch_send *b, ssize_t n)
{
	b->messages[b->done++].done = (size_t)n;
	b->loaded = false;
}

static inline __attribute__((always_inline)) bool batch_try(void *arg, struct ring *ring,
							    struct sock_wait *wait, ssize_t *n)
{
	struct batch_send *b = arg;

	for (;;) {
		if (!b->loaded)
			send_ready(b, ring);
		*n = 0;
		if (b->done == b->count)
			return true;
		*n = SOCK_KERNEL;
		if (!b->loaded && !load_next(b))
			return true;
		if (!send_try(&b->s, ring, wait, n))
			return false;
		if (*n < 0)
			return true;
		note_sent(b, *n);
		if (!sock_at_home(b->s.ref, ring)) {
			*n = SOCK_TRY_AGAIN; /* a local send has let the ring go meanwhile */
			return false;
		}
	}
}

static inline __attribute__((always_inline)) ssize_t batch_aside(void *arg, struct sock_wait *wait)
{
	struct batch_send *b = arg;
	ssize_t n = send_aside(&b->s, wait);

	if (n < 0)
		return n;
	note_sent(b, n);
	return SOCK_TRY_AGAIN;
}

int udp_send_batch(struct sock_ref ref, struct vma_message_t *messages, unsigned count, int flags,
		   unsigned *done)
{
	struct sock_call call = SOCK_CALL(ref, flags, EPOLLOUT);
	struct batch_send b = {
		.s = {.ref = ref, .flags = flags}, .messages = messages, .count = count};
	ssize_t n = SOCK_KERNEL;

	b.s.msg = &b.msg;
	b.s.to = &b.to;
	if (udp_sends_plainly(inet_of(ref.sk)))
		n = sock_wait_loop(call, SOCK_WAIT_COLD, batch_try, batch_aside, &b);
	*done = b.done;
	return (int)n;
}
