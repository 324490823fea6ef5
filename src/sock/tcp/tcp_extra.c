/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extra API for connections: receiving without a copy, and dummy sends (vma_extra.h).
 *
 * A packet that the program holds is charged to its connection (tcp_rare.taken), up to what the
 * receive buffer allows for unread packets. Beyond this the calls fail, what arrives stays unread,
 * and the window closes: only this connection stops.
 */
#include "base/mem.h"
#include "sock/core/access.h"
#include "sock/core/extra/held.h"
#include "sock/tcp/tcp_read.h"
#include "sock/wait/stream_zcopy.h"

/* ---- without a copy --------------------------------------------------------------------- */

/* holder: the program has the packet with the next bytes from now on; *n: of the call so far. */
static ssize_t take_one(struct inet_sock *so, uint8_t *to, size_t n, nsec_t now)
{
	struct held *held;
	struct pkt *pkt;
	ssize_t len = tcp_recv_first(&so->tcp.conn, &pkt);

	if (len <= 0)
		return len;
	held = held_new();
	if (!held)
		return -ENOBUFS;
	if (!held_store(to, n, held_piece(held, pkt))) {
		held_cancel(held);
		return -EFAULT;
	}
	if (so->told)
		sock_stats_latency(so, pkt->stamp);
	held_fill(held, sock_ref_of(so), pkt, tcp_recv_take(&so->tcp.conn, now));
	return len;
}

/* holder: takes as many packets as there are and fit. */
static ssize_t take(struct inet_sock *so, const struct iovec *iov, nsec_t now)
{
	const size_t room = (iov->iov_len - sizeof(size_t)) / sizeof(struct held_piece);
	ssize_t done = 0, len = 0;

	for (size_t n = 0; n < room; n++) {
		len = done && !tcp_readable_bytes(&so->tcp.conn)
			      ? 0
			      : take_one(so, iov->iov_base, n, now);
		if (len <= 0 || done + len > INT32_MAX)
			break;
		done += len;
	}
	return done ? done : len;
}

static bool zcopy_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct stream_zcopy *z = arg;
	struct inet_sock *so = z->so;

	if (tcp_read_refused(so, n))
		return *n != SOCK_FETCH;
	sock_access_rx(so);
	if (so->told || !tcp_readable_bytes(&so->tcp.conn))
		ring_poll(ring);
	else
		ring_set_now(ring, clock_now());
	*n = so->told && tcp_filter_hides(so) ? -EAGAIN
					      : take(so, z->zcopy->msg.msg_iov, ring->now);
	if (*n == -EOPNOTSUPP) {
		*n = SOCK_KERNEL; /* recv() copies it */
		return true;
	}
	if (*n == -ENOBUFS || *n == -EFAULT)
		return true;
	z->zcopy->done = *n > 0;
	*n = tcp_read_result(so, ring, *n);
	if (*n != -EAGAIN) {
		if (*n > 0)
			sock_count(so, rx_reads, 1);
		return true;
	}
	sock_wait_count(so, wait);
	*n = SOCK_TRY_WAIT;
	return false;
}

ssize_t tcp_recv_zcopy(struct sock_ref ref, struct sock_zcopy *zcopy, int flags)
{
	return stream_zcopy(ref, zcopy, flags, zcopy_try);
}

void tcp_held_freed(struct inet_sock *so, uint32_t charge)
{
	if (!sock_has_connection(so))
		return;
	tcp_recv_returned(&so->tcp.conn, charge);
	tcp_filter_look(so, sock_home(so));
}

/* ---- dummy sends ------------------------------------------------------------------------ */

/* As on_send(), but the frame does not leave. */
static int dummy_send(struct tcp_conn *conn, const struct tcp_segment *seg)
{
	struct inet_sock *so = container_of(conn, struct inet_sock, tcp.conn);
	struct pkt *pkt = ring_tx_get(sock_home(so));

	if (!pkt)
		return -ENOBUFS;
	if (seg->len + FRAME_HDR_MAX <= pkt->room)
		pkt->frame_len = (uint32_t)frame_build_tcp(&so->tcp.dst.tmpl, pkt->frame, seg);
	pkt_free(pkt);
	return 0;
}

static void ignore(struct tcp_conn *conn)
{
	(void)conn;
}

static void ignore_event(struct tcp_conn *conn, enum tcp_event event, uint32_t argument)
{
	(void)conn;
	(void)event;
	(void)argument;
}

static void ignore_end(struct tcp_conn *conn, int error)
{
	(void)conn;
	(void)error;
}

static const struct tcp_ops dummy_ops = {
	.alloc = mem_alloc,
	.closed = ignore_end,
	.established = ignore,
	.event = ignore_event,
	.free = mem_free,
	.readable = ignore,
	.send = dummy_send,
	.send_train = tcp_send_train,
	.urgent = ignore,
	.writable = ignore,
};

int tcp_dummy_check(struct sock_ref ref, int flags)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct ring *ring;
	int rc;

	control_assert_no_ring();
	if (flags & (MSG_MORE | MSG_OOB | MSG_FASTOPEN))
		return -EINVAL;
	rc = sock_hold_cold(ref, &ring);
	if (rc)
		return rc;
	if (!sock_has_connection(so) || sock_is_connecting(so) || sock_has_ended(so))
		rc = -ENOTCONN;
	else if (__atomic_load_n(&so->tcp.kept_error, __ATOMIC_RELAXED))
		rc = -EAGAIN;
	ring_release_cold(ring);
	return rc;
}

ssize_t tcp_dummy_try(struct inet_sock *so, struct ring *ring, const struct iovec *iov,
		      size_t count)
{
	ring_set_now(ring, clock_now());
	return tcp_send_dummy(&so->tcp.conn, &dummy_ops, iov, (int)count, ring->now);
}
