/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending.  There is a TX ring for each queue of the interface.  All frames of a flow leave by the
 * same one, so they stay in order.
 */
#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

#define TX_KICKS_MAX 128 /* in one flush: enough for a full TX ring at 32 frames a kick */

#define IP 14			/* offset of the IP header: our frames have no VLAN tag */
#define FRAGMENT_OFFSET 0x1fffu /* not 0: a later fragment, which has no ports */

static inline struct xdp_queue *queue_of(struct port_queue *q)
{
	return container_of(q, struct xdp_queue, base);
}

/* The asm makes gcc 12 keep the pointer, instead of computing the address at each access. */
static inline struct xdp_sock *sock_at(struct xdp_queue *q, unsigned i)
{
	struct xdp_sock *s = &q->socks[i];

	__asm__("" : "+r"(s));
	return s;
}

/* ---- frames ----------------------------------------------------------------- */

/* Reaps frames that were sent, by any member of the group; returns their number. */
static __attribute__((noinline)) unsigned tx_reap(struct xdp_queue *q)
{
	unsigned n = 0;

	for (unsigned i = 0; i < q->nsocks; i++)
		if (group_has_completions(&q->group->comp[i]))
			n += group_reap(q->group, &q->free, i);
	if (!n)
		return 0;
	q->tx_unreaped -= n < q->tx_unreaped ? n : q->tx_unreaped;
	if (q->free.n > q->free_max)
		xdp_give_some(q);
	xdp_count_free(q);
	return n;
}

/* The stack is empty: gets frames from completion rings or the pool. */
static __attribute__((noinline)) bool get_some(struct xdp_queue *q)
{
	bool got;

	xdp_share(q);
	if (q->held >= q->held_max)
		return false;
	got = tx_reap(q) || group_take(q->group, &q->free, q->free_max / 2 + 1);
	xdp_count_free(q);
	return got;
}

static __attribute__((noinline)) struct pkt *get_after_some(struct xdp_queue *q)
{
	return get_some(q) ? xdp_tx_get(&q->base) : NULL;
}

struct pkt *xdp_tx_get(struct port_queue *base)
{
	struct xdp_queue *q = queue_of(base);
	unsigned shift = q->frame_shift;
	struct pkt *pkt;
	uint32_t frame;

	if (__builtin_expect(!q->free.n, 0))
		return get_after_some(q);
	frame = q->free.frames[--q->free.n];
	base->frames_free--;
	q->held++;
	pkt = &q->pkts[frame];
	pkt->pool = &base->pool;
	pkt->frame = q->umem + ((size_t)frame << shift);
	pkt->frame_len = 0;
	pkt->room = 1u << shift;
	pkt->flags = 0;
	return pkt;
}

/* ---- kicks ------------------------------------------------------------------ */

static void wake_driver(const struct xdp_sock *s)
{
	if (xsk_ring_prod__needs_wakeup(&s->tx))
		sys_sendto(s->fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
}

/* True: the kernel has taken all of the TX ring. */
static inline bool kick_once(const struct xdp_sock *s)
{
	wake_driver(s);
	return xdp_tx_consumed(s);
}

/*
 * In copy mode the kernel sends up to 32 frames within a kick.  It stops early when the device is
 * busy, the AF_XDP socket's send buffer is used up, or the completion ring is full.
 */
static bool kick_copying(struct xdp_queue *q, const struct xdp_sock *s)
{
	unsigned in_vain = 0;

	for (int i = 0; i < TX_KICKS_MAX && in_vain < 4; i++) {
		uint32_t before = *s->tx.consumer;

		if (!xsk_ring_prod__needs_wakeup(&s->tx))
			return false;
		if (kick_once(s))
			return true;
		if (!tx_reap(q) && before == *s->tx.consumer)
			in_vain++;
	}
	return false;
}

/* Kicks the kernel until it has taken all of TX ring i, or makes no progress. */
static __attribute__((noinline)) void tx_kick(struct xdp_queue *q, unsigned i)
{
	struct xdp_sock *s = &q->socks[i];
	uint64_t bit = 1ull << i;
	bool taken;

	if (q->zerocopy)
		taken = xdp_drive_send(q, s) || kick_once(s);
	else
		taken = kick_copying(q, s);
	/* If not taken, xdp_tx_idle() tries again. */
	q->tx_stuck = taken ? q->tx_stuck & ~bit : q->tx_stuck | bit;
	if (taken)
		s->drive.stuck_since = 0;
}

/* Usually this is one kick of one socket that has nothing else to send. */
static inline void flush_one(struct xdp_queue *q, unsigned i)
{
	struct xdp_sock *s = sock_at(q, i);

	/* All entries that were reserved are filled.  release: pairs with the kernel's load */
	__atomic_store_n(s->tx.producer, s->tx.cached_prod, __ATOMIC_RELEASE);
	if (__builtin_expect(q->zerocopy | (q->tx_stuck != 0), 0) ||
	    __builtin_expect(!kick_once(s), 0))
		tx_kick(q, i);
}

static __attribute__((noinline)) void flush_many(struct xdp_queue *q, uint64_t dirty)
{
	for (; dirty; dirty &= dirty - 1)
		flush_one(q, (unsigned)__builtin_ctzll(dirty));
}

void xdp_tx_flush(struct port_queue *base)
{
	struct xdp_queue *q = queue_of(base);
	uint64_t dirty = q->tx_dirty;

	q->tx_dirty = 0;
	if (__builtin_expect(dirty == 1, 1))
		flush_one(q, 0);
	else
		flush_many(q, dirty);
	if (__builtin_expect(q->tx_unreaped >= XDP_REAP_BATCH, 0))
		tx_reap(q);
}

void xdp_tx_idle(struct xdp_queue *q, bool look)
{
	if (q->tx_unreaped >= XDP_REAP_IDLE || (look && q->tx_unreaped))
		tx_reap(q);
	for (uint64_t stuck = q->tx_stuck; stuck; stuck &= stuck - 1) {
		unsigned i = (unsigned)__builtin_ctzll(stuck);

		tx_kick(q, i);
		if (q->zerocopy && q->tx_stuck & 1ull << i)
			xdp_drive_stuck(q, &q->socks[i]);
	}
}

/* ---- one frame -------------------------------------------------------------- */

/* Later fragments are put right after the first one, and use the same socket. */
static __attribute__((noinline)) unsigned pick_sock(struct xdp_queue *q, const uint8_t *frame)
{
	uint32_t src, dst, ports, hash;
	uint16_t offset;

	memcpy(&offset, frame + IP + 6, sizeof(offset));
	if (__builtin_bswap16(offset) & FRAGMENT_OFFSET)
		return q->tx_last;
	memcpy(&src, frame + IP + 12, sizeof(src));
	memcpy(&dst, frame + IP + 16, sizeof(dst));
	memcpy(&ports, frame + IP + 20, sizeof(ports));
	hash = (src ^ __builtin_bswap32(dst)) * 0x9e3779b1u;
	hash = (hash ^ ports) * 0x85ebca6bu;
	q->tx_last = (unsigned)((uint64_t)hash * q->tx_socks >> 32);
	return q->tx_last;
}

static __attribute__((noinline)) bool make_room(struct xdp_queue *q, unsigned i, uint32_t n,
						uint32_t *idx)
{
	q->tx_dirty &= ~(1ull << i);
	flush_one(q, i);
	tx_reap(q);
	return xsk_ring_prod__reserve(&q->socks[i].tx, n, idx);
}

/* options: XDP_PKT_CONTD, if another piece of the frame follows. */
static inline void put_desc(struct xdp_queue *q, struct xdp_sock *s, uint32_t idx,
			    const struct pkt *pkt, uint32_t options)
{
	struct xdp_desc *desc = xsk_ring_prod__tx_desc(&s->tx, idx);

	desc->addr = (uint64_t)(pkt->frame - q->umem);
	desc->len = pkt->frame_len;
	desc->options = options;
	__atomic_store_n(&q->owner[pkt - q->pkts], q->sent_word, __ATOMIC_RELAXED);
	q->held--;
	q->tx_unreaped++;
}

/* The TX ring of socket i may be full. */
static __attribute__((noinline)) int put_with_room(struct xdp_queue *q, unsigned i, struct pkt *pkt)
{
	uint32_t idx;

	if (!make_room(q, i, 1, &idx)) {
		pkt_free(pkt);
		return -ENOBUFS;
	}
	put_desc(q, &q->socks[i], idx, pkt, 0);
	q->tx_dirty |= 1ull << i;
	return 0;
}

static inline int put_on(struct xdp_queue *q, unsigned i, struct pkt *pkt)
{
	struct xdp_sock *s = sock_at(q, i);
	uint32_t idx;

	if (__builtin_expect(!xsk_ring_prod__reserve(&s->tx, 1, &idx), 0))
		return put_with_room(q, i, pkt);
	put_desc(q, s, idx, pkt, 0);
	q->tx_dirty |= 1ull << i;
	return 0;
}

static __attribute__((noinline)) int put_on_one(struct xdp_queue *q, struct pkt *pkt)
{
	return put_on(q, pick_sock(q, pkt->frame), pkt);
}

/* Usually there is one socket, whose number is a constant then. */
int xdp_tx_put(struct port_queue *base, struct pkt *pkt)
{
	struct xdp_queue *q = queue_of(base);

	return __builtin_expect(q->tx_socks == 1, 1) ? put_on(q, 0, pkt) : put_on_one(q, pkt);
}

/* ---- a frame in pieces ------------------------------------------------------- */

bool xdp_tx_put_pieces(struct xdp_queue *q, const uint8_t *head, struct pkt **pieces, uint32_t n)
{
	unsigned i = q->tx_socks == 1 ? 0 : pick_sock(q, head);
	struct xdp_sock *s = sock_at(q, i);
	uint32_t idx;

	if (!xsk_ring_prod__reserve(&s->tx, n, &idx) && !make_room(q, i, n, &idx))
		return false;
	for (uint32_t at = 0; at < n; at++)
		put_desc(q, s, idx + at, pieces[at], at + 1 < n ? XDP_PKT_CONTD : 0);
	q->tx_dirty |= 1ull << i;
	return true;
}

/* ---- a large segment -------------------------------------------------------- */

/* First the kernel takes all frames that were put; it sends each as it takes it. */
int xdp_tx_large(struct port_queue *base, const struct frame_large *large)
{
	struct xdp_queue *q = queue_of(base);

	if (q->tx_dirty)
		xdp_tx_flush(base);
	return q->tx_stuck ? -EAGAIN : packet_tx_send(&q->large, large);
}
