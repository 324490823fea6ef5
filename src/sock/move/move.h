/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moves: a socket moves to the ring of the threads that use it (core/access.h), and nothing is
 * lost, repeated or reordered.
 *
 * Role		sock_moves_run(): the internal thread.  All other functions: the control
 *		lock, no ring held, unless said otherwise.
 *
 * The steps of a move, by the internal thread (tests/model/move.pml uses the same names):
 *
 *	PREPARE	a stand-in of each flow is listed on the new ring.  It keeps what arrives
 *		there, because that is younger than what may still reach the old ring.
 *		(A flow that cannot move forwards its packets; a stand-in on its own ring
 *		replaces it from LEAVE to ARRIVE.)
 *	STEER	the port steers the flow's frames to the new ring.
 *	BARRIER	the port reports that no frame is on its way to the old ring any more.
 *		The control lock is not held meanwhile.
 *	LEAVE	the old ring is held: its inbox and its queue are drained into the
 *		socket, which is detached from it.  ARRIVE is posted to the new ring,
 *		then home changes, unless ARRIVE ran first: a thread that finds the new
 *		home and holds it has run ARRIVE.
 *	ARRIVE	holder of the new ring: home changes, if it has not yet; the flows
 *		replace their stand-ins, which deliver the packets that they kept;
 *		timers are armed.
 */
#ifndef SOCK_MOVE_MOVE_H
#define SOCK_MOVE_MOVE_H

#include "sock/core/inet_sock.h"

/* Number of moves; any, atomic. */
struct sock_move_stats {
	unsigned started, finished, abandoned;
};
extern struct sock_move_stats sock_moves_rx, sock_moves_tx;

/* Starts and finishes moves. True: there is more to do soon. */
bool sock_moves_run(void);

/*
 * To be called before flows of the socket change. sock_move_settle() finishes a move that is
 * under way and may block for a barrier; sock_move_cancel(), for a socket that ends, aborts it.
 */
void sock_move_settle(struct inet_sock *so);
void sock_move_cancel(struct inet_sock *so);
/* The internal thread, control lock: finishes all moves that are under way. */
void sock_moves_settle(void);
/*
 * Control lock, holder of home: the program closed the connection; its move continues under the
 * new generation.
 */
void sock_move_closed(struct inet_sock *so);

/* In a forked child: forgets all moves. */
void sock_moves_forget(void);

#endif
