/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls on TCP sockets: shutdown(2), getpeername(2), ioctl(2). */
#include <errno.h>
#include <sys/ioctl.h>
#include <linux/sockios.h>

#include "base/sys.h"
#include "base/user.h"
#include "sock/core/access.h"
#include "sock/core/msg/family.h"
#include "sock/core/quarantine.h"
#include "sock/options/sock_opt.h"
#include "sock/tcp/tcp_sock.h"

/* As the kernel: a connection in TIME_WAIT has ended. */
static bool has_ended(const struct inet_sock *so)
{
	return sock_has_ended(so) || so->tcp.conn.state == TCP_TIME_WAIT;
}

static int tcp_sock_shutdown(struct sock_ref ref, int how)
{
	struct inet_sock *so = inet_of(ref.sk);
	nsec_t now = clock_now();
	struct ring *ring;
	bool stops;
	int rc;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	rc = sock_hold_here(ref, &ring);
	if (rc)
		return rc;
	if (how != SHUT_RD && sock_has_connection(so))
		tcp_learn_habit(so, ring);
	if (how == SHUT_RD || !sock_has_connection(so) || !tcp_awaits_fin(&so->tcp.conn))
		ring_poll(ring); /* the peer may have ended it */
	if (!sock_has_connection(so)) {
		/* The kernel returns -ENOTCONN, but the shutdown takes effect. */
		if (so->inet == INET_TCP && how != SHUT_WR) {
			so->shut_rd = true;
			tcp_update_events(so, EPOLLIN | EPOLLRDHUP);
		}
		stops = so->inet == INET_LISTEN && how != SHUT_WR;
		ring_release_cold(ring);
		if (stops)
			sock_to_kernel(ref, VERDICT_STOPPED);
		return SOCK_KERNEL;
	}
	if (has_ended(so)) {
		rc = -ENOTCONN;
	} else if (sock_is_connecting(so)) {
		tcp_disconnect(so, ring);
	} else {
		if (sock_life_is(so, LIFE_CONNECTING))
			sock_life_set(so, LIFE_CONNECTED);
		if (how != SHUT_WR) {
			so->shut_rd = true;
			tcp_shutdown_read(&so->tcp.conn);
		}
		if (how != SHUT_RD && !so->shut_wr) {
			so->shut_wr = true;
			tcp_shutdown(&so->tcp.conn, now);
		}
		tcp_update_events(so, how == SHUT_WR ? 0 : EPOLLIN | EPOLLRDHUP);
		tcp_after(so, ring);
	}
	ring_release_cold(ring);
	return rc;
}

/* holder */
static bool has_peer(struct inet_sock *so)
{
	return sock_has_connection(so) && so->tcp.conn.state != TCP_SYN_SENT && !has_ended(so);
}

static int tcp_getpeername(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return sock_peer_name(ref, has_peer, addr, len);
}

static uint32_t unsent_bytes(const struct tcp_conn *conn)
{
	struct tcp_info info;

	tcp_get_info(conn, &info, clock_now());
	return info.tcpi_notsent_bytes;
}

/* holder: FIONREAD, which ends at the urgent byte, as in the kernel, also where a read would skip that. */
static uint32_t bytes_here(const struct inet_sock *so)
{
	return tcp_at_mark(&so->tcp.conn) && !so->opt->oobinline ? 0 : tcp_filter_readable(so);
}

static int tcp_ioctl(struct sock_ref ref, unsigned long cmd, void *arg)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc, n = 0;

	if (cmd != FIONREAD && cmd != SIOCOUTQ && cmd != SIOCOUTQNSD && cmd != SIOCATMARK)
		return SOCK_KERNEL;
	rc = sock_hold_here(ref, &ring);
	if (rc)
		return rc;
	if (!sock_has_connection(so)) {
		rc = SOCK_KERNEL;
	} else {
		ring_poll(ring);
		n = cmd == FIONREAD	 ? (int)bytes_here(so)
		    : cmd == SIOCOUTQ	 ? (int)tcp_unacked_bytes(&so->tcp.conn)
		    : cmd == SIOCOUTQNSD ? (int)unsent_bytes(&so->tcp.conn)
					 : tcp_at_mark(&so->tcp.conn);
	}
	ring_release_cold(ring);
	if (!rc && !user_store32(arg, (uint32_t)n))
		return -EFAULT;
	return rc;
}

int tcp_read_headers(struct sock_ref ref, uint8_t *header)
{
	const struct tcp_segment empty = {.flags = 0};
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	if (!sock_life_is(so, LIFE_CONNECTED) || sock_has_ended(so))
		rc = -ENOTCONN;
	else
		rc = (int)frame_build_tcp(&so->tcp.dst.tmpl, header, &empty);
	ring_release_cold(ring);
	return rc;
}

#define TCP_SOCK_OPS(mode)                                                                       \
	{                                                                                        \
		.accept = tcp_sock_accept, .bind = tcp_sock_bind, .connect = tcp_sock_connect,   \
		.getpeername = tcp_getpeername, .getsockname = sock_getsockname,                 \
		.getsockopt = sock_getsockopt, .ioctl = tcp_ioctl, .listen = tcp_sock_listen,    \
		.recv = tcp_recv_##mode, .send = tcp_send_##mode, .setsockopt = sock_setsockopt, \
		.shutdown = tcp_sock_shutdown, .quick_send = tcp_quick_send_##mode,              \
	}

const struct sock_ops tcp_sock_ops[HOLD_MODES] = {
#define X(name, mode) [mode] = TCP_SOCK_OPS(name),
	SOCK_MODES(X)
#undef X
};
