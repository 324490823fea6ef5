/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The twin's multicast memberships, of both families, and what setsockopt(2) says of them.
 *
 * Role		control lock, no ring held.
 */
#ifndef SOCK_UDP_MCAST_TWIN_H
#define SOCK_UDP_MCAST_TWIN_H

#include "sock/core/inet_sock.h"

/* What an option says. */
struct mcast_request {
	struct inaddr group;
	int ifindex; /* 0: none is named */
	bool join;   /* it is one to join the group, from all senders or from one */
};

/* Of an option of IPPROTO_IP or IPPROTO_IPV6 that the twin has accepted; a group of :: if it cannot be read. */
void mcast_read_request(int level, int name, const void *val, socklen_t len,
			struct mcast_request *req);

/*
 * Which senders the twin wants of the group: *sources, which the caller frees; NULL: all.  0, -ENOMEM,
 * or -EADDRNOTAVAIL: it has not joined on this interface.
 */
int mcast_twin_sources(const struct inet_sock *so, const struct inaddr *group, int ifindex,
		       struct mcast_sources **sources);

/* The interface that the kernel chose for a membership that named none; or 0. */
int mcast_default_interface(const struct inaddr *group);

/* The twin leaves the group that it has joined by req.  0 or -errno. */
int mcast_twin_leave(const struct inet_sock *so, const struct mcast_request *req);

#endif
