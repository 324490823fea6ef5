/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that come from this one.
 *
 * fork() calls handlers that we register; _Fork() does not, and is replaced.  In the
 * child every socket is the kernel's.
 *
 * A raw clone(2) or clone3(2) tells nobody.  Its child finds the descriptor table wiped
 * at its first call (see fdtable.h), and becomes a child of fork() there.  Until then it
 * has the descriptors of the port; what never calls us has them as long as it lives.
 *
 * vfork() is fork() where there are sockets that its child could hand to the program
 * which it executes; the parent waits until it has.
 *
 * Else it is the C library's, which returns twice, on one stack.  Its child may not
 * do much before it executes a program, but it does close, copy and adjust
 * descriptors and reset signals, all of which is its own, while our memory is its
 * parent's, as in a child of posix_spawn() or of the system call.  So whatever
 * changes our state asks fork_is_vfork_child(), on the slow paths where there is
 * state to change.
 */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signals.h"
#include "base/sys.h"
#include "intercept/process/inherited.h"
#include "intercept/wrap.h"
#include "sock/share/exec_inherit.h"

/* The process all our state is of; written at start and in children. */
static int owner_pid;

/* Between prepare() and child(): that one does it. */
static __thread bool forking;

/* Not declared for programs of today. */
pid_t __vfork(void);

static void become_child(void);

void fork_adopt(void)
{
	static int adopting; /* atomic */

	/* To another thread of the child the sockets are the kernel's meanwhile. */
	if (!fd_is_wiped() || __atomic_exchange_n(&adopting, 1, __ATOMIC_ACQUIRE))
		return;
	signals_block();
	if (forking)
		fd_fork_child();
	else
		become_child();
	__atomic_store_n(&adopting, 0, __ATOMIC_RELEASE);
	signals_unblock();
}

bool fork_is_vfork_child(void)
{
	fork_adopt();
	return owner_pid && owner_pid != sys_getpid();
}

/* A handler that closes a socket must not find the locks taken by its own thread. */
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
 * Of this thread's fork() under way: what closes when its child executes or ends, hidden, so
 * that no other child has it; -1: nobody waits for that.
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
		return 0; /* the gate is its own, and stays */
	sys_close_fd(&exec_pipe);
	if (pid > 0 && fds[0] >= 0)
		wait_for_exec(fds[0]);
	sys_close_fd(&fds[0]);
	return pid;
}

typedef pid_t (*fork_fn)(void);

/* Which of the two it is; named for the assembler. */
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
/* What returns twice must not be called from a frame of ours: it takes its place. */
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

/* The table's lock first: sock_fork_child() reports sockets that leave. */
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
}

static void after_fork_child(void)
{
	forking = false;
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
		/* Unless a signal handler made a call first. */
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
