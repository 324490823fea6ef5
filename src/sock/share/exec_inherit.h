/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that go through exec: they are away, at our parent's, and the next image
 * asks for them by the channel we have to him.  It says first what it has; what else we
 * held is closed, as far as others are concerned.
 *
 * Role		app, no ring held. In the old image: carry_begin(), then carry_id() of
 *		each socket, then exec; in the new one, before there is any socket:
 *		carry_open(), carry_add() of each, carry_done().
 * Lifetime	from carry_begin() to exec or carry_undo() no letter is read here.
 *
 * What is not away at the parent's by then, and could not be given back to him, goes to the
 * kernel: carry_leave().
 */
#ifndef SOCK_SHARE_EXEC_INHERIT_H
#define SOCK_SHARE_EXEC_INHERIT_H

#include "sock/core/sock.h"

#define CARRY_ID_MAX (1ull << 62)

struct carry_channel {
	int fd; /* of this process, inheritable */
	uint64_t last_id;
};

/* False: there is nothing to go through exec. Waits for a second at most. */
bool carry_begin(struct carry_channel *ch);
/* Its number in both images; 0: it does not go through. */
uint64_t carry_id(struct sock_ref ref);
/*
 * What is here and does not go through is the kernel's from here on, whether exec succeeds or not.
 * carried: something does go through; else the library has come to its end in this process.
 */
void carry_leave(bool carried);
/* It comes here, if it is a connection that is away; waits for a second at most. */
void carry_fetch(struct sock_ref ref);
/* exec failed. */
void carry_undo(void);

/* Has this process what a child could use? */
bool carry_any(void);
/*
 * A child that executes a program at once, without fork(): ch is its end of a channel, hidden, and
 * the caller's, who closes it when the child has it. False: there is nothing, or no memory.
 */
bool carry_lend(struct carry_channel *ch);
/* As carry_id(), for that child. */
uint64_t carry_lent_id(struct sock_ref ref);

/* fd is a socket, ours from here on. False: no memory. */
bool carry_open(const struct carry_channel *ch);
/*
 * fd is a TCP or UDP socket of the program. The one that has this number, made if it is the first
 * time; ref.sk NULL: the number is wrong, or there is no memory.
 */
struct sock_ref carry_add(int fd, bool udp, uint64_t id);
void carry_done(void);

#endif
