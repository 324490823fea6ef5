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

static inline void cut_iov(const struct frame_large *large, uint32_t from, uint8_t *to,
			   uint32_t len)
{
	for (uint32_t i = 0; i < large->iovcnt && len; i++) {
		size_t n = large->iov[i].iov_len;

		if (from >= n) {
			from -= (uint32_t)n;
			continue;
		}
		n = n - from < len ? n - from : len;
		memcpy(to, (const uint8_t *)large->iov[i].iov_base + from, n);
		to += n;
		len -= (uint32_t)n;
		from = 0;
	}
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

/*
 * Writes the checksum of a segment with len bytes, headers included.  The field has the sum of the
 * pseudo-header, with the length of the large segment.
 */
static inline void cut_sum(const struct frame_large *large, uint8_t *l4, unsigned field,
			   uint32_t len)
{
	uint32_t sum = cut_get16(l4 + field), all = large->hdr - large->l4 + large->len;

	sum += (uint16_t)~all + len;
	cut_put16(l4 + field, 0);
	sum = csum_fold((uint64_t)htons((uint16_t)((sum & 0xffff) + (sum >> 16))) +
			csum_add(0, l4, len));
	cut_put16(l4 + field, (uint16_t)~ntohs((uint16_t)sum));
}

/* Writes segment i to frame, and returns its length. */
static inline size_t cut_large(const struct frame_large *large, uint32_t i, uint8_t *frame)
{
	uint32_t from = i * large->mss, hdr = large->hdr - large->l4, seq;
	uint32_t len = large->len - from < large->mss ? large->len - from : large->mss;
	uint8_t *ip = frame + ETH_HDR, *tcp = frame + large->l4;

	memcpy(frame, large->head, large->hdr);
	if (frame_large_is_udp(large))
		cut_iov(large, from, frame + large->hdr, len);
	else
		cut_payload(large, from, frame + large->hdr, len);
	if (ip[0] >> 4 == 6) {
		cut_put16(ip + 4, hdr + len);
	} else {
		cut_put16(ip + 2, IP4_HDR + hdr + len);
		cut_put16(ip + 10, 0);
		cut_put16(ip + 10, (uint16_t)~ntohs(csum_fold(csum_add(0, ip, IP4_HDR))));
	}
	if (frame_large_is_udp(large)) {
		cut_put16(tcp + 4, hdr + len);
		cut_sum(large, tcp, 6, hdr + len);
		if (!cut_get16(tcp + 6))
			cut_put16(tcp + 6, 0xffff); /* RFC 768 */
		return large->hdr + len;
	}
	memcpy(&seq, tcp + 4, sizeof(seq));
	seq = htonl(ntohl(seq) + from);
	memcpy(tcp + 4, &seq, sizeof(seq));
	if (from + len < large->len)
		tcp[13] &= (uint8_t) ~(TCP_PSH | TCP_FIN);
	cut_sum(large, tcp, 16, hdr + len);
	return large->hdr + len;
}

#endif
