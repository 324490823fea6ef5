/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernel handover: the kernel takes over a socket with its complete state, because the process
 * is about to execute a program that does not know the socket, or because the socket's address is
 * now on an interface that we cannot use.
 *
 * Role		control lock, no ring held.
 * Lifetime	afterwards the kernel serves the twin in all processes that have it.
 *
 * The state of a connection is set in its twin by TCP_REPAIR, which needs CAP_NET_ADMIN: sequence
 * numbers, negotiated options, unsent and unread data.  Unread datagrams are sent to the twin again
 * (CAP_NET_RAW).  The kernel cannot take over connections that no process has accepted, or whose
 * handshake is not complete: they are reset.
 */
#ifndef SOCK_MOVE_KERNEL_HANDOVER_H
#define SOCK_MOVE_KERNEL_HANDOVER_H

#include "sock/core/inet_sock.h"

/*
 * so is not exported. 0: the kernel serves the socket; -errno: the socket is unchanged.  -ENOBUFS: the
 * kernel's buffers may not grow to what is unsent or unread.
 */
int kernel_handover(struct inet_sock *so, enum verdict reason);

/*
 * The first half of kernel_handover(), for a connection that no program has: 0: its twin has the
 * connection, and the caller ends the socket; -errno: as above.
 */
int kernel_handover_unaccepted(struct inet_sock *so);

/*
 * Optional, before the kernel_handover() of several sockets: these wait for nothing after one
 * rings_barrier_wait() for all of them. Otherwise each datagram socket waits for its port.
 */
void kernel_handover_begin(struct inet_sock *so, struct rings_barrier *barrier);

/*
 * For a connected datagram socket that a forked process has or is going to have, and which the
 * kernel serves there. True: there were unread datagrams, and the kernel has taken over the
 * socket with them.  Those that arrive during the call come once, but not in their order: what the
 * ring had when it lost the flow comes after what the kernel received first
 * (docs/differences.md).
 */
bool kernel_handover_unread(struct inet_sock *so);
/*
 * For a datagram socket that the program has closed, and other processes have: the kernel gets what
 * nobody has read, and the frames from now on.  The caller ends the socket.
 */
void kernel_handover_last(struct inet_sock *so);
/* The first half of kernel_handover_unread(), for several sockets: true: after the barrier, kernel_handover(). */
bool kernel_handover_begin_unread(struct inet_sock *so, struct rings_barrier *barrier);

#endif
