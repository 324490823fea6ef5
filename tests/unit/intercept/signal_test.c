/* SPDX-License-Identifier: BSD-2-Clause */
/* Linked with the wrappers: signal() and its variants are those of the library. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "sock/core/sock.h"
#include "tests/vma_test.h"

/* siginterrupt() is deprecated, but programs still use it. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int got_sig, got_code, calls;
static void *got_context;

static void plain(int sig)
{
	got_sig = sig;
	calls++;
}

static void other(int sig)
{
	got_sig = -sig;
}

static void with_info(int sig, siginfo_t *info, void *context)
{
	got_sig = sig;
	got_code = info->si_code;
	got_context = context;
	calls++;
}

static int reset(void **state)
{
	got_sig = got_code = calls = 0;
	got_context = NULL;
	signal(SIGUSR1, SIG_DFL);
	signal(SIGUSR2, SIG_DFL);
	memset(&sock_signals, 0, sizeof(sock_signals));
	return 0;
}

static void set(int sig, void (*fn)(int), int flags)
{
	struct sigaction act = {.sa_handler = fn, .sa_flags = flags};

	assert_int_equal(sigaction(sig, &act, NULL), 0);
}

/* The kernel's action, read with a system call. */
static void *in_kernel(int sig)
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		unsigned long mask;
	} act;

	assert_int_equal(syscall(SYS_rt_sigaction, sig, NULL, &act, 8), 0);
	return act.handler;
}

static void test_handlers_are_called_and_counted(void **state)
{
	set(SIGUSR1, plain, SA_RESTART);
	raise(SIGUSR1);
	assert_int_equal(got_sig, SIGUSR1);
	assert_int_equal(sock_signals.handled, 1);
	assert_int_equal(sock_signals.restart, 1);
	set(SIGUSR1, plain, 0);
	raise(SIGUSR1);
	assert_int_equal(sock_signals.handled, 2);
	assert_int_equal(sock_signals.restart, 1);
	assert_int_equal(calls, 2);
}

static void test_siginfo_arrives(void **state)
{
	struct sigaction act = {.sa_sigaction = with_info, .sa_flags = SA_SIGINFO}, old;
	union sigval value = {.sival_int = 42};

	assert_int_equal(sigaction(SIGUSR1, &act, NULL), 0);
	sigqueue(getpid(), SIGUSR1, value);
	assert_int_equal(got_sig, SIGUSR1);
	assert_int_equal(got_code, SI_QUEUE);
	assert_non_null(got_context);
	assert_int_equal(sigaction(SIGUSR1, NULL, &old), 0);
	assert_ptr_equal(old.sa_sigaction, with_info);
	assert_true(old.sa_flags & SA_SIGINFO);
}

static void test_the_program_gets_its_own_handler_back(void **state)
{
	struct sigaction act = {.sa_handler = other}, old;
	struct sigaction *volatile same = &act;

	set(SIGUSR1, plain, SA_NODEFER);
	assert_int_equal(sigaction(SIGUSR1, NULL, &old), 0);
	assert_ptr_equal(old.sa_handler, plain);
	assert_true(old.sa_flags & SA_NODEFER);
	assert_int_equal(sigaction(SIGUSR1, same, same), 0);
	assert_ptr_equal(act.sa_handler, plain);
	assert_ptr_equal(signal(SIGUSR1, plain), other);
	assert_ptr_equal(signal(SIGUSR1, SIG_IGN), plain);
	assert_ptr_equal(signal(SIGUSR1, SIG_DFL), SIG_IGN);
	assert_ptr_equal(signal(SIGUSR1, plain), SIG_DFL);
	assert_ptr_equal(sysv_signal(SIGUSR1, other), plain);
}

static void test_default_and_ignore_reach_the_kernel(void **state)
{
	set(SIGUSR1, plain, 0);
	assert_ptr_not_equal(in_kernel(SIGUSR1), plain);
	set(SIGUSR1, SIG_IGN, 0);
	assert_ptr_equal(in_kernel(SIGUSR1), SIG_IGN);
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_DFL);
	assert_ptr_equal(in_kernel(SIGUSR1), SIG_DFL);
	assert_int_equal(calls, 0);
}

static void test_flags_keep_their_meaning(void **state)
{
	struct sigaction old;

	set(SIGUSR1, plain, SA_RESETHAND);
	raise(SIGUSR1);
	assert_int_equal(calls, 1);
	assert_int_equal(sigaction(SIGUSR1, NULL, &old), 0);
	assert_ptr_equal(old.sa_handler, SIG_DFL);
	sysv_signal(SIGUSR1, plain);
	raise(SIGUSR1);
	assert_int_equal(calls, 2);
	assert_ptr_equal(in_kernel(SIGUSR1), SIG_DFL);
}

static void test_signal_restarts_unless_told_otherwise(void **state)
{
	assert_ptr_equal(signal(SIGUSR2, plain), SIG_DFL);
	raise(SIGUSR2);
	assert_int_equal(sock_signals.restart, 1);
	assert_int_equal(siginterrupt(SIGUSR2, 1), 0);
	raise(SIGUSR2);
	assert_int_equal(sock_signals.handled, 2);
	assert_int_equal(sock_signals.restart, 1);
	signal(SIGUSR2, plain);
	raise(SIGUSR2);
	assert_int_equal(sock_signals.restart, 1);
	assert_int_equal(siginterrupt(SIGUSR2, 0), 0);
	raise(SIGUSR2);
	assert_int_equal(sock_signals.restart, 2);
}

static void test_errors_of_libc_change_nothing(void **state)
{
	struct sigaction act = {.sa_handler = plain};
	static const int bad[] = {0, -1, 65, 1000, SIGKILL, SIGSTOP};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		assert_int_equal(sigaction(bad[i], &act, NULL), -1);
		assert_int_equal(errno, EINVAL);
		assert_ptr_equal(signal(bad[i], plain), SIG_ERR);
	}
	errno = 77;
	set(SIGUSR1, plain, 0);
	signal(SIGUSR1, SIG_IGN);
	assert_int_equal(errno, 77);
}

static sigjmp_buf jump;

static void jumps(int sig)
{
	siglongjmp(jump, 1);
}

static void test_a_handler_need_not_return(void **state)
{
	signal(SIGUSR1, jumps);
	if (!sigsetjmp(jump, 1))
		raise(SIGUSR1);
	assert_int_equal(sock_signals.handled, 1);
}

static void test_a_vfork_child_that_resets_leaves_the_parent_its_handler(void **state)
{
	struct sigaction old;
	pid_t pid;

	set(SIGUSR1, plain, 0);
	pid = vfork();
	if (!pid) {
		signal(SIGUSR1, SIG_DFL);
		signal(SIGUSR1, other);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(sigaction(SIGUSR1, NULL, &old), 0);
	assert_ptr_equal(old.sa_handler, plain);
	raise(SIGUSR1);
	assert_int_equal(got_sig, SIGUSR1);
}

static void test_a_forked_child_has_the_handlers(void **state)
{
	int status;
	pid_t pid;

	set(SIGUSR1, plain, 0);
	pid = fork();
	if (!pid) {
		raise(SIGUSR1);
		_exit(got_sig == SIGUSR1 && sock_signals.handled == 1 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_handlers_are_called_and_counted, reset),
	cmocka_unit_test_setup(test_siginfo_arrives, reset),
	cmocka_unit_test_setup(test_the_program_gets_its_own_handler_back, reset),
	cmocka_unit_test_setup(test_default_and_ignore_reach_the_kernel, reset),
	cmocka_unit_test_setup(test_flags_keep_their_meaning, reset),
	cmocka_unit_test_setup(test_signal_restarts_unless_told_otherwise, reset),
	cmocka_unit_test_setup(test_errors_of_libc_change_nothing, reset),
	cmocka_unit_test_setup(test_a_handler_need_not_return, reset),
	cmocka_unit_test_setup(test_a_vfork_child_that_resets_leaves_the_parent_its_handler, reset),
	cmocka_unit_test_setup(test_a_forked_child_has_the_handlers, reset),
};

VMA_TEST_MAIN("signal", tests, NULL, NULL)
