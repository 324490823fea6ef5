/* SPDX-License-Identifier: BSD-2-Clause */
/* poll(), select() and their variants: our call serves them if one descriptor is ours. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/user.h"
#include "intercept/timeout.h"
#include "intercept/wrap.h"
#include "sock/wait/epoll.h"

#define MANY_FDS 1000 /* below the usual limit of descriptors */

/* Declared by the C library only if the checks are enabled. */
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
		size_t size);

/*
 * Does the kernel alone not know whether fd is ready? now: the call does not wait. An epoll
 * set with nothing of ours may get a socket of ours while a thread waits.
 */
static inline bool is_ours(int fd, bool now)
{
	struct sock_ref ref = fd_get(fd);

	if (!ref.sk)
		return false;
	return ref.sk->type != SOCK_TYPE_EPOLL || !now || !epoll_is_plain(ref.sk->epoll);
}

/*
 * Are there more than RLIMIT_NOFILE entries? The kernel refuses that, and the array may not
 * exist. Few programs pay for this check.
 */
static __attribute__((noinline, cold)) bool is_refused(nfds_t n)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && n > limit.rlim_cur;
}

/*
 * fds is not const: the C library declares that poll() only writes it, and gcc believes
 * that.
 */
static bool any_polled(struct pollfd *fds, nfds_t n, bool now)
{
	if (!may_have_ours() || (__builtin_expect(n > MANY_FDS, 0) && is_refused(n)) ||
	    !user_can_read(fds, n * sizeof(*fds)))
		return false;
	if (n && !(user_can_write(&fds[0].revents) && user_can_write(&fds[n - 1].revents)))
		return false;
	for (nfds_t i = 0; i < n; i++) {
		if (is_ours(fds[i].fd, now))
			return true;
	}
	return false;
}

static inline bool is_now(const struct timespec *timeout)
{
	return timeout && !timeout->tv_sec && !timeout->tv_nsec;
}

EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	int saved = errno;

	if (!any_polled(fds, n, timeout == 0))
		return libc.poll(fds, n, timeout);
	return (int)to_libc(poll_sockets(fds, n, timeout_of_msec(timeout), NULL, fd_lookup), saved);
}

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size)
{
	if (size / sizeof(*fds) < n)
		__chk_fail();
	return poll(fds, n, timeout);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	int saved = errno;
	nsec_t nsec;

	if (!any_polled(fds, n, is_now(timeout)))
		return libc.ppoll(fds, n, timeout, mask);
	if (!timeout_of_timespec(timeout, &nsec))
		return (int)to_libc(-EINVAL, saved);
	return (int)to_libc(poll_sockets(fds, n, nsec, mask, fd_lookup), saved);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		       const sigset_t *mask, size_t size)
{
	if (size / sizeof(*fds) < n)
		__chk_fail();
	return ppoll(fds, n, timeout, mask);
}

/* A set may be longer than an fd_set, as long as n tells. */
static inline unsigned long word_of(const fd_set *set, int i)
{
	return set ? (unsigned long)__FDS_BITS(set)[i] : 0;
}

/*
 * As the kernel: ignores descriptors beyond its table, and the memory where their bits
 * would be. Programs pass getdtablesize() with an fd_set.
 */
static __attribute__((noinline, cold)) int table_size(int n)
{
	static const char key[] = "\nFDSize:";
	char text[1024];
	int fd = sys_open("/proc/self/status", O_RDONLY | O_CLOEXEC, 0);
	ssize_t len = fd < 0 ? -1 : sys_read(fd, text, sizeof(text) - 1);
	const char *at;
	int size;

	if (fd >= 0)
		sys_close(fd);
	text[len < 0 ? 0 : len] = 0;
	at = strstr(text, key);
	size = at ? atoi(at + sizeof(key) - 1) : n;
	return n < size ? n : size;
}

static inline int selected_most(int n)
{
	return __builtin_expect(n > FD_SETSIZE, 0) ? table_size(n) : n;
}

/* Can the set be read and written? */
static bool is_set(const fd_set *set, int n)
{
	return !set || (user_can_read(set, (size_t)(n + NFDBITS - 1) / NFDBITS * sizeof(long)) &&
			user_can_write((void *)(uintptr_t)set));
}

static bool any_selected(int n, const fd_set *r, const fd_set *w, const fd_set *e, bool now)
{
	if (!may_have_ours() || n <= 0 || !is_set(r, n) || !is_set(w, n) || !is_set(e, n))
		return false;
	for (int i = 0; i * NFDBITS < n; i++) {
		unsigned long bits = word_of(r, i) | word_of(w, i) | word_of(e, i);

		if (n - i * NFDBITS < NFDBITS)
			bits &= (1ul << (n - i * NFDBITS)) - 1;
		for (; bits; bits &= bits - 1) {
			if (is_ours(i * NFDBITS + __builtin_ctzl(bits), now))
				return true;
		}
	}
	return false;
}

/* As Linux does, stores the time that is left. */
static void store_left(struct timeval *timeout, nsec_t deadline)
{
	nsec_t left = deadline - clock_now();

	if (left < 0)
		left = 0;
	timeout->tv_sec = left / NSEC_PER_SEC;
	timeout->tv_usec = left % NSEC_PER_SEC / NSEC_PER_USEC;
}

EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *timeout)
{
	int saved = errno, rc;
	nsec_t nsec, start;

	n = selected_most(n);
	if (!any_selected(n, r, w, e, timeout && !timeout->tv_sec && !timeout->tv_usec))
		return libc.select(n, r, w, e, timeout);
	if (!timeout_of_timeval(timeout, &nsec))
		return (int)to_libc(-EINVAL, saved);
	start = timeout ? clock_now() : 0;
	rc = select_sockets(n, r, w, e, nsec, NULL, fd_lookup);
	if (timeout && nsec != NSEC_NEVER)
		store_left(timeout, start + nsec);
	return (int)to_libc(rc, saved);
}

EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *timeout,
		   const sigset_t *mask)
{
	int saved = errno;
	nsec_t nsec;

	n = selected_most(n);
	if (!any_selected(n, r, w, e, is_now(timeout)))
		return libc.pselect(n, r, w, e, timeout, mask);
	if (!timeout_of_timespec(timeout, &nsec))
		return (int)to_libc(-EINVAL, saved);
	return (int)to_libc(select_sockets(n, r, w, e, nsec, mask, fd_lookup), saved);
}
