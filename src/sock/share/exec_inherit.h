/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inherited sockets: what a program that is executed keeps of the sockets of its process.
 *
 * Before exec the sockets are exported to the parent, and the next image requests them over
 * the same channel.  The new image first names the sockets that it has; all others that
 * the process held are closed as far as other processes are concerned.  What is not
 * exported to the parent by then, and could not be given back to it, falls back to the
 * kernel: exec_inherit_leave(); for local connections see exec_local.h.
 *
 * Role		app, no ring held.  In the old image: exec_inherit_begin(), then
 *		exec_inherit_id() for each socket, then exec.  In the new image, before it
 *		has any socket: exec_inherit_open(), exec_inherit_add() for each socket,
 *		exec_inherit_done().
 * Lifetime	from exec_inherit_begin() until exec or exec_inherit_undo() this process
 *		reads no messages.
 */
#ifndef SOCK_SHARE_EXEC_INHERIT_H
#define SOCK_SHARE_EXEC_INHERIT_H

#include "sock/core/sock.h"

#define EXEC_INHERIT_ID_MAX (1ull << 62)

struct exec_channel {
	int fd; /* descriptor of this process, not close-on-exec */
	uint64_t last_id;
};

/*
 * Old image: gives back to the parent what it holds, too, and local connections to other processes
 * that hold them. Blocks for a second at most. False: nothing can be inherited by a channel.
 */
bool exec_inherit_begin(struct exec_channel *ch);
/* The number of the socket in both images; 0: it is not inherited. */
uint64_t exec_inherit_id(struct sock_ref ref);
/*
 * Sockets that are here and not inherited fall back to the kernel, whether exec succeeds or
 * not; local connections by exec_local_leave(). inherits: some socket is inherited; if not, the
 * library shuts down in this process, in order. What was closed before ends first, for 2 seconds at
 * most.
 */
void exec_inherit_leave(bool inherits);
/* Fetches the connection if it is exported. Blocks for a second at most. */
void exec_inherit_fetch(struct sock_ref ref);
/* exec failed: reads messages again. */
void exec_inherit_undo(void);

/*
 * Old image: as exec_inherit_begin(), exec_inherit_id(), exec_inherit_undo(), in a forked child
 * before sock_fork_child(), with one thread. False, too: sock_fork_child() must come first.
 */
bool exec_inherit_begin_waiting(struct exec_channel *ch);
uint64_t exec_inherit_waiting_id(struct sock_ref ref);
void exec_inherit_undo_waiting(void);

/*
 * Has this process a socket that a child could use?  Before a child executes a program, whatever
 * that is: datagrams of this host come by the kernel from now on.
 */
bool exec_inherit_any(void);
/*
 * For a child that executes a program at once, without fork(): makes a channel. ch->fd is
 * the child's end, hidden; the caller closes it when the child has it. False: there is
 * nothing to inherit, or no memory.
 */
bool exec_inherit_lend(struct exec_channel *ch);
/* As exec_inherit_id(), for that child. */
uint64_t exec_inherit_lent_id(struct sock_ref ref);

/* New image: opens the channel. Takes ch->fd over. False: no memory. */
bool exec_inherit_open(const struct exec_channel *ch);
/*
 * New image: fd is a TCP or UDP socket of the program. Returns the socket of this number,
 * made at the first call with it; ref.sk NULL: the number is wrong, or there is no memory.
 */
struct sock_ref exec_inherit_add(int fd, bool udp, uint64_t id);
/* New image: every inherited socket was added. Tells the parent so. */
void exec_inherit_done(void);

#endif
