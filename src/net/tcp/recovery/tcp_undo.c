/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nothing was lost after all: what was sent again has arrived twice (D-SACK, RFC
 * 3708), or an acknowledgement answers what was sent first (RFC 3522, by
 * timestamps; RFC 5682, F-RTO, by what it acknowledges).  The congestion window is
 * as before then.
 */
#include "net/tcp/tcp_internal.h"

void tcp_undo_begin(struct tcp_conn *c)
{
	struct tcp_flight *f = c->flight;

	f->before = c->cc;
	f->can_undo = true;
	f->resent = false;
	f->undo_una = c->snd_una;
	f->undo_rtx = 0;
	f->undo_end = c->snd_nxt;
	f->frto = FRTO_OFF;
}

void tcp_undo_resent(struct tcp_conn *c, nsec_t now)
{
	struct tcp_flight *f = c->flight;

	if (!f->resent) {
		f->resent = true;
		f->echo = tcp_ts_now(c, now);
	}
	f->undo_rtx++;
}

/* RFC 5682 section 3; as Linux, what was never sent again decides at once with SACK. */
static bool frto(struct tcp_conn *c, const struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;
	bool second = f->frto == FRTO_SECOND;

	if (f->frto == FRTO_OFF || c->recovery != TCP_RECOVERY_TIMEOUT)
		return false;
	if (news->clean && (second || (c->flags & CONN_SACK)))
		return true;
	f->frto = FRTO_OFF;
	if (second) { /* step 3a: what went instead was in vain */
		c->cc.cwnd = max_u32(c->cc.cwnd, 3 * c->cc.mss);
		c->flags |= CONN_RTX_NOW;
		return false;
	}
	if (news->advanced && seq_lt(c->snd_una, c->recover) && tcp_unsent(c) &&
	    seq_lt(c->snd_nxt, c->snd_una + c->snd_wnd))
		f->frto = FRTO_SECOND; /* step 2b: new data instead */
	return false;
}

static bool nothing_was_lost(struct tcp_conn *c, const struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;

	if (!f->can_undo || !f->resent)
		return false;
	if (news->advanced && news->echo_age && seq_lt(news->tsecr, f->echo))
		return true;
	if (news->dsack && f->undo_rtx == 0)
		return true;
	return frto(c, news);
}

void tcp_undo_acked(struct tcp_conn *c, const struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;
	uint32_t cwnd = c->cc.cwnd;

	if (!nothing_was_lost(c, news))
		return;
	f->can_undo = false;
	f->frto = FRTO_OFF;
	if (c->recovery == TCP_RECOVERY_FAST)
		f->reordered = true;
	if (f->before.ops == c->cc.ops) {
		c->cc = f->before;
		c->cc.cwnd = max_u32(c->cc.cwnd, cwnd);
		tcp_cc_set_mss(&c->cc, c->mss); /* the path may carry more now, or less */
	}
	tcp_flight_find(f);
	f->dup_bytes = 0;
	c->dupacks = 0;
	c->recovery = TCP_RECOVERY_NONE;
	c->flags &= ~(uint32_t)CONN_RTX_NOW;
	c->flags |= CONN_OUTPUT;
	c->undone++;
}
