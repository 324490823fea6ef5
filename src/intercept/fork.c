/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that come from this one.
 *
 * fork(), and what the C library makes of it (daemon(), forkpty()), calls
 * handlers that we register; _Fork() does not, and is replaced.  In the child
 * every socket is the kernel's.
 *
 * vfork() cannot be replaced: it returns twice, on one stack.  Its child may not
 * do much before it executes a program, but it does close, copy and adjust
 * descriptors and reset signals, all of which is its own, while our memory is its
 * parent's.  So whatever changes our state asks fork_is_vfork_child(), on the
 * slow paths where there is state to change.
 */
#include <pthread.h>
#include <unistd.h>

#include "base/sys.h"
#include "intercept/wrap.h"

/* The process all our state is of; written at start and in children. */
static int owner;

/* Signals of the thread that forks, between prepare and what follows it. */
static uint64_t mask;

static int process(void)
{
	return (int)sys_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

bool fork_is_vfork_child(void)
{
	return owner && owner != process();
}

/* A handler that closes a socket must not find the locks taken by its own thread. */
static void prepare(void)
{
	uint64_t all = ~(uint64_t)0, old = 0;

	sys_call(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof(all), 0, 0);
	sock_fork_prepare();
	fd_fork_prepare();
	mask = old;
}

static void parent(void)
{
	uint64_t old = mask;

	fd_fork_parent();
	sock_fork_parent();
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old), 0, 0);
}

/* The table's lock first: sock_fork_child() reports sockets that leave. */
static void become_child(void)
{
	owner = process();
	fd_fork_child();
	sock_fork_child();
	fd_forget_sockets();
}

static void child(void)
{
	uint64_t old = mask;

	become_child();
	sys_call(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old), 0, 0);
}

/*
 * Async-signal-safe, so there is no preparing: other threads may be anywhere,
 * and the locks are made anew.
 */
EXPORT pid_t _Fork(void)
{
	int saved = errno;
	pid_t pid = libc._Fork();

	if (pid == 0) {
		become_child();
		errno = saved;
	}
	return pid;
}

void fork_init(void)
{
	owner = process();
	pthread_atfork(prepare, parent, child);
}
