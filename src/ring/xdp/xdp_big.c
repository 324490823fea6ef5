/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames larger than a frame of the UMEM: they have memory of their own.
 *
 * What arrives comes in pieces (XDP_USE_SG, Linux 6.6), which are joined here.  These are jumbo
 * frames, and what generic XDP gets on virtual devices: TCP segments of up to 64 KB that were not
 * split yet (GSO).  If they were dropped, the connection would stall, because the sender would not
 * send smaller ones.  The packets are in ordinary memory and count as ring_keep()'s copies do, so
 * that queues that are not read leave some to others.
 *
 * What is sent is built here, and copied into frames of the UMEM, its pieces.
 *
 * Known limit: datagrams that a local sender joined (UDP_SEGMENT) and the kernel has not split
 * arrive as one datagram, if together they are not longer than the MTU; others the XDP program leaves
 * to the kernel.  With native XDP the kernel splits them first.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "ring/ring.h"
#include "ring/xdp/xdp_internal.h"

#define GSO_ROOM (ETH_HDR + ETH_TAG + IP6_HDR + 65535) /* an IP packet of any size */
#define JUMBO_ROOM (XDP_JUMBO_MTU_MAX + FRAME_HDR_MAX)
#define PIECES 3       /* frames of 4 KB: JUMBO_ROOM */
#define SPARES_MAX 64u /* built packets whose memory waits for the next one */

/* ---- what arrives ----------------------------------------------------------- */

/* A packet with headroom; NULL: there is no memory. */
static struct pkt *join_begin(const struct xdp_queue *q)
{
	uint32_t room = q->group->native ? JUMBO_ROOM : GSO_ROOM;
	struct pkt *pkt = pkt_blank(room + sizeof(struct pkt_arrival));

	if (!pkt)
		return NULL;
	pkt->frame += sizeof(struct pkt_arrival);
	pkt->room = room;
	return pkt;
}

/* The time that the XDP program wrote in front of the first piece, as for other frames. */
static void take_time(const struct xdp_queue *q, struct pkt *big, const struct xdp_desc *desc)
{
	uint64_t headroom = desc->addr & ((1u << q->frame_shift) - 1);
	uint8_t *at = q->umem + desc->addr - sizeof(nsec_t);

	*pkt_arrival(big) = (struct pkt_arrival){0};
	if (headroom < sizeof(nsec_t))
		return;
	memcpy(big->frame - sizeof(nsec_t), at, sizeof(nsec_t));
	memset(at, 0, sizeof(nsec_t)); /* the next frame here may have none */
}

struct pkt *xdp_big_add(struct xdp_queue *q, struct xdp_sock *s, const struct xdp_desc *desc)
{
	struct pkt *big = s->big;

	if (!s->in_big) {
		big = join_begin(q);
		if (big)
			take_time(q, big, desc);
	}
	s->in_big = desc->options & XDP_PKT_CONTD;
	if (big && desc->len > big->room - big->frame_len) {
		pkt_free(big);
		big = NULL;
	}
	if (big) {
		memcpy(big->frame + big->frame_len, q->umem + desc->addr, desc->len);
		big->frame_len += desc->len;
	}
	xdp_take_back(q, (uint32_t)(desc->addr >> q->frame_shift));
	s->big = s->in_big ? big : NULL;
	return s->in_big ? NULL : big;
}

/* ---- what is sent ----------------------------------------------------------- */

/* A packet to send, with memory of its own; holder. */
struct xdp_jumbo {
	struct pkt pkt;
	struct list link;
	struct pkt *pieces[PIECES];
	unsigned n_pieces;
	uint8_t bytes[];
};

static struct xdp_jumbo *jumbo_of(struct list *link)
{
	return container_of(link, struct xdp_jumbo, link);
}

static void jumbo_put(struct pkt_pool *pool, struct pkt *pkt)
{
	struct xdp_queue *q = container_of(pool, struct xdp_queue, jumbo_pool);
	struct xdp_jumbo *jumbo = container_of(pkt, struct xdp_jumbo, pkt);

	if (port_give_back(&q->base, pkt))
		return;
	while (jumbo->n_pieces)
		pkt_free(jumbo->pieces[--jumbo->n_pieces]);
	list_remove(&jumbo->link);
	if (q->n_spares == SPARES_MAX) {
		mem_free(jumbo);
		return;
	}
	list_push_back(&q->spares, &jumbo->link);
	q->n_spares++;
}

void xdp_big_init(struct xdp_queue *q)
{
	list_init(&q->jumbos);
	list_init(&q->spares);
	q->jumbo_pool.put = jumbo_put;
}

static void free_all(struct list *jumbos)
{
	while (!list_empty(jumbos)) {
		struct xdp_jumbo *jumbo = jumbo_of(jumbos->next);

		list_remove(&jumbo->link);
		mem_free(jumbo);
	}
}

void xdp_big_fini(struct xdp_queue *q)
{
	free_all(&q->jumbos);
	free_all(&q->spares);
}

/* An empty frame, without pieces.  NULL: no memory. */
static struct xdp_jumbo *jumbo_get(struct xdp_queue *q)
{
	struct xdp_jumbo *jumbo;

	if (q->n_spares) {
		jumbo = jumbo_of(q->spares.prev); /* the last one: it is in a cache */
		list_remove(&jumbo->link);
		q->n_spares--;
	} else {
		jumbo = mem_aligned(_Alignof(struct xdp_jumbo), sizeof(*jumbo) + JUMBO_ROOM);
		if (!jumbo)
			return NULL;
	}
	jumbo->pkt =
		(struct pkt){.frame = jumbo->bytes, .pool = &q->jumbo_pool, .room = JUMBO_ROOM};
	jumbo->n_pieces = 0;
	list_push_back(&q->jumbos, &jumbo->link);
	return jumbo;
}

/* The pieces that it may need are taken now: tx_put() must not find that there are none. */
struct pkt *xdp_tx_get_jumbo(struct port_queue *base)
{
	struct xdp_queue *q = container_of(base, struct xdp_queue, base);
	struct xdp_jumbo *jumbo = jumbo_get(q);
	struct pkt *piece;

	if (!jumbo)
		return NULL;
	while (jumbo->n_pieces < PIECES) {
		piece = xdp_tx_get(base);
		if (!piece) {
			pkt_free(&jumbo->pkt);
			return NULL;
		}
		jumbo->pieces[jumbo->n_pieces++] = piece;
	}
	return &jumbo->pkt;
}

/* Copies the frame into its pieces; returns their number. */
static uint32_t split(const struct xdp_queue *q, struct xdp_jumbo *jumbo)
{
	uint32_t left = jumbo->pkt.frame_len, size = 1u << q->frame_shift, n = 0;
	const uint8_t *from = jumbo->pkt.frame;

	for (; left && n < jumbo->n_pieces; n++) {
		struct pkt *piece = jumbo->pieces[n];

		piece->frame_len = left < size ? left : size;
		memcpy(piece->frame, from, piece->frame_len);
		from += piece->frame_len;
		left -= piece->frame_len;
	}
	return left ? 0 : n;
}

int xdp_tx_put_jumbo(struct port_queue *base, struct pkt *pkt)
{
	struct xdp_queue *q = container_of(base, struct xdp_queue, base);
	struct xdp_jumbo *jumbo = container_of(pkt, struct xdp_jumbo, pkt);
	uint32_t n;
	bool put;

	if (pkt->pool != &q->jumbo_pool)
		return xdp_tx_put(base, pkt);
	n = split(q, jumbo);
	put = n && xdp_tx_put_pieces(q, pkt->frame, jumbo->pieces, n);
	/* The others are free again, with the packet. */
	for (uint32_t i = n; put && i < jumbo->n_pieces; i++)
		jumbo->pieces[i - n] = jumbo->pieces[i];
	jumbo->n_pieces -= put ? n : 0;
	pkt_free(pkt);
	return put ? 0 : -ENOBUFS;
}
