/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets whose bytes stay in shared memory, where their writer has put them, while the program has them.  Such a
 * packet is as any other, but for its pool: the queues, calls and lists of the extra API need not know.
 *
 * A keeper has the packets of one ring, in the order of their places.  The room behind the first one is not used
 * again: what is in front of it is given back to the writers.
 *
 * Role		"holder" is the holder of the socket's home while the socket has the keeper, then that of
 *		local_ring().  pkt_free() of such a packet: any thread.
 * Lifetime	a keeper is made at need, and belongs to the socket's part until that lets it go.  Then it has
 *		what the packets need (the mapping, the number of the link, the counted memory) until the last one is
 *		back.  Its own memory goes with the last reference: of the part, of each packet, of its item.
 * Ordering	what a thread did with a packet happens before its room is given back.
 * Progress	lock-free.  The holder takes what it frees at once.  A packet that another thread frees marks itself,
 *		and posts the keeper's item unless it is posted; the holder takes what is marked.
 * Trust	the peer may change the bytes under the program.  Where they are, and how many, was checked, and is
 *		private.
 */
#ifndef SOCK_LOCAL_LOCAL_KEEP_H
#define SOCK_LOCAL_LOCAL_KEEP_H

#include "ring/local/segment.h"
#include "sock/core/inet_sock.h"

#define LOCAL_NOT_KEPT UINT64_MAX /* no position */

struct local_keeper;
struct local_side;

struct local_keeper_ops {
	/* The holder of home, while the socket has the keeper. */
	/* The first position that is kept is another one; LOCAL_NOT_KEPT: there is none. */
	void (*first)(struct local_keeper *keeper, uint64_t position);
	/* Some came back. */
	void (*returned)(struct inet_sock *so);
};

struct local_keeper {
	/* set when made */
	const struct local_keeper_ops *ops;
	struct sock *sk; /* has it until local_keeper_leave(), also if the program has closed it */
	/* holder */
	struct list kept; /* struct local_kept, by position */
	uint64_t first;	  /* as ops->first() was told */
	struct pkt *free; /* of struct local_kept: to be used again */
	uint32_t n_free;
	/* holder to write, any to read, atomic: the socket does not have it any more */
	bool left;
	/* any, atomic */
	bool posted;
	uint32_t refs;
	uint32_t bytes; /* of packets that are not back */
	struct inbox_item item;
	void *ring; /* holder: for ops->first() */
	/* holder: what is given up in the end, if it is there */
	struct local_end end;
	bool moved_away; /* end: by local_end_move_away() */
	struct local_side *side;
	struct segment segment;
	uint64_t memory; /* for local_memory_give() */
};

struct local_kept {
	struct pkt pkt; /* first */
	struct list link;
	struct local_keeper *keeper;
	uint64_t position;
	bool back; /* any, atomic: it was freed */
};

static inline struct local_kept *local_kept_of(struct pkt *pkt)
{
	return container_of(pkt, struct local_kept, pkt);
}

/* holder: NULL: no memory. */
struct local_keeper *local_keeper_new(const struct local_keeper_ops *ops, struct sock *sk);
/*
 * holder: a packet of len bytes at `at`, whose place is kept from now on; the caller sets what the kind of socket
 * needs besides.  No packet has a higher position, or it is found (a datagram that was passed over).  NULL: no memory.
 */
struct pkt *local_keep(struct local_keeper *keeper, uint64_t position, uint8_t *at, uint32_t len);
/*
 * holder: some packets, one after another, behind all others: local_keep_begin(), local_keep_next() for each, and
 * local_keep_end() before any of them is passed on.
 */
struct local_keep_run {
	struct list *last; /* of the keeper's packets */
	struct pkt *free;
	uint32_t n, bytes;
};

/* One more packet, whose next is NULL; NULL: no memory. */
struct pkt *local_keep_extend(struct local_keeper *keeper);

static inline struct local_keep_run local_keep_begin(struct local_keeper *keeper)
{
	return (struct local_keep_run){.last = keeper->kept.prev, .free = keeper->free};
}

/* As local_keep(); l3 and l4 are 0, or what they were set to for another packet of this keeper. */
static inline __attribute__((always_inline)) struct pkt *
local_keep_next(struct local_keeper *keeper, struct local_keep_run *run, uint64_t position,
		uint8_t *at, uint32_t len)
{
	struct pkt *pkt = run->free;
	struct local_kept *kept;

	if (__builtin_expect(!pkt, 0)) {
		pkt = local_keep_extend(keeper);
		if (!pkt)
			return NULL;
	}
	run->free = pkt->next;
	pkt->stamp = 0;
	pkt->frame = at;
	pkt->frame_len = len;
	pkt->room = len;
	pkt->off = 0;
	pkt->len = (uint16_t)len;
	pkt->flags = 0;
	pkt->ifindex = 0;
	pkt->drops = 0;
	kept = local_kept_of(pkt);
	kept->position = position;
	kept->link.prev = run->last;
	run->last->next = &kept->link;
	run->last = &kept->link;
	run->n++;
	run->bytes += len;
	return pkt;
}

void local_keep_end(struct local_keeper *keeper, struct local_keep_run run);

/* holder: takes those that are back. */
void local_keeper_take(struct local_keeper *keeper);
/* any: bytes of packets that are not back. */
static inline uint32_t local_kept_bytes(const struct local_keeper *keeper)
{
	return __atomic_load_n(&keeper->bytes, __ATOMIC_RELAXED);
}
/*
 * holder, also of local_ring() if the keeper has an end: the part has given it what packets need, and lets it go.
 */
void local_keeper_leave(struct local_keeper *keeper);

#endif
