/* SPDX-License-Identifier: BSD-2-Clause */
/* What building frames needs to know about templates. */
#ifndef NET_FRAME_INTERNAL_H
#define NET_FRAME_INTERNAL_H

#include "net/frame.h"

#define IP4_L4 (ETH_HDR + IP4_HDR)
#define IP6_L4 (ETH_HDR + IP6_HDR)
/* Where a template has sums, see struct frame_template. */
#define PSEUDO_SUM (ETH_HDR + 4)
#define IP4_SUM (ETH_HDR + 10)

static inline void store16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void store32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline uint16_t sum_at(const struct frame_template *t, size_t at)
{
	uint16_t sum;

	memcpy(&sum, t->bytes + at, sizeof(sum));
	return sum;
}

/*
 * RFC 791 3.1: checks a header h with options, frame_len bytes at most.  A source route makes the
 * sender's address meaningless: the kernel drops it, too, unless the host says accept_source_route.
 * Other options are skipped.
 */
enum drop frame_check_ip4_options(const uint8_t *h, size_t frame_len);

/*
 * RFC 8200 4: *proto is the next header of an IPv6 header, h the len bytes behind that.  Skips extension
 * headers that ask for nothing: options that are padding or may be skipped, routes that have ended,
 * fragments that are whole.  Sets *proto to what follows them, UDP or TCP, and *skipped to their bytes.
 */
enum drop frame_skip_ip6_headers(const uint8_t *h, size_t len, uint8_t *proto, size_t *skipped);

/* The same; most packets have none. */
static inline enum drop frame_find_upper(const uint8_t *h, size_t len, uint8_t *proto,
					 size_t *skipped)
{
	*skipped = 0;
	if (__builtin_expect(*proto == IPPROTO_TCP || *proto == IPPROTO_UDP, 1))
		return DROP_NONE;
	return frame_skip_ip6_headers(h, len, proto, skipped);
}

#endif
