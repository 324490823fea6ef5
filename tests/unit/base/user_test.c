/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/user.h"

#include <errno.h>
#include <sys/mman.h>

#include "tests/vma_test.h"

static void test_good_memory_is_copied(void **state)
{
	char from[9] = "abcdefgh", to[9] = "";

	(void)state;
	assert_int_equal(user_read(to, from, 4), 0);
	assert_string_equal(to, "abcd");
	assert_int_equal(user_write(to, from, sizeof(from)), 0);
	assert_string_equal(to, "abcdefgh");
	assert_int_equal(user_read(to, NULL, 0), 0);
}

static void test_bad_memory_is_an_error(void **state)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char buf[16] = "";

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	assert_int_equal(munmap(page + 4096, 4096), 0);
	assert_int_equal(user_read(buf, NULL, 1), -EFAULT);
	assert_int_equal(user_write((void *)8, buf, 4), -EFAULT);
	/* Across the end of the page, too. */
	assert_int_equal(user_read(buf, page + 4092, 8), -EFAULT);
	assert_int_equal(user_write(page + 4092, buf, 8), -EFAULT);
	assert_int_equal(mprotect(page, 4096, PROT_READ), 0);
	assert_int_equal(user_read(buf, page, 8), 0);
	assert_int_equal(user_write(page, buf, 8), -EFAULT);
	munmap(page, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_memory_is_copied),
		cmocka_unit_test(test_bad_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
