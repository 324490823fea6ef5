/* SPDX-License-Identifier: BSD-2-Clause */
/* The error queue of a stream socket: one range of numbers, and the events that it stands for. */
#include "sock/core/msg/error_queue.h"

#include "sock/core/access.h"
#include "tests/vma_test.h"

static void test_what_is_told_is_read_as_one_range(void **state)
{
	struct error_queue c = {0};
	uint32_t lo = 77, hi = 77;

	(void)state;
	assert_false(error_queue_take(&c, &lo, &hi));
	assert_int_equal(lo, 77);
	error_queue_tell(&c);
	assert_true(error_queue_take(&c, &lo, &hi));
	assert_int_equal(lo, 0);
	assert_int_equal(hi, 0);
	for (unsigned i = 0; i < 5; i++)
		error_queue_tell(&c);
	assert_false(error_queue_empty(&c));
	assert_true(error_queue_take(&c, &lo, &hi));
	assert_int_equal(lo, 1);
	assert_int_equal(hi, 5);
	assert_true(error_queue_empty(&c));
	assert_false(error_queue_take(&c, &lo, &hi));
}

/* As the kernel's counter, which has 32 bits. */
static void test_numbers_begin_again_after_the_last_one(void **state)
{
	struct error_queue c = {.first = UINT32_MAX - 1, .next = UINT32_MAX - 1};
	uint32_t lo, hi;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		error_queue_tell(&c);
		assert_false(error_queue_empty(&c));
	}
	assert_true(error_queue_take(&c, &lo, &hi));
	assert_int_equal(lo, UINT32_MAX - 1);
	assert_int_equal(hi, 1);
	error_queue_tell(&c);
	assert_true(error_queue_take(&c, &lo, &hi));
	assert_int_equal(lo, 2);
	assert_int_equal(hi, 2);
}

static void test_the_queue_is_full_before_numbers_meet(void **state)
{
	struct error_queue c = {.first = 5, .next = 5 + ERROR_QUEUE_MAX - 1};
	uint32_t lo, hi;

	(void)state;
	assert_false(error_queue_full(&c));
	error_queue_tell(&c);
	assert_true(error_queue_full(&c));
	assert_true(error_queue_take(&c, &lo, &hi));
	assert_false(error_queue_full(&c));
}

/* An error of the connection is an error, whatever is told beside it. */
static void test_events_tell_completions_from_errors(void **state)
{
	struct sock_rare rare = {.completions = {.first = 3, .next = 3}};
	const uint32_t out = EPOLLOUT, error = EPOLLOUT | EPOLLERR;

	(void)state;
	assert_int_equal(error_queue_events(&rare, out), out);
	assert_int_equal(error_queue_events(&rare, error), error);
	error_queue_tell(&rare.completions);
	assert_int_equal(error_queue_events(&rare, out), out | EPOLLERR | SOCK_COMPLETED);
	assert_int_equal(error_queue_events(&rare, error), error);
}

static void test_only_errors_and_ends_are_the_end(void **state)
{
	static const struct {
		uint32_t events;
		bool over;
	} cases[] = {
		{EPOLLIN | EPOLLOUT, false},
		{EPOLLERR | SOCK_COMPLETED, false},
		{EPOLLERR, true},
		{EPOLLHUP, true},
		{EPOLLRDHUP, true},
		{EPOLLERR | SOCK_COMPLETED | EPOLLRDHUP, true},
	};
	struct inet_sock so;

	(void)state;
	memset(&so, 0, sizeof(so));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		so.sk.events = cases[i].events;
		assert_int_equal(sock_is_over(&so), cases[i].over);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_is_told_is_read_as_one_range),
	cmocka_unit_test(test_numbers_begin_again_after_the_last_one),
	cmocka_unit_test(test_the_queue_is_full_before_numbers_meet),
	cmocka_unit_test(test_events_tell_completions_from_errors),
	cmocka_unit_test(test_only_errors_and_ends_are_the_end),
};

VMA_TEST_MAIN("sock/core/msg/error_queue", tests, NULL, NULL)
