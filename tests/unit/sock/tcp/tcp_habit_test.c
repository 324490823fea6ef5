/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/tcp/tcp_habit.h"
#include "tests/vma_test.h"

static void learn(enum tcp_habit what, int times)
{
	while (times--)
		tcp_habit_learn(what);
}

static void test_a_process_that_always_closes(void **state)
{
	learn(HABIT_FIN, 3);
	assert_false(tcp_habit_expects_fin());
	learn(HABIT_FIN, 1);
	assert_true(tcp_habit_expects_fin());
	learn(HABIT_NONE, 1);
	assert_false(tcp_habit_expects_fin());
}

static void test_one_response_of_64_may_wait_in_vain(void **state)
{
	learn(HABIT_FIN, 1000);
	learn(HABIT_IN_VAIN, 1);
	assert_true(tcp_habit_expects_fin());
	for (int i = 0; i < 100; i++) {
		learn(HABIT_FIN, 64);
		assert_true(tcp_habit_expects_fin());
		learn(HABIT_IN_VAIN, 1);
	}
	assert_true(tcp_habit_expects_fin());
	learn(HABIT_FIN, 62);
	learn(HABIT_IN_VAIN, 9);
	learn(HABIT_FIN, 67);
	assert_false(tcp_habit_expects_fin());
	learn(HABIT_FIN, 1);
	assert_true(tcp_habit_expects_fin());
}

static void test_connections_that_stay_outweigh_those_that_end(void **state)
{
	learn(HABIT_FIN, 1000);
	for (int i = 0; i < 128; i++) {
		learn(HABIT_FIN, 7);
		learn(HABIT_NONE, 1);
	}
	assert_false(tcp_habit_expects_fin());
}

static void test_a_response_does_not_wait_for_work_that_takes_long(void **state)
{
	assert_int_equal(tcp_habit_of(20 * NSEC_PER_USEC, false), HABIT_FIN);
	assert_int_equal(tcp_habit_of(20 * NSEC_PER_USEC, true), HABIT_FIN);
	assert_int_equal(tcp_habit_of(NSEC_PER_MSEC, false), HABIT_LATE);
	assert_int_equal(tcp_habit_of(NSEC_PER_MSEC, true), HABIT_IN_VAIN);
	learn(HABIT_IN_VAIN, 2);
	assert_false(tcp_habit_expects_fin());
	learn(HABIT_LATE, 1000);
	assert_false(tcp_habit_expects_fin());
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_process_that_always_closes),
	cmocka_unit_test(test_one_response_of_64_may_wait_in_vain),
	cmocka_unit_test(test_a_response_does_not_wait_for_work_that_takes_long),
	cmocka_unit_test(test_connections_that_stay_outweigh_those_that_end),
};

VMA_TEST_MAIN("tcp_habit", tests, NULL, NULL)
