/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/latency.h"

#include <string.h>

#include "tests/vma_test.h"

static void test_buckets_follow_each_other(void **state)
{
	for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
		uint64_t end = latency_end(i);

		assert_int_equal(latency_bucket(end - 1), i);
		if (i + 1 < LATENCY_BUCKETS)
			assert_int_equal(latency_bucket(end), i + 1);
	}
	assert_int_equal(latency_bucket(0), 0);
	assert_int_equal(latency_bucket(UINT64_MAX), LATENCY_BUCKETS - 1);
	assert_true(latency_end(LATENCY_BUCKETS - 1) > 120ull * 1000000000);
}

static void test_a_bucket_is_an_eighth_wide(void **state)
{
	for (unsigned i = LATENCY_STEPS; i + 1 < LATENCY_BUCKETS; i++) {
		uint64_t begin = latency_end(i - 1);

		assert_true((latency_end(i) - begin) * 8 <= begin);
	}
}

static void test_percentiles(void **state)
{
	static struct stats_latency latency;

	memset(&latency, 0, sizeof(latency));
	assert_true(latency_percentile(&latency, 50000) == 0);
	for (uint64_t i = 1; i <= 1000; i++)
		latency_add(&latency, i * 1000);
	assert_true(latency.count == 1000);
	assert_true(latency.sum == 500500000);
	assert_true(latency.most == 1000000);
	/* At least the exact value, at most an eighth more. */
	assert_in_range(latency_percentile(&latency, 50000), 500000, 562500);
	assert_in_range(latency_percentile(&latency, 90000), 900000, 1000000);
	assert_true(latency_percentile(&latency, 99999) == 1000000);
	assert_true(latency_percentile(&latency, 100000) == 1000000);
}

static void test_one_latency_is_each_percentile(void **state)
{
	static struct stats_latency latency;

	memset(&latency, 0, sizeof(latency));
	latency_add(&latency, 300);
	assert_true(latency_percentile(&latency, 0) == 300);
	assert_true(latency_percentile(&latency, 50000) == 300);
	assert_true(latency_percentile(&latency, 99900) == 300);
}

static void test_what_a_hostile_page_says_is_bounded(void **state)
{
	static struct stats_latency latency;

	memset(&latency, 0xff, sizeof(latency));
	(void)latency_percentile(&latency, 99900);
	memset(&latency, 0, sizeof(latency));
	latency.buckets[LATENCY_BUCKETS - 1] = UINT64_MAX;
	assert_true(latency_percentile(&latency, 50000) == latency_end(LATENCY_BUCKETS - 1));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_buckets_follow_each_other),
	cmocka_unit_test(test_a_bucket_is_an_eighth_wide),
	cmocka_unit_test(test_percentiles),
	cmocka_unit_test(test_one_latency_is_each_percentile),
	cmocka_unit_test(test_what_a_hostile_page_says_is_bounded),
};

VMA_TEST_MAIN("latency", tests, NULL, NULL)
