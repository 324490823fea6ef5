/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data that the program has written into frames (vma_reserve() of <vma/vma.h>).
 *
 * The engine gets the data as from tcp_send(), and keeps a copy until the peer acknowledges it.  If it
 * sends the data at once, as one segment, that leaves in the frame itself; else the frame is freed, and
 * segments are built from the copy.
 */
#include "sock/core/access.h"
#include "sock/tcp/tcp_sock.h"

#define POLL_ON_TX 16384 /* as in tcp_send.c */

/* A commit under way: the connection calls ops, which know the frame. */
struct commit {
	struct tcp_ops ops; /* first; the owner's, but for send */
	struct pkt *pkt;    /* NULL: it was sent */
	uint32_t at;
	uint32_t seq, len; /* of the data */
};

/* As tcp_send_segment(). */
static int send_in_place(struct tcp_conn *conn, const struct tcp_segment *seg)
{
	struct commit *c = (struct commit *)(uintptr_t)conn->ops;
	struct inet_sock *so = container_of(conn, struct inet_sock, tcp.conn);
	struct pkt *pkt = c->pkt;

	if (!pkt || seg->seq != c->seq || seg->len != c->len ||
	    c->at != (uint32_t)so->tcp.dst.tmpl.l4 + TCP_HDR + seg->opt_len)
		return tcp_send_segment(conn, seg);
	c->pkt = NULL;
	pkt->frame_len = (uint32_t)frame_build_tcp_around(&so->tcp.dst.tmpl, pkt->frame, seg);
	return dst_send(&so->tcp.dst, sock_home(so), pkt);
}

int tcp_room(const struct inet_sock *so, uint32_t *header, size_t *most)
{
	if (sock_is_exported(&so->sk))
		return SOCK_FETCH;
	if (!sock_has_connection(so) || sock_is_connecting(so) || sock_has_ended(so))
		return -ENOTCONN;
	*header = so->tcp.dst.tmpl.l4 + tcp_header_len(&so->tcp.conn);
	*most = so->tcp.conn.mss;
	return 0;
}

/* May the engine take all of it now? */
static bool takes(struct inet_sock *so, size_t len)
{
	return sock_has_connection(so) && !sock_is_connecting(so) &&
	       !__atomic_load_n(&so->tcp.kept_error, __ATOMIC_RELAXED) && dst_fresh(&so->tcp.dst) &&
	       len && tcp_writable_bytes(&so->tcp.conn) >= len;
}

ssize_t tcp_commit(struct inet_sock *so, struct ring *ring, struct pkt *pkt, uint32_t at,
		   size_t len, const struct endpoint *to)
{
	struct tcp_conn *conn = &so->tcp.conn;
	const struct iovec iov = {pkt->frame + at, len};
	struct commit c = {.ops = tcp_sock_engine_ops, .pkt = pkt, .at = at, .len = (uint32_t)len};
	ssize_t n;

	if (to || !takes(so, len))
		return SOCK_KERNEL;
	if (tcp_unacked_bytes(conn) > POLL_ON_TX)
		ring_poll(ring);
	else
		ring_set_now(ring, clock_now());
	if (!takes(so, len)) /* the poll has ended the connection */
		return SOCK_KERNEL;
	sock_access_tx(so);
	c.ops.send = send_in_place;
	c.seq = conn->snd_una + conn->snd.len;
	conn->ops = &c.ops;
	n = tcp_send(conn, &iov, 1, 0, ring->now);
	conn->ops = &tcp_sock_engine_ops;
	if (n < 0 || tcp_is_full(conn))
		tcp_update_events(so, 0);
	tcp_after(so, ring);
	if (n < 0)
		return SOCK_KERNEL; /* no memory: nothing was queued */
	if (c.pkt)
		pkt_free(c.pkt);
	return n;
}
