/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sources: does the host accept a packet of this sender on this interface, and by which next
 * hop does an answer reach the sender?  The kernel decides both (its own addresses, rp_filter,
 * routes).  A table keeps its answers until the network changes.
 *
 * Role		source_check(), source_resolve(): the holder of the ring.
 *		source_answer_all(): the internal thread.  A thread whose ring has only
 *		one question open asks the kernel itself, once it holds no ring.
 * Lifetime	one table per process, of fixed size.  A question belongs to its ring,
 *		which stays open until the question is answered.
 * Ordering	one thread at a time writes the table, any thread reads it: see look_up().
 *		Packets of one sender stay in order.
 * Progress	lock-free; the holder never waits.  Packets of an unknown sender are copied
 *		and wait for the answer: SOURCE_QUESTIONS senders, SOURCE_WAITING packets
 *		of each, SOURCE_WAITING_ALL packets in all, per ring.
 *
 * Before source_start() every sender passes.  IPv6 has no rp_filter: frame_parse() drops what the
 * kernel does not accept, and only connections ask, for the reverse path.
 */
#ifndef RING_SOURCE_H
#define RING_SOURCE_H

#include "net/drop.h"
#include "net/frame.h"
#include "net/netlink/netlink.h"

#define SOURCE_QUESTIONS 64 /* open questions of one ring */
#define SOURCE_WAITING 1024 /* packets of one sender */
#define SOURCE_WAITING_ALL 4096

struct flow;
struct ring;

enum source_result {
	SOURCE_PASS, /* deliver the packet */
	SOURCE_KEPT, /* consumed: ring_receive() gets a copy when the kernel has answered */
	SOURCE_DROP, /* drop the packet for *reason */
};

/* The reverse path: how an answer reaches the sender. */
struct source_path {
	struct inaddr nexthop;
	uint32_t mtu;		      /* 0: that of the link */
	struct route_metrics metrics; /* hoplimit, and those of the beginning of a connection */
	bool here;		      /* by the interface that the packet arrived by */
	bool here_bound;	      /* by that interface, if the flow's owner is bound to it */
};

/*
 * holder: checks a parsed packet for a flow that does not name its sender; key is the packet's
 * 5-tuple.  path: NULL, or filled in on SOURCE_PASS.  With path, answers from before the last
 * change of the network do not count, and the packet waits for a new one.
 */
enum source_result source_check(struct ring *ring, const struct flow_key *key, struct pkt *pkt,
				struct source_path *path, enum drop *reason);

/*
 * holder: the link address of the next hop to key's sender is not known (any more).  Asks the
 * kernel, whose answer arrives by ring_neigh_changed().  key->proto is IPPROTO_TCP.
 */
void source_resolve(struct ring *ring, const struct flow_key *key);

/*
 * holder: takes the packets for this flow that wait for a check, in order.  Unchecked: the caller
 * gives them to ring_receive() of the ring that the flow moves to.  None of a group, nor of a flow
 * that others on this ring share: theirs they are, too.  NULL: none waits.
 */
struct pkt *source_take(struct ring *ring, const struct flow *flow);

/*
 * Control lock, no ring held: asks the kernel about the senders of packets that source_take()
 * returned for one flow of this ring.  Returns those that it accepts, in order; frees the others, and
 * sets their number.
 */
struct pkt *source_ask(const struct ring *ring, struct pkt *pkts, unsigned *refused);

/*
 * One bucket of the table, all of it atomic: one thread at a time writes it (source_enter()), any
 * thread reads it and sets ->used.  used: a sender that came back stays longer than senders
 * that came once, so a flood of forged senders does not displace it.
 */
#define SOURCE_BUCKETS 1024
#define SOURCE_WAYS 4
#define SOURCE_ACCEPTED 1u
#define SOURCE_PATH_KNOWN 2u /* the reverse path is valid */
#define SOURCE_HERE 4u	     /* it leaves by the interface that the packet arrived by */
#define SOURCE_HERE_BOUND 8u /* ... if the flow's owner is bound to it */
struct source_bucket {
	uint64_t pair[SOURCE_WAYS]; /* remote address << 32 | local address; 0: empty */
	uint64_t what[SOURCE_WAYS]; /* generation << 32 | ifindex << 8 | state; 0: changing */
	uint64_t path[SOURCE_WAYS]; /* next hop << 32 | source_pack_path(); and source_metrics */
	bool used[SOURCE_WAYS];
	uint32_t version; /* odd while source_enter() changes the bucket */
} __attribute__((aligned(64)));

extern struct source_bucket source_table[SOURCE_BUCKETS];

/* Of IPv4 addresses; of others it identifies nothing. */
static inline uint64_t source_pair(const struct flow_key *key)
{
	return (uint64_t)key->remote.w[3] << 32 | key->local.w[3];
}

static inline struct source_bucket *source_bucket(uint64_t pair)
{
	_Static_assert(SOURCE_BUCKETS == 1024, "the top ten bits choose a bucket");
	return &source_table[pair * 0x9e3779b97f4a7c15ull >> 54];
}

/* What the table has of a sender. */
struct source_entry {
	uint32_t generation; /* netlink_generation() of the answer */
	uint32_t state;	     /* SOURCE_* */
	struct source_path path;
};

/* What a table has of a path besides the next hop, in 32 bits. */
static inline uint32_t source_pack_path(const struct source_path *path)
{
	uint32_t mtu = path->mtu < 1u << 24 ? path->mtu : 0; /* more than any link has */

	return (uint32_t)path->metrics.hoplimit << 24 | mtu;
}

/* The other metrics; a larger window than SOURCE_WINDOW limits nobody. */
#define SOURCE_WINDOW ((1u << 27) - 1)
static inline uint64_t source_pack_metrics(const struct route_metrics *m)
{
	uint32_t window = m->window <= SOURCE_WINDOW ? m->window : 0;

	_Static_assert(ROUTE_CC_UNKNOWN < 8, "it has three bits");
	return (uint64_t)m->advmss << 48 | (uint64_t)m->initrwnd << 32 | window << 5 |
	       (uint32_t)m->cc << 2 | (uint32_t)m->cc_locked << 1 | m->ecn;
}

/* Sets what ->path has of both. */
static inline void source_unpack_path(struct source_path *path, uint32_t packed, uint64_t metrics)
{
	path->mtu = packed & 0xffffff;
	path->metrics = (struct route_metrics){.hoplimit = (uint8_t)(packed >> 24),
					       .advmss = (uint16_t)(metrics >> 48),
					       .initrwnd = (uint16_t)(metrics >> 32),
					       .window = (uint32_t)metrics >> 5,
					       .cc = metrics >> 2 & 7,
					       .cc_locked = metrics >> 1 & 1,
					       .ecn = metrics & 1};
}

/* Sets what ->path has of ->state. */
static inline void source_read_state(struct source_entry *e)
{
	e->path.here = e->state & SOURCE_HERE;
	e->path.here_bound = e->state & SOURCE_HERE_BOUND;
}

/* The one thread that answers: writes the kernel's answer about a sender into the table. */
void source_enter(int ifindex, uint64_t pair, const struct source_entry *e);

/*
 * any: has the sender of key come back, and does the kernel accept it since the last change of
 * the network?  False: call source_check().
 */
static inline bool source_is_known(const struct flow_key *key, int ifindex)
{
	uint64_t pair = source_pair(key);
	const struct source_bucket *b = source_bucket(pair);
	uint64_t now = (uint64_t)netlink_generation() << 32 | (uint32_t)ifindex << 8;

	for (unsigned i = 0; i < SOURCE_WAYS; i++) {
		/* Each acquire pairs with the stores in source_enter() (source.c), in this order. */
		uint64_t what = __atomic_load_n(&b->what[i], __ATOMIC_ACQUIRE);

		if (__atomic_load_n(&b->pair[i], __ATOMIC_ACQUIRE) == pair &&
		    (what & ~0xffull) == now && (what & SOURCE_ACCEPTED) &&
		    __atomic_load_n(&b->used[i], __ATOMIC_RELAXED))
			return __atomic_load_n(&b->what[i], __ATOMIC_RELAXED) == what;
	}
	return false;
}

/* The internal thread runs from now on: unknown senders are checked. */
void source_start(void);
/* The internal thread ends: unknown senders pass. */
void source_stop(void);
/* In a forked child: stops, and forgets the questions of the parent. */
void source_forget(void);

/* The internal thread, holding no ring: answers the questions of all rings. */
void source_answer_all(void);

#endif
