/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocation logic: which ring of an interface an owner of flows gets.  (Options and parameters
 * say "socket".)  A logic makes a key of the owner and of the calling thread; equal keys name one
 * ring.
 *
 * Role		ring_key(): app and internal, signal handlers included, holding a
 *		ring or not.  logic_fork_child(): see there.  The rest: any, pure.
 * Lifetime	a struct ring_alloc is a value, embedded in its owner.  A thread's number
 *		and processor are thread-local.
 * Ordering	none: a thread sees its own number and processor only.  A mutex, taken
 *		with signals blocked, guards the counts of threads per processor.
 * Progress	a few instructions without a system call, except in the first call of a
 *		thread with RING_LOGIC_CORE_ATTACH_THREADS, which binds the thread.
 */
#ifndef RING_LOGIC_H
#define RING_LOGIC_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"

/* The values of VMA_RING_ALLOCATION_LOGIC_RX and _TX, and of SO_VMA_RING_ALLOC_LOGIC. */
enum ring_logic {
	RING_LOGIC_INTERFACE = 0,
	RING_LOGIC_IP = 1,
	RING_LOGIC_SOCKET = 10,
	RING_LOGIC_USER_ID = 11, /* only by the socket option */
	RING_LOGIC_THREAD = 20,
	RING_LOGIC_CORE = 30,
	RING_LOGIC_CORE_ATTACH_THREADS = 31,
};

/* How the ring for one direction is chosen. */
struct ring_alloc {
	uint16_t logic;	 /* enum ring_logic, valid */
	uint8_t profile; /* rings of another profile are others; RING_PROFILES_MAX at most */
	bool direct;	 /* to send: the program wants a direct ring, too (direct.h) */
	uint32_t user_id;
};

#define RING_PROFILES_MAX 7

bool ring_logic_valid(int logic);

/* For the log: "interface", "thread" and so on; "unknown" for a number that is not valid. */
const char *ring_logic_name(int logic);

/* The key depends on the calling thread, so an owner may have to move to another ring. */
static inline bool ring_logic_moves(int logic)
{
	return logic >= RING_LOGIC_THREAD;
}

#define RING_KEY_LOGIC_SHIFT 56
#define RING_KEY_PROFILE_SHIFT 61

static inline enum ring_logic ring_key_logic(uint64_t key)
{
	return (enum ring_logic)(key >> RING_KEY_LOGIC_SHIFT & 31);
}

/*
 * The key for the calling thread.  The upper 3 bits are the profile, 5 bits the logic, the lower 56 are
 *
 *   interface	0
 *   ip		the local address; for an IPv6 address, a hash with bit 55 set
 *   socket	owner_id, below 2^56 and unique among the owners at this time
 *   user id	alloc->user_id
 *   thread	the thread's number: from 1, never used again in this process
 *   core	the processor that the thread runs on at this moment
 *   attach	the processor that the thread is bound to
 *
 * The first call of a thread with "attach" binds the thread to the processor of its affinity
 * mask that has the fewest threads bound by us; the thread counts there until it exits.  For a
 * thread that cannot be bound, "attach" is the same as "core".  A thread that a bound thread
 * starts inherits a mask of one processor; for it, the mask counts that the program gave to the
 * bound thread.  We cannot distinguish it from a thread that the program itself binds to a
 * processor where we have bound another thread; a program that places its threads should use
 * RING_LOGIC_CORE.
 *
 * The internal thread has a key, too, but is neither bound nor counted.  Callers must not move
 * anything to another ring because of the internal thread's key.
 */
uint64_t ring_key(const struct ring_alloc *alloc, const struct inaddr *local, uint64_t owner_id);

/*
 * In a forked child, where no other thread exists: only the caller can be bound; it keeps its
 * processor and its number.  Async-signal-safe.
 */
void logic_fork_child(void);

#endif
