/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A frame in memory, with what parsing found out about it.
 *
 * Role		its owner: the ring it was received on (its holder), or the
 *		queue it was handed to.  Whoever is given a packet consumes it.
 * Lifetime	taken from a pool, given back with pkt_free().  Frames of a ring
 *		that are freed by the holder of another one travel home through
 *		its inbox; copies in ordinary memory (PKT_POOL_SHARED) are
 *		freed where they are.
 */
#ifndef NET_PKT_H
#define NET_PKT_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct pkt;

#define PKT_POOL_SHARED 1u /* its packets may be freed by any thread */

struct pkt_pool {
	void (*put)(struct pkt_pool *pool, struct pkt *pkt);
	unsigned flags;
};

/* pkt->flags */
#define PKT_CSUM_OK 0x01u /* the port verified the checksums */
#define PKT_ISS 0x02u	  /* iss is set */

struct pkt {
	struct pkt *next;      /* link of whoever owns it; with stamp: see ring_give_back() */
	nsec_t stamp;	       /* when it was received, CLOCK_REALTIME; 0: not asked for */
	uint8_t *frame;	       /* Ethernet header */
	struct pkt_pool *pool; /* who takes it back */
	uint32_t frame_len;    /* bytes at frame */
	uint32_t room;	       /* bytes available at frame */
	uint32_t seq;	       /* TCP: sequence number of the first unread byte */
	uint16_t l3;	       /* offset of the IP header from frame */
	uint16_t l4;	       /* offset of the UDP or TCP header */
	uint16_t off;	       /* offset of the first unread payload byte */
	uint16_t len;	       /* unread payload bytes */
	uint8_t tcp_flags;     /* TCP: flag byte of the header */
	uint8_t flags;	       /* PKT_* */
	uint8_t unused[2];
	union {
		struct {
			uint32_t iss; /* PKT_ISS: where we begin, if this SYN opens a connection */
			uint32_t drops; /* UDP: what its socket had lost when it came; if that was noted */
		};
		struct pkt *run_last; /* TCP, out of order: see struct tcp_recvq */
	};
};

_Static_assert(sizeof(struct pkt) == 64, "one cache line a packet");

/* Memory that it holds, in bytes. */
static inline uint32_t pkt_size(const struct pkt *pkt)
{
	return pkt->room + (uint32_t)sizeof(*pkt);
}

static inline void pkt_free(struct pkt *pkt)
{
	pkt->pool->put(pkt->pool, pkt);
}

static inline uint8_t *pkt_payload(const struct pkt *pkt)
{
	return pkt->frame + pkt->off;
}

#endif
