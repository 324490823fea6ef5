/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets go to the kernel with all they have: the process is about to execute a program, in
 * which nobody knows of them; or their interface is gone, and their address on one that we
 * cannot take.
 *
 * Role		control lock, no ring held.
 * Lifetime	afterwards the twin is the socket, in all processes that have it.
 *
 * A connection is made in the twin as it is here (TCP_REPAIR, which needs CAP_NET_ADMIN): its
 * sequence numbers, what was agreed, what is to be sent and to be read. Datagrams that wait are
 * sent to the twin once more (CAP_NET_RAW). The kernel has no way to be given connections which
 * nobody has accepted, or whose handshake is not over: they are reset.
 */
#ifndef SOCK_MOVE_KERNEL_HANDOVER_H
#define SOCK_MOVE_KERNEL_HANDOVER_H

#include "sock/core/inet_sock.h"

/* so is here. 0, and it is the kernel's; -errno: it stays as it was. */
int kernel_handover(struct inet_sock *so, enum verdict reason);

/*
 * A connected datagram socket that a forked process has or is going to have, whose part of it
 * is the kernel's. True: something was unread, and the kernel has the socket with all of it.
 */
bool kernel_handover_unread(struct inet_sock *so);

#endif
