/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/libc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "tests/vma_test.h"

/* This program contains the wrappers, not the real functions. */
static bool is_elsewhere(const void *function)
{
	Dl_info here, there;

	assert_true(dladdr((const void *)is_elsewhere, &here));
	return dladdr(function, &there) && here.dli_fbase != there.dli_fbase;
}

static void test_every_function_is_found_in_the_c_library(void **state)
{
	libc_resolve();
#define CALL(type, name, ...)                       \
	if (!is_elsewhere((const void *)libc.name)) \
		fail_msg("%s", #name);
#include "intercept/calls.h"
#undef CALL
}

static void test_looking_up_again_changes_nothing(void **state)
{
	struct libc_calls before = libc;

	errno = 77;
	libc_resolve();
	assert_int_equal(errno, 77);
	assert_memory_equal(&before, &libc, sizeof(libc));
}

static void test_wrappers_are_what_the_program_calls(void **state)
{
	assert_false(is_elsewhere((const void *)close));
	assert_ptr_not_equal(close, libc.close);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_every_function_is_found_in_the_c_library),
	cmocka_unit_test(test_looking_up_again_changes_nothing),
	cmocka_unit_test(test_wrappers_are_what_the_program_calls),
};

VMA_TEST_MAIN("libc", tests, NULL, NULL)
