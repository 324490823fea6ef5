/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/recovery/tcp_cc.h"

#include "tests/vma_test.h"

static void test_it_begins_with_ten_segments(void **state)
{
	struct tcp_cc cc;

	tcp_cc_init(&cc, &tcp_cc_newreno, 1000);
	assert_int_equal(cc.cwnd, 10000);
	assert_int_equal(cc.ssthresh, TCP_CC_INFINITE);
}

static void test_slow_start_grows_by_what_is_acknowledged(void **state)
{
	struct tcp_cc cc;

	tcp_cc_init(&cc, &tcp_cc_newreno, 1000);
	tcp_cc_acked(&cc, 2000, 10000, 0, 0);
	assert_int_equal(cc.cwnd, 12000);
}

static void test_an_unused_window_does_not_grow(void **state)
{
	struct tcp_cc cc;

	tcp_cc_init(&cc, &tcp_cc_newreno, 1000);
	tcp_cc_acked(&cc, 4000, 4000, 0, 0);
	assert_int_equal(cc.cwnd, 10000);
	cc.ssthresh = 5000;
	for (int i = 0; i < 100; i++)
		tcp_cc_acked(&cc, 8000, 8000, 0, 0);
	assert_int_equal(cc.cwnd, 10000);
}

static void test_avoidance_grows_one_segment_a_window(void **state)
{
	struct tcp_cc cc;

	tcp_cc_init(&cc, &tcp_cc_newreno, 1000);
	cc.ssthresh = 10000;
	for (int i = 0; i < 9; i++)
		tcp_cc_acked(&cc, 1000, 10000, 0, 0);
	assert_int_equal(cc.cwnd, 10000);
	tcp_cc_acked(&cc, 1000, 10000, 0, 0);
	assert_int_equal(cc.cwnd, 11000);
}

static void test_a_loss_halves(void **state)
{
	struct tcp_cc cc;

	tcp_cc_init(&cc, &tcp_cc_newreno, 1000);
	tcp_cc_lost(&cc, 9000);
	assert_int_equal(cc.ssthresh, 4500);
	assert_int_equal(cc.cwnd, 4500);
	cc.cwnd = 1500; /* as RFC 6937 set it meanwhile */
	tcp_cc_recovered(&cc);
	assert_int_equal(cc.cwnd, 4500);
	tcp_cc_lost(&cc, 1000);
	assert_int_equal(cc.ssthresh, 2000); /* two segments at least */
}

static void test_a_timeout_leaves_one_segment(void **state)
{
	struct tcp_cc cc;

	tcp_cc_init(&cc, &tcp_cc_newreno, 1000);
	tcp_cc_timeout(&cc, 8000, 0);
	assert_int_equal(cc.cwnd, 1000);
	assert_int_equal(cc.ssthresh, 4000);
	tcp_cc_timeout(&cc, 1000, 1); /* the same data again */
	assert_int_equal(cc.ssthresh, 4000);
}

/* The window of so many bytes after a pause, with a timeout of 100 and a first window of 10,000. */
static uint32_t after_pause(uint32_t cwnd, nsec_t idle)
{
	struct tcp_cc cc;

	tcp_cc_init(&cc, &tcp_cc_newreno, 1000);
	cc.cwnd = cwnd;
	tcp_cc_idle(&cc, 10000, idle, 100);
	return cc.cwnd;
}

static void test_idleness_takes_back_what_was_not_confirmed(void **state)
{
	assert_int_equal(after_pause(50000, 100), 50000);
	assert_int_equal(after_pause(50000, 101), 25000);
	assert_int_equal(after_pause(50000, 200), 25000);
	assert_int_equal(after_pause(50000, 201), 12500);
	assert_int_equal(after_pause(50000, 301), 10000);
	assert_int_equal(after_pause(50000, INT64_MAX), 10000);
	assert_int_equal(after_pause(3000, 1000), 3000);
}

static void test_after_a_pause_it_soon_grows_again(void **state)
{
	struct tcp_cc cc;

	tcp_cc_init(&cc, &tcp_cc_newreno, 1000);
	cc.cwnd = 40000;
	cc.ssthresh = 20000;
	tcp_cc_idle(&cc, 10000, 1000, 100);
	assert_int_equal(cc.ssthresh, 30000); /* three quarters of what it was */
	tcp_cc_init(&cc, &tcp_cc_newreno, 1000);
	tcp_cc_idle(&cc, 10000, 1000, 100);
	assert_int_equal(cc.ssthresh, TCP_CC_INFINITE);
	tcp_cc_init(&cc, &tcp_cc_none, 1000);
	tcp_cc_idle(&cc, 10000, 1000, 100);
	assert_int_equal(cc.cwnd, TCP_CC_MAX_WINDOW);
}

static void test_it_never_exceeds_the_largest_window(void **state)
{
	struct tcp_cc cc;

	tcp_cc_init(&cc, &tcp_cc_newreno, 1000);
	for (int i = 0; i < 100; i++)
		tcp_cc_acked(&cc, 1u << 31, cc.cwnd, 0, 0);
	assert_int_equal(cc.cwnd, TCP_CC_MAX_WINDOW);
	tcp_cc_init(&cc, &tcp_cc_none, 1000);
	assert_int_equal(cc.cwnd, TCP_CC_MAX_WINDOW);
	tcp_cc_lost(&cc, 1000);
	assert_int_equal(cc.cwnd, TCP_CC_MAX_WINDOW);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_begins_with_ten_segments),
	cmocka_unit_test(test_slow_start_grows_by_what_is_acknowledged),
	cmocka_unit_test(test_an_unused_window_does_not_grow),
	cmocka_unit_test(test_avoidance_grows_one_segment_a_window),
	cmocka_unit_test(test_a_loss_halves),
	cmocka_unit_test(test_a_timeout_leaves_one_segment),
	cmocka_unit_test(test_idleness_takes_back_what_was_not_confirmed),
	cmocka_unit_test(test_after_a_pause_it_soon_grows_again),
	cmocka_unit_test(test_it_never_exceeds_the_largest_window),
};

VMA_TEST_MAIN("tcp_cc", tests, NULL, NULL)
