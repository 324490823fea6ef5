/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that the program sends to other processes, SCM_RIGHTS of unix(7).
 *
 * What travels is the twin.  A connection stays here meanwhile, on its way to somebody, and
 * the twin bears a mark: who receives it, and has the library, calls this process at an
 * abstract address made of a key in the mark, and has a channel to it from then on, of this
 * connection alone (share.h).  Until then the message counts as a holder: a message that
 * nobody receives, or that is destroyed unread, is over when the queue that it was put in is
 * empty.  Other sockets are left to the kernel before they are sent; a listener stops receiving
 * first, and the call sleeps for 20 ms to half a second until its handshakes are over.
 *
 * Role		app, no ring held.
 * Errors	-errno.
 */
#ifndef SOCK_SHARE_PASS_H
#define SOCK_SHARE_PASS_H

#include "sock/core/sock.h"

/*
 * A message that will be sent by the socket way, a descriptor (-1: nobody knows where to),
 * has it.  ticket: of the message, see pass_ticket().  0: it is the kernel's; 1: it is on its
 * way, pass_done() has to follow; -EBUSY: it has, or other processes hold, what the kernel
 * does not know of; -EREMOTE: a connection, but not everybody there has the library; -EAGAIN:
 * from within another call.
 */
int sock_pass(struct sock_ref ref, int unix_fd, uint64_t ticket);

/* The first of n numbers in a row, each for a message. */
uint64_t pass_ticket(unsigned n);

/* The message was sent, or it was not. */
void pass_done(uint64_t ticket, bool sent);

/*
 * fd has just been received, and is nothing of ours so far.  The socket that it is a name of,
 * with a twin of fd itself or another one; ref.sk NULL: the kernel's.  peek: by MSG_PEEK.
 */
struct sock_ref pass_take(int fd, bool peek);

/*
 * Has everybody who can receive from the other end of this unix(7) socket the library, this
 * user, and our network?  Looks through the processes of the user now and then.
 */
bool pass_peer_is_ours(int unix_fd);

#endif
