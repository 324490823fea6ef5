/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/busy.h"

#include <signal.h>

#include "base/sys.h"

__thread struct hold *hold_current __attribute__((tls_model("initial-exec")));
char busy_with[1];
__thread unsigned busy_locks __attribute__((tls_model("initial-exec")));
__thread unsigned busy_defers __attribute__((tls_model("initial-exec")));
__thread bool busy_put_off __attribute__((tls_model("initial-exec")));

static __thread uint64_t deferred_mask __attribute__((tls_model("initial-exec")));

/* Signals that an instruction raises are never deferred. */
#define SIGNAL(sig) (1ull << ((sig)-1))
#define NEVER_DEFERRED                                                                          \
	(SIGNAL(SIGSEGV) | SIGNAL(SIGBUS) | SIGNAL(SIGFPE) | SIGNAL(SIGILL) | SIGNAL(SIGTRAP) | \
	 SIGNAL(SIGSYS) | SIGNAL(SIGABRT))

bool busy_may_wait(int sig)
{
	return !(SIGNAL(sig) & NEVER_DEFERRED);
}

/* It does not nest: after the first call, all deferrable signals are blocked. */
void busy_put_signals_off(uint64_t *mask)
{
	deferred_mask = *mask;
	*mask |= ~NEVER_DEFERRED;
	busy_put_off = true;
}

void busy_let_signals_in(void)
{
	uint64_t before =
		deferred_mask; /* a handler may overwrite it as soon as signals are unblocked */

	if (!busy_put_off || busy_is())
		return;
	busy_put_off = false;
	/*
	 * Orders the store before the system call: a handler that runs then may set the flag
	 * again.
	 */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before), 0, 0);
}
