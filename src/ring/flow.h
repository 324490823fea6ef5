/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows: which frames of a ring go to whom.  A flow is a match (5-tuple or
 * 3-tuple) and a function to deliver to; rings know flows, not sockets.
 *
 * Role		the holder of the ring.
 * Lifetime	struct flow is embedded in whoever wants the frames, and stays
 *		in the table from flow_insert() to flow_remove().
 */
#ifndef RING_FLOW_H
#define RING_FLOW_H

#include "net/frame.h"
#include "ring/reuseport.h"

struct ring;
struct flow;

/* Consumes pkt, or returns the reason why not (the ring frees and counts). */
typedef enum drop (*flow_fn)(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now);

struct flow {
	struct flow_key key;
	flow_fn deliver;
	struct flow *next; /* in its bucket */
	uint32_t hash;
	bool listed;
	bool steered; /* the port sends us its frames for this flow's sake */
	/*
	 * deliver() takes several packets of one burst, too, linked by next: either it
	 * consumes all, or it changes nothing and returns a reason, and gets them one
	 * by one.  next of a single packet is NULL then.
	 */
	bool chains;
	bool shared; /* begins a struct shared_flow */
};

/*
 * A 3-tuple that others may have, too, on this ring, on others, or in other processes:
 * the port knows each of them, and steers to all.
 */
struct shared_flow {
	struct flow flow; /* first */
	flow_fn deliver;  /* its own; flow.deliver finds out whose a frame is */
	struct flow_share share;
};

/* Before it is added: deliver, rank and spread as the owner wants them. */
void shared_flow_init(struct shared_flow *shared, flow_fn deliver, uint8_t rank, bool spread);

struct flow_table {
	struct flow **buckets; /* NULL until the first insert */
	unsigned mask;
	unsigned count;
	unsigned exact;	     /* how many are 5-tuples */
	struct flow *recent; /* the one found last */
};

void flow_table_init(struct flow_table *table);
void flow_table_fini(struct flow_table *table);

/* -ENOMEM.  Several flows may have one key: multicast goes to all of them. */
int flow_insert(struct flow_table *table, struct flow *flow);
/* Harmless when it is not listed. */
void flow_remove(struct flow_table *table, struct flow *flow);

/* flow takes the place of a listed one with the same key. */
void flow_replace(struct flow_table *table, struct flow *listed, struct flow *flow);

/* The first flow with exactly this key, or NULL. */
struct flow *flow_lookup(const struct flow_table *table, const struct flow_key *key);

static inline bool flow_key_is_exact(const struct flow_key *key)
{
	return key->remote_port != 0;
}

/* The 3-tuple that covers a 5-tuple. */
static inline struct flow_key flow_key_widen(const struct flow_key *key)
{
	struct flow_key wide = *key;

	memset(&wide.remote, 0, sizeof(wide.remote));
	wide.remote_port = 0;
	return wide;
}

struct flow *flow_find_slow(struct flow_table *table, const struct flow_key *key);

/* 5-tuple first, then 3-tuple; NULL when nobody wants it. */
static inline struct flow *flow_find(struct flow_table *table, const struct flow_key *key)
{
	if (table->recent && flow_key_eq(&table->recent->key, key))
		return table->recent;
	return flow_find_slow(table, key);
}

/*
 * Calls fn for the flows of some buckets, from *bucket on, until it returned false, and
 * all of that bucket were seen.  False: there are no more; else *bucket is the next.  fn
 * does not insert or remove.
 */
bool flow_table_walk(struct flow_table *table, unsigned *bucket,
		     bool (*fn)(struct flow *flow, void *arg), void *arg);

/* The next flow with the key of this one, or NULL. */
struct flow *flow_next(const struct flow *flow);

#endif
