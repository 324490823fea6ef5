/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast membership of UDP sockets.
 *
 * Role		control lock, no ring held.
 */
#ifndef SOCK_MCAST_H
#define SOCK_MCAST_H

#include "sock/sock_internal.h"

/* IP_{ADD,DROP}_MEMBERSHIP, IP_{ADD,DROP}_SOURCE_MEMBERSHIP: 0 or the kernel's -errno. */
int mcast_setsockopt(struct inet_sock *so, int name, const void *val, socklen_t len);

/* The socket was bound: memberships made before take effect. */
void mcast_attach(struct inet_sock *so);
/* Memberships stay, and the twin receives for them. */
void mcast_leave_to_kernel(struct inet_sock *so);
/* All flows of the socket were removed; they may be attached again. */
void mcast_detach(struct inet_sock *so);
/* The socket ends; its flows are gone. */
void mcast_forget(struct inet_sock *so);

#endif
