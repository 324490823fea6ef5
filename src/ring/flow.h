/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows: the table that says where the frames of a ring are delivered.  A flow is a match
 * (5-tuple or 3-tuple) and a function.  Rings know flows; they do not know their owners.
 *
 * Role		the holder of the ring.
 * Lifetime	struct flow is embedded in its owner, the object that wants the
 *		frames, and is in the table from flow_insert() to flow_remove().
 */
#ifndef RING_FLOW_H
#define RING_FLOW_H

#include "net/frame.h"
#include "ring/reuseport.h"

struct ring;
struct flow;

/* holder: consumes pkt, or returns the reason why not (then the ring frees and counts it). */
typedef enum drop (*flow_fn)(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now);

struct flow {
	struct flow_key key;
	flow_fn deliver;
	struct flow *next; /* in its bucket */
	uint32_t hash;
	uint16_t slot; /* of the table's tagged[]; 0: none */
	bool listed : 1;
	bool steered : 1; /* the port has an entry with this key, which this flow owns */
	bool : 0;
	/*
	 * deliver() also takes several packets of one burst, linked by next.  It consumes all
	 * of them, or it changes nothing and returns a reason; then the ring delivers them one
	 * by one.  With chains set, next of a single packet is NULL.
	 */
	bool chains : 1;
	/*
	 * The same for packets with one key that came in turn, at once and not at the end of the
	 * burst: a run.  But deliver() drops what it does not take, if it takes the first one.
	 */
	bool runs : 1;
	bool shared : 1; /* embedded in a struct shared_flow */
	/* Of a multicast group: the same as runs, while no other flow of the table has the key. */
	bool group_runs : 1;
	/*
	 * No other socket of the host has the local address and port: an entry of the port
	 * may be for these alone.
	 */
	bool alone : 1;
};

_Static_assert(sizeof(struct flow) == 64, "one cache line, in each socket");

/*
 * A 3-tuple with several receivers, on this ring, on other rings, or in other processes.  The
 * port knows each receiver and divides the frames among them.
 */
struct shared_flow {
	struct flow flow; /* first */
	flow_fn deliver;  /* of this receiver; flow.deliver finds the receiver of a frame */
	struct flow_share share;
};

/* Call it before ring_flow_add().  rank, spread: see struct flow_share. */
void shared_flow_init(struct shared_flow *shared, flow_fn deliver, uint8_t rank, bool spread);

struct flow_table {
	struct flow **buckets; /* NULL until the first insert */
	unsigned mask;
	unsigned count;
	unsigned exact;	    /* number of 5-tuples */
	unsigned exact_udp; /* of these, UDP's */
	/*
	 * The flow that was found last, and the key of its packet: the flow's own, or, if that is a
	 * 3-tuple, exact.  Forgotten when the table changes.
	 */
	struct {
		struct flow *flow; /* NULL: none */
		const struct flow_key *key;
		bool again;	    /* two packets in turn had this key */
		bool is_predicted;  /* then, and the prediction is of this key */
		bool goes_straight; /* as flow_goes_straight() says of it */
		struct frame_prediction prediction;
		struct flow_key exact;
	} recent;
	/*
	 * The flow that was found last for frames with a tag (PKT_TAGGED), by the tag's low bits;
	 * NULL: none, or it has gone.  Slot 0 is not used.
	 */
	struct flow **tagged;
	unsigned tagged_mask;
	/*
	 * Gets the datagrams to an address of the host that no flow has; it is not listed.  NULL: they
	 * are dropped.  Its owner sets it, and must live as long as the table.
	 */
	struct flow *others;
};

void flow_table_init(struct flow_table *table);
void flow_table_fini(struct flow_table *table);

/* 0 or -ENOMEM.  Several flows may have one key: multicast is delivered to all of them. */
int flow_insert(struct flow_table *table, struct flow *flow);
/* Does nothing when the flow is not listed. */
void flow_remove(struct flow_table *table, struct flow *flow);

/* Puts flow, which gets the key of `listed`, in the place of `listed`. */
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

/* Do packets that it finds go to deliver() one by one, with no questions asked? */
static inline bool flow_goes_straight(const struct flow *flow)
{
	return flow_key_is_exact(&flow->key) && !flow->chains &&
	       !addr_is_multicast(&flow->key.local);
}

/* Does deliver() take runs?  Of several receivers each one may be another function. */
static inline bool flow_takes_runs(const struct flow *flow)
{
	return flow->runs && !flow->shared;
}

struct flow *flow_find_slow(struct flow_table *table, const struct flow_key *key);
/* A second packet had the key of the recent flow: predicts the next one's headers.  Returns the flow. */
struct flow *flow_find_again(struct flow_table *table);
/*
 * As flow_find(), for a frame with a tag: one load names the flow, if frames with this tag were
 * its own before.  The key decides, so a tag may be wrong, old, or of two flows in turn.
 */
struct flow *flow_find_tagged(struct flow_table *table, const struct flow_key *key, uint32_t tag);

/* The flow of a parsed packet with this key: 5-tuples first, then 3-tuples; NULL: none. */
static inline struct flow *flow_find(struct flow_table *table, const struct flow_key *key,
				     const struct pkt *pkt)
{
	if (table->recent.flow && flow_key_eq(table->recent.key, key))
		return table->recent.again ? table->recent.flow : flow_find_again(table);
	if (pkt->flags & PKT_TAGGED)
		return flow_find_tagged(table, key, pkt->tag);
	return flow_find_slow(table, key);
}

/* The flow of a packet for which flow_find() found none, or NULL. */
static inline struct flow *flow_find_others(const struct flow_table *table,
					    const struct flow_key *key)
{
	bool is_datagram = key->proto == IPPROTO_UDP && !addr_is_multicast(&key->local);

	return is_datagram ? table->others : NULL;
}

/*
 * Calls fn for the flows of the buckets from *bucket on.  It ends after the first bucket in
 * which fn returned false.  True: call it again with the new *bucket; false: all buckets were
 * seen.  fn must not insert or remove flows.
 */
bool flow_table_walk(struct flow_table *table, unsigned *bucket,
		     bool (*fn)(struct flow *flow, void *arg), void *arg);

/* The next flow in the table with the same key, or NULL. */
struct flow *flow_next(const struct flow *flow);

#endif
