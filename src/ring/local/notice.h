/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notice lane: how a process tells another which of their connections to look at, and wakes it up.
 *
 * A lane leads from one writer (a ring of the peer process) to one reader (a home ring), and
 * serves up to NOTICE_CONNS connections between the two, in either role: the writer posts the
 * connection's index after it published bytes, records, an end, or space that was wanted.  A
 * reader has a lane from each of its writers, so no writer can harm the notices of another.
 *
 *	writer					reader
 *	publishes the tail			arms all its lanes
 *	posts					notice_barrier()
 *	armed? then writes the wake-up fd	anything posted?  else sleeps on the fd
 *
 * Role		notice_post(): the writer's thread, one at a time per lane (the holder of its
 *		ring).  notice_take(), notice_arm(), notice_disarm(): the reader's thread,
 *		one at a time.
 * Lifetime	struct notice_lane is in memory that only these two processes share (segment.h),
 *		zero before notice_lane_init().  Each has a private struct besides.
 * Ordering	what the writer published before it posted is visible to the reader's
 *		function.  Nothing is stranded: the writer posts, fences, looks whether the
 *		lane is armed; the reader arms, fences, looks whether something was posted.
 *		One of them sees the other.  The reader's fence is membarrier(2) where
 *		possible, and then the writer's costs nothing.
 * Progress	wait-free; never full.  The lane remembers the last NOTICE_SLOTS notices
 *		one by one, and for older ones the last time of each group of
 *		NOTICE_GROUP connections: a reader that is late looks at more connections
 *		than it would have to, and misses none.
 * Trust	the peer may write anything: the reader calls its function with an index below
 *		conns, at most NOTICE_SLOTS + conns times in one notice_take().
 */
#ifndef RING_LOCAL_NOTICE_H
#define RING_LOCAL_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/delay.h"

#define NOTICE_SLOTS 16u
#define NOTICE_GROUP 64u
#define NOTICE_CONNS 16384u /* of one lane */
#define NOTICE_GROUPS (NOTICE_CONNS / NOTICE_GROUP)

struct notice_lane {
	/* writer, atomic */
	uint64_t posted;	     /* notices so far */
	uint16_t slot[NOTICE_SLOTS]; /* the last ones: indexes */
	/* reader, atomic, but armed: the writer that wakes the reader clears it */
	uint32_t armed __attribute__((aligned(64))); /* the reader sleeps, or is about to */
	uint32_t barrier;			     /* it calls membarrier() before */
	/* writer, atomic: the number of the last notice to a connection of the group */
	uint64_t group[NOTICE_GROUPS] __attribute__((aligned(64)));
} __attribute__((aligned(64)));

struct notice_writer {
	struct notice_lane *lane;
	uint64_t posted;
	uint32_t conns;
	int wake_fd;	/* an eventfd of the reader; not owned */
	bool fenced;	/* posting needs a fence */
	uint64_t wakes; /* how often it woke the reader */
};

struct notice_reader {
	struct notice_lane *lane;
	uint64_t seen;
	uint32_t conns;
};

/* Called with the index of a connection that may have something, maybe more than once. */
typedef void (*notice_fn)(void *arg, uint32_t conn);

/* ---- once per process ----------------------------------------------------------------- */

/*
 * Registers this process for the barriers of its readers and writers.  Called by the functions
 * that open a side; a forked child opens its own.
 */
bool notice_register(void);

/*
 * Reader: makes arming, and byte_ring_want_space(), visible before the looks that follow.  False:
 * a filter for system calls, installed after the lanes were opened, forbids it; then sleep for a
 * limited time only.
 */
bool notice_barrier(void);

/* ---- reader --------------------------------------------------------------------------- */

/* Opens the reader's side, before any writer has the lane.  -EINVAL: more than NOTICE_CONNS. */
int notice_reader_open(struct notice_reader *reader, struct notice_lane *lane, uint32_t conns);

/* Anything posted since the last notice_take()? */
static inline bool notice_is_posted(const struct notice_reader *reader)
{
	return __atomic_load_n(&reader->lane->posted, __ATOMIC_RELAXED) != reader->seen;
}

/* Calls fn for each connection that was posted; returns the number of calls. */
uint32_t notice_take(struct notice_reader *reader, notice_fn fn, void *arg);

/*
 * To sleep: notice_arm() each lane, then notice_barrier() once, then look at everything that
 * could have come, also notice_is_posted() of each lane; if there is nothing, block on the wake-up
 * descriptor.  Then, in either case, notice_disarm() each lane and, if the descriptor is readable,
 * read it.  A wake-up may come late, without cause.
 */
static inline void notice_arm(struct notice_reader *reader)
{
	__atomic_store_n(&reader->lane->armed, 1, __ATOMIC_RELAXED);
}

static inline void notice_disarm(struct notice_reader *reader)
{
	__atomic_store_n(&reader->lane->armed, 0, __ATOMIC_RELAXED);
}

/* ---- writer --------------------------------------------------------------------------- */

/*
 * Opens the writer's side of a lane that a reader has opened, or that another writer has left.
 * wake_fd: an eventfd of the reader, of this lane or of lanes from the same process: who has it
 * can also take a wake-up away.
 */
int notice_writer_open(struct notice_writer *writer, struct notice_lane *lane, uint32_t conns,
		       int wake_fd);

void notice_wake(struct notice_writer *writer);
void notice_fence(void);

/* Tells the reader to look at the connection, and wakes it up if it sleeps.  conn < conns. */
static inline void notice_post(struct notice_writer *writer, uint32_t conn)
{
	struct notice_lane *lane = writer->lane;
	uint64_t posted = writer->posted;

	__atomic_store_n(&lane->slot[posted++ % NOTICE_SLOTS], (uint16_t)conn, __ATOMIC_RELAXED);
	writer->posted = posted;
	__atomic_store_n(&lane->group[conn / NOTICE_GROUP % NOTICE_GROUPS], posted,
			 __ATOMIC_RELAXED);
	/* release: pairs with notice_take(): slot, group, and what the caller published */
	__atomic_store_n(&lane->posted, posted, __ATOMIC_RELEASE);
	/*
	 * Orders the store of posted before the load of armed; without it, a reader that arms in
	 * between sleeps on.  Pairs with notice_barrier(), which does it for both sides.
	 */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(writer->fenced, 0))
		notice_fence();
	delay_at(DELAY_LOCAL);
	if (__builtin_expect(__atomic_load_n(&lane->armed, __ATOMIC_RELAXED), 0))
		notice_wake(writer);
}

#endif
