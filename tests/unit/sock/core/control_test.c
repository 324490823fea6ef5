/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/control.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signals.h"
#include "ring/hold.h"
#include "tests/vma_test.h"

static struct hold hold;

static bool signals_arrive(void)
{
	sigset_t now;

	assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	return !sigismember(&now, SIGUSR1);
}

static void test_only_the_thread_that_has_it_has_it(void **state)
{
	assert_false(control_is_held());
	assert_true(control_lock());
	assert_true(control_is_held());
	assert_false(signals_arrive());
	control_unlock();
	assert_false(control_is_held());
	assert_true(signals_arrive());
}

struct
try {
	bool held_before, got, held, interrupted;
};

static void *try_it(void *arg)
{
	struct try *try = arg;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_UNBLOCK, &all, NULL); /* the thread that made this one has the lock */
	try->held_before = control_is_held();
	try->got = control_trylock();
	try->held = control_is_held();
	try->interrupted = signals_arrive();
	if (try->got)
		control_unlock();
	return NULL;
}

static bool another_thread_gets_it(void)
{
	pthread_t thread;
	struct try try;

	assert_int_equal(pthread_create(&thread, NULL, try_it, &try), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(try.held_before);
	assert_int_equal(try.held, try.got);
	assert_int_equal(try.interrupted, !try.got);
	return try.got;
}

static void test_others_do_not_get_it_meanwhile(void **state)
{
	assert_true(control_lock());
	assert_false(another_thread_gets_it());
	control_unlock();
	assert_true(another_thread_gets_it());
	assert_true(control_trylock());
	assert_false(another_thread_gets_it());
	control_unlock();
	assert_true(another_thread_gets_it());
}

static void test_who_holds_a_ring_does_not_get_it(void **state)
{
	assert_true(hold_acquire(&hold, HOLD_SPIN));
	assert_false(control_lock());
	assert_false(control_trylock());
	assert_false(control_is_held());
	hold_release(&hold, HOLD_SPIN);
	assert_true(control_lock());
	control_unlock();
	assert_true(signals_arrive());
}

/* Parent and child have the lock when fork() returns, and each unlocks its own. */
static void test_parent_and_child_have_it_after_a_fork(void **state)
{
	int status;
	pid_t pid;

	signals_block();
	control_fork_prepare();
	assert_true(control_is_held());
	pid = fork();
	if (!pid) {
		control_fork_child();
		if (!control_is_held())
			_exit(1);
		control_fork_done();
		signals_unblock();
		_exit(control_is_held() || !control_trylock() ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(control_is_held());
	assert_false(another_thread_gets_it());
	control_fork_done();
	signals_unblock();
	assert_false(control_is_held());
	assert_true(another_thread_gets_it());
	assert_true(signals_arrive());
}

#ifndef NDEBUG
/* How a child ends that runs fn(): its signal, or 0. */
static int signal_of(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		close(STDERR_FILENO);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void needs_it(void)
{
	control_assert_held();
}

static void needs_no_ring(void)
{
	control_assert_no_ring();
}

static void test_a_function_that_needs_it_says_so(void **state)
{
	assert_int_equal(signal_of(needs_it), SIGABRT);
	assert_int_equal(signal_of(needs_no_ring), 0);
	assert_true(control_lock());
	assert_int_equal(signal_of(needs_it), 0);
	control_unlock();
	assert_true(hold_acquire(&hold, HOLD_SPIN));
	assert_int_equal(signal_of(needs_no_ring), SIGABRT);
	hold_release(&hold, HOLD_SPIN);
}
#endif

static int set_up(void **state)
{
	hold_init(&hold);
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_only_the_thread_that_has_it_has_it),
	cmocka_unit_test(test_others_do_not_get_it_meanwhile),
	cmocka_unit_test(test_who_holds_a_ring_does_not_get_it),
	cmocka_unit_test(test_parent_and_child_have_it_after_a_fork),
#ifndef NDEBUG
	cmocka_unit_test(test_a_function_that_needs_it_says_so),
#endif
};

VMA_TEST_MAIN("control", tests, set_up, NULL)
