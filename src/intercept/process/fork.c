/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes forked from this one.
 *
 * fork() calls handlers that we register; _Fork() does not, and is replaced.  In the child
 * every socket falls back to the kernel, except those that it shares with its parent.
 *
 * A raw clone(2) or clone3(2) calls nothing of ours.  Its child finds the descriptor table
 * wiped at its first call (see fdtable.h), and is treated there as a child of fork().  Until
 * then it has the port's descriptors open; a child that never calls us keeps them as long as
 * it lives.
 *
 * vfork() is fork() if there are sockets that the child could hand to the program that it
 * executes; the parent blocks until the child has executed it or ended.
 *
 * Otherwise it is the C library's vfork(), which returns twice, on one stack.  Before its
 * child executes a program it may not do much, but it does close, copy and adjust
 * descriptors and reset signals.  All of that is its own, while it shares our memory with
 * its parent, as does a child of posix_spawn() or of the system call.  So whatever changes
 * our state asks fork_is_vfork_child(), on the slow paths where there is state to change.
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signals.h"
#include "base/sys.h"
#include "intercept/extra.h"
#include "intercept/process/inherited.h"
#include "intercept/wrap.h"
#include "sock/share/exec_inherit.h"

/* The process that our state belongs to; written at start and in children. */
static int owner_pid;

/* Between before_fork() and after_fork_child(), which makes the child. */
static __thread bool forking;

/* Not declared in current headers. */
pid_t __vfork(void);

static void become_child(void);

void fork_adopt(void)
{
	static int adopting; /* atomic */

	/* Meanwhile other threads of the child find no sockets of ours, only the kernel's. */
	/* Acquire: pairs with the store below: what another thread did is seen. */
	if (!fd_is_wiped() || __atomic_exchange_n(&adopting, 1, __ATOMIC_ACQUIRE))
		return;
	signals_block();
	if (forking)
		fd_fork_child();
	else
		become_child();
	/* Pairs with the exchange above. */
	__atomic_store_n(&adopting, 0, __ATOMIC_RELEASE);
	signals_unblock();
}

bool fork_is_vfork_child(void)
{
	fork_adopt();
	return owner_pid && owner_pid != sys_getpid();
}

/*
 * Signals are blocked, so that no handler closes a socket while its own thread has the
 * locks.
 */
static void before_fork(void)
{
	signals_block();
	sock_fork_prepare();
	fd_fork_prepare();
	forking = true;
}

static void after_fork_parent(void)
{
	forking = false;
	fd_fork_parent();
	sock_fork_parent();
	signals_unblock();
}

/* ---- vfork ------------------------------------------------------------------------- */

/*
 * During this thread's fork_and_wait(): the write end of a pipe that is closed when the
 * child executes or ends; hidden, so that no other child has it. -1: no thread waits for
 * that.
 */
static __thread int exec_pipe = -1;

static void wait_for_exec(int fd)
{
	char byte;

	while (sys_read(fd, &byte, 1) == -EINTR)
		;
}

static pid_t fork_and_wait(void)
{
	int fds[2] = {-1, -1};
	pid_t pid;

	if (!sys_call(SYS_pipe2, fds, O_CLOEXEC, 0, 0, 0, 0)) {
		fds[0] = sys_fd_hide(fds[0]);
		exec_pipe = sys_fd_hide(fds[1]);
	}
	pid = fork();
	if (pid == 0)
		return 0; /* the child keeps its copy of exec_pipe */
	sys_close_fd(&exec_pipe);
	if (pid > 0 && fds[0] >= 0)
		wait_for_exec(fds[0]);
	sys_close_fd(&fds[0]);
	return pid;
}

typedef pid_t (*fork_fn)(void);

/* Chooses between the two kinds of vfork(). Called from assembly. */
fork_fn fork_choose(void) __attribute__((used, visibility("hidden")));

fork_fn fork_choose(void)
{
	int saved = errno;
	bool wanted;

	start();
	wanted = inherited_any() && exec_inherit_any();
	errno = saved;
	return wanted ? fork_and_wait : libc.vfork;
}

#if defined(__x86_64__)
/*
 * A function that returns twice must not be called from a frame of ours: jumps to it
 * instead.
 */
EXPORT __attribute__((naked)) pid_t vfork(void)
{
	__asm__("subq $8, %rsp\n\t"
		"call fork_choose\n\t"
		"addq $8, %rsp\n\t"
		"jmp *%rax");
}

EXPORT __attribute__((naked)) pid_t __vfork(void)
{
	__asm__("jmp vfork@PLT");
}
#else
EXPORT pid_t vfork(void)
{
	return fork_and_wait();
}

EXPORT pid_t __vfork(void)
{
	return fork_and_wait();
}
#endif

/* ---- fork -------------------------------------------------------------------------- */

/*
 * fd_fork_child() first: sock_fork_child() removes descriptors of sockets, under the
 * table's lock.
 */
static void become_child(void)
{
	owner_pid = sys_getpid();
	log_descend();
	inherited_fork_child();
	fd_fork_child();
	if (exec_pipe >= 0)
		sys_fd_unhide(exec_pipe);
	exec_pipe = -1;
	sock_fork_child();
	fd_forget_sockets();
	exit_fork_child();
	extra_fork_child();
}

static void after_fork_child(void)
{
	forking = false;
	become_child();
	signals_unblock();
}

/*
 * Async-signal-safe, so nothing is prepared: other threads may hold any lock, and the child
 * makes the locks anew.
 */
EXPORT pid_t _Fork(void)
{
	int saved = errno;
	pid_t pid = libc._Fork();

	if (pid == 0) {
		/* Unless a signal handler made a call first, which did it. */
		if (owner_pid != sys_getpid())
			become_child();
		errno = saved;
	}
	return pid;
}

void fork_init(void)
{
	owner_pid = sys_getpid();
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}
