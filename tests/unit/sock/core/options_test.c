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

/* ---- of another process ------------------------------------------------------------------------ */

static struct sock_options sane(void)
{
	struct sock_options opt = some(1);

	opt.rcvlowat = 1;
	opt.keepalive.idle = 7200;
	opt.keepalive.interval = 75;
	return opt;
}

static void bad_flag(struct sock_options *opt)
{
	memset(&opt->oobinline, 2, 1);
}

static void bad_last_flag(struct sock_options *opt)
{
	memset(&opt->hops6_set, 0x80, 1);
}

static void bad_logic(struct sock_options *opt)
{
	opt->alloc_rx.logic = 9;
}

static void bad_profile(struct sock_options *opt)
{
	opt->alloc_tx.profile = RING_PROFILES_MAX + 1;
}

static void bad_range(struct sock_options *opt)
{
	opt->port_range = 40000u << 16 | 50000;
}

static void bad_buffer(struct sock_options *opt)
{
	opt->rcvbuf = 0x80000000;
}

static void bad_lowat(struct sock_options *opt)
{
	opt->rcvlowat = 0;
}

static void bad_keepalive(struct sock_options *opt)
{
	opt->keepalive.interval = 0;
}

static void test_options_that_no_call_makes(void **state)
{
	static void (*const changes[])(struct sock_options *) = {
		bad_flag,  bad_last_flag, bad_logic, bad_profile,
		bad_range, bad_buffer,	  bad_lowat, bad_keepalive,
	};
	struct sock_options opt = sane();

	(void)state;
	assert_true(options_are_sane(&opt));
	opt.port_range = 50000u << 16 | 40000;
	assert_true(options_are_sane(&opt));
	opt.port_range = 40000; /* no last one */
	assert_true(options_are_sane(&opt));
	for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		opt = sane();
		changes[i](&opt);
		assert_false(options_are_sane(&opt));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_options_are_one_object),
		cmocka_unit_test(test_the_last_reference_gives_it_back),
		cmocka_unit_test(test_many_different_ones),
		cmocka_unit_test(test_options_that_no_call_makes),
	};

	return cmocka_run_group_tests(tests, take_lock, NULL);
}
