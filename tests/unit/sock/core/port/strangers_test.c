/* SPDX-License-Identifier: BSD-2-Clause */
/* How many datagrams of strangers the kernel gets; that it gets them is seen in tests/replies, on a card. */
#include "sock/core/port/strangers.h"

#include "tests/vma_test.h"

#define NOW (100 * NSEC_PER_SEC)

static unsigned allowed(nsec_t *due, nsec_t now, unsigned asked)
{
	unsigned n = 0;

	for (unsigned i = 0; i < asked; i++)
		n += strangers_may(due, now);
	return n;
}

static void test_a_burst_is_allowed_and_then_one_in_a_while(void **state)
{
	nsec_t due = 0;

	(void)state;
	assert_int_equal(allowed(&due, NOW, 1000), STRANGERS_BURST);
	assert_int_equal(allowed(&due, NOW + STRANGERS_GAP - 1, 10), 0);
	assert_int_equal(allowed(&due, NOW + STRANGERS_GAP, 10), 1);
	assert_int_equal(allowed(&due, NOW + 11 * STRANGERS_GAP, 100), 10);
}

static void test_after_silence_a_burst_is_allowed_again_and_no_more(void **state)
{
	nsec_t due = 0;

	(void)state;
	assert_int_equal(allowed(&due, NOW, 1), 1);
	assert_int_equal(allowed(&due, NOW + 3600 * NSEC_PER_SEC, 1000), STRANGERS_BURST);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_burst_is_allowed_and_then_one_in_a_while),
	cmocka_unit_test(test_after_silence_a_burst_is_allowed_again_and_no_more),
};

VMA_TEST_MAIN("strangers", tests, NULL, NULL)
