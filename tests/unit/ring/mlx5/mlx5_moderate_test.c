/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/mlx5/mlx5_moderate.h"

#include "base/param.h"
#include "vma_test.h"

static int setup(void **state)
{
	params.cq_aim_rate = 5000;
	params.cq_aim_max_frames = 560;
	params.cq_aim_max_usec = 250;
	return 0;
}

static void is(uint32_t frames, nsec_t time, unsigned want_frames, unsigned want_usec)
{
	struct mlx5_moderation m = mlx5_moderation_for(frames, time);

	assert_int_equal(m.frames, want_frames);
	assert_int_equal(m.usec, want_usec);
}

static void test_up_to_the_rate_each_frame_is_told(void **state)
{
	is(0, NSEC_PER_SEC, 0, 0);
	is(5000, NSEC_PER_SEC, 0, 0);
	is(1250, NSEC_PER_SEC / 4, 0, 0);
}

static void test_beyond_it_frames_share_an_event(void **state)
{
	is(10000, NSEC_PER_SEC, 2, 200);
	is(25000, NSEC_PER_SEC / 4, 20, 200);
}

static void test_both_have_a_bound(void **state)
{
	is(100000000, NSEC_PER_SEC, 560, 200);
	params.cq_aim_rate = 100;
	is(100000000, NSEC_PER_SEC, 560, 250);
	params.cq_aim_max_frames = params.cq_aim_max_usec = 100000000;
	params.cq_aim_rate = 1;
	is(UINT32_MAX, 1, UINT16_MAX, UINT16_MAX);
}

static void test_a_bound_of_zero_switches_it_off(void **state)
{
	params.cq_aim_max_frames = 0;
	is(1000000, NSEC_PER_SEC, 0, 0);
	params.cq_aim_max_frames = 560;
	params.cq_aim_max_usec = 0;
	is(1000000, NSEC_PER_SEC, 0, 0);
}

static void test_a_rate_of_zero_holds_back_as_long_as_it_may(void **state)
{
	params.cq_aim_rate = 0;
	is(1, NSEC_PER_SEC, 560, 250);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_up_to_the_rate_each_frame_is_told, setup),
	cmocka_unit_test_setup(test_beyond_it_frames_share_an_event, setup),
	cmocka_unit_test_setup(test_both_have_a_bound, setup),
	cmocka_unit_test_setup(test_a_bound_of_zero_switches_it_off, setup),
	cmocka_unit_test_setup(test_a_rate_of_zero_holds_back_as_long_as_it_may, setup),
};

VMA_TEST_MAIN("mlx5_moderate", tests, NULL, NULL)
