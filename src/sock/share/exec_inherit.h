/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that go through exec: they are away, at our parent's, and the next image
 * asks for them by the channel we have to him.  It says first what it has; what else we
 * held is closed, as far as others are concerned.
 *
 * Role		app, no ring held. In the old image: exec_inherit_begin(), then exec_inherit_id() of
 *		each socket, then exec; in the new one, before there is any socket:
 *		exec_inherit_open(), exec_inherit_add() of each, exec_inherit_done().
 * Lifetime	from exec_inherit_begin() to exec or exec_inherit_undo() no message is read here.
 *
 * What is not away at the parent's by then, and could not be given back to him, goes to the
 * kernel: exec_inherit_leave().
 */
#ifndef SOCK_SHARE_EXEC_INHERIT_H
#define SOCK_SHARE_EXEC_INHERIT_H

#include "sock/core/sock.h"

#define EXEC_INHERIT_ID_MAX (1ull << 62)

struct exec_channel {
	int fd; /* of this process, inheritable */
	uint64_t last_id;
};

/* False: there is nothing to go through exec. Waits for a second at most. */
bool exec_inherit_begin(struct exec_channel *ch);
/* Its number in both images; 0: it does not go through. */
uint64_t exec_inherit_id(struct sock_ref ref);
/*
 * What is here and does not go through is the kernel's from here on, whether exec succeeds or not.
 * carried: something does go through; else the library has come to its end in this process.
 */
void exec_inherit_leave(bool carried);
/* It comes here, if it is a connection that is away; waits for a second at most. */
void exec_inherit_fetch(struct sock_ref ref);
/* exec failed. */
void exec_inherit_undo(void);

/* Has this process what a child could use? */
bool exec_inherit_any(void);
/*
 * A child that executes a program at once, without fork(): ch is its end of a channel, hidden, and
 * the caller's, who closes it when the child has it. False: there is nothing, or no memory.
 */
bool exec_inherit_lend(struct exec_channel *ch);
/* As exec_inherit_id(), for that child. */
uint64_t exec_inherit_lent_id(struct sock_ref ref);

/* fd is a socket, ours from here on. False: no memory. */
bool exec_inherit_open(const struct exec_channel *ch);
/*
 * fd is a TCP or UDP socket of the program. The one that has this number, made if it is the first
 * time; ref.sk NULL: the number is wrong, or there is no memory.
 */
struct sock_ref exec_inherit_add(int fd, bool udp, uint64_t id);
void exec_inherit_done(void);

#endif
