/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll, poll and select over accelerated and kernel descriptors together.
 *
 * An epoll set is the program's real kernel set, which keeps the kernel's
 * descriptors with the program's own data, beside an interest list of
 * accelerated sockets here and a second kernel set of their twins.
 *
 * Role		any thread.  An epoll set has a mutex of its own, taken before
 *		a ring is held, never while one is.
 * Errors	-errno.
 */
#ifndef SOCK_WAIT_EPOLL_H
#define SOCK_WAIT_EPOLL_H

#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <poll.h>

#include "sock/core/sock.h"

/* Finds the socket of a descriptor; given by intercept. */
typedef struct sock_ref (*fd_lookup_fn)(int fd);

/* epfd: the kernel's set.  NULL: no memory. */
struct epoll *epoll_create_set(int epfd);
/* The program closed the descriptor the set was known by and has another one. */
void epoll_set_fd(struct epoll *ep, int epfd);
/* The program closed the set's last descriptor. */
void epoll_destroy_set(struct epoll *ep);

/*
 * epoll_ctl(2) for an accelerated socket fd.  A descriptor that is not
 * accelerated is the kernel's: do not call this for it.  SOCK_KERNEL: the socket
 * went to the kernel meanwhile, where the call has to be made.
 */
int epoll_control(struct epoll *ep, int op, int fd, struct sock_ref ref, struct epoll_event *event);

/*
 * No accelerated socket is in it.  epoll_wait_set() makes the kernel's call then,
 * and comes out of it when another thread adds the first one.  So intercept may
 * leave us out only for a timeout of 0.
 */
bool epoll_is_plain(const struct epoll *ep);

/*
 * The program added descriptors of the kernel to the set (delta 1) or took some
 * out (-1).  While there are none, polling rounds spare the system call.
 */
void epoll_note_kernel_fd(struct epoll *ep, int delta);

/*
 * Before the kernel's epoll_ctl(2) on the set: in a forked child, the entries the
 * set had are the kernel's from here on, so that they can be modified there.
 */
void epoll_settle(struct epoll *ep);

/* timeout in ns, NSEC_NEVER: none.  mask: as in epoll_pwait(2), or NULL. */
int epoll_wait_set(struct epoll *ep, struct epoll_event *events, int max, nsec_t timeout,
		   const sigset_t *mask);

/*
 * holder: the socket ends; its watches are dropped from every set and waiter,
 * whose owners are told.  Whoever waits for it looks its descriptor up again.
 */
void epoll_sock_closed(struct sock *sk);

/*
 * The socket goes to the kernel: its entries in every epoll set become kernel
 * entries with the same events and data.  Under the control lock, no ring held.
 */
void epoll_sock_left(struct sock *sk);

/*
 * In a forked child, before anything else: no set has an accelerated socket any
 * more.  The kernel gets them, with events and data, at the first use of a set.
 */
void epoll_fork_child(void);

/* poll(2) and select(2) when at least one descriptor is accelerated. */
int poll_sockets(struct pollfd *fds, nfds_t n, nsec_t timeout, const sigset_t *mask,
		 fd_lookup_fn lookup);
int select_sockets(int n, fd_set *r, fd_set *w, fd_set *e, nsec_t timeout, const sigset_t *mask,
		   fd_lookup_fn lookup);

#endif
