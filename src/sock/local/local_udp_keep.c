/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local datagrams that stay in the record ring while the program has them, because it receives without a copy, has
 * a receive callback, or polls by socketxtreme.
 *
 * The headers of IPv4 and UDP take the place of the record's header, which was read.  Those of IPv6 have no room
 * there, and what goes round the end of the ring is in two pieces: such datagrams are copied.
 */
#include "net/frame.h"
#include "sock/core/kind.h"
#include "sock/local/local_udp.h"

#define HEADERS (IP4_HDR + UDP_HDR)

_Static_assert(HEADERS <= sizeof(struct record_header), "they fit");

static void first_kept(struct local_keeper *keeper, uint64_t position)
{
	record_ring_keep(keeper->ring, position);
}

static void some_returned(struct inet_sock *so)
{
	(void)so; /* nobody waits: a full ring drops */
}

static const struct local_keeper_ops keeper_ops = {.first = first_kept, .returned = some_returned};

static bool is_wanted(const struct inet_sock *so)
{
	return so->udp.in_place || so->udp.filter || so->udp.xtreme;
}

/* NULL: it has to be copied. */
static struct pkt *keep(struct local_udp *l)
{
	const struct record_found *found = &l->reader.record;
	uint8_t *bytes = record_ring_bytes(&l->reader);
	struct pkt *pkt;

	if (!bytes || found->header.flags & RECORD_IPV6)
		return NULL;
	if (!l->keeper)
		l->keeper = local_keeper_new(&keeper_ops, l->ref);
	if (!l->keeper)
		return NULL;
	l->keeper->ring = &l->reader;
	pkt = local_keep(l->keeper, found->position, bytes - HEADERS,
			 HEADERS + (uint32_t)found->header.len);
	if (!pkt)
		return NULL;
	local_put_headers(pkt->frame, &found->header, l);
	pkt->l4 = IP4_HDR;
	pkt->off = HEADERS;
	pkt->len = found->header.len;
	return pkt;
}

struct pkt *local_udp_frame(struct local_udp *l)
{
	struct pkt *pkt = is_wanted(inet_of(l->ref.sk)) ? keep(l) : NULL;

	return pkt ? pkt : local_frame(l);
}

void local_udp_keep_all(struct local_udp *l)
{
	struct local_keeper *keeper = l->keeper;

	if (!keeper)
		return;
	l->keeper = NULL;
	keeper->segment = l->segment;
	keeper->memory = l->memory;
	l->segment = SEGMENT_NONE;
	l->memory = 0;
	local_keeper_leave(keeper);
}
