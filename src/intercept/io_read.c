/* SPDX-License-Identifier: BSD-2-Clause */
/* read(), recv() and their variants. */
#include <netinet/in.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "intercept/io.h"
#include "intercept/process/rights.h"
#include "intercept/wrap.h"

/* Declared by the C library only if the checks are enabled. */
ssize_t __read_chk(int fd, void *buf, size_t len, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags, struct sockaddr *from,
		       socklen_t *from_len);

/* Receives into one buffer, without the sender's address. */
static inline ssize_t recv_buf(struct sock_ref ref, void *buf, size_t len, int flags)
{
	struct iovec iov = iov_of(buf, len);
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (__builtin_expect(!mem_is_users(buf), 0))
		return -EFAULT;
	return sock_ops_of(ref.sk)->recv(ref, &msg, flags);
}

static __attribute__((noinline)) ssize_t do_read(int fd, void *buf, size_t len, struct sock_ref ref)
{
	int saved = errno;
	ssize_t rc;

	if (!len)
		return 0;
	rc = recv_buf(ref, buf, len, 0);
	return rc == SOCK_KERNEL ? libc.read(fd, buf, len) : to_libc(rc, saved);
}

/* read() where fd_peek() fails. */
static __attribute__((noinline)) ssize_t read_looking(int fd, void *buf, size_t len)
{
	struct sock_ref ref = sock_get(fd);

	return ref.sk ? do_read(fd, buf, len, ref) : libc.read(fd, buf, len);
}

EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	const struct sock_ops *ops;
	struct sock_ref ref;

	if (__builtin_expect(!fd_peek(fd, &ref), 0))
		return read_looking(fd, buf, len);
	ops = io_ops(ref);
	if (!ops)
		return libc.read(fd, buf, len);
	if (__builtin_expect(ops->quick_recv && len, 0))
		return ops->quick_recv(fd, buf, len, 0, ref);
	return do_read(fd, buf, len, ref);
}

EXPORT ssize_t __read_chk(int fd, void *buf, size_t len, size_t size)
{
	if (len > size)
		__chk_fail();
	return read(fd, buf, len);
}

static __attribute__((noinline)) ssize_t do_recv(int fd, void *buf, size_t len, int flags,
						 struct sock_ref ref)
{
	int saved = errno;
	ssize_t rc = recv_buf(ref, buf, len, flags);

	if (__builtin_expect(rc == SOCK_KERNEL, 0))
		return libc.recv(fd, buf, len, flags);
	return to_libc(rc, saved);
}

__attribute__((noinline)) ssize_t io_recv(int fd, void *buf, size_t len, int flags)
{
	struct sock_ref ref = sock_get(fd);

	return ref.sk ? do_recv(fd, buf, len, flags, ref) : libc.recv(fd, buf, len, flags);
}

static inline __attribute__((always_inline)) ssize_t recv_on(int fd, void *buf, size_t len,
							     int flags)
{
	const struct sock_ops *ops;
	struct sock_ref ref;

	if (__builtin_expect(!fd_peek(fd, &ref), 0))
		return io_recv(fd, buf, len, flags);
	ops = io_ops(ref);
	if (!ops)
		return libc.recv(fd, buf, len, flags);
	if (__builtin_expect(ops->quick_recv != NULL, 0))
		return ops->quick_recv(fd, buf, len, flags, ref);
	return do_recv(fd, buf, len, flags, ref);
}

EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	return recv_on(fd, buf, len, flags);
}

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags)
{
	if (len > size)
		__chk_fail();
	return recv(fd, buf, len, flags);
}

/* The address of a peer of ours: that of IPv4 has 16 bytes, see user_copy16(). */
union name {
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};
_Static_assert(sizeof(struct sockaddr_in) == 16, "user_copy16()");

/*
 * Writes the address after the message was received, as the kernel does: an error here
 * loses the message.
 */
static inline int give_address(void *to, socklen_t *len, const union name *from, socklen_t full)
{
	uint32_t room;
	bool good;

	if (!user_load32(&room, len))
		return -EFAULT;
	if ((int)room < 0)
		return -EINVAL;
	if (room > full)
		room = full;
	good = room == sizeof(from->in) ? user_copy16(to, from) : user_copy(to, from, room);
	return good && user_store32(len, full) ? 0 : -EFAULT;
}

/* from: not NULL. */
static inline ssize_t recv_from(const struct sock_ops *ops, struct sock_ref ref, void *buf,
				size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	struct iovec iov = iov_of(buf, len);
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	union name name;
	ssize_t rc;
	int bad;

	if (!mem_is_users(buf))
		return -EFAULT;
	msg.msg_name = &name;
	msg.msg_namelen = sizeof(name);
	rc = ops->recv(ref, &msg, flags);
	if (rc < 0)
		return rc;
	bad = give_address(from, from_len, &name, msg.msg_namelen);
	return bad ? bad : rc;
}

static inline __attribute__((always_inline)) ssize_t do_recvfrom(int fd, void *buf, size_t len,
								 int flags, struct sockaddr *from,
								 socklen_t *from_len, bool quick)
{
	struct sock_ref ref = sock_get(fd);
	const struct sock_ops *ops;
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return libc.recvfrom(fd, buf, len, flags, from, from_len);
	ops = sock_ops_of(ref.sk);
	if (quick && __builtin_expect(ops->quick_recvfrom != NULL, 0))
		return ops->quick_recvfrom(fd, buf, len, flags, from, from_len, ref);
	rc = recv_from(ops, ref, buf, len, flags, from, from_len);
	return rc == SOCK_KERNEL ? libc.recvfrom(fd, buf, len, flags, from, from_len)
				 : to_libc(rc, saved);
}

ssize_t io_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
		    socklen_t *from_len)
{
	return do_recvfrom(fd, buf, len, flags, from, from_len, false);
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
			socklen_t *from_len)
{
	return from ? do_recvfrom(fd, buf, len, flags, from, from_len, true)
		    : recv_on(fd, buf, len, flags);
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
	return sock_ops_of(ref.sk)->recv(ref, &msg, 0);
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

/* With at == -1: as readv(2), which has no position either. */
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
	struct msghdr ours;
	union name name;
	size_t total;
	ssize_t n;
	int rc;

	if (!user_copy(&ours, msg, sizeof(ours)))
		return -EFAULT;
	if (ours.msg_name && (int)ours.msg_namelen < 0)
		return -EINVAL;
	rc = iov_check(ours.msg_iov, ours.msg_iovlen, EMSGSIZE, &total);
	if (rc)
		return rc;
	ours.msg_namelen = ours.msg_name ? sizeof(name) : 0;
	ours.msg_name = ours.msg_name ? &name : NULL;
	n = sock_ops_of(ref.sk)->recv(ref, &ours, flags);
	if (n < 0)
		return n;
	if (ours.msg_name)
		rc = give_address(msg->msg_name, &msg->msg_namelen, &name, ours.msg_namelen);
	if (!rc && !(user_store32(&msg->msg_flags,
				  (uint32_t)(ours.msg_flags | (flags & MSG_CMSG_CLOEXEC))) &&
		     user_store64(&msg->msg_controllen, ours.msg_controllen)))
		rc = -EFAULT;
	return rc ? rc : n;
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

/* Stores the time left until deadline. */
static void store_left(struct timespec *timeout, nsec_t deadline)
{
	nsec_t left = deadline - clock_now();

	if (left < 0)
		left = 0;
	timeout->tv_sec = left / NSEC_PER_SEC;
	timeout->tv_nsec = left % NSEC_PER_SEC;
}

/*
 * The pending error of the socket, 0 or -errno: recvmmsg() reports it before it reads
 * messages.
 */
static int pending_error(struct sock_ref ref, int fd)
{
	socklen_t len = sizeof(int);
	int error = 0;

	if (sock_events(ref.sk) & EPOLLERR)
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	return -error;
}

/*
 * As the kernel's, oddities included: the timeout is checked only after each message, and
 * an error after the first message is kept for the next call.
 */
static int do_recvmmsg(struct sock_ref ref, int fd, struct mmsghdr *msgs, unsigned n, int flags,
		       struct timespec *timeout)
{
	nsec_t deadline = NSEC_NEVER;
	unsigned i;
	int error;

	if (timeout) {
		if (!user_can_read(timeout, sizeof(*timeout)))
			return -EFAULT;
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
		if (!user_store32(&msgs[i].msg_len, (uint32_t)rc)) {
			if (!i)
				return -EFAULT;
			sock_keep_error(ref, EFAULT);
			break;
		}
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
