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

#include "base/signals.h"
#include "base/sys.h"
#include "intercept/wrap.h"

/* The process all our state is of; written at start and in children. */
static int owner;

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
	signals_block();
	sock_fork_prepare();
	fd_fork_prepare();
}

static void parent(void)
{
	fd_fork_parent();
	sock_fork_parent();
	signals_unblock();
}

/* The table's lock first: sock_fork_child() reports sockets that leave. */
static void become_child(void)
{
	owner = process();
	fd_fork_child();
	sock_fork_child();
	fd_forget_sockets();
	exit_fork_child();
}

static void child(void)
{
	become_child();
	signals_unblock();
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
