/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/recovery/rtt.h"

#include "tests/vma_test.h"

static void test_before_the_first_sample_a_second(void **state)
{
	struct rtt rtt;

	rtt_init(&rtt);
	assert_int_equal(rtt.rto, RTT_INITIAL_RTO);
	assert_int_equal(rtt.srtt, 0);
}

static void test_the_first_sample_sets_estimate_and_variance(void **state)
{
	struct rtt rtt;

	rtt_init(&rtt);
	rtt_sample(&rtt, 400 * NSEC_PER_MSEC, RTT_MIN_RTO);
	assert_int_equal(rtt.srtt, 400 * NSEC_PER_MSEC);
	assert_int_equal(rtt.rttvar, 200 * NSEC_PER_MSEC);
	assert_int_equal(rtt.rto, (400 + 4 * 200) * NSEC_PER_MSEC);
	assert_int_equal(rtt.min, 400 * NSEC_PER_MSEC);
}

static void test_later_samples_move_it_by_an_eighth_and_a_quarter(void **state)
{
	struct rtt rtt;

	rtt_init(&rtt);
	rtt_sample(&rtt, 800, RTT_MIN_RTO);
	rtt_sample(&rtt, 1600, RTT_MIN_RTO);
	assert_int_equal(rtt.srtt, 900);   /* 7/8 * 800 + 1/8 * 1600 */
	assert_int_equal(rtt.rttvar, 500); /* 3/4 * 400 + 1/4 * 800 */
	rtt_sample(&rtt, 100, RTT_MIN_RTO);
	assert_int_equal(rtt.srtt, 800);
	assert_int_equal(rtt.rttvar, 575);
	assert_int_equal(rtt.min, 100);
}

static void test_a_steady_path_keeps_the_floor_above_its_round_trip(void **state)
{
	struct rtt rtt;

	rtt_init(&rtt);
	for (int i = 0; i < 1000; i++)
		rtt_sample(&rtt, NSEC_PER_SEC, RTT_MIN_RTO);
	assert_int_equal(rtt.srtt, NSEC_PER_SEC);
	assert_in_range(rtt.rto, NSEC_PER_SEC + RTT_MIN_RTO, NSEC_PER_SEC + RTT_MIN_RTO + 100);
	for (int i = 0; i < 1000; i++)
		rtt_sample(&rtt, 0, RTT_MIN_RTO); /* finer than the clock */
	assert_true(rtt.srtt >= 1);
	assert_in_range(rtt.rto, RTT_MIN_RTO, RTT_MIN_RTO + 100);
}

static void test_the_floor_may_be_another_one(void **state)
{
	struct rtt rtt;

	rtt_init(&rtt);
	assert_int_equal(rtt_base(&rtt, RTT_LEAST_MIN_RTO), RTT_INITIAL_RTO);
	rtt_sample(&rtt, 400, RTT_LEAST_MIN_RTO);
	assert_int_equal(rtt.rto, 400 + RTT_LEAST_MIN_RTO);
	assert_int_equal(rtt_base(&rtt, 5 * NSEC_PER_MSEC), 400 + 5 * NSEC_PER_MSEC);
	rtt_backoff(&rtt);
	assert_int_equal(rtt.rto, 2 * (400 + RTT_LEAST_MIN_RTO));
	assert_int_equal(rtt_base(&rtt, RTT_LEAST_MIN_RTO), 400 + RTT_LEAST_MIN_RTO);
	assert_int_equal(rtt_base(&rtt, RTT_MAX_RTO), RTT_MAX_RTO);
}

static void test_backoff_keeps_the_estimate_and_saturates(void **state)
{
	struct rtt rtt;

	rtt_init(&rtt);
	rtt_sample(&rtt, NSEC_PER_MSEC, RTT_MIN_RTO);
	rtt_backoff(&rtt);
	assert_int_equal(rtt.rto, 2 * (NSEC_PER_MSEC + RTT_MIN_RTO));
	for (int i = 0; i < 100; i++)
		rtt_backoff(&rtt);
	assert_int_equal(rtt.rto, RTT_MAX_RTO);
	assert_int_equal(rtt.srtt, NSEC_PER_MSEC);
	rtt_sample(&rtt, NSEC_PER_MSEC, RTT_MIN_RTO);
	assert_true(rtt.rto < NSEC_PER_SEC);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_before_the_first_sample_a_second),
	cmocka_unit_test(test_the_first_sample_sets_estimate_and_variance),
	cmocka_unit_test(test_later_samples_move_it_by_an_eighth_and_a_quarter),
	cmocka_unit_test(test_a_steady_path_keeps_the_floor_above_its_round_trip),
	cmocka_unit_test(test_the_floor_may_be_another_one),
	cmocka_unit_test(test_backoff_keeps_the_estimate_and_saturates),
};

VMA_TEST_MAIN("rtt", tests, NULL, NULL)
