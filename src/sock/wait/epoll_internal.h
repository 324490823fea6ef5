/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An epoll set: shared by its files.
 *
 * An entry whose socket had an event is first in the waiter's lock-free queue.  A thread
 * with the mutex moves it to the ready list.  A level-triggered entry stays on the list
 * while its events are true; an edge-triggered one leaves the list when it is reported.
 * So an idle entry costs a wait nothing.
 *
 * Role		any thread.  The mutex is taken before a ring is held, never while one
 *		is held, and not kept while polling rings, in a blocking system call, or
 *		asleep.
 * Lifetime	type-stable: a destroyed set is kept for reuse, so that a late call finds
 *		->dead.  The last wait on the set gives it back.  The holder of the mutex
 *		frees an entry when its watch is on no socket and not in the queue.
 * Ordering	see ready.h.  A thread that sleeps knows the rings and twins of ->version;
 *		a thread that changes them increments ->version and wakes.
 */
#ifndef SOCK_WAIT_EPOLL_INTERNAL_H
#define SOCK_WAIT_EPOLL_INTERNAL_H

#include "base/stats/stats.h"
#include "sock/core/ready.h"
#include "sock/wait/epoll.h"
#include "sock/wait/light.h"
#include "sock/wait/poll_rings.h"

#define EPOLL_NEST_MAX 4 /* depth of nested sets, the kernel's limit */

struct entry {
	struct watch watch; /* first; of a socket, not of a nested set */
	struct list ready;  /* of epoll->ready */
	struct list nested; /* of epoll->nested */
	struct entry *next; /* in its bucket */
	struct sock_ref ref;
	struct epoll *set; /* a nested set, or NULL: a socket */
	int fd;
	uint32_t name;	 /* unique among the entries of this set */
	uint32_t heard;	 /* ->set's ->news at the last look */
	uint32_t events; /* as the program passed them, flags included */
	epoll_data_t data;
	bool disabled; /* EPOLLONESHOT, and it was reported */
	bool twin;     /* in epoll->twins */
	bool deleted;  /* free it when it leaves the queue */
};

_Static_assert(offsetof(struct entry, watch) == 0, "a watch of a set is its entry");

struct epoll {
	/* set at creation, read by all */
	int epfd;	   /* the program's descriptor of the kernel's set */
	struct epoll *all; /* next in the list of all sets ever made */

	/* any, atomic */
	struct waiter waiter;
	unsigned kernel_fds; /* descriptors in the kernel's set, as far as known */

	/* mutex to write, any to read */
	unsigned n_entries;
	unsigned n_ready;
	unsigned n_nested;
	uint32_t version; /* changes with ->rings and ->twins */

	/* mutex */
	struct light_mutex mutex;
	bool dead;
	unsigned forks; /* value of ready_forks when the entries were made */
	struct entry **buckets;
	unsigned n_buckets; /* a power of two, or 0 */
	struct list ready;
	struct list nested; /* entries that are sets */
	uint32_t last_name; /* given to an entry */
	uint32_t news;	    /* events so far; each is an edge for the sets that contain this one */
	int twins;	    /* hidden kernel set of twins; negative: there is none */
	unsigned plain_waits; /* threads in the kernel's epoll_wait */
	int kick;	      /* eventfd that ends those waits, or -1 */
	bool kicked;
	struct ring_set rings;
	bool rings_stale;
	uint32_t rings_gen; /* sock_rings_generation() of ->rings */
	nsec_t rings_next;  /* not rebuilt before this time, unless there is nothing else to do */

	struct stats_iomux *stats; /* mutex; stats_epoll_take(), or NULL */

	struct epoll *free; /* next set to reuse */
};

/* False: the caller is a signal handler or callback that interrupted the library. */
bool epoll_lock(struct epoll *ep);
/* The same for a set within a set whose mutex is held. */
void epoll_lock_nested(struct epoll *ep);
void epoll_unlock(struct epoll *ep);

/* mutex: a set with sockets of ours has an entry in the statistics, if there is a free one. */
static inline void epoll_take_stats(struct epoll *ep)
{
	if (!ep->stats && ep->n_entries)
		ep->stats = stats_epoll_take(ep->epfd);
}

/* mutex: the last wait of a destroyed set is over. */
void epoll_recycle(struct epoll *ep);

/* mutex: in a forked child, at the first use: moves every entry to the kernel's set. */
void epoll_after_fork(struct epoll *ep);

/* ---- entries (mutex) ------------------------------------------------------------ */

struct entry *entry_find(const struct epoll *ep, int fd, struct sock_ref ref);
struct entry *entry_named(const struct epoll *ep, int fd, uint32_t name);
bool entry_insert(struct epoll *ep, struct entry *entry); /* false: no memory */
/* Removes the entry from everywhere; frees it at once, or when it leaves the queue. */
void entry_drop(struct epoll *ep, struct entry *entry);
void entry_make_ready(struct epoll *ep, struct entry *entry);
/* Its events now. */
uint32_t entry_events(const struct entry *entry);

/* Moves notified entries to the ready list; frees entries of sockets that ended. */
void epoll_drain(struct epoll *ep);

/*
 * Reports up to max ready entries.  If some are left, wakes another thread, unless one is
 * awake.
 */
int epoll_harvest(struct epoll *ep, struct epoll_event *events, int max);

/* Would it report an event? */
bool epoll_has_events(struct epoll *ep);

/* any: might there be an event to report?  Costs three loads if not. */
static inline bool epoll_is_pending(const struct epoll *ep)
{
	/* Each load pairs with set_count() in epoll_entry.c. */
	return waiter_pending(&ep->waiter) || __atomic_load_n(&ep->n_ready, __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&ep->n_nested, __ATOMIC_ACQUIRE);
}

/* ---- twins (mutex) --------------------------------------------------------------- */

/* Puts the entry's twin into ->twins, with the right flags, if and only if it matters. */
void twin_update(struct epoll *ep, struct entry *entry);
void twin_drop(struct epoll *ep, struct entry *entry);
/* Asks the kernel about all twins. */
void epoll_look_at_twins(struct epoll *ep);

/* ---- rings (mutex) --------------------------------------------------------------- */

/*
 * Updates ->rings and ->twins if the sockets have changed.  Takes a tenth of the time at
 * most, unless now is NSEC_NEVER: there is nothing else to do.  0: the caller has no clock.
 */
void epoll_make_rings(struct epoll *ep, uint32_t gen, nsec_t now);
static inline void epoll_follow_rings(struct epoll *ep, nsec_t now)
{
	uint32_t gen = sock_rings_generation();

	if (__builtin_expect(ep->rings_stale || gen != ep->rings_gen || ep->n_nested, 0))
		epoll_make_rings(ep, gen, now);
}

/* ---- as a member of poll() or of another set (no mutex) ---------------------------- */

/* Are there events to report?  news: see ->news; may be NULL. */
bool epoll_readable(struct epoll *ep, uint32_t *news);
/* Adds the rings of its sockets to set. */
void epoll_add_rings(struct epoll *ep, struct ring_set *set);

#define EPOLL_SLEEP_FDS 2
/* A rest on behalf of the set: as its guest, and on its descriptors. */
void epoll_sleep(struct epoll *ep, struct rest *rest, struct sleeper *guest);

/* ---- the kernel's calls ------------------------------------------------------------ */

int sys_epoll_set(int epfd, int op, int fd, uint32_t events, epoll_data_t data);
int sys_epoll_get(int epfd, struct epoll_event *events, int max);

#endif
