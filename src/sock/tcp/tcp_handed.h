/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections of a listener that the kernel has already.  Another process received them, gave them to
 * the kernel, because this one cannot receive their frames, and sent their sockets.  They wait here
 * for accept(2), which reports them after those in the queue.
 *
 * Role		control lock, no ring held, except where a function says otherwise.
 * Lifetime	a descriptor belongs to the listener until it is accepted, taken or ended.
 */
#ifndef SOCK_TCP_TCP_HANDED_H
#define SOCK_TCP_TCP_HANDED_H

#include "sock/core/inet_sock.h"

/* any: is fd a TCP socket of the kernel?  Any descriptor may be asked for. */
bool tcp_handed_is(int fd);
/*
 * Queues the connection, which gets the accept options.  0: fd is the listener's; -EINVAL: it is no
 * connection of this listener; -errno.
 */
int tcp_handed_queue(struct inet_sock *so, int fd);
/* any: does one wait? */
static inline bool tcp_handed_any(const struct inet_sock *so)
{
	/* Pairs with tcp_handed_queue(). */
	return __atomic_load_n(&so->listen.handed, __ATOMIC_ACQUIRE) != NULL;
}
/* any, no lock: as accept4(2), without waiting: -EAGAIN. */
int tcp_handed_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags);
/* The oldest one, off the queue: its descriptor, the caller's; -1: there is none. */
int tcp_handed_take(struct inet_sock *so);
/* Control lock, holder of home: no process will accept them, so resets them. */
void tcp_handed_end(struct inet_sock *so);
/* Control lock: in a forked child, they are the parent's. */
void tcp_handed_forget(struct inet_sock *so);

#endif
