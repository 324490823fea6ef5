/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that come from this one.
 *
 * fork(), and what the C library makes of it (daemon(), forkpty()), calls
 * handlers that we register; _Fork() does not, and is replaced.  In the child
 * every socket is the kernel's.
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

#include "base/signals.h"
#include "base/sys.h"
#include "intercept/heritage.h"
#include "intercept/wrap.h"
#include "sock/carry.h"

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

/* ---- vfork ------------------------------------------------------------------------------ */

/*
 * Of this thread's fork() under way: what closes when its child executes or ends, hidden, so
 * that no other child has it; -1: nobody waits for that.
 */
static __thread int gate = -1;

static void wait_at_gate(int fd)
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
		gate = sys_fd_hide(fds[1]);
	}
	pid = fork();
	if (pid == 0)
		return 0; /* the gate is its own, and stays */
	sys_close_fd(&gate);
	if (pid > 0 && fds[0] >= 0)
		wait_at_gate(fds[0]);
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
	wanted = heritage_any() && carry_any();
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
#else
EXPORT pid_t vfork(void)
{
	return fork_and_wait();
}
#endif

/* ---- fork ------------------------------------------------------------------------------- */

/* The table's lock first: sock_fork_child() reports sockets that leave. */
static void become_child(void)
{
	owner = process();
	heritage_fork_child();
	fd_fork_child();
	if (gate >= 0)
		sys_fd_unhide(gate);
	gate = -1;
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
