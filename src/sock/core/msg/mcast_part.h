/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the flow of a multicast membership has: which senders the member wants.
 *
 * Role		written under the control lock by the holder of the flow's ring, read by the holder.
 */
#ifndef SOCK_CORE_MSG_MCAST_PART_H
#define SOCK_CORE_MSG_MCAST_PART_H

#include "net/addr.h"

/* A source filter: these alone, or (exclude) all but these.  Immutable. */
struct mcast_sources {
	bool exclude;
	unsigned n;
	struct inaddr addr[];
};

/* Does a source filter with these senders accept this one? */
static inline bool mcast_accepts(bool exclude, const struct inaddr *senders, unsigned n,
				 const struct inaddr *from)
{
	for (unsigned i = 0; i < n; i++) {
		if (addr_eq(&senders[i], from))
			return !exclude;
	}
	return exclude;
}

struct mcast_part {
	const struct mcast_sources *sources; /* NULL: all */
	bool overheard;			     /* another socket has joined: udp/mcast.c */
};

#endif
