/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reversal of spurious recoveries.  Nothing was lost if the retransmissions were duplicates
 * (D-SACK, RFC 3708), or if an ACK answers the original (RFC 3522, by timestamps; RFC 5682,
 * F-RTO, by what it acknowledges).  Restores the previous congestion window.
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

/*
 * RFC 5682 section 3; as Linux, with SACK an ACK of data that was not retransmitted decides at
 * once.
 */
static bool check_frto(struct tcp_conn *c, const struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;
	bool second = f->frto == FRTO_SECOND;

	if (f->frto == FRTO_OFF || c->recovery != TCP_RECOVERY_TIMEOUT)
		return false;
	if (news->clean && (second || (c->flags & CONN_SACK)))
		return true;
	f->frto = FRTO_OFF;
	if (second) { /* step 3a: the new data did not help */
		c->cc.cwnd = max_u32(c->cc.cwnd, 3 * c->cc.mss);
		c->flags |= CONN_RTX_NOW;
		return false;
	}
	if (news->advanced && seq_lt(c->snd_una, c->recover) && tcp_unsent(c) &&
	    seq_lt(c->snd_nxt, c->snd_una + c->snd_wnd))
		f->frto = FRTO_SECOND; /* step 2b: send new data instead */
	return false;
}

static bool was_spurious(struct tcp_conn *c, const struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;

	if (!f->can_undo || !f->resent)
		return false;
	if (news->advanced && news->echo_age && seq_lt(news->tsecr, f->echo))
		return true;
	if (news->dsack && f->undo_rtx == 0)
		return true;
	return check_frto(c, news);
}

void tcp_undo_acked(struct tcp_conn *c, const struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;
	uint32_t cwnd = c->cc.cwnd;

	if (!was_spurious(c, news))
		return;
	f->can_undo = false;
	f->frto = FRTO_OFF;
	if (c->recovery == TCP_RECOVERY_FAST)
		f->reordered = true;
	if (f->before.ops == c->cc.ops) {
		c->cc = f->before;
		c->cc.cwnd = max_u32(c->cc.cwnd, cwnd);
		tcp_cc_set_mss(&c->cc, c->mss); /* the MSS may have changed */
	}
	tcp_flight_find(f);
	f->dup_bytes = 0;
	c->dupacks = 0;
	c->recovery = TCP_RECOVERY_NONE;
	c->flags &= ~(uint32_t)CONN_RTX_NOW;
	c->flags |= CONN_OUTPUT;
	c->undone++;
	c->ops->event(c, TCP_EVENT_SPURIOUS, 0);
}
