/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/poll_signals.h"

#include "base/sys.h"

#define BIT_OF(signo) (1ull << ((signo)-1))
#define KERNEL_SIGSET 8

/* Faults cannot be deferred, and the C library's signals (cancellation, setuid) must not be. */
#define NEVER_BLOCKED                                                                           \
	(BIT_OF(SIGSEGV) | BIT_OF(SIGBUS) | BIT_OF(SIGILL) | BIT_OF(SIGFPE) | BIT_OF(SIGTRAP) | \
	 BIT_OF(SIGSYS) | BIT_OF(32) | BIT_OF(33))

void poll_signals_block_slow(struct poll_signals *signals)
{
	uint64_t all = ~NEVER_BLOCKED;

	sys_call(SYS_rt_sigprocmask, SIG_BLOCK, &all, &signals->before, KERNEL_SIGSET, 0, 0);
	signals->blocked = true;
}

void poll_signals_end_slow(struct poll_signals *signals)
{
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &signals->before, NULL, KERNEL_SIGSET, 0, 0);
	signals->blocked = false;
}
