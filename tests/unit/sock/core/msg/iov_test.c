/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/msg/iov.h"

#include "vma_test.h"

static char bytes[64];

static void test_it_advances_over_empty_vectors_and_into_the_middle(void **state)
{
	struct iovec iov[] = {{bytes, 0}, {bytes, 4}, {NULL, 0}, {bytes + 10, 6}, {bytes, 0}};
	struct iovec *at = iov;
	size_t count = 5;

	(void)state;
	assert_int_equal(iov_total(at, count), 10);
	iov_advance(&at, &count, 3);
	assert_int_equal(count, 4);
	assert_ptr_equal(at->iov_base, bytes + 3);
	assert_int_equal(at->iov_len, 1);
	iov_advance(&at, &count, 1); /* the empty one that follows goes, too */
	assert_int_equal(count, 2);
	assert_ptr_equal(at->iov_base, bytes + 10);
	assert_int_equal(iov_total(at, count), 6);
	iov_advance(&at, &count, 6);
	assert_int_equal(count, 0);
	iov_advance(&at, &count, 0);
	assert_int_equal(count, 0);
}

static void test_more_than_there_is_ends_it(void **state)
{
	struct iovec iov[] = {{bytes, 4}};
	struct iovec *at = iov;
	size_t count = 1;

	(void)state;
	iov_advance(&at, &count, 100);
	assert_int_equal(count, 0);
	assert_ptr_equal(at, iov + 1);
}

static void test_a_copy_that_does_not_fit_is_allocated(void **state)
{
	struct iovec iov[IOV_STACK + 1], stack[IOV_STACK], *copy;

	(void)state;
	for (unsigned i = 0; i <= IOV_STACK; i++)
		iov[i] = (struct iovec){bytes + i, i};
	copy = iov_copy(iov, IOV_STACK, stack);
	assert_ptr_equal(copy, stack);
	iov_copy_free(copy, stack);
	copy = iov_copy(iov, IOV_STACK + 1, stack);
	assert_ptr_not_equal(copy, stack);
	assert_memory_equal(copy, iov, sizeof(iov));
	iov_copy_free(copy, stack);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_advances_over_empty_vectors_and_into_the_middle),
	cmocka_unit_test(test_more_than_there_is_ends_it),
	cmocka_unit_test(test_a_copy_that_does_not_fit_is_allocated),
};

VMA_TEST_MAIN("iov", tests, NULL, NULL)
