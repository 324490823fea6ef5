/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that close, copy and adjust descriptors.
 *
 * The program's descriptors of one socket of ours are names of one object, which ends with
 * the last of them. Descriptors of the library itself (sys_fd_hide()) look closed to the
 * program: EBADF.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/sys.h"
#include "intercept/wrap.h"
#include "sock/local/local.h"

static int any_async; /* any, atomic: some socket has had O_ASYNC */

/* Ends a name that fd_take() removed. */
static void release_name(int fd, struct fd_taken taken)
{
	int saved = errno;

	if (taken.other < 0)
		sock_close(taken.ref);
	else if (sock_twin(taken.ref.sk) == fd)
		sock_set_twin(taken.ref, taken.other);
	errno = saved;
}

/* fd_take() takes a lock, sock_close() another one: signals are blocked once for both. */
void fd_drop(int fd)
{
	struct fd_taken taken;

	signals_block();
	taken = fd_take(fd);
	if (taken.ref.sk && taken.other < 0 && local_lingers(taken.ref)) {
		signals_unblock();
		local_linger(taken.ref);
		signals_block();
	}
	if (taken.ref.sk)
		release_name(fd, taken);
	signals_unblock();
}

static __attribute__((noinline, cold)) void drop_stale(int fd)
{
	struct fd_taken taken;

	if (sys_fd_is_hidden(fd))
		sys_fd_unhide(fd);
	taken = fd_take(fd);
	if (!taken.ref.sk)
		return;
	/* The descriptor is a different file by now: the socket must not touch it. */
	if (taken.other < 0 && sock_twin(taken.ref.sk) == fd)
		sock_set_twin(taken.ref, -1);
	release_name(fd, taken);
}

int fd_fresh(int fd)
{
	if (__builtin_expect(fd >= 0 && (fd_get(fd).sk || sys_fd_is_hidden(fd)), 0) &&
	    !fork_is_vfork_child())
		drop_stale(fd);
	return fd;
}

EXPORT int close(int fd)
{
	if (__builtin_expect(sys_fd_is_hidden(fd), 0)) {
		errno = EBADF;
		return -1;
	}
	if (fd_get(fd).sk && !fork_is_vfork_child())
		fd_drop(fd);
	return libc.close(fd);
}

/* Closes all descriptors in [first, last] but the hidden ones. */
static int close_around_hidden(unsigned first, unsigned last, int flags)
{
	while (first <= last) {
		int hidden = first > INT_MAX ? -1 : sys_fd_next_hidden((int)first);
		unsigned end = hidden < 0 || (unsigned)hidden > last ? last : (unsigned)hidden - 1;

		if (hidden != (int)first) {
			int rc = libc.close_range(first, end, flags);

			if (rc)
				return rc;
		}
		if (end == last)
			break;
		first = (unsigned)hidden + 1;
	}
	return 0;
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	/*
	 * Calls that fail or close nothing, and a vfork() child, which closes nothing of
	 * ours.
	 */
	if (first > last || (flags & ~CLOSE_RANGE_UNSHARE) || fork_is_vfork_child())
		return libc.close_range(first, last, flags);
	/*
	 * With CLOSE_RANGE_UNSHARE the internal thread would keep the old table, without
	 * new sockets.
	 */
	if (fd_next(0) >= 0)
		flags &= ~(int)CLOSE_RANGE_UNSHARE;
	if (first <= INT_MAX) {
		for (int fd = fd_next((int)first); fd >= 0 && (unsigned)fd <= last;
		     fd = fd_next(fd + 1))
			fd_drop(fd);
	}
	return close_around_hidden(first, last, flags);
}

EXPORT void closefrom(int first)
{
	int saved = errno;

	if (close_range(first < 0 ? 0 : (unsigned)first, UINT_MAX, 0))
		libc.closefrom(first);
	errno = saved;
}

/* copy is a new descriptor of what fd names. */
static int install_copy(int fd, int copy)
{
	struct sock_ref ref;

	if (copy < 0)
		return copy;
	fd_fresh(copy);
	ref = fd_get(fd);
	if (ref.sk && !fork_is_vfork_child())
		fd_install_dup(copy, fd, ref);
	return copy;
}

EXPORT int dup(int fd)
{
	return install_copy(fd, libc.dup(fd));
}

/*
 * The kernel is about to close `to` and to reuse the number at once, so its entry goes
 * first. 0 or -errno.
 */
static int drop_replaced(int fd, int to)
{
	if (fd == to)
		return 0;
	if (sys_fd_is_hidden(to))
		return -EBUSY; /* dup2(2): the descriptor is in use by others */
	if (!fd_get(to).sk || fork_is_vfork_child())
		return 0;
	if (sys_fcntl(fd, F_GETFD, 0) >= 0) /* else the call fails and closes nothing */
		fd_drop(to);
	return 0;
}

EXPORT int dup2(int fd, int to)
{
	int saved = errno, rc = drop_replaced(fd, to);

	if (rc)
		return (int)to_libc(rc, saved);
	rc = libc.dup2(fd, to);
	return fd == to ? rc : install_copy(fd, rc);
}

EXPORT int dup3(int fd, int to, int flags)
{
	int saved = errno, rc = 0;

	if (fd != to && !(flags & ~O_CLOEXEC))
		rc = drop_replaced(fd, to);
	if (rc)
		return (int)to_libc(rc, saved);
	return install_copy(fd, libc.dup3(fd, to, flags));
}

/* Programs that never use O_ASYNC, which is almost all of them, pay one load. */
static void set_async(struct sock_ref ref, int fd, bool on)
{
	if (on || __atomic_load_n(&any_async, __ATOMIC_RELAXED)) {
		__atomic_store_n(&any_async, 1, __ATOMIC_RELAXED);
		sock_set_async(ref, fd, on);
	}
}

static int do_fcntl(int fd, int cmd, void *arg)
{
	struct sock_ref ref;
	int rc = libc.fcntl(fd, cmd, arg);

	if (rc < 0)
		return rc;
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return install_copy(fd, rc);
	case F_GETFL:
		ref = sock_get(fd);
		if (!ref.sk)
			return rc;
		/* The flag is of the twin's file, where another process may have changed it. */
		sock_set_nonblock(ref, rc & O_NONBLOCK);
		return rc;
	case F_SETFL:
		ref = sock_get(fd);
		if (ref.sk) {
			sock_set_nonblock(ref, (long)arg & O_NONBLOCK);
			set_async(ref, fd, (long)arg & O_ASYNC);
		}
		return rc;
	}
	return rc;
}

EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return do_fcntl(fd, cmd, arg);
}

EXPORT int fcntl64(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return do_fcntl(fd, cmd, arg);
}

static int set_nonblock(struct sock_ref ref, int fd, int *arg)
{
	int rc = libc.ioctl(fd, FIONBIO, arg);

	if (!rc)
		sock_set_nonblock(ref, *arg);
	return rc;
}

EXPORT int ioctl(int fd, unsigned long cmd, ...)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno, rc;
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	if (!ref.sk)
		return libc.ioctl(fd, cmd, arg);
	if (cmd == FIONBIO)
		return set_nonblock(ref, fd, arg);
	if (cmd == FIOASYNC) {
		rc = libc.ioctl(fd, cmd, arg);
		if (!rc)
			set_async(ref, fd, *(int *)arg);
		return rc;
	}
	rc = sock_ops_of(ref.sk)->ioctl(ref, cmd, arg);
	return rc == SOCK_KERNEL ? libc.ioctl(fd, cmd, arg) : (int)to_libc(rc, saved);
}
