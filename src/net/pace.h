/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pacing: a token bucket, which limits the rate at which a socket sends and what it sends at
 * once.
 *
 * Role		pure; whoever holds the socket.  Embedded in its owner.
 * Clock	callers pass the time.
 *
 * A full bucket has ->burst bytes.  Bytes are those of IP packets, with headers.  A packet that
 * is longer than the burst leaves when the bucket is full.  With a burst of 0 a packet may leave
 * PACE_EARLY before its time, and what was missed by PACE_LATE at most is sent late: a thread
 * that waits for a processor wakes late, often by one or two time slices, and the rate is
 * reached on a busy machine, too.
 */
#ifndef NET_PACE_H
#define NET_PACE_H

#include "base/clock.h"

#define PACE_EARLY (1 * NSEC_PER_MSEC) /* the resolution of timers */
#define PACE_LATE (8 * NSEC_PER_MSEC)

struct pace {
	uint64_t rate; /* bytes per second; 0: no limit */
	nsec_t at;     /* when what was sent would have been sent at exactly this rate */
	uint32_t burst;
};

/*
 * The burst in bytes for max_burst_sz and typical_pkt_sz of struct vma_rate_limit_t: no less than
 * one packet, and no less than the rate brings in one tick of the timers (WHEEL_TICK), without
 * which the rate could not be reached.  0 if max_burst_sz is 0.
 */
uint32_t pace_burst(uint64_t rate, uint32_t max_burst, uint32_t packet);

/* From now on; the bucket is as empty as if the rate was reached until now. */
static inline void pace_start(struct pace *pace, uint64_t rate, uint32_t burst, nsec_t now)
{
	*pace = (struct pace){.rate = rate, .at = now, .burst = burst};
}

/* The earliest time for the next packet, of len bytes. */
nsec_t pace_when(const struct pace *pace, uint32_t len);

/* It was sent. */
void pace_sent(struct pace *pace, uint32_t len, nsec_t now);

#endif
