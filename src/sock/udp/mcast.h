/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast membership of UDP sockets.
 *
 * Role		control lock, no ring held.
 */
#ifndef SOCK_UDP_MCAST_H
#define SOCK_UDP_MCAST_H

#include "sock/core/inet_sock.h"

/* IP_ADD_MEMBERSHIP, IPV6_ADD_MEMBERSHIP, MCAST_JOIN_GROUP and the like: 0 or the kernel's -errno. */
int mcast_setsockopt(struct inet_sock *so, int level, int name, const void *val, socklen_t len);

/* IP_MULTICAST_ALL or IPV6_MULTICAST_ALL was set. */
void mcast_all_changed(struct inet_sock *so);

/* any: does the filter accept the sender?  NULL does. */
bool mcast_wants(const struct mcast_sources *sources, const struct inaddr *from);
/* holder of the flow's ring: does the member want this datagram of the group, by its sender? */
bool mcast_takes(const struct ring *ring, struct sock_flow *f, const struct pkt *pkt);
/* holder of home: a connected socket hears its peer only; the key of a group's flow contains none. */
bool mcast_is_from_peer(const struct inet_sock *so, const struct pkt *pkt);
/* holder of ring: may the socket have all of a run?  It lives on this ring then. */
bool mcast_takes_run(const struct ring *ring, struct sock_flow *f, const struct pkt *first);

/* Calls fn for each of its own memberships in groups of IPv4; sources: NULL: it wants all senders. */
void mcast_each_own(const struct inet_sock *so,
		    void (*fn)(const struct inaddr *group, int ifindex,
			       const struct mcast_sources *sources, void *arg),
		    void *arg);

/* The socket was bound: memberships made before take effect.  0, or the error of strict_check(). */
int mcast_attach(struct inet_sock *so);
/* The memberships stay, and the twin receives for them. */
void mcast_leave_to_kernel(struct inet_sock *so);
/* All flows of the socket were removed; memberships may be attached again. */
void mcast_detach(struct inet_sock *so);
/* The socket ends; its flows are already gone. */
void mcast_forget(struct inet_sock *so);

#endif
