/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/mlx5/mlx5_clock.h"

#include "vma_test.h"

#define KHZ 156250u				  /* a tick is 6.4 ns */
#define SECOND ((uint64_t)KHZ * 1000)		  /* ticks */
#define NOON (INT64_C(1800000000) * NSEC_PER_SEC) /* some time */

static void test_a_line_goes_by_the_frequency(void **state)
{
	struct mlx5_line line;

	mlx5_line_begin(&line, 1000, NOON, KHZ);
	assert_int_equal(mlx5_line_at(&line, 1000), NOON);
	assert_int_equal(mlx5_line_at(&line, 1000 + SECOND), NOON + NSEC_PER_SEC - 1);
	assert_int_equal(mlx5_line_at(&line, 1005), NOON + 31);
	assert_int_equal(mlx5_line_at(&line, 995), NOON - 32);
	mlx5_line_begin(&line, 5, NOON, 1000000);
	assert_int_equal(mlx5_line_at(&line, 12345), NOON + 12340);
	assert_int_equal(mlx5_line_at(&line, 0), NOON - 5);
}

static void test_the_counter_wraps_around(void **state)
{
	struct mlx5_line line;

	mlx5_line_begin(&line, UINT64_MAX - 9, NOON, 1000000);
	assert_int_equal(mlx5_line_at(&line, UINT64_MAX), NOON + 9);
	assert_int_equal(mlx5_line_at(&line, 0), NOON + 10);
	assert_int_equal(mlx5_line_at(&line, 90), NOON + 100);
	/* 100 ticks, and 10 ns more than they say. */
	assert_true(mlx5_line_bend(&line, 90, NOON + 110, 1000000));
	assert_int_equal(mlx5_line_at(&line, 90), NOON + 100);
	assert_int_equal(mlx5_line_at(&line, UINT64_MAX), NOON + 9);
}

static void test_a_counter_that_stands_still_says_nothing(void **state)
{
	struct mlx5_line line, before;

	mlx5_line_begin(&line, 1000, NOON, KHZ);
	before = line;
	assert_false(mlx5_line_bend(&line, 1000, NOON + NSEC_PER_SEC, KHZ));
	assert_false(mlx5_line_bend(&line, 1009, NOON + NSEC_PER_SEC, KHZ));
	assert_false(mlx5_line_bend(&line, 900, NOON + NSEC_PER_SEC, KHZ));
	assert_memory_equal(&line, &before, sizeof(line));
}

static void test_an_error_is_gone_a_second_later(void **state)
{
	struct mlx5_line line;
	uint64_t ticks = SECOND;

	mlx5_line_begin(&line, 0, NOON, KHZ);
	/* The clock has gained 40 microseconds, as a counter that is 40 ppm too slow. */
	assert_true(mlx5_line_bend(&line, ticks, NOON + NSEC_PER_SEC + 40000, KHZ));
	assert_in_range(mlx5_line_at(&line, ticks), NOON + NSEC_PER_SEC - 1, NOON + NSEC_PER_SEC);
	ticks += SECOND;
	assert_in_range(mlx5_line_at(&line, ticks), NOON + 2 * NSEC_PER_SEC + 80000 - 5,
			NOON + 2 * NSEC_PER_SEC + 80000 + 5);
	/* And stays so. */
	for (int i = 3; i < 10; i++) {
		assert_true(
			mlx5_line_bend(&line, ticks, NOON + (i - 1) * (NSEC_PER_SEC + 40000), KHZ));
		ticks += SECOND;
		assert_in_range(mlx5_line_at(&line, ticks), NOON + i * (NSEC_PER_SEC + 40000) - 9,
				NOON + i * (NSEC_PER_SEC + 40000) + 9);
	}
}

static void test_a_clock_that_was_set_is_followed(void **state)
{
	struct mlx5_line line;

	mlx5_line_begin(&line, 0, NOON, KHZ);
	assert_true(mlx5_line_bend(&line, SECOND, NOON + 5 * NSEC_PER_SEC, KHZ));
	assert_int_equal(mlx5_line_at(&line, SECOND), NOON + 5 * NSEC_PER_SEC);
	assert_true(mlx5_line_bend(&line, 2 * SECOND, NOON, KHZ));
	assert_int_equal(mlx5_line_at(&line, 2 * SECOND), NOON);
	assert_int_equal(mlx5_line_at(&line, 2 * SECOND + 5), NOON + 31);
}

static void must_rise(const struct mlx5_line *line, uint64_t ticks, nsec_t *last)
{
	nsec_t at = mlx5_line_at(line, ticks);

	assert_true(at > *last);
	*last = at;
}

/*
 * A counter that drifts, read about once a second, up to 100 microseconds too late.  What arrived
 * before a bend is received after it, too.
 */
static void test_later_ticks_never_have_earlier_times(void **state)
{
	for (int ppm = -100; ppm <= 100; ppm += 20) {
		uint64_t ticks = UINT64_MAX - 3 * SECOND, seed = (uint64_t)ppm + 1000;
		nsec_t real = NOON, last = 0;
		struct mlx5_line line;

		mlx5_line_begin(&line, ticks, real, KHZ);
		for (int i = 0; i < 1000; i++) {
			nsec_t step;

			seed = seed * 6364136223846793005u + 1442695040888963407u;
			step = (nsec_t)(seed >> 33) % NSEC_PER_SEC + NSEC_PER_SEC / 2;
			ticks += (uint64_t)(step * KHZ / 1000000);
			real += step + step / 1000000 * ppm;
			for (uint64_t back = SECOND / 4; back > 100; back /= 2)
				must_rise(&line, ticks - back, &last);
			mlx5_line_bend(&line, ticks, real + (nsec_t)(seed >> 40) % 100000, KHZ);
			for (uint64_t on = 0; on < 60; on++)
				must_rise(&line, ticks - 40 + on, &last);
			assert_in_range(last, real - NSEC_PER_MSEC, real + NSEC_PER_MSEC);
		}
	}
}

/* The two lines of a bend are one, but for rounding. */
static void test_a_bend_is_no_step(void **state)
{
	struct mlx5_line line, before;

	mlx5_line_begin(&line, 0, NOON, KHZ);
	before = line;
	assert_true(mlx5_line_bend(&line, SECOND, NOON + NSEC_PER_SEC + 900000, KHZ));
	for (uint64_t back = 0; back <= SECOND; back += SECOND / 16)
		assert_in_range(mlx5_line_at(&line, SECOND - back),
				mlx5_line_at(&before, SECOND - back) - 1,
				mlx5_line_at(&before, SECOND - back) + 1);
	/* It does not run to the time at once: at most a thousandth faster. */
	assert_in_range(mlx5_line_at(&line, SECOND + SECOND / 1000),
			mlx5_line_at(&line, SECOND) + NSEC_PER_MSEC,
			mlx5_line_at(&line, SECOND) + NSEC_PER_MSEC + 1001);
}

static void test_the_counter_as_a_time(void **state)
{
	assert_int_equal(mlx5_ticks_to_nsec(0, KHZ), 0);
	assert_int_equal(mlx5_ticks_to_nsec(5, KHZ), 32);
	assert_int_equal(mlx5_ticks_to_nsec(SECOND * 1000000, KHZ), 1000000 * NSEC_PER_SEC);
	assert_int_equal(mlx5_ticks_to_nsec(SECOND * 1000000 + 1, KHZ), 1000000 * NSEC_PER_SEC + 6);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_line_goes_by_the_frequency),
	cmocka_unit_test(test_the_counter_wraps_around),
	cmocka_unit_test(test_a_counter_that_stands_still_says_nothing),
	cmocka_unit_test(test_an_error_is_gone_a_second_later),
	cmocka_unit_test(test_a_clock_that_was_set_is_followed),
	cmocka_unit_test(test_later_ticks_never_have_earlier_times),
	cmocka_unit_test(test_a_bend_is_no_step),
	cmocka_unit_test(test_the_counter_as_a_time),
};

VMA_TEST_MAIN("mlx5_clock", tests, NULL, NULL)
