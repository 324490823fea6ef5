/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loss recovery.  Starts when a loss is detected: with SACK by RACK, without it by duplicate ACKs
 * (RFC 5681, RFC 6582), or by the timer (RFC 6298).  Ends when all data that was in flight at the
 * start is acknowledged.  RFC 6937 limits what is sent meanwhile.
 */
#include <assert.h>

#include "net/tcp/tcp_internal.h"

void tcp_loss_fini(struct tcp_conn *c)
{
	tcp_flight_destroy(c);
	c->recovery = TCP_RECOVERY_NONE;
	c->dupacks = 0;
	c->trouble = false;
}

uint32_t tcp_loss_pipe(const struct tcp_conn *c)
{
	const struct tcp_flight *f = c->flight;
	uint32_t out = c->snd_nxt - c->snd_una, gone = 0;

	if (f)
		gone = f->sacked + f->lost + f->dup_bytes;
	return out > gone ? out - gone : 0;
}

/* Sets c->trouble if ACKs must take the slow path. */
static void look_for_trouble(struct tcp_conn *c)
{
	const struct tcp_flight *f = c->flight;

	c->trouble = c->recovery || c->dupacks || (f && (f->sacked || f->lost || f->tlp));
}

uint32_t tcp_loss_next(const struct tcp_conn *c, uint32_t *seq)
{
	if (c->flight) {
		if (c->flight->frto == FRTO_SECOND)
			return 0; /* no retransmission until F-RTO has decided */
		return tcp_flight_next_lost(c->flight, seq);
	}
	/* Only a FIN is in flight, without a flight list. */
	*seq = c->snd_una;
	return c->flags & CONN_RTX_NOW ? c->snd_nxt - c->snd_una : 0;
}

void tcp_loss_resent(struct tcp_conn *c, uint32_t seq, uint32_t end, nsec_t now)
{
	if (!c->flight)
		return;
	if ((c->flags & CONN_MTU_PROBE) && seq_gt(end, c->rare->probe_end - c->hole_mss))
		tcp_mtu_probe_lost(c, now);
	tcp_flight_resent(c, seq, end, tcp_usec(now));
	tcp_undo_resent(c, now);
	c->flight->prr_out += end - seq;
}

/* ---- the window in fast recovery: RFC 6937 section 3 -------------------------------- */

static void prr_begin(struct tcp_conn *c)
{
	struct tcp_flight *f = c->flight;

	f->prr_delivered = 0;
	f->prr_out = 0;
	f->prr_flight = max_u32(c->snd_nxt - c->snd_una, 1);
}

/* safe: snd_una advanced and no further loss was detected (RFC 9937 section 3). */
static void prr_acked(struct tcp_conn *c, uint32_t delivered, bool safe)
{
	struct tcp_flight *f = c->flight;
	uint32_t pipe = tcp_loss_pipe(c), limit, may = 0;
	uint64_t share;

	if (c->cc.ssthresh >= TCP_CC_MAX_WINDOW)
		return; /* no congestion control */
	f->prr_delivered += delivered;
	if (pipe > c->cc.ssthresh) {
		share = (uint64_t)f->prr_delivered * c->cc.ssthresh + f->prr_flight - 1;
		share /= f->prr_flight;
		may = share > f->prr_out ? (uint32_t)(share - f->prr_out) : 0;
	} else {
		limit = f->prr_delivered > f->prr_out ? f->prr_delivered - f->prr_out : 0;
		limit = max_u32(limit, delivered) + (safe ? c->mss : 0);
		may = min_u32(c->cc.ssthresh - pipe, limit);
	}
	c->cc.cwnd = max_u32(pipe + may, c->cc.mss);
}

/* ---- beginning and end -------------------------------------------------------------- */

static void enter_fast(struct tcp_conn *c)
{
	tcp_undo_begin(c);
	c->recovery = TCP_RECOVERY_FAST;
	c->recover = c->snd_nxt;
	c->ops->event(c, TCP_EVENT_RECOVERY, c->snd_nxt - c->snd_una);
	prr_begin(c);
	tcp_cc_lost(&c->cc, c->snd_nxt - c->snd_una);
	if (c->flags & CONN_ECN)
		tcp_ecn_reduced(c);
	c->flags |= CONN_RTX_NOW | CONN_OUTPUT;
}

static void leave_recovery(struct tcp_conn *c)
{
	if (c->recovery == TCP_RECOVERY_FAST)
		tcp_cc_recovered(&c->cc);
	c->ops->event(c, TCP_EVENT_RECOVERED, 0);
	c->recovery = TCP_RECOVERY_NONE;
	c->flags &= ~(uint32_t)CONN_RTX_NOW;
	if (!c->flight)
		return;
	c->flight->dup_bytes = 0;
	c->flight->frto = FRTO_OFF;
	c->flight->undo_end = c->snd_nxt;
	tcp_rack_recovered(c->flight);
}

/* Marks the segment at snd_una as lost; its size is assumed to be the MSS. */
static void lose_first(struct tcp_conn *c)
{
	tcp_flight_lose_below(c, seq_min(c->snd_una + c->mss, c->snd_nxt));
	c->flags |= CONN_RTX_NOW | CONN_OUTPUT;
}

/* ---- without SACK ------------------------------------------------------------------- */

/* Each duplicate ACK reports that one more segment after the hole at snd_una was delivered. */
static void newreno_duplicate(struct tcp_conn *c, struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;
	uint32_t out = c->snd_nxt - c->snd_una;

	f->dup_bytes = min_u32(f->dup_bytes + c->mss, out > c->mss ? out - c->mss : 0);
	news->delivered = c->mss;
	/* RFC 6582 section 4.1: otherwise these may answer retransmissions. */
	if (c->recovery == TCP_RECOVERY_NONE && c->dupacks >= TCP_DUPACKS &&
	    seq_gt(c->snd_una, c->recover))
		lose_first(c);
}

/* RFC 6582 section 3.2 step 3, partial acknowledgement. */
static void newreno_partial(struct tcp_conn *c, struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;
	uint32_t known;

	/* One segment was the retransmitted one; the others were counted before. */
	known = min_u32(news->delivered > c->mss ? news->delivered - c->mss : 0, f->dup_bytes);
	f->dup_bytes -= known;
	news->delivered -= known;
	lose_first(c);
}

static void newreno_acked(struct tcp_conn *c, struct tcp_news *news)
{
	if (c->recovery == TCP_RECOVERY_TIMEOUT)
		return;
	if (!news->advanced)
		newreno_duplicate(c, news);
	else if (c->recovery == TCP_RECOVERY_FAST)
		newreno_partial(c, news);
	else
		c->flight->dup_bytes = 0;
}

/* ---- an ACK ------------------------------------------------------------------------- */

/*
 * Takes a round-trip sample. Not from a D-SACK: the peer answers a duplicate, its first ACK may
 * have been lost, and the echoed timestamp is old. A timeout would count as a round trip, and the
 * next timeout would be even longer.
 */
static void sample_rtt(struct tcp_conn *c, const struct tcp_news *news)
{
	nsec_t rtt;

	if (news->dsack)
		return;
	if (news->sampled)
		rtt = (nsec_t)(news->usec - news->sent) * NSEC_PER_USEC;
	else if (news->echo_age &&
		 news->advanced) /* RFC 7323 section 4: valid despite retransmission */
		rtt = (nsec_t)news->echo_age * NSEC_PER_USEC;
	else
		return;
	if (rtt >= RTT_MAX_RTO)
		return;
	rtt_sample(&c->rtt, rtt, tcp_min_rto(c));
	tcp_cc_sampled(&c->cc, c->snd_una, c->snd_nxt, rtt);
}

static void detect_losses(struct tcp_conn *c, struct tcp_news *news)
{
	if (c->flags & CONN_SACK) {
		tcp_rack_learn(c, news);
		tcp_rack_detect(c, news->usec);
	} else {
		newreno_acked(c, news);
	}
	if (c->recovery == TCP_RECOVERY_NONE && c->flight->lost)
		enter_fast(c);
}

static void move_window(struct tcp_conn *c, const struct tcp_news *news, uint32_t bytes,
			uint32_t flight, bool safe, nsec_t now)
{
	if (c->recovery == TCP_RECOVERY_FAST)
		prr_acked(c, news->delivered, safe);
	else if (bytes)
		tcp_cc_acked(&c->cc, bytes, flight, c->rtt.srtt, now);
}

void tcp_loss_acked(struct tcp_conn *c, struct tcp_news *news, uint32_t bytes, uint32_t flight,
		    nsec_t now)
{
	struct tcp_flight *f = c->flight;
	uint32_t lost;

	c->flags |= CONN_OUTPUT;
	if (news->advanced)
		c->dupacks = 0;
	else if (c->dupacks < UINT8_MAX && (news->delivered || !(c->flags & CONN_SACK)))
		c->dupacks++;
	if (f) {
		if (news->advanced)
			tcp_flight_acked(f, c->snd_una, news);
		sample_rtt(c, news);
		tcp_undo_acked(c, news);
	}
	if (c->recovery && seq_geq(c->snd_una, c->recover)) {
		if (c->recovery == TCP_RECOVERY_FAST)
			bytes = 0; /* already counted during recovery */
		leave_recovery(c);
	}
	if (f) {
		if (tcp_tlp_acked(c, news) && !c->recovery)
			tcp_cc_lost(&c->cc, flight);
		lost = f->lost;
		detect_losses(c, news);
		f = c->flight; /* may have been reallocated */
		move_window(c, news, bytes, flight, news->advanced && f->lost <= lost, now);
	}
	look_for_trouble(c);
}

/* The reordering timer expired: RFC 8985 section 6.3. */
void tcp_loss_reorder_timeout(struct tcp_conn *c, nsec_t now)
{
	tcp_rack_detect(c, tcp_usec(now));
	if (c->recovery == TCP_RECOVERY_NONE && c->flight->lost)
		enter_fast(c);
	if (c->recovery == TCP_RECOVERY_FAST)
		prr_acked(c, 0, false);
	c->flags |= CONN_OUTPUT;
	look_for_trouble(c);
}

/* RFC 6298 (5.4), RFC 5681 equation (4), RFC 8985 section 8. */
void tcp_loss_timeout(struct tcp_conn *c, nsec_t now)
{
	struct tcp_flight *f = c->flight;
	bool fresh = c->recovery == TCP_RECOVERY_NONE;

	if (f) {
		/* The peer has discarded data that it had SACKed (RFC 2018 section 8). */
		if (f->n && (f->r[0].what & RUN_SACKED))
			tcp_flight_forget_sacks(f);
		if (fresh)
			tcp_undo_begin(c);
		if (c->flags & CONN_SACK)
			tcp_rack_timeout(c, tcp_usec(now));
		else
			tcp_flight_lose_all(f);
		f->dup_bytes = 0;
		f->reo_wait = 0;
		f->tlp = TLP_NONE;
		c->probe_credit = (uint8_t)max_u32(c->probe_credit, 2);
		f->frto = fresh && c->retries == 0 ? FRTO_FIRST : FRTO_OFF;
	}
	c->recovery = TCP_RECOVERY_TIMEOUT;
	c->recover = c->snd_nxt;
	c->dupacks = 0;
	c->trouble = true;
	tcp_cc_timeout(&c->cc, c->snd_nxt - c->snd_una, c->retries > 0);
	if (c->flags & CONN_ECN)
		tcp_ecn_reduced(c);
	c->cc.cwnd = max_u32(c->cc.cwnd, min_u32(tcp_loss_pipe(c) + c->mss, TCP_CC_MAX_WINDOW));
	c->flags |= CONN_RTX_NOW;
}
