/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/hold.h"

#include <pthread.h>
#include <signal.h>

#include "vma_test.h"

static const enum hold_mode modes[] = {HOLD_SINGLE, HOLD_SPIN, HOLD_MUTEX, HOLD_YIELD};
#define N_MODES (sizeof(modes) / sizeof(modes[0]))

static void test_the_ring_a_thread_holds_is_known_to_it(void **state)
{
	struct hold hold;

	for (size_t i = 0; i < N_MODES; i++) {
		hold_init(&hold);
		assert_null(hold_current);
		assert_true(hold_acquire(&hold, modes[i]));
		assert_ptr_equal(hold_current, &hold);
		hold_release(&hold, modes[i]);
		assert_null(hold_current);
	}
}

static void test_a_holder_gets_no_other_ring_and_does_not_wait(void **state)
{
	struct hold hold, other;

	for (size_t i = 0; i < N_MODES; i++) {
		hold_init(&hold);
		hold_init(&other);
		assert_true(hold_acquire(&hold, modes[i]));
		assert_false(hold_acquire(&hold, modes[i]));
		assert_false(hold_acquire(&other, modes[i]));
		assert_false(hold_try(&hold, modes[i]));
		assert_false(hold_try(&other, modes[i]));
		assert_ptr_equal(hold_current, &hold);
		hold_release(&hold, modes[i]);
		assert_true(hold_acquire(&other, modes[i])); /* failed attempts changed nothing */
		hold_release(&other, modes[i]);
	}
}

/* ---- another thread ------------------------------------------------------------- */

struct
try {
	struct hold *hold;
	enum hold_mode mode;
	bool got, named;
};

static void *try_once(void *arg)
{
	struct try *try = arg;

	try->got = hold_try(try->hold, try->mode);
	try->named = hold_current != NULL;
	if (try->got)
		hold_release_other(try->hold, try->mode);
	assert_null(hold_current);
	return NULL;
}

/* The result of hold_try() in another thread (in HOLD_SINGLE: the internal thread). */
static bool other_gets_it(struct hold *hold, enum hold_mode mode)
{
	struct try try = {.hold = hold, .mode = mode};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, try_once, &try), 0);
	pthread_join(thread, NULL);
	assert_int_equal(try.got, try.named);
	return try.got;
}

static void test_trying_a_held_ring_fails(void **state)
{
	struct hold hold;

	for (size_t i = 0; i < N_MODES; i++) {
		hold_init(&hold);
		assert_true(other_gets_it(&hold, modes[i]));
		assert_true(hold_acquire(&hold, modes[i]));
		assert_false(other_gets_it(&hold, modes[i]));
		assert_false(other_gets_it(&hold, modes[i]));
		hold_release(&hold, modes[i]);
		assert_true(other_gets_it(&hold, modes[i]));
		assert_true(hold_acquire(&hold, modes[i])); /* and it can be held again */
		hold_release(&hold, modes[i]);
	}
}

static void test_single_a_try_in_vain_does_not_keep_the_program_waiting(void **state)
{
	struct hold hold;

	hold_init(&hold);
	assert_true(hold_acquire(&hold, HOLD_SINGLE));
	assert_false(other_gets_it(&hold, HOLD_SINGLE));
	assert_int_equal(hold.wanted, 0);
	assert_int_equal(hold.inside, 1);
	hold_release(&hold, HOLD_SINGLE);
	assert_int_equal(hold.inside, 0);
}

struct visitor {
	struct hold hold;
	int in, out; /* atomic: the internal thread holds; it may release */
	int value;   /* written while it holds */
};

static void *visit(void *arg)
{
	struct visitor *v = arg;

	assert_true(hold_try(&v->hold, HOLD_SINGLE));
	__atomic_store_n(&v->in, 1, __ATOMIC_RELEASE);
	usleep(20000);
	v->value = 1;
	hold_release_other(&v->hold, HOLD_SINGLE);
	return NULL;
}

static void test_single_the_program_waits_for_the_internal_thread(void **state)
{
	struct visitor v = {.in = 0};
	pthread_t thread;

	hold_init(&v.hold);
	assert_int_equal(pthread_create(&thread, NULL, visit, &v), 0);
	while (!__atomic_load_n(&v.in, __ATOMIC_ACQUIRE))
		usleep(100);
	assert_true(hold_acquire(&v.hold, HOLD_SINGLE));
	assert_int_equal(v.value, 1);
	hold_release(&v.hold, HOLD_SINGLE);
	pthread_join(thread, NULL);
}

static void test_single_is_supported_by_this_kernel(void **state)
{
	assert_true(hold_single_supported());
}

/* ---- signals --------------------------------------------------------------------- */

static struct hold interrupted;
static enum hold_mode interrupted_mode;
static int refused;

static void handler(int sig)
{
	refused += !hold_acquire(&interrupted, interrupted_mode);
	refused += !hold_try(&interrupted, interrupted_mode);
}

static void test_a_signal_handler_is_refused_while_its_thread_holds(void **state)
{
	struct sigaction act = {.sa_handler = handler}, old;

	sigaction(SIGUSR1, &act, &old);
	for (size_t i = 0; i < N_MODES; i++) {
		interrupted_mode = modes[i];
		hold_init(&interrupted);
		refused = 0;
		assert_true(hold_acquire(&interrupted, modes[i]));
		raise(SIGUSR1);
		assert_int_equal(refused, 2);
		assert_ptr_equal(hold_current, &interrupted);
		hold_release(&interrupted, modes[i]);
	}
	sigaction(SIGUSR1, &old, NULL);
}

static int setup(void **state)
{
	return !hold_single_supported();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_ring_a_thread_holds_is_known_to_it),
	cmocka_unit_test(test_a_holder_gets_no_other_ring_and_does_not_wait),
	cmocka_unit_test(test_trying_a_held_ring_fails),
	cmocka_unit_test(test_single_a_try_in_vain_does_not_keep_the_program_waiting),
	cmocka_unit_test(test_single_the_program_waits_for_the_internal_thread),
	cmocka_unit_test(test_single_is_supported_by_this_kernel),
	cmocka_unit_test(test_a_signal_handler_is_refused_while_its_thread_holds),
};

VMA_TEST_MAIN("hold", tests, setup, NULL)
