/* SPDX-License-Identifier: BSD-2-Clause */
/* What udp.c, udp_send.c and udp_recv.c share. */
#ifndef SOCK_UDP_INTERNAL_H
#define SOCK_UDP_INTERNAL_H

#include "sock/sock_internal.h"

/* holder: the oldest datagram; there is one. */
struct pkt *udp_pop(struct inet_sock *so);

/* Control lock: a port from the kernel, and the frames for it.  0 or -errno. */
int udp_autobind(struct inet_sock *so);

struct dst_headers udp_headers(const struct inet_sock *so, const struct endpoint *to);

/* Where its destinations are; at most max.  holder */
unsigned udp_tx_rings(struct inet_sock *so, struct ring **rings, unsigned max);
/* holder: destinations are found anew; found: where it is connected to, known already. */
void udp_retarget(struct inet_sock *so, struct ring *home, const struct dst_found *found);
/* The socket moves: holder of its old home, then of the new one. */
void udp_leave(struct inet_sock *so, struct ring *ring);
void udp_arrive(struct inet_sock *so, struct ring *ring, const struct dst_found *found);

/* One instance per thread mode of each hot call. */
#define UDP_MODES(X)           \
	X(single, HOLD_SINGLE) \
	X(spin, HOLD_SPIN)     \
	X(mutex, HOLD_MUTEX)   \
	X(yield, HOLD_YIELD)

#define X(name, mode)                                                                \
	ssize_t udp_recv_##name(struct sock_ref ref, struct msghdr *msg, int flags); \
	ssize_t udp_send_##name(struct sock_ref ref, const struct msghdr *msg, int flags);
UDP_MODES(X)
#undef X

#endif
