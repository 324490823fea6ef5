/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows with several receivers, called members (SO_REUSEPORT, SO_REUSEADDR of datagram sockets,
 * sockets that several processes inherited): which member receives from which senders.
 *
 * Of all members, those of the highest rank receive.  Among these, the latest decides: if it
 * spreads, all members that spread receive an equal part of the senders; else it receives from
 * all senders.  Linux chooses in the same way among the sockets of one port.
 *
 * A hash gives each sender a place in a table (reuseport_hash.h), and the table names a member
 * for each place.  When a member joins or leaves, as few senders as possible change members.
 *
 * Role		pure; a thread that may write the memory.
 * Ordering	a byte of the table is stored as a whole: a reader finds the new member
 *		of the place, or the one before.
 */
#ifndef RING_REUSEPORT_H
#define RING_REUSEPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/reuseport_hash.h"

struct reuseport_member {
	uint32_t seq;  /* atomic; higher for later members; 0: there is no member here */
	uint16_t slot; /* set by the port: where the frames go */
	uint8_t rank;
	uint8_t spread;
};

struct reuseport_members {
	struct reuseport_member at[REUSEPORT_MEMBERS];
};

/* One member of a flow: what its owner asks for, and where the port has put it. */
struct flow_share {
	/* set by the flow's owner before it joins */
	uint8_t rank; /* members of the highest rank receive */
	bool spread;  /* receives a part of the senders; else the latest member receives all */
	/* set by the port while it is a member */
	uint8_t member; /* its number among the members */
	uint16_t at;	/* the shared flow's number in the port */
};

/* Adds a member, the latest.  Returns its number, or -1: there are REUSEPORT_MEMBERS. */
int reuseport_add(struct reuseport_members *members, const struct flow_share *share, unsigned slot);

/* The members that receive: bit i for member i. */
uint64_t reuseport_receivers(const struct reuseport_members *members);

/* Divides the places among the receivers; their numbers of places differ by one at most. */
void reuseport_balance(uint8_t buckets[REUSEPORT_BUCKETS], uint64_t receivers);

#endif
