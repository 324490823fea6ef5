/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/guard.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/user.h"
#include "tests/vma_test.h"

#define PAGE 4096

/* Two pages, each followed by an unmapped page; the second page is read-only. */
static char *page, *fixed;
static int fixes;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)info;
	if (guard_fix(context)) {
		fixes++;
		return;
	}
	signal(sig, SIG_DFL);
}

/* Called in each test, because cmocka installs its own handlers around a test. */
static void watch(void)
{
	struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	assert_int_equal(sigaction(SIGSEGV, &act, NULL), 0);
	fixes = 0;
}

static int setup(void **state)
{
	(void)state;
	page = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return -1;
	fixed = page + 2 * PAGE;
	for (int i = 0; i < PAGE; i++)
		page[i] = fixed[i] = (char)(i * 7);
	return munmap(page + PAGE, PAGE) || munmap(fixed + PAGE, PAGE) ||
	       mprotect(fixed, PAGE, PROT_READ);
}

static int teardown(void **state)
{
	(void)state;
	munmap(page, PAGE);
	munmap(fixed, PAGE);
	return 0;
}

typedef bool (*copy_fn)(void *to, const void *from, size_t n);

static bool copy_short(void *to, const void *from, size_t n)
{
	return user_copy_short(to, from, n);
}

/* Copies all lengths, up to the ends of the mapped memory on both sides. */
static void copy_what_is_there(copy_fn copy)
{
	char buf[PAGE + 2];

	for (size_t n = 0; n <= PAGE; n += n < 700 ? 1 : 97) {
		memset(buf, 'x', sizeof(buf));
		assert_true(copy(buf + 1, fixed + PAGE - n, n));
		assert_memory_equal(buf + 1, fixed + PAGE - n, n);
		assert_int_equal(buf[0], 'x');
		assert_int_equal(buf[n + 1], 'x');
		assert_true(copy(page + PAGE - n, buf + 1, n));
		assert_memory_equal(page + PAGE - n, buf + 1, n);
	}
	assert_int_equal(fixes, 0);
}

static void test_copies_what_is_there(void **state)
{
	(void)state;
	watch();
	copy_what_is_there(user_copy);
	copy_what_is_there(copy_short);
}

static void look_for_what_is_not_there(copy_fn copy)
{
	static char buf[2 * PAGE];

	for (size_t n = 1; n <= PAGE; n += n < 700 ? 1 : 97) {
		assert_false(copy(buf, page + PAGE, n));
		assert_false(copy(buf, page + PAGE - n + 1, n));
		assert_false(copy(page + PAGE - n + 1, buf, n));
		assert_false(copy(fixed, buf, n));
	}
	assert_true(fixes > 0);
	/* A fault ends a copy of several pages. */
	fixes = 0;
	assert_false(copy(buf, page + PAGE, PAGE));
	assert_in_range(fixes, 1, 2);
}

static void test_tells_what_is_not_there(void **state)
{
	(void)state;
	watch();
	look_for_what_is_not_there(user_copy);
	look_for_what_is_not_there(copy_short);
}

static void test_words(void **state)
{
	uint32_t word = 0;

	(void)state;
	watch();
	memcpy(page, "abcd", 4);
	assert_true(user_load32(&word, page));
	assert_memory_equal(&word, "abcd", 4);
	assert_true(user_store32(page + PAGE - 4, 5));
	assert_true(user_store64(page + PAGE - 8, 5));
	assert_true(user_copy16(page + PAGE - 16, fixed + PAGE - 16));
	assert_false(user_load32(&word, page + PAGE - 3));
	assert_false(user_store32(page + PAGE - 3, 5));
	assert_false(user_store64(page + PAGE - 7, 5));
	assert_false(user_store32(fixed, 5));
	assert_false(user_copy16(page + PAGE - 15, fixed));
	assert_false(user_copy16(page, fixed + PAGE - 15));
}

static void test_looks_at_every_page(void **state)
{
	(void)state;
	watch();
	assert_true(user_can_write(page));
	assert_false(user_can_write(fixed));
	assert_true(user_can_read(fixed, PAGE));
	assert_true(user_can_read(NULL, 0));
	assert_false(user_can_read(NULL, 1));
	assert_false(user_can_read((char *)~(uintptr_t)0 - 10000, 1));
	assert_false(user_can_read(page, PAGE + 1));
	assert_false(user_can_read(page, 2 * PAGE + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies_what_is_there),
		cmocka_unit_test(test_tells_what_is_not_there),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_looks_at_every_page),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
