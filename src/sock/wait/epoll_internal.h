/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An epoll set: what its files share.
 *
 * An entry whose socket had an event is first in the waiter's lock-free queue,
 * then, once somebody with the mutex took it from there, on the ready list.  A
 * level-triggered entry stays on the list while its events are true; an
 * edge-triggered one leaves it when it is reported.  So an idle entry costs a
 * wait nothing.
 *
 * Role		any thread.  The mutex is taken before a ring is held, never
 *		while one is, and not held while rings are polled, in a system
 *		call that waits, or asleep.
 * Lifetime	type-stable: a set that was destroyed is kept for the next one,
 *		so that a call that comes late finds ->dead.  The last of its
 *		waits gives it back.  An entry is freed by whoever has the
 *		mutex, once its watch is on no socket and not in the queue.
 * Ordering	see ready.h.  A thread that sleeps knows the rings and twins of
 *		->version; who changes them increments it and wakes.
 */
#ifndef SOCK_WAIT_EPOLL_INTERNAL_H
#define SOCK_WAIT_EPOLL_INTERNAL_H

#include <pthread.h>

#include "sock/core/ready.h"
#include "sock/wait/epoll.h"
#include "sock/wait/poll_rings.h"

#define EPOLL_NEST_MAX 4 /* sets in a set in a set, as the kernel */

struct entry {
	struct watch watch; /* first; of a socket, not of a nested set */
	struct list ready;  /* of epoll->ready */
	struct list nested; /* of epoll->nested */
	struct entry *next; /* in its bucket */
	struct sock_ref ref;
	struct epoll *set; /* a set in the set, or NULL: a socket */
	int fd;
	uint32_t name;	 /* of this set's entries, this one alone */
	uint32_t heard;	 /* ->set's ->news when it was looked at last */
	uint32_t events; /* as the program gave them, flags included */
	epoll_data_t data;
	bool disabled; /* EPOLLONESHOT, reported */
	bool twin;     /* in epoll->twins */
	bool deleted;  /* freed when it comes out of the queue */
};

_Static_assert(offsetof(struct entry, watch) == 0, "a watch of a set is its entry");

struct epoll {
	/* set at creation, read by all */
	int epfd;	   /* the program's descriptor, the kernel's set */
	struct epoll *all; /* next of all sets there ever were */

	/* any, atomic */
	struct waiter waiter;
	unsigned kernel_fds; /* descriptors the kernel's set has, as far as we know */

	/* mutex to write, any to read */
	unsigned n_entries;
	unsigned n_ready;
	unsigned n_nested;
	uint32_t version; /* of ->rings and ->twins */

	/* mutex */
	pthread_mutex_t mutex;
	bool dead;
	unsigned forks; /* ready_forks when the entries were made */
	struct entry **buckets;
	unsigned n_buckets; /* a power of two, or 0 */
	struct list ready;
	struct list nested;   /* entries that are sets themselves */
	uint32_t last_name;   /* of an entry */
	uint32_t news;	      /* events so far: an edge for the sets that this one is in */
	int twins;	      /* hidden kernel set of twins, or -1 */
	unsigned plain_waits; /* threads in the kernel's epoll_wait */
	int kick;	      /* eventfd that gets them out of there, or -1 */
	bool kicked;
	struct ring_set rings;
	bool rings_stale;
	uint32_t rings_gen; /* sock_rings_generation() of ->rings */
	nsec_t rings_next;  /* not rebuilt before, unless we have the time */

	struct epoll *free; /* next to be reused */
};

/* False: in a signal handler or callback that interrupted the library. */
bool epoll_lock(struct epoll *ep);
/* As above, of a set within a set whose mutex we have. */
void epoll_lock_nested(struct epoll *ep);
void epoll_unlock(struct epoll *ep);

/* mutex: the last wait of a destroyed set is over. */
void epoll_recycle(struct epoll *ep);

/* mutex: in a forked child, at the first use: every entry is the kernel's now. */
void epoll_after_fork(struct epoll *ep);

/* ---- entries (mutex) ------------------------------------------------------------ */

struct entry *entry_find(const struct epoll *ep, int fd, struct sock_ref ref);
struct entry *entry_named(const struct epoll *ep, int fd, uint32_t name);
bool entry_insert(struct epoll *ep, struct entry *entry); /* false: no memory */
/* Takes the entry out of everything and frees it, at once or out of the queue. */
void entry_drop(struct epoll *ep, struct entry *entry);
void entry_make_ready(struct epoll *ep, struct entry *entry);
/* Its events now. */
uint32_t entry_events(const struct entry *entry);

/* Moves what was notified to the ready list; frees entries of sockets that ended. */
void epoll_drain(struct epoll *ep);

/* Reports up to max ready entries; some are left: another sleeper is woken, or up. */
int epoll_harvest(struct epoll *ep, struct epoll_event *events, int max);

/* Would it report any? */
bool epoll_has_events(struct epoll *ep);

/* any: may there be something to report?  Costs three loads when there is not. */
static inline bool epoll_is_pending(const struct epoll *ep)
{
	return waiter_pending(&ep->waiter) || __atomic_load_n(&ep->n_ready, __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&ep->n_nested, __ATOMIC_ACQUIRE);
}

/* ---- twins (mutex) --------------------------------------------------------------- */

/* The entry's twin is in ->twins if and only if it matters, with the right flags. */
void twin_update(struct epoll *ep, struct entry *entry);
void twin_drop(struct epoll *ep, struct entry *entry);
/* Takes the kernel's word on all twins. */
void epoll_look_at_twins(struct epoll *ep);

/* ---- rings (mutex) --------------------------------------------------------------- */

/*
 * ->rings and ->twins are made to follow the sockets, where that is due.  Bounded
 * to a tenth of the time, unless now is NSEC_NEVER: there is nothing else to do.
 */
void epoll_follow_rings(struct epoll *ep, nsec_t now);

/* ---- as a member of poll() or of another set (no mutex) ---------------------------- */

/* Are there events to report?  news: see ->news, or NULL. */
bool epoll_readable(struct epoll *ep, uint32_t *news);
/* Adds the rings of its sockets to set. */
void epoll_add_rings(struct epoll *ep, struct ring_set *set);

#define EPOLL_SLEEP_FDS 2
/* A rest on the set's behalf: as a guest of its, and on its descriptors. */
void epoll_sleep(struct epoll *ep, struct rest *rest, struct sleeper *guest);

/* ---- the kernel's calls ------------------------------------------------------------ */

int sys_epoll_set(int epfd, int op, int fd, uint32_t events, epoll_data_t data);
int sys_epoll_get(int epfd, struct epoll_event *events, int max);

#endif
