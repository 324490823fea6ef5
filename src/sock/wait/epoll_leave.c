/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that end, or fall back to the kernel, while they are in epoll sets.
 */
#include "sock/core/control.h"
#include "sock/core/poll_events.h"
#include "sock/wait/epoll_internal.h"

#define FLAGS (EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE)

void epoll_sock_closed(struct sock *sk)
{
	list_for_each_safe(link, &sk->watches)
		watch_end(container_of(link, struct watch, link));
}

/* Makes it an entry of the kernel's set. */
static void give_to_kernel(struct epoll *ep, struct entry *entry)
{
	uint32_t events = entry->disabled ? entry->events & FLAGS : entry->events;

	if (sys_epoll_set(ep->epfd, EPOLL_CTL_ADD, entry->fd, events, entry->data) == 0)
		epoll_note_kernel_fd(ep, 1);
}

/* Finds an entry of the socket: its set and descriptor.  False: there is none. */
static bool find_watcher(struct sock_ref ref, struct epoll **ep, int *fd)
{
	struct ring *ring;
	bool found = false;

	if (!sock_hold(ref, &ring))
		return false;
	list_for_each(link, &ref.sk->watches) {
		struct watch *watch = container_of(link, struct watch, link);

		if (!watch->of_set)
			continue;
		/* Neither is freed while the watch is in the list. */
		*ep = container_of(watch->waiter, struct epoll, waiter);
		*fd = container_of(watch, struct entry, watch)->fd;
		found = true;
		break;
	}
	sock_release(ring);
	return found;
}

void epoll_sock_left(struct sock *sk)
{
	/* Pairs with the stores of gen in core; the caller keeps it from changing. */
	struct sock_ref ref = {sk, __atomic_load_n(&sk->gen, __ATOMIC_ACQUIRE)};
	struct epoll *ep;
	int fd;

	control_assert_held();
	control_assert_no_ring();
	while (find_watcher(ref, &ep, &fd)) {
		struct entry *entry;

		epoll_lock_nested(ep);
		/* Not found: another thread was faster, and has removed the watch, too. */
		entry = entry_find(ep, fd, ref);
		if (entry) {
			struct entry copy = *entry;

			entry_drop(ep, entry);
			give_to_kernel(ep, &copy);
		}
		epoll_unlock(ep);
	}
}

/*
 * Not in epoll_fork_child(): the parent has the same kernel set, and most children never
 * use it.  Watches and queues belong to the parent; the child abandons them.
 */
/* In a forked child, the old watch belongs to the parent.  False: the socket is gone. */
static bool watch_again(struct epoll *ep, struct entry *entry)
{
	struct ring *ring;

	list_init(&entry->ready);
	list_init(&entry->nested);
	entry->twin = false;
	watch_init(&entry->watch, &ep->waiter, entry->ref.sk, poll_events_wanted(entry->events));
	entry->watch.of_set = true;
	if (!sock_hold(entry->ref, &ring))
		return false;
	watch_add(&entry->watch);
	sock_release(ring);
	return true;
}

/*
 * Connections that peer processes share stay in the set; the kernel serves everything else
 * now.
 */
static void after_fork(struct epoll *ep, struct entry *entry)
{
	if (entry->set || !sock_ref_valid(entry->ref) || !sock_is_exported(entry->ref.sk)) {
		give_to_kernel(ep, entry);
	} else if (watch_again(ep, entry) && entry_insert(ep, entry)) {
		entry_make_ready(ep, entry);
	}
}

void epoll_after_fork(struct epoll *ep)
{
	struct entry *all = NULL;

	__atomic_store_n(&ep->forks, ready_forks, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < ep->n_buckets; i++) {
		while (ep->buckets[i]) {
			struct entry *entry = ep->buckets[i];

			ep->buckets[i] = entry->next;
			entry->next = all;
			all = entry;
		}
	}
	ep->n_entries = ep->n_ready = ep->n_nested = 0;
	list_init(&ep->ready);
	list_init(&ep->nested);
	ep->rings.n = 0;
	while (all) {
		struct entry *entry = all;

		all = entry->next;
		after_fork(ep, entry);
	}
}
