/* SPDX-License-Identifier: BSD-2-Clause */
/* Pacing: limits the rate to SO_MAX_PACING_RATE. */
#include "net/tcp/tcp_internal.h"

#define CREDIT (1 * NSEC_PER_MSEC) /* the resolution of timers */
/* A thread that waits for a processor wakes late, often by one or two time slices.  What it
 * missed is sent then, so that a rate is reached on a busy machine, too; more is forgotten. */
#define LATE (8 * NSEC_PER_MSEC)

uint64_t tcp_pacing(const struct tcp_conn *c)
{
	return c->way & WAY_PACED ? c->rare->pace_rate : 0;
}

void tcp_set_pacing(struct tcp_conn *c, uint64_t bytes_per_sec, nsec_t now)
{
	if (bytes_per_sec == tcp_pacing(c))
		return;
	c->way &= (uint8_t)~WAY_PACED;
	if (bytes_per_sec && tcp_rare(c)) {
		c->way |= WAY_PACED;
		c->rare->pace_rate = bytes_per_sec;
		c->rare->pace_at = now;
	}
	c->flags &= ~(uint32_t)CONN_PACED;
	if (tcp_synchronized(c) && c->state != TCP_TIME_WAIT)
		tcp_output(c, now);
}

bool tcp_pace_may(struct tcp_conn *c, nsec_t now)
{
	if (now >= c->rare->pace_at - CREDIT)
		return true;
	c->flags |= CONN_PACED;
	if (c->trim_at > c->rare->pace_at - CREDIT) /* memory is not trimmed while data waits */
		c->trim_at = c->rare->pace_at - CREDIT;
	return false;
}

void tcp_pace_sent(struct tcp_conn *c, uint32_t len, nsec_t now)
{
	nsec_t from = c->rare->pace_at > now - LATE ? c->rare->pace_at : now - LATE;

	c->rare->pace_at = from + (nsec_t)((len + IP4_HDR + TCP_HDR) * (uint64_t)NSEC_PER_SEC /
					   c->rare->pace_rate);
}
