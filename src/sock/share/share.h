/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Process sharing: sockets that several processes hold, after fork(), exec or SCM_RIGHTS.
 *
 * The rules are a pure machine (share_machine.h), the messages a table (message.c), the
 * transport is channel.h; share_sink.c does what the machine decides.
 *
 * One process, the owner, has the connection; in all others the socket is exported.  The
 * first call in one of those requests the connection, and it is transferred there
 * (transfer.h).  The processes form a tree whose edges are channels, one for each fork()
 * with connections.  Each process knows, for each exported socket, in which direction the
 * owner is.  A request goes in that direction, and when the connection arrives the
 * direction is reversed (Raymond, "A tree-based algorithm for distributed mutual
 * exclusion").
 *
 * Channels also tell which process holds a socket: the other end holds what existed at the
 * fork until it says that it, and every process behind it, has closed the socket.  The last
 * close() sends the FIN.  Until then an owner whose program closed the socket keeps it for
 * the others ("kept"); an owner that exits offers it first.  A process that dies without
 * doing so takes its connections with it: the other processes find them reset.  So does one
 * that exits between three or more neighbours, for all but one of them; between two, these
 * become neighbours.
 *
 * Listeners and bound datagram sockets have members instead of an owner
 * (share_machine_member.c).
 *
 * Role		app: share_fetch(), share_ops.  internal thread: share_run().  All
 *		other functions: control lock, no ring held.
 * Progress	the internal threads answer, whatever the programs do.  A connection stays
 *		at least a millisecond.  A process that lost it without having read or
 *		written anything asks for it again after a pause that doubles each time,
 *		so that two processes waiting for one connection do not keep each other
 *		from working.
 */
#ifndef SOCK_SHARE_SHARE_H
#define SOCK_SHARE_SHARE_H

#include "sock/core/kind.h"

/* The calls of an exported socket: each one fetches it first. */
extern const struct sock_ops share_ops, share_listen_ops, share_udp_ops;

/*
 * app, no ring held: requests the connection and waits for it. patience: nsec, 0: no limit.
 * 0: the connection is here, or was a moment ago; -EAGAIN: not within patience, or the
 * control lock cannot be taken; -EINTR; -EBADF: the socket is gone; another error: the
 * connection cannot be imported here.
 */
int share_fetch(struct sock_ref ref, nsec_t patience);

/* any: as share_fetch(), without waiting; the socket's events tell when it has arrived. */
void share_request(struct sock_ref ref);

/* Other processes may hold sockets up to this number. any, atomic. */
extern uint64_t share_last_id;

/*
 * Control lock, or holder of home: reads O_NONBLOCK of the twin, stores it in so, returns it.
 * share_nonblock_ask(): app, no ring held; 0 or 1, or the error of sock_hold_cold().
 */
bool share_nonblock_now(struct inet_sock *so);
int share_nonblock_ask(struct sock_ref ref);

/* any: is there any channel to another process? */
bool share_is_active(void);

/* ---- control lock ------------------------------------------------------------------ */

/*
 * The program closed the socket. True: other processes hold it or own it; the caller has
 * nothing more to do, and the socket's generation has changed.
 */
bool share_close(struct inet_sock *so);

/*
 * The socket falls back to the kernel in this process and therefore in all of them: a
 * process that went on receiving would take everything from this one. With VERDICT_EXECUTED
 * this process executes a program, and the others keep the socket.
 */
void share_leave(struct inet_sock *so, enum verdict reason);

/*
 * At exit: offers what other processes hold to them, for a second at most, and drops the
 * rest.
 */
void share_exit(void);

/*
 * Control lock, before a child process may use the sockets: datagrams of this host come by the kernel
 * from now on, here and in the child.  What came before can be read here.
 */
void share_stop_local_receiving(void);

/*
 * Around fork(). Makes no channel for a process without sockets that a child could use; then, or
 * without memory, share_fork_prepare() returns false.
 */
bool share_fork_prepare(void);
/* Would a child have a connection of this process? The control lock is held. */
bool share_has_connections(void);
void share_fork_parent(void);
/* In the child: the descriptor that it needs of those that it has from its parent; -1: none. */
int share_fork_child_fd(void);
/*
 * In the child: share_fork_child() before its descriptors are closed,
 * share_fork_child_takes() for each socket (does it stay shared?), share_fork_child_done()
 * when it has rings again, with the number of sockets that were taken.
 */
void share_fork_child(void);
bool share_fork_child_takes(const struct inet_sock *so);
void share_fork_child_done(unsigned sockets);

/* ---- the internal thread ----------------------------------------------------------- */

/* Reads channels and answers. True: there is more to do soon. */
bool share_run(void);

#endif
