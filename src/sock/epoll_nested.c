/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An epoll set as a member of poll(), select() or another set.
 */
#include "base/sys.h"
#include "sock/epoll_internal.h"

void epoll_add_rings(struct epoll *ep, struct ring_set *set)
{
	epoll_lock_nested(ep);
	epoll_follow_rings(ep, NSEC_NEVER);
	for (unsigned i = 0; i < ep->rings.n; i++)
		ring_set_add(set, ep->rings.rings[i]);
	epoll_unlock(ep);
}

bool epoll_readable(struct epoll *ep)
{
	struct pollfd twins = {.events = POLLIN};
	struct timespec zero = {0, 0};
	bool readable;

	epoll_lock_nested(ep);
	twins.fd = ep->twins;
	if (twins.fd >= 0 && sys_ppoll(&twins, 1, &zero, NULL) > 0)
		epoll_look_at_twins(ep);
	readable = epoll_is_pending(ep) && !ep->dead && epoll_has_events(ep);
	epoll_unlock(ep);
	return readable;
}

void epoll_sleep(struct epoll *ep, struct sleep_fds *sleep)
{
	waiter_prepare(&ep->waiter);
	epoll_lock_nested(ep);
	sleep_fds_add(sleep, ep->dead ? -1 : ep->epfd, POLLIN);
	sleep_fds_add(sleep, ep->twins, POLLIN);
	epoll_unlock(ep);
	sleep_fds_add(sleep, __atomic_load_n(&ep->waiter.fd, __ATOMIC_ACQUIRE), POLLIN);
}

void epoll_woken(struct epoll *ep)
{
	waiter_cancel(&ep->waiter);
	/* Whoever else sleeps there should not miss what we took. */
	if (waiter_drain(&ep->waiter) && epoll_is_pending(ep))
		waiter_wake(&ep->waiter);
}
