/* SPDX-License-Identifier: BSD-2-Clause */
/* The read and recv families. */
#include <stdint.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "intercept/io.h"
#include "intercept/rights.h"
#include "intercept/wrap.h"

/* Declared by libc only for those who ask for the checks. */
ssize_t __read_chk(int fd, void *buf, size_t len, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags, struct sockaddr *from,
		       socklen_t *from_len);

/* A stream throws bytes away without a place for them, tcp(7). */
static inline bool is_place_for(struct sock_ref ref, const void *buf, size_t len, int flags)
{
	return mem_is_place(buf) || !len || ((flags & MSG_TRUNC) && ref.sk->kind == SOCK_KIND_TCP);
}

/* Into one buffer, from whoever sent it. */
static inline ssize_t recv_buf(struct sock_ref ref, void *buf, size_t len, int flags)
{
	struct iovec iov = iov_of(buf, len);
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (__builtin_expect(!is_place_for(ref, buf, len, flags), 0))
		return -EFAULT;
	return ref.sk->ops->recv(ref, &msg, flags);
}

EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return libc.read(fd, buf, len);
	if (!len)
		return 0;
	rc = recv_buf(ref, buf, len, 0);
	return rc == SOCK_KERNEL ? libc.read(fd, buf, len) : to_libc(rc, saved);
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t len, size_t size)
{
	if (len > size)
		__chk_fail();
	return read(fd, buf, len);
}

EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return libc.recv(fd, buf, len, flags);
	rc = recv_buf(ref, buf, len, flags);
	return rc == SOCK_KERNEL ? libc.recv(fd, buf, len, flags) : to_libc(rc, saved);
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags)
{
	if (len > size)
		__chk_fail();
	return recv(fd, buf, len, flags);
}

static ssize_t do_recvfrom(struct sock_ref ref, void *buf, size_t len, int flags,
			   struct sockaddr *from, socklen_t *from_len)
{
	struct iovec iov = iov_of(buf, len);
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t rc;

	if (!is_place_for(ref, buf, len, flags))
		return -EFAULT;
	if (from) {
		if (!mem_is_place(from) || !mem_is_place(from_len))
			return -EFAULT;
		if ((int)*from_len < 0)
			return -EINVAL;
		msg.msg_name = from;
		msg.msg_namelen = *from_len;
	}
	rc = ref.sk->ops->recv(ref, &msg, flags);
	if (from && rc >= 0)
		*from_len = msg.msg_namelen;
	return rc;
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
			socklen_t *from_len)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return libc.recvfrom(fd, buf, len, flags, from, from_len);
	rc = do_recvfrom(ref, buf, len, flags, from, from_len);
	return rc == SOCK_KERNEL ? libc.recvfrom(fd, buf, len, flags, from, from_len)
				 : to_libc(rc, saved);
}

EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags,
			      struct sockaddr *from, socklen_t *from_len)
{
	if (len > size)
		__chk_fail();
	return recvfrom(fd, buf, len, flags, from, from_len);
}

static ssize_t do_readv(struct sock_ref ref, const struct iovec *iov, int n)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov};
	size_t total;
	int rc;

	if (n < 0)
		return -EINVAL;
	rc = iov_check(iov, (size_t)n, EINVAL, &total);
	if (rc || !total)
		return rc;
	msg.msg_iovlen = (size_t)n;
	return ref.sk->ops->recv(ref, &msg, 0);
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int n)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return libc.readv(fd, iov, n);
	rc = do_readv(ref, iov, n);
	return rc == SOCK_KERNEL ? libc.readv(fd, iov, n) : to_libc(rc, saved);
}

/* At -1: as readv(2), which has no position either. */
EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	return at == -1 && !flags && sock_get(fd).sk ? readv(fd, iov, n)
						     : libc.preadv2(fd, iov, n, at, flags);
}

EXPORT ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	return preadv2(fd, iov, n, at, flags);
}

static ssize_t do_recvmsg(struct sock_ref ref, struct msghdr *msg, int flags)
{
	size_t total;
	ssize_t n;
	int rc;

	if (!mem_is_place(msg))
		return -EFAULT;
	if (msg->msg_name && (int)msg->msg_namelen < 0)
		return -EINVAL;
	rc = iov_check(msg->msg_iov, msg->msg_iovlen, EMSGSIZE, &total);
	if (rc &&
	    !(rc == -EFAULT && is_place_for(ref, NULL, 1, flags) && mem_is_place(msg->msg_iov)))
		return rc;
	n = ref.sk->ops->recv(ref, msg, flags);
	if (n >= 0)
		msg->msg_flags |= flags & MSG_CMSG_CLOEXEC;
	return n;
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk) {
		rc = libc.recvmsg(fd, msg, flags);
		if (rc >= 0 && msg->msg_controllen)
			rights_received(msg, flags);
		return rc;
	}
	rc = do_recvmsg(ref, msg, flags);
	return rc == SOCK_KERNEL ? libc.recvmsg(fd, msg, flags) : to_libc(rc, saved);
}

/* What is left until deadline, for the program to see. */
static void store_left(struct timespec *timeout, nsec_t deadline)
{
	nsec_t left = deadline - clock_now();

	if (left < 0)
		left = 0;
	timeout->tv_sec = left / NSEC_PER_SEC;
	timeout->tv_nsec = left % NSEC_PER_SEC;
}

/* 0 or -errno: recvmmsg() asks for it before it looks for messages. */
static int pending_error(struct sock_ref ref, int fd)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (sock_events(ref.sk) & EPOLLERR)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return -error;
}

/*
 * As the kernel's, oddities included: the timeout is looked at after each
 * message only, and an error after the first message is for the next call.
 */
static int do_recvmmsg(struct sock_ref ref, int fd, struct mmsghdr *msgs, unsigned n, int flags,
		       struct timespec *timeout)
{
	nsec_t deadline = NSEC_NEVER;
	unsigned i;
	int error;

	if (timeout) {
		if (timeout->tv_sec < 0 || (unsigned long)timeout->tv_nsec >= NSEC_PER_SEC)
			return -EINVAL;
		if (timeout->tv_sec < INT32_MAX)
			deadline = clock_now() + timeout->tv_sec * NSEC_PER_SEC + timeout->tv_nsec;
	}
	error = pending_error(ref, fd);
	if (error)
		return error;
	for (i = 0; i < n; i++) {
		ssize_t rc = do_recvmsg(ref, &msgs[i].msg_hdr, flags & ~MSG_WAITFORONE);

		if (rc < 0) {
			if (!i)
				return (int)rc;
			sock_keep_error(ref, (int)-rc);
			break;
		}
		msgs[i].msg_len = (unsigned)rc;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if (deadline != NSEC_NEVER && clock_now() >= deadline) {
			i++;
			break;
		}
		if (msgs[i].msg_hdr.msg_flags & MSG_OOB) {
			i++;
			break;
		}
	}
	if (deadline != NSEC_NEVER)
		store_left(timeout, deadline);
	return (int)i;
}

static int recv_many_by_kernel(int fd, struct mmsghdr *msgs, unsigned n, int flags,
			       struct timespec *timeout)
{
	int rc = libc.recvmmsg(fd, msgs, n, flags, timeout);

	for (int i = 0; i < rc; i++) {
		if (msgs[i].msg_hdr.msg_controllen)
			rights_received(&msgs[i].msg_hdr, flags);
	}
	return rc;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno, rc;

	if (!ref.sk)
		return recv_many_by_kernel(fd, msgs, n, flags, timeout);
	rc = do_recvmmsg(ref, fd, msgs, n, flags, timeout);
	return rc == SOCK_KERNEL ? libc.recvmmsg(fd, msgs, n, flags, timeout)
				 : (int)to_libc(rc, saved);
}
