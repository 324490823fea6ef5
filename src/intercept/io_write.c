/* SPDX-License-Identifier: BSD-2-Clause */
/* The write and send families. */
#include <limits.h>
#include <stdint.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/sys.h"
#include "intercept/io.h"
#include "intercept/wrap.h"

#define SENDFILE_PIECE 16384 /* on the stack */
#define SENDMMSG_MAX 1024    /* the kernel stops there, too */

/*
 * to_libc() for what sends: a stream whose other end does not listen any more
 * raises SIGPIPE, before errno is set, since the handler may change it.
 */
static inline ssize_t sent(struct sock_ref ref, ssize_t rc, int flags, int saved)
{
	if (__builtin_expect(rc == -EPIPE, 0) && !(flags & MSG_NOSIGNAL) &&
	    ref.sk->kind == SOCK_KIND_TCP)
		sys_call(SYS_tgkill, sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0), sys_gettid(), SIGPIPE,
			 0, 0, 0);
	return to_libc(rc, saved);
}

static inline ssize_t send_buf(struct sock_ref ref, const void *buf, size_t len, int flags)
{
	struct iovec iov = iov_of(buf, len);
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return ref.sk->ops->send(ref, &msg, flags);
}

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

	if (to) {
		if ((int)to_len < 0)
			return -EINVAL;
		msg.msg_name = (void *)(uintptr_t)to;
		msg.msg_namelen = to_len;
	}
	return ref.sk->ops->send(ref, &msg, flags);
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
	return ref.sk->ops->send(ref, &msg, 0);
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

static ssize_t do_sendmsg(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	size_t total;
	int rc;

	if (!msg)
		return -EFAULT;
	if (msg->msg_name && (int)msg->msg_namelen < 0)
		return -EINVAL;
	rc = iov_check(msg->msg_iov, msg->msg_iovlen, EMSGSIZE, &total);
	return rc ? rc : ref.sk->ops->send(ref, msg, flags);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk)
		return libc.sendmsg(fd, msg, flags);
	rc = do_sendmsg(ref, msg, flags);
	return rc == SOCK_KERNEL ? libc.sendmsg(fd, msg, flags) : sent(ref, rc, flags, saved);
}

EXPORT int sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	struct sock_ref ref = sock_get(fd);
	int saved = errno;
	ssize_t rc = 0;
	unsigned i;

	if (!ref.sk)
		return libc.sendmmsg(fd, msgs, n, flags);
	for (i = 0; i < n && i < SENDMMSG_MAX; i++) {
		rc = do_sendmsg(ref, &msgs[i].msg_hdr, flags);
		if (rc < 0)
			break;
		msgs[i].msg_len = (unsigned)rc;
	}
	/* What was sent counts; an error shows at the next call. */
	if (i)
		return (int)to_libc(i, saved);
	return rc == SOCK_KERNEL ? libc.sendmmsg(fd, msgs, n, flags)
				 : (int)sent(ref, rc, flags, saved);
}

/* From `in` at *offset, which moves by what was sent.  Bytes, or -errno if none. */
static ssize_t send_file(struct sock_ref ref, int in, off64_t *offset, size_t count)
{
	size_t done = 0;

	while (done < count) {
		char piece[SENDFILE_PIECE];
		size_t want = count - done < sizeof(piece) ? count - done : sizeof(piece);
		ssize_t got = sys_call(SYS_pread64, in, piece, want, *offset, 0, 0);
		ssize_t rc = got > 0 ? send_buf(ref, piece, (size_t)got, 0) : got;

		if (rc <= 0)
			return done ? (ssize_t)done : rc;
		*offset += rc;
		done += (size_t)rc;
		if (rc < got)
			break;
	}
	return (ssize_t)done;
}

/* Streams only: of a datagram socket the kernel's own makes datagrams as it likes. */
static ssize_t do_sendfile(struct sock_ref ref, int in, off64_t *offset, size_t count)
{
	off64_t at;
	ssize_t rc;

	if (count > IO_MAX)
		count = IO_MAX;
	if (offset) {
		if (*offset < 0)
			return -EINVAL;
		return send_file(ref, in, offset, count);
	}
	/* The file's own position moves. */
	at = sys_call(SYS_lseek, in, 0, SEEK_CUR, 0, 0, 0);
	if (at < 0)
		return at == -ESPIPE ? -EINVAL : at;
	rc = send_file(ref, in, &at, count);
	if (rc > 0)
		sys_call(SYS_lseek, in, at, SEEK_SET, 0, 0, 0);
	return rc;
}

EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t count)
{
	struct sock_ref ref = sock_get(out);
	int saved = errno;
	ssize_t rc;

	if (!ref.sk || ref.sk->kind != SOCK_KIND_TCP)
		return libc.sendfile64(out, in, offset, count);
	rc = do_sendfile(ref, in, offset, count);
	return rc == SOCK_KERNEL ? libc.sendfile64(out, in, offset, count)
				 : sent(ref, rc, 0, saved);
}

_Static_assert(sizeof(off_t) == sizeof(off64_t), "sendfile() is sendfile64()");

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
	return sendfile64(out, in, offset, count);
}
