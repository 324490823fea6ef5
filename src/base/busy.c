/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/busy.h"

#include <signal.h>

#include "base/sys.h"

__thread struct hold *hold_current __attribute__((tls_model("initial-exec")));
char busy_with[1];
__thread unsigned busy_locks __attribute__((tls_model("initial-exec")));
__thread bool busy_put_off __attribute__((tls_model("initial-exec")));

static __thread uint64_t mask_before __attribute__((tls_model("initial-exec")));

/* Signals of the instruction they came at do not wait. */
#define SIGNAL(sig) (1ull << ((sig)-1))
#define NEVER                                                                                   \
	(SIGNAL(SIGSEGV) | SIGNAL(SIGBUS) | SIGNAL(SIGFPE) | SIGNAL(SIGILL) | SIGNAL(SIGTRAP) | \
	 SIGNAL(SIGSYS) | SIGNAL(SIGABRT))

bool busy_may_wait(int sig)
{
	return !(SIGNAL(sig) & NEVER);
}

/* A second one finds all blocked: there is none. */
void busy_put_signals_off(uint64_t *mask)
{
	mask_before = *mask;
	*mask |= ~NEVER;
	busy_put_off = true;
}

void busy_let_signals_in(void)
{
	uint64_t before = mask_before; /* a handler may write it as soon as it may run */

	if (!busy_put_off || busy_is())
		return;
	busy_put_off = false;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before), 0, 0);
}
