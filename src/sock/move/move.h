/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets follow the threads that use them (core/access.h): how a socket moves to
 * another ring without losing, repeating or reordering anything.
 *
 * Role		sock_moves_run(): the internal thread.  The others: the control
 *		lock, no ring held.
 *
 * A move, made by the internal thread (tests/model/move.pml has the same names):
 *
 *	PREPARE	a stand-in of each flow is listed on the new ring; it keeps what
 *		arrives there, for that is younger than what may still reach the
 *		old ring.  (Where a flow cannot move, and forwards, it makes way
 *		for a stand-in on its own ring from LEAVE to ARRIVE.)
 *	STEER	the port sends the flow's frames to the new ring.
 *	BARRIER	the port says that none is on its way to the old ring any more.
 *		The control lock is not held meanwhile.
 *	LEAVE	the old ring is held: its inbox and its queue are drained into
 *		the socket, which is taken off it.  ARRIVE is posted to the new
 *		ring, then home changes, unless ARRIVE came first: who finds the
 *		new home and holds it has run ARRIVE.
 *	ARRIVE	holder of the new ring: home changes, if it did not yet; the
 *		flows take the places of their stand-ins, what was parked is
 *		delivered, timers are armed.
 */
#ifndef SOCK_MOVE_MOVE_H
#define SOCK_MOVE_MOVE_H

#include "sock/core/inet_sock.h"

/* How many moves there were; any, atomic. */
struct sock_move_stats {
	unsigned started, finished, abandoned;
};
extern struct sock_move_stats sock_moves_rx, sock_moves_tx;

/*
 * Starts and finishes moves.  True: there is more to do soon.
 */
bool sock_moves_run(void);

/*
 * Before flows of the socket change: a move that is under way is brought to its end
 * (it may sleep for a barrier), or, when the socket ends, is called off.
 */
void sock_move_settle(struct inet_sock *so);
void sock_move_cancel(struct inet_sock *so);
/* The internal thread, control lock: the same, of all there are. */
void sock_moves_settle(void);
/* Control lock, holding home: the program closed it; a move goes on under its new generation. */
void sock_move_closed(struct inet_sock *so);

/* In a forked child. */
void sock_moves_forget(void);

#endif
