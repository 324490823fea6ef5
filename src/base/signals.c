/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/signals.h"

#include "base/image/sections.h"
#include "base/sys.h"

/* The number of nested pairs of this thread, and its mask before the outermost. */
static __thread unsigned block_depth __attribute__((tls_model("initial-exec")));
static __thread uint64_t saved_mask __attribute__((tls_model("initial-exec")));

/* A handler that runs before the system call finds a depth of zero and leaves it at zero. */
EARLY_CODE void signals_block(void)
{
	uint64_t all = ~(uint64_t)0;

	if (!block_depth)
		sys_call(SYS_rt_sigprocmask, SIG_BLOCK, &all, &saved_mask, sizeof(all), 0, 0);
	/* Orders the system call before the increment, for handlers that run before the call. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	block_depth++;
}

EARLY_CODE void signals_unblock(void)
{
	uint64_t before = saved_mask; /* a handler may overwrite it once signals are unblocked */

	if (--block_depth)
		return;
	/* Orders the decrement before the system call: handlers may run from there on. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before), 0, 0);
}

bool signals_are_blocked(void)
{
	return block_depth != 0;
}

void signals_are_never_taken(void)
{
	block_depth++;
}
