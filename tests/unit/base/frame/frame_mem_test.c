/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/frame/frame_mem.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vma_test.h"

#define PAGE 4096
#define LEN (8 * PAGE)

static uint8_t *area; /* 16 pages, and one that cannot be accessed */
static void *next;    /* what the program's allocator returns */
static size_t asked;
static void *freed;
static unsigned n_freed;

static void *give(size_t size)
{
	asked = size;
	errno = ENOTNAM;
	return next;
}

static void take(void *memory)
{
	freed = memory;
	n_freed++;
	errno = ENOTNAM;
}

/* First: the choice then holds. */
static void test_the_choice_ends_with_the_first_memory(void **state)
{
	struct frame_mem mem;

	assert_int_equal(frame_mem_set_user(NULL, take), -EINVAL);
	assert_int_equal(frame_mem_set_user(give, NULL), -EINVAL);
	assert_int_equal(frame_mem_set_user(malloc, free), 0);
	assert_int_equal(frame_mem_set_user(give, take), 0);
	next = area;
	assert_int_equal(frame_mem_get(&mem, LEN), 0);
	assert_int_equal(frame_mem_set_user(give, take), -EINVAL);
	assert_true(frame_mem_is_users());
	frame_mem_put(&mem);
}

static void test_memory_of_any_alignment(void **state)
{
	struct frame_mem mem;

	for (size_t off = 0; off < PAGE; off += 31) {
		next = area + off;
		errno = 7;
		assert_int_equal(frame_mem_get(&mem, LEN), 0);
		assert_int_equal(errno, 7);
		assert_ptr_equal(mem.addr, area + (off ? PAGE : 0));
		assert_true((uint8_t *)mem.addr + LEN <= area + off + asked);
		memset(mem.addr, 1, LEN);
		n_freed = 0;
		frame_mem_put(&mem);
		assert_int_equal(errno, 7);
		assert_ptr_equal(freed, area + off);
		assert_int_equal(n_freed, 1);
		assert_null(mem.addr);
		frame_mem_put(&mem);
		assert_int_equal(n_freed, 1);
	}
}

static void fails(void *with, int rc)
{
	struct frame_mem mem;

	next = with;
	n_freed = 0;
	assert_int_equal(frame_mem_get(&mem, LEN), rc);
	assert_null(mem.addr);
	assert_int_equal(n_freed, rc == -EFAULT);
	frame_mem_put(&mem);
	assert_int_equal(n_freed, rc == -EFAULT);
}

static void test_memory_that_cannot_be_used(void **state)
{
	fails(NULL, -ENOMEM);
	fails((void *)1, -EFAULT);
	fails((void *)UINTPTR_MAX, -EFAULT);
	fails((void *)(UINTPTR_MAX - 2 * PAGE), -EFAULT);
	fails(area + 16 * PAGE, -EFAULT);
	fails(area + 9 * PAGE, -EFAULT);     /* too short by a page */
	fails(area + 8 * PAGE + 1, -EFAULT); /* by what alignment takes */
	fails((void *)(uintptr_t) "constant", -EFAULT);
	next = area + 8 * PAGE;
	assert_int_equal(frame_mem_get(&(struct frame_mem){0}, LEN), 0);
}

/* In how many of n pages a forked child finds memory. */
static int pages_in_child(const uint8_t *at, unsigned n)
{
	unsigned char resident;
	int status, found = 0;
	pid_t pid = fork();

	if (!pid) {
		for (unsigned i = 0; i < n; i++)
			found += !mincore((void *)(uintptr_t)(at + i * PAGE), PAGE, &resident);
		_exit(found);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* What lies beside them it has; and all, when they are given back. */
static void test_a_child_does_not_have_the_frames(void **state)
{
	struct frame_mem mem;

	next = area + PAGE + 1;
	assert_int_equal(pages_in_child(area, 16), 16);
	assert_int_equal(frame_mem_get(&mem, LEN), 0);
	assert_ptr_equal(mem.addr, area + 2 * PAGE);
	assert_int_equal(pages_in_child(area, 16), 8);
	assert_int_equal(pages_in_child(mem.addr, 8), 0);
	frame_mem_put(&mem);
	assert_int_equal(pages_in_child(area, 16), 16);
	/* ... also what was not taken. */
	fails(area + 9 * PAGE, -EFAULT);
	assert_int_equal(pages_in_child(area, 16), 16);
}

static int setup(void **state)
{
	area = mmap(NULL, 17 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(area, MAP_FAILED);
	return mprotect(area + 16 * PAGE, PAGE, PROT_NONE);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_choice_ends_with_the_first_memory),
	cmocka_unit_test(test_memory_of_any_alignment),
	cmocka_unit_test(test_a_child_does_not_have_the_frames),
	cmocka_unit_test(test_memory_that_cannot_be_used),
};

VMA_TEST_MAIN("frame_mem", tests, setup, NULL)
