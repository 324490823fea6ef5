/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/tsock.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sock/options/ring_option.h"

struct tsock tsock_make(int type, bool nonblock)
{
	struct tsock ts = {.fd = socket(AF_INET, type | SOCK_CLOEXEC, 0)};

	if (ts.fd < 0)
		return TSOCK_NONE;
	if (nonblock)
		tsock_block(&ts, false);
	ts.ref = sock_create(ts.fd, AF_INET, type, 0, nonblock);
	if (ts.ref.sk)
		return ts;
	close(ts.fd);
	return TSOCK_NONE;
}

void tsock_block(struct tsock *ts, bool block)
{
	int flags = (int)sys_fcntl(ts->fd, F_GETFL, 0);

	sys_fcntl(ts->fd, F_SETFL, block ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
	if (ts->ref.sk)
		sock_set_nonblock(ts->ref, !block);
}

int tsock_bind(struct tsock *ts, uint32_t addr, unsigned port)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET, .sin_addr.s_addr = addr, .sin_port = htons((uint16_t)port)};

	return sock_ops_of(ts->ref.sk)->bind(ts->ref, (struct sockaddr *)&sin, sizeof(sin));
}

struct sockaddr_in tsock_name(const struct tsock *ts)
{
	struct sockaddr_in sin = {0};
	socklen_t len = sizeof(sin);

	if (sock_ops_of(ts->ref.sk)->getsockname(ts->ref, (struct sockaddr *)&sin, &len) ==
	    SOCK_KERNEL)
		getsockname(ts->fd, (struct sockaddr *)&sin, &len);
	return sin;
}

int tsock_connect(struct tsock *ts, const struct sockaddr_in *to)
{
	return sock_ops_of(ts->ref.sk)->connect(ts->ref, (const struct sockaddr *)to, sizeof(*to));
}

int tsock_listen(struct tsock *ts, int backlog)
{
	return sock_ops_of(ts->ref.sk)->listen(ts->ref, backlog);
}

int tsock_accept(struct tsock *ts, struct tsock *child, struct sockaddr_in *from)
{
	socklen_t len = sizeof(*from);
	int fd = sock_ops_of(ts->ref.sk)
			 ->accept(ts->ref, (struct sockaddr *)from, from ? &len : NULL,
				  SOCK_NONBLOCK | SOCK_CLOEXEC, &child->ref);

	child->fd = fd;
	return fd;
}

ssize_t tsock_sendto(struct tsock *ts, const void *data, size_t len, const struct sockaddr_in *to)
{
	struct iovec iov = {(void *)(uintptr_t)data, len};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_name = (void *)(uintptr_t)to,
			     .msg_namelen = to ? sizeof(*to) : 0};

	return sock_ops_of(ts->ref.sk)->send(ts->ref, &msg, 0);
}

ssize_t tsock_send(struct tsock *ts, const void *data, size_t len, int flags)
{
	struct iovec iov = {(void *)(uintptr_t)data, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return sock_ops_of(ts->ref.sk)->send(ts->ref, &msg, flags);
}

ssize_t tsock_recv(struct tsock *ts, void *data, size_t len, int flags)
{
	struct iovec iov = {data, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return sock_ops_of(ts->ref.sk)->recv(ts->ref, &msg, flags);
}

ssize_t tsock_recvfrom(struct tsock *ts, void *data, size_t len, struct sockaddr_in *from)
{
	struct iovec iov = {data, len};
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_name = from, .msg_namelen = sizeof(*from)};

	return sock_ops_of(ts->ref.sk)->recv(ts->ref, &msg, 0);
}

int tsock_shutdown(struct tsock *ts, int how)
{
	return sock_ops_of(ts->ref.sk)->shutdown(ts->ref, how);
}

int tsock_set(struct tsock *ts, int level, int name, const void *val, socklen_t len)
{
	int rc = sock_ops_of(ts->ref.sk)->setsockopt(ts->ref, level, name, val, len);

	if (rc == SOCK_KERNEL)
		rc = setsockopt(ts->fd, level, name, val, len) ? -errno : 0;
	return rc;
}

int tsock_set_int(struct tsock *ts, int level, int name, int val)
{
	return tsock_set(ts, level, name, &val, sizeof(val));
}

int tsock_set_logic(struct tsock *ts, int logic, unsigned user_id, bool rx, bool tx)
{
	struct vma_ring_alloc_logic_attr attr = {
		.comp_mask = (rx ? VMA_RING_ALLOC_MASK_RING_INGRESS : 0u) |
			     (tx ? VMA_RING_ALLOC_MASK_RING_ENGRESS : 0u) |
			     VMA_RING_ALLOC_MASK_RING_USER_ID,
		.ring_alloc_logic = (uint32_t)logic,
		.user_id = user_id,
		.ingress = rx,
		.engress = tx,
	};

	return tsock_set(ts, SOL_SOCKET, SO_VMA_RING_ALLOC_LOGIC, &attr, sizeof(attr));
}

int tsock_set_timeout(struct tsock *ts, int name, unsigned msec)
{
	struct timeval tv = {msec / 1000, msec % 1000 * 1000};

	return tsock_set(ts, SOL_SOCKET, name, &tv, sizeof(tv));
}

int tsock_linger_none(struct tsock *ts)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};

	return tsock_set(ts, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

void tsock_close(struct tsock *ts)
{
	if (ts->fd < 0)
		return;
	if (ts->ref.sk)
		sock_close(ts->ref);
	close(ts->fd);
	*ts = TSOCK_NONE;
}
