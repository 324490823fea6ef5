/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/unix_socket.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"

union control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(UNIX_SOCKET_FDS * sizeof(int))];
};

int unix_socket_new(void)
{
	return sys_fd_hide(sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

socklen_t unix_socket_name(struct sockaddr_un *un, const char *format, ...)
{
	size_t size = sizeof(un->sun_path) - 1;
	va_list args;
	int len;

	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	va_start(args, format);
	len = vsnprintf(un->sun_path + 1, size, format, args);
	va_end(args);
	assert(len > 0 && (size_t)len < size);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

bool unix_socket_is_of(int fd, uid_t user, struct ucred *peer)
{
	struct ucred some;
	socklen_t len = sizeof(some);

	if (!peer)
		peer = &some;
	return !sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) && peer->uid == user;
}

int unix_socket_connect(const struct sockaddr_un *un, socklen_t len)
{
	int fd = unix_socket_new(), rc;

	if (fd < 0)
		return fd;
	rc = sys_connect(fd, (const struct sockaddr *)un, len);
	if (!rc && !unix_socket_is_of(fd, sys_geteuid(), NULL))
		rc = -EACCES;
	if (!rc)
		return fd;
	sys_close(fd);
	return rc;
}

int unix_socket_send(int fd, const struct iovec *iov, int iovcnt, const int *fds, unsigned n)
{
	union control control;
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov,
			     .msg_iovlen = (size_t)iovcnt};
	ssize_t rc;

	assert(n <= UNIX_SOCKET_FDS);
	if (n) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_LEN(n * sizeof(int));
		control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
						.cmsg_type = SCM_RIGHTS,
						.cmsg_len = CMSG_LEN(n * sizeof(int))};
		memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
	}
	rc = sys_sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return rc < 0 ? (int)rc : 0;
}

ssize_t unix_socket_receive(int fd, const struct iovec *iov, int iovcnt, int flags, int *fds,
			    unsigned max, unsigned *n)
{
	union control control;
	/* CMSG_LEN, not CMSG_SPACE, into which one descriptor more may fit. */
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov,
			     .msg_iovlen = (size_t)iovcnt,
			     .msg_control = &control,
			     .msg_controllen = CMSG_LEN(max * sizeof(int))};
	const struct cmsghdr *c;
	ssize_t len;

	assert(max <= UNIX_SOCKET_FDS);
	*n = 0;
	len = sys_recvmsg(fd, &msg, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (len < 0)
		return len;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		*n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(c), *n * sizeof(int));
	}
	for (unsigned i = 0; i < *n; i++)
		fds[i] = sys_fd_hide(fds[i]);
	return msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EBADMSG : len;
}

void unix_socket_close_fds(int *fds, unsigned n)
{
	while (n)
		sys_close_fd(&fds[--n]);
}
