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

/* The kernel passes all three arguments to every handler, SA_SIGINFO or not. */
typedef void (*handler_fn)(int sig, siginfo_t *info, void *context);

static struct {
	handler_fn fn; /* any, atomic */
	bool restart;  /* any, atomic: SA_RESTART */
} handlers[_NSIG];

static void on_signal(int sig, siginfo_t *info, void *context)
{
	handler_fn fn = __atomic_load_n(&handlers[sig].fn, __ATOMIC_RELAXED);

	/* Before the call, which may not return. */
	sock_signals.handled++;
	if (__atomic_load_n(&handlers[sig].restart, __ATOMIC_RELAXED))
		sock_signals.restart++;
	sock_signal_enters();
	fn(sig, info, context);
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
	       fn != three(SIG_HOLD) && fn != on_signal && !fork_is_vfork_child();
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
	bool was_restart;
	int rc;

	if (!is_valid(sig))
		return libc.sigaction(sig, act, old);
	was = __atomic_load_n(&handlers[sig].fn, __ATOMIC_RELAXED);
	was_restart = __atomic_load_n(&handlers[sig].restart, __ATOMIC_RELAXED);
	if (act && is_wrapped(act->sa_sigaction)) {
		ours = *act;
		ours.sa_sigaction = on_signal;
		store(sig, act->sa_sigaction, act->sa_flags & SA_RESTART);
		act = &ours;
	}
	rc = libc.sigaction(sig, act, old);
	if (rc && act == &ours)
		store(sig, was, was_restart);
	if (!rc && old && old->sa_sigaction == on_signal)
		old->sa_sigaction = was;
	return rc;
}

/* signal() and its variants: what else they set is the C library's affair. */
static sighandler_t set_handler(int sig, sighandler_t handler,
				sighandler_t (*real)(int sig, sighandler_t handler))
{
	struct sigaction now;
	sighandler_t old;
	bool wrapped, was_restart;
	handler_fn was;

	if (!is_valid(sig))
		return real(sig, handler);
	was = __atomic_load_n(&handlers[sig].fn, __ATOMIC_RELAXED);
	was_restart = __atomic_load_n(&handlers[sig].restart, __ATOMIC_RELAXED);
	wrapped = is_wrapped(three(handler));
	if (wrapped)
		store(sig, three(handler), was_restart);
	old = real(sig, wrapped ? one(on_signal) : handler);
	if (old == SIG_ERR) {
		if (wrapped)
			store(sig, was, was_restart);
		return old;
	}
	if (wrapped && !libc.sigaction(sig, NULL, &now))
		store(sig, three(handler), now.sa_flags & SA_RESTART);
	return old == one(on_signal) ? one(was) : old;
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
