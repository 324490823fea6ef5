/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/drop.h"

#include <string.h>

#include "tests/vma_test.h"

static void test_every_reason_has_a_sentence(void **state)
{
	for (int i = 0; i < DROP_COUNT; i++)
		assert_true(strlen(drop_text((enum drop)i)) > 3);
	assert_string_equal(drop_text(DROP_UDP_CSUM), "UDP checksum is wrong");
}

static void test_a_number_that_is_no_reason_has_one_too(void **state)
{
	assert_string_equal(drop_text(DROP_COUNT), "unknown reason");
	assert_string_equal(drop_text((enum drop) - 1), "unknown reason");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_every_reason_has_a_sentence),
	cmocka_unit_test(test_a_number_that_is_no_reason_has_one_too),
};

VMA_TEST_MAIN("drop", tests, NULL, NULL)
