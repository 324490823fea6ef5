/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local connections of a process that executes a program.
 *
 * The kernel cannot serve them, so the next image goes on with them itself, or, if it does not have
 * the library, a process that is forked for it (intercept/process/relay.h).  In the first case each one
 * that the program has a descriptor of, and no other process holds, is packed, which means exported to
 * nobody (share_machine.h).  The next image inherits the descriptor of what was exported, and
 * imports that at its start; if exec fails, this image does.  One that the program has no
 * descriptor of goes to another process that holds it (exec_inherit_begin()); if there is none it stays
 * here, and its peer knows that it is closed if this process ends (local_move_execs()).
 *
 *	this image				the next image
 *	exec_local_begin()
 *	exec_local_stays() ...
 *	exec_local_pack() ...
 *	exec_local_leave() ...
 *	exec ---------------------------------> exec_local_add() ...
 *	exec_local_undo(), if that fails	exec_local_done()
 *
 * Role		app, no ring held; exec_local_leave(): control lock.
 */
#ifndef SOCK_SHARE_EXEC_LOCAL_H
#define SOCK_SHARE_EXEC_LOCAL_H

#include "sock/core/msg/family.h"
#include "sock/local/local_link.h"

struct inet_sock;

/*
 * Is it a local connection, established, that only another process can go on with, because the program
 * to be executed cannot?  shared: also if other processes hold it.  Not if a process that is forked now
 * could not have it, either.
 */
bool exec_local_needs_relay(struct sock_ref ref, bool shared);
/*
 * Is it a local connection that other processes hold than the parent, and the program or the parent,
 * too?  stays: the program has it.  The next image has no channel to those processes.
 */
bool exec_local_is_shared(struct sock_ref ref, bool stays);
/* A local connection that waits for accept(). */
struct local_waiting {
	int packed; /* for pass_local_take(); an ordinary descriptor */
	struct sock_addr name, peer;
};
/*
 * Of a listener that the kernel serves when the program is executed: stops it for local connections, and
 * takes the oldest one from its queue.  False: there is none.
 */
bool exec_local_take_waiting(struct sock_ref listener, struct local_waiting *w);
/* Has this process changed its user, so that no program that it executes can go on with any? */
bool exec_local_is_over(void);
/*
 * Then: the way that the other process needs (which 1), and one between the two (0), as of
 * local_way_copy(), the caller's.  fd -1: it needs none.
 */
struct local_way exec_local_way(struct sock_ref ref, unsigned which);
/* In the other process, which has begun, before it uses the connections.  Consumes the way, if any. */
void exec_local_take_way(const struct local_way *way);
/* The other process has them. */
void exec_local_close_ways(void);
/* Gives fd, a connection of the kernel and of the same family, the options and the completions of ref. */
void exec_local_copy_options(struct sock_ref ref, int fd);

/* Are there any, or a listener where they may arrive?  If not, the program needs nothing of this. */
bool exec_local_any(void);
/* Is it a local connection, of this process or of one that it was forked from? */
bool exec_local_is_one(struct sock_ref ref);
/* Is any local connection here? */
bool exec_local_begin(void);
/* The program has a descriptor of this socket. */
void exec_local_stays(struct sock_ref ref);
/*
 * If it is a local connection that can go on in the next image: a descriptor, not close-on-exec,
 * that the image needs; the same one at each call.  Else -1.
 */
int exec_local_pack(struct sock_ref ref);
/*
 * so is a local connection that is still here.  inherits: the program has the library, and some
 * socket; else the library shuts down next, in order.  What stays is reset, with a warning, unless
 * other processes hold it; what only connects is left to the kernel.
 */
void exec_local_leave(struct inet_sock *so, bool inherits);
/* exec failed: what was packed is here again. */
void exec_local_undo(void);

/*
 * New image: fd is a TCP socket of the program, packed what exec_local_pack() returned, which is
 * consumed.  Returns the socket, made at the first call for it; ref.sk NULL: packed is something
 * else, or there is no memory.
 */
struct sock_ref exec_local_add(int fd, int packed);
/* New image: all were added. */
void exec_local_done(void);

#endif
