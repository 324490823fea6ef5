/* SPDX-License-Identifier: BSD-2-Clause */
/* write(), send() and their variants. */
#include <stdint.h>
#include <unistd.h>

#include "intercept/io.h"
#include "intercept/process/rights.h"
#include "intercept/wrap.h"

#define SENDMMSG_MAX 1024 /* the kernel's limit */

EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return libc.write(fd, buf, len);
	rc = send_buf(ref, buf, len, 0);
	return rc == SOCK_KERNEL ? libc.write(fd, buf, len) : sent(ref, rc, 0, saved);
}

EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return libc.send(fd, buf, len, flags);
	rc = send_buf(ref, buf, len, flags);
	return rc == SOCK_KERNEL ? libc.send(fd, buf, len, flags) : sent(ref, rc, flags, saved);
}

static ssize_t do_sendto(struct sock_ref ref, const void *buf, size_t len, int flags,
			 const struct sockaddr *to, socklen_t to_len)
{
	struct iovec iov = iov_of(buf, len);
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (!mem_is_users(buf))
		return -EFAULT;
	if (to) {
		if (to_len > sizeof(struct sockaddr_storage))
			return -EINVAL;
		if (!user_can_read(to, to_len))
			return -EFAULT;
		msg.msg_name = (void *)(uintptr_t)to;
		msg.msg_namelen = to_len;
	}
	return sock_ops_of(ref.sk)->send(ref, &msg, flags);
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
		      socklen_t to_len)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return libc.sendto(fd, buf, len, flags, to, to_len);
	rc = do_sendto(ref, buf, len, flags, to, to_len);
	return rc == SOCK_KERNEL ? libc.sendto(fd, buf, len, flags, to, to_len)
				 : sent(ref, rc, flags, saved);
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

	if (!ref.sk)
		return rights_possible(msg) ? send_with_rights(fd, msg, flags, saved)
					    : libc.sendmsg(fd, msg, flags);
	rc = do_sendmsg(ref, msg, flags);
	return rc == SOCK_KERNEL ? libc.sendmsg(fd, msg, flags) : sent(ref, rc, flags, saved);
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
		return send_many_by_kernel(fd, msgs, n, flags);
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
	return rc == SOCK_KERNEL ? libc.sendmmsg(fd, msgs, n, flags)
				 : (int)sent(ref, rc, flags, saved);
}
