/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entries of an epoll set: finding them by descriptor and generation, notifying them,
 * making them ready, reporting them.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/user.h"
#include "sock/core/kind.h"
#include "sock/core/poll_events.h"
#include "sock/wait/epoll_internal.h"

#define FIRST_BUCKETS 16

/* Descriptors are small and dense: they are their own hash value. */
static unsigned bucket_of(const struct epoll *ep, int fd)
{
	return (unsigned)fd & (ep->n_buckets - 1);
}

static struct entry *first_in_bucket(const struct epoll *ep, int fd)
{
	return ep->n_buckets ? ep->buckets[bucket_of(ep, fd)] : NULL;
}

struct entry *entry_find(const struct epoll *ep, int fd, struct sock_ref ref)
{
	struct entry *entry = first_in_bucket(ep, fd);

	while (entry && (entry->fd != fd || entry->ref.sk != ref.sk || entry->ref.gen != ref.gen))
		entry = entry->next;
	return entry;
}

struct entry *entry_named(const struct epoll *ep, int fd, uint32_t name)
{
	struct entry *entry = first_in_bucket(ep, fd);

	while (entry && entry->name != name)
		entry = entry->next;
	return entry;
}

static void put_in_bucket(struct epoll *ep, struct entry *entry)
{
	struct entry **bucket = &ep->buckets[bucket_of(ep, entry->fd)];

	entry->next = *bucket;
	*bucket = entry;
}

static bool grow(struct epoll *ep)
{
	unsigned n = ep->n_buckets, more = n ? 2 * n : FIRST_BUCKETS;
	struct entry **old = ep->buckets, **new = mem_zalloc(more * sizeof(*new));

	if (!new)
		return n != 0;
	ep->buckets = new;
	ep->n_buckets = more;
	for (unsigned i = 0; i < n; i++) {
		for (struct entry *entry = old[i], *next; entry; entry = next) {
			next = entry->next;
			put_in_bucket(ep, entry);
		}
	}
	mem_free(old);
	return true;
}

static void set_count(unsigned *count, unsigned value)
{
	/* Pairs with epoll_is_plain() and epoll_is_pending(). */
	__atomic_store_n(count, value, __ATOMIC_RELEASE);
}

bool entry_insert(struct epoll *ep, struct entry *entry)
{
	if (ep->n_entries >= ep->n_buckets && !grow(ep))
		return false;
	entry->name = ++ep->last_name;
	put_in_bucket(ep, entry);
	set_count(&ep->n_entries, ep->n_entries + 1);
	if (entry->set) {
		list_push_back(&ep->nested, &entry->nested);
		set_count(&ep->n_nested, ep->n_nested + 1);
	}
	return true;
}

static void unready(struct epoll *ep, struct entry *entry)
{
	list_remove(&entry->ready);
	set_count(&ep->n_ready, ep->n_ready - 1);
}

static void take_out(struct epoll *ep, struct entry *entry)
{
	struct entry **at = &ep->buckets[bucket_of(ep, entry->fd)];

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	set_count(&ep->n_entries, ep->n_entries - 1);
	if (list_linked(&entry->ready))
		unready(ep, entry);
	if (list_linked(&entry->nested)) {
		list_remove(&entry->nested);
		set_count(&ep->n_nested, ep->n_nested - 1);
	}
	ep->rings_stale = true;
}

void entry_drop(struct epoll *ep, struct entry *entry)
{
	struct ring *ring;

	take_out(ep, entry);
	if (sock_ref_valid(entry->ref)) /* otherwise another file may have the number by now */
		twin_drop(ep, entry);
	/* If the socket has ended, the thread that ended it has removed the watch. */
	if (!entry->set && sock_hold(entry->ref, &ring)) {
		watch_remove(&entry->watch);
		sock_release(ring);
	}
	/* No thread pushes it any more; pairs with watch_push(): one that did is in the queue. */
	if (__atomic_load_n(&entry->watch.queued, __ATOMIC_SEQ_CST))
		entry->deleted = true;
	else
		mem_free(entry);
}

void entry_make_ready(struct epoll *ep, struct entry *entry)
{
	if (list_linked(&entry->ready))
		return;
	list_push_back(&ep->ready, &entry->ready);
	set_count(&ep->n_ready, ep->n_ready + 1);
}

/* The events of an entry that have to be reported now. */
uint32_t entry_events(const struct entry *entry)
{
	uint32_t events;

	if (entry->disabled || !sock_ref_valid(entry->ref))
		return 0;
	if (entry->set)
		events = epoll_readable(entry->set, NULL) ? POLL_READABLE : 0;
	else
		events = poll_events_now(entry->ref.sk);
	if (__builtin_expect(events & SOCK_EXPORTED, 0))
		sock_upcalls.request(entry->ref);
	return events & (entry->events | EPOLLERR | EPOLLHUP);
}

/* A set within the set: every event in it is an edge. */
static void hear_set(struct epoll *ep, struct entry *entry)
{
	uint32_t heard = entry->heard;
	bool readable;

	if (!sock_ref_valid(entry->ref))
		return;
	readable = epoll_readable(entry->set, &entry->heard);
	if (heard != entry->heard)
		ep->news++;
	else if (entry->events & (EPOLLET | EPOLLONESHOT))
		return;
	if (readable)
		entry_make_ready(ep, entry);
}

void epoll_drain(struct epoll *ep)
{
	struct watch *watch = waiter_take(&ep->waiter);

	while (watch) {
		struct entry *entry = container_of(watch, struct entry, watch);
		struct watch *next = watch_next(watch);

		if (entry->deleted) {
			mem_free(entry);
		} else if (watch->gone) {
			take_out(ep, entry);
			/* Its twin is being closed, which removes it from ->twins. */
			mem_free(entry);
		} else {
			entry_make_ready(ep, entry);
			ep->news++;
		}
		watch = next;
	}
	list_for_each(link, &ep->nested)
		hear_set(ep, container_of(link, struct entry, nested));
}

/* mutex: it is on the list, but has no events any more. */
static void retire(struct epoll *ep, struct entry *entry)
{
	unready(ep, entry);
	if (entry->twin && (entry->events & EPOLLONESHOT))
		twin_update(ep, entry); /* the reported event is over */
}

bool epoll_has_events(struct epoll *ep)
{
	epoll_drain(ep);
	while (ep->n_ready) {
		struct entry *entry = container_of(ep->ready.next, struct entry, ready);

		if (entry_events(entry))
			return true;
		retire(ep, entry);
	}
	return false;
}

int epoll_harvest(struct epoll *ep, struct epoll_event *events, int max)
{
	int n = 0;

	epoll_drain(ep);
	for (unsigned left = ep->n_ready; left && n < max; left--) {
		struct entry *entry = container_of(ep->ready.next, struct entry, ready);
		uint32_t now = entry_events(entry);

		if (!now) {
			retire(ep, entry);
			continue;
		}
		if (!user_store32(&events[n].events, now) ||
		    !user_store64(&events[n].data, entry->data.u64)) {
			n = n ? n : -EFAULT; /* the others stay ready */
			break;
		}
		n++;
		if (entry->events & EPOLLONESHOT)
			entry->disabled = true;
		if (entry->events & (EPOLLONESHOT | EPOLLET)) {
			unready(ep, entry);
		} else {
			/* Moves it to the end: with a small max, every entry gets its turn. */
			list_remove(&entry->ready);
			list_push_back(&ep->ready, &entry->ready);
		}
	}
	if (ep->n_ready)
		waiter_wake(&ep->waiter);
	return n;
}
