/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signal handlers of the program.  The kernel calls on_signal(), which counts signals for the
 * thread (so that a call that polls without sleeping knows that it has to return EINTR) and
 * calls the program's handler.
 *
 * The kernel's action is authoritative: SIG_DFL and SIG_IGN are passed on unchanged, and the
 * table holds the handler behind on_signal(), even while on_signal() is not installed.  So it
 * is still right after a vfork() child, or SA_RESETHAND, has reset the action.
 *
 * Faults: under the program's handler of SIGSEGV or SIGBUS, or its default, guard_fix() makes
 * our copies from and to bad memory fail, which the program does not notice.  All other
 * faults reach the program as without the library: if it has no handler, the default is
 * restored and the instruction runs again.  If the program ignores these signals, or a thread
 * blocks them, guard_fix() is not called, and the kernel ends the process.
 *
 * Role		any thread, signal handlers included; lock-free.
 * Ordering	a handler is in the table before the kernel calls it.  A signal that arrives
 *		in between already gets the new handler.
 */
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "base/busy.h"
#include "base/guard.h"
#include "base/image/sections.h"
#include "base/sys.h"
#include "intercept/backtrace.h"
#include "intercept/wrap.h"

/* Not declared in current headers. */
sighandler_t bsd_signal(int sig, sighandler_t handler);
int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);

/* The flag that the C library adds to every action it passes to the kernel. */
#define SA_RESTORER 0x04000000

/* The kernel passes all three arguments to every handler, SA_SIGINFO or not. */
typedef void (*handler_fn)(int sig, siginfo_t *info, void *context);

static struct {
	handler_fn fn; /* any, atomic */
	int flags;     /* any, atomic: flags of the program's action, also with on_fault() */
	bool watched;  /* any, atomic: we replaced a default that the program never set */
} handlers[_NSIG];

int faults_watched;

static bool is_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS;
}

/* SA_RESETHAND: the kernel restored the default before it called us. */
static __attribute__((noinline, cold)) void instead_of_default(int sig, bool ours);

/*
 * Sends the signal again, with all its information, and blocks it until the thread has left
 * the library. False: that is impossible.
 */
static __attribute__((noinline, cold)) bool defer_signal(int sig, const siginfo_t *info,
							 ucontext_t *context, int flags)
{
	siginfo_t unknown = {.si_signo = sig, .si_code = SI_TKILL};
	uint64_t all = ~0ull, before, mask;
	long rc;

	if (!(flags & SA_SIGINFO))
		info = &unknown; /* the kernel gave no information */
	/* All signals, because with SA_NODEFER this one is not blocked either. */
	sys_call(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof(all), 0, 0);
	rc = sys_call(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), sig, info, 0, 0);
	if (rc) {
		sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before), 0, 0);
		return false;
	}
	if (flags & (int)SA_RESETHAND)
		instead_of_default(sig, true);
	/* The kernel's set is shorter than the C library's. */
	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	busy_put_signals_off(&mask);
	memcpy(&context->uc_sigmask, &mask, sizeof(mask));
	sock_signals_wait();
	return true;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	handler_fn fn = __atomic_load_n(&handlers[sig].fn, __ATOMIC_RELAXED);
	int flags = __atomic_load_n(&handlers[sig].flags, __ATOMIC_RELAXED);

	if (is_fault(sig)) {
		bool ours = info->si_code > 0 && guard_fix(context);

		if (flags & (int)SA_RESETHAND)
			instead_of_default(sig, ours);
		if (ours)
			return;
	}
	if (__builtin_expect(busy_is(), 0) && busy_may_wait(sig) &&
	    defer_signal(sig, info, context, flags))
		return;
	/* Before the call, which may not return. */
	sock_signals.handled++;
	if (flags & SA_RESTART)
		sock_signals.restart++;
	sock_signal_enters();
	if (__builtin_expect(info->si_code == SI_SIGIO, 0))
		sock_signal_fix(info);
	fn(sig, info, context);
}

/* Installed in place of SIG_DFL where that ends the process, see exit.c. */
static void on_fatal(int sig, siginfo_t *info, void *context)
{
	exit_on_fatal(sig);
}

static handler_fn as_siginfo(sighandler_t handler)
{
	return (handler_fn)(void (*)(void))handler;
}

static sighandler_t as_plain(handler_fn fn)
{
	return (sighandler_t)(void (*)(void))fn;
}

/*
 * Installed in place of SIG_DFL for faults. A fault that is not ours happens again, with
 * the default, and ends the process where it was; a signal that was sent is sent again.
 */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	struct sigaction act = {.sa_handler = SIG_DFL};
	bool sent = info->si_code <= 0 || (sig == SIGBUS && info->si_code == BUS_MCEERR_AO);

	if (!sent && guard_fix(context))
		return;
	libc.sigaction(sig, &act, NULL); /* a fault in the next line ends the process, too */
	backtrace_fatal(sig, info);
	if (sent)
		sys_call(SYS_rt_tgsigqueueinfo, sys_getpid(), sys_gettid(), sig, info, 0, 0);
}

static bool is_valid(int sig)
{
	return sig > 0 && sig < _NSIG;
}

/* Is it a function of the program, to be called by on_signal()? */
static bool is_wrapped(handler_fn fn)
{
	return fn != as_siginfo(SIG_DFL) && fn != as_siginfo(SIG_IGN) &&
	       fn != as_siginfo(SIG_ERR) && fn != as_siginfo(SIG_HOLD) && fn != on_signal &&
	       fn != on_fatal && fn != on_fault && !fork_is_vfork_child();
}

/* The handler that the kernel gets for the program's fn. */
static handler_fn kernel_handler(int sig, handler_fn fn)
{
	if (is_wrapped(fn))
		return on_signal;
	if (fn != as_siginfo(SIG_DFL) || fork_is_vfork_child())
		return fn;
	/* Acquire: pairs with signal_watch_faults(). */
	if (is_fault(sig) && __atomic_load_n(&faults_watched, __ATOMIC_ACQUIRE))
		return on_fault;
	return exit_is_fatal(sig) ? on_fatal : fn;
}

static bool is_default(handler_fn fn)
{
	return fn == on_fatal || fn == on_fault;
}

/* The inverse of kernel_handler(): what the program set. in_table: its handler in the table. */
static handler_fn program_handler(handler_fn fn, handler_fn in_table)
{
	return fn == on_signal ? in_table : is_default(fn) ? as_siginfo(SIG_DFL) : fn;
}

/* The flags that the kernel gets: on_fault() and guard_fix() need more than the program set. */
static int flags_for(int sig, handler_fn fn, int flags)
{
	if (fn == on_fault)
		return (flags & ~(int)SA_RESETHAND) | SA_SIGINFO | SA_ONSTACK;
	return fn == on_signal && is_fault(sig) ? flags | SA_SIGINFO : flags;
}

static void store_handler(int sig, handler_fn fn, int flags)
{
	__atomic_store_n(&handlers[sig].flags, flags, __ATOMIC_RELAXED);
	/* Orders flags before fn, for on_signal(). */
	__atomic_store_n(&handlers[sig].fn, fn, __ATOMIC_RELEASE);
}

/*
 * After the kernel restored the default: replaces it again. ours: the fault was ours, so
 * the program's handler stays.
 */
static void instead_of_default(int sig, bool ours)
{
	struct sigaction now;

	if (libc.sigaction(sig, NULL, &now) || now.sa_sigaction != as_siginfo(SIG_DFL))
		return;
	now.sa_sigaction = ours ? on_signal : kernel_handler(sig, as_siginfo(SIG_DFL));
	now.sa_flags = flags_for(sig, now.sa_sigaction, now.sa_flags);
	libc.sigaction(sig, &now, NULL);
}

static bool is_ours(handler_fn fn)
{
	return fn == on_signal || fn == on_fault;
}

/*
 * Converts the action that the kernel returned into what the program set. in_table, flags,
 * watched: the table's, before a change.
 */
static void show_action(int sig, struct sigaction *old, handler_fn in_table, int flags,
			bool watched)
{
	const int shown = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND;

	if (is_fault(sig) && is_ours(old->sa_sigaction))
		old->sa_flags = (old->sa_flags & ~shown) | (flags & shown);
	if (is_default(old->sa_sigaction) && watched)
		old->sa_flags &= ~SA_RESTORER;
	old->sa_sigaction = program_handler(old->sa_sigaction, in_table);
}

static int set_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	handler_fn was;
	struct sigaction ours;
	bool watched;
	int rc, flags;

	if (!is_valid(sig))
		return libc.sigaction(sig, act, old);
	was = __atomic_load_n(&handlers[sig].fn, __ATOMIC_RELAXED);
	flags = __atomic_load_n(&handlers[sig].flags, __ATOMIC_RELAXED);
	watched = __atomic_load_n(&handlers[sig].watched, __ATOMIC_RELAXED);
	if (act) {
		__atomic_store_n(&handlers[sig].watched, false, __ATOMIC_RELAXED);
		ours = *act;
		ours.sa_sigaction = kernel_handler(sig, act->sa_sigaction);
		ours.sa_flags = flags_for(sig, ours.sa_sigaction, act->sa_flags);
		if (is_ours(ours.sa_sigaction))
			store_handler(sig, act->sa_sigaction, act->sa_flags);
	}
	rc = libc.sigaction(sig, act ? &ours : NULL, old);
	if (rc && act && is_ours(ours.sa_sigaction))
		store_handler(sig, was, flags);
	if (!rc && old)
		show_action(sig, old, was, flags, watched);
	return rc;
}

/* signal() and its variants, which differ in what else they set: real is the C library's. */
static sighandler_t set_handler(int sig, sighandler_t handler,
				sighandler_t (*real)(int sig, sighandler_t handler))
{
	struct sigaction now;
	sighandler_t old;
	bool wrapped;
	handler_fn was, ours;
	int flags;

	if (!is_valid(sig))
		return real(sig, handler);
	was = __atomic_load_n(&handlers[sig].fn, __ATOMIC_RELAXED);
	flags = __atomic_load_n(&handlers[sig].flags, __ATOMIC_RELAXED);
	ours = kernel_handler(sig, as_siginfo(handler));
	wrapped = is_ours(ours);
	if (wrapped)
		store_handler(sig, as_siginfo(handler), flags);
	old = real(sig, as_plain(ours));
	if (old == SIG_ERR) {
		if (wrapped)
			store_handler(sig, was, flags);
		return old;
	}
	if (wrapped && !libc.sigaction(sig, NULL, &now)) {
		store_handler(sig, as_siginfo(handler), now.sa_flags);
		now.sa_flags = flags_for(sig, ours, now.sa_flags);
		if (is_fault(sig))
			libc.sigaction(sig, &now, NULL);
	}
	return as_plain(program_handler(as_siginfo(old), was));
}

/* A handler that another thread sets meanwhile, or that was set before, is restored. */
void signal_watch_default(int sig)
{
	struct sigaction act = {.sa_sigaction = is_fault(sig) ? on_fault : on_fatal}, old;

	if (libc.sigaction(sig, NULL, &old) || old.sa_sigaction != as_siginfo(SIG_DFL))
		return;
	if (is_fault(sig))
		store_handler(sig, as_siginfo(SIG_DFL), old.sa_flags);
	act.sa_flags = flags_for(sig, act.sa_sigaction, old.sa_flags);
	act.sa_mask = old.sa_mask;
	__atomic_store_n(&handlers[sig].watched, true, __ATOMIC_RELAXED);
	if (!libc.sigaction(sig, &act, &old) && old.sa_sigaction != as_siginfo(SIG_DFL))
		libc.sigaction(sig, &old, NULL);
}

EARLY_CODE void signal_watch_faults(void)
{
	int saved = errno;

	/* The exchange pairs with kernel_handler(). */
	if (__atomic_load_n(&faults_watched, __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&faults_watched, 1, __ATOMIC_ACQ_REL))
		return;
	signal_watch_default(SIGSEGV);
	signal_watch_default(SIGBUS);
	errno = saved;
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

/* Changes SA_RESTART of the current action. */
EXPORT int siginterrupt(int sig, int interrupt)
{
	int rc = libc.siginterrupt(sig, interrupt);

	if (rc || !is_valid(sig) || fork_is_vfork_child())
		return rc;
	if (interrupt)
		__atomic_and_fetch(&handlers[sig].flags, ~SA_RESTART, __ATOMIC_RELAXED);
	else
		__atomic_or_fetch(&handlers[sig].flags, SA_RESTART, __ATOMIC_RELAXED);
	return rc;
}
