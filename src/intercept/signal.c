/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signal handlers of the program.  The kernel calls on_signal(), which counts for
 * the thread (a call that polls without sleeping learns so that it has to return
 * EINTR) and calls the program's handler.
 *
 * The kernel's disposition is the truth: SIG_DFL and SIG_IGN pass unchanged, and
 * the table holds what on_signal() stands for, also while it does not stand
 * anywhere.  So what a vfork() child resets, or SA_RESETHAND, leaves it right.
 *
 * Role		any thread, signal handlers included; lock-free.
 * Ordering	a handler is in the table before the kernel calls it.  A signal in
 *		between finds the new handler a moment early.
 */
#include <signal.h>
#include <string.h>

#include "intercept/wrap.h"

/* Not declared for programs of today. */
sighandler_t bsd_signal(int sig, sighandler_t handler);
int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);

/* What the C library adds to the flags of every action it hands to the kernel. */
#define SA_RESTORER 0x04000000

/* The kernel passes all three arguments to every handler, SA_SIGINFO or not. */
typedef void (*handler_fn)(int sig, siginfo_t *info, void *context);

static struct {
	handler_fn fn; /* any, atomic */
	bool restart;  /* any, atomic: SA_RESTART */
	bool watched;  /* any, atomic: on_fatal() is there, the program never set a thing */
} handlers[_NSIG];

static void on_signal(int sig, siginfo_t *info, void *context)
{
	handler_fn fn = __atomic_load_n(&handlers[sig].fn, __ATOMIC_RELAXED);

	/* Before the call, which may not return. */
	sock_signals.handled++;
	if (__atomic_load_n(&handlers[sig].restart, __ATOMIC_RELAXED))
		sock_signals.restart++;
	sock_signal_enters();
	if (__builtin_expect(info->si_code == SI_SIGIO, 0))
		sock_signal_fix(info);
	fn(sig, info, context);
}

/* What stands for SIG_DFL where that ends the process, see exit.c. */
static void on_fatal(int sig, siginfo_t *info, void *context)
{
	exit_on_fatal(sig);
}

static handler_fn three(sighandler_t handler)
{
	return (handler_fn)(void (*)(void))handler;
}

static sighandler_t one(handler_fn fn)
{
	return (sighandler_t)(void (*)(void))fn;
}

static bool is_valid(int sig)
{
	return sig > 0 && sig < _NSIG;
}

/* A function of the program, to be called through ours. */
static bool is_wrapped(handler_fn fn)
{
	return fn != three(SIG_DFL) && fn != three(SIG_IGN) && fn != three(SIG_ERR) &&
	       fn != three(SIG_HOLD) && fn != on_signal && fn != on_fatal && !fork_is_vfork_child();
}

/* What the kernel is told instead of fn, or fn. */
static handler_fn stand_in(int sig, handler_fn fn)
{
	if (is_wrapped(fn))
		return on_signal;
	if (fn == three(SIG_DFL) && exit_is_fatal(sig) && !fork_is_vfork_child())
		return on_fatal;
	return fn;
}

/* The other way: what the program set. */
static handler_fn stands_for(handler_fn fn, handler_fn in_table)
{
	return fn == on_signal ? in_table : fn == on_fatal ? three(SIG_DFL) : fn;
}

static void store(int sig, handler_fn fn, bool restart)
{
	__atomic_store_n(&handlers[sig].restart, restart, __ATOMIC_RELAXED);
	__atomic_store_n(&handlers[sig].fn, fn, __ATOMIC_RELEASE);
}

static int set_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	handler_fn was;
	struct sigaction ours;
	bool was_restart, watched;
	int rc;

	if (!is_valid(sig))
		return libc.sigaction(sig, act, old);
	was = __atomic_load_n(&handlers[sig].fn, __ATOMIC_RELAXED);
	was_restart = __atomic_load_n(&handlers[sig].restart, __ATOMIC_RELAXED);
	watched = __atomic_load_n(&handlers[sig].watched, __ATOMIC_RELAXED);
	if (act) {
		__atomic_store_n(&handlers[sig].watched, false, __ATOMIC_RELAXED);
		ours = *act;
		ours.sa_sigaction = stand_in(sig, act->sa_sigaction);
		if (ours.sa_sigaction == on_signal)
			store(sig, act->sa_sigaction, act->sa_flags & SA_RESTART);
	}
	rc = libc.sigaction(sig, act ? &ours : NULL, old);
	if (rc && act && ours.sa_sigaction == on_signal)
		store(sig, was, was_restart);
	if (!rc && old) {
		if (old->sa_sigaction == on_fatal && watched)
			old->sa_flags &= ~SA_RESTORER;
		old->sa_sigaction = stands_for(old->sa_sigaction, was);
	}
	return rc;
}

/* signal() and its variants: what else they set is the C library's affair. */
static sighandler_t set_handler(int sig, sighandler_t handler,
				sighandler_t (*real)(int sig, sighandler_t handler))
{
	struct sigaction now;
	sighandler_t old;
	bool wrapped, was_restart;
	handler_fn was, ours;

	if (!is_valid(sig))
		return real(sig, handler);
	was = __atomic_load_n(&handlers[sig].fn, __ATOMIC_RELAXED);
	was_restart = __atomic_load_n(&handlers[sig].restart, __ATOMIC_RELAXED);
	ours = stand_in(sig, three(handler));
	wrapped = ours == on_signal;
	if (wrapped)
		store(sig, three(handler), was_restart);
	old = real(sig, one(ours));
	if (old == SIG_ERR) {
		if (wrapped)
			store(sig, was, was_restart);
		return old;
	}
	if (wrapped && !libc.sigaction(sig, NULL, &now))
		store(sig, three(handler), now.sa_flags & SA_RESTART);
	return one(stands_for(three(old), was));
}

/* A handler that is set meanwhile by another thread, or was set before, goes back. */
void signal_watch_default(int sig)
{
	struct sigaction act = {.sa_sigaction = on_fatal}, old;

	if (libc.sigaction(sig, NULL, &old) || old.sa_sigaction != three(SIG_DFL))
		return;
	act.sa_flags = old.sa_flags;
	act.sa_mask = old.sa_mask;
	__atomic_store_n(&handlers[sig].watched, true, __ATOMIC_RELAXED);
	if (!libc.sigaction(sig, &act, &old) && old.sa_sigaction != three(SIG_DFL))
		libc.sigaction(sig, &old, NULL);
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return set_action(sig, act, old);
}

EXPORT int __sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return set_action(sig, act, old);
}

EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
	return set_handler(sig, handler, libc.signal);
}

EXPORT sighandler_t ssignal(int sig, sighandler_t handler)
{
	return set_handler(sig, handler, libc.ssignal);
}

EXPORT sighandler_t bsd_signal(int sig, sighandler_t handler)
{
	return set_handler(sig, handler, libc.bsd_signal);
}

EXPORT sighandler_t sysv_signal(int sig, sighandler_t handler)
{
	return set_handler(sig, handler, libc.sysv_signal);
}

EXPORT sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return set_handler(sig, handler, libc.__sysv_signal);
}

/* Changes SA_RESTART of the handler that is there. */
EXPORT int siginterrupt(int sig, int interrupt)
{
	int rc = libc.siginterrupt(sig, interrupt);

	if (!rc && is_valid(sig) && !fork_is_vfork_child())
		__atomic_store_n(&handlers[sig].restart, !interrupt, __ATOMIC_RELAXED);
	return rc;
}
