/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds the frames to send from a template and the fields that change from frame to frame. */
#include <assert.h>
#include <errno.h>
#include <netinet/if_ether.h>

#include "net/tcp/tcp_wire.h"

#include "net/frame.h"

#define IP4_DF 0x4000
#define IP4_L4 (ETH_HDR + IP4_HDR)

static inline void store16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void store32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

int frame_template_init(struct frame_template *t, const struct frame_params *params)
{
	const struct endpoint *src = &params->src, *dst = &params->dst;
	uint8_t *ip = t->bytes + ETH_HDR, *l4 = t->bytes + IP4_L4;

	if (!addr_is_v4(&src->addr) || !addr_is_v4(&dst->addr))
		return -EAFNOSUPPORT;
	memset(t, 0, sizeof(*t));
	t->l3 = ETH_HDR;
	t->l4 = IP4_L4;
	t->proto = params->proto;
	t->no_csum = params->no_csum;

	memcpy(t->bytes, params->dst_mac, 6);
	memcpy(t->bytes + 6, params->src_mac, 6);
	store16(t->bytes + 12, htons(ETHERTYPE_IP));
	ip[0] = 4 << 4 | IP4_HDR / 4;
	ip[1] = params->tos;
	store16(ip + 6, htons(params->dont_fragment ? IP4_DF : 0));
	ip[8] = params->ttl;
	ip[9] = params->proto;
	store32(ip + 12, addr_v4_of(&src->addr));
	store32(ip + 16, addr_v4_of(&dst->addr));
	store16(l4, src->port);
	store16(l4 + 2, dst->port);

	t->ip_sum = csum_fold(csum_add(0, ip, IP4_HDR));
	t->pseudo_sum = csum_fold(csum_add(htons(params->proto), ip + 12, 8 + 4));
	return 0;
}

void frame_template_set_mac(struct frame_template *t, const uint8_t *dst_mac)
{
	memcpy(t->bytes, dst_mac, 6);
}

struct inaddr frame_template_dst(const struct frame_template *t)
{
	uint32_t v4;

	assert(t->l4 == IP4_L4);
	memcpy(&v4, t->bytes + ETH_HDR + 16, sizeof(v4));
	return addr_v4(v4);
}

/* Writes Ethernet and IP headers; l4_len: bytes after the IP header. */
static inline void build_ip4(const struct frame_template *t, uint8_t *frame, size_t l4_len)
{
	uint8_t *ip = frame + ETH_HDR;
	uint16_t total = htons((uint16_t)(IP4_HDR + l4_len));

	assert(t->l4 == IP4_L4 && IP4_HDR + l4_len <= 65535);
	/* Constant length: three moves. The bytes after the ports are overwritten below. */
	memcpy(frame, t->bytes, sizeof(t->bytes));
	store16(ip + 2, total);
	store16(ip + 4, t->id);
	store16(ip + 10, (uint16_t)~csum_fold((uint64_t)t->ip_sum + total + t->id));
}

/* Gathers iov to `to` and returns the sum, as csum_copy(). */
static inline uint64_t gather(uint8_t *to, const struct iovec *iov, int iovcnt)
{
	uint64_t sum, part;
	size_t at;

	if (iovcnt == 0)
		return 0;
	sum = csum_copy(0, to, iov[0].iov_base, iov[0].iov_len);
	at = iov[0].iov_len;
	for (int i = 1; i < iovcnt; i++) {
		part = csum_copy(0, to + at, iov[i].iov_base, iov[i].iov_len);
		if (part & CSUM_FAULT)
			return CSUM_FAULT;
		sum = csum_combine(sum, part, at & 1);
		at += iov[i].iov_len;
	}
	return sum;
}

size_t frame_build_udp(const struct frame_template *t, uint8_t *frame, const struct iovec *iov,
		       int iovcnt, size_t len)
{
	uint8_t *udp = frame + IP4_L4;
	uint16_t udp_len = htons((uint16_t)(UDP_HDR + len));
	uint64_t sum;
	uint16_t csum;

	build_ip4(t, frame, UDP_HDR + len);
	/* The length counts twice: in the header and in the pseudo-header. */
	sum = (uint64_t)t->pseudo_sum + 2 * (uint64_t)udp_len;
	sum += gather(udp + UDP_HDR, iov, iovcnt);
	if (__builtin_expect(sum & CSUM_FAULT, 0))
		return 0;
	csum = (uint16_t)~csum_fold(sum);
	store16(udp + 4, udp_len);
	if (csum == 0)
		csum = 0xffff; /* RFC 768: 0 means no checksum */
	store16(udp + 6, t->no_csum ? 0 : csum);
	return IP4_L4 + UDP_HDR + len;
}

static void set_ecn(const struct frame_template *t, uint8_t *frame, uint8_t ecn)
{
	uint8_t *ip = frame + ETH_HDR;
	uint16_t total;

	memcpy(&total, ip + 2, sizeof(total));
	ecn &= (uint8_t)~ip[1];
	ip[1] |= ecn;
	store16(ip + 10, (uint16_t)~csum_fold((uint64_t)t->ip_sum + htons(ecn) + total + t->id));
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
static inline uint64_t build_tcp_headers(const struct frame_template *t, uint8_t *frame,
					 const struct tcp_segment *seg, size_t hdr, uint32_t len)
{
	uint8_t *tcp = frame + IP4_L4;
	uint64_t sum = t->pseudo_sum;
	uint32_t seq = htonl(seg->seq), ack = htonl(seg->ack);
	uint16_t wnd = htons(seg->wnd), urg = htons(seg->urg), off;

	assert(seg->opt_len % 4 == 0 && seg->opt_len <= TCP_OPT_MAX);
	build_ip4(t, frame, hdr + len);
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

size_t frame_build_tcp(const struct frame_template *t, uint8_t *frame,
		       const struct tcp_segment *seg)
{
	uint8_t *tcp = frame + IP4_L4;
	size_t hdr = TCP_HDR + seg->opt_len;
	uint64_t sum = build_tcp_headers(t, frame, seg, hdr, seg->len);

	assert(seg->len == seg->part[0].len + seg->part[1].len);
	sum = copy_parts(tcp + hdr, seg->part, sum);
	store16(tcp + 16, (uint16_t)~csum_fold(sum));
	return IP4_L4 + hdr + seg->len;
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
	size_t hdr = TCP_HDR + seg->opt_len;

	piece.seq = 0;
	piece.flags &= (uint8_t) ~(TCP_PSH | TCP_FIN);
	train->t = t;
	train->seg = *seg;
	train->mss = mss;
	train->hdr = IP4_L4 + hdr;
	train->sum = csum_fold(build_tcp_headers(t, train->head, &piece, hdr, mss));
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
	store32(frame + IP4_L4 + 4, seq);
	sum = copy_parts(frame + train->hdr, part, (uint64_t)train->sum + seq);
	store16(frame + IP4_L4 + 16, (uint16_t)~csum_fold(sum));
	return train->hdr + train->mss;
}

/* ---- large segments ----------------------------------------------------------------- */

/* The sum of the pseudo-header: the template's includes the ports. */
static uint16_t pseudo_sum(const struct frame_template *t, size_t len)
{
	uint16_t ports[2];

	memcpy(ports, t->bytes + IP4_L4, sizeof(ports));
	return csum_fold((uint64_t)t->pseudo_sum + (uint16_t)~ports[0] + (uint16_t)~ports[1] +
			 htons((uint16_t)len));
}

void frame_build_large(struct frame_large *large, const struct frame_template *t,
		       const struct tcp_segment *seg, uint32_t mss)
{
	size_t hdr = TCP_HDR + seg->opt_len;

	large->mss = mss;
	large->hdr = (uint32_t)(IP4_L4 + hdr);
	large->len = seg->len;
	large->l4 = IP4_L4;
	memcpy(large->part, seg->part, sizeof(large->part));
	build_tcp_headers(t, large->head, seg, hdr, seg->len);
	store16(large->head + IP4_L4 + 16, pseudo_sum(t, hdr + seg->len));
}
