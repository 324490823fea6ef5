/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick way of send(2) and sendto(2) on datagram sockets (wait/quick.h): a datagram in one frame, to
 * a destination that is known.  All else is left to udp_send.c.
 */
#include "sock/udp/udp_sock.h"
#include "sock/wait/quick.h"

static inline bool is_ready(const struct inet_sock *so)
{
	return udp_sends_plainly(so);
}

QUICK_INLINE ssize_t send_at_once(struct inet_sock *so, const void *buf, size_t len,
				  const struct sockaddr_in *to)
{
	struct ring *ring = sock_home(so);
	struct dst *dst = so->udp.connected ? &so->udp.dst : NULL;

	if (to) {
		struct endpoint ep = {.addr = addr_v4(to->sin_addr.s_addr), .port = to->sin_port};

		dst = to->sin_family == AF_INET ? udp_find_plain(so, &ep) : NULL;
	}
	if (__builtin_expect(!dst || so->shut_wr || !dst_is_ready(dst, ring), 0) ||
	    !udp_send_ready(so, ring, dst, buf, len))
		return -EAGAIN;
	ring_tx_flush(ring);
	return (ssize_t)len;
}

#define X(name, mode) QUICK_SENDS(udp_quick, name, mode)
SOCK_MODES(X)
#undef X
