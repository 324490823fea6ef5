/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rings and twins of an epoll set.
 *
 * The twins are in a kernel set of their own, named by descriptor and entry, with the flags
 * of their entry: an event that the kernel reports there is reported for the entry.  A
 * nested set is in it as well, for the kernel's descriptors that it contains.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/sys.h"
#include "sock/core/poll_events.h"
#include "sock/wait/epoll_internal.h"

#define TWINS_AT_ONCE 16
#define FOLLOW_SHARE 10 /* one part of the time is spent on following */

int sys_epoll_set(int epfd, int op, int fd, uint32_t events, epoll_data_t data)
{
	struct epoll_event event = {.events = events, .data = data};

	return (int)sys_call(SYS_epoll_ctl, epfd, op, fd, &event, 0, 0);
}

int sys_epoll_get(int epfd, struct epoll_event *events, int max)
{
	return (int)sys_call(SYS_epoll_pwait, epfd, events, max, 0, NULL, 8);
}

/* ---- twins ----------------------------------------------------------------------- */

static int create_set(void)
{
	return sys_fd_hide((int)sys_call(SYS_epoll_create1, EPOLL_CLOEXEC, 0, 0, 0, 0, 0));
}

static epoll_data_t twin_name(const struct entry *entry)
{
	return (epoll_data_t){.u64 = (uint64_t)entry->name << 32 | (uint32_t)entry->fd};
}

static void bump(struct epoll *ep)
{
	/* Pairs with is_outdated() in epoll_wait.c. */
	__atomic_store_n(&ep->version, ep->version + 1, __ATOMIC_RELEASE);
	waiter_wake_all(&ep->waiter);
}

static bool twin_wanted(const struct entry *entry)
{
	if (entry->disabled)
		return false;
	if (entry->set)
		return entry->events & POLL_READABLE;
	return ((entry->events & POLL_READABLE) || entry->ref.sk->type == SOCK_TYPE_UDP) &&
	       sock_twin_matters(entry->ref.sk);
}

void twin_update(struct epoll *ep, struct entry *entry)
{
	/* An error is reported to a writer, too. */
	uint32_t flags = (entry->events & POLL_READABLE ? EPOLLIN : 0u) |
			 (entry->events & (EPOLLET | EPOLLONESHOT));

	if (!twin_wanted(entry)) {
		twin_drop(ep, entry);
		return;
	}
	if (ep->twins < 0) {
		ep->twins = create_set();
		if (ep->twins < 0)
			return;
		bump(ep);
	}
	/* The program's descriptor, not sk->twin: two entries may name one socket. */
	if (sys_epoll_set(ep->twins, entry->twin ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, entry->fd, flags,
			  twin_name(entry)) == 0)
		entry->twin = true;
}

void twin_drop(struct epoll *ep, struct entry *entry)
{
	if (!entry->twin)
		return;
	entry->twin = false;
	sys_epoll_set(ep->twins, EPOLL_CTL_DEL, entry->fd, 0, twin_name(entry));
}

/*
 * The kernel reports a descriptor that is no entry: its file is still open elsewhere (in a
 * child), so it cannot be removed.  Makes a new kernel set.
 */
static void make_twins_anew(struct epoll *ep)
{
	int fresh = create_set();

	if (fresh < 0)
		return;
	/* It keeps the number: threads may be about to sleep on it. */
	sys_call(SYS_dup3, fresh, ep->twins, O_CLOEXEC, 0, 0, 0);
	sys_close(fresh);
	for (unsigned i = 0; i < ep->n_buckets; i++) {
		for (struct entry *entry = ep->buckets[i]; entry; entry = entry->next) {
			entry->twin = false;
			twin_update(ep, entry);
		}
	}
	bump(ep);
}

void epoll_look_at_twins(struct epoll *ep)
{
	struct epoll_event events[TWINS_AT_ONCE];
	int n = ep->twins < 0 ? 0 : sys_epoll_get(ep->twins, events, TWINS_AT_ONCE);
	bool stray = false;

	for (int i = 0; i < n; i++) {
		uint64_t name = events[i].data.u64;
		struct entry *entry = entry_named(ep, (int)(uint32_t)name, (uint32_t)(name >> 32));

		if (!entry) {
			stray = true;
			continue;
		}
		if (!entry->set)
			__atomic_store_n(&entry->ref.sk->twin_events,
					 poll_events_of_twin(events[i].events), __ATOMIC_RELAXED);
		entry_make_ready(ep, entry);
		ep->news++;
	}
	if (stray)
		make_twins_anew(ep);
}

/* ---- rings ------------------------------------------------------------------------ */

static bool same_rings(const struct ring_set *a, const struct ring_set *b)
{
	if (a->n != b->n)
		return false;
	for (unsigned i = 0; i < a->n; i++) {
		if (a->rings[i] != b->rings[i])
			return false;
	}
	return true;
}

void epoll_make_rings(struct epoll *ep, uint32_t gen, nsec_t now)
{
	struct ring_set set = {.n = 0};
	nsec_t began = clock_now();

	if ((now ? now : began) < ep->rings_next)
		return;
	ep->rings_stale = false;
	ep->rings_gen = gen;
	epoll_take_stats(ep);
	for (unsigned i = 0; i < ep->n_buckets; i++) {
		for (struct entry *entry = ep->buckets[i], *next; entry; entry = next) {
			next = entry->next;
			if (!sock_ref_valid(entry->ref)) {
				entry_drop(ep, entry);
			} else if (entry->set) {
				epoll_add_rings(entry->set, &set);
			} else {
				ring_set_add_sock(&set, entry->ref.sk);
				if (twin_wanted(entry) != entry->twin)
					twin_update(ep, entry);
			}
		}
	}
	if (!same_rings(&set, &ep->rings)) {
		ep->rings = set;
		bump(ep);
	}
	now = clock_now();
	ep->rings_next = now + FOLLOW_SHARE * (now - began);
}
