/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive offload: links the packets of one burst that belong to one flow into a chain, so
 * that the flow's owner handles the chain at the cost of one packet.  Packets of a flow stay in
 * order.
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

/*
 * Packets from first to last, linked by next; the last one's is NULL.  False: there are `max` other
 * streams already; the caller still owns them.
 */
static inline bool gro_add(struct gro *gro, struct flow *flow, struct pkt *first, struct pkt *last)
{
	struct gro_stream *s = gro->stream, *end = s + gro->n;

	while (s < end && s->flow != flow)
		s++;
	if (s < end) {
		s->last->next = first;
		s->last = last;
		return true;
	}
	if (gro->n == gro->max)
		return false;
	*s = (struct gro_stream){flow, first, last};
	gro->n++;
	return true;
}

#endif
