/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets in ordinary memory. */
#include "base/mem.h"
#include "base/param.h"
#include "ring/ring.h"

static unsigned heap_pkts; /* any, atomic: how many there are, for VMA_RX_BUFS */

static void heap_put(struct pkt_pool *pool, struct pkt *pkt)
{
	__atomic_fetch_sub(&heap_pkts, 1, __ATOMIC_RELAXED);
	mem_free(pkt);
}

static struct pkt_pool heap_pool = {.put = heap_put, .flags = PKT_POOL_SHARED};

/* Its header is not set. */
static struct pkt *allocate(uint32_t room)
{
	struct pkt *pkt;

	if (__atomic_load_n(&heap_pkts, __ATOMIC_RELAXED) >= (unsigned)params.rx_bufs)
		return NULL;
	pkt = mem_alloc(sizeof(*pkt) + room);
	if (pkt)
		__atomic_fetch_add(&heap_pkts, 1, __ATOMIC_RELAXED);
	return pkt;
}

static void set_frame(struct pkt *pkt, uint32_t room)
{
	pkt->pool = &heap_pool;
	pkt->frame = (uint8_t *)(pkt + 1);
	pkt->room = room;
	pkt->next = NULL;
}

struct pkt *pkt_blank(uint32_t room)
{
	struct pkt *pkt = allocate(room);

	if (pkt) {
		*pkt = (struct pkt){.frame_len = 0};
		set_frame(pkt, room);
	}
	return pkt;
}

struct pkt *pkt_copy(const struct pkt *pkt)
{
	struct pkt *copy = allocate(pkt->frame_len);

	if (!copy)
		return NULL;
	*copy = *pkt;
	set_frame(copy, pkt->frame_len);
	memcpy(copy->frame, pkt->frame, pkt->frame_len);
	return copy;
}

struct pkt *ring_copy_out(struct ring *ring, struct pkt *pkt)
{
	struct pkt *copy;

	if (pkt->pool->flags & PKT_POOL_SHARED)
		return pkt;
	copy = pkt_copy(pkt);
	if (copy) {
		ring->stats.copied++;
		pkt_free(pkt);
	}
	return copy;
}

struct pkt *ring_travel(struct ring *ring, struct pkt *pkt)
{
	struct pkt *copy = ring_copy_out(ring, pkt);

	return copy ? copy : pkt;
}
