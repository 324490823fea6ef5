/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/signals.h"

#include "base/sys.h"

/* How many pairs this thread is in, and its mask before the first of them. */
static __thread unsigned depth __attribute__((tls_model("initial-exec")));
static __thread uint64_t mask __attribute__((tls_model("initial-exec")));

/* A handler that comes before the call finds the depth zero, and leaves it so. */
void signals_block(void)
{
	uint64_t all = ~(uint64_t)0;

	if (!depth)
		sys_call(SYS_rt_sigprocmask, SIG_BLOCK, &all, &mask, sizeof(all), 0, 0);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	depth++;
}

void signals_unblock(void)
{
	uint64_t before = mask; /* a handler writes it as soon as it may run */

	if (--depth)
		return;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before), 0, 0);
}

bool signals_are_blocked(void)
{
	return depth != 0;
}

void signals_are_never_taken(void)
{
	depth++;
}
