/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Quarantine: ignores the late frames of a connection's flow.
 *
 * When a connection has left its ring, for another ring or another process, a quarantine
 * replaces its flow.  Frames that the port steered here before must reach neither a listener
 * nor the kernel, which would reset the connection.  They are dropped, or forwarded to the
 * connection.
 *
 * Role		the holder of the ring.
 * Lifetime	from quarantine_create() until its time is over, when it removes its flow and
 *		frees itself.  From quarantine_begin() on it keeps the ring open.
 */
#ifndef SOCK_CORE_QUARANTINE_H
#define SOCK_CORE_QUARANTINE_H

#include "ring/ring.h"

#define QUARANTINE_TIME (500 * NSEC_PER_MSEC) /* frames that were steered here may come so late */
#define QUARANTINE_MAX (4 * QUARANTINE_TIME) /* ... of a connection that no process has taken yet */
#define QUARANTINE_LATE_MAX 256u /* frames that are forwarded; the peer sends the others again */

struct quarantine;

/* Forwards a copy of pkt.  False: no memory. */
typedef bool (*quarantine_fn)(uint64_t channel, uint64_t id, const struct pkt *pkt);

/* NULL: no memory.  Late frames are dropped, unless quarantine_forward() is called. */
struct quarantine *quarantine_create(struct ring *ring);
/* Frees a quarantine that has not begun. */
void quarantine_free(struct quarantine *quarantine);
/* Late frames are passed to forward(), with these two numbers. */
void quarantine_forward(struct quarantine *quarantine, quarantine_fn forward, uint64_t channel,
			uint64_t id);
/*
 * Replaces flow, which is listed on the ring, for QUARANTINE_TIME; one that forwards, for QUARANTINE_MAX at most, until
 * another process has taken it.  The port goes on steering the frames of flow here until then; of a card, until this
 * ring sees that another process has a rule for it, or to the end.
 */
void quarantine_begin(struct quarantine *quarantine, struct flow *flow);

/*
 * Replaces flow, which is listed on ring, for this time, and takes it off the ring.  Late
 * frames are dropped.  False: no memory, and flow is unchanged.
 */
bool quarantine_replace(struct ring *ring, struct flow *flow, nsec_t time);

#endif
