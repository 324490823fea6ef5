/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hot path of the xdp port: bursts in, bursts out, frames in a circle.
 */
#include <errno.h>

#include "base/list.h"
#include "base/sys.h"
#include "ring/port_xdp_internal.h"

#define TX_KICKS_MAX 128 /* of one flush: a full TX ring at 32 frames a kick, and some in vain */

static inline struct xdp_queue *queue_of(struct port_queue *q)
{
	return container_of(q, struct xdp_queue, base);
}

static inline void free_push(struct xdp_queue *q, uint32_t frame)
{
	q->free[q->base.frames_free++] = frame;
}

static inline uint32_t free_pop(struct xdp_queue *q)
{
	return q->free[--q->base.frames_free];
}

void xdp_pool_put(struct pkt_pool *pool, struct pkt *pkt)
{
	struct xdp_queue *q = container_of(pool, struct xdp_queue, base.pool);

	if (port_give_back(&q->base, pkt))
		return;
	free_push(q, (uint32_t)(pkt - q->pkts));
}

/* ---- receive ---------------------------------------------------------------- */

/* Only a driver that fills its own rings sleeps until it is told of new frames. */
static inline void wake_fill(const struct xdp_queue *q, struct xdp_sock *s)
{
	if (q->zerocopy && xsk_ring_prod__needs_wakeup(&s->fill))
		sys_recvfrom(s->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

void xdp_refill(struct xdp_queue *q, struct xdp_sock *s)
{
	unsigned n = s->fill_missing, spare = 0;
	uint32_t idx;

	if (q->base.frames_free > XDP_TX_RESERVE)
		spare = q->base.frames_free - XDP_TX_RESERVE;
	if (n > spare)
		n = spare;
	if (!n || !xsk_ring_prod__reserve(&s->fill, n, &idx))
		return;
	for (unsigned i = 0; i < n; i++)
		*xsk_ring_prod__fill_addr(&s->fill, idx + i) = (uint64_t)free_pop(q)
							       << q->frame_shift;
	xsk_ring_prod__submit(&s->fill, n);
	s->fill_missing -= n;
	wake_fill(q, s);
}

static inline struct pkt *received(struct xdp_queue *q, const struct xdp_desc *desc)
{
	uint32_t mask = (1u << q->frame_shift) - 1;
	struct pkt *pkt = &q->pkts[desc->addr >> q->frame_shift];

	pkt->frame = q->umem + desc->addr;
	pkt->frame_len = desc->len;
	pkt->room = mask + 1 - ((uint32_t)desc->addr & mask);
	pkt->stamp = 0;
	pkt->flags = 0;
	__builtin_prefetch(pkt->frame);
	return pkt;
}

/* The packets that n descriptors are; fewer, maybe none, when some are pieces. */
static inline int rx_descs(struct xdp_queue *q, struct xdp_sock *s, uint32_t idx, uint32_t n,
			   struct pkt **pkts)
{
	int got = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct xdp_desc *desc = xsk_ring_cons__rx_desc(&s->rx, idx + i);
		struct pkt *pkt;

		if (__builtin_expect((desc->options & XDP_PKT_CONTD) || s->in_big, false))
			pkt = xdp_big_add(q, s, desc);
		else
			pkt = received(q, desc);
		if (pkt)
			pkts[got++] = pkt;
	}
	return got;
}

static inline int rx_sock(struct xdp_queue *q, struct xdp_sock *s, struct pkt **pkts, int max)
{
	uint32_t idx, n;
	int got;

	do {
		n = xsk_ring_cons__peek(&s->rx, (uint32_t)max, &idx);
		if (!n)
			return 0;
		got = rx_descs(q, s, idx, n, pkts);
		xsk_ring_cons__release(&s->rx, n);
		s->fill_missing += n;
		if (s->fill_missing >= XDP_FILL_BATCH)
			xdp_refill(q, s);
	} while (!got);
	return got;
}

/* ---- transmit --------------------------------------------------------------- */

/* All of it leaves through the first socket. */
static inline struct xdp_sock *tx_sock(struct xdp_queue *q)
{
	return &q->socks[0];
}

static unsigned tx_reap(struct xdp_queue *q)
{
	struct xdp_sock *s = tx_sock(q);
	uint32_t idx, n;

	n = xsk_ring_cons__peek(&s->comp, XDP_TX_ENTRIES, &idx);
	if (!n)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		free_push(q, (uint32_t)(*xsk_ring_cons__comp_addr(&s->comp, idx + i) >>
					q->frame_shift));
	xsk_ring_cons__release(&s->comp, n);
	q->tx_outstanding -= n;
	return n;
}

static inline bool tx_consumed(const struct xdp_sock *s)
{
	return __atomic_load_n(s->tx.consumer, __ATOMIC_RELAXED) == s->tx.cached_prod;
}

/*
 * In copy mode the kernel sends at most 32 frames a kick, in this very call,
 * and stops early when the device is busy, the socket's send buffer is used up
 * or the completion ring is full.
 */
static void tx_kick(struct xdp_queue *q)
{
	struct xdp_sock *s = tx_sock(q);
	unsigned in_vain = 0;

	for (int i = 0; i < TX_KICKS_MAX && in_vain < 4; i++) {
		uint32_t before = *s->tx.consumer;

		if (!xsk_ring_prod__needs_wakeup(&s->tx))
			break;
		sys_sendto(s->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
		if (tx_consumed(s)) {
			q->tx_stuck = false;
			return;
		}
		if (!tx_reap(q) && before == *s->tx.consumer)
			in_vain++;
	}
	/* The driver is at it, or rx_burst() tries again. */
	q->tx_stuck = !tx_consumed(s);
}

struct pkt *xdp_tx_get(struct port_queue *base)
{
	struct xdp_queue *q = queue_of(base);
	struct pkt *pkt;
	uint32_t frame;

	if (!base->frames_free && !tx_reap(q))
		return NULL;
	frame = free_pop(q);
	pkt = &q->pkts[frame];
	pkt->frame = q->umem + ((size_t)frame << q->frame_shift);
	pkt->frame_len = 0;
	pkt->room = 1u << q->frame_shift;
	pkt->flags = 0;
	return pkt;
}

int xdp_tx_put(struct port_queue *base, struct pkt *pkt)
{
	struct xdp_queue *q = queue_of(base);
	struct xdp_sock *s = tx_sock(q);
	struct xdp_desc *desc;
	uint32_t idx;

	if (!xsk_ring_prod__reserve(&s->tx, 1, &idx)) {
		xdp_tx_flush(base);
		tx_kick(q);
		if (!xsk_ring_prod__reserve(&s->tx, 1, &idx)) {
			pkt_free(pkt);
			return -ENOBUFS;
		}
	}
	desc = xsk_ring_prod__tx_desc(&s->tx, idx);
	desc->addr = (uint64_t)(pkt->frame - q->umem);
	desc->len = pkt->frame_len;
	desc->options = 0;
	q->tx_unflushed++;
	q->tx_outstanding++;
	return 0;
}

void xdp_tx_flush(struct port_queue *base)
{
	struct xdp_queue *q = queue_of(base);

	if (!q->tx_unflushed)
		return;
	xsk_ring_prod__submit(&tx_sock(q)->tx, q->tx_unflushed);
	q->tx_unflushed = 0;
	tx_kick(q);
	if (q->tx_outstanding >= XDP_REAP_BATCH)
		tx_reap(q);
}

/* ---- both ------------------------------------------------------------------- */

/* Nothing arrived: time for what the busy path puts off. */
static void rx_idle(struct xdp_queue *q)
{
	if (q->tx_outstanding) {
		tx_reap(q);
		if (q->tx_stuck)
			tx_kick(q);
	}
	for (unsigned i = 0; i < q->nsocks; i++) {
		if (q->socks[i].fill_missing >= XDP_FILL_BATCH)
			xdp_refill(q, &q->socks[i]);
		wake_fill(q, &q->socks[i]);
	}
}

int xdp_rx_burst(struct port_queue *base, struct pkt **pkts, int max)
{
	struct xdp_queue *q = queue_of(base);
	unsigned i = q->next;
	int n = 0;

	for (unsigned looked = 0; looked < q->nsocks && n < max; looked++) {
		n += rx_sock(q, &q->socks[i], pkts + n, max - n);
		if (++i == q->nsocks)
			i = 0;
	}
	q->next = i;
	if (!n)
		rx_idle(q);
	return n;
}

bool xdp_rx_pending(struct port_queue *base)
{
	struct xdp_queue *q = queue_of(base);

	for (unsigned i = 0; i < q->nsocks; i++)
		if (xsk_cons_nb_avail(&q->socks[i].rx, 1))
			return true;
	return false;
}
