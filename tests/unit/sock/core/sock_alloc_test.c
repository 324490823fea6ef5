/* SPDX-License-Identifier: BSD-2-Clause */
/* The pools of socket objects: sock_alloc() and sock_free(). */
#include "ring/rings.h"
#include "sock/core/kind.h"
#include "tests/unit/sock/core/no_memory.h"
#include "tests/vma_test.h"

#define MANY 4000 /* more than a piece of memory has room for */

static const enum sock_type types[] = {SOCK_TYPE_UDP, SOCK_TYPE_TCP};

static int set_up(void **state)
{
	(void)state;
	clock_init();
	rings_init(NULL);
	return control_lock() ? 0 : -1;
}

/* As in a child of fork(): nothing is in the pools. */
static int empty(void **state)
{
	(void)state;
	memory_left = -1;
	sock_alloc_init();
	return 0;
}

static int all_memory(void **state)
{
	(void)state;
	memory_left = -1;
	return 0;
}

static void finish(struct inet_sock *so)
{
	sock_life_set(so, LIFE_CLOSED);
	sock_free(so);
}

static void test_an_object_is_used_again_under_a_new_generation(void **state)
{
	struct inet_sock *so = sock_alloc(SOCK_TYPE_TCP), *again;
	struct sock_ref old = sock_ref_of(so);
	uint64_t id = so->id;

	(void)state;
	assert_true(old.gen & 1);
	assert_true(sock_ref_valid(old));
	finish(so);
	assert_false(sock_ref_valid(old));
	again = sock_alloc(SOCK_TYPE_TCP);
	assert_ptr_equal(again, so);
	assert_false(sock_ref_valid(old));
	assert_true(sock_ref_valid(sock_ref_of(again)));
	assert_int_not_equal(again->id, id);
	assert_int_equal(again->sk.twin, -1);
	assert_true(again->life == LIFE_OPEN);
	finish(again);
}

/* What a call with a stale reference reads stays valid, and of the type. */
static void test_the_memory_of_a_type_is_never_another_types(void **state)
{
	struct inet_sock *udp = sock_alloc(SOCK_TYPE_UDP), *tcp;

	(void)state;
	finish(udp);
	tcp = sock_alloc(SOCK_TYPE_TCP);
	assert_ptr_not_equal(tcp, udp);
	assert_int_equal(udp->sk.type, SOCK_TYPE_UDP);
	assert_non_null(udp->sk.home);
	assert_non_null(udp->sk.ops);
	finish(tcp);
	assert_ptr_equal(sock_alloc(SOCK_TYPE_UDP), udp);
	finish(udp);
}

static int by_address(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;

	return x < y ? -1 : x > y;
}

static void test_objects_of_several_pieces_do_not_overlap(void **state)
{
	static struct inet_sock *all[MANY];

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		all[i] = sock_alloc(SOCK_TYPE_TCP);
		assert_non_null(all[i]);
		assert_int_equal((uintptr_t)all[i] % 64, 0);
	}
	qsort(all, MANY, sizeof(*all), by_address);
	for (unsigned i = 1; i < MANY; i++)
		assert_true((char *)all[i] - (char *)all[i - 1] >= (long)sizeof(struct inet_sock));
	for (unsigned i = 0; i < MANY; i++)
		finish(all[i]);
}

static void test_without_memory_there_is_no_object_and_later_there_is(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct inet_sock *so;

		memory_left = 0;
		assert_null(sock_alloc(types[i]));
		assert_null(sock_alloc(types[i]));
		memory_left = 1; /* one piece */
		so = sock_alloc(types[i]);
		assert_non_null(so);
		assert_int_equal(memory_left, 0);
		finish(so);
		assert_ptr_equal(sock_alloc(types[i]), so); /* needs none */
		finish(so);
	}
}

/* The pool is used up to its last place before it takes memory. */
static void test_a_piece_is_used_up_and_freed_objects_before_it(void **state)
{
	static struct inet_sock *all[MANY];
	unsigned n = 0;

	(void)state;
	memory_left = 1;
	while (n < MANY && (all[n] = sock_alloc(SOCK_TYPE_TCP)))
		n++;
	assert_true(n > 1000 && n < MANY);
	finish(all[7]);
	finish(all[3]);
	assert_ptr_equal(sock_alloc(SOCK_TYPE_TCP), all[7]); /* first freed, first used */
	assert_ptr_equal(sock_alloc(SOCK_TYPE_TCP), all[3]);
	assert_null(sock_alloc(SOCK_TYPE_TCP));
	while (n)
		finish(all[--n]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, empty, all_memory)
static const struct CMUnitTest tests[] = {
	TEST(test_an_object_is_used_again_under_a_new_generation),
	TEST(test_the_memory_of_a_type_is_never_another_types),
	TEST(test_objects_of_several_pieces_do_not_overlap),
	TEST(test_without_memory_there_is_no_object_and_later_there_is),
	TEST(test_a_piece_is_used_up_and_freed_objects_before_it),
};

VMA_TEST_MAIN("sock_alloc", tests, set_up, NULL)
