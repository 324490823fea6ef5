/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving bursts, and the way of frames back to the fill rings: the hot path of the xdp port.
 */
#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/sys.h"
#include "ring/xdp/xdp_internal.h"

#define IDLES_A_LOOK 256 /* idle bursts between looks at rings that seem to need nothing */
#define GIVE_TRIES 10	 /* attempts to lock the pool when the queue is closed */

static inline struct xdp_queue *queue_of(struct port_queue *q)
{
	return container_of(q, struct xdp_queue, base);
}

/* ---- frames ----------------------------------------------------------------- */

/* Other members change the pool, so this reads how many frames the queue could get from it. */
void xdp_count_free(struct xdp_queue *q)
{
	unsigned n = q->free.n + group_pool_count(q->group);
	unsigned may = q->held < q->held_max ? q->held_max - q->held : 0;

	if (n > may)
		n = may;
	/* Not less than the stack has: xdp_tx_get() counts down for each of its frames. */
	q->base.frames_free = n > q->free.n ? n : q->free.n;
}

__attribute__((noinline)) void xdp_give_some(struct xdp_queue *q)
{
	xdp_share(q);
	if (q->free.n > q->free_max)
		group_give(q->group, &q->free, q->free.n - q->free_max / 2);
	if (q->free.n == q->nframes)
		q->free.n--; /* a frame is there twice; keep room for one more */
	xdp_count_free(q);
}

/* The stack has room: xdp_give_some() makes it when there are more than free_max. */
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

struct pkt *xdp_pool_put_some(struct pkt_pool *pool, struct pkt *list)
{
	struct xdp_queue *q = container_of(pool, struct xdp_queue, base.pool);
	unsigned n = q->free.n, before = n, max = q->free_max;
	uint32_t *frames = q->free.frames;
	const struct pkt *pkts = q->pkts;
	struct pkt *next = list->next;

	if (port_give_back(&q->base, list))
		return next;
	do {
		next = list->next;
		frames[n++] = (uint32_t)(list - pkts);
		list = next;
	} while (n <= max && list && list->pool == pool);
	q->held -= n - before;
	q->free.n = n;
	q->base.frames_free += n - before;
	if (__builtin_expect(n > max, 0))
		xdp_give_some(q);
	return list;
}

/* ---- receive ---------------------------------------------------------------- */

/* Only in zero-copy mode does the driver need a wake-up when there are new frames. */
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

/* Fills up the fill ring of a socket's RX queue, as far as there are free frames. */
static __attribute__((noinline)) void refill(struct xdp_queue *q, struct xdp_sock *s)
{
	unsigned i = (unsigned)(s - q->socks);

	s->taken = group_fill(q->group, &q->free, i, rx_waiting(s));
	xdp_share(q);
	wake_fill(q, i);
}

/*
 * What receiving reads of a queue, and does not change.  A copy stays in registers: the compiler does not
 * know that no packet is part of the queue.
 */
struct rx_view {
	uint8_t *umem;
	struct pkt *pkts;
	struct pkt_pool *pool;
	uint64_t *owner;
	uint64_t held_word;
	uint64_t nframes;
	unsigned frame_shift;
};

static inline struct rx_view view_of(struct xdp_queue *q)
{
	return (struct rx_view){
		.umem = q->umem,
		.pkts = q->pkts,
		.pool = &q->base.pool,
		.owner = q->owner,
		.held_word = q->held_word,
		.nframes = q->nframes,
		.frame_shift = q->frame_shift,
	};
}

/* A whole frame that exists? */
static inline bool is_plain(const struct rx_view *view, const struct xdp_desc *desc)
{
	return !(desc->options & XDP_PKT_CONTD) && desc->addr >> view->frame_shift < view->nframes;
}

/* The packet of a plain frame; the caller counts it. */
static inline struct pkt *take(const struct rx_view *view, const struct xdp_desc *desc)
{
	uint32_t mask = (1u << view->frame_shift) - 1;
	uint64_t addr = desc->addr, frame = addr >> view->frame_shift;
	struct pkt *pkt = &view->pkts[frame];

	/* Before the entry is released: see is_drained() in xdp_group_service.c. */
	__atomic_store_n(&view->owner[frame], view->held_word, __ATOMIC_RELAXED);
	pkt->frame = view->umem + addr;
	pkt->frame_len = desc->len;
	pkt->room = mask + 1 - ((uint32_t)addr & mask);
	pkt->pool = view->pool;
	pkt->stamp = 0;
	pkt->flags = 0;
	__builtin_prefetch(pkt->frame);
	return pkt;
}

/* NULL: it is a piece, or it was dropped. */
static struct pkt *take_any(struct xdp_queue *q, struct xdp_sock *s, const struct xdp_desc *desc)
{
	struct rx_view view = view_of(q);
	uint64_t frame = desc->addr >> q->frame_shift;

	if ((desc->options & XDP_PKT_CONTD) || s->in_big)
		return xdp_big_add(q, s, desc);
	if (is_plain(&view, desc) && q->held < q->held_max) {
		q->held++;
		return take(&view, desc);
	}
	if (frame < q->nframes)
		xdp_take_back(q, (uint32_t)frame);
	return NULL;
}

/* rx_descs() from descriptor i on: it is not plain, the ring's first entry, or too many are held. */
static __attribute__((noinline)) int rx_rest(struct xdp_queue *q, struct xdp_sock *s, uint32_t idx,
					     uint32_t n, struct pkt **pkts, uint32_t i)
{
	uint32_t got = i;

	for (; i < n; i++) {
		pkts[got] = take_any(q, s, xsk_ring_cons__rx_desc(&s->rx, idx + i));
		got += pkts[got] != NULL;
	}
	return (int)got;
}

/* Makes packets of n descriptors in turn, as far as they are plain; returns their number. */
static inline __attribute__((always_inline)) uint32_t
take_plain(struct xdp_queue *q, const struct xdp_desc *desc, uint32_t n, struct pkt **pkts)
{
	struct rx_view view = view_of(q);
	uint32_t i = 0;

	for (; i < n; i++, desc++) {
		if (__builtin_expect(!is_plain(&view, desc), 0))
			break;
		pkts[i] = take(&view, desc);
	}
	q->held += i;
	return i;
}

/* With the registers that a loop needs; up to the last entry of the RX ring. */
static __attribute__((noinline)) uint32_t take_many(struct xdp_queue *q, const struct xdp_sock *s,
						    uint32_t idx, uint32_t n, struct pkt **pkts)
{
	const struct xdp_desc *descs = s->rx.ring;
	uint32_t at = idx & s->rx.mask, up = s->rx.mask + 1 - at;

	return take_plain(q, &descs[at], n < up ? n : up, pkts);
}

/* Makes packets of n descriptors; returns their number, less than n if some are pieces. */
static inline __attribute__((always_inline)) int
rx_descs(struct xdp_queue *q, struct xdp_sock *s, uint32_t idx, uint32_t n, struct pkt **pkts)
{
	const struct xdp_desc *descs = s->rx.ring;
	uint32_t i = 0;

	if (__builtin_expect(!s->in_big && q->held + n <= q->held_max, 1))
		i = n == 1 ? take_plain(q, &descs[idx & s->rx.mask], 1, pkts)
			   : take_many(q, s, idx, n, pkts);
	if (__builtin_expect(i < n, 0))
		return rx_rest(q, s, idx, n, pkts, i);
	return (int)n;
}

/* got: what rx_sock() returns. */
static __attribute__((noinline)) int rx_released(struct xdp_queue *q, struct xdp_sock *s, int got)
{
	if (q->zerocopy)
		xdp_drive_arrived(s);
	if (s->taken >= q->fill_batch)
		refill(q, s);
	return got;
}

/* n descriptors were taken, and made got packets, whose number is returned. */
static inline __attribute__((always_inline)) int rx_release(struct xdp_queue *q, struct xdp_sock *s,
							    uint32_t n, int got)
{
	xsk_ring_cons__release(&s->rx, n);
	s->taken += n;
	if (__builtin_expect(q->zerocopy || s->taken >= q->fill_batch, 0))
		return rx_released(q, s, got);
	return got;
}

/* Most bursts are of one socket and of plain frames: then nothing is called on the way. */
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
		got = rx_release(q, s, n, got);
	} while (__builtin_expect(!got, 0));
	return got;
}

/* ---- several RX queues ------------------------------------------------------- */

/*
 * A flow may change its RX queue: behind a tap device, or where the card steers by what it sent,
 * frames come by the queue by which the last answer left.  Then frames of a flow lie in two RX
 * rings.  They are received in the order of the time that the XDP program wrote in front of them.
 */

#define NO_FRAME UINT64_MAX

/* A socket with frames. */
struct rx_head {
	struct xdp_sock *s;
	uint64_t stamp; /* of the next frame */
	uint32_t due;	/* of the frames that were there at the first look */
	uint32_t taken;
};

/* Finds the frames that wait in the RX ring; returns their number. */
static inline uint32_t rx_look(struct xdp_sock *s)
{
	/* Pairs with the kernel's release store when it adds frames. */
	s->rx.cached_prod = __atomic_load_n(s->rx.producer, __ATOMIC_ACQUIRE);
	return s->rx.cached_prod - s->rx.cached_cons;
}

/* Any member could write the stamp.  It decides about nothing but the order. */
static uint64_t stamp_of(const struct xdp_queue *q, const struct xdp_sock *s)
{
	uint64_t addr, stamp;

	if (s->rx.cached_prod == s->rx.cached_cons)
		return NO_FRAME;
	addr = xsk_ring_cons__rx_desc(&s->rx, s->rx.cached_cons)->addr;
	if (s->in_big || addr < sizeof(stamp) || addr >> q->frame_shift >= q->nframes)
		return 0; /* a frame that has begun is not put off */
	memcpy(&stamp, q->umem + addr - sizeof(stamp), sizeof(stamp));
	return stamp & INT64_MAX;
}

static struct rx_head *oldest(struct rx_head *heads, unsigned n)
{
	struct rx_head *found = heads;

	for (unsigned i = 1; i < n; i++)
		if (heads[i].stamp < found->stamp)
			found = &heads[i];
	return found;
}

/* Receives the due frames, and those that are older than one of them. */
static int rx_merge(struct xdp_queue *q, struct rx_head *heads, unsigned n, struct pkt **pkts,
		    int max)
{
	uint32_t due = 0, idx = 0;
	int got = 0;

	for (unsigned i = 0; i < n; i++)
		due += heads[i].due;
	while (due && got < max) {
		struct rx_head *head = oldest(heads, n);

		xsk_ring_cons__peek(&head->s->rx, 1, &idx);
		got += rx_descs(q, head->s, idx, 1, pkts + got);
		due -= head->taken++ < head->due;
		head->stamp = stamp_of(q, head->s);
	}
	for (unsigned i = 0; i < n; i++)
		if (heads[i].taken)
			rx_release(q, heads[i].s, heads[i].taken, got);
	return got;
}

/*
 * Looks at each ring twice: what came before a frame of the first look is there at the second
 * look at the latest.
 */
static __attribute__((noinline)) int rx_ordered(struct xdp_queue *q, struct pkt **pkts, int max)
{
	struct rx_head heads[XDP_STEER_QUEUES];
	uint32_t due[XDP_STEER_QUEUES], any = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < q->nsocks; i++) {
		due[i] = rx_look(&q->socks[i]);
		any |= due[i];
	}
	if (!any)
		return 0;
	for (unsigned i = 0; i < q->nsocks; i++) {
		struct xdp_sock *s = &q->socks[i];

		if (rx_look(s))
			heads[n++] = (struct rx_head){s, 0, due[i], 0};
	}
	if (n == 1)
		return rx_sock(q, heads[0].s, pkts, max);
	for (unsigned i = 0; i < n; i++)
		heads[i].stamp = stamp_of(q, heads[i].s);
	return rx_merge(q, heads, n, pkts, max);
}

/* ---- bursts ----------------------------------------------------------------- */

/*
 * No frames arrived: does what the busy path puts off.  It looks at the fill rings from time to
 * time even if this queue took no frames, because the member that took them may have died.
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

static __attribute__((noinline)) int rx_socks(struct xdp_queue *q, struct pkt **pkts, int max)
{
	unsigned i = q->next;
	int n = 0;

	/* Pairs with the program's store; which burst sees it first does not matter. */
	if (q->nsocks > 1 && !__atomic_load_n(q->unstamped, __ATOMIC_RELAXED))
		return rx_ordered(q, pkts, max);
	for (unsigned looked = 0; looked < q->nsocks && n < max; looked++) {
		n += rx_sock(q, &q->socks[i], pkts + n, max - n);
		if (++i == q->nsocks)
			i = 0;
	}
	q->next = i;
	return n;
}

static __attribute__((noinline)) int rx_nothing(struct xdp_queue *q, struct pkt **pkts, int max)
{
	rx_idle(q);
	if (__builtin_expect(!q->zerocopy, 1) || !xdp_drive_idle(q))
		return 0;
	return rx_socks(q, pkts, max);
}

int xdp_rx_burst(struct port_queue *base, struct pkt **pkts, int max)
{
	struct xdp_queue *q = queue_of(base);
	int n;

	if (__builtin_expect(q->nsocks == 1, 1))
		n = rx_sock(q, &q->socks[0], pkts, max);
	else
		n = rx_socks(q, pkts, max); /* none: it is not open */
	return n ? n : rx_nothing(q, pkts, max);
}

/* ---- times of arrival --------------------------------------------------------- */

#define CLOCKS_DIFFER (20 * NSEC_PER_USEC) /* by more than two readings: the clock was set */

/* CLOCK_REALTIME less CLOCK_MONOTONIC: the same until the clock is set, so that times are in order. */
static nsec_t real_ahead(struct xdp_queue *q, nsec_t now)
{
	nsec_t ahead = clock_real() - now, error = ahead - q->real_ahead;

	if (error > CLOCKS_DIFFER || error < -CLOCKS_DIFFER)
		q->real_ahead = ahead;
	return q->real_ahead;
}

static bool has_headroom(const struct xdp_queue *q, const struct pkt *pkt)
{
	return pkt->pool != &q->base.pool || /* see xdp_big.c */
	       (1u << q->frame_shift) - pkt->room >= sizeof(struct pkt_arrival);
}

/* The XDP program wrote the time of each in front of it. */
static void stamp_pkts(struct xdp_queue *q, struct pkt **pkts, int n)
{
	nsec_t now = clock_now(), ahead = real_ahead(q, now), at;

	for (int i = 0; i < n; i++) {
		struct pkt *pkt = pkts[i];

		if (!has_headroom(q, pkt))
			continue;
		memcpy(&at, pkt->frame - sizeof(at), sizeof(at));
		/* The next frame here may have no time: it must not have this one. */
		pkt_arrival(pkt)->device = 0;
		if (at <= 0 || at > now + CLOCKS_DIFFER)
			continue;
		pkt_arrival(pkt)->real = at + ahead;
		pkt->flags |= PKT_ARRIVAL;
	}
}

int xdp_rx_burst_stamped(struct port_queue *base, struct pkt **pkts, int max)
{
	struct xdp_queue *q = queue_of(base);
	int n = xdp_rx_burst(base, pkts, max);

	/* Pairs with the program's store; which burst sees it first does not matter. */
	if (n && !__atomic_load_n(q->unstamped, __ATOMIC_RELAXED))
		stamp_pkts(q, pkts, n);
	return n;
}

/* The descriptors of AF_XDP are readable while there are frames. */
bool xdp_arm(struct port_queue *base)
{
	struct xdp_queue *q = queue_of(base);

	for (unsigned i = 0; i < q->nsocks; i++)
		if (xsk_cons_nb_avail(&q->socks[i].rx, 1))
			return false;
	return true;
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
