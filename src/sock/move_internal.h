/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of moving share: see move.h. */
#ifndef SOCK_MOVE_INTERNAL_H
#define SOCK_MOVE_INTERNAL_H

#include "sock/move.h"

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

/* holder: takes everything that is in the ring's queue. */
void move_drain(struct ring *ring);

#endif
