/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast through shared memory: a sender to a group of IPv4 gives each member on this host a record, and
 * the wire a frame.
 *
 *	member						sender
 *	bind(), IP_ADD_MEMBERSHIP			sendto()
 *	registers its port and SO_COOKIE (LOCAL_GROUP)
 *							asks the kernel which sockets hear the
 *							group's port; finds all of them there
 *	internal thread: gives its record ring <------- LOCAL_ASK to 224.0.0.0
 *	queues what it would have heard <-------------- writes to all rings (record_fan.h), sends
 *							a frame
 *
 * The kernel gives a datagram to each socket of the port that has joined the group on the interface where it
 * leaves, and to each that has not, but has IP_MULTICAST_ALL.  So a member registers by its port, whatever
 * its groups are, and looks at each record as the kernel would.  When a socket hears the port that is not
 * registered (a program without the library, another user, a device that it is bound to), the kernel sends
 * all datagrams: then each arrives once, by it.
 *
 * Role		local_groups_take(): pure.  struct local_groups is immutable: the holder of the
 *		socket's home reads it; who has that, and the control lock, exchanges it.
 */
#ifndef SOCK_LOCAL_LOCAL_GROUP_H
#define SOCK_LOCAL_LOCAL_GROUP_H

#include "sock/core/msg/mcast_part.h"
#include "sock/local/local_dir.h"

/* What a message asks for as all groups: 224.0.0.0, which is none. */
static inline struct inaddr local_all_groups(void)
{
	return addr_v4(htonl(0xe0000000));
}

/* Where the members of a port, in network order, are registered. */
static inline struct local_place local_group_place(uint16_t port)
{
	return (struct local_place){.proto = LOCAL_GROUP,
				    .at = {.addr = addr_v4_any(), .port = port}};
}

struct local_membership {
	struct inaddr group;
	int ifindex;
	bool filtered, exclude;
	unsigned first, n; /* of local_groups_sources() */
};

struct local_groups {
	bool all; /* IP_MULTICAST_ALL */
	unsigned n, n_sources;
	struct local_membership m[];
};

/* They follow the memberships. */
static inline struct inaddr *local_groups_sources(const struct local_groups *g)
{
	return (struct inaddr *)(uintptr_t)&g->m[g->n];
}

/* Would a socket with these memberships hear the datagram, which leaves this host by the interface? */
bool local_groups_take(const struct local_groups *g, const struct inaddr *group, int ifindex,
		       const struct inaddr *from);

/* ---- local_hearers.c: what the kernel says (control lock) ------------------------------------------- */

/* Has a socket of this host joined the group on the interface that wants this sender?  1, 0, -errno. */
int local_group_loops(const struct inaddr *group, const struct inaddr *from, int ifindex);
/*
 * The sockets to which the kernel may give a datagram from there to there: *cookies, at most max.  Their
 * number; -E2BIG; -EAGAIN: they have changed meanwhile; -errno: it does not tell: -ENOENT: not of this
 * protocol.  protocol: IPPROTO_UDP.
 */
int local_group_hearers(uint8_t protocol, const struct endpoint *from, const struct endpoint *to,
			int ifindex, uint64_t *cookies, unsigned max);

#endif
