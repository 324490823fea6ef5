/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds the fragments of a datagram that is larger than the path MTU, RFC 791, RFC 8200 4.5. */
#include <assert.h>

#include "net/frame_internal.h"

#define IP4_MF 0x2000
#define IP6_MF 1

static bool is_v6(const struct frame_fragmenter *f)
{
	return f->t->special & FRAME_IP6;
}

/* RFC 7739 5.3: unpredictable, and different for id that are. */
static uint32_t v6_id(const struct frame_template *t, uint32_t id)
{
	struct flow_key key = {.remote = frame_template_dst(t)};

	memcpy(&key.local, t->bytes + ETH_HDR + 8, sizeof(key.local));
	return flow_key_hash(&key) + id;
}

void frame_fragmenter_init(struct frame_fragmenter *f, const struct frame_template *t,
			   const struct iovec *iov, size_t len, uint32_t mtu, uint32_t id)
{
	memset(f, 0, sizeof(*f));
	f->t = t;
	f->iov = iov;
	f->total = UDP_HDR + len;
	f->data = t->l4 + (is_v6(f) ? IP6_FRAGMENT_HDR : 0u);
	f->step = (ETH_HDR + mtu - f->data) & ~7u; /* offsets count in units of eight bytes */
	f->id = is_v6(f) ? v6_id(t, id) : id;
	f->sum = (uint64_t)sum_at(t, PSEUDO_SUM) + 2 * (uint64_t)htons((uint16_t)f->total);
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

static void build_ip4(const struct frame_fragmenter *f, uint8_t *ip, size_t len, bool more)
{
	store16(ip + 2, htons((uint16_t)(IP4_HDR + len)));
	store16(ip + 4, htons((uint16_t)f->id));
	store16(ip + 6, htons((uint16_t)(f->at / 8 | (more ? IP4_MF : 0))));
	store16(ip + 10, 0);
	store16(ip + 10, (uint16_t)~csum_fold(csum_add(0, ip, IP4_HDR)));
}

static void build_ip6(const struct frame_fragmenter *f, uint8_t *ip, size_t len, bool more)
{
	uint8_t *h = ip + IP6_HDR;
	uint32_t id = htonl(f->id);

	store16(ip + 4, htons((uint16_t)(IP6_FRAGMENT_HDR + len)));
	h[0] = ip[6];
	h[1] = 0;
	ip[6] = IPPROTO_FRAGMENT;
	store16(h + 2, htons((uint16_t)(f->at | (more ? IP6_MF : 0))));
	memcpy(h + 4, &id, sizeof(id));
}

/* Writes the Ethernet and IP headers of this fragment. */
static void build_ip(const struct frame_fragmenter *f, uint8_t *frame, size_t len)
{
	bool more = f->at + len < f->total;

	memcpy(frame, f->t->bytes, f->t->l4);
	if (is_v6(f))
		build_ip6(f, frame + ETH_HDR, len, more);
	else
		build_ip4(f, frame + ETH_HDR, len, more);
}

size_t frame_fragment_next(struct frame_fragmenter *f, uint8_t *frame)
{
	size_t len = f->total - f->at < f->step ? f->total - f->at : f->step;
	uint8_t *data = frame + f->data;

	if (len == 0)
		return 0;
	build_ip(f, frame, len);
	if (f->at == 0) {
		memcpy(data, f->t->bytes + f->t->l4, 4); /* ports */
		store16(data + 4, htons((uint16_t)f->total));
		f->faulted = !gather(f, data + UDP_HDR, len - UDP_HDR);
	} else {
		f->faulted = !gather(f, data, len);
	}
	if (f->faulted)
		return 0;
	f->at += len;
	return f->data + len;
}

void frame_fragment_finish(const struct frame_fragmenter *f, uint8_t *first)
{
	uint16_t csum = (uint16_t)~csum_fold(f->sum);

	assert(f->at == f->total);
	if (f->t->special & FRAME_NO_CSUM)
		csum = 0;
	else if (csum == 0)
		csum = 0xffff; /* RFC 768: 0 means no checksum */
	store16(first + f->data + 6, csum);
}
