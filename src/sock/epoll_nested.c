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

void epoll_sleep(struct epoll *ep, struct rest *rest, struct sleeper *guest)
{
	sleep_enter(&rest->sleep, guest, &ep->waiter.sleepers, true);
	epoll_lock_nested(ep);
	sleep_fds_add(&rest->fds, ep->dead ? -1 : ep->epfd, POLLIN);
	sleep_fds_add(&rest->fds, ep->twins, POLLIN);
	epoll_unlock(ep);
}
