/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/signals.h"

#include <signal.h>

#include "base/mutex.h"
#include "tests/vma_test.h"

static int handled;

static void on_signal(int sig)
{
	(void)sig;
	handled++;
	signals_block(); /* a handler may nest its own pairs */
	signals_unblock();
}

static int catch_it(void **state)
{
	struct sigaction act = {.sa_handler = on_signal};

	(void)state;
	handled = 0;
	return sigaction(SIGUSR1, &act, NULL);
}

static void test_signals_come_after_the_outermost_pair(void **state)
{
	(void)state;
	signals_block();
	signals_block();
	raise(SIGUSR1);
	signals_unblock();
	assert_int_equal(handled, 0);
	signals_unblock();
	assert_int_equal(handled, 1);
	raise(SIGUSR1);
	assert_int_equal(handled, 2);
}

static void test_mask_of_the_program_comes_back(void **state)
{
	sigset_t usr1, now;

	(void)state;
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigprocmask(SIG_BLOCK, &usr1, NULL);
	signals_block();
	signals_unblock();
	sigprocmask(SIG_UNBLOCK, &usr1, &now);
	assert_true(sigismember(&now, SIGUSR1));
	assert_false(sigismember(&now, SIGUSR2));
}

static void test_a_mutex_is_held_with_signals_blocked(void **state)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	(void)state;
	assert_false(signals_are_blocked());
	mutex_lock(&mutex);
	assert_true(signals_are_blocked());
	raise(SIGUSR1);
	assert_false(mutex_trylock(&mutex));
	assert_int_equal(handled, 0);
	mutex_unlock(&mutex);
	assert_int_equal(handled, 1);
	assert_false(signals_are_blocked());
	assert_true(mutex_trylock(&mutex));
	raise(SIGUSR1);
	assert_int_equal(handled, 1);
	mutex_unlock(&mutex);
	assert_int_equal(handled, 2);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_a_mutex_is_held_with_signals_blocked, catch_it),
	cmocka_unit_test_setup(test_signals_come_after_the_outermost_pair, catch_it),
	cmocka_unit_test_setup(test_mask_of_the_program_comes_back, catch_it),
};

VMA_TEST_MAIN("base/signals", tests, NULL, NULL)
