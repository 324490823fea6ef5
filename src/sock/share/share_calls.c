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

/* The calls of the socket as it is here: it may have come as a local connection. */
static const struct sock_ops *real(struct sock_ref ref)
{
	enum inet_kind kind = inet_of(ref.sk)->inet;

	return &sock_kinds[kind == INET_LISTEN ? INET_TCP : kind]->ops[ring_mode_now()];
}

/* ---- calls that fetch nothing ------------------------------------------------------ */

static int real_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
		       struct sock_ref *child)
{
	return real(ref)->accept(ref, addr, len, flags, child);
}

static int real_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	return real(ref)->bind(ref, addr, len);
}

static int real_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	return real(ref)->connect(ref, addr, len);
}

static int real_getpeername(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return real(ref)->getpeername(ref, addr, len);
}

static int real_getsockopt(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	return real(ref)->getsockopt(ref, level, name, val, len);
}

static int real_ioctl(struct sock_ref ref, unsigned long cmd, void *arg)
{
	return real(ref)->ioctl(ref, cmd, arg);
}

static int real_listen(struct sock_ref ref, int backlog)
{
	return real(ref)->listen(ref, backlog);
}

static ssize_t real_recv(struct sock_ref ref, struct msghdr *msg, int flags)
{
	return real(ref)->recv(ref, msg, flags);
}

static ssize_t real_send(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	return real(ref)->send(ref, msg, flags);
}

static int real_setsockopt(struct sock_ref ref, int level, int name, const void *val, socklen_t len)
{
	return real(ref)->setsockopt(ref, level, name, val, len);
}

static int real_shutdown(struct sock_ref ref, int how)
{
	return real(ref)->shutdown(ref, how);
}

/* ---- calls that fetch -------------------------------------------------------------- */

static int fetch(struct sock_ref ref, int flags)
{
	bool dontwait = (flags & MSG_DONTWAIT) ||
			__atomic_load_n(&ref.sk->nonblock, __ATOMIC_RELAXED);

	return share_fetch(ref, dontwait ? SHARE_FETCH_MAX : 0);
}

static int exported_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : real(ref)->bind(ref, addr, len);
}

static int exported_connect(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : real(ref)->connect(ref, addr, len);
}

static int exported_getpeername(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : real(ref)->getpeername(ref, addr, len);
}

/* A program that was executed does not know the address yet. */
static int exported_getsockname(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	int rc = inet_of(ref.sk)->local.port ? 0 : fetch(ref, 0);

	return rc ? rc : real(ref)->getsockname(ref, addr, len);
}

static int exported_getsockopt(struct sock_ref ref, int level, int name, void *val, socklen_t *len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : real(ref)->getsockopt(ref, level, name, val, len);
}

static int exported_ioctl(struct sock_ref ref, unsigned long cmd, void *arg)
{
	int rc = fetch(ref, 0);

	return rc ? rc : real(ref)->ioctl(ref, cmd, arg);
}

static int exported_listen(struct sock_ref ref, int backlog)
{
	int rc = fetch(ref, 0);

	return rc ? rc : real(ref)->listen(ref, backlog);
}

static ssize_t exported_recv(struct sock_ref ref, struct msghdr *msg, int flags)
{
	int rc = fetch(ref, flags);

	return rc ? rc : real(ref)->recv(ref, msg, flags);
}

static ssize_t exported_send(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	int rc = sock_is_dummy(flags) ? -EAGAIN : fetch(ref, flags);

	return rc ? rc : real(ref)->send(ref, msg, flags);
}

static int exported_setsockopt(struct sock_ref ref, int level, int name, const void *val,
			       socklen_t len)
{
	int rc = fetch(ref, 0);

	return rc ? rc : real(ref)->setsockopt(ref, level, name, val, len);
}

static int exported_shutdown(struct sock_ref ref, int how)
{
	int rc = fetch(ref, 0);

	return rc ? rc : real(ref)->shutdown(ref, how);
}

const struct sock_ops share_ops = {
	.accept = real_accept, /* EINVAL */
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

	return rc ? rc : real(ref)->accept(ref, addr, len, flags, child);
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

static int udp_getsockname(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return SOCK_KERNEL;
}

static ssize_t udp_send(struct sock_ref ref, const struct msghdr *msg, int flags)
{
	return SOCK_KERNEL;
}

const struct sock_ops share_udp_ops = {
	.accept = real_accept,
	.bind = real_bind,
	.connect = exported_connect,
	.getpeername = real_getpeername,
	.getsockname = udp_getsockname,
	.getsockopt = real_getsockopt,
	.ioctl = exported_ioctl,
	.listen = real_listen,
	.recv = exported_recv,
	.send = udp_send,
	.setsockopt = exported_setsockopt,
	.shutdown = real_shutdown,
};
