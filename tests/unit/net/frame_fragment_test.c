/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/vma_test.h"

#include <string.h>

#include "net/frame.h"

#define MTU 1500
#define LARGEST 65507 /* 20 more with IPv6 */

static uint8_t payload[LARGEST + IP4_HDR];
static uint8_t frames[FRAGMENTS_MAX][2048];
static uint8_t whole[UDP_HDR + LARGEST + IP4_HDR];

static void make_template_to(struct frame_template *t, bool v6, uint8_t host)
{
	static const uint8_t here[6] = {2, 0, 0, 0, 0, 1}, there[6] = {2, 0, 0, 0, 0, 2};
	struct frame_params params = {
		.src_mac = here,
		.dst_mac = there,
		.src = {.addr = addr_v4(htonl(0x0a000001)), .port = htons(1000)},
		.dst = {.addr = addr_v4(htonl(0x0a000002)), .port = htons(2000)},
		.proto = IPPROTO_UDP,
		.ttl = 64};

	if (v6) {
		params.src.addr = (struct inaddr){.b = {0x20, 1, 0xd, 0xb8, [15] = 1}};
		params.dst.addr = (struct inaddr){.b = {0x20, 1, 0xd, 0xb8, [15] = host}};
	}
	assert_int_equal(frame_template_init(t, &params), 0);
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7 + (i >> 8));
}

static void make_template(struct frame_template *t, bool v6)
{
	make_template_to(t, v6, 2);
}

static uint16_t field(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/*
 * Fragments a datagram whose payload is in two pieces, split at this byte; returns the number
 * of frames.
 */
static size_t fragment(const struct frame_template *t, size_t len, size_t split, uint32_t mtu)
{
	struct iovec iov[3] = {
		{payload, split}, {payload + split, 0}, {payload + split, len - split}};
	struct frame_fragmenter f;
	size_t n = 0, size;

	frame_fragmenter_init(&f, t, iov, len, mtu, 0xab1234);
	while ((size = frame_fragment_next(&f, frames[n])) != 0) {
		assert_true(size <= ETH_HDR + mtu);
		assert_true(++n < FRAGMENTS_MAX);
	}
	frame_fragment_finish(&f, frames[0]);
	return n;
}

static uint32_t word(const uint8_t *p)
{
	return (uint32_t)field(p) << 16 | field(p + 2);
}

/* What a fragment says about itself: its place, data, and whether more follow. */
struct piece {
	const uint8_t *data;
	size_t at, len;
	uint32_t id;
	bool more;
};

static struct piece piece_of_ip4(const uint8_t *ip)
{
	assert_int_equal(csum_fold(csum_add(0, ip, IP4_HDR)), 0xffff);
	assert_int_equal(field(ip + 6) & 0x4000, 0); /* DF is not allowed in a fragment */
	return (struct piece){.data = ip + IP4_HDR,
			      .at = (size_t)(field(ip + 6) & 0x1fff) * 8,
			      .len = field(ip + 2) - (size_t)IP4_HDR,
			      .id = field(ip + 4),
			      .more = field(ip + 6) & 0x2000};
}

/* RFC 8200 4.5 */
static struct piece piece_of_ip6(const uint8_t *ip)
{
	const uint8_t *h = ip + IP6_HDR;

	assert_int_equal(ip[6], 44);
	assert_int_equal(h[0], IPPROTO_UDP);
	assert_int_equal(h[1] | (h[3] & 6), 0); /* reserved */
	return (struct piece){.data = h + 8,
			      .at = field(h + 2) & 0xfff8u,
			      .len = field(ip + 4) - 8u,
			      .id = word(h + 4),
			      .more = h[3] & 1};
}

/*
 * Reassembles as a receiver does: places data by offset, checks headers and the checksum. Returns
 * the identification.
 */
static uint32_t reassemble(const struct frame_template *t, size_t n, size_t len)
{
	bool v6 = t->special & FRAME_IP6;
	size_t end = 0;
	uint32_t id = 0;
	uint64_t sum;

	for (size_t i = 0; i < n; i++) {
		const uint8_t *ip = frames[i] + ETH_HDR;
		struct piece p = v6 ? piece_of_ip6(ip) : piece_of_ip4(ip);

		id = i ? id : p.id;
		assert_int_equal(p.id, id);
		assert_int_equal(p.more, i + 1 < n);
		assert_int_equal(p.at, end);
		assert_true(p.at + p.len <= sizeof(whole));
		memcpy(whole + p.at, p.data, p.len);
		end = p.at + p.len;
	}
	assert_int_equal(end, UDP_HDR + len);
	assert_int_equal(field(whole), 1000);
	assert_int_equal(field(whole + 2), 2000);
	assert_int_equal(field(whole + 4), UDP_HDR + len);
	sum = csum_add(0, frames[0] + ETH_HDR + (v6 ? 8 : 12), v6 ? 32 : 8) + htons(IPPROTO_UDP) +
	      htons((uint16_t)(UDP_HDR + len));
	assert_int_equal(csum_fold(csum_add(sum, whole, UDP_HDR + len)), 0xffff);
	assert_memory_equal(whole + UDP_HDR, payload, len);
	return id;
}

static void every_size_comes_together_again(void **state)
{
	static const size_t sizes[] = {1473, 1474, 1480, 2951, 2952, 2953, 9000, 65506, LARGEST};
	static const size_t splits[] = {0, 1, 7, 1471, 1472, 1473};
	struct frame_template t;

	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		make_template(&t, v6);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			for (size_t k = 0; k < sizeof(splits) / sizeof(splits[0]); k++)
				reassemble(&t, fragment(&t, sizes[i], splits[k], MTU), sizes[i]);
	}
	reassemble(&t, fragment(&t, LARGEST + IP4_HDR, 9, MTU), LARGEST + IP4_HDR);
}

static void the_least_mtu_needs_no_more_than_the_maximum(void **state)
{
	struct frame_template t;

	(void)state;
	make_template(&t, false);
	reassemble(&t, fragment(&t, LARGEST, 3, 576), LARGEST);
	make_template(&t, true);
	reassemble(&t, fragment(&t, LARGEST, 3, IP6_MTU_MIN), LARGEST);
}

/* All of a full size but the last, so none is larger than the MTU, or smaller than need be. */
static void fragments_have_the_size_of_the_mtu(void **state)
{
	struct frame_template t;

	(void)state;
	make_template(&t, false);
	assert_int_equal(fragment(&t, 2 * 1480 - UDP_HDR, 0, MTU), 2);
	assert_int_equal(fragment(&t, 2 * 1480 - UDP_HDR + 1, 0, MTU), 3);
	make_template(&t, true);
	assert_int_equal(fragment(&t, 2 * 1448 - UDP_HDR, 0, MTU), 2);
	assert_int_equal(fragment(&t, 2 * 1448 - UDP_HDR + 1, 0, MTU), 3);
}

/* RFC 7739: an outsider who sees one cannot tell those of other destinations. */
static void identifications_of_ip6_depend_on_the_destination(void **state)
{
	struct frame_template t;
	uint32_t id, again, other;

	(void)state;
	make_template(&t, false);
	assert_int_equal(reassemble(&t, fragment(&t, 3000, 0, MTU), 3000), 0x1234);
	make_template(&t, true);
	id = reassemble(&t, fragment(&t, 3000, 0, MTU), 3000);
	again = reassemble(&t, fragment(&t, 3000, 0, MTU), 3000);
	make_template_to(&t, true, 3);
	other = reassemble(&t, fragment(&t, 3000, 0, MTU), 3000);
	assert_int_equal(id, again);
	assert_int_not_equal(id, 0xab1234);
	assert_int_not_equal(id, other);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_size_comes_together_again),
	cmocka_unit_test(the_least_mtu_needs_no_more_than_the_maximum),
	cmocka_unit_test(fragments_have_the_size_of_the_mtu),
	cmocka_unit_test(identifications_of_ip6_depend_on_the_destination),
};

VMA_TEST_MAIN("frame_fragment", tests, NULL, NULL)
