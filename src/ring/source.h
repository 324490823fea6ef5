/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sources: does the host accept a datagram of this sender on this interface, and by which
 * next hop does an answer reach the sender?  The kernel decides both (its own addresses,
 * rp_filter, routes).  Its answers are kept until the network changes.
 *
 * Role		source_check(), source_resolve(): the holder of the ring.
 *		source_answer_all(): the internal thread.  A thread that has asked about
 *		one new sender asks the kernel itself when it holds no ring any more.
 * Lifetime	one table per process, of fixed size.  A question is the ring's from the
 *		time it is made; the ring stays open until it was answered.
 * Ordering	one thread at a time writes the table, any thread reads it: see look_up().
 *		Packets of one sender stay in order.
 * Progress	lock-free; the holder never waits.  What arrives from an unknown sender is
 *		copied and waits for the answer: SOURCE_QUESTIONS senders,
 *		SOURCE_WAITING packets of each, SOURCE_WAITING_ALL in all, per ring.
 *
 * Nothing is checked before source_start().
 */
#ifndef RING_SOURCE_H
#define RING_SOURCE_H

#include "net/drop.h"
#include "net/frame.h"
#include "net/netlink/netlink.h"

#define SOURCE_QUESTIONS 64 /* of one ring at a time */
#define SOURCE_WAITING 1024 /* packets of one sender */
#define SOURCE_WAITING_ALL 4096

struct ring;

enum source_result {
	SOURCE_PASS, /* deliver it */
	SOURCE_KEPT, /* taken: it is received again when the kernel has answered */
	SOURCE_DROP, /* see *reason */
};

/* How an answer reaches the sender. */
struct source_way {
	struct inaddr nexthop;
	uint32_t mtu;	 /* 0: that of the link */
	bool here;	 /* by the interface that the segment came by */
	bool here_bound; /* by it, if the socket is bound to the interface */
};

/*
 * holder: a packet for a flow that does not name its sender, parsed.  key is that of the
 * packet.  way: NULL, or filled on SOURCE_PASS; then an answer from before the last change
 * of the network is not good enough.
 */
enum source_result source_check(struct ring *ring, const struct flow_key *key, struct pkt *pkt,
				struct source_way *way, enum drop *reason);

/*
 * holder: the next hop of key's sender is not known by its link address, or any more: the
 * kernel is asked, and ring_neigh_changed() tells.  key->proto is IPPROTO_TCP.
 */
void source_resolve(struct ring *ring, const struct flow_key *key);

/*
 * One place of the table.  Written by one thread at a time, read by any, all of it atomic.
 * used: a sender that comes back stays longer than those that came once, so that a flood of
 * forged senders does not displace it.
 */
#define SOURCE_BUCKETS 1024
#define SOURCE_WAYS 4
#define SOURCE_ACCEPTED 1u
struct source_bucket {
	uint64_t pair[SOURCE_WAYS]; /* remote and local address; 0: empty */
	uint64_t what[SOURCE_WAYS]; /* generation << 32 | ifindex << 8 | state */
	uint64_t way[SOURCE_WAYS];  /* next hop << 32 | MTU */
	bool used[SOURCE_WAYS];
} __attribute__((aligned(64)));

extern struct source_bucket source_table[SOURCE_BUCKETS];

static inline uint64_t source_pair(const struct flow_key *key)
{
	return (uint64_t)addr_v4_of(&key->remote) << 32 | addr_v4_of(&key->local);
}

static inline struct source_bucket *source_bucket(uint64_t pair)
{
	_Static_assert(SOURCE_BUCKETS == 1024, "the top ten bits choose a bucket");
	return &source_table[pair * 0x9e3779b97f4a7c15ull >> 54];
}

/*
 * Any: is the packet of a sender that came before, and that is accepted as the network is now?
 * False: source_check() tells.
 */
static inline bool source_is_known(const struct flow_key *key, int ifindex)
{
	uint64_t pair = source_pair(key);
	const struct source_bucket *b = source_bucket(pair);
	uint64_t now = (uint64_t)netlink_generation() << 32 | (uint32_t)ifindex << 8;

	for (unsigned i = 0; i < SOURCE_WAYS; i++) {
		uint64_t what = __atomic_load_n(&b->what[i], __ATOMIC_ACQUIRE);

		/* In this order: see enter() in source.c. */
		if (__atomic_load_n(&b->pair[i], __ATOMIC_ACQUIRE) == pair &&
		    (what & ~0xffull) == now && (what & SOURCE_ACCEPTED) &&
		    __atomic_load_n(&b->used[i], __ATOMIC_RELAXED))
			return __atomic_load_n(&b->what[i], __ATOMIC_RELAXED) == what;
	}
	return false;
}

/* The internal thread runs from now on. */
void source_start(void);
/* It does not any more.  In a forked child: what was asked is forgotten. */
void source_stop(void);
void source_forget(void);

/* The internal thread, no ring held: answers what rings have asked. */
void source_answer_all(void);

#endif
