/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of moving share: see move.h. */
#ifndef SOCK_MOVE_MOVE_INTERNAL_H
#define SOCK_MOVE_MOVE_INTERNAL_H

#include "ring/inbox.h"
#include "sock/core/access.h"
#include "sock/move/move.h"

struct move;

/* One flow of a socket on its way. */
struct move_part {
	union { /* holder of ->to */
		struct flow stand_in;
		struct shared_flow shared_stand_in;
	};
	struct move *move;
	struct flow *flow;	  /* the real one */
	struct sock_flow *listed; /* which it is of; NULL: a connection's own */
	struct ring *from, *to;
	bool stays; /* and forwards: ->to is ->from */
	bool ended; /* a new connection of its pair has taken it off: it does not arrive */
	/* holder of ->to */
	struct pkt *head, *tail; /* what arrived since STEER, or LEAVE when it stays */
	uint32_t held;		 /* bytes of it */
};

/*
 * A move under way.
 *
 * Role		control lock, but for parts (holder of their rings) and for
 *		ARRIVE (holder of ->to).
 * Lifetime	from PREPARE until the internal thread has seen that it is over.
 */
struct move {
	struct list link; /* internal thread */
	struct inbox_item arrive;
	struct inet_sock *so;
	uint32_t gen;		/* any, atomic; control lock to write */
	struct ring *from, *to; /* home */
	uint64_t key;
	nsec_t began;
	bool over;
	bool closed; /* by the program: only the holder of its home knows whether it lives */
	bool has_dst;
	struct dst_found found; /* where it sends to, of a connected socket */
	unsigned n_parts;
	struct move_part parts[];
};

static inline void move_count(unsigned *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* control lock, no ring held: can what req asks for be done now, and has it an effect? */
bool move_is_possible(const struct move_request *req);

/* ---- move_tx.c: sending --------------------------------------------------------------------- */

#define MOVE_TX_RINGS_MAX 16u /* destinations of one socket that are moved ahead */

/* internal thread, control lock */
void move_start_tx(const struct move_request *req);
/* holder of home: the rings its destinations are on. */
unsigned move_tx_rings(struct inet_sock *so, struct ring **rings);
/*
 * Control lock; puts the references.  What a socket had posted to the rings it sent by goes
 * out before what it sends by others: a datagram that has to find its way anew waits for
 * the control lock.
 */
void move_drain_tx(struct ring **rings, unsigned n);

/* ---- move_flow.c: flows on their way ------------------------------------------------------ */

/* PREPARE and STEER of one part.  0, or -errno: it stays where it is. */
int move_part_steer(struct move_part *part);
/*
 * Instead: it forwards to home, here as before.  It makes way for its stand-in while
 * home changes, or what it forwards to the new one would overtake what is still on
 * its way to the old one.
 */
void move_part_stay(struct move_part *part);
/* holder of ->to: STEER is undone, or the socket ended. */
void move_part_drop(struct move_part *part);
/* holder of ->from, which is drained: takes the flow off it. */
void move_part_leave(struct move_part *part);
/* holder of ->to */
void move_part_arrive(struct move_part *part);

#endif
