/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/once.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>

#include "base/image/sections.h"
#include "base/sys.h"

/* After fork() only the thread that called it exists. */
static bool is_thread_here(int tid)
{
	return sys_call(SYS_tgkill, sys_getpid(), tid, 0, 0, 0, 0) != -ESRCH;
}

/* True: this thread runs fn. False: fn is done, or this thread is in it already. */
EARLY_CODE static bool claim(struct once *once, int self)
{
	int runner = 0;

	/* Acquire: pairs with the end of once_run(). */
	while (!__atomic_compare_exchange_n(&once->state, &runner, self, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_ACQUIRE)) {
		if (runner == ONCE_DONE || runner == self)
			return false;
		if (!is_thread_here(runner))
			continue; /* claims it from the runner */
		sys_call(SYS_futex, &once->state, FUTEX_WAIT_PRIVATE, runner, NULL, 0, 0);
		runner = 0;
	}
	return true;
}

EARLY_CODE void once_run(struct once *once, void (*fn)(void *arg), void *arg)
{
	if (!claim(once, sys_gettid()))
		return;
	fn(arg);
	/* Pairs with claim() and once_is_done(): what fn has written is complete. */
	__atomic_store_n(&once->state, ONCE_DONE, __ATOMIC_RELEASE);
	sys_call(SYS_futex, &once->state, FUTEX_WAKE_PRIVATE, INT_MAX, 0, 0, 0);
}
