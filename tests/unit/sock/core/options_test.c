/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/options.h"

#include "sock/core/control.h"
#include "tests/vma_test.h"

static struct sock_options some(uint32_t mark)
{
	struct sock_options opt;

	memset(&opt, 0, sizeof(opt));
	opt.ttl = 64;
	opt.mark = mark;
	return opt;
}

/* The only thread has it all the time. */
static int take_lock(void **state)
{
	return control_lock() ? 0 : -1;
}

static void test_equal_options_are_one_object(void **state)
{
	struct sock_options a = some(1), b = some(1), c = some(2);
	const struct sock_options *first = options_share(&a), *second = options_share(&b);
	const struct sock_options *other = options_share(&c);

	(void)state;
	assert_ptr_equal(first, second);
	assert_ptr_not_equal(first, other);
	assert_int_equal(first->mark, 1);
	assert_int_equal(other->mark, 2);
	options_put(first);
	options_put(second);
	options_put(other);
}

static void test_the_last_reference_gives_it_back(void **state)
{
	struct sock_options a = some(1);
	const struct sock_options *opt = options_share(&a);

	(void)state;
	assert_ptr_equal(options_get(opt), opt);
	options_put(opt);
	assert_int_equal(opt->mark, 1);
	options_put(opt);
	options_put(NULL);
	/* An ended object is not found again: the sanitizer would report it. */
	opt = options_share(&a);
	assert_int_equal(opt->mark, 1);
	options_put(opt);
}

static void test_many_different_ones(void **state)
{
	static const struct sock_options *opts[10000];

	(void)state;
	for (uint32_t i = 0; i < 10000; i++) {
		struct sock_options opt = some(i);

		opts[i] = options_share(&opt);
		assert_non_null(opts[i]);
	}
	for (uint32_t i = 0; i < 10000; i++) {
		assert_int_equal(opts[i]->mark, i);
		options_put(opts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_options_are_one_object),
		cmocka_unit_test(test_the_last_reference_gives_it_back),
		cmocka_unit_test(test_many_different_ones),
	};

	return cmocka_run_group_tests(tests, take_lock, NULL);
}
