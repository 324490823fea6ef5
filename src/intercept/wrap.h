/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every wrapper needs.  A wrapper looks the descriptor up, makes one call, and
 * converts the result into the C library's:
 *
 *	struct sock_ref ref = sock_get(fd);
 *	int saved = errno, rc;
 *
 *	if (!ref.sk)
 *		return libc.listen(fd, backlog);
 *	rc = sock_ops_of(ref.sk)->listen(ref, backlog);
 *	return rc == SOCK_KERNEL ? libc.listen(fd, backlog) : to_libc(rc, saved);
 */
#ifndef INTERCEPT_WRAP_H
#define INTERCEPT_WRAP_H

#include <errno.h>
#include <stdbool.h>

#include "intercept/fdtable.h"
#include "intercept/libc.h"
#include "sock/core/sock.h"

#define EXPORT __attribute__((visibility("default")))

/* The C library's, for wrappers that check buffer sizes: reports an overflow and aborts. */
void __chk_fail(void) __attribute__((noreturn));

/*
 * exit.c, any: the socket of a call is gone. If another thread is ending the process, the
 * call blocks until the process ends, as it would with the kernel.
 */
void exit_stay(void);

/*
 * Converts a result: -errno becomes -1 and errno. Success restores errno to what it was
 * when the program called.
 */
static inline ssize_t to_libc(ssize_t rc, int saved)
{
	if (__builtin_expect(rc < 0, 0)) {
		if (__builtin_expect(rc == -EBADF, 0))
			exit_stay();
		errno = (int)-rc;
		return -1;
	}
	errno = saved;
	return rc;
}

/* The socket that fd names; ref.sk NULL: none, or an epoll set. */
static inline struct sock_ref sock_get(int fd)
{
	struct sock_ref ref = fd_get(fd);

	if (ref.sk && ref.sk->type == SOCK_TYPE_EPOLL)
		ref.sk = NULL;
	return ref;
}

/* ---- fd.c -------------------------------------------------------------------------- */

/*
 * The caller is about to close fd: removes it from the table; the last descriptor closes
 * the socket.
 */
void fd_drop(int fd);

/*
 * The kernel has just given out this number: an entry that it still has belongs to a
 * descriptor that was closed unseen, and is removed. Returns fd.
 */
int fd_fresh(int fd);

/* ---- fork.c ------------------------------------------------------------------------ */

/*
 * Is this a vfork() child before exec? It has its own descriptors, but shares its parent's
 * memory. Whatever changes our state asks this first, and then makes only the kernel's
 * call. Costs one system call.
 */
bool fork_is_vfork_child(void);
/*
 * Is this a process that has not begun: a forked child, or a program that was executed and
 * inherits sockets? It owns nothing yet; there is nothing to do at its end.
 */
bool fork_waits(void);
/*
 * A process that has not begun: begins. Sockets that a forked child does not share with its
 * parent fall back to the kernel. Another thread that does so is waited for. In any other
 * process: nothing.
 */
void fork_adopt(void);
/*
 * A forked child that has not begun stays so until fork_stay_end(): no signal handler runs, and
 * other threads wait. False: it has begun, or is no forked child.
 */
bool fork_stay(void);
void fork_stay_end(void);
/*
 * Forks a process that has copies of this one's memory and descriptors, but none of its sockets, and is no
 * child of it: no wait(2), and no signal, tells that it has ended.  There run() is called, and must not
 * return before the process ends.  Its number; -1: there is none.  Signals are blocked.
 */
pid_t fork_detached(void (*run)(void *arg), void *arg);
/* At start: registers our fork handlers. */
void fork_init(void);

/* ---- exit.c ------------------------------------------------------------------------ */

/* At start, before the program registers an exit handler, so that ours runs last. */
void exit_init(void);
/* At the first accelerated socket: from now on signals that end the process are handled. */
void exit_arm(void);
/* In a forked child, which has no accelerated socket yet: at once, on the thread that forked. */
void exit_fork_child(void);
/*
 * any, signal handlers included: does sig end the process by default, and is it handled by
 * now?
 */
bool exit_is_fatal(int sig);
/* In a handler for sig: closes our sockets, then ends the process. */
void exit_on_fatal(int sig);

/*
 * signal.c: where sig has its default action, exit_on_fatal() is called instead, which the
 * program cannot see.
 */
void signal_watch_default(int sig);
/* At the first socket: from now on copies from and to the program detect bad memory. */
void signal_watch_faults(void);
extern int faults_watched; /* any, atomic */

/* Before signal_watch_faults() no wrapper reads the program's memory for sockets of ours. */
static inline bool may_have_ours(void)
{
	return __atomic_load_n(&faults_watched, __ATOMIC_RELAXED);
}

/*
 * start.c: everything that has to be done before the first socket of ours; later calls do
 * nothing.
 */
void start(void);

#endif
