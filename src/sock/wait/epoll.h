/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll, poll and select on accelerated and kernel descriptors together.
 *
 * An epoll set is the program's real kernel set, which has the kernel's descriptors with
 * the program's own data; an interest list of accelerated sockets; and a second kernel set
 * with the twins of those sockets.
 *
 * Role		any thread.  Each epoll set has a mutex, taken before a ring is held
 *		and never while one is held.
 * Errors	-errno.
 */
#ifndef SOCK_WAIT_EPOLL_H
#define SOCK_WAIT_EPOLL_H

#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <poll.h>

#include "sock/core/sock.h"

/* Finds the socket of a descriptor; intercept provides it. */
typedef struct sock_ref (*fd_lookup_fn)(int fd);

/* epfd: the kernel's set.  NULL: no memory. */
struct epoll *epoll_create_set(int epfd);
/* The program closed the descriptor by which the set was known, and has another one. */
void epoll_set_fd(struct epoll *ep, int epfd);
/* The program closed the set's last descriptor. */
void epoll_destroy_set(struct epoll *ep);

/*
 * epoll_ctl(2) for an accelerated socket fd; the kernel serves other descriptors: do not
 * call this for them.  SOCK_KERNEL: the socket has left for the kernel meanwhile, and the
 * caller makes the kernel's call.
 */
int epoll_control(struct epoll *ep, int op, int fd, struct sock_ref ref, struct epoll_event *event);

/*
 * The set has no accelerated socket.  epoll_wait_set() makes the kernel's call then, and
 * returns from it when another thread adds the first one.  So intercept may bypass this
 * library only for a timeout of 0.
 */
bool epoll_is_plain(const struct epoll *ep);

/*
 * The program added a kernel descriptor to the set (delta 1) or removed one (-1).  While
 * there is none, polling rounds save the system call.
 */
void epoll_note_kernel_fd(struct epoll *ep, int delta);

/*
 * Call this before the kernel's epoll_ctl(2) on the set: in a forked child it moves the
 * set's entries to the kernel's set, so that they can be modified there.
 */
void epoll_settle(struct epoll *ep);

/* timeout in ns, NSEC_NEVER: none.  mask: as in epoll_pwait(2), or NULL. */
int epoll_wait_set(struct epoll *ep, struct epoll_event *events, int max, nsec_t timeout,
		   const sigset_t *mask);

/*
 * holder: the socket ends.  Removes its watches from every set and waiter, and wakes their
 * owners.  A thread that waits for the socket looks its descriptor up again.
 */
void epoll_sock_closed(struct sock *sk);

/*
 * Control lock, no ring held: the socket falls back to the kernel.  Its entries in every
 * epoll set become kernel entries with the same events and data.
 */
void epoll_sock_left(struct sock *sk);

/*
 * In a forked child, before anything else: no set has an accelerated socket any more.  The
 * kernel's sets get the entries, with events and data, when a set is first used.
 */
void epoll_fork_child(void);

/* poll(2) and select(2) when at least one descriptor is accelerated. */
int poll_sockets(struct pollfd *fds, nfds_t n, nsec_t timeout, const sigset_t *mask,
		 fd_lookup_fn lookup);
int select_sockets(int n, fd_set *r, fd_set *w, fd_set *e, nsec_t timeout, const sigset_t *mask,
		   fd_lookup_fn lookup);

#endif
