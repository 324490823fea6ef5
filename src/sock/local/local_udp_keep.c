/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local datagrams as packets: copies, or such that stay in the record ring while the program has them, because it
 * receives without a copy, has a receive callback, or polls by socketxtreme.
 *
 * The headers of IPv4 and UDP take the place of the record's header, which was read.  Those of IPv6 have no room
 * there, and what goes round the end of the ring is in two pieces: such datagrams are copied.
 */
#include <net/ethernet.h>
#include <string.h>

#include "net/frame.h"
#include "ring/local/record_quick.h"
#include "sock/core/kind.h"
#include "sock/local/local_udp.h"
#include "sock/udp/udp_sock.h"

#define HEADERS (IP4_HDR + UDP_HDR)

_Static_assert(HEADERS <= sizeof(struct record_header), "they fit");

static void put16(uint8_t *at, size_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static void put_ip4(uint8_t *ip, const struct record_header *h)
{
	ip[0] = 0x45;
	ip[1] = h->tos;
	put16(ip + 2, IP4_HDR + UDP_HDR + (size_t)h->len);
	ip[8] = h->ttl;
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, &h->from, 4);
	memcpy(ip + 16, &h->to, 4);
}

static void put_ip6(uint8_t *ip, const struct record_header *h, const struct local_udp *l)
{
	struct inaddr from = local_record_addr(l, h, h->from), to = local_record_addr(l, h, h->to);

	ip[0] = (uint8_t)(0x60 | h->tos >> 4);
	ip[1] = (uint8_t)(h->tos << 4);
	put16(ip + 4, UDP_HDR + (size_t)h->len);
	ip[6] = IPPROTO_UDP;
	ip[7] = h->ttl;
	memcpy(ip + 8, &from, 16);
	memcpy(ip + 24, &to, 16);
}

/* The headers that the datagram would have on a wire, from that of IP on, without checksums. */
static void put_headers(uint8_t *ip, const struct record_header *h, const struct local_udp *l)
{
	bool ipv6 = h->flags & RECORD_IPV6;
	size_t ip_size = ipv6 ? IP6_HDR : IP4_HDR;
	uint8_t *udp = ip + ip_size;

	memset(ip, 0, ip_size + UDP_HDR);
	if (ipv6)
		put_ip6(ip, h, l);
	else
		put_ip4(ip, h);
	memcpy(udp, &h->from_port, 2);
	memcpy(udp + 2, &h->to_port, 2);
	put16(udp + 4, UDP_HDR + (size_t)h->len);
}

/* NULL: no memory. */
static struct pkt *copy(const struct local_udp *l)
{
	const struct record_header *h = &l->reader.record.header;
	size_t ip_size = h->flags & RECORD_IPV6 ? IP6_HDR : IP4_HDR;
	uint16_t headers = (uint16_t)(ETH_HDR + ip_size + UDP_HDR);
	struct pkt *pkt = pkt_blank(headers + (uint32_t)h->len);
	struct iovec iov;

	if (!pkt)
		return NULL;
	iov = (struct iovec){pkt->frame + headers, h->len};
	memset(pkt->frame, 0, ETH_HDR);
	put16(pkt->frame + 12, ip_size == IP6_HDR ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
	put_headers(pkt->frame + ETH_HDR, h, l);
	if (record_ring_copy(&l->reader, 0, &iov, 1) < 0) {
		pkt_free(pkt);
		return NULL;
	}
	pkt->frame_len = headers + (uint32_t)h->len;
	pkt->l3 = ETH_HDR;
	pkt->l4 = headers - UDP_HDR;
	pkt->off = headers;
	pkt->len = h->len;
	return pkt;
}

/* ---- kept --------------------------------------------------------------------------- */

static void first_kept(struct local_keeper *keeper, uint64_t position)
{
	record_ring_keep(keeper->ring, position);
}

static void some_returned(struct inet_sock *so)
{
	(void)so; /* nobody waits: a full ring drops */
}

static const struct local_keeper_ops keeper_ops = {.first = first_kept, .returned = some_returned};

/* NULL: no memory. */
static struct local_keeper *keeper_of(struct local_udp *l)
{
	if (!l->keeper)
		l->keeper = local_keeper_new(&keeper_ops, l->ref.sk);
	if (l->keeper)
		l->keeper->ring = &l->reader;
	return l->keeper;
}

/* NULL: it has to be copied. */
static struct pkt *keep(struct local_udp *l)
{
	const struct record_found *found = &l->reader.record;
	uint8_t *bytes = record_ring_bytes(&l->reader);
	struct pkt *pkt;

	if (!bytes || found->header.flags & RECORD_IPV6 || !keeper_of(l))
		return NULL;
	pkt = local_keep(l->keeper, found->position, bytes - HEADERS,
			 HEADERS + (uint32_t)found->header.len);
	if (!pkt)
		return NULL;
	put_headers(pkt->frame, &found->header, l);
	pkt->l4 = IP4_HDR;
	pkt->off = HEADERS;
	pkt->len = found->header.len;
	return pkt;
}

struct pkt *local_udp_frame(struct local_udp *l)
{
	struct pkt *pkt = local_udp_stays(inet_of(l->ref.sk)) ? keep(l) : NULL;

	return pkt ? pkt : copy(l);
}

/* What records of a run have in common in their headers, of IPv4. */
struct parts {
	uint64_t addrs; /* from, to */
	uint64_t rest;	/* ports, ttl, tos */
	uint32_t flags;
};

#define PARTS_LEN (0xffffull << 32) /* in rest */

static inline uint64_t word_at(const void *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

static inline struct parts parts_of(const struct record_header *h)
{
	return (struct parts){.addrs = word_at(&h->from),
			      .rest = word_at(&h->from_port) & ~PARTS_LEN,
			      .flags = h->flags};
}

/* Is the record from the same socket to the same address, with the same TTL and TOS? */
static inline bool is_alike(struct parts parts, const struct record_header *h)
{
	return !((word_at(&h->from) ^ parts.addrs) |
		 ((word_at(&h->from_port) ^ parts.rest) & ~PARTS_LEN) | (h->flags ^ parts.flags));
}

/* The headers of a run, of IPv4, without the lengths. */
struct headers4 {
	uint64_t begin, addrs, end;
	uint32_t middle;
};

static inline struct headers4 headers4_of(struct parts parts)
{
	return (struct headers4){
		.begin = 0x45 | parts.rest >> 56 << 8,
		.middle = (uint32_t)((parts.rest >> 48 & 0xff) | IPPROTO_UDP << 8),
		.addrs = parts.addrs,
		.end = (uint32_t)parts.rest,
	};
}

/* As put_headers(), of len bytes: where the record's header was, which is not read any more. */
static inline void put_headers4(uint8_t *ip, const struct headers4 *h, uint32_t len)
{
	uint64_t begin = h->begin | (uint64_t)htons((uint16_t)(HEADERS + len)) << 16;
	uint64_t end = h->end | (uint64_t)htons((uint16_t)(UDP_HDR + len)) << 32;

	memcpy(ip, &begin, sizeof(begin));
	memcpy(ip + 8, &h->middle, sizeof(h->middle));
	memcpy(ip + 12, &h->addrs, sizeof(h->addrs));
	memcpy(ip + 20, &end, sizeof(end));
}

/* udp_charge() of all its packets. */
static inline uint32_t charge_of(const struct local_keep_run *run)
{
	return run->bytes + run->n * (uint32_t)sizeof(struct pkt);
}

#define CELL_CHARGES (2 * RECORD_CELL) /* for each cell of a record, at most */

_Static_assert(RECORD_CELL - sizeof(struct record_header) + HEADERS + sizeof(struct pkt) <=
		       CELL_CHARGES,
	       "also of a record of one cell");

/* Once for all records, which need not be looked at then.  Where room is short, each record comes by itself. */
static inline void end_where_room_may_end(struct record_run *records, uint32_t room)
{
	uint64_t end = records->next + room / CELL_CHARGES;

	records->end = end < records->end ? end : records->end;
}

struct pkt *local_udp_run(struct local_udp *l, local_takes *takes, unsigned max, uint32_t room,
			  struct pkt **end, struct filter_sum *sum)
{
	struct local_keeper *keeper;
	struct local_keep_run run;
	struct record_run records;
	struct record_seen seen;
	struct headers4 headers;
	struct parts like;
	struct pkt before, *last = &before, *pkt;
	struct record_header first;

	if (!record_ring_run_begin(&l->reader, &records))
		return NULL;
	end_where_room_may_end(&records, room);
	if (!record_ring_run_look(&records, &seen))
		return NULL;
	first = record_ring_seen_header(&seen);
	if (first.flags & RECORD_IPV6 || !takes(l, &first))
		return NULL;
	like = parts_of(&first);
	headers = headers4_of(like);
	keeper = keeper_of(l);
	if (!keeper)
		return NULL;
	run = local_keep_begin(keeper);
	do {
		uint8_t *bytes = (uint8_t *)(uintptr_t)(seen.at + 1);
		uint32_t len = (uint32_t)seen.len;

		pkt = local_keep_next(keeper, &run, records.next, bytes - HEADERS, HEADERS + len);
		if (!pkt)
			break;
		put_headers4(bytes - HEADERS, &headers, len);
		pkt->l4 = IP4_HDR;
		pkt->off = HEADERS;
		pkt->len = (uint16_t)len;
		last->next = pkt;
		last = pkt;
		record_ring_run_next(&records, &seen);
	} while (run.n < max && record_ring_run_look(&records, &seen) && is_alike(like, seen.at));
	last->next = NULL;
	sum->n = run.n;
	sum->bytes = run.bytes - run.n * (uint32_t)HEADERS;
	sum->charge = charge_of(&run);
	*end = last;
	local_keep_end(keeper, run);
	record_ring_run_end(&l->reader, &records);
	return before.next;
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
