/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the two tables of functions have in common (vma_extra.h, vma.h). */
#ifndef TESTS_UNIT_INTERCEPT_API_H
#define TESTS_UNIT_INTERCEPT_API_H

#include <errno.h>
#include <sys/mman.h>

#include "tests/vma_test.h"

/* A page that can be neither read nor written. */
static inline void *bad_page(void)
{
	void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	return page;
}

#define FAILS(call, error)                        \
	do {                                      \
		errno = 0;                        \
		assert_int_equal((call), -1);     \
		assert_int_equal(errno, (error)); \
	} while (0)

#endif
