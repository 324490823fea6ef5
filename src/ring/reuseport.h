/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows that several sockets receive (SO_REUSEPORT, SO_REUSEADDR of datagram sockets,
 * sockets that processes inherited): who of them gets which senders.
 *
 * Of all members, those of the highest rank receive.  If the one that came last of them
 * spreads, all that spread get their part, else it gets everything: so Linux chooses
 * among sockets of one port.
 *
 * A sender has a place in a table (reuseport_hash.h), and the table names the member.  When
 * a member comes or goes, no more senders change hands than have to.
 *
 * Role		pure; whoever may write the memory.
 * Ordering	a byte of the table is stored as a whole: a reader finds who has
 *		the place, or who had it.
 */
#ifndef RING_REUSEPORT_H
#define RING_REUSEPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/reuseport_hash.h"

struct reuseport_member {
	uint32_t seq;  /* who came later has a higher one; 0: nobody */
	uint16_t slot; /* the port's: where its frames go */
	uint8_t rank;
	uint8_t spread;
};

struct reuseport_members {
	struct reuseport_member at[REUSEPORT_MEMBERS];
};

/* A member's part in a flow: what it asks for, and where the port has put it. */
struct flow_share {
	/* set by the owner, before it joins */
	uint8_t rank; /* SHARE_*: who is bound more closely comes first */
	bool spread;  /* takes its part; else the latest takes all */
	/* the port's, while it is a member */
	uint8_t member;
	uint16_t at;
};

#define SHARE_ADDRESS 2 /* bound to the address, not to any */
#define SHARE_DEVICE 1	/* bound to the interface */

/* Takes a place, as the latest; its number, or -1: there is none. */
int reuseport_add(struct reuseport_members *members, const struct flow_share *share, unsigned slot);

/* Bit i: member i receives. */
uint64_t reuseport_receivers(const struct reuseport_members *members);

/* Every receiver has as many places as another one, or one more. */
void reuseport_balance(uint8_t buckets[REUSEPORT_BUCKETS], uint64_t receivers);

#endif
