/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick way of send(2) on connections (wait/quick.h): a few bytes, while nothing is queued and the
 * route is known. They leave before the rest is recorded. All else is left to tcp_send.c.
 */
#include "sock/core/access.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/wait/quick.h"

static inline bool is_ready(const struct inet_sock *so)
{
	return sock_has_connection(so) && !__atomic_load_n(&so->tcp.kept_error, __ATOMIC_RELAXED) &&
	       dst_is_ready(&so->tcp.dst, sock_home(so));
}

/* The segment leaves. False: it was not sent. */
QUICK_INLINE bool send_now(struct inet_sock *so, struct ring *ring, const struct tcp_segment *seg)
{
	struct dst *dst = &so->tcp.dst;
	struct pkt *pkt = ring_tx_get(ring);

	if (__builtin_expect(!pkt, 0))
		return false;
	if (__builtin_expect(seg->len + FRAME_HDR_MAX > pkt->room, 0)) {
		pkt_free(pkt);
		return false;
	}
	pkt->frame_len = (uint32_t)frame_build_tcp(&dst->tmpl, pkt->frame, seg);
	dst->adj->used = true;
	if (__builtin_expect(ring_tx_put(ring, pkt), 0))
		return false;
	ring_tx_flush(ring);
	return true;
}

QUICK_INLINE ssize_t send_at_once(struct inet_sock *so, const void *buf, size_t len,
				  const struct sockaddr_in *to)
{
	struct tcp_conn *conn = &so->tcp.conn;
	struct ring *ring = sock_home(so);
	struct tcp_segment seg;
	nsec_t now = clock_now();

	(void)to;
	if (__builtin_expect(!tcp_quick_begin(conn, buf, len, &seg, now), 0) ||
	    !send_now(so, ring, &seg)) {
		__atomic_store_n(&so->tcp.sends_as, TCP_SENDS_QUEUED, __ATOMIC_RELAXED);
		return -EAGAIN;
	}
	ring_set_now(ring, now);
	tcp_quick_sent(conn, (uint32_t)len, now);
	sock_access_tx(so);
	tcp_arm(so, ring);
	return (ssize_t)len;
}

#define X(name, mode)                                                                     \
	ssize_t tcp_quick_send_##name(int fd, const void *buf, size_t len, int flags,     \
				      struct sock_ref ref)                                \
	{                                                                                 \
		if (__atomic_load_n(&inet_of(ref.sk)->tcp.sends_as, __ATOMIC_RELAXED))    \
			return sock_hooks.send(fd, buf, len, flags);                      \
		return quick_send_mode(fd, buf, len, flags, NULL, 0, ref, mode, is_ready, \
				       send_at_once);                                     \
	}
SOCK_MODES(X)
#undef X
