/* SPDX-License-Identifier: BSD-2-Clause */
/* RFC 9438 and RFC 9406. */
#include "net/tcp/recovery/tcp_cc.h"

#include "tests/vma_test.h"

#define MSS 1000u
#define MSEC NSEC_PER_MSEC
#define SEGMENTS(n) ((n)*MSS)

/* The peer acknowledges a whole window, segment by segment, within one round trip. */
static nsec_t round_trip(struct tcp_cc *cc, nsec_t now, nsec_t rtt)
{
	uint32_t n = cc->cwnd / MSS;

	for (uint32_t i = 0; i < n; i++)
		tcp_cc_acked(cc, MSS, cc->cwnd, rtt, now + rtt * i / n);
	return now + rtt;
}

static struct tcp_cc congested_at(uint32_t segments)
{
	struct tcp_cc cc;

	tcp_cc_init(&cc, &tcp_cc_cubic, MSS);
	cc.cwnd = SEGMENTS(segments);
	tcp_cc_lost(&cc, cc.cwnd);
	return cc;
}

static void test_a_loss_leaves_seven_tenths(void **state)
{
	struct tcp_cc cc = congested_at(100);

	assert_int_equal(cc.cwnd, SEGMENTS(70)); /* section 4.6 */
	assert_int_equal(cc.cubic.w_max, SEGMENTS(100));
}

static void test_a_second_loss_below_converges_fast(void **state)
{
	struct tcp_cc cc = congested_at(100);

	tcp_cc_lost(&cc, cc.cwnd);
	assert_int_equal(cc.cubic.w_max, SEGMENTS(70) * 85 / 100); /* section 4.7 */
	assert_int_equal(cc.cwnd, SEGMENTS(49));
}

/* K = cbrt(30 / 0.4) = 4.217 s: section 4.2, equation (2). */
static void test_it_is_back_where_it_was_after_k(void **state)
{
	struct tcp_cc cc = congested_at(100);
	nsec_t now = 1000 * NSEC_PER_SEC, begin = now, rtt = 100 * MSEC;

	now = round_trip(&cc, now, rtt);
	assert_in_range(cc.cubic.k, 4215, 4218);
	while (now < begin + 2 * NSEC_PER_SEC)
		now = round_trip(&cc, now, rtt);
	/* 100 - 0.4 * 2.217^3 = 95.6 */
	assert_in_range(cc.cwnd, SEGMENTS(94), SEGMENTS(97));
	while (now < begin + 4217 * MSEC)
		now = round_trip(&cc, now, rtt);
	assert_in_range(cc.cwnd, SEGMENTS(99), SEGMENTS(101)); /* the plateau at the old window */
	while (now < begin + 9 * NSEC_PER_SEC)
		now = round_trip(&cc, now, rtt);
	/* 100 + 0.4 * 4.783^3 = 143.8 */
	assert_in_range(cc.cwnd, SEGMENTS(137), SEGMENTS(148));
}

static void test_on_a_short_path_it_is_as_fast_as_newreno(void **state)
{
	struct tcp_cc cc = congested_at(20);
	nsec_t now = 1000 * NSEC_PER_SEC;

	/* 14 segments and 0.53 a round trip of 1 ms: section 4.3. */
	for (int i = 0; i < 11; i++)
		now = round_trip(&cc, now, MSEC);
	assert_in_range(cc.cwnd, SEGMENTS(18), SEGMENTS(21));
	for (int i = 0; i < 20; i++) /* above the old window, one segment per round trip */
		now = round_trip(&cc, now, MSEC);
	assert_in_range(cc.cwnd, SEGMENTS(34), SEGMENTS(41));
}

static void test_a_pause_does_not_count(void **state)
{
	struct tcp_cc cc = congested_at(100);
	nsec_t now = 1000 * NSEC_PER_SEC;
	uint32_t before;

	for (int i = 0; i < 10; i++)
		now = round_trip(&cc, now, 100 * MSEC);
	before = cc.cwnd;
	now = round_trip(&cc, now + 3600 * NSEC_PER_SEC, 100 * MSEC); /* section 5.8 */
	assert_in_range(cc.cwnd, before, before + SEGMENTS(3));
}

static void test_it_grows_by_half_a_round_trip_at_most(void **state)
{
	struct tcp_cc cc = congested_at(100);
	nsec_t now = 1000 * NSEC_PER_SEC;
	uint32_t before;

	for (int i = 0; i < 60; i++) {
		before = cc.cwnd;
		now = round_trip(&cc, now, NSEC_PER_SEC);
		assert_true(cc.cwnd >= before);
		assert_true(cc.cwnd <= before + before / 2 + MSS); /* section 4.4: 1.5 cwnd */
		assert_true(cc.cwnd <= TCP_CC_MAX_WINDOW);
	}
}

static void test_after_a_timeout_the_plateau_is_where_slow_start_ends(void **state)
{
	struct tcp_cc cc = congested_at(100);
	nsec_t now = 1000 * NSEC_PER_SEC;

	tcp_cc_timeout(&cc, SEGMENTS(70), 0);
	assert_int_equal(cc.cwnd, MSS);
	assert_int_equal(cc.ssthresh, SEGMENTS(49));
	while (cc.cwnd < cc.ssthresh)
		now = round_trip(&cc, now, 10 * MSEC);
	now = round_trip(&cc, now, 10 * MSEC);
	assert_int_equal(cc.cubic.k, 0); /* section 4.8 */
	assert_in_range(cc.cubic.w_max, SEGMENTS(49), SEGMENTS(66));
}

/* ---- HyStart++ ---- */

/* One round of slow start; all its samples are rtt. */
static uint32_t slow_round(struct tcp_cc *cc, uint32_t una, nsec_t rtt)
{
	uint32_t nxt = una + cc->cwnd, n = cc->cwnd / MSS;

	for (uint32_t i = 0; i < n; i++) {
		una += MSS;
		tcp_cc_sampled(cc, una, nxt + i * MSS, rtt);
		tcp_cc_acked(cc, MSS, SEGMENTS(n), rtt, 0);
	}
	return una;
}

static void test_a_steady_round_trip_is_slow_start_for_ever(void **state)
{
	struct tcp_cc cc;
	uint32_t una = 0;

	tcp_cc_init(&cc, &tcp_cc_cubic, MSS);
	for (int i = 0; i < 6; i++)
		una = slow_round(&cc, una, 20 * MSEC);
	assert_int_equal(cc.cwnd, SEGMENTS(640));
	assert_int_equal(cc.ssthresh, TCP_CC_INFINITE);
}

static void test_a_growing_round_trip_makes_it_careful_and_ends_it(void **state)
{
	struct tcp_cc cc;
	uint32_t una = 0, before;

	tcp_cc_init(&cc, &tcp_cc_cubic, MSS);
	for (int i = 0; i < 3; i++)
		una = slow_round(&cc, una, 20 * MSEC);
	una = slow_round(&cc, una, 25 * MSEC); /* 4 ms more: RFC 9406 section 4.2 */
	assert_true(cc.hystart.css_base != 0);
	before = cc.cwnd;
	una = slow_round(&cc, una, 25 * MSEC);
	assert_in_range(cc.cwnd, before * 5 / 4 - MSS,
			before * 5 / 4 + MSS); /* a quarter of the growth */
	for (int i = 0; i < 5; i++)
		una = slow_round(&cc, una, 25 * MSEC);
	assert_true(cc.ssthresh != TCP_CC_INFINITE); /* CSS_ROUNDS */
}

static void test_a_false_alarm_is_taken_back(void **state)
{
	struct tcp_cc cc;
	uint32_t una = 0, before;

	tcp_cc_init(&cc, &tcp_cc_cubic, MSS);
	una = slow_round(&cc, una, 20 * MSEC);
	una = slow_round(&cc, una, 25 * MSEC);
	assert_true(cc.hystart.css_base != 0);
	una = slow_round(&cc, una, 20 * MSEC);
	assert_int_equal(cc.hystart.css_base, 0);
	before = cc.cwnd;
	una = slow_round(&cc, una, 20 * MSEC);
	assert_in_range(cc.cwnd, 2 * before - MSS, 2 * before);
}

static void test_algorithms_have_names_and_numbers(void **state)
{
	struct tcp_cc cc;

	assert_ptr_equal(tcp_cc_by_number(0), &tcp_cc_newreno);
	assert_ptr_equal(tcp_cc_by_number(1), &tcp_cc_cubic);
	assert_ptr_equal(tcp_cc_by_number(2), &tcp_cc_none);
	assert_ptr_equal(tcp_cc_by_number(-1), &tcp_cc_newreno);
	assert_ptr_equal(tcp_cc_by_number(3), &tcp_cc_newreno);
	assert_int_equal(tcp_cc_number_of("cubic"), 1);
	assert_int_equal(tcp_cc_number_of("bbr"), -1);
	tcp_cc_init(&cc, &tcp_cc_newreno, MSS);
	tcp_cc_switch(&cc, &tcp_cc_none);
	assert_int_equal(cc.cwnd, TCP_CC_MAX_WINDOW);
	tcp_cc_switch(&cc, &tcp_cc_cubic);
	assert_int_equal(cc.cwnd, SEGMENTS(10));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_loss_leaves_seven_tenths),
	cmocka_unit_test(test_a_second_loss_below_converges_fast),
	cmocka_unit_test(test_it_is_back_where_it_was_after_k),
	cmocka_unit_test(test_on_a_short_path_it_is_as_fast_as_newreno),
	cmocka_unit_test(test_a_pause_does_not_count),
	cmocka_unit_test(test_it_grows_by_half_a_round_trip_at_most),
	cmocka_unit_test(test_after_a_timeout_the_plateau_is_where_slow_start_ends),
	cmocka_unit_test(test_a_steady_round_trip_is_slow_start_for_ever),
	cmocka_unit_test(test_a_growing_round_trip_makes_it_careful_and_ends_it),
	cmocka_unit_test(test_a_false_alarm_is_taken_back),
	cmocka_unit_test(test_algorithms_have_names_and_numbers),
};

VMA_TEST_MAIN("tcp_cubic", tests, NULL, NULL)
