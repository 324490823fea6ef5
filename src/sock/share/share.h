/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that have a connection in common, after fork().
 *
 * One of them has the connection, its owner; to the others the socket is away. The first
 * call in one of those asks for it, and it travels there (transfer.h). The processes form
 * a tree, whose edges are channels, one for each fork() with connections. Each process
 * knows of each socket that is away in which direction the owner is; who asks, asks in
 * that direction, and when the connection comes it has turned round (Raymond, "A
 * tree-based algorithm for distributed mutual exclusion").
 *
 * Who holds a socket is known by channels, too: what existed at the fork is held at the
 * other end until that end says that it was closed there, and by all behind it. The last
 * one's close() sends the FIN. Until then an owner whose program closed the socket keeps
 * it for the others; one that exits hands it over first. A process that died without
 * doing so takes what it had with it: a reset, for the others.
 *
 * Role		app: share_fetch(), share_ops. internal thread: share_run(). The
 *		others: control lock, no ring held.
 * Progress	answers come from the internal threads, whatever the programs do. A
 *		connection stays a millisecond, and what was taken from a process
 *		that waits for it and has got nothing by it is asked back later and
 *		later: two that wait for one connection do not keep each other from
 *		work.
 */
#ifndef SOCK_SHARE_SHARE_H
#define SOCK_SHARE_SHARE_H

#include "sock/core/kind.h"

/* Calls on a socket that is away: they fetch it. */
extern const struct sock_ops share_ops, share_listen_ops, share_udp_ops;

/*
 * App, no ring held: has the connection brought here. 0: it is here, or was just now;
 * -EAGAIN: not within patience (0: for ever); -EINTR; -EBADF; another error: it cannot
 * come here.
 */
int share_fetch(struct sock_ref ref, nsec_t patience);

/* Any: as above, and does not wait. The socket's events will tell. */
void share_request(struct sock_ref ref);

/* Sockets up to this number may be held by other processes; any, atomic. */
extern uint64_t share_last_id;

bool share_nonblock_now(struct inet_sock *so);

/*
 * App, about to wait: O_NONBLOCK is of the file, which other processes may have changed.
 */
static inline bool share_nonblock(struct inet_sock *so)
{
	uint64_t shared = __atomic_load_n(&sock_shared_id, __ATOMIC_RELAXED);

	return __builtin_expect(so->id <= shared, 0) && share_nonblock_now(so);
}

/* Are there others at all? */
bool share_is_active(void);

/* ---- control lock --------------------------------------------------------------------- */

/*
 * The program closed it. True: others hold it, or have it; all that is to be done is done,
 * its generation has changed.
 */
bool share_close(struct inet_sock *so);

/*
 * It goes to the kernel here, and so in all processes: another one that received would take
 * everything away from this one. Not where this one executes a program: the others go on.
 */
void share_leave(struct inet_sock *so, enum verdict reason);

/* At exit: what others hold goes to them, bounded in time. Nothing is kept any more. */
void share_exit(void);

/* Around fork(): nothing is made for a process without connections. */
void share_fork_prepare(void);
void share_fork_parent(void);
/* In the child, before its descriptors are closed; and when it has rings again. */
void share_fork_child(void);
bool share_fork_child_takes(const struct inet_sock *so);
void share_fork_child_done(unsigned sockets);

/* ---- the internal thread --------------------------------------------------------------- */

/* Reads channels, answers. True: there is more to do soon. */
bool share_run(void);

#endif
