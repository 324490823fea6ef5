/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/heritage.h"

#include <limits.h>
#include <string.h>

#include "tests/vma_test.h"

static void test_items_are_read_in_turn(void **state)
{
	const char *text = "600,12345678901,7;0,18446744073709551615,4611686018427387904";
	struct heritage_item item;

	assert_true(heritage_read_item(&text, &item));
	assert_int_equal(item.fd, 600);
	assert_int_equal(item.inode, 12345678901);
	assert_int_equal(item.number, 7);
	assert_true(heritage_read_item(&text, &item));
	assert_int_equal(item.fd, 0);
	assert_true(item.inode == UINT64_MAX);
	assert_true(item.number == 1ull << 62);
	assert_false(heritage_read_item(&text, &item));
	assert_int_equal(*text, 0);
}

static void test_nonsense_is_no_item(void **state)
{
	static const char *const wrong[] = {
		"",
		";",
		"1",
		"1,",
		"1,2",
		"1,2,",
		"1,2,3,",
		"1,2,3x",
		",2,3",
		"-1,2,3",
		"1,-2,3",
		" 1,2,3",
		"+1,2,3",
		"0x1,2,3",
		"2147483648,2,3",
		"99999999999999999999999999,2,3",
		"1,18446744073709551616,3",
		"1,2,4611686018427387905",
	};
	struct heritage_item item;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		const char *text = wrong[i];

		if (heritage_read_item(&text, &item) || text != wrong[i])
			fail_msg("%s", wrong[i]);
	}
}

static void test_variable_is_taken_out(void **state)
{
	char *env[] = {(char *)"A=1", (char *)"VMA_INHERITED=1,2,3", (char *)"VMA_INHERITED_NOT=1",
		       (char *)"B=2", NULL};

	assert_string_equal(heritage_take_variable(env), "1,2,3");
	assert_string_equal(env[0], "A=1");
	assert_string_equal(env[1], "VMA_INHERITED_NOT=1");
	assert_string_equal(env[2], "B=2");
	assert_null(env[3]);
	assert_null(heritage_take_variable(env));
	assert_null(heritage_take_variable(NULL));
}

static void test_what_is_not_there_is_not_inherited(void **state)
{
	heritage_take(NULL);
	heritage_take("");
	heritage_take("0,1,1");
	heritage_take("2147483647,1,1;2147483647,1,1");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_items_are_read_in_turn),
	cmocka_unit_test(test_nonsense_is_no_item),
	cmocka_unit_test(test_variable_is_taken_out),
	cmocka_unit_test(test_what_is_not_there_is_not_inherited),
};

VMA_TEST_MAIN("exec", tests, NULL, NULL)
