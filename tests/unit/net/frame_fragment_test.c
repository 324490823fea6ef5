/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/vma_test.h"

#include <string.h>

#include "net/frame.h"

#define MTU 1500
#define LARGEST 65507

static uint8_t payload[LARGEST];
static uint8_t frames[FRAGMENTS_MAX][2048];
static uint8_t whole[UDP_HDR + LARGEST];

static void make_template(struct frame_template *t)
{
	static const uint8_t here[6] = {2, 0, 0, 0, 0, 1}, there[6] = {2, 0, 0, 0, 0, 2};
	struct frame_params params = {.src_mac = here,
				      .dst_mac = there,
				      .src = {addr_v4(htonl(0x0a000001)), htons(1000)},
				      .dst = {addr_v4(htonl(0x0a000002)), htons(2000)},
				      .proto = IPPROTO_UDP,
				      .ttl = 64,
				      .dont_fragment = true};

	assert_int_equal(frame_template_init(t, &params), 0);
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7 + (i >> 8));
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

	frame_fragmenter_init(&f, t, iov, len, mtu, 0x1234);
	while ((size = frame_fragment_next(&f, frames[n])) != 0) {
		assert_true(size <= t->l3 + mtu);
		assert_true(++n < FRAGMENTS_MAX);
	}
	frame_fragment_finish(&f, frames[0]);
	return n;
}

/* Reassembles as a receiver does: places data by offset, checks headers and the checksum. */
static void reassemble(const struct frame_template *t, size_t n, size_t len)
{
	size_t total = 0, end = 0;
	uint64_t sum;

	for (size_t i = 0; i < n; i++) {
		const uint8_t *ip = frames[i] + t->l3;
		size_t part = field(ip + 2) - (size_t)IP4_HDR;
		size_t at = (size_t)(field(ip + 6) & 0x1fff) * 8;

		assert_int_equal(csum_fold(csum_add(0, ip, IP4_HDR)), 0xffff);
		assert_int_equal(field(ip + 4), 0x1234);
		assert_int_equal(field(ip + 6) & 0x4000, 0); /* DF is not allowed in a fragment */
		assert_int_equal((field(ip + 6) & 0x2000) != 0, i + 1 < n);
		assert_int_equal(at, end);
		memcpy(whole + at, ip + IP4_HDR, part);
		end = at + part;
		total += part;
	}
	assert_int_equal(total, UDP_HDR + len);
	assert_int_equal(field(whole), 1000);
	assert_int_equal(field(whole + 2), 2000);
	assert_int_equal(field(whole + 4), UDP_HDR + len);
	sum = csum_add(0, frames[0] + t->l3 + 12, 8) + htons(IPPROTO_UDP) +
	      htons((uint16_t)(UDP_HDR + len));
	assert_int_equal(csum_fold(csum_add(sum, whole, UDP_HDR + len)), 0xffff);
	assert_memory_equal(whole + UDP_HDR, payload, len);
}

static void every_size_comes_together_again(void **state)
{
	static const size_t sizes[] = {1473, 1474, 1480, 2951, 2952, 2953, 9000, 65506, LARGEST};
	static const size_t splits[] = {0, 1, 7, 1471, 1472, 1473};
	struct frame_template t;

	(void)state;
	make_template(&t);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t k = 0; k < sizeof(splits) / sizeof(splits[0]); k++)
			reassemble(&t, fragment(&t, sizes[i], splits[k], MTU), sizes[i]);
}

static void the_least_mtu_needs_no_more_than_the_maximum(void **state)
{
	struct frame_template t;

	(void)state;
	make_template(&t);
	reassemble(&t, fragment(&t, LARGEST, 3, 576), LARGEST);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(every_size_comes_together_again),
	cmocka_unit_test(the_least_mtu_needs_no_more_than_the_maximum),
};

VMA_TEST_MAIN("frame_fragment", tests, NULL, NULL)
