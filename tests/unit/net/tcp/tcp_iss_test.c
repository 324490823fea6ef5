/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp.h"
#include "net/tcp/tcp_seq.h"
#include "tests/vma_test.h"

static const uint8_t secret[2][16] = {{1}, {2}};

static void test_the_clock_ticks_every_4_us(void **state)
{
	struct endpoint a = {.addr = addr_v4(1), .port = 2}, b = {.addr = addr_v4(3), .port = 4};
	uint32_t first = tcp_start_of(secret[0], &a, &b, 0).iss;

	assert_int_equal(tcp_start_of(secret[0], &a, &b, 3999).iss, first);
	assert_int_equal(tcp_start_of(secret[0], &a, &b, 4000).iss, first + 1);
	assert_int_equal(tcp_start_of(secret[0], &a, &b, NSEC_PER_SEC).iss - first, 250000);
}

/* So the timestamps of a pair of hosts continue from one connection to the next. */
static void test_the_offset_of_timestamps_stays(void **state)
{
	struct endpoint a = {.addr = addr_v4(1), .port = 2}, b = {.addr = addr_v4(3), .port = 4};

	assert_int_equal(tcp_start_of(secret[0], &a, &b, 0).ts_offset,
			 tcp_start_of(secret[0], &a, &b, 12345678901).ts_offset);
}

static void test_pairs_and_secrets_differ(void **state)
{
	struct endpoint a = {.addr = addr_v4(1), .port = 2}, b = {.addr = addr_v4(3), .port = 4},
			c = {.addr = addr_v4(3), .port = 5};
	struct tcp_start one = tcp_start_of(secret[0], &a, &b, 0);
	struct tcp_start others[] = {tcp_start_of(secret[0], &b, &a, 0),
				     tcp_start_of(secret[0], &a, &c, 0),
				     tcp_start_of(secret[1], &a, &b, 0)};

	for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++) {
		assert_int_not_equal(one.iss, others[i].iss);
		assert_int_not_equal(one.ts_offset, others[i].ts_offset);
		assert_int_not_equal(one.iss - one.ts_offset, others[i].iss - others[i].ts_offset);
	}
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
	cmocka_unit_test(test_the_clock_ticks_every_4_us),
	cmocka_unit_test(test_the_offset_of_timestamps_stays),
	cmocka_unit_test(test_pairs_and_secrets_differ),
	cmocka_unit_test(test_sequence_numbers_wrap),
};

VMA_TEST_MAIN("tcp_iss", tests, NULL, NULL)
