/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ignores the late frames of a connection's flow.
 *
 * A connection that has left its ring, for another ring or another process, leaves a
 * quarantine in the place of its flow: frames that were steered here before the port
 * heard of it must reach neither a listener nor the kernel, which would reset the
 * connection.  They are dropped, or forwarded to where the connection went.
 *
 * Role		the holder of the ring.
 * Lifetime	from quarantine_create() to the end of its time, when it takes itself off the
 *		ring; it keeps the ring open until then.
 */
#ifndef SOCK_CORE_QUARANTINE_H
#define SOCK_CORE_QUARANTINE_H

#include "ring/ring.h"

#define QUARANTINE_TIME \
	(500 * NSEC_PER_MSEC)	 /* so long frames may still come that were steered here */
#define QUARANTINE_LATE_MAX 256u /* frames that are forwarded; the peer sends the others again */

struct quarantine;

/* Forwards a copy of pkt; false: no memory. */
typedef bool (*quarantine_fn)(uint64_t channel, uint64_t id, const struct pkt *pkt);

/* NULL: no memory.  Drops what comes, unless quarantine_forward() was called. */
struct quarantine *quarantine_create(struct ring *ring);
/* One that has not begun. */
void quarantine_free(struct quarantine *quarantine);
/* Late frames go to forward, with these two numbers. */
void quarantine_forward(struct quarantine *quarantine, quarantine_fn forward, uint64_t channel,
			uint64_t id);
/*
 * Stands in for flow, which is listed on the ring, from now on.  The port goes on steering
 * flow's frames here until another ring takes the flow.
 */
void quarantine_begin(struct quarantine *quarantine, struct flow *flow);

/*
 * Replaces flow, which is listed on ring, for so long; flow is off the ring.  False: no
 * memory, and flow stays.
 */
bool quarantine_replace(struct ring *ring, struct flow *flow, nsec_t time);

#endif
