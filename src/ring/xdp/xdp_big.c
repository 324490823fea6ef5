/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames larger than a frame of the UMEM.
 *
 * Generic XDP gets what the kernel's stack would get.  On virtual devices these may be TCP
 * segments of up to 64 KB that were not split yet (GSO).  They arrive in pieces (XDP_USE_SG, Linux
 * 6.6), which are joined here in ordinary memory.  If they were dropped, the connection would
 * stall, because the sender would not send smaller ones.
 *
 * Known limit: datagrams that a local sender joined (UDP_SEGMENT) and the kernel has not split
 * arrive as one datagram.  With native XDP the kernel splits them first.
 */
#include <string.h>

#include "base/mem.h"
#include "ring/xdp/xdp_internal.h"

#define BIG_ROOM (ETH_HDR + ETH_TAG + IP6_HDR + 65535) /* an IP packet of any size */
#define BIGS_MAX 128 /* of one queue, also in packets that are in use: 8 MB */

struct xdp_big {
	struct pkt pkt;
	struct list link;
	uint8_t bytes[BIG_ROOM];
};

static void big_free(struct xdp_queue *q, struct xdp_big *big)
{
	list_remove(&big->link);
	mem_free(big);
	q->nbigs--;
}

static void big_put(struct pkt_pool *pool, struct pkt *pkt)
{
	struct xdp_queue *q = container_of(pool, struct xdp_queue, big_pool);

	if (!port_give_back(&q->base, pkt))
		big_free(q, container_of(pkt, struct xdp_big, pkt));
}

void xdp_big_init(struct xdp_queue *q)
{
	list_init(&q->bigs);
	q->big_pool.put = big_put;
}

void xdp_big_fini(struct xdp_queue *q)
{
	while (!list_empty(&q->bigs))
		big_free(q, container_of(q->bigs.next, struct xdp_big, link));
}

static struct pkt *big_create(struct xdp_queue *q)
{
	struct xdp_big *big;

	if (q->nbigs == BIGS_MAX)
		return NULL;
	big = mem_aligned(_Alignof(struct xdp_big), sizeof(*big));
	if (!big)
		return NULL;
	big->pkt = (struct pkt){.frame = big->bytes, .pool = &q->big_pool, .room = BIG_ROOM};
	list_push_back(&q->bigs, &big->link);
	q->nbigs++;
	return &big->pkt;
}

struct pkt *xdp_big_add(struct xdp_queue *q, struct xdp_sock *s, const struct xdp_desc *desc)
{
	struct pkt *big = s->big;

	if (!s->in_big)
		big = big_create(q);
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
