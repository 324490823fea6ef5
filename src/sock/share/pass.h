/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets that the program sends to other processes with SCM_RIGHTS, unix(7).
 *
 * What is sent is the twin.  A connection stays here, in transit, and its twin carries a
 * mark.  A receiver that has the library connects to this process at an abstract address
 * made of a key in the mark; that socket becomes a channel for this connection alone
 * (share.h).  Until then the message counts as a holder of the connection.  A message that
 * nobody receives, or that is destroyed unread, is over when the queue that it was put in
 * has been empty for a while.  Other sockets fall back to the kernel before they are sent.
 * A listener stops receiving first: the call blocks for 20 ms to half a second, until its
 * handshakes are over.
 *
 * Role		app, no ring held.
 * Errors	-errno.
 */
#ifndef SOCK_SHARE_PASS_H
#define SOCK_SHARE_PASS_H

#include "sock/core/sock.h"

/*
 * Prepares a socket for being sent. unix_fd: the socket that will send it, -1: the
 * destination is unknown; ticket: of the message, see pass_ticket(). 0: the kernel serves
 * it; 1: it is in transit, and pass_done() has to follow; -EBUSY: it has unread data, or
 * other processes hold it, and the kernel does not know of that; -EREMOTE: a connection,
 * but not every process at the other end can have it; -EAGAIN: called from within
 * another call; other errors of a twin that cannot be marked, or of missing memory.
 */
int sock_pass(struct sock_ref ref, int unix_fd, uint64_t ticket);

/* The first of n consecutive numbers, one for each message. */
uint64_t pass_ticket(unsigned n);

/* The message of this ticket was sent, or was not. */
void pass_done(uint64_t ticket, bool sent);

/*
 * fd has just been received and is not in the descriptor table. Returns the socket that it
 * names, whose twin is fd or another descriptor; ref.sk NULL: fd is the kernel's. peek:
 * received by MSG_PEEK. May block for some seconds.
 */
struct sock_ref pass_take(int fd, bool peek);

/*
 * Does every process that can receive from the other end of this unix(7) socket have the
 * library, the same user and our network namespace; and (local) VMA_LOCAL=1? Searches the user's
 * processes now and then.
 */
bool pass_peer_is_ours(int unix_fd, bool local);

#endif
