/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_options.h"

#include <string.h>

#include "tests/vma_test.h"

static bool parse(struct tcp_options *opt, const void *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1); /* so that an overrun is detected */
	bool ok;

	memcpy(copy, bytes, len);
	ok = tcp_options_parse(opt, copy, len);
	free(copy);
	return ok;
}

static void test_what_a_syn_says_is_read_back(void **state)
{
	static const struct tcp_options said[] = {
		{.mss = 1460, .wscale = -1},
		{.mss = 536, .wscale = 7},
		{.mss = 65495, .wscale = 0, .sack_permitted = true},
		{.mss = 1460,
		 .wscale = 14,
		 .sack_permitted = true,
		 .has_ts = true,
		 .tsval = 0xfedcba98,
		 .tsecr = 7},
		{.mss = 1, .wscale = -1, .has_ts = true, .tsval = 1, .tsecr = 0},
	};

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		struct tcp_options got;
		uint8_t bytes[40];
		size_t len = tcp_options_write_syn(bytes, &said[i]);

		assert_true(len <= 40 && len % 4 == 0);
		assert_true(parse(&got, bytes, len));
		assert_int_equal(got.mss, said[i].mss);
		assert_int_equal(got.wscale, said[i].wscale);
		assert_int_equal(got.sack_permitted, said[i].sack_permitted);
		assert_int_equal(got.has_ts, said[i].has_ts);
		if (got.has_ts) {
			assert_int_equal(got.tsval, said[i].tsval);
			assert_int_equal(got.tsecr, said[i].tsecr);
		}
	}
}

static void test_blocks_that_fit_are_written(void **state)
{
	static const struct tcp_range blocks[4] = {{1, 2}, {0xfffffff0, 5}, {7, 9}, {11, 13}};
	static const struct {
		size_t room;
		unsigned n, written;
	} rows[] = {{40, 4, 4}, {28, 4, 3}, {27, 4, 2}, {12, 4, 1},
		    {11, 4, 0}, {40, 0, 0}, {40, 2, 2}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tcp_options got;
		uint8_t bytes[40];
		size_t len = tcp_options_write_sack(bytes, rows[i].room, blocks, rows[i].n);

		assert_int_equal(len, rows[i].written ? 4 + 8 * rows[i].written : 0);
		assert_true(parse(&got, bytes, len));
		assert_int_equal(got.sacks, rows[i].written);
		for (unsigned k = 0; k < got.sacks; k++) {
			assert_int_equal(got.sack[k].start, blocks[k].start);
			assert_int_equal(got.sack[k].end, blocks[k].end);
		}
	}
}

static void test_the_usual_timestamps_are_recognised(void **state)
{
	uint8_t bytes[12];

	assert_int_equal(tcp_options_write_timestamps(bytes, 0x01020304, 5), 12);
	assert_true(tcp_options_only_timestamps(bytes, 12));
	assert_int_equal(load_be32(bytes + 4), 0x01020304);
	assert_int_equal(load_be32(bytes + 8), 5);
	assert_false(tcp_options_only_timestamps(bytes, 16));
	bytes[3] = 9;
	assert_false(tcp_options_only_timestamps(bytes, 12));
}

static void test_malformed_ones_are_refused(void **state)
{
	static const struct {
		size_t len;
		uint8_t bytes[12];
	} rows[] = {
		{1, {2}},	   {2, {2, 4}},		{3, {2, 4, 5}},
		{4, {2, 3, 5, 5}}, {4, {3, 4, 7, 0}},	{2, {3, 2}},
		{3, {4, 3, 0}},	   {2, {8, 10}},	{4, {1, 1, 1, 8}},
		{2, {9, 0}},	   {2, {9, 1}},		{4, {9, 5, 0, 0}},
		{4, {5, 2, 0, 0}}, {4, {5, 4, 0, 0}},	{12, {5, 11, 1, 1, 1}},
		{12, {5, 12}},	   {12, {8, 12, 1, 1}},
	};
	struct tcp_options opt;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_false(parse(&opt, rows[i].bytes, rows[i].len));
}

static void test_unknown_ones_are_skipped_and_the_end_ends(void **state)
{
	static const uint8_t bytes[] = {30, 4, 9, 9, 1, 3, 3, 20, 0, 2, 99, 99};
	struct tcp_options opt;

	assert_true(parse(&opt, bytes, sizeof(bytes)));
	assert_int_equal(opt.wscale, TCP_WSCALE_MAX); /* 20 bytes are too many */
	assert_int_equal(opt.mss, 0);
	assert_true(parse(&opt, bytes, 0));
	assert_int_equal(opt.wscale, -1);
}

static void test_no_bytes_make_it_read_beyond_their_end(void **state)
{
	uint32_t x = 12345;
	struct tcp_options opt;
	uint8_t bytes[40];

	for (int i = 0; i < 200000; i++) {
		for (int k = 0; k < 40; k++) {
			x = x * 1664525u + 1013904223u;
			bytes[k] = (uint8_t)((x >> 24) % (i % 2 ? 256 : 12));
		}
		(void)parse(&opt, bytes, (x >> 8) % 41);
		assert_true(opt.sacks <= TCP_SACK_BLOCKS);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_a_syn_says_is_read_back),
	cmocka_unit_test(test_blocks_that_fit_are_written),
	cmocka_unit_test(test_the_usual_timestamps_are_recognised),
	cmocka_unit_test(test_malformed_ones_are_refused),
	cmocka_unit_test(test_unknown_ones_are_skipped_and_the_end_ends),
	cmocka_unit_test(test_no_bytes_make_it_read_beyond_their_end),
};

VMA_TEST_MAIN("tcp_options", tests, NULL, NULL)
