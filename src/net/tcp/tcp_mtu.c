/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Path MTU discovery: from ICMP messages (RFC 1191), and from unanswered retransmissions if there
 * are none (RFC 4821, as the fallback for black holes).
 */
#include "net/tcp/tcp_internal.h"

#define MTU_LEAST 552u /* as Linux: limits the damage of a forged message */
#define PROBE_EVERY (60 * NSEC_PER_SEC)
#define GAIN_MIN 64u /* a gain of fewer bytes is not worth another probe */

/* Every IPv6 path takes packets of 1280 bytes: RFC 8200 section 5. */
static uint32_t mtu_least(const struct tcp_conn *c)
{
	return c->ip6 ? IP6_MTU_MIN : MTU_LEAST;
}

static void set_path_mss(struct tcp_conn *c, uint32_t path_mss)
{
	c->path_mss = (uint16_t)path_mss;
	c->mss = c->path_mss;
	if (c->flags & CONN_TIMESTAMPS)
		c->mss = (uint16_t)(c->mss - TCP_OPT_TIMESTAMPS);
	tcp_cc_set_mss(&c->cc, c->mss);
}

static void set_hole(struct tcp_conn *c, uint32_t hole_mss)
{
	c->hole_mss = (uint16_t)(hole_mss && tcp_rare(c)
					 ? hole_mss
					 : 0); /* without memory the MSS stays small */
	c->way &= (uint8_t)~WAY_HOLE;
	if (c->hole_mss)
		c->way |= WAY_HOLE;
}

/*
 * The segments in flight are too large: retransmits them in smaller segments, which is no sign of
 * congestion.
 */
static void resend_all(struct tcp_conn *c)
{
	struct tcp_flight *f = c->flight;

	if (!f || !f->n)
		return;
	tcp_flight_lose_all(f);
	f->can_undo = false;
	f->frto = FRTO_OFF;
	f->tlp = TLP_NONE;
	f->reo_wait = 0;
	f->dup_bytes = 0;
	c->recovery = TCP_RECOVERY_TIMEOUT;
	c->recover = c->snd_nxt;
	c->dupacks = 0;
	c->trouble = true;
	c->flags |= CONN_RTX_NOW | CONN_OUTPUT;
}

bool tcp_icmp_is_ours(const struct tcp_conn *c, uint32_t seq)
{
	return c->state != TCP_CLOSED && seq - c->snd_una < c->snd_nxt - c->snd_una;
}

void tcp_path_mtu(struct tcp_conn *c, uint32_t mtu, nsec_t now)
{
	uint32_t was = c->path_mss, is = max_u32(mtu, mtu_least(c)) - tcp_headers(c);

	c->route_mss = (uint16_t)min_u32(is, UINT16_MAX);
	if (!tcp_synchronized(c) || c->state == TCP_TIME_WAIT)
		return; /* it is applied when the handshake completes */
	is = min_u32(is, c->agreed_mss);
	if (is == was)
		return;
	c->flags &= ~(uint32_t)CONN_MTU_PROBE;
	set_hole(c, 0);
	set_path_mss(c, is);
	/* If all bytes fit into one segment, none of the segments was too large. */
	if (is < was && c->snd_nxt - c->snd_una > c->mss) {
		resend_all(c);
		tcp_output(c, now);
	}
}

/* RFC 4821 section 7.7: large segments are lost repeatedly. */
void tcp_mtu_black_hole(struct tcp_conn *c, nsec_t now)
{
	static const uint16_t mtus[] = {1024, MTU_LEAST, 256}, mtus6[] = {IP6_MTU_MIN};
	const uint16_t *mtu = c->ip6 ? mtus6 : mtus;
	unsigned n = c->ip6 ? 1 : sizeof(mtus) / sizeof(mtus[0]);

	if (!c->hole_mss && c->path_mss < mtu[0] - tcp_headers(c) + GAIN_MIN)
		return; /* the segments are so small that size is hardly the reason */
	for (unsigned i = 0; i < n; i++) {
		uint32_t size = mtu[i] - tcp_headers(c);

		if (c->path_mss <= size || c->snd_nxt - c->snd_una <= size)
			continue; /* would not change the segments sent */
		if (!c->hole_mss)
			set_hole(c, c->path_mss);
		c->flags &= ~(uint32_t)CONN_MTU_PROBE;
		if (c->rare)
			c->rare->probe_at = now + PROBE_EVERY;
		set_path_mss(c, size);
		return;
	}
}

/* ---- probing for a larger MTU (section 7.4) ------------------------------------------- */

uint32_t tcp_mtu_probe(const struct tcp_conn *c, nsec_t now)
{
	if (now < c->rare->probe_at || c->recovery || (c->flags & CONN_MTU_PROBE))
		return 0;
	return c->hole_mss - (uint32_t)(c->path_mss - c->mss);
}

void tcp_mtu_probe_sent(struct tcp_conn *c)
{
	c->flags |= CONN_MTU_PROBE;
	c->rare->probe_end = c->snd_nxt;
}

void tcp_mtu_probe_acked(struct tcp_conn *c)
{
	c->flags &= ~(uint32_t)CONN_MTU_PROBE;
	set_path_mss(c, c->hole_mss);
	set_hole(c, 0);
}

void tcp_mtu_probe_lost(struct tcp_conn *c, nsec_t now)
{
	uint32_t between = (c->path_mss + (uint32_t)c->hole_mss) / 2;

	c->flags &= ~(uint32_t)CONN_MTU_PROBE;
	c->rare->probe_at = now + PROBE_EVERY;
	set_hole(c, between - c->path_mss < GAIN_MIN ? 0 : between);
}
