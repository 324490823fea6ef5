/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A frame in memory, with the results of parsing.
 *
 * Role		its owner: the ring that received it (its holder), or the queue that
 *		it was passed to.  A function that is given a packet consumes it.
 * Lifetime	taken from a pool, returned with pkt_free().  If the holder of another
 *		ring frees a frame of a ring, it returns through that ring's inbox;
 *		copies in ordinary memory (PKT_POOL_SHARED) are freed directly.
 */
#ifndef NET_PKT_H
#define NET_PKT_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct pkt;

#define PKT_POOL_SHARED 1u /* any thread may free its packets */

struct pkt_pool {
	void (*put)(struct pkt_pool *pool, struct pkt *pkt);
	/*
	 * Puts one or more packets of the pool from the first one of a list on; returns the rest of
	 * the list.  NULL: put() does it.
	 */
	struct pkt *(*put_some)(struct pkt_pool *pool, struct pkt *list);
	unsigned flags;
};

/* pkt->flags */
#define PKT_CSUM_OK 0x01u /* the port verified the checksums */
#define PKT_ISS 0x02u	  /* iss is set */
#define PKT_TAGGED 0x04u  /* the port set tag */
#define PKT_ARRIVAL 0x08u /* pkt_arrival() is set */
#define PKT_LOOPED 0x10u  /* UDP: to a group, from this host */
#define PKT_APART 0x20u	  /* in a filter's list: not like the one before (struct filter_kind) */

/* When the frame arrived, if the port knows it: in front of the frame, in its headroom. */
struct pkt_arrival {
	nsec_t real;   /* CLOCK_REALTIME */
	nsec_t device; /* what the device's stamp became; 0: it has no clock */
};

struct pkt {
	struct pkt *next;      /* link for the owner; with stamp: see ring_give_back() */
	nsec_t stamp;	       /* receive time, CLOCK_REALTIME; 0: not requested */
	uint8_t *frame;	       /* Ethernet header */
	struct pkt_pool *pool; /* pkt_free() returns the packet there */
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
			union {
				uint32_t iss; /* PKT_ISS: our ISS if this SYN opens a connection */
				uint32_t tag; /* PKT_TAGGED: of the port's entry; 0: it has none */
				/* UDP, in a socket's queue: it arrived by; 0: as the home's frames */
				int ifindex;
			};
			uint32_t drops; /* UDP: the socket's drop count at receipt, if recorded */
		};
		struct pkt *run_last; /* TCP, out of order: see struct tcp_recvq */
	};
};

_Static_assert(sizeof(struct pkt) == 64, "one cache line a packet");

/* The memory that a packet occupies, in bytes. */
static inline uint32_t pkt_size(const struct pkt *pkt)
{
	return pkt->room + (uint32_t)sizeof(*pkt);
}

/* The frame must have this much headroom: port_ops.stamp, or PKT_ARRIVAL. */
static inline struct pkt_arrival *pkt_arrival(const struct pkt *pkt)
{
	return (struct pkt_arrival *)(void *)pkt->frame - 1;
}

/* When the frame arrived, or the present time, CLOCK_REALTIME. */
static inline nsec_t pkt_arrived(const struct pkt *pkt)
{
	return pkt->flags & PKT_ARRIVAL ? pkt_arrival(pkt)->real : clock_real();
}

/* As the device saw it; 0: it did not. */
static inline nsec_t pkt_device_stamp(const struct pkt *pkt)
{
	return pkt->flags & PKT_ARRIVAL ? pkt_arrival(pkt)->device : 0;
}

static inline void pkt_free(struct pkt *pkt)
{
	pkt->pool->put(pkt->pool, pkt);
}

/* Frees packets that are linked by next. */
static inline void pkt_free_list(struct pkt *list)
{
	while (list) {
		struct pkt_pool *pool = list->pool;
		struct pkt *next = list->next;

		if (pool->put_some)
			next = pool->put_some(pool, list);
		else
			pool->put(pool, list);
		list = next;
	}
}

/* Appends to a list that is linked by next.  *tail means nothing while *head is NULL. */
static inline void pkt_append(struct pkt **head, struct pkt **tail, struct pkt *pkt)
{
	pkt->next = NULL;
	if (*head)
		(*tail)->next = pkt;
	else
		*head = pkt;
	*tail = pkt;
}

/* The same for packets from first to last, which are linked already; the last one's next is NULL. */
static inline void pkt_append_run(struct pkt **head, struct pkt **tail, struct pkt *first,
				  struct pkt *last)
{
	if (*head)
		(*tail)->next = first;
	else
		*head = first;
	*tail = last;
}

static inline uint8_t *pkt_payload(const struct pkt *pkt)
{
	return pkt->frame + pkt->off;
}

#endif
