/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every wrapper needs.  Its shape: look the descriptor up, one call, make
 * the result the C library's:
 *
 *	struct sock_ref ref = sock_get(fd);
 *	int saved = errno, rc;
 *
 *	if (!ref.sk)
 *		return libc.listen(fd, backlog);
 *	rc = ref.sk->ops->listen(ref, backlog);
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

/* libc's, for the wrappers that check buffer sizes: reports an overflow and aborts. */
void __chk_fail(void) __attribute__((noreturn));

/*
 * exit.c: the socket of a call is gone. If that is because another thread ends the process,
 * the call does not return: with the kernel it would not, either.
 */
void exit_stay(void);

/*
 * The result of a function: -errno is -1 and errno.  Success leaves errno as
 * it was when the program called, whatever happened below.
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

/* The socket fd names; an epoll set is none. */
static inline struct sock_ref sock_get(int fd)
{
	struct sock_ref ref = fd_get(fd);

	if (ref.sk && ref.sk->type == SOCK_TYPE_EPOLL)
		ref.sk = NULL;
	return ref;
}

/* fd.c */

/* fd is about to be closed, by whoever calls this: its socket has one name less. */
void fd_drop(int fd);

/*
 * The kernel gave this number out just now: an entry it has is of a descriptor
 * that was closed without our seeing it.  Returns fd.
 */
int fd_fresh(int fd);

/* fork.c */

/*
 * A vfork() child before exec: it has its own descriptors, but our memory is its
 * parent's.  Whatever changes our state asks this first, and makes the kernel's
 * call only.  One system call.
 */
bool fork_is_vfork_child(void);
/*
 * Does for a process that was made by a raw clone(2), where the kernel says so, what
 * fork() does for its children: its sockets are the kernel's, and what is the parent's
 * is closed.  Of any other process: nothing.
 */
void fork_adopt(void);
/* At start: from now on fork() tells us. */
void fork_init(void);

/*
 * exit.c. Before the program registers an exit handler: ours is the last one.
 */
void exit_init(void);
/* The first accelerated socket: the end by a signal is watched from now on. */
void exit_arm(void);
/* In a forked child, which has no accelerated socket yet. */
void exit_fork_child(void);
/* any, signal handlers included: sig ends the process where it has its default, and is watched. */
bool exit_is_fatal(int sig);
/* In a handler for it: ends the process, in order. */
void exit_on_fatal(int sig);

/* signal.c: where sig has its default, exit_on_fatal() is called instead, unseen. */
void signal_watch_default(int sig);
/* There will be a socket of ours: from now on its copies find out about bad memory. */
void signal_watch_faults(void);
extern int faults_watched; /* any, atomic */

/* Before that, nobody looks at memory of the program's for sockets of ours. */
static inline bool may_have_ours(void)
{
	return __atomic_load_n(&faults_watched, __ATOMIC_RELAXED);
}

/* start.c: what has to be done before there is a socket of ours. */
void start(void);

#endif
