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
	struct dst *own = so->udp.connected ? &so->udp.dst : NULL;

	return udp_send_at_once(so, to ? udp_find_plain4(so, to) : own, buf, len);
}

#define X(name, mode) QUICK_SENDS(udp_quick, name, mode)
SOCK_MODES(X)
#undef X
