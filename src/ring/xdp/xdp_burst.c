/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The hot path of the xdp port: bursts in, bursts out, frames in a circle.
 */
#include <errno.h>

#include "base/list.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

#define IDLES_A_LOOK 256
#define GIVE_TRIES 10

static inline struct xdp_queue *queue_of(struct port_queue *q)
{
	return container_of(q, struct xdp_queue, base);
}

/* ---- frames ----------------------------------------------------------------- */

/* Others take from the pool and give to it: what we could get is looked up in passing. */
void xdp_count_free(struct xdp_queue *q)
{
	unsigned n = q->free.n + group_pool_count(q->group);
	unsigned may = q->held < q->held_max ? q->held_max - q->held : 0;

	if (n > may)
		n = may;
	/* Never less than what is on the stack: each of these is counted down. */
	q->base.frames_free = n > q->free.n ? n : q->free.n;
}

__attribute__((noinline)) void xdp_give_some(struct xdp_queue *q)
{
	xdp_share(q);
	if (q->free.n > q->free_max)
		group_give(q->group, &q->free, q->free.n - q->free_max / 2);
	if (q->free.n == q->nframes)
		q->free.n--; /* some are there twice: there must be room for one more */
	xdp_count_free(q);
}

/* There is room: above free_max it is seen to. */
static inline void free_push(struct xdp_queue *q, uint32_t frame)
{
	unsigned n = q->free.n;

	q->free.frames[n++] = frame;
	q->free.n = n;
	q->base.frames_free++;
	if (__builtin_expect(n > q->free_max, 0))
		xdp_give_some(q);
}

void xdp_take_back(struct xdp_queue *q, uint32_t frame)
{
	__atomic_store_n(&q->owner[frame], q->held_word, __ATOMIC_RELAXED);
	free_push(q, frame);
}

void xdp_pool_put(struct pkt_pool *pool, struct pkt *pkt)
{
	struct xdp_queue *q = container_of(pool, struct xdp_queue, base.pool);

	if (port_give_back(&q->base, pkt))
		return;
	q->held--;
	free_push(q, (uint32_t)(pkt - q->pkts));
}

/* ---- receive ---------------------------------------------------------------- */

/* Only a driver that fills its own rings sleeps until it is told of new frames. */
static inline void wake_fill(const struct xdp_queue *q, unsigned i)
{
	if (__builtin_expect(!q->zerocopy, 1))
		return;
	if (*q->group->fill[i].flags & XDP_RING_NEED_WAKEUP)
		sys_recvfrom(q->socks[i].fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

static uint32_t rx_waiting(const struct xdp_sock *s)
{
	return __atomic_load_n(s->rx.producer, __ATOMIC_RELAXED) - *s->rx.consumer;
}

/* Puts what is missing into a fill ring, as far as frames allow. */
static __attribute__((noinline)) void refill(struct xdp_queue *q, struct xdp_sock *s)
{
	unsigned i = (unsigned)(s - q->socks);

	s->taken = group_fill(q->group, &q->free, i, rx_waiting(s));
	xdp_share(q);
	wake_fill(q, i);
}

/* Whoever has this ring keeps too much. */
static __attribute__((noinline)) struct pkt *refuse(struct xdp_queue *q, uint32_t frame)
{
	free_push(q, frame);
	return NULL;
}

static inline struct pkt *received(struct xdp_queue *q, const struct xdp_desc *desc)
{
	uint32_t mask = (1u << q->frame_shift) - 1;
	uint64_t frame = desc->addr >> q->frame_shift;
	struct pkt *pkt = &q->pkts[frame];

	if (__builtin_expect(frame >= q->nframes, 0))
		return NULL;
	/* Before the entry is released: see tell_drained(). */
	__atomic_store_n(&q->owner[frame], q->held_word, __ATOMIC_RELAXED);
	if (__builtin_expect(q->held >= q->held_max, 0))
		return refuse(q, (uint32_t)frame);
	q->held++;
	pkt->frame = q->umem + desc->addr;
	pkt->frame_len = desc->len;
	pkt->room = mask + 1 - ((uint32_t)desc->addr & mask);
	pkt->pool = &q->base.pool;
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

static inline __attribute__((always_inline)) int rx_sock(struct xdp_queue *q, struct xdp_sock *s,
							 struct pkt **pkts, int max)
{
	uint32_t idx, n;
	int got;

	do {
		n = xsk_ring_cons__peek(&s->rx, (uint32_t)max, &idx);
		if (!n)
			return 0;
		got = rx_descs(q, s, idx, n, pkts);
		xsk_ring_cons__release(&s->rx, n);
		if (__builtin_expect(q->zerocopy, 0))
			xdp_drive_arrived(s);
		s->taken += n;
		if (s->taken >= q->fill_batch)
			refill(q, s);
	} while (!got);
	return got;
}

/* ---- both ------------------------------------------------------------------- */

/*
 * Nothing arrived: time for what the busy path puts off.  The fill rings are
 * looked at now and then even if we took nothing: who did may have died.
 */
static __attribute__((noinline)) void rx_idle(struct xdp_queue *q)
{
	bool look = ++q->idles % IDLES_A_LOOK == 0;

	xdp_tx_idle(q, look);
	for (unsigned i = 0; i < q->nsocks; i++) {
		if (q->socks[i].taken >= q->fill_batch || look)
			refill(q, &q->socks[i]);
		wake_fill(q, i);
	}
	/* A copy is compared: others write in the same cache line. */
	if (q->told_spare != q->free.n) {
		q->told_spare = q->free.n;
		group_slot_tell_spare(q->group, q->slot, q->free.n);
	}
}

static inline __attribute__((always_inline)) int rx_socks(struct xdp_queue *q, struct pkt **pkts,
							  int max)
{
	unsigned i = q->next;
	int n = 0;

	for (unsigned looked = 0; looked < q->nsocks && n < max; looked++) {
		n += rx_sock(q, &q->socks[i], pkts + n, max - n);
		if (++i == q->nsocks)
			i = 0;
	}
	q->next = i;
	return n;
}

static __attribute__((noinline)) int rx_driven(struct xdp_queue *q, struct pkt **pkts, int max)
{
	return xdp_drive_idle(q) ? rx_socks(q, pkts, max) : 0;
}

int xdp_rx_burst(struct port_queue *base, struct pkt **pkts, int max)
{
	struct xdp_queue *q = queue_of(base);
	int n = rx_socks(q, pkts, max);

	if (n)
		return n;
	rx_idle(q);
	return __builtin_expect(q->zerocopy, 0) ? rx_driven(q, pkts, max) : 0;
}

bool xdp_rx_pending(struct port_queue *base)
{
	struct xdp_queue *q = queue_of(base);

	for (unsigned i = 0; i < q->nsocks; i++)
		if (xsk_cons_nb_avail(&q->socks[i].rx, 1))
			return true;
	return false;
}

void xdp_drain(struct xdp_queue *q)
{
	struct pkt *pkts[64];
	int n;

	xdp_tx_flush(&q->base);
	while ((n = xdp_rx_burst(&q->base, pkts, 64)))
		while (n--)
			pkt_free(pkts[n]);
	xdp_give_back(q);
}

void xdp_give_back(struct xdp_queue *q)
{
	xdp_tx_flush(&q->base);
	for (unsigned i = 0; i < q->nsocks; i++)
		refill(q, &q->socks[i]);
	for (int i = 0; q->free.n && i < GIVE_TRIES; i++)
		group_give(q->group, &q->free, q->free.n);
}
