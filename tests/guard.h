/* SPDX-License-Identifier: BSD-2-Clause */
/* The fault handler that intercept installs in programs, for tests without intercept. */
#ifndef TESTS_GUARD_H
#define TESTS_GUARD_H

#include <signal.h>

#include "base/guard.h"
#include "tests/vma_test.h"

static inline void test_guard_on_fault(int signo, siginfo_t *info, void *context)
{
	(void)info;
	if (!guard_fix(context))
		signal(signo, SIG_DFL);
}

/* A case that passes bad pointers calls this first: cmocka has handlers of its own. */
static inline void test_guard(void)
{
	struct sigaction act = {.sa_sigaction = test_guard_on_fault, .sa_flags = SA_SIGINFO};
	sigset_t fault;

	assert_int_equal(sigaction(SIGSEGV, &act, NULL), 0);
	/* Who holds the control lock has blocked it. */
	sigemptyset(&fault);
	sigaddset(&fault, SIGSEGV);
	assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &fault, NULL), 0);
}

#endif
