/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls on local connections, and their kind. */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "base/sys.h"
#include "base/user.h"
#include "sock/core/msg/family.h"
#include "sock/core/sock_options.h"
#include "sock/local/local.h"
#include "sock/local/capture/local_capture.h"
#include "sock/local/local_sock.h"
#include "sock/options/sock_opt.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/wait/wait.h"

static int local_bind(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	(void)ref;
	(void)addr;
	(void)len;
	return -EINVAL; /* it is bound */
}

static int local_listen_call(struct sock_ref ref, int backlog)
{
	(void)ref;
	(void)backlog;
	return -EINVAL;
}

static int local_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
			struct sock_ref *child)
{
	(void)ref;
	(void)addr;
	(void)len;
	(void)flags;
	child->sk = NULL;
	return -EINVAL;
}

/* ---- connect(2) once more ------------------------------------------------------------------- */

/* Control lock.  1: the connection is under way; else the result. */
static int connect_again(struct sock_ref ref, bool disconnect)
{
	struct inet_sock *so = inet_of(ref.sk);
	bool refused = false;
	struct ring *ring;
	int rc;

	control_assert_held();
	if (disconnect)
		sock_stats_end(so);
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	ring_poll(ring);
	if (!local_is_one(so)) {
		rc = -EISCONN;
	} else if (disconnect) {
		local_disconnect(so, true);
	} else if (so->shm.ended && !so->shm.reported) {
		rc = so->shm.error ? -local_conn_take_error(so) : -ECONNABORTED;
		refused = true;
	} else if (!so->shm.established) {
		rc = 1;
	} else if (so->shm.reported) {
		rc = -EISCONN;
	}
	if (local_is_one(so))
		so->shm.reported = so->shm.established;
	ring_release_cold(ring);
	if (!refused)
		return rc;
	sock_stats_end(so);
	if (!sock_hold_cold(ref, &ring)) {
		local_disconnect(so, false);
		ring_release_cold(ring);
	}
	return rc;
}

static int local_connect_call(struct sock_ref ref, const struct sockaddr *addr, socklen_t len)
{
	struct sock_call call = SOCK_CALL(ref, 0, EPOLLOUT);
	int rc = -EBADF;

	(void)len;
	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref))
		rc = connect_again(ref, addr->sa_family == AF_UNSPEC);
	control_unlock();
	if (rc != 1)
		return rc;
	rc = local_connect_wait(ref, &call);
	return rc == -EINPROGRESS ? -EALREADY : rc;
}

/* ---- shutdown, names, ioctl ----------------------------------------------------------------- */

/* As the kernel: the peer of a connection that both have finished, or that was reset, is gone. */
static bool has_peer(struct inet_sock *so)
{
	return local_is_one(so) && so->shm.established && !so->shm.ended &&
	       !(so->shut_wr && byte_ring_end(&so->shm.in) == BYTE_RING_FINISHED);
}

/* Control lock, which connect(2) has while it begins a connection: gives it up. */
static int shutdown_connecting(struct sock_ref ref)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	if (local_is_one(so) && !so->shm.established && !so->shm.ended)
		local_disconnect(so, true);
	ring_release_cold(ring);
	return 0;
}

/* holder: 0, -ENOTCONN; 1: it is connecting. */
static int shutdown_connected(struct inet_sock *so, int how)
{
	if (local_is_one(so) && !so->shm.established && !so->shm.ended)
		return 1;
	if (!has_peer(so))
		return -ENOTCONN;
	so->shm.reported = true;
	local_conn_look(so); /* later bytes come too late: local_conn.c */
	if (how != SHUT_WR)
		so->shut_rd = true;
	if (how != SHUT_RD && !so->shut_wr) {
		so->shut_wr = true;
		if (so->shm.captured)
			local_capture_ended(so, false);
		byte_ring_finish(&so->shm.out);
		local_end_post(&so->shm.end);
	}
	local_conn_events(so, how == SHUT_WR ? 0 : EPOLLIN | EPOLLRDHUP);
	return 0;
}

static int local_shutdown(struct sock_ref ref, int how)
{
	struct ring *ring;
	int rc;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	rc = sock_hold_here(ref, &ring);
	if (rc)
		return rc;
	ring_poll(ring);
	rc = shutdown_connected(inet_of(ref.sk), how);
	ring_release_cold(ring);
	if (rc != 1)
		return rc;
	if (!control_lock())
		return -EAGAIN;
	rc = sock_ref_valid(ref) ? shutdown_connecting(ref) : -EBADF;
	control_unlock();
	return rc;
}

static int local_getpeername(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	return sock_peer_name(ref, has_peer, addr, len);
}

static int local_getsockname(struct sock_ref ref, struct sockaddr *addr, socklen_t *len)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct endpoint local;
	struct ring *ring;
	int rc = sock_hold_cold(ref, &ring);

	if (rc)
		return rc;
	local = so->local;
	ring_release_cold(ring);
	sock_addr_write(so, &local, addr, len);
	return 0;
}

/* holder: is the next byte the urgent one? */
static bool at_mark(struct inet_sock *so)
{
	int64_t ahead;

	byte_ring_readable(&so->shm.in);
	return byte_ring_urgent(&so->shm.in, &ahead) && ahead == 0;
}

/* holder: FIONREAD, which ends at the urgent byte, as in the kernel, also where a read would skip that. */
static uint32_t bytes_here(struct inet_sock *so)
{
	if (local_filter_hides(so) || (!so->opt->oobinline && at_mark(so)))
		return 0;
	return local_conn_readable(so);
}

static int local_ioctl(struct sock_ref ref, unsigned long cmd, void *arg)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc, n = 0;

	if (cmd != FIONREAD && cmd != SIOCOUTQ && cmd != SIOCOUTQNSD && cmd != SIOCATMARK)
		return SOCK_KERNEL;
	rc = sock_hold_here(ref, &ring);
	if (rc)
		return rc;
	if (!local_is_one(so) || !so->shm.established)
		rc = SOCK_KERNEL;
	else if (cmd == FIONREAD)
		n = (int)bytes_here(so);
	else if (cmd == SIOCATMARK)
		n = at_mark(so);
	else
		n = (int)byte_ring_unsent(&so->shm.out);
	ring_release_cold(ring);
	if (!rc && !user_store32(arg, (uint32_t)n))
		return -EFAULT;
	return rc;
}

#define LOCAL_OPS(mode)                                                                            \
	{                                                                                          \
		.accept = local_accept, .bind = local_bind, .connect = local_connect_call,         \
		.getpeername = local_getpeername, .getsockname = local_getsockname,                \
		.getsockopt = local_get_option, .ioctl = local_ioctl, .listen = local_listen_call, \
		QUICK_OPS(local_quick, mode), .recv = local_quick_recvmsg_##mode,                  \
		.send = local_send_##mode, .setsockopt = sock_setsockopt,                          \
		.shutdown = local_shutdown,                                                        \
	}

static const struct sock_ops local_ops[HOLD_MODES] = {
#define X(name, mode) [mode] = LOCAL_OPS(name),
	SOCK_MODES(X)
#undef X
};

/* ---- SO_LINGER ------------------------------------------------------------------------------- */

/* holder: how long close(2) may wait, in msec; 0: not at all. */
static uint32_t linger_time(const struct inet_sock *so)
{
	int seconds = so->opt->linger_on ? so->opt->linger_seconds : 0;

	if (!local_is_one(so) || !so->shm.established || so->shm.ended || so->shut_wr ||
	    so->sharing || seconds <= 0)
		return 0;
	return (uint32_t)seconds < UINT32_MAX / 1000 ? (uint32_t)seconds * 1000 : UINT32_MAX;
}

/* What a kernel would have sent is in the peer's receive buffer; or nobody will read it. */
static bool linger_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct inet_sock *so = arg;
	struct shm_state *shm = &so->shm;
	uint32_t unsent;

	(void)wait;
	ring_poll(ring);
	*n = 0;
	if (!linger_time(so) || local_conn_readable(so) || byte_ring_reader_closed(&shm->out))
		return true;
	unsent = byte_ring_unsent(&shm->out);
	if (!unsent)
		return true;
	shm->wants_space = byte_ring_space(&shm->out) + unsent;
	byte_ring_want_space(&shm->out, shm->wants_space);
	local_end_wants(&shm->end, true);
	local_conn_events(so, 0);
	*n = SOCK_TRY_WAIT;
	return false;
}

bool local_lingers(struct sock_ref ref)
{
	const struct sock_ops *ops = sock_ops_of(ref.sk);
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	uint32_t time;

	if (ops < local_ops || ops >= local_ops + HOLD_MODES || sock_hold_cold(ref, &ring))
		return false;
	time = linger_time(so);
	if (time) /* the program sends nothing more */
		__atomic_store_n(&so->sndtimeo, time, __ATOMIC_RELAXED);
	ring_release_cold(ring);
	return time;
}

void local_linger(struct sock_ref ref)
{
	struct sock_call call = SOCK_CALL(ref, 0, EPOLLOUT);

	call.dontwait = 0;
	(void)sock_wait_loop(call, SOCK_WAIT_COLD, linger_try, NULL, inet_of(ref.sk));
}

/* ---- the kind ------------------------------------------------------------------------------- */

static bool local_close(struct inet_sock *so, struct ring *ring)
{
	bool reset = so->opt->linger_on && so->opt->linger_seconds == 0;

	ring_assert_held(ring);
	local_conn_close(so, reset || !so->shm.established);
	return false;
}

/* The listener that it waits at is closed. */
static void local_abandon(struct inet_sock *so, struct ring *ring)
{
	ring_assert_held(ring);
	local_conn_close(so, true);
	sock_life_set(so, LIFE_CLOSED);
	sock_free(so);
}

static void local_publish(const struct inet_sock *so, struct stats_sock *slot,
			  struct sock_stats_seen *seen)
{
	const struct shm_state *shm = &so->shm;

	slot->tcp_state = shm->established && !shm->ended ? STATS_TCP_ESTABLISHED : STATS_TCP_CLOSE;
	if (!shm->shared)
		return;
	stats_add(&slot->rx_reads, shm->reads - seen->rx_reads);
	stats_add(&slot->tx_packets, shm->sends - seen->tx_packets);
	seen->rx_reads = shm->reads;
	seen->tx_packets = shm->sends;
	stats_add(&slot->rx_bytes, shm->in.head - seen->rx_bytes);
	stats_add(&slot->tx_bytes, shm->out.tail - seen->tx_bytes);
	seen->rx_bytes = shm->in.head;
	seen->tx_bytes = shm->out.tail;
	slot->rx_queued_bytes = shm->in.tail - shm->in.head;
	slot->tx_queued_bytes = shm->out.tail - shm->out.head;
	stats_raise(&slot->rx_most_bytes, slot->rx_queued_bytes);
	slot->rx_limit = shm->in.capacity;
}

const struct sock_kind local_kind = {
	.protocol = IPPROTO_TCP,
	.ops = local_ops,
	.close = local_close,
	.abandon = local_abandon,
	.set_option = local_set_option,
	.mirror = tcp_mirror,
	.options_changed = local_conn_options,
	.buffer_size = local_buffer_size,
	.recv_zcopy = local_recv_zcopy,
	.filter = &local_filter_kind,
	.xtreme_take = local_xtreme_take,
	.publish = local_publish,
};
