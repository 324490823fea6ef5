/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arguments of read(), write(), recv(), send() and their variants, checked and gathered as
 * the kernel does it, before a socket sees them.
 */
#ifndef INTERCEPT_IO_H
#define INTERCEPT_IO_H

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/mem.h"
#include "base/sys.h"
#include "base/user.h"
#include "intercept/wrap.h"

#define IO_MAX ((size_t)0x7ffff000) /* bytes transferred at a time, as in the kernel */

/* Checks iov and adds up its length. 0 or -errno; too_many: the errno for n > IOV_MAX. */
static inline int iov_check(const struct iovec *iov, size_t n, int too_many, size_t *total)
{
	size_t sum = 0;

	if (n > IOV_MAX)
		return -too_many;
	if (!user_can_read(iov, n * sizeof(*iov)))
		return -EFAULT;
	for (size_t i = 0; i < n; i++) {
		if ((ssize_t)iov[i].iov_len < 0)
			return -EINVAL;
		if (!mem_is_users(iov[i].iov_base))
			return -EFAULT;
		sum += iov[i].iov_len;
	}
	*total = sum;
	return 0;
}

static inline struct iovec iov_of(const void *buf, size_t len)
{
	/* struct iovec has no const, because it serves both directions */
	return (struct iovec){(void *)(uintptr_t)buf, len < IO_MAX ? len : IO_MAX};
}

/*
 * The calls of the socket; NULL: it is none, or an epoll set.  With fd_peek(), for functions that
 * end with another call in each case: they need no frame, so a quick call costs little.
 */
static inline const struct sock_ops *io_ops(struct sock_ref ref)
{
	return ref.sk ? sock_ops_of(ref.sk) : NULL;
}

/* Members of struct sock_hooks; see there. */
ssize_t io_recv(int fd, void *buf, size_t len, int flags);
ssize_t io_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
		    socklen_t *from_len);
ssize_t io_send(int fd, const void *buf, size_t len, int flags);
ssize_t io_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		  socklen_t to_len);

/*
 * to_libc() for calls that send: a stream whose other end does not read any more raises
 * SIGPIPE, before errno is set, because the signal handler may change errno.
 */
static inline ssize_t sent(struct sock_ref ref, ssize_t rc, int flags, int saved)
{
	if (__builtin_expect(rc == -EPIPE, 0) && !(flags & MSG_NOSIGNAL) &&
	    ref.sk->type == SOCK_TYPE_TCP)
		sys_call(SYS_tgkill, sys_getpid(), sys_gettid(), SIGPIPE, 0, 0, 0);
	return to_libc(rc, saved);
}

static inline ssize_t send_buf(struct sock_ref ref, const void *buf, size_t len, int flags)
{
	struct iovec iov = iov_of(buf, len);
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (__builtin_expect(!mem_is_users(buf), 0))
		return -EFAULT;
	return sock_ops_of(ref.sk)->send(ref, &msg, flags);
}

#endif
