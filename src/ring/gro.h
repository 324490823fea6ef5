/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive offload: the packets of one burst that belong to one flow, as a chain.
 * What a stream costs per segment is paid once per chain.  The order of packets
 * within a flow stays.
 *
 * Role		ring_poll(), within one burst.
 */
#ifndef RING_GRO_H
#define RING_GRO_H

#include "ring/flow.h"

#define GRO_STREAMS 128u /* no burst has more packets */

struct gro_stream {
	struct flow *flow;
	struct pkt *first, *last;
};

struct gro {
	unsigned n, max;
	struct gro_stream stream[GRO_STREAMS]; /* n are set */
};

/* False: there are max other streams already; pkt, whose next is NULL, is still the caller's. */
static inline bool gro_add(struct gro *gro, struct flow *flow, struct pkt *pkt)
{
	struct gro_stream *s = gro->stream, *end = s + gro->n;

	while (s < end && s->flow != flow)
		s++;
	if (s < end) {
		s->last->next = pkt;
		s->last = pkt;
		return true;
	}
	if (gro->n == gro->max)
		return false;
	*s = (struct gro_stream){flow, pkt, pkt};
	gro->n++;
	return true;
}

#endif
