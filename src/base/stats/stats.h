/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The statistics of this process: its page (stats_page.h), and who counts there.
 *
 * Role		as each function says.  "control lock": one thread at a time, by a lock of the
 *		layer above.
 * Lifetime	stats_open() makes the page with the first accelerated socket; it stays mapped
 *		until the process ends.  A forked child has none until it calls stats_open().
 * Progress	counting is one instruction, never a page fault: the page is resident and in
 *		memory that is not written back.
 */
#ifndef BASE_STATS_STATS_H
#define BASE_STATS_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/stats/stats_page.h"

/*
 * Once at start; without it stats_open() makes no page.  dir: where readers find the page; "":
 * nowhere.  file: where stats_log_sock() appends; "": nowhere.  Both stay valid, and the page is
 * made only if one of them is not "".  max: slots for sockets.  latency: each has a histogram.
 */
void stats_init(const char *dir, const char *file, unsigned max, bool latency);

/* Does anybody want statistics of this process? */
bool stats_wanted(void);

/*
 * control lock: makes the page if there is none.  False: there is none.  The first one of a process and of those
 * that it forks removes the files of ended processes.
 */
bool stats_open(void);

/* any, at exit: readers do not find the page any more.  Counting goes on. */
void stats_close(void);

/* In a forked child: forgets the page, which is the parent's. */
void stats_fork_child(void);

extern struct stats_page *stats_the_page; /* control lock to write, any to read, atomic */

/* any: the page, or NULL. */
static inline struct stats_page *stats_page(void)
{
	/* Pairs with stats_open(): the page is complete. */
	return __atomic_load_n(&stats_the_page, __ATOMIC_ACQUIRE);
}

/* ---- slots of sockets --------------------------------------------------------------- */

extern struct stats_sock *stats_slots; /* control lock to write; one before the first slot */

/* The slot with a number from 1 on, which stats_slot_take() returned. */
static inline struct stats_sock *stats_slot(unsigned number)
{
	return stats_slots + number;
}

extern struct stats_latency *stats_latencies; /* as stats_slots; NULL: there are none */

/* The histogram of the slot with this number; NULL: it has none. */
static inline struct stats_latency *stats_latency(unsigned number)
{
	return stats_latencies ? stats_latencies + number : NULL;
}

/*
 * control lock: a slot for the socket behind fd, zeroed but for fd and state.  0: none is free.
 * Slots of STATS_LEFT are used again for a socket of ours, or when fd is another file.
 */
unsigned stats_slot_take(int fd, enum stats_state state);
/* control lock: stores the inode numbers of sockets that have got a slot since the last call. */
void stats_slots_identify(void);
/* control lock: the owner does not count any more. */
void stats_slot_put(unsigned number);
/* control lock: what became of the socket. */
void stats_slot_tell(unsigned number, enum stats_state state, bool accelerated,
		     const char *verdict);

/* control lock: appends the counters of a socket that ends to VMA_STATS_FILE, if that is set. */
void stats_log_sock(unsigned number);

/* ---- counting ----------------------------------------------------------------------- */

/* The only thread that counts here at this moment: one plain store, which a reader sees whole. */
static inline void stats_add(uint64_t *counter, uint64_t n)
{
#ifdef __x86_64__
	__asm__("addq %1, %0" : "+m"(*counter) : "er"(n) : "cc");
#else
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
#endif
}

/* Where several threads may count at once.  For cold paths: it is a locked instruction. */
static inline void stats_add_any(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline void stats_set(uint64_t *value, uint64_t to)
{
	__atomic_store_n(value, to, __ATOMIC_RELAXED);
}

static inline void stats_raise(uint64_t *most, uint64_t to)
{
	if (__builtin_expect(*most < to, 0))
		stats_set(most, to);
}

/* ---- epoll sets --------------------------------------------------------------------- */

/* any: an entry for an epoll set; NULL: there is none. */
struct stats_iomux *stats_epoll_take(int fd);
void stats_epoll_put(struct stats_iomux *entry); /* may be NULL */

/* ---- asks of readers (internal thread) ---------------------------------------------- */

/* Is there an ask that has no answer? */
bool stats_asked(enum stats_ask what, uint32_t *argument);
/* The ask that stats_asked() returned last was done. */
void stats_answer(enum stats_ask what);
/* Has a reader locked byte `at` of the page?  It has not if it was killed. */
bool stats_is_locked(int at);

#endif
