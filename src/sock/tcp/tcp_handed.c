/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/tcp/tcp_handed.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>

#include "base/mem.h"
#include "base/sys.h"
#include "sock/core/accept_options.h"
#include "sock/core/control.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock_options.h"

struct handed {
	struct handed *next;
	int fd;
};

bool tcp_handed_is(int fd)
{
	int domain = 0, protocol = 0;
	socklen_t len = sizeof(int);

	return !sys_getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) &&
	       (domain == AF_INET || domain == AF_INET6) &&
	       !sys_getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) &&
	       protocol == IPPROTO_TCP;
}

/* The program must not take a socket of another family or port for one of its listener. */
static bool is_of(const struct inet_sock *so, int fd)
{
	struct sock_addr name = {.len = sizeof(name.in6)}, peer = {.len = sizeof(peer.in6)};

	return !sys_getsockname(fd, &name.sa, &name.len) && name.sa.sa_family == so->family &&
	       name.in.sin_port == so->local.port && /* at the same place in both families */
	       !sys_getpeername(fd, &peer.sa, &peer.len);
}

/* holder of home */
static void handed_count(struct inet_sock *so, unsigned delta)
{
	__atomic_store_n(&so->listen.waiting, so->listen.waiting + delta, __ATOMIC_RELAXED);
}

int tcp_handed_queue(struct inet_sock *so, int fd)
{
	struct handed *handed, **end = &so->listen.handed;
	struct ring *ring;

	control_assert_held();
	control_assert_no_ring();
	if (!is_of(so, fd))
		return -EINVAL;
	accept_options_apply(so->opt->accept_options, fd);
	handed = mem_alloc(sizeof(*handed));
	if (!handed)
		return -ENOMEM;
	if (sock_hold_cold(sock_ref_of(so), &ring)) {
		mem_free(handed);
		return -EAGAIN;
	}
	*handed = (struct handed){.fd = fd};
	while (*end)
		end = &(*end)->next;
	/* Pairs with tcp_handed_any(). */
	__atomic_store_n(end, handed, __ATOMIC_RELEASE);
	handed_count(so, 1);
	sock_set_events(so, sock_own_events(so) | EPOLLIN | EPOLLRDNORM);
	ready_notify(&so->sk, EPOLLIN | EPOLLRDNORM);
	ring_release_cold(ring);
	return 0;
}

/* Control lock, holder of home. The oldest one's descriptor, or -1. */
static int handed_pop(struct inet_sock *so)
{
	struct handed *handed = so->listen.handed;
	int fd;

	control_assert_held();
	if (!handed)
		return -1;
	fd = handed->fd;
	__atomic_store_n(&so->listen.handed, handed->next, __ATOMIC_RELAXED);
	mem_free(handed);
	handed_count(so, -1u);
	if (!so->listen.handed && list_empty(&so->listen.queue))
		sock_set_events(so, sock_own_events(so) & ~(uint32_t)(EPOLLIN | EPOLLRDNORM));
	return fd;
}

int tcp_handed_take(struct inet_sock *so)
{
	struct ring *ring;
	int fd;

	control_assert_held();
	control_assert_no_ring();
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return -1;
	fd = handed_pop(so);
	ring_release_cold(ring);
	return fd;
}

/* The lowest free number, as accept(2) gives it; fd is closed. */
static int number_of(int fd, int flags)
{
	int own = sys_fcntl(fd, flags & SOCK_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
	int file = sys_fcntl(fd, F_GETFL, 0) & ~O_NONBLOCK;

	sys_fcntl(fd, F_SETFL, flags & SOCK_NONBLOCK ? file | O_NONBLOCK : file);
	sys_close(fd);
	return own;
}

int tcp_handed_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct inet_sock *so = inet_of(ref.sk);
	int fd = -1;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref) && so->inet == INET_LISTEN)
		fd = tcp_handed_take(so);
	control_unlock();
	if (fd < 0)
		return -EAGAIN;
	if (addr)
		sys_getpeername(fd, addr, len); /* one that was reset meanwhile has no peer */
	return number_of(fd, flags);
}

void tcp_handed_end(struct inet_sock *so)
{
	static const struct linger reset = {.l_onoff = 1};
	int fd;

	control_assert_held();
	while ((fd = handed_pop(so)) >= 0) {
		sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		sys_close(fd);
	}
}

void tcp_handed_forget(struct inet_sock *so)
{
	control_assert_held();
	for (const struct handed *handed = so->listen.handed; handed; handed = handed->next)
		sys_close(handed->fd);
	so->listen.handed = NULL;
}
