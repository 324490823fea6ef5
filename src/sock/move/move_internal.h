/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of moves share: see move.h. */
#ifndef SOCK_MOVE_MOVE_INTERNAL_H
#define SOCK_MOVE_MOVE_INTERNAL_H

#include "ring/inbox.h"
#include "sock/core/access.h"
#include "sock/move/move.h"

struct move;

/* One flow of a moving socket. */
struct move_part {
	union { /* holder of ->to */
		struct flow stand_in;
		struct shared_flow shared_stand_in;
	};
	struct move *move;
	struct flow *flow;	  /* the flow that moves */
	struct sock_flow *listed; /* the one that contains it; NULL: a connection's own */
	struct ring *from, *to;
	bool stays; /* it does not move but forwards: ->to is ->from */
	bool ended; /* removed from ->from by a new connection: it does not arrive */
	/* holder of ->from at LEAVE, then of ->to */
	struct pkt *unchecked; /* they waited on ->from until their senders were checked */
	/* holder of ->to */
	struct pkt *head, *tail; /* packets since STEER, or since LEAVE if it stays */
	uint32_t held;		 /* bytes in that list */
};

/*
 * A move under way.
 *
 * Role		control lock, except for parts (holder of their rings) and ARRIVE (holder
 *		of ->to).
 * Lifetime	from PREPARE until the internal thread has seen that it is over.
 */
struct move {
	struct list link; /* internal thread */
	struct inbox_item arrive;
	struct inet_sock *so;
	uint32_t gen;		/* any, atomic; control lock to write */
	struct ring *from, *to; /* the socket's home */
	uint64_t key;
	nsec_t began;
	bool over;
	bool closed; /* by the program; only the holder of home knows if it still exists */
	bool has_dst;
	struct dst_found found; /* route of a connected socket from the new ring */
	unsigned n_parts;
	struct move_part parts[];
};

static inline void move_count(unsigned *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* control lock, no ring held: is the request possible now, and would it change anything? */
bool move_is_possible(const struct move_request *req);

/* ---- move_tx.c: the rings that a socket sends by ------------------------------------ */

#define MOVE_TX_RINGS_MAX 16u /* destinations of one socket whose rings are opened in advance */

/* internal thread, control lock */
void move_start_tx(const struct move_request *req);
/* holder of home: fills in the rings of its destinations and returns their number. */
unsigned move_tx_rings(struct inet_sock *so, struct ring **rings);
/*
 * Control lock; puts the references. Sends the datagrams that the socket had posted to the rings
 * it sent by, before it sends anything by others: a datagram that must find its route again waits
 * for the control lock.
 */
void move_drain_tx(struct ring **rings, unsigned n);

/* ---- move_flow.c: the flows of a moving socket -------------------------------------- */

/* PREPARE and STEER of one part. 0, or -errno: the flow stays where it is. */
int move_part_steer(struct move_part *part);
/*
 * The alternative to move_part_steer(): the flow stays and forwards to home, on this ring as
 * before. A stand-in replaces it while home changes; otherwise what it forwards to the new home
 * would overtake what is still on its way to the old one.
 */
void move_part_stay(struct move_part *part);
/*
 * holder of ->to: removes the stand-in and drops what it kept, because STEER failed or the socket
 * ended.
 */
void move_part_drop(struct move_part *part);
/* holder of ->from, which is drained: removes the flow from it. */
void move_part_leave(struct move_part *part);
/* holder of ->to: the flow replaces its stand-in and gets the packets that it kept. */
void move_part_arrive(struct move_part *part);

#endif
