/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp.h"
#include "net/tcp_seq.h"
#include "tests/vma_test.h"

/* The vectors of the SipHash paper's reference: key 00..0f, message 00..(n-1). */
static void test_siphash_vectors(void **state)
{
	static const struct {
		size_t len;
		uint64_t hash;
	} rows[] = {{0, 0x726fdb47dd0e0e31u},
		    {1, 0x74f839c593dc67fdu},
		    {8, 0x93f5f5799a932462u},
		    {15, 0xa129ca6149be45e5u}};
	uint8_t key[16], data[16];

	for (unsigned i = 0; i < 16; i++)
		key[i] = data[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_true(tcp_siphash(key, data, rows[i].len) == rows[i].hash);
}

static void test_the_clock_ticks_every_4_us(void **state)
{
	static const uint8_t secret[16] = {1};
	struct endpoint a = {addr_v4(1), 2}, b = {addr_v4(3), 4};
	uint32_t first = tcp_iss(secret, &a, &b, 0);

	assert_int_equal(tcp_iss(secret, &a, &b, 3999), first);
	assert_int_equal(tcp_iss(secret, &a, &b, 4000), first + 1);
	assert_int_equal(tcp_iss(secret, &a, &b, NSEC_PER_SEC) - first, 250000);
}

static void test_pairs_and_secrets_differ(void **state)
{
	static const uint8_t secret[2][16] = {{1}, {2}};
	struct endpoint a = {addr_v4(1), 2}, b = {addr_v4(3), 4}, c = {addr_v4(3), 5};
	uint32_t one = tcp_iss(secret[0], &a, &b, 0);

	assert_int_not_equal(one, tcp_iss(secret[0], &b, &a, 0));
	assert_int_not_equal(one, tcp_iss(secret[0], &a, &c, 0));
	assert_int_not_equal(one, tcp_iss(secret[1], &a, &b, 0));
}

static void test_sequence_numbers_wrap(void **state)
{
	assert_true(seq_lt(0xffffffffu, 0));
	assert_true(seq_gt(5, 0xfffffff0u));
	assert_true(seq_leq(7, 7) && seq_geq(7, 7));
	assert_false(seq_lt(7, 7));
	assert_int_equal(seq_max(0xfffffff0u, 3), 3);
	assert_int_equal(seq_min(0xfffffff0u, 3), 0xfffffff0u);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_siphash_vectors),
	cmocka_unit_test(test_the_clock_ticks_every_4_us),
	cmocka_unit_test(test_pairs_and_secrets_differ),
	cmocka_unit_test(test_sequence_numbers_wrap),
};

VMA_TEST_MAIN("tcp_iss", tests, NULL, NULL)
