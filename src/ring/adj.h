/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adjacencies: the neighbours that a ring sends to, with the packets that wait for their link
 * addresses.
 *
 * Role		the holder of the ring.  The kernel's answers arrive through the
 *		inbox (ring_neigh_changed()).
 * Lifetime	an adjacency lives as long as its ring, unless adj_table_shrink() finds
 *		it without users.  A user links itself in and unlinks itself before it
 *		ends.  Only users keep pointers to an adjacency.
 */
#ifndef RING_ADJ_H
#define RING_ADJ_H

#include "base/list.h"
#include "net/addr.h"
#include "net/netlink/netlink.h"
#include "net/pkt.h"

#define ADJ_BUCKETS 64
/*
 * Packets that may wait for one neighbour: as many as the kernel keeps of the smallest ones
 * (net.ipv4.neigh.default.unres_qlen_bytes).
 */
#define ADJ_PENDING_MAX 277
#define ADJ_MAX 1024 /* beyond, none is made for a new sender; as the kernel's gc_thresh3 */

struct ring;
struct adj;

/* An owner of a header template to this neighbour. */
struct adj_user {
	struct list link;
	/* Called when state or address changed; NEIGH_FAILED: waiting packets were dropped. */
	void (*changed)(struct adj_user *user, const struct adj *adj);
};

struct adj {
	struct list link; /* in its bucket */
	struct inaddr addr;
	enum neigh_state state;
	uint8_t mac[6];
	bool used;	  /* since refresh_neighbours() (progress.c) looked last */
	unsigned pending; /* number of packets that wait */
	struct pkt *head, *tail;
	struct list users;
};

struct adj_table {
	struct list buckets[ADJ_BUCKETS];
	unsigned count;
};

void adj_table_init(struct adj_table *table);
/* Frees all adjacencies and the packets that wait. */
void adj_table_fini(struct adj_table *table);

struct adj *adj_find(struct adj_table *table, const struct inaddr *addr);

/* Finds it, or makes it in state NEIGH_UNKNOWN.  NULL: no memory. */
struct adj *adj_get(struct adj_table *table, const struct inaddr *addr);

/* Frees adjacencies that have no users, no waiting packets, and ->used not set. */
void adj_table_shrink(struct adj_table *table);

void adj_user_add(struct adj *adj, struct adj_user *user);
void adj_user_remove(struct adj_user *user); /* does nothing when it was not added */

/* Lets a built frame wait.  False: ADJ_PENDING_MAX wait already; the caller still owns it. */
bool adj_wait(struct adj *adj, struct pkt *pkt);

/*
 * Sets what the kernel says of the neighbour, and calls the users' changed().  Unless state is
 * NEIGH_UNKNOWN, returns the packets that waited, oldest first, which the caller sends or frees;
 * with NEIGH_REACHABLE, mac is filled in.
 */
struct pkt *adj_update(struct adj *adj, enum neigh_state state, const uint8_t mac[6]);

#endif
