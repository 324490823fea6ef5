/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/epoll.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "base/busy.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/sys.h"
#include "ring/hold.h"
#include "sock/core/kind.h"
#include "sock/core/poll_events.h"
#include "sock/wait/epoll_internal.h"

/* All flags that the kernel allows together with EPOLLEXCLUSIVE. */
#define EXCLUSIVE_OK \
	(EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE)

/* Under the mutex: sets that can be reused, and all sets that were ever made. */
static pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct epoll *pool, *all_sets;

/* Serialises calls that put sets into sets, so that two of them cannot close a circle. */
static pthread_mutex_t nesting = PTHREAD_MUTEX_INITIALIZER;

/* ---- the mutex -------------------------------------------------------------------- */

void epoll_lock_nested(struct epoll *ep)
{
	busy_lock();
	light_lock(&ep->mutex);
}

bool epoll_lock(struct epoll *ep)
{
	if (__builtin_expect(busy_locks || hold_current, 0))
		return false;
	epoll_lock_nested(ep);
	if (__builtin_expect(ep->forks != ready_forks, 0))
		epoll_after_fork(ep);
	return true;
}

void epoll_unlock(struct epoll *ep)
{
	light_unlock(&ep->mutex);
	busy_unlock();
}

/* ---- sets ------------------------------------------------------------------------- */

static struct epoll *new_set(void)
{
	struct epoll *ep = mem_zalloc(sizeof(*ep));

	if (!ep)
		return NULL;
	waiter_init(&ep->waiter);
	list_init(&ep->ready);
	list_init(&ep->nested);
	ep->twins = -1;
	ep->kick = -1;
	ep->dead = true;
	ep->all = all_sets;
	all_sets = ep;
	return ep;
}

struct epoll *epoll_create_set(int epfd)
{
	struct epoll *ep;

	mutex_lock(&pool_mutex);
	ep = pool;
	if (ep)
		pool = ep->free;
	else
		ep = new_set();
	mutex_unlock(&pool_mutex);
	if (!ep)
		return NULL;
	epoll_lock_nested(ep);
	ep->epfd = epfd;
	ep->forks = ready_forks;
	ep->kernel_fds = 0;
	ep->rings.n = 0;
	ep->rings_stale = false;
	ep->rings_next = 0;
	ep->rings_gen = sock_rings_generation();
	ep->dead = false;
	ep->stats = NULL;
	epoll_unlock(ep);
	return ep;
}

void epoll_set_fd(struct epoll *ep, int epfd)
{
	epoll_lock_nested(ep);
	__atomic_store_n(&ep->epfd, epfd, __ATOMIC_RELAXED);
	epoll_unlock(ep);
}

void epoll_recycle(struct epoll *ep)
{
	sys_close_fd(&ep->twins);
	sys_close_fd(&ep->kick);
	stats_epoll_put(ep->stats);
	ep->stats = NULL;
	ep->kicked = false;
	/* The waiter stays valid: another thread may be about to read it. */
	mutex_lock(&pool_mutex);
	ep->free = pool;
	pool = ep;
	mutex_unlock(&pool_mutex);
}

static void drop_all(struct epoll *ep)
{
	for (unsigned i = 0; i < ep->n_buckets; i++) {
		while (ep->buckets[i])
			entry_drop(ep, ep->buckets[i]);
	}
	epoll_drain(ep);
	mem_free(ep->buckets);
	ep->buckets = NULL;
	ep->n_buckets = 0;
}

void epoll_destroy_set(struct epoll *ep)
{
	epoll_lock_nested(ep);
	drop_all(ep);
	ep->dead = true;
	/* Pairs with is_outdated() in epoll_wait.c: waits look again. */
	__atomic_store_n(&ep->version, ep->version + 1, __ATOMIC_RELEASE);
	if (ep->waiter.users)
		waiter_wake_all(&ep->waiter);
	else
		epoll_recycle(ep);
	epoll_unlock(ep);
}

bool epoll_is_plain(const struct epoll *ep)
{
	/* Pairs with set_count() in epoll_entry.c. */
	return __atomic_load_n(&ep->n_entries, __ATOMIC_ACQUIRE) == 0;
}

void epoll_note_kernel_fd(struct epoll *ep, int delta)
{
	__atomic_fetch_add(&ep->kernel_fds, (unsigned)delta, __ATOMIC_RELAXED);
}

void epoll_settle(struct epoll *ep)
{
	if (__builtin_expect(__atomic_load_n(&ep->forks, __ATOMIC_RELAXED) != ready_forks, 0) &&
	    epoll_lock(ep))
		epoll_unlock(ep);
}

/* ---- epoll_ctl() ------------------------------------------------------------------ */

/*
 * The set had only descriptors of the kernel, and threads wait in the kernel, where our
 * events do not reach them: makes a descriptor there ready for all of them.
 */
static void kick_plain_waits(struct epoll *ep)
{
	if (!ep->plain_waits || ep->kicked)
		return;
	if (ep->kick < 0)
		__atomic_store_n(&ep->kick, sys_fd_hide(sys_eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)),
				 __ATOMIC_RELAXED);
	ep->kicked = sys_epoll_set(ep->epfd, EPOLL_CTL_ADD, ep->kick, EPOLLIN,
				   (epoll_data_t){.ptr = ep}) == 0;
}

/* The depth of the set, counting itself; more than the limit if it contains target. */
static int depth_of(struct epoll *ep, const struct epoll *target)
{
	int depth = 0;

	if (ep == target)
		return EPOLL_NEST_MAX + 1;
	epoll_lock_nested(ep);
	list_for_each(link, &ep->nested) {
		const struct entry *entry = container_of(link, struct entry, nested);
		int below = depth_of(entry->set, target);

		if (below > depth)
			depth = below;
	}
	epoll_unlock(ep);
	return depth + 1;
}

static void set_interest(struct entry *entry, const struct epoll_event *event)
{
	entry->events = event->events;
	entry->data = event->data;
	entry->disabled = false;
}

/*
 * Watches the socket's events.  -EBADF: it was closed meanwhile.  SOCK_KERNEL: it is leaving
 * for the kernel, and a watch added now would be lost: see sock_leave().
 */
static int watch_socket(struct epoll *ep, struct entry *entry, bool add)
{
	struct ring *ring;
	int rc = 0;

	if (!sock_hold(entry->ref, &ring))
		return sock_gone(entry->ref);
	entry->watch.events = poll_events_wanted(entry->events);
	if (add && sock_gone(entry->ref) == SOCK_KERNEL)
		rc = SOCK_KERNEL;
	else if (add)
		watch_add(&entry->watch);
	sock_release(ring);
	return rc;
}

/*
 * If the event is true already, new interest in it counts as an event.  An entry that is
 * not ready must not be on the list: the list has the order in which entries became ready.
 */
static void report_if_ready(struct epoll *ep, struct entry *entry)
{
	if (!entry_events(entry))
		return;
	entry_make_ready(ep, entry);
	ep->news++;
	waiter_wake(&ep->waiter);
}

static void follow_new(struct epoll *ep, const struct entry *entry)
{
	unsigned n = ep->rings.n;

	if (entry->set)
		epoll_add_rings(entry->set, &ep->rings);
	else
		ring_set_add_sock(&ep->rings, entry->ref.sk);
	if (ep->rings.n != n) {
		/* Pairs with is_outdated() in epoll_wait.c. */
		__atomic_store_n(&ep->version, ep->version + 1, __ATOMIC_RELEASE);
		waiter_wake_all(&ep->waiter); /* they sleep on the new rings next, too */
	}
}

static int add(struct epoll *ep, int fd, struct sock_ref ref, const struct epoll_event *event)
{
	struct epoll *set = ref.sk->type == SOCK_TYPE_EPOLL ? ref.sk->epoll : NULL;
	struct entry *entry;
	int rc;

	if ((event->events & EPOLLEXCLUSIVE) && (set || (event->events & ~EXCLUSIVE_OK)))
		return -EINVAL;
	if (entry_find(ep, fd, ref))
		return -EEXIST;
	entry = mem_zalloc(sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	watch_init(&entry->watch, &ep->waiter, ref.sk, 0);
	entry->watch.of_set = true;
	list_init(&entry->ready);
	list_init(&entry->nested);
	entry->ref = ref;
	entry->set = set;
	entry->fd = fd;
	set_interest(entry, event);
	if (!entry_insert(ep, entry)) {
		mem_free(entry);
		return -ENOMEM;
	}
	rc = set ? 0 : watch_socket(ep, entry, true);
	if (rc) {
		entry_drop(ep, entry);
		return rc;
	}
	follow_new(ep, entry);
	epoll_take_stats(ep);
	twin_update(ep, entry);
	if (set)
		epoll_readable(set, &entry->heard);
	kick_plain_waits(ep);
	report_if_ready(ep, entry);
	return 0;
}

static int modify(struct epoll *ep, struct entry *entry, const struct epoll_event *event)
{
	int rc = 0;

	if ((event->events | entry->events) & EPOLLEXCLUSIVE)
		return -EINVAL;
	set_interest(entry, event);
	if (!entry->set)
		rc = watch_socket(ep, entry, false);
	if (rc)
		return rc;
	twin_update(ep, entry);
	report_if_ready(ep, entry);
	return 0;
}

static int control(struct epoll *ep, int op, int fd, struct sock_ref ref,
		   const struct epoll_event *event)
{
	struct entry *entry;

	if (ep->dead)
		return -EBADF;
	epoll_drain(ep); /* drops the entry of a closed descriptor of this number */
	if (op == EPOLL_CTL_ADD)
		return add(ep, fd, ref, event);
	if (op != EPOLL_CTL_MOD && op != EPOLL_CTL_DEL)
		return -EINVAL;
	entry = entry_find(ep, fd, ref);
	if (!entry) /* it may be in the kernel's set by now */
		return sock_gone(ref) == SOCK_KERNEL ? SOCK_KERNEL : -ENOENT;
	if (op == EPOLL_CTL_MOD)
		return modify(ep, entry, event);
	entry_drop(ep, entry);
	return 0;
}

int epoll_control(struct epoll *ep, int op, int fd, struct sock_ref ref, struct epoll_event *event)
{
	bool nest = ref.sk->type == SOCK_TYPE_EPOLL && op == EPOLL_CTL_ADD;
	int rc;

	if (busy_locks || hold_current)
		return -EBUSY; /* in a signal handler that interrupted the library */
	if (ref.sk->epoll == ep && ref.sk->type == SOCK_TYPE_EPOLL)
		return -EINVAL;
	if (__builtin_expect(sock_is_exported(ref.sk), 0) && op != EPOLL_CTL_DEL)
		(void)sock_upcalls.fetch(ref, SHARE_FETCH_MAX);
	if (nest) {
		mutex_lock(&nesting);
		if (depth_of(ref.sk->epoll, ep) > EPOLL_NEST_MAX) {
			mutex_unlock(&nesting);
			return -ELOOP;
		}
	}
	rc = -EBUSY;
	if (epoll_lock(ep)) {
		rc = control(ep, op, fd, ref, event);
		epoll_unlock(ep);
	}
	if (nest)
		mutex_unlock(&nesting);
	return rc;
}

/* ---- fork --------------------------------------------------------------------------- */

void epoll_fork_child(void)
{
	ready_fork_child();
	busy_locks = 0;
	pthread_mutex_init(&pool_mutex, NULL);
	pthread_mutex_init(&nesting, NULL);
	for (struct epoll *ep = all_sets; ep; ep = ep->all) {
		ep->mutex = (struct light_mutex){0};
		waiter_init(&ep->waiter);
		ep->plain_waits = 0;
		/* The parent's: a page that is not mapped here, and numbers that are closed. */
		ep->stats = NULL;
		ep->twins = ep->kick = -1;
		ep->kicked = false;
	}
}
