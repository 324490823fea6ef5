/* SPDX-License-Identifier: BSD-2-Clause */
/* The segments of a connection become frames, or large segments that the port cuts. */
#include <errno.h>

#include "sock/tcp/tcp_sock.h"

static struct inet_sock *sock_of_conn(struct tcp_conn *conn)
{
	return container_of(conn, struct inet_sock, tcp.conn);
}

int tcp_send_segment(struct tcp_conn *conn, const struct tcp_segment *seg)
{
	struct inet_sock *so = sock_of_conn(conn);
	struct ring *ring = sock_home(so);
	struct pkt *pkt = ring_tx_get(ring);

	if (__builtin_expect(!pkt, 0))
		return so->tcp.dst.unroutable ? 0 : -ENOBUFS;
	if (__builtin_expect(seg->len + FRAME_HDR_MAX > pkt->room, 0)) {
		pkt_free(pkt); /* the segment size was negotiated when frames were larger */
		return -EMSGSIZE;
	}
	pkt->frame_len = (uint32_t)frame_build_tcp(&so->tcp.dst.tmpl, pkt->frame, seg);
	return dst_send(&so->tcp.dst, ring, pkt);
}

static uint32_t send_frames(struct inet_sock *so, struct ring *ring, const struct tcp_segment *seg,
			    uint32_t mss)
{
	struct frame_train train;
	uint32_t sent = 0;

	frame_train_begin(&train, &so->tcp.dst.tmpl, seg, mss);
	while (sent < seg->len) {
		struct pkt *pkt = ring_tx_get(ring);

		if (!pkt && so->tcp.dst.unroutable)
			return seg->len;
		if (!pkt)
			break;
		if (mss + FRAME_HDR_MAX > pkt->room) {
			pkt_free(pkt);
			break;
		}
		pkt->frame_len = (uint32_t)frame_train_next(&train, pkt->frame);
		if (dst_send(&so->tcp.dst, ring, pkt))
			break;
		sent = seg->len - train.seg.len;
	}
	return sent;
}

/* What the port refuses becomes frames, and so does a short rest. The port keeps the order. */
static __attribute__((noinline)) uint32_t send_large(struct inet_sock *so, struct ring *ring,
						     const struct tcp_segment *seg, uint32_t mss)
{
	uint32_t most = ring->q->port->can.segment_max - FRAME_HDR_MAX;
	struct tcp_segment rest = *seg, after = rest, piece;
	struct frame_large large;

	most -= most % mss;
	so->tcp.dst.adj->used = true;
	while (most && rest.len > (DST_LARGE_MIN - 1) * mss) {
		tcp_segment_cut(&after, after.len < most ? after.len : most, &piece);
		frame_build_large(&large, &so->tcp.dst.tmpl, &piece, mss);
		if (ring_tx_large(ring, &large))
			break;
		rest = after;
	}
	if (!rest.len)
		return seg->len;
	return seg->len - rest.len + send_frames(so, ring, &rest, mss);
}

uint32_t tcp_send_segments(struct tcp_conn *conn, const struct tcp_segment *seg, uint32_t mss)
{
	struct inet_sock *so = sock_of_conn(conn);
	struct ring *ring = sock_home(so);

	if (seg->len > (DST_LARGE_MIN - 1) * mss && dst_takes_large(&so->tcp.dst, ring))
		return send_large(so, ring, seg, mss);
	return send_frames(so, ring, seg, mss);
}
