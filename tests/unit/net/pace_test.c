/* SPDX-License-Identifier: BSD-2-Clause */
/* The token bucket of pacing. */
#include "net/pace.h"

#include "base/wheel.h"
#include "tests/vma_test.h"

#define MSEC NSEC_PER_MSEC
#define START (1000 * NSEC_PER_SEC)

/* How many packets of len bytes leave at now. */
static unsigned leave(struct pace *pace, uint32_t len, nsec_t now)
{
	unsigned n = 0;

	while (now >= pace_when(pace, len) && n < 100000) {
		pace_sent(pace, len, now);
		n++;
	}
	return n;
}

/* A packet each 10 ms, a millisecond early; never before its time. */
static void test_without_a_burst_each_packet_has_its_time(void **state)
{
	struct pace pace;

	pace_start(&pace, 100000, 0, START);
	assert_int_equal(leave(&pace, 1000, START - MSEC - 1), 0);
	assert_int_equal(leave(&pace, 1000, START - MSEC), 1);
	for (int i = 1; i < 100; i++) {
		nsec_t at = START + i * 10 * MSEC - MSEC;

		assert_true(pace_when(&pace, 1000) == at);
		assert_int_equal(leave(&pace, 1000, at - 1), 0);
		assert_int_equal(leave(&pace, 1000, at), 1);
	}
}

static void test_what_is_missed_by_8ms_is_made_up(void **state)
{
	struct pace pace;

	pace_start(&pace, 1000000, 0, START); /* one in a millisecond */
	assert_int_equal(leave(&pace, 1000, START), 2);
	assert_int_equal(leave(&pace, 1000, START + 8 * MSEC), 8);
	assert_int_equal(leave(&pace, 1000, START + 9999 * MSEC), 10);
}

/* In every interval: the burst, and what the rate brings. */
static void test_no_more_than_the_burst_leaves_at_once(void **state)
{
	static const nsec_t steps[] = {MSEC / 4, MSEC, 3 * MSEC, 10 * MSEC, 500 * MSEC};

	for (unsigned i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		struct pace pace;
		nsec_t now = START + NSEC_PER_SEC;
		unsigned sent = 0;

		pace_start(&pace, 1000000, 5000, START);
		assert_int_equal(leave(&pace, 1000, now), 5);
		for (int n = 1; n <= 100; n++) {
			unsigned once = leave(&pace, 1000, now + n * steps[i]);

			assert_in_range(once, 0, 5);
			sent += once;
			assert_in_range(sent, 0, n * steps[i] / MSEC);
		}
		/* Looked at no later than the bucket is full, the rate is reached. */
		if (steps[i] <= 3 * MSEC)
			assert_int_equal(sent, 100 * steps[i] / MSEC);
	}
}

static void test_a_packet_longer_than_the_burst_leaves_alone(void **state)
{
	struct pace pace;

	pace_start(&pace, 100000, 500, START);
	assert_int_equal(leave(&pace, 1000, START + NSEC_PER_SEC), 1);
	assert_int_equal(leave(&pace, 1000, START + NSEC_PER_SEC + 10 * MSEC - 1), 0);
	assert_int_equal(leave(&pace, 1000, START + NSEC_PER_SEC + 10 * MSEC), 1);
}

static void test_a_rate_of_0_is_no_limit(void **state)
{
	struct pace pace;

	pace_start(&pace, 0, 0, START);
	assert_int_equal(leave(&pace, 1000, 0), 100000);
}

static void test_the_burst_has_a_packet_and_a_tick_of_the_rate(void **state)
{
	assert_int_equal(pace_burst(125, 0, 1500), 0);
	assert_int_equal(pace_burst(125, 3000, 0), 3000);
	assert_int_equal(pace_burst(125, 3000, 1500), 3000);
	assert_int_equal(pace_burst(125, 100, 1500), 1500);
	assert_int_equal(pace_burst(125000000, 100, 1500), 125000000 * WHEEL_TICK / NSEC_PER_SEC);
	assert_int_equal(pace_burst(UINT64_MAX, 1, 1), UINT32_MAX);
}

/* The extremes that setsockopt(2) allows do not overflow. */
static void test_extremes(void **state)
{
	static const uint64_t rates[] = {1, 125, 1u << 31, UINT64_MAX};
	static const uint32_t bursts[] = {0, 1, 1500, UINT32_MAX};

	for (unsigned i = 0; i < 16; i++) {
		struct pace pace;

		pace_start(&pace, rates[i / 4], bursts[i % 4], START);
		for (int n = 0; n < 100; n++) {
			pace_sent(&pace, 65535, START);
			assert_true(pace.at > -NSEC_NEVER / 2);
		}
		assert_true(pace_when(&pace, 65535) <= pace.at + NSEC_NEVER / 2);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_without_a_burst_each_packet_has_its_time),
	cmocka_unit_test(test_what_is_missed_by_8ms_is_made_up),
	cmocka_unit_test(test_no_more_than_the_burst_leaves_at_once),
	cmocka_unit_test(test_a_packet_longer_than_the_burst_leaves_alone),
	cmocka_unit_test(test_a_rate_of_0_is_no_limit),
	cmocka_unit_test(test_the_burst_has_a_packet_and_a_tick_of_the_rate),
	cmocka_unit_test(test_extremes),
};

VMA_TEST_MAIN("pace", tests, NULL, NULL)
