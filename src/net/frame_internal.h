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

#endif
