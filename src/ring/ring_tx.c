/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending to neighbours whose link addresses may not be known yet. */
#include <errno.h>

#include "base/mem.h"
#include "ring/ring.h"

/* The neighbour's link address is not known. */
static __attribute__((noinline)) int tx_to_unknown(struct ring *ring, struct adj *adj,
						   struct pkt *pkt)
{
	if (adj->state == NEIGH_FAILED) {
		ring_drop(ring, DROP_NEIGH_FAILED);
	} else {
		struct pkt *copy = pkt_copy(pkt);

		/* A copy waits: a neighbour that does not answer must not keep frames. */
		if (copy && adj_wait(adj, copy)) {
			pkt_free(pkt);
			return 0;
		}
		if (copy)
			pkt_free(copy);
		ring_drop(ring, copy ? DROP_NEIGH_FULL : DROP_NO_MEMORY);
	}
	pkt_free(pkt);
	return -EHOSTUNREACH;
}

int ring_tx_to(struct ring *ring, struct adj *adj, struct pkt *pkt)
{
	ring_assert_held(ring);
	adj->used = true;
	if (__builtin_expect(adj->state == NEIGH_REACHABLE, 1))
		return ring_tx_put(ring, pkt);
	return tx_to_unknown(ring, adj, pkt);
}

struct adj *ring_adj_for_source(struct ring *ring, const struct inaddr *addr)
{
	struct adj *adj = adj_find(&ring->adjs, addr);

	ring_assert_held(ring);
	if (adj)
		return adj;
	if (ring->adjs.count >= ADJ_MAX)
		adj_table_shrink(&ring->adjs);
	return ring->adjs.count < ADJ_MAX ? adj_get(&ring->adjs, addr) : NULL;
}

struct neigh_item {
	struct inbox_item item;
	struct inaddr addr;
	enum neigh_state state;
	uint8_t mac[6];
};

static void send_waiting(struct ring *ring, struct pkt *pkt)
{
	struct pkt *frame = ring_tx_get(ring);

	if (!frame || frame->room < pkt->frame_len) {
		if (frame)
			pkt_free(frame);
		ring_drop(ring, DROP_NO_MEMORY);
	} else {
		memcpy(frame->frame, pkt->frame, pkt->frame_len);
		frame->frame_len = pkt->frame_len;
		ring_tx_put(ring, frame);
	}
}

void ring_adj_update(struct ring *ring, struct adj *adj, enum neigh_state state,
		     const uint8_t mac[6])
{
	struct pkt *pkt = adj_update(adj, state, mac);

	ring_assert_held(ring);
	while (pkt) {
		struct pkt *next = pkt->next;

		if (state == NEIGH_REACHABLE)
			send_waiting(ring, pkt);
		else
			ring_drop(ring, DROP_NEIGH_FAILED);
		pkt_free(pkt);
		pkt = next;
	}
}

static void neigh_item_run(struct ring *ring, struct inbox_item *item)
{
	struct neigh_item *n = container_of(item, struct neigh_item, item);
	bool wanted = n->state == NEIGH_UNKNOWN;
	struct adj *adj = wanted ? adj_get(&ring->adjs, &n->addr) : adj_find(&ring->adjs, &n->addr);

	/* NEIGH_UNKNOWN makes an adjacency, but does not reset one that is reachable. */
	if (adj && !(wanted && adj->state == NEIGH_REACHABLE))
		ring_adj_update(ring, adj, n->state, n->mac);
	mem_free(n);
}

void ring_neigh_changed(struct ring *ring, const struct inaddr *addr, enum neigh_state state,
			const uint8_t mac[6])
{
	struct neigh_item *n = mem_zalloc(sizeof(*n));

	if (!n)
		return; /* the next event or refresh_neighbours() repeats it */
	n->item.run = neigh_item_run;
	n->addr = *addr;
	n->state = state;
	if (state == NEIGH_REACHABLE)
		memcpy(n->mac, mac, sizeof(n->mac));
	ring_post(ring, &n->item);
}
