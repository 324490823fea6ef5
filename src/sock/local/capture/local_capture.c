/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/local/capture/local_capture.h"

#include <errno.h>

#include "base/mem.h"
#include "net/frame.h"
#include "net/netlink/netlink.h"
#include "net/tcp/tcp_wire.h"
#include "ring/capture.h"
#include "sock/core/sock_options.h"
#include "sock/local/local_move.h"
#include "sock/local/local_sock.h"
#include "sock/udp/udp_sock.h"

#define FRAME_MSS 65464u /* of the loopback interface, for IPv6; for IPv4 it is 19 more */
#define FRAME_SCALE 7u
#define FRAME_TTL 64

static const uint8_t no_mac[6]; /* as those of the loopback interface */

/* ---- connections (holder of local_ring()) ------------------------------------------------------ */

static void put(const struct inet_sock *so, bool sent, struct tcp_segment *seg)
{
	const struct frame_params of = {.src_mac = no_mac,
					.dst_mac = no_mac,
					.src = sent ? so->local : so->remote,
					.dst = sent ? so->remote : so->local,
					.proto = IPPROTO_TCP,
					.ttl = FRAME_TTL};
	uint8_t *frame = mem_alloc(FRAME_HDR_MAX + seg->len);
	struct frame_template t;

	if (frame && !frame_template_init(&t, &of))
		ring_capture_put(local_ring(), frame, (uint32_t)frame_build_tcp(&t, frame, seg),
				 sent);
	mem_free(frame);
}

/* A segment that either end sends now, without bytes. */
static struct tcp_segment segment_now(const struct inet_sock *so, bool sent, uint8_t flags)
{
	const struct shm_state *shm = &so->shm;
	uint64_t ours = shm->out.tail, seen = shm->in.head;

	/* The SYN has number 0. */
	return (struct tcp_segment){
		.seq = 1 + (uint32_t)(sent ? ours : shm->captured_to),
		.ack = 1 + (uint32_t)(sent ? seen : shm->out.head),
		.wnd = (uint16_t)(shm->in.capacity >> FRAME_SCALE),
		.flags = flags,
	};
}

static void put_flags(const struct inet_sock *so, bool sent, uint8_t flags)
{
	struct tcp_segment seg = segment_now(so, sent, flags);

	put(so, sent, &seg);
}

static void put_syn(const struct inet_sock *so, bool sent, uint8_t flags)
{
	struct tcp_segment seg = {.ack = flags & TCP_ACK ? 1 : 0,
				  .wnd = UINT16_MAX,
				  .flags = TCP_SYN | flags,
				  .opt_len = 8,
				  .opts = {2, 4, FRAME_MSS >> 8, FRAME_MSS & 0xff, 1, 3, 3,
					   FRAME_SCALE}};

	put(so, sent, &seg);
}

void local_capture_opened(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;
	bool ours = shm->initiator;

	put_syn(so, ours, 0);
	if (shm->established) {
		put_syn(so, !ours, TCP_ACK);
		put_flags(so, ours, TCP_ACK);
	} else if (shm->error == ECONNREFUSED) {
		put_flags(so, !ours, TCP_RST | TCP_ACK);
	}
}

void local_capture_sent(struct inet_sock *so, uint32_t n)
{
	struct byte_ring_writer *out = &so->shm.out;
	struct tcp_segment seg = segment_now(so, true, TCP_ACK);

	while (n) {
		seg.seq = 1 + (uint32_t)(out->tail - n);
		seg.len = byte_ring_written(out, out->tail - n, n < FRAME_MSS ? n : FRAME_MSS,
					    &seg.part[0].data);
		seg.part[0].len = seg.len;
		n -= seg.len;
		if (!n)
			seg.flags |= TCP_PSH;
		put(so, true, &seg);
	}
}

static void put_arrived(struct inet_sock *so)
{
	struct byte_ring_reader *in = &so->shm.in;
	struct tcp_segment seg = segment_now(so, false, TCP_ACK);

	if (so->shm.captured_to < in->head)
		so->shm.captured_to = in->head; /* it was read unseen */
	for (;;) {
		seg.seq = 1 + (uint32_t)so->shm.captured_to;
		seg.len = byte_ring_piece(in, (uint32_t)(so->shm.captured_to - in->head),
					  &seg.part[0].data);
		if (!seg.len)
			return;
		seg.len = seg.len < FRAME_MSS ? seg.len : FRAME_MSS;
		seg.part[0].len = seg.len;
		so->shm.captured_to += seg.len;
		if (so->shm.captured_to == in->tail)
			seg.flags |= TCP_PSH;
		put(so, false, &seg);
	}
}

void local_capture_arrived(struct inet_sock *so)
{
	struct shm_state *shm = &so->shm;
	enum byte_ring_end end = byte_ring_end(&shm->in); /* before it is known how much there is */

	byte_ring_readable(&shm->in);
	put_arrived(so);
	if (end == BYTE_RING_OPEN || (shm->captured & LOCAL_CAPTURED_THEIR_END))
		return;
	shm->captured |= LOCAL_CAPTURED_THEIR_END;
	put_flags(so, false, TCP_ACK | (end == BYTE_RING_FINISHED ? TCP_FIN : TCP_RST));
}

void local_capture_ended(struct inet_sock *so, bool reset)
{
	struct shm_state *shm = &so->shm;

	if (!shm->established || shm->ended || (shm->captured & LOCAL_CAPTURED_OUR_END && !reset))
		return;
	shm->captured |= LOCAL_CAPTURED_OUR_END;
	put_flags(so, true, TCP_ACK | (reset ? TCP_RST : TCP_FIN));
}

void local_capture_conn(struct inet_sock *so, bool on)
{
	struct shm_state *shm = &so->shm;
	bool finished;

	ring_assert_held(local_ring());
	if (!shm->shared || on == !!shm->captured)
		return;
	if (!on) {
		shm->captured = 0;
		return;
	}
	finished = byte_ring_end(&shm->in) != BYTE_RING_OPEN;
	byte_ring_readable(&shm->in);
	shm->captured_to = shm->in.tail;
	shm->captured = LOCAL_CAPTURED | (finished ? LOCAL_CAPTURED_THEIR_END : 0) |
			(so->shut_wr ? LOCAL_CAPTURED_OUR_END : 0);
}

/* ---- datagrams ---------------------------------------------------------------------------------- */

/* False: it cannot be; no such datagram would have been sent. */
static bool template_of(struct frame_template *t, const struct inaddr *from,
			const struct inaddr *to, const struct record_header *h)
{
	const struct frame_params of = {.src_mac = no_mac,
					.dst_mac = no_mac,
					.src = {.addr = *from, .port = h->from_port},
					.dst = {.addr = *to, .port = h->to_port},
					.proto = IPPROTO_UDP,
					.ttl = h->ttl,
					.tos = h->tos};

	return !frame_template_init(t, &of);
}

void local_capture_datagram(const struct local_target *t, const struct record_header *h,
			    const struct msghdr *msg, size_t len)
{
	uint8_t *frame = mem_alloc(FRAME_HDR_MAX + len);
	struct frame_template tmpl;
	size_t n = 0;

	if (frame && template_of(&tmpl, &t->from, &t->to, h))
		n = frame_build_udp(&tmpl, frame, msg->msg_iov, (int)msg->msg_iovlen, len);
	if (n)
		ring_capture_put(local_ring(), frame, (uint32_t)n, true);
	mem_free(frame);
}

void local_capture_record(const struct local_udp *l)
{
	const struct record_header *h = &l->reader.record.header;
	struct inaddr from = local_record_addr(l, h, h->from), to = local_record_addr(l, h, h->to);
	struct ring *home = sock_home(inet_of(l->ref.sk));
	struct frame_template tmpl;
	struct iovec iov;
	uint8_t *frame;

	if (!ring_capture_runs())
		return;
	frame = mem_alloc(FRAME_HDR_MAX + (size_t)h->len);
	if (frame && template_of(&tmpl, &from, &to, h)) {
		iov = (struct iovec){frame + tmpl.l4 + UDP_HDR, h->len};
		if (record_ring_copy(&l->reader, 0, &iov, 1) == h->len)
			ring_capture_put(home, frame,
					 (uint32_t)frame_build_udp_around(&tmpl, frame, h->len),
					 false);
	}
	mem_free(frame);
}

/* ---- a capture begins, or ends (control lock) --------------------------------------------------- */

/* Its receives and sends act at once, or do not. */
static void note(struct inet_sock *so, void *arg)
{
	struct ring *home;

	(void)arg;
	if (so->inet != INET_UDP || sock_hold_cold(sock_ref_of(so), &home))
		return;
	sock_options_note(so);
	ring_release_cold(home);
}

void local_capture(void)
{
	control_assert_held();
	sock_each(note, NULL);
	if (!local_links_started())
		return;
	netlink_expire(); /* destinations of datagrams are found again: local_find() */
	if (!ring_hold_cold(local_ring()))
		return;
	local_conns_each(local_capture_conn, ring_capture_runs());
	ring_release_cold(local_ring());
}
