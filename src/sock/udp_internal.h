/* SPDX-License-Identifier: BSD-2-Clause */
/* What udp.c, udp_send.c and udp_recv.c share. */
#ifndef SOCK_UDP_INTERNAL_H
#define SOCK_UDP_INTERNAL_H

#include "sock/sock_internal.h"

/* holder: the oldest datagram; there is one. */
struct pkt *udp_pop(struct inet_sock *so);

/*
 * holder: gives the oldest datagram to the program, or shows it (MSG_PEEK); there is one.
 * What recvmsg() returns.
 */
ssize_t udp_take(struct inet_sock *so, struct msghdr *msg, int flags);

/* sock_ops.ioctl and .shutdown, of all that have a queue. */
int udp_ioctl(struct sock_ref ref, unsigned long cmd, void *arg);
int udp_shutdown(struct sock_ref ref, int how);

/* Control lock: a port from the kernel, and the frames for it.  0 or -errno. */
int udp_autobind(struct inet_sock *so);

/* Where its destinations are; at most max.  holder */
unsigned udp_tx_rings(struct inet_sock *so, struct ring **rings, unsigned max);
/* holder: destinations are found anew before they are used again. */
void udp_retarget(struct inet_sock *so);
/* holder of its old home: the socket moves. */
void udp_leave(struct inet_sock *so, struct ring *ring);

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
