/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ways out of a process. However it ends, the kernel closes its sockets in order: peers
 * get what was queued, and an end. Ours need somebody to do that:
 *
 *	exit(), return from main()	the last exit handler of all, see exit_init()
 *	_exit(), _Exit(), quick_exit()	before libc's
 *	abort()				before the signal that ends it
 *	a signal that ends it		on_fatal() stands where the program has SIG_DFL, and has
 *					the internal thread do it; then the signal comes again.
 *					A failed assertion raises SIGABRT inside the C library.
 *
 *	the last thread's end		the C library counts the internal thread, too: see main_left()
 *
 * Nobody can after SIGKILL, nor after a fault (SIGSEGV and the like), where nothing in the
 * process is to be trusted: peers learn it from the kernel when they send.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <threads.h>
#include <unistd.h>

#include "base/busy.h"
#include "base/sys.h"
#include "intercept/wrap.h"

/* Not declared for programs: with NULL, a handler that is not bound to a library. */
int __cxa_atexit(void (*fn)(void *arg), void *arg, void *dso);

/* What ends a process by default, and what programs are ended by. */
static const int fatal_signals[] = {SIGHUP,  SIGINT,  SIGQUIT,	 SIGPIPE, SIGALRM,   SIGTERM,
				    SIGUSR1, SIGUSR2, SIGIO,	 SIGPROF, SIGVTALRM, SIGXCPU,
				    SIGXFSZ, SIGPWR,  SIGSTKFLT, SIGABRT};

#define EXIT_MAX_SEC 5		       /* seconds; sock_exit() needs less, if all is well */
#define STOP_MAX (100 * NSEC_PER_MSEC) /* for a thread to finish what it does here */

static int signals_watched; /* any, atomic: signals are watched */
static int exiting_tid;	    /* any, atomic: the thread that ends the process; 0: none */

static void end_sockets(void)
{
	__atomic_store_n(&exiting_tid, sys_gettid(), __ATOMIC_RELEASE);
	sock_exit();
}

/* A vfork() child's end is not its parent's. */
static void end_sockets_at_exit(void)
{
	if (!fork_is_vfork_child())
		end_sockets();
}

void exit_stay(void)
{
	int who = __atomic_load_n(&exiting_tid, __ATOMIC_ACQUIRE);
	struct timespec most = {.tv_sec = EXIT_MAX_SEC};

	/* A handler of the program may run on the thread that ends it. */
	if (who && who != sys_gettid() && !fork_is_vfork_child())
		sys_ppoll(NULL, 0, &most, NULL);
}

/* Other threads that still use their sockets do not come back from it. */
static void at_exit(void *arg)
{
	(void)arg;
	end_sockets_at_exit();
}

/*
 * The loader runs our constructor before the program registers anything, its own
 * destructors of libraries included: so this is the last handler, and sockets serve until
 * then. Handlers that are bound to a library would run with its destructors.
 */
void exit_init(void)
{
	__cxa_atexit(at_exit, NULL, NULL);
	at_quick_exit(end_sockets_at_exit);
}

EXPORT void _exit(int status)
{
	end_sockets_at_exit();
	libc._exit(status);
	__builtin_unreachable();
}

EXPORT void _Exit(int status)
{
	end_sockets_at_exit();
	libc._exit(status);
	__builtin_unreachable();
}

/* abort(3): the program's handler first; it may not return. */
EXPORT void abort(void)
{
	struct sigaction act;

	if (!libc.sigaction(SIGABRT, NULL, &act) && act.sa_handler != SIG_DFL &&
	    act.sa_handler != SIG_IGN) {
		raise(SIGABRT);
		act = (struct sigaction){.sa_handler = SIG_DFL};
		libc.sigaction(SIGABRT, &act, NULL);
	}
	end_sockets_at_exit();
	libc.abort();
	__builtin_unreachable();
}

/* ---- the last thread --------------------------------------------------------------- */

#define LOOK_EVERY (100 * 1000 * 1000) /* ns */

static int main_is_gone; /* any, atomic: it called pthread_exit() */

/* Threads of the process, the first one included, or 0. */
static unsigned count_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n > 2 ? n - 2 : 0;
}

/* Ends the process when there is but the first thread's shell, the internal thread and us. */
static void *wait_for_last(void *arg)
{
	struct timespec pause = {.tv_nsec = LOOK_EVERY};

	(void)arg;
	while (count_threads() > 3)
		sys_ppoll(NULL, 0, &pause, NULL);
	exit(0);
	return NULL;
}

/*
 * A process whose first thread left by pthread_exit() ends with its last one (by exit(0)),
 * but that would be our internal thread, which does not.
 */
static void start_last_waiter(void)
{
	sigset_t all, old;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (!pthread_create(&thread, NULL, wait_for_last, NULL))
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

EXPORT void pthread_exit(void *value)
{
	if (sys_getpid() == sys_gettid() &&
	    !__atomic_exchange_n(&main_is_gone, 1, __ATOMIC_SEQ_CST) &&
	    __atomic_load_n(&signals_watched, __ATOMIC_SEQ_CST))
		start_last_waiter();
	libc.pthread_exit(value);
	__builtin_unreachable();
}

EXPORT void thrd_exit(int value)
{
	pthread_exit((void *)(intptr_t)value);
}

/* ---- signals that end it ----------------------------------------------------------- */

bool exit_is_fatal(int sig)
{
	if (!__atomic_load_n(&signals_watched, __ATOMIC_ACQUIRE))
		return false;
	for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(*fatal_signals); i++) {
		if (fatal_signals[i] == sig)
			return true;
	}
	return false;
}

/* Ends the process as the signal does; in a handler of it, when that returns. */
static void kill_self(int sig)
{
	struct sigaction act = {.sa_handler = SIG_DFL};

	libc.sigaction(sig, &act, NULL);
	sys_call(SYS_tgkill, sys_getpid(), sys_gettid(), sig, 0, 0, 0);
}

static int interrupted_tid; /* any, atomic: the thread that is in the middle of our work; 0: none */

/*
 * It does nothing of the program's any more: as soon as it has done with ours, the signal
 * stops it. One that is blocked there by now comes too late for that.
 */
static void stop_interrupted(int sig)
{
	struct timespec pause = {.tv_nsec = 50 * NSEC_PER_USEC};
	nsec_t deadline = clock_now() + STOP_MAX;
	int tid;

	while ((tid = __atomic_load_n(&interrupted_tid, __ATOMIC_ACQUIRE)) &&
	       clock_now() < deadline) {
		if (sys_call(SYS_tgkill, sys_getpid(), tid, sig, 0, 0, 0))
			break;
		sys_ppoll(NULL, 0, &pause, NULL);
	}
}

/* The internal thread, where all signals are blocked. */
static void end_sockets_and_die(int sig)
{
	sigset_t set;

	stop_interrupted(sig);
	end_sockets();
	sigemptyset(&set);
	sigaddset(&set, sig);
	kill_self(sig);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/*
 * On whichever thread the kernel chose. One that is in the middle of our work goes on with
 * it, so that the internal thread is not kept waiting, which sends the signal again; others
 * do nothing more.
 */
void exit_on_fatal(int sig)
{
	struct timespec most = {.tv_sec = EXIT_MAX_SEC};
	int saved = errno;

	if (fork_is_vfork_child()) {
		kill_self(sig);
		return;
	}
	__atomic_store_n(&interrupted_tid, hold_current ? sys_gettid() : 0, __ATOMIC_RELEASE);
	if (!sock_exit_by(sig, end_sockets_and_die)) {
		kill_self(sig);
	} else if (!hold_current) {
		sys_ppoll(NULL, 0, &most, NULL);
		kill_self(sig);
	}
	errno = saved;
}

void exit_fork_child(void)
{
	signals_watched = 0;
	exiting_tid = 0;
	interrupted_tid = 0;
	main_is_gone = 0;
}

/* Where the program lets a signal end it, that is watched from now on. */
void exit_arm(void)
{
	/* Pairs with pthread_exit(): one of us sees the other. */
	if (__atomic_exchange_n(&signals_watched, 1, __ATOMIC_SEQ_CST))
		return;
	if (__atomic_load_n(&main_is_gone, __ATOMIC_SEQ_CST))
		start_last_waiter();
	for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(*fatal_signals); i++)
		signal_watch_default(fatal_signals[i]);
}
