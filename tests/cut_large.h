/* SPDX-License-Identifier: BSD-2-Clause */
/* What a device makes of a large segment; it knows nothing but the frame and the segment size. */
#ifndef TESTS_CUT_LARGE_H
#define TESTS_CUT_LARGE_H

#include <arpa/inet.h>
#include <string.h>

#include "net/frame.h"
#include "net/tcp/tcp_wire.h"

static inline uint16_t cut_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline void cut_put16(uint8_t *p, uint32_t value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void cut_payload(const struct frame_large *large, uint32_t from, uint8_t *to,
			       uint32_t len)
{
	uint32_t first = from < large->part[0].len ? large->part[0].len - from : 0;

	if (first > len)
		first = len;
	if (first)
		memcpy(to, large->part[0].data + from, first);
	if (first < len)
		memcpy(to + first, large->part[1].data + (from + first - large->part[0].len),
		       len - first);
}

/* Writes segment i to frame, and returns its length. */
static inline size_t cut_large(const struct frame_large *large, uint32_t i, uint8_t *frame)
{
	uint32_t from = i * large->mss, hdr = large->hdr - large->l4, seq, sum;
	uint32_t len = large->len - from < large->mss ? large->len - from : large->mss;
	uint8_t *ip = frame + ETH_HDR, *tcp = frame + large->l4;

	memcpy(frame, large->head, large->hdr);
	cut_payload(large, from, frame + large->hdr, len);
	if (ip[0] >> 4 == 6) {
		cut_put16(ip + 4, hdr + len);
	} else {
		cut_put16(ip + 2, IP4_HDR + hdr + len);
		cut_put16(ip + 10, 0);
		cut_put16(ip + 10, (uint16_t)~ntohs(csum_fold(csum_add(0, ip, IP4_HDR))));
	}
	memcpy(&seq, tcp + 4, sizeof(seq));
	seq = htonl(ntohl(seq) + from);
	memcpy(tcp + 4, &seq, sizeof(seq));
	if (from + len < large->len)
		tcp[13] &= (uint8_t) ~(TCP_PSH | TCP_FIN);
	/* The field has the sum of the pseudo-header, with the length of the large segment. */
	sum = cut_get16(large->head + large->l4 + 16);
	sum += (uint16_t) ~(hdr + large->len) + hdr + len;
	cut_put16(tcp + 16, 0);
	sum = csum_fold((uint64_t)htons((uint16_t)((sum & 0xffff) + (sum >> 16))) +
			csum_add(0, tcp, hdr + len));
	cut_put16(tcp + 16, (uint16_t)~ntohs((uint16_t)sum));
	return large->hdr + len;
}

#endif
