/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/frame.h"

#include "tests/vma_test.h"

#define SEED 20240607u

static uint32_t random_word(void)
{
	static uint64_t x = SEED;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 16);
}

/* RFC 1071 section 4.1, literally, in network order. */
static uint16_t naive(const uint8_t *data, size_t len)
{
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)(data[i] << 8 | data[i + 1]);
	if (len & 1)
		sum += (uint32_t)data[len - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)sum);
}

/* In ones' complement 0 and 0xffff are equal; only all-zero data gives 0. */
static void check_sum(uint64_t sum, const uint8_t *data, size_t len)
{
	uint16_t folded = csum_fold(sum);

	if (folded != naive(data, len))
		fail_msg("length %zu: %04x, not %04x", len, folded, naive(data, len));
}

static void test_example_of_rfc_1071(void **state)
{
	static const uint8_t data[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};

	assert_int_equal(csum_fold(csum_add(0, data, sizeof(data))), htons(0xddf2));
	/* the table of section 3, in pieces: 00 01 f2 | 03 f4 f5 f6 f7 */
	assert_int_equal(
		csum_fold(csum_combine(csum_add(0, data, 3), csum_add(0, data + 3, 5), true)),
		htons(0xddf2));
}

static void test_an_ip_header_sums_to_all_ones(void **state)
{
	/* The checksum of a captured datagram. */
	static const uint8_t header[] = {0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40,
					 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8,
					 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7};

	assert_int_equal(csum_fold(csum_add(0, header, sizeof(header))), 0xffff);
}

static void test_folding(void **state)
{
	assert_int_equal(csum_fold(0), 0);
	assert_int_equal(csum_fold(0xffff), 0xffff);
	assert_int_equal(csum_fold(0x10000), 1);
	assert_int_equal(csum_fold(0x1ffff), 1);
	assert_int_equal(csum_fold(0xffffffff), 0xffff);
	assert_int_equal(csum_fold(0x100000000), 1);
	assert_int_equal(csum_fold(UINT64_MAX), 0xffff);
	assert_int_equal(csum_fold(UINT64_MAX - 1), 0xfffe);
	assert_int_equal(csum_fold(0xffffffff00000001), 1);
}

/* Each buffer is allocated with its exact size, so that AddressSanitizer sees an overrun. */
static void test_every_length_and_alignment(void **state)
{
	for (size_t len = 0; len <= 700; len++) {
		for (size_t align = 0; align < (len < 80 ? 64 : 8); align++) {
			size_t to_align = align * 3 & 15;
			uint8_t *from_block = malloc(align + len);
			uint8_t *to_block = malloc(to_align + len + 1);
			uint8_t *from = from_block + align, *to = to_block + to_align;

			for (size_t i = 0; i < len; i++)
				from[i] = (uint8_t)random_word();
			to[len] = 0x5a;
			check_sum(csum_add(0, from, len), from, len);
			check_sum(csum_copy(0, to, from, len), from, len);
			assert_memory_equal(to, from, len);
			assert_int_equal(to[len], 0x5a);
			free(from_block);
			free(to_block);
		}
	}
}

static void test_carries_are_never_lost(void **state)
{
	static uint8_t ones[65536], to[65536];

	memset(ones, 0xff, sizeof(ones));
	for (size_t len = 0; len <= sizeof(ones); len += len < 600 ? 1 : 1021) {
		check_sum(csum_add(0, ones, len), ones, len);
		check_sum(csum_copy(0, to, ones, len), ones, len);
	}
	memset(to, 0, sizeof(to));
	assert_int_equal(csum_fold(csum_add(0, to, sizeof(to))), 0);
}

static void test_the_sum_so_far_is_kept(void **state)
{
	static uint8_t data[2000], to[2000];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)random_word();
	for (size_t cut = 0; cut <= 1000; cut += 2) {
		uint64_t sum = csum_add(0, data, cut);

		check_sum(csum_add(sum, data + cut, 1000), data, cut + 1000);
		check_sum(csum_copy(sum, to, data + cut, 1000), data, cut + 1000);
	}
}

static void test_pieces_at_odd_offsets_combine(void **state)
{
	static uint8_t data[1500];

	for (int round = 0; round < 2000; round++) {
		size_t len = random_word() % sizeof(data), at = 0, n;
		uint64_t sum = 0;

		for (size_t i = 0; i < len; i++)
			data[i] = (uint8_t)random_word();
		for (; at < len; at += n) {
			n = 1 + random_word() % (len - at);
			sum = csum_combine(sum, csum_add(0, data + at, n), at & 1);
		}
		check_sum(sum, data, len);
	}
}

/* Partial sums may be added: the sum of one call is below the documented bound. */
static void test_a_sum_stays_small(void **state)
{
	static uint8_t ones[65536];

	memset(ones, 0xff, sizeof(ones));
	for (size_t len = 0; len <= sizeof(ones); len += 8)
		assert_true(csum_add(0, ones, len) <= (len / 4 + 4) << 32);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_example_of_rfc_1071),
	cmocka_unit_test(test_an_ip_header_sums_to_all_ones),
	cmocka_unit_test(test_folding),
	cmocka_unit_test(test_every_length_and_alignment),
	cmocka_unit_test(test_carries_are_never_lost),
	cmocka_unit_test(test_the_sum_so_far_is_kept),
	cmocka_unit_test(test_pieces_at_odd_offsets_combine),
	cmocka_unit_test(test_a_sum_stays_small),
};

VMA_TEST_MAIN("checksum", tests, NULL, NULL)
