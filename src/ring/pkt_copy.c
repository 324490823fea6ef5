/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets in ordinary memory. */
#include "base/mem.h"
#include "base/param.h"
#include "ring/ring.h"

/*
 * A queue may hold 1/SHARE of the memory that is left, so that many queues that are not read
 * leave some for a queue that is read.  The more queues are full, the less each may hold
 * ("Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", Choudhury and Hahne).
 */
#define SHARE 8

static size_t heap_bytes; /* atomic: any adds and subtracts; all packets here, for VMA_RX_BUFS */

static size_t bytes_left(void)
{
	size_t most = (size_t)params.rx_bufs * PKT_BUF,
	       used = __atomic_load_n(&heap_bytes, __ATOMIC_RELAXED);

	return used < most ? most - used : 0;
}

size_t pkt_bufs_left(void)
{
	return bytes_left() / PKT_BUF;
}

/* Bytes between the packet and its frame. */
static size_t headroom_of(const struct pkt *pkt)
{
	return (size_t)(pkt->frame - (const uint8_t *)(pkt + 1));
}

static void heap_put(struct pkt_pool *pool, struct pkt *pkt)
{
	__atomic_fetch_sub(&heap_bytes, pkt_size(pkt) + headroom_of(pkt), __ATOMIC_RELAXED);
	mem_free(pkt);
}

static struct pkt_pool heap_pool = {.put = heap_put, .flags = PKT_POOL_SHARED};

/* The packet's header is not initialised. */
static struct pkt *allocate(uint32_t room)
{
	size_t size = sizeof(struct pkt) + room;
	struct pkt *pkt;

	if (size > bytes_left())
		return NULL;
	pkt = mem_alloc(size);
	if (pkt)
		__atomic_fetch_add(&heap_bytes, size, __ATOMIC_RELAXED);
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

static struct pkt *copy_into(const struct pkt *pkt, uint32_t room)
{
	uint32_t head = pkt->flags & PKT_ARRIVAL ? sizeof(struct pkt_arrival) : 0;
	struct pkt *copy = allocate(head + room);

	if (!copy)
		return NULL;
	*copy = *pkt;
	set_frame(copy, room);
	copy->frame += head;
	memcpy(copy->frame - head, pkt->frame - head, head + pkt->frame_len);
	return copy;
}

struct pkt *pkt_copy(const struct pkt *pkt)
{
	return copy_into(pkt, pkt->frame_len);
}

static struct pkt *copy_out(struct ring *ring, struct pkt *pkt, uint32_t room)
{
	struct pkt *copy;

	if (pkt->pool->flags & PKT_POOL_SHARED)
		return pkt;
	copy = copy_into(pkt, room);
	if (copy) {
		ring->stats.copied++;
		pkt_free(pkt);
	}
	return copy;
}

struct pkt *ring_keep_copy(struct ring *ring, struct pkt *pkt, uint32_t held, uint32_t spare)
{
	ring_assert_held(ring);
	if (held > bytes_left() / SHARE)
		return NULL;
	return copy_out(ring, pkt, pkt->frame_len + spare);
}

struct pkt *ring_detach(struct ring *ring, struct pkt *pkt)
{
	struct pkt *copy = copy_out(ring, pkt, pkt->frame_len);

	ring_assert_held(ring);
	ring->stats.forwarded++;
	return copy ? copy : pkt;
}
