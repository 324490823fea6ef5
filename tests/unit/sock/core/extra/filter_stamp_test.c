/* SPDX-License-Identifier: BSD-2-Clause */
/* When the packets that a receive callback sees have arrived: the wall clock is read now and then. */
#include "sock/core/extra/filter.h"

#include "vma_test.h"

#define HOUR (3600 * NSEC_PER_SEC)

static struct filter filter;
static struct ring ring;
static struct pkt pkt;

static nsec_t stamp_at(nsec_t now)
{
	ring.now = now;
	return filter_arrived(&filter, &ring, &pkt);
}

static int forget(void **state)
{
	filter = (struct filter){0};
	return 0;
}

static void test_it_goes_on_as_the_ring_does(void **state)
{
	nsec_t first = stamp_at(HOUR);

	assert_true(first);
	assert_true(stamp_at(HOUR) == first);
	assert_true(stamp_at(HOUR + 300 * NSEC_PER_USEC) == first + 300 * NSEC_PER_USEC);
	assert_true(stamp_at(HOUR + 999 * NSEC_PER_USEC) == first + 999 * NSEC_PER_USEC);
}

/* The clock may have been set, by any time. */
static void test_the_clock_is_read_again_after_a_millisecond(void **state)
{
	nsec_t before, at;

	stamp_at(HOUR);
	filter.arrived -= HOUR;
	assert_true(stamp_at(HOUR + 1) < clock_real() - HOUR / 2);
	before = clock_real();
	at = stamp_at(HOUR + NSEC_PER_MSEC);
	assert_true(before <= at && at <= clock_real());
}

/* It moved to another ring, which was not polled for a while. */
static void test_it_is_read_again_when_time_goes_back(void **state)
{
	nsec_t before, at;

	stamp_at(HOUR);
	before = clock_real();
	at = stamp_at(HOUR - 1);
	assert_true(before <= at && at <= clock_real());
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_it_goes_on_as_the_ring_does, forget),
	cmocka_unit_test_setup(test_the_clock_is_read_again_after_a_millisecond, forget),
	cmocka_unit_test_setup(test_it_is_read_again_when_time_goes_back, forget),
};

VMA_TEST_MAIN("filter_stamp", tests, NULL, NULL)
