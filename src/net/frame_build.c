/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds the frames to send from a template and the fields that change from frame to frame. */
#include <assert.h>

#include "net/frame_internal.h"
#include "net/tcp/tcp_wire.h"

#define IP4_ROOM 40 /* IP4_L4 and the ports, as three vector moves */

/* The functions for both families are compiled for each, with a constant v6. */
#define FOR_EACH_FAMILY static inline __attribute__((always_inline))

/*
 * Writes Ethernet and IP headers; l4_len: bytes after the IP header. The lengths are constant, for
 * a few moves; the bytes after the ports are overwritten later.
 */
FOR_EACH_FAMILY void build_ip(bool v6, const struct frame_template *t, uint8_t *frame,
			      size_t l4_len)
{
	uint8_t *ip = frame + ETH_HDR;
	uint16_t total;

	if (v6) {
		assert(t->l4 == IP6_L4 && l4_len <= 65535);
		memcpy(frame, t->bytes, sizeof(t->bytes));
		store16(ip + 4, htons((uint16_t)l4_len));
		return;
	}
	assert(t->l4 == IP4_L4 && IP4_HDR + l4_len <= 65535);
	total = htons((uint16_t)(IP4_HDR + l4_len));
	memcpy(frame, t->bytes, IP4_ROOM);
	store16(ip + 2, total);
	store16(ip + 4, 0);
	store16(ip + 10, (uint16_t)~csum_fold((uint64_t)sum_at(t, IP4_SUM) + total));
}

/* Gathers iov, which is not one buffer, to `to` and returns the sum, as csum_copy(). */
static __attribute__((noinline)) uint64_t gather(uint8_t *to, const struct iovec *iov, int iovcnt)
{
	uint64_t sum = 0, part;
	size_t at = 0;

	for (int i = 0; i < iovcnt; i++) {
		part = csum_copy(0, to + at, iov[i].iov_base, iov[i].iov_len);
		if (part & CSUM_FAULT)
			return CSUM_FAULT;
		sum = csum_combine(sum, part, at & 1);
		at += iov[i].iov_len;
	}
	return sum;
}

/* Writes the UDP header of len bytes that have this sum; returns the length of the frame. */
FOR_EACH_FAMILY size_t build_udp_header(unsigned special, const struct frame_template *t,
					uint8_t *frame, size_t len, uint64_t sum)
{
	size_t l4 = special & FRAME_IP6 ? IP6_L4 : IP4_L4;
	uint8_t *udp = frame + l4;
	uint16_t udp_len = htons((uint16_t)(UDP_HDR + len)), csum;

	/* The length counts twice: in the header and in the pseudo-header. */
	sum += (uint64_t)sum_at(t, PSEUDO_SUM) + 2 * (uint64_t)udp_len;
	csum = (uint16_t)~csum_fold(sum);
	store16(udp + 4, udp_len);
	if (csum == 0)
		csum = 0xffff; /* RFC 768: 0 means no checksum */
	store16(udp + 6, special & FRAME_NO_CSUM ? 0 : csum);
	return l4 + UDP_HDR + len;
}

/* Writes the headers before len bytes of payload that have this sum; returns the length of the frame. */
static inline __attribute__((always_inline)) size_t
build_udp_headers(const struct frame_template *t, uint8_t *frame, size_t len, uint64_t sum)
{
	if (__builtin_expect(t->special & FRAME_IP6, 0)) {
		build_ip(true, t, frame, UDP_HDR + len);
		return build_udp_header(FRAME_IP6, t, frame, len, sum);
	}
	build_ip(false, t, frame, UDP_HDR + len);
	return build_udp_header(t->special & FRAME_NO_CSUM, t, frame, len, sum);
}

size_t frame_build_udp_of(const struct frame_template *t, uint8_t *frame, const void *buf,
			  size_t len)
{
	uint64_t sum = csum_copy(0, frame + t->l4 + UDP_HDR, buf, len);

	return __builtin_expect(sum & CSUM_FAULT, 0) ? 0 : build_udp_headers(t, frame, len, sum);
}

size_t frame_build_udp(const struct frame_template *t, uint8_t *frame, const struct iovec *iov,
		       int iovcnt, size_t len)
{
	uint64_t sum;

	if (__builtin_expect(iovcnt == 1, 1))
		return frame_build_udp_of(t, frame, iov->iov_base, len);
	sum = gather(frame + t->l4 + UDP_HDR, iov, iovcnt);
	return sum & CSUM_FAULT ? 0 : build_udp_headers(t, frame, len, sum);
}

size_t frame_build_udp_around(const struct frame_template *t, uint8_t *frame, size_t len)
{
	return build_udp_headers(t, frame, len, csum_add(0, frame + t->l4 + UDP_HDR, len));
}

/* Sets ECN bits in the header of a frame that is complete otherwise. */
static void set_ecn(const struct frame_template *t, uint8_t *frame, uint8_t ecn)
{
	uint8_t *ip = frame + ETH_HDR;
	uint16_t total;

	if (t->special & FRAME_IP6) {
		ip[1] |= (uint8_t)(ecn << 4); /* traffic class, which no checksum includes */
		return;
	}
	memcpy(&total, ip + 2, sizeof(total));
	ecn &= (uint8_t)~ip[1];
	ip[1] |= ecn;
	store16(ip + 10, (uint16_t)~csum_fold((uint64_t)sum_at(t, IP4_SUM) + htons(ecn) + total));
}

/* Nearly every segment has timestamps only, which are three words. */
static inline uint64_t copy_options(uint8_t *to, const struct tcp_segment *seg, uint64_t sum)
{
	uint32_t word[3];

	if (seg->opt_len != sizeof(word))
		return seg->opt_len ? csum_copy(sum, to, seg->opts, seg->opt_len) : sum;
	memcpy(word, seg->opts, sizeof(word));
	memcpy(to, word, sizeof(word));
	return sum + word[0] + word[1] + word[2];
}

/* Writes everything but payload and checksum of a segment with len bytes; returns the sum. */
FOR_EACH_FAMILY uint64_t build_tcp_headers(bool v6, const struct frame_template *t, uint8_t *frame,
					   const struct tcp_segment *seg, size_t hdr, uint32_t len)
{
	uint8_t *tcp = frame + (v6 ? IP6_L4 : IP4_L4);
	uint64_t sum = sum_at(t, PSEUDO_SUM);
	uint32_t seq = htonl(seg->seq), ack = htonl(seg->ack);
	uint16_t wnd = htons(seg->wnd), urg = htons(seg->urg), off;

	assert(seg->opt_len % 4 == 0 && seg->opt_len <= TCP_OPT_MAX);
	build_ip(v6, t, frame, hdr + len);
	if (__builtin_expect(seg->ecn, 0))
		set_ecn(t, frame, seg->ecn);

	off = htons((uint16_t)(hdr / 4 << 12 | seg->flags));
	store32(tcp + 4, seq);
	store32(tcp + 8, ack);
	store16(tcp + 12, off);
	store16(tcp + 14, wnd);
	store16(tcp + 18, urg);
	sum += (uint64_t)seq + ack + off + wnd + urg + htons((uint16_t)(hdr + len));
	return copy_options(tcp + TCP_HDR, seg, sum);
}

/* Copies the payload, which has up to two parts, and adds to sum. */
static inline uint64_t copy_parts(uint8_t *to, const struct tcp_part part[2], uint64_t sum)
{
	uint32_t first = part[0].len, second = part[1].len;

	if (first)
		sum = csum_copy(sum, to, part[0].data, first);
	if (second)
		sum = csum_combine(sum, csum_copy(0, to + first, part[1].data, second), first & 1);
	return sum;
}

FOR_EACH_FAMILY size_t build_tcp(bool v6, const struct frame_template *t, uint8_t *frame,
				 const struct tcp_segment *seg)
{
	size_t l4 = v6 ? IP6_L4 : IP4_L4, hdr = TCP_HDR + seg->opt_len;
	uint8_t *tcp = frame + l4;
	uint64_t sum = build_tcp_headers(v6, t, frame, seg, hdr, seg->len);

	assert(seg->len == seg->part[0].len + seg->part[1].len);
	sum = copy_parts(tcp + hdr, seg->part, sum);
	store16(tcp + 16, (uint16_t)~csum_fold(sum));
	return l4 + hdr + seg->len;
}

static __attribute__((noinline)) size_t build_tcp6(const struct frame_template *t, uint8_t *frame,
						   const struct tcp_segment *seg)
{
	return build_tcp(true, t, frame, seg);
}

size_t frame_build_tcp(const struct frame_template *t, uint8_t *frame,
		       const struct tcp_segment *seg)
{
	if (__builtin_expect(t->special, 0))
		return build_tcp6(t, frame, seg);
	return build_tcp(false, t, frame, seg);
}

/* The headers of a segment with len bytes; returns the sum. */
static uint64_t tcp_headers(const struct frame_template *t, uint8_t *frame,
			    const struct tcp_segment *seg, uint32_t len)
{
	size_t hdr = TCP_HDR + seg->opt_len;

	return t->special ? build_tcp_headers(true, t, frame, seg, hdr, len)
			  : build_tcp_headers(false, t, frame, seg, hdr, len);
}

size_t frame_build_tcp_around(const struct frame_template *t, uint8_t *frame,
			      const struct tcp_segment *seg)
{
	size_t hdr = t->l4 + TCP_HDR + seg->opt_len;
	uint64_t sum = tcp_headers(t, frame, seg, seg->len);

	sum = csum_add(sum, frame + hdr, seg->len);
	store16(frame + t->l4 + 16, (uint16_t)~csum_fold(sum));
	return hdr + seg->len;
}

/* ---- trains ------------------------------------------------------------------------- */

/* Moves the first len bytes of part to first. */
static inline void cut(struct tcp_part part[2], uint32_t len, struct tcp_part first[2])
{
	uint32_t most = part[0].len < len ? part[0].len : len, rest = len - most;

	first[0] = (struct tcp_part){part[0].data, most};
	first[1] = (struct tcp_part){part[1].data, rest};
	part[0].data += most;
	part[0].len -= most;
	if (part[0].len)
		return;
	part[0] = part[1];
	part[1].len = 0;
	if (rest) { /* otherwise the second part may be absent, with a NULL address */
		part[0].data += rest;
		part[0].len -= rest;
	}
}

void tcp_segment_cut(struct tcp_segment *seg, uint32_t len, struct tcp_segment *first)
{
	*first = *seg;
	first->len = len;
	cut(seg->part, len, first->part);
	seg->seq += len;
	seg->len -= len;
	if (seg->len)
		first->flags &= (uint8_t) ~(TCP_PSH | TCP_FIN);
}

void frame_train_begin(struct frame_train *train, const struct frame_template *t,
		       const struct tcp_segment *seg, uint32_t mss)
{
	struct tcp_segment piece = *seg;

	piece.seq = 0;
	piece.flags &= (uint8_t) ~(TCP_PSH | TCP_FIN);
	train->t = t;
	train->seg = *seg;
	train->mss = mss;
	train->l4 = t->l4;
	train->hdr = train->l4 + TCP_HDR + seg->opt_len;
	train->sum = csum_fold(tcp_headers(t, train->head, &piece, mss));
}

size_t frame_train_next(struct frame_train *train, uint8_t *frame)
{
	uint32_t len = train->seg.len, seq = htonl(train->seg.seq);
	struct tcp_part part[2];
	uint64_t sum;

	if (len <= train->mss) {
		if (len == 0)
			return 0;
		len = (uint32_t)frame_build_tcp(train->t, frame, &train->seg);
		train->seg.len = 0;
		return len;
	}
	cut(train->seg.part, train->mss, part);
	train->seg.seq += train->mss;
	train->seg.len -= train->mss;
	/* Constant length: few moves. The payload overwrites the excess. */
	memcpy(frame, train->head, FRAME_TRAIN_ROOM);
	store32(frame + train->l4 + 4, seq);
	sum = copy_parts(frame + train->hdr, part, (uint64_t)train->sum + seq);
	store16(frame + train->l4 + 16, (uint16_t)~csum_fold(sum));
	return train->hdr + train->mss;
}

/* ---- large segments ----------------------------------------------------------------- */

/* The sum of the pseudo-header: the template's includes the ports. */
static uint16_t pseudo_sum(const struct frame_template *t, size_t len)
{
	uint16_t ports[2];

	memcpy(ports, t->bytes + t->l4, sizeof(ports));
	return csum_fold((uint64_t)sum_at(t, PSEUDO_SUM) + (uint16_t)~ports[0] +
			 (uint16_t)~ports[1] + htons((uint16_t)len));
}

void frame_build_large(struct frame_large *large, const struct frame_template *t,
		       const struct tcp_segment *seg, uint32_t mss)
{
	size_t hdr = TCP_HDR + seg->opt_len;

	large->mss = mss;
	large->hdr = (uint32_t)(t->l4 + hdr);
	large->len = seg->len;
	large->l4 = t->l4;
	large->iov = NULL;
	large->iovcnt = 0;
	memcpy(large->part, seg->part, sizeof(large->part));
	tcp_headers(t, large->head, seg, seg->len);
	store16(large->head + t->l4 + 16, pseudo_sum(t, hdr + seg->len));
}

void frame_build_large_udp(struct frame_large *large, const struct frame_template *t,
			   const struct iovec *iov, uint32_t iovcnt, uint32_t len, uint32_t mss)
{
	assert(iovcnt && iovcnt <= FRAME_LARGE_IOV && !(t->special & FRAME_NO_CSUM));
	large->mss = mss;
	large->hdr = t->l4 + UDP_HDR;
	large->len = len;
	large->l4 = t->l4;
	large->iov = iov;
	large->iovcnt = iovcnt;
	build_udp_headers(t, large->head, len, 0);
	store16(large->head + t->l4 + 6, pseudo_sum(t, UDP_HDR + len));
}
