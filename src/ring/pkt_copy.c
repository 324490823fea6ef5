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

struct pkt *pkt_copy(const struct pkt *pkt)
{
	struct pkt *copy;

	if (__atomic_load_n(&heap_pkts, __ATOMIC_RELAXED) >= (unsigned)params.rx_bufs)
		return NULL;
	copy = mem_alloc(sizeof(*copy) + pkt->frame_len);
	if (!copy)
		return NULL;
	__atomic_fetch_add(&heap_pkts, 1, __ATOMIC_RELAXED);
	*copy = *pkt;
	copy->pool = &heap_pool;
	copy->frame = (uint8_t *)(copy + 1);
	copy->room = pkt->frame_len;
	copy->next = NULL;
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
