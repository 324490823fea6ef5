/* SPDX-License-Identifier: BSD-2-Clause */
/* Pacing: limits the rate to SO_MAX_PACING_RATE. */
#include "net/tcp/tcp_internal.h"

uint64_t tcp_pacing(const struct tcp_conn *c)
{
	return c->way & WAY_PACED ? c->rare->pace.rate : 0;
}

void tcp_set_pacing(struct tcp_conn *c, uint64_t rate, uint32_t burst, nsec_t now)
{
	if (rate == tcp_pacing(c) && (!rate || burst == c->rare->pace.burst))
		return;
	c->way &= (uint8_t)~WAY_PACED;
	if (rate && tcp_rare(c)) {
		c->way |= WAY_PACED;
		pace_start(&c->rare->pace, rate, burst, now);
	}
	c->flags &= ~(uint32_t)CONN_PACED;
	if (tcp_synchronized(c) && c->state != TCP_TIME_WAIT)
		tcp_output(c, now);
}

bool tcp_pace_may(struct tcp_conn *c, uint32_t len, nsec_t now)
{
	nsec_t when = pace_when(&c->rare->pace, len + tcp_headers(c));

	if (now >= when)
		return true;
	c->flags |= CONN_PACED;
	if (c->trim_at > when) /* memory is not trimmed while data waits */
		c->trim_at = when;
	return false;
}

void tcp_pace_sent(struct tcp_conn *c, uint32_t len, nsec_t now)
{
	pace_sent(&c->rare->pace, len + tcp_headers(c), now);
}
