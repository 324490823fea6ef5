/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of an exported socket: each fetches it, and then makes the call of the socket's
 * kind.
 */
#include <errno.h>

#include "sock/options/sock_opt.h"
#include "sock/share/share_internal.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/udp/udp_sock.h"

#define REAL (&tcp_kind.ops[ring_mode_now()])

static int fetch(struct sock_ref ref, int flags)
{
	bool dontwait = (flags & MSG_DONTWAIT) ||
			__atomic_load_n(&ref.sk->nonblock, __ATOMIC_RELAXED);

	return share_fetch(ref, dontwait ? SHARE_FETCH_MAX : 0);
}

static int exported_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
			   struct sock_ref *child)
{
	return REAL->accept(ref, addr, len, flags, child); /* EINVAL */
}

static int exported_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL->bind(ref, addr, len);
}

static int exported_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL->connect(ref, addr, len);
}

static int exported_getpeername(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL->getpeername(ref, addr, len);
}

/* A program that was executed does not know the address yet. */
static int exported_getsockname(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	int rc = inet_of(ref.sk)->local.port ? 0 : fetch(ref, 0);

	return rc ? rc : sock_getsockname(ref, addr, len);
}

static int exported_getsockopt(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL->getsockopt(ref, level, name, val, len);
}

static int exported_ioctl(struct sock_ref ref, unsigned long cmd, void *arg)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL->ioctl(ref, cmd, arg);
}

static int exported_listen(struct sock_ref ref, int backlog)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL->listen(ref, backlog);
}

static ssize_t exported_recv(struct sock_ref ref, struct msghdr *msg, int flags)
{
	int rc = fetch(ref, flags);

	return rc ? rc : REAL->recv(ref, msg, flags);
}

static ssize_t exported_send(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	int rc = fetch(ref, flags);

	return rc ? rc : REAL->send(ref, msg, flags);
}

static int exported_setsockopt(struct sock_ref ref, int level, int name, const void *val,
			       socklen_t len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL->setsockopt(ref, level, name, val, len);
}

static int exported_shutdown(struct sock_ref ref, int how)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL->shutdown(ref, how);
}

const struct sock_ops share_ops = {
	.accept = exported_accept,
	.bind = exported_bind,
	.connect = exported_connect,
	.getpeername = exported_getpeername,
	.getsockname = exported_getsockname,
	.getsockopt = exported_getsockopt,
	.ioctl = exported_ioctl,
	.listen = exported_listen,
	.recv = exported_recv,
	.send = exported_send,
	.setsockopt = exported_setsockopt,
	.shutdown = exported_shutdown,
};

/* ---- listeners --------------------------------------------------------------------- */

static int joined_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
			 struct sock_ref *child)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL->accept(ref, addr, len, flags, child);
}

static int real_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	return REAL->bind(ref, addr, len);
}

static int real_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	return REAL->connect(ref, addr, len);
}

static int real_getpeername(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return REAL->getpeername(ref, addr, len);
}

static int real_getsockopt(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	return REAL->getsockopt(ref, level, name, val, len);
}

static int real_ioctl(struct sock_ref ref, unsigned long cmd, void *arg)
{
	return REAL->ioctl(ref, cmd, arg);
}

static ssize_t real_recv(struct sock_ref ref, struct msghdr *msg, int flags)
{
	return REAL->recv(ref, msg, flags);
}

static ssize_t real_send(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	return REAL->send(ref, msg, flags);
}

static int real_setsockopt(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	return REAL->setsockopt(ref, level, name, val, len);
}

const struct sock_ops share_listen_ops = {
	.accept = joined_accept,
	.bind = real_bind,
	.connect = real_connect,
	.getpeername = real_getpeername,
	.getsockname = sock_getsockname,
	.getsockopt = real_getsockopt,
	.ioctl = real_ioctl,
	.listen = exported_listen,
	.recv = real_recv,
	.send = real_send,
	.setsockopt = real_setsockopt,
	.shutdown = exported_shutdown,
};

/* ---- datagram sockets: a process that only sends does so by the twin, which has the
 * address  */

#define REAL_UDP (&udp_kind.ops[ring_mode_now()])

static int exported_udp_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len,
			       int flags, struct sock_ref *child)
{
	return REAL_UDP->accept(ref, addr, len, flags, child);
}

static int exported_udp_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	return REAL_UDP->bind(ref, addr, len);
}

static int exported_udp_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL_UDP->connect(ref, addr, len);
}

static int exported_udp_getpeername(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return REAL_UDP->getpeername(ref, addr, len);
}

static int exported_udp_getsockname(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return SOCK_KERNEL;
}

static int exported_udp_getsockopt(struct sock_ref ref, int level, int name, void *val,
				   socklen_t *len)
{
	return REAL_UDP->getsockopt(ref, level, name, val, len);
}

static int exported_udp_ioctl(struct sock_ref ref, unsigned long cmd, void *arg)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL_UDP->ioctl(ref, cmd, arg);
}

static int exported_udp_listen(struct sock_ref ref, int backlog)
{
	return REAL_UDP->listen(ref, backlog);
}

static ssize_t exported_udp_recv(struct sock_ref ref, struct msghdr *msg, int flags)
{
	int rc = fetch(ref, flags);

	return rc ? rc : REAL_UDP->recv(ref, msg, flags);
}

static ssize_t exported_udp_send(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	return SOCK_KERNEL;
}

static int exported_udp_setsockopt(struct sock_ref ref, int level, int name, const void *val,
				   socklen_t len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : REAL_UDP->setsockopt(ref, level, name, val, len);
}

static int exported_udp_shutdown(struct sock_ref ref, int how)
{
	return REAL_UDP->shutdown(ref, how);
}

const struct sock_ops share_udp_ops = {
	.accept = exported_udp_accept,
	.bind = exported_udp_bind,
	.connect = exported_udp_connect,
	.getpeername = exported_udp_getpeername,
	.getsockname = exported_udp_getsockname,
	.getsockopt = exported_udp_getsockopt,
	.ioctl = exported_udp_ioctl,
	.listen = exported_udp_listen,
	.recv = exported_udp_recv,
	.send = exported_udp_send,
	.setsockopt = exported_udp_setsockopt,
	.shutdown = exported_udp_shutdown,
};
