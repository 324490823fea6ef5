/* SPDX-License-Identifier: BSD-2-Clause */
/* write(), send() and their variants. */
#include <stdint.h>
#include <unistd.h>

#include "intercept/io.h"
#include "intercept/process/rights.h"
#include "intercept/wrap.h"
#include "sock/core/extra/sock_extra.h"

#define SENDMMSG_MAX 1024 /* the kernel's limit */

/* May the kernel make this call?  A dummy send fails instead: the kernel would send. */
static inline bool kernel_sends(int flags)
{
	if (sock_is_dummy(flags))
		errno = EINVAL;
	return !sock_is_dummy(flags);
}

static inline ssize_t kernel_send(int fd, const void *buf, size_t len, int flags)
{
	return kernel_sends(flags) ? libc.send(fd, buf, len, flags) : -1;
}

static __attribute__((noinline)) ssize_t do_write(int fd, const void *buf, size_t len,
						  struct sock_ref ref)
{
	int saved = errno;
	ssize_t rc = send_buf(ref, buf, len, 0);
	return rc == SOCK_KERNEL ? libc.write(fd, buf, len) : sent(ref, rc, 0, saved);
}

/* write() where fd_peek() fails. */
static __attribute__((noinline)) ssize_t write_looking(int fd, const void *buf, size_t len)
{
	struct sock_ref ref = sock_get(fd);

	return ref.sk ? do_write(fd, buf, len, ref) : libc.write(fd, buf, len);
}

EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	const struct sock_ops *ops;
	struct sock_ref ref;

	if (__builtin_expect(!fd_peek(fd, &ref), 0))
		return write_looking(fd, buf, len);
	ops = io_ops(ref);
	if (!ops)
		return libc.write(fd, buf, len);
	if (ops->quick_send)
		return ops->quick_send(fd, buf, len, 0, ref);
	return do_write(fd, buf, len, ref);
}

static __attribute__((noinline)) ssize_t do_send(int fd, const void *buf, size_t len, int flags,
						 struct sock_ref ref)
{
	int saved = errno;
	ssize_t rc = send_buf(ref, buf, len, flags);

	if (__builtin_expect(rc >= 0, 1))
		return to_libc(rc, saved);
	if (rc == SOCK_KERNEL)
		return kernel_send(fd, buf, len, flags);
	return sent(ref, rc, flags, saved);
}

__attribute__((noinline)) ssize_t io_send(int fd, const void *buf, size_t len, int flags)
{
	struct sock_ref ref = sock_get(fd);

	return ref.sk ? do_send(fd, buf, len, flags, ref) : kernel_send(fd, buf, len, flags);
}

static inline __attribute__((always_inline)) ssize_t send_on(int fd, const void *buf, size_t len,
							     int flags)
{
	const struct sock_ops *ops;
	struct sock_ref ref;

	if (__builtin_expect(!fd_peek(fd, &ref), 0))
		return io_send(fd, buf, len, flags);
	ops = io_ops(ref);
	if (!ops)
		return kernel_send(fd, buf, len, flags);
	if (ops->quick_send && !(flags & ~SOCK_QUICK_SEND))
		return ops->quick_send(fd, buf, len, flags, ref);
	return do_send(fd, buf, len, flags, ref);
}

EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	return send_on(fd, buf, len, flags);
}

/* to: not NULL. */
static inline ssize_t send_to(const struct sock_ops *ops, struct sock_ref ref, const void *buf,
			      size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	struct iovec iov = iov_of(buf, len);
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (!mem_is_users(buf))
		return -EFAULT;
	if (to_len > sizeof(struct sockaddr_storage))
		return -EINVAL;
	if (!user_can_read(to, to_len))
		return -EFAULT;
	msg.msg_name = (void *)(uintptr_t)to;
	msg.msg_namelen = to_len;
	return ops->send(ref, &msg, flags);
}

static ssize_t kernel_sendto(int fd, const void *buf, size_t len, int flags,
			     const struct sockaddr *to, socklen_t to_len)
{
	return kernel_sends(flags) ? libc.sendto(fd, buf, len, flags, to, to_len) : -1;
}

static inline __attribute__((always_inline)) ssize_t do_sendto(int fd, const void *buf, size_t len,
							       int flags, const struct sockaddr *to,
							       socklen_t to_len, bool quick)
{
	struct sock_ref ref = sock_get(fd);
	const struct sock_ops *ops;
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return kernel_sendto(fd, buf, len, flags, to, to_len);
	ops = sock_ops_of(ref.sk);
	if (quick && ops->quick_sendto && !(flags & ~SOCK_QUICK_SEND))
		return ops->quick_sendto(fd, buf, len, flags, to, to_len, ref);
	rc = send_to(ops, ref, buf, len, flags, to, to_len);
	return rc == SOCK_KERNEL ? kernel_sendto(fd, buf, len, flags, to, to_len)
				 : sent(ref, rc, flags, saved);
}

ssize_t io_sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		  socklen_t to_len)
{
	return do_sendto(fd, buf, len, flags, to, to_len, false);
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_len)
{
	return to ? do_sendto(fd, buf, len, flags, to, to_len, true) : send_on(fd, buf, len, flags);
}

static ssize_t do_writev(struct sock_ref ref, const struct iovec *iov, int n)
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
	return sock_ops_of(ref.sk)->send(ref, &msg, 0);
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return libc.writev(fd, iov, n);
	rc = do_writev(ref, iov, n);
	return rc == SOCK_KERNEL ? libc.writev(fd, iov, n) : sent(ref, rc, 0, saved);
}

/* With at == -1: as writev(2), which has no position either. */
EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	return at == -1 && !flags && sock_get(fd).sk ? writev(fd, iov, n)
						     : libc.pwritev2(fd, iov, n, at, flags);
}

EXPORT ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	return pwritev2(fd, iov, n, at, flags);
}

static ssize_t do_sendmsg(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	size_t total;
	int rc;

	if (!user_can_read(msg, sizeof(*msg)))
		return -EFAULT;
	if (msg->msg_name && (int)msg->msg_namelen < 0)
		return -EINVAL;
	if (msg->msg_name && !user_can_read(msg->msg_name, msg->msg_namelen))
		return -EFAULT;
	rc = iov_check(msg->msg_iov, msg->msg_iovlen, EMSGSIZE, &total);
	if (rc)
		return rc;
	if (__builtin_expect(msg->msg_controllen != 0, 0)) {
		if (msg->msg_controllen > INT_MAX)
			return -ENOBUFS;
		if (!user_can_read(msg->msg_control, msg->msg_controllen))
			return -EFAULT;
	}
	return sock_ops_of(ref.sk)->send(ref, msg, flags);
}

static __attribute__((noinline)) ssize_t send_with_rights(int fd, const struct msghdr *msg,
							  int flags, int saved)
{
	struct rights rights;
	ssize_t rc = rights_prepare(fd, msg, &rights);

	if (rc)
		return to_libc(rc, saved);
	rc = libc.sendmsg(fd, msg, flags);
	if (rights.pending)
		rights_end(&rights, rc >= 0);
	return rc;
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk && !kernel_sends(flags))
		return -1;
	if (!ref.sk)
		return rights_possible(msg) ? send_with_rights(fd, msg, flags, saved)
					    : libc.sendmsg(fd, msg, flags);
	rc = do_sendmsg(ref, msg, flags);
	if (rc == SOCK_KERNEL)
		return kernel_sends(flags) ? libc.sendmsg(fd, msg, flags) : -1;
	return sent(ref, rc, flags, saved);
}

/* Sends the messages before the first that must not be sent. */
static int send_many_by_kernel(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	struct rights rights;
	int rc;

	if (!may_have_ours())
		return libc.sendmmsg(fd, msgs, n, flags);
	rc = rights_prepare_many(fd, msgs, n < SENDMMSG_MAX ? n : SENDMMSG_MAX, &rights);
	if (rc < 0)
		return (int)to_libc(rc, 0);
	rc = libc.sendmmsg(fd, msgs, (unsigned)rc, flags);
	if (rights.pending)
		rights_end(&rights, rc);
	return rc;
}

EXPORT int sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc = 0;
	unsigned i;

	if (!ref.sk)
		return kernel_sends(flags) ? send_many_by_kernel(fd, msgs, n, flags) : -1;
	for (i = 0; i < n && i < SENDMMSG_MAX; i++) {
		rc = do_sendmsg(ref, &msgs[i].msg_hdr, flags);
		if (rc < 0)
			break;
		if (!user_store32(&msgs[i].msg_len, (uint32_t)rc)) {
			rc = -EFAULT; /* it was sent, but does not count */
			break;
		}
	}
	/* What was sent counts; the next call reports the error. */
	if (i)
		return (int)to_libc(i, saved);
	if (rc == SOCK_KERNEL)
		return kernel_sends(flags) ? libc.sendmmsg(fd, msgs, n, flags) : -1;
	return (int)sent(ref, rc, flags, saved);
}
