/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes forked from this one.
 *
 * fork() calls handlers that we register; _Fork() does not, and is replaced.  In the child
 * every socket falls back to the kernel, except those that it shares with its parent.
 *
 * A child of fork() waits: it only closes the parent's descriptors, and begins, which means
 * all the rest, at its first call that looks a descriptor up or may change our state
 * (fork_adopt()).  It finds the descriptor table wiped then (see fdtable.h).  So a child that
 * only ends, or executes a program, costs little.  A child that has a connection begins at once.
 *
 * A raw clone(2) or clone3(2) calls nothing of ours.  Its child begins in the same way, but
 * has the port's descriptors open until then.
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
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/image/sections.h"
#include "base/mem.h"
#include "base/signals.h"
#include "base/sys.h"
#include "intercept/extra.h"
#include "intercept/process/inherited.h"
#include "intercept/wrap.h"
#include "sock/share/exec_inherit.h"

/* The process that our state belongs to; written at start and in children. */
static int owner_pid EARLY_DATA;

/* Between before_fork() and after_fork_child(), unless the child begins meanwhile. */
static __thread bool forking __attribute__((tls_model("initial-exec")));

/* In fork_detached(): the child has no socket of this process, which so does nothing for it. */
static __thread bool detached __attribute__((tls_model("initial-exec")));

/* A child of fork() that waits. Any, atomic: 0 again when it has begun. */
static int waiting EARLY_DATA;

/* Not declared in current headers. */
pid_t __vfork(void);

static void become_child(void);

EARLY_CODE bool fork_waits(void)
{
	/* Acquire: pairs with become_child(): what the thread that began did is seen. */
	return __atomic_load_n(&waiting, __ATOMIC_ACQUIRE) || fd_is_wiped();
}

/* The thread whose turn it is: process and thread id. Of another process: none. Any, atomic. */
static uint64_t beginner EARLY_DATA;

EARLY_CODE static uint64_t self_id(void)
{
	return (uint64_t)sys_getpid() << 32 | (uint32_t)sys_gettid();
}

/* Is this thread in a function that it calls to begin? */
static bool is_turn_own(void)
{
	return __atomic_load_n(&beginner, __ATOMIC_RELAXED) == self_id();
}

/* While it is the turn of another thread of this process. */
static void wait_for_turn(uint64_t self, uint64_t seen)
{
	while (seen != self && seen >> 32 == self >> 32) {
		sys_sched_yield();
		/* Acquire: pairs with end_turn(). */
		seen = __atomic_load_n(&beginner, __ATOMIC_ACQUIRE);
	}
}

/* In fork() before after_fork_child(), locks are not made anew yet: only the table is. */
static void begin(void)
{
	if (!fork_waits())
		return; /* another thread did it meanwhile */
	if (inherited_waits()) {
		inherited_begin();
		fd_fork_child_done();
	} else if (forking) {
		forking = false;
		fd_fork_child();
		fd_fork_child_done();
	} else {
		if (!__atomic_load_n(&waiting, __ATOMIC_RELAXED))
			exit_fork_child(); /* of a raw clone(2) */
		become_child();
	}
}

/*
 * Blocks signals and returns true: this thread is the one that begins, until end_turn(). False:
 * another thread has begun, or this one is in a function that it calls to begin.
 */
EARLY_CODE static bool take_turn(void)
{
	uint64_t self = self_id();
	uint64_t seen = __atomic_load_n(&beginner, __ATOMIC_RELAXED);

	signals_block();
	/* Acquire: pairs with end_turn(). */
	if (seen >> 32 != self >> 32 &&
	    __atomic_compare_exchange_n(&beginner, &seen, self, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return true;
	wait_for_turn(self, seen);
	signals_unblock();
	return false;
}

EARLY_CODE static void end_turn(void)
{
	/* Pairs with take_turn() and wait_for_turn(). */
	__atomic_store_n(&beginner, 0, __ATOMIC_RELEASE);
	signals_unblock();
}

/* Of the threads that come at the same time one begins, and the others see that it has. */
EARLY_CODE void fork_adopt(void)
{
	while (fork_waits()) {
		if (take_turn()) {
			begin();
			end_turn();
		} else if (is_turn_own()) {
			return;
		}
	}
}

EARLY_CODE bool fork_stay(void)
{
	while (fork_waits() && !inherited_waits()) {
		if (!take_turn())
			continue;
		if (fork_waits())
			return true;
		end_turn();
	}
	return false;
}

EARLY_CODE void fork_stay_end(void)
{
	end_turn();
}

EARLY_CODE bool fork_is_vfork_child(void)
{
	fork_adopt();
	return owner_pid && owner_pid != sys_getpid();
}

/*
 * Signals are blocked, so that no handler closes a socket while its own thread has the
 * locks.
 */
EARLY_CODE static void before_fork(void)
{
	signals_block();
	fork_adopt();
	sock_fork_prepare(detached);
	fd_fork_prepare();
	forking = true;
}

EARLY_CODE static void after_fork_parent(void)
{
	forking = false;
	fd_fork_parent();
	sock_fork_parent(detached);
	signals_unblock();
}

/* ---- vfork ------------------------------------------------------------------------- */

/*
 * During this thread's fork_and_wait(): the write end of a pipe that is closed when the
 * child executes or ends; hidden, so that no other child has it. -1: no thread waits for
 * that.
 */
static __thread int exec_pipe __attribute__((tls_model("initial-exec"))) = -1;

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
	fork_adopt(); /* not in the child, which shares our memory */
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

/* In the child of fork_and_wait(): the pipe stays open until exec. */
EARLY_CODE static void keep_exec_pipe(void)
{
	if (exec_pipe < 0)
		return; /* and nothing is written: a page would be copied */
	sys_fd_unhide(exec_pipe);
	exec_pipe = -1;
}

/*
 * fd_fork_child() first: sock_fork_child() removes descriptors of sockets, under the
 * table's lock. fd_fork_child_done() last: then other threads use the sockets.
 */
static void become_child(void)
{
	owner_pid = sys_getpid();
	log_descend();
	inherited_fork_child();
	fd_fork_child();
	keep_exec_pipe();
	sock_fork_child();
	fd_forget_sockets();
	extra_fork_child();
	fd_fork_child_done();
	/* Pairs with fork_waits(). */
	__atomic_store_n(&waiting, 0, __ATOMIC_RELEASE);
}

EARLY_CODE static void after_fork_child(void)
{
	bool began = !forking;

	forking = false;
	exit_fork_child();
	if (began || detached || !sock_fork_child_may_wait() || (fd_is_used() && !fd_is_wiping())) {
		detached = false;
		become_child(); /* also: the kernel does not wipe, or there was a call already */
	} else {
		keep_exec_pipe();
		fd_fork_parent(); /* this thread holds the lock; another one may begin */
		sock_fork_child_waits();
		__atomic_store_n(&waiting, 1, __ATOMIC_RELAXED); /* the only thread */
	}
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
		signals_block();
		/* Unless a signal handler made a call first, which did it. */
		if (owner_pid != sys_getpid())
			become_child();
		signals_unblock();
		errno = saved;
	}
	return pid;
}

/* ---- a process that this one does not wait for ---------------------------------------- */

#define PARENT_STACK (1u << 20)

struct detached_fork {
	void (*run)(void *arg);
	void *arg;
	pid_t pid;
};

/* In a process that has our memory and descriptors, while the thread that made it is suspended. */
static int fork_and_leave(void *arg)
{
	struct detached_fork *d = arg;

	detached = true;
	d->pid = fork();
	if (d->pid == 0) {
		d->run(d->arg);
		_exit(0);
	}
	detached = false;
	return 0;
}

pid_t fork_detached(void (*run)(void *arg), void *arg)
{
	const int shares = CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_VFORK;
	struct detached_fork d = {run, arg, -1};
	uint8_t *stack = mem_map(PARENT_STACK);
	pid_t parent = -1;

	if (stack)
		parent = clone(fork_and_leave, stack + PARENT_STACK, shares, &d);
	while (parent > 0 && waitpid(parent, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	if (stack)
		mem_unmap(stack, PARENT_STACK);
	return d.pid;
}

EARLY_CODE void fork_init(void)
{
	owner_pid = sys_getpid();
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}
