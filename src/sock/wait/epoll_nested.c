/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An epoll set as a member of poll(), select() or another set.
 */
#include "base/sys.h"
#include "sock/wait/epoll_internal.h"

/* In a forked child the entries are the parent's until the first use. */
static void lock_member(struct epoll *ep)
{
	epoll_lock_nested(ep);
	if (__builtin_expect(ep->forks != ready_forks, 0))
		epoll_after_fork(ep);
}

void epoll_add_rings(struct epoll *ep, struct ring_set *set)
{
	lock_member(ep);
	epoll_follow_rings(ep, NSEC_NEVER);
	for (unsigned i = 0; i < ep->rings.n; i++)
		ring_set_add(set, ep->rings.rings[i]);
	epoll_unlock(ep);
}

/* mutex: the kernel's part.  Makes one system call, if the set may have such a part. */
static bool look_at_kernel(struct epoll *ep)
{
	struct pollfd fds[2] = {{.fd = ep->epfd, .events = POLLIN},
				{.fd = ep->twins, .events = POLLIN}};
	struct timespec zero = {0, 0};

	if (ep->twins < 0 && !__atomic_load_n(&ep->kernel_fds, __ATOMIC_RELAXED))
		return false;
	if (sys_ppoll(fds, 2, &zero, NULL) <= 0)
		return false;
	if (fds[1].revents & POLLIN)
		epoll_look_at_twins(ep);
	return (fds[0].revents & POLLIN) && !ep->kicked;
}

bool epoll_readable(struct epoll *ep, uint32_t *news)
{
	bool readable = false;

	lock_member(ep);
	if (!ep->dead) {
		readable = look_at_kernel(ep);
		if (epoll_is_pending(ep) && epoll_has_events(ep))
			readable = true;
	}
	if (news)
		*news = ep->news;
	epoll_unlock(ep);
	return readable;
}

void epoll_sleep(struct epoll *ep, struct rest *rest, struct sleeper *guest)
{
	sleep_enter(&rest->sleep, guest, &ep->waiter.sleepers, true);
	lock_member(ep);
	sleep_fds_add(&rest->fds, ep->dead ? -1 : ep->epfd, POLLIN);
	sleep_fds_add(&rest->fds, ep->twins, POLLIN);
	epoll_unlock(ep);
}
