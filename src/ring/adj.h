/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Adjacencies: the neighbours a ring sends to, with the packets that wait for
 * their link addresses.
 *
 * Role		the holder of the ring.  What the kernel finds out arrives
 *		through the inbox (ring_neigh_changed()).
 * Lifetime	kept for the life of the ring once made, unless adj_table_shrink() finds it
 *		without a user.  Users are linked in and unlink themselves before
 *		they go; without a user nobody keeps a pointer to one.
 */
#ifndef RING_ADJ_H
#define RING_ADJ_H

#include "base/list.h"
#include "net/addr.h"
#include "net/netlink/netlink.h"
#include "net/pkt.h"

#define ADJ_BUCKETS 64
#define ADJ_PENDING_MAX 128 /* packets that may wait for one neighbour */
#define ADJ_MAX 1024	    /* of those that strangers can have us make; the kernel's gc_thresh3 */

struct ring;
struct adj;

/* Somebody with a header template to this neighbour. */
struct adj_user {
	struct list link;
	/* The state or the address changed; NEIGH_FAILED: its packets were dropped. */
	void (*changed)(struct adj_user *user, const struct adj *adj);
};

struct adj {
	struct list link; /* in its bucket */
	struct inaddr addr;
	enum neigh_state state;
	uint8_t mac[6];
	bool used;	  /* since ring_adj_refresh() looked last */
	unsigned pending; /* packets that wait */
	struct pkt *head, *tail;
	struct list users;
};

struct adj_table {
	struct list buckets[ADJ_BUCKETS];
	unsigned count;
};

void adj_table_init(struct adj_table *table);
/* Frees everything; packets that wait go back to their pools. */
void adj_table_fini(struct adj_table *table);

struct adj *adj_find(struct adj_table *table, const struct inaddr *addr);

/* Finds or makes it, UNKNOWN when new; NULL: no memory. */
struct adj *adj_get(struct adj_table *table, const struct inaddr *addr);

/* Frees those without users, without packets that wait, and not in use just now. */
void adj_table_shrink(struct adj_table *table);

void adj_user_add(struct adj *adj, struct adj_user *user);
void adj_user_remove(struct adj_user *user); /* harmless when not added */

/* Lets a built frame wait.  False: too many already, the caller keeps it. */
bool adj_wait(struct adj *adj, struct pkt *pkt);

/*
 * What the kernel says now.  Returns the packets that waited, oldest first,
 * with the address filled in when it is REACHABLE; the caller sends or frees
 * them.  Tells the users.
 */
struct pkt *adj_update(struct adj *adj, enum neigh_state state, const uint8_t mac[6]);

#endif
