/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds the fragments of a datagram that is larger than the path MTU, RFC 791. */
#include <assert.h>
#include <string.h>

#include "net/frame.h"

#define IP4_MF 0x2000

void frame_fragmenter_init(struct frame_fragmenter *f, const struct frame_template *t,
			   const struct iovec *iov, size_t len, uint32_t mtu, uint16_t id)
{
	memset(f, 0, sizeof(*f));
	f->t = t;
	f->iov = iov;
	f->total = UDP_HDR + len;
	f->step = (mtu - IP4_HDR) & ~7u; /* offsets count in units of eight bytes */
	f->id = id;
	f->sum = (uint64_t)t->pseudo_sum + 2 * (uint64_t)htons((uint16_t)f->total);
}

/* Copies the next n payload bytes and sums them; false if they cannot be read. */
static bool gather(struct frame_fragmenter *f, uint8_t *to, size_t n)
{
	while (n) {
		size_t left = f->iov->iov_len - f->iov_at;
		size_t part = left < n ? left : n;
		uint64_t sum;

		sum = csum_copy(0, to, (const uint8_t *)f->iov->iov_base + f->iov_at, part);
		if (sum & CSUM_FAULT)
			return false;
		f->sum = csum_combine(f->sum, sum, f->payload_at & 1);
		f->payload_at += part;
		f->iov_at += part;
		to += part;
		n -= part;
		if (f->iov_at == f->iov->iov_len) {
			f->iov++;
			f->iov_at = 0;
		}
	}
	return true;
}

/* Writes the Ethernet and IP headers of this fragment. */
static void build_ip(const struct frame_fragmenter *f, uint8_t *frame, size_t len)
{
	uint8_t *ip = frame + f->t->l3;
	uint16_t total = htons((uint16_t)(IP4_HDR + len)), id = htons(f->id), off, csum;

	off = htons((uint16_t)(f->at / 8 | (f->at + len < f->total ? IP4_MF : 0)));
	memcpy(frame, f->t->bytes, f->t->l4);
	memcpy(ip + 2, &total, sizeof(total));
	memcpy(ip + 4, &id, sizeof(id));
	memcpy(ip + 6, &off, sizeof(off));
	memset(ip + 10, 0, 2);
	csum = (uint16_t)~csum_fold(csum_add(0, ip, IP4_HDR));
	memcpy(ip + 10, &csum, sizeof(csum));
}

size_t frame_fragment_next(struct frame_fragmenter *f, uint8_t *frame)
{
	size_t len = f->total - f->at < f->step ? f->total - f->at : f->step;
	uint8_t *data = frame + f->t->l4;

	if (len == 0)
		return 0;
	build_ip(f, frame, len);
	if (f->at == 0) {
		uint16_t udp_len = htons((uint16_t)f->total);

		memcpy(data, f->t->bytes + f->t->l4, 4); /* ports */
		memcpy(data + 4, &udp_len, sizeof(udp_len));
		f->faulted = !gather(f, data + UDP_HDR, len - UDP_HDR);
	} else {
		f->faulted = !gather(f, data, len);
	}
	if (f->faulted)
		return 0;
	f->at += len;
	return f->t->l4 + len;
}

void frame_fragment_finish(const struct frame_fragmenter *f, uint8_t *first)
{
	uint16_t csum = (uint16_t)~csum_fold(f->sum);

	assert(f->at == f->total);
	if (f->t->no_csum)
		csum = 0;
	else if (csum == 0)
		csum = 0xffff; /* RFC 768: 0 means no checksum */
	memcpy(first + f->t->l4 + 6, &csum, sizeof(csum));
}
