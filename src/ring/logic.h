/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocation logic: which of an interface's rings a socket uses.  A logic turns
 * the socket and the thread that uses it into a key, equal keys are one ring.
 *
 * Role		ring_key(): app and internal, signal handlers included, holding a
 *		ring or not.  logic_fork_child(): see there.  The rest: any, pure.
 * Lifetime	a struct ring_alloc is a value, embedded in its socket.  What is
 *		known of a thread lives in the thread.
 * Ordering	none: a thread sees its own number and place only.  The counts of
 *		threads per processor are under a mutex, with signals blocked.
 * Progress	a few instructions and no system call, but for the first call of a
 *		thread with RING_LOGIC_CORE_ATTACH_THREADS, which binds it.
 */
#ifndef RING_LOGIC_H
#define RING_LOGIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/addr.h"

/* The numbers are those of VMA_RING_ALLOCATION_LOGIC_* and of the option below. */
enum ring_logic {
	RING_LOGIC_INTERFACE = 0,
	RING_LOGIC_IP = 1,
	RING_LOGIC_SOCKET = 10,
	RING_LOGIC_USER_ID = 11, /* by the option only */
	RING_LOGIC_THREAD = 20,
	RING_LOGIC_CORE = 30,
	RING_LOGIC_CORE_ATTACH_THREADS = 31,
};

/* How a socket chooses its ring, one direction.  logic: always a valid one. */
struct ring_alloc {
	int logic;
	uint32_t user_id;
};

bool ring_logic_valid(int logic);

/* For the log: "interface", "thread"; of a number that is none, "unknown". */
const char *ring_logic_name(int logic);

/* The key follows the thread that uses the socket, which may move to another ring. */
static inline bool ring_logic_moves(int logic)
{
	return logic >= RING_LOGIC_THREAD;
}

#define RING_KEY_LOGIC_SHIFT 56

static inline enum ring_logic ring_key_logic(uint64_t key)
{
	return (enum ring_logic)(key >> RING_KEY_LOGIC_SHIFT);
}

/*
 * The key of a socket that the calling thread uses: the logic in the 8 bits at
 * the top, below it
 *
 *   interface	0
 *   ip		the local address; of an IPv6 address, a hash with bit 55 set
 *   socket	sock_id, unique among the sockets that live, below 2^56
 *   user id	alloc->user_id
 *   thread	the thread's number: from 1, never used again in this process
 *   core	the processor the thread is on, at this moment
 *   attach	the processor the thread is bound to
 *
 * The first call of a thread with the last one binds it to that processor of its
 * affinity mask which has the fewest threads bound by us; the thread counts there
 * until it exits.  A thread that cannot be bound goes on as with "core".  A thread
 * started by one that is bound inherits a mask of one processor: what counts is the
 * mask that the program gave to the one.  We cannot tell it from a thread that the
 * program itself binds to a processor where we have bound another; a program that
 * places its threads wants RING_LOGIC_CORE.
 *
 * The internal thread has a key like any other but is never bound nor counted.  It
 * is not who uses a socket: what it does moves no socket, which callers see to.
 */
uint64_t ring_key(const struct ring_alloc *alloc, const struct inaddr *local, uint64_t sock_id);

/*
 * In a forked child, where no other thread exists: nobody is bound but the caller,
 * if it was, who keeps its place and its number.  Async-signal-safe.
 */
void logic_fork_child(void);

/* ---- as programs say it: setsockopt(SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC) ----------- */

#define SO_VMA_RING_ALLOC_LOGIC 2810

/* comp_mask: members that are set; the rest is not read. */
enum {
	VMA_RING_ALLOC_MASK_RING_PROFILE_KEY = 1 << 0,
	VMA_RING_ALLOC_MASK_RING_USER_ID = 1 << 1,
	VMA_RING_ALLOC_MASK_RING_INGRESS = 1 << 2,
	VMA_RING_ALLOC_MASK_RING_ENGRESS = 1 << 3,
};

/* The layout and the spelling are those programs are compiled with. */
struct vma_ring_alloc_logic_attr {
	uint32_t comp_mask;
	uint32_t ring_alloc_logic; /* enum ring_logic; always read */
	uint32_t ring_profile_key;
	uint32_t user_id;
	uint32_t ingress : 1;
	uint32_t engress : 1;
	uint32_t reserved : 30;
};

_Static_assert(sizeof(struct vma_ring_alloc_logic_attr) == 20, "programs are compiled with it");

/*
 * The option's value.  A side is meant when its flag is set and its bit of
 * comp_mask, too: *set_rx for ingress, *set_tx for engress; *rx or *tx is written
 * only then.  No side is no error: it changes nothing.
 *
 * -EINVAL, and nothing is written: val is NULL or not of this size, an unknown bit
 * of comp_mask, a logic outside the list, RING_LOGIC_USER_ID without a user_id, or
 * a profile other than 0, for there are none.
 */
int ring_alloc_from_attr(const void *val, size_t len, struct ring_alloc *rx, struct ring_alloc *tx,
			 bool *set_rx, bool *set_tx);

#endif
