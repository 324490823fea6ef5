/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll. Every set that the program makes has an object of ours from the start, because a
 * socket of ours may be added at any time.
 */
#include "base/clock.h"
#include "base/user.h"
#include "intercept/extra.h"
#include "intercept/timeout.h"
#include "intercept/wrap.h"
#include "sock/wait/epoll.h"

/* epfd is new: makes its object. sk NULL: no memory. */
static struct sock_ref make_object(int epfd)
{
	struct sock_ref ref = {NULL, 0};
	struct epoll *ep;

	clock_init();
	signal_watch_faults();
	ep = epoll_create_set(epfd);
	if (ep) {
		ref = sock_create_epoll(epfd, ep);
		if (!ref.sk)
			epoll_destroy_set(ep);
	}
	if (ref.sk && !fd_install(epfd, ref)) {
		sock_close(ref);
		ref.sk = NULL;
	}
	return ref;
}

struct sock_ref epoll_make(int *epfd)
{
	struct sock_ref ref = {NULL, 0};

	*epfd = libc.epoll_create1(EPOLL_CLOEXEC);
	if (*epfd < 0) {
		*epfd = -errno;
		return ref;
	}
	fd_fresh(*epfd);
	ref = make_object(*epfd);
	if (!ref.sk) {
		libc.close(*epfd);
		*epfd = -ENOMEM;
	}
	return ref;
}

/* epfd is new: makes its object, if there is memory. */
static int created(int epfd)
{
	int saved = errno;

	if (epfd < 0)
		return epfd;
	fd_fresh(epfd);
	if (fork_is_vfork_child())
		return epfd;
	start();
	if (extra_offloads())
		make_object(epfd);
	errno = saved;
	return epfd;
}

EXPORT int epoll_create(int size)
{
	return created(libc.epoll_create(size));
}

EXPORT int epoll_create1(int flags)
{
	return created(libc.epoll_create1(flags));
}

/* The set that epfd names; sk NULL: only the kernel knows it. */
static struct sock_ref set_get(int epfd)
{
	struct sock_ref ref = fd_get(epfd);

	if (ref.sk && ref.sk->type != SOCK_TYPE_EPOLL)
		ref.sk = NULL;
	return ref;
}

/* The kernel serves the descriptor; the set counts how many of those it has. */
static int control_kernel(struct sock_ref set, int epfd, int op, int fd, struct epoll_event *event)
{
	int rc;

	if (set.sk)
		epoll_settle(set.sk->epoll); /* in a forked child, makes the set its own first */
	rc = libc.epoll_ctl(epfd, op, fd, event);
	if (!rc && set.sk && op != EPOLL_CTL_MOD)
		epoll_note_kernel_fd(set.sk->epoll, op == EPOLL_CTL_ADD ? 1 : -1);
	return rc;
}

EXPORT int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct sock_ref set = set_get(epfd), ref = fd_get(fd);
	int saved = errno, rc;

	if (!ref.sk)
		return control_kernel(set, epfd, op, fd, event);
	if (!set.sk) {
		/* A set without an object of ours can contain only what the kernel serves. */
		if (ref.sk->type != SOCK_TYPE_EPOLL)
			sock_to_kernel(ref, VERDICT_CALL);
		errno = saved;
		return libc.epoll_ctl(epfd, op, fd, event);
	}
	if (op != EPOLL_CTL_DEL && !user_can_read(event, sizeof(*event)))
		return (int)to_libc(-EFAULT, saved);
	rc = epoll_control(set.sk->epoll, op, fd, ref, event);
	if (rc != SOCK_KERNEL)
		return (int)to_libc(rc, saved);
	errno = saved;
	return control_kernel(set, epfd, op, fd, event);
}

/*
 * The set that epfd names, if our call has to wait for it; sk NULL: the kernel's call does.
 * now: the call does not wait. A set with nothing of ours may get a socket of ours while a
 * thread waits.
 */
static struct sock_ref waited_get(int epfd, bool now)
{
	struct sock_ref set = set_get(epfd);

	if (set.sk && now && epoll_is_plain(set.sk->epoll))
		set.sk = NULL;
	return set;
}

static int wait_for(struct sock_ref set, struct epoll_event *events, int max, nsec_t timeout,
		    const sigset_t *mask, int saved)
{
	return (int)to_libc(epoll_wait_set(set.sk->epoll, events, max, timeout, mask), saved);
}

EXPORT int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	struct sock_ref set = waited_get(epfd, timeout == 0);
	int saved = errno;

	if (!set.sk)
		return libc.epoll_wait(epfd, events, max, timeout);
	return wait_for(set, events, max, timeout_of_msec(timeout), NULL, saved);
}

EXPORT int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout,
		       const sigset_t *mask)
{
	struct sock_ref set = waited_get(epfd, timeout == 0);
	int saved = errno;

	if (!set.sk)
		return libc.epoll_pwait(epfd, events, max, timeout, mask);
	return wait_for(set, events, max, timeout_of_msec(timeout), mask, saved);
}

EXPORT int epoll_pwait2(int epfd, struct epoll_event *events, int max,
			const struct timespec *timeout, const sigset_t *mask)
{
	struct sock_ref set;
	int saved = errno;
	nsec_t nsec;

	if (!may_have_ours() || (timeout && !user_can_read(timeout, sizeof(*timeout))))
		return libc.epoll_pwait2(epfd, events, max, timeout, mask);
	if (!timeout_of_timespec(timeout, &nsec))
		return (int)to_libc(-EINVAL, saved);
	set = waited_get(epfd, nsec == 0);
	if (!set.sk)
		return libc.epoll_pwait2(epfd, events, max, timeout, mask);
	return wait_for(set, events, max, nsec, mask, saved);
}
