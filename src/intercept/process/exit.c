/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of the process.  However a process ends, the kernel closes its sockets in order:
 * peers get what is queued, and then the FIN.  For sockets of ours the library has to do
 * that:
 *
 *	exit(), return from main()	in the last of all exit handlers, see exit_init()
 *	_exit(), _Exit(), quick_exit()	before the C library's function
 *	abort()				before the signal that ends the process
 *	a signal that ends it		on_fatal() is installed where the program has SIG_DFL;
 *					it makes the internal thread close the sockets, and
 *					then the signal is sent again.  A failed assertion
 *					raises SIGABRT inside the C library.
 *	the end of the last thread	the C library counts the internal thread, too: see
 *					start_last_waiter()
 *
 * After SIGKILL nothing can do that.  After a fault (SIGSEGV and the like) nothing does,
 * because nothing in the process can be trusted: the kernel tells peers when they send.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/busy.h"
#include "base/image/sections.h"
#include "base/sys.h"
#include "intercept/wrap.h"

/* Not declared in headers. With dso NULL the handler is not bound to a library. */
int __cxa_atexit(void (*fn)(void *arg), void *arg, void *dso);

/* Signals that end a process by default, and by which programs are ended in practice. */
static const int fatal_signals[] = {SIGHUP,  SIGINT,  SIGQUIT,	 SIGPIPE, SIGALRM,   SIGTERM,
				    SIGUSR1, SIGUSR2, SIGIO,	 SIGPROF, SIGVTALRM, SIGXCPU,
				    SIGXFSZ, SIGPWR,  SIGSTKFLT, SIGABRT};

#define EXIT_MAX (5 * NSEC_PER_SEC)    /* sock_exit() normally needs less */
#define STOP_MAX (100 * NSEC_PER_MSEC) /* for a thread to finish what it does in the library */

static int signals_watched EARLY_DATA; /* any, atomic: on_fatal() is installed */
static int exiting_tid EARLY_DATA;     /* any, atomic: thread that ends the process; 0: none */

EARLY_CODE static void end_sockets(void)
{
	/* Pairs with exit_stay(): a call whose socket is gone sees who ends the process. */
	__atomic_store_n(&exiting_tid, sys_gettid(), __ATOMIC_RELEASE);
	sock_exit();
}

/* The end of a vfork() child is not that of its parent. */
EARLY_CODE static void end_sockets_at_exit(void)
{
	if (!fork_waits() && !fork_is_vfork_child())
		end_sockets();
}

void exit_stay(void)
{
	/* Acquire: pairs with end_sockets(). */
	int who = __atomic_load_n(&exiting_tid, __ATOMIC_ACQUIRE);

	/* Not on the thread that ends the process, which may run a handler of the program. */
	if (who && who != sys_gettid() && !fork_is_vfork_child())
		sys_sleep(EXIT_MAX);
}

/* Other threads that still use their sockets do not return from the call. */
EARLY_CODE static void at_exit(void *arg)
{
	(void)arg;
	end_sockets_at_exit();
}

EARLY_CODE EXPORT void _exit(int status)
{
	end_sockets_at_exit();
	libc._exit(status);
	__builtin_unreachable();
}

EARLY_CODE EXPORT void _Exit(int status)
{
	end_sockets_at_exit();
	libc._exit(status);
	__builtin_unreachable();
}

/* abort(3): the program's handler runs first, and may not return. */
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

/* ---- the end of the last thread ---------------------------------------------------- */

#define LOOK_EVERY (100 * NSEC_PER_MSEC)

static int main_is_gone EARLY_DATA;	   /* any, atomic: the first thread has ended */
static pthread_key_t first_key EARLY_DATA; /* written at start */
static bool have_first_key EARLY_DATA;
/* This thread's value of first_key is set. */
static __thread bool has_value __attribute__((tls_model("initial-exec")));

/* Number of threads of the process, the first one included; 0: unknown. */
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

/*
 * Ends the process when no threads are left but the first, which is a zombie, the internal
 * thread and this one.
 */
static void *wait_for_last(void *arg)
{
	(void)arg;
	while (count_threads() > 3)
		sys_sleep(LOOK_EVERY);
	exit(0);
	return NULL;
}

/*
 * A process whose first thread has ended ends with its last thread, as by exit(0). The internal thread would be the last one, and never ends: starts a thread that
 * calls exit(0) instead.
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

/*
 * The destructor of the first thread's value of first_key. The C library runs it when the
 * thread ends alone (pthread_exit(), thrd_exit(), pthread_cancel()), not when the process does.
 */
static void first_ends(void *value)
{
	(void)value;
	has_value = false;
	/* Pairs with exit_arm(): one of the two sees the other's store. */
	if (!__atomic_exchange_n(&main_is_gone, 1, __ATOMIC_SEQ_CST) &&
	    __atomic_load_n(&signals_watched, __ATOMIC_SEQ_CST))
		start_last_waiter();
}

/* Sets the first thread's value; the calling thread may be another one, in dlopen(). */
EARLY_CODE static void watch_first(void)
{
	if (have_first_key && !has_value && sys_getpid() == sys_gettid())
		has_value = !pthread_setspecific(first_key, &first_key);
}

/*
 * The loader runs our constructor before the program, or a library of it, registers an exit
 * handler. So ours is the last one, and sockets work until then. A handler bound to a
 * library would run with that library's destructors.
 */
EARLY_CODE void exit_init(void)
{
	__cxa_atexit(at_exit, NULL, NULL);
	at_quick_exit(end_sockets_at_exit);
	have_first_key = !pthread_key_create(&first_key, first_ends);
	watch_first();
}

/* ---- signals that end the process -------------------------------------------------- */

bool exit_is_fatal(int sig)
{
	/* Acquire: pairs with exit_arm(). */
	if (!__atomic_load_n(&signals_watched, __ATOMIC_ACQUIRE))
		return false;
	for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(*fatal_signals); i++) {
		if (fatal_signals[i] == sig)
			return true;
	}
	return false;
}

/* Ends the process by sig; within a handler of sig, when the handler returns. */
static void kill_self(int sig)
{
	struct sigaction act = {.sa_handler = SIG_DFL};

	libc.sigaction(sig, &act, NULL);
	sys_call(SYS_tgkill, sys_getpid(), sys_gettid(), sig, 0, 0, 0);
}

static int interrupted_tid
	EARLY_DATA; /* any, atomic: interrupted thread that holds a ring; 0: none */

/*
 * Stops the interrupted thread: it leaves the library and then gets the signal, so that it
 * runs no more code of the program. If it has blocked the signal by now, that comes too
 * late.
 */
static void stop_interrupted(int sig)
{
	nsec_t deadline = clock_now() + STOP_MAX;
	int tid;

	/* Acquire: pairs with exit_on_fatal(), which stores 0 when that thread holds no ring. */
	while ((tid = __atomic_load_n(&interrupted_tid, __ATOMIC_ACQUIRE)) &&
	       clock_now() < deadline) {
		if (sys_call(SYS_tgkill, sys_getpid(), tid, sig, 0, 0, 0))
			break;
		sys_sleep(50 * NSEC_PER_USEC);
	}
}

/* Runs on the internal thread, where all signals are blocked. */
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
 * On the thread that the kernel chose. If it holds a ring it returns and goes on, so that
 * the internal thread need not wait for it; the internal thread sends it the signal again.
 * Otherwise the thread blocks until the process ends.
 */
void exit_on_fatal(int sig)
{
	int saved = errno;

	if (fork_waits() || fork_is_vfork_child()) {
		kill_self(sig);
		return;
	}
	/* Pairs with stop_interrupted(). */
	__atomic_store_n(&interrupted_tid, hold_current ? sys_gettid() : 0, __ATOMIC_RELEASE);
	if (!sock_exit_by(sig, end_sockets_and_die)) {
		kill_self(sig);
	} else if (!hold_current) {
		sys_sleep(EXIT_MAX);
		kill_self(sig);
	}
	errno = saved;
}

/* The thread that forked is the first one; it may end before the child begins. */
EARLY_CODE void exit_fork_child(void)
{
	signals_watched = 0;
	exiting_tid = 0;
	interrupted_tid = 0;
	main_is_gone = 0;
	watch_first();
}

/* From now on, signals that the program leaves at their default close our sockets first. */
void exit_arm(void)
{
	/*
	 * Pairs with first_ends(): one of the two sees the other's store and starts the
	 * waiter.
	 */
	if (__atomic_exchange_n(&signals_watched, 1, __ATOMIC_SEQ_CST))
		return;
	if (__atomic_load_n(&main_is_gone, __ATOMIC_SEQ_CST))
		start_last_waiter();
	for (size_t i = 0; i < sizeof(fatal_signals) / sizeof(*fatal_signals); i++)
		signal_watch_default(fatal_signals[i]);
}
