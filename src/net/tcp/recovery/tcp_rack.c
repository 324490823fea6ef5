/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RACK-TLP, RFC 8985.  A segment is lost if one sent later was delivered, and the difference
 * exceeds the reordering window.  A tail loss probe detects a loss at the end of the data,
 * which no later data could reveal.
 */
#include "net/tcp/tcp_internal.h"

#define PERSIST 16 /* number of recoveries that keep a widened window: section 6.2 step 4 */

/* ---- information in an ACK (section 6.2) ------------------------------------------------- */

/* RFC 2883 section 4: true if the first block is below the ACK, or within the second block. */
static bool is_dsack(const struct tcp_options *opt, uint32_t ack)
{
	const struct tcp_range *r = &opt->sack[0];

	if (seq_leq(r->end, r->start))
		return false;
	if (seq_leq(r->end, ack))
		return true;
	return opt->sacks > 1 && seq_geq(r->start, r[1].start) && seq_leq(r->end, r[1].end);
}

/* Section 6.2 step 4: widens the reordering window, once per round trip. */
static void apply_dsack(struct tcp_conn *c, const struct tcp_range *r, struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;

	if (c->snd_nxt - r->start > TCP_CC_MAX_WINDOW)
		return; /* this was never in flight */
	news->dsack = true;
	if (tcp_rare(c))
		c->rare->dsack_dups += (r->end - r->start + c->mss - 1) / c->mss;
	news->tlp_dsack = f->tlp == TLP_RTX && r->end == f->tlp_end;
	if (!c->recovery && seq_gt(c->snd_una, f->undo_end))
		f->can_undo = false;
	if (f->can_undo && f->undo_rtx && seq_geq(r->start, f->undo_una))
		f->undo_rtx -= min_u32(f->undo_rtx, (r->end - r->start + c->mss - 1) / c->mss);
	if (f->in_dsack_round && seq_lt(c->snd_una, f->dsack_round))
		return;
	f->in_dsack_round = true;
	f->dsack_round = c->snd_nxt;
	if (f->reo_mult < UINT8_MAX)
		f->reo_mult++;
	f->reo_persist = PERSIST;
}

void tcp_rack_sacked(struct tcp_conn *c, const struct tcp_options *opt, uint32_t ack,
		     struct tcp_news *news)
{
	uint32_t out = c->snd_nxt - c->snd_una;
	unsigned i = 0;

	if (!c->flight)
		return;
	if (is_dsack(opt, ack)) {
		apply_dsack(c, &opt->sack[0], news);
		i++;
	}
	for (; i < opt->sacks; i++) {
		struct tcp_range r = opt->sack[i];

		/*
		 * Uses distances from snd_una: sequence comparisons alone would accept forged
		 * blocks from half of the number space away.
		 */
		if (r.start - c->snd_una < r.end - c->snd_una && r.end - c->snd_una <= out)
			tcp_flight_sacked(c, r.start, r.end, news);
	}
}

/* ---- detection of losses (section 6.2 step 5) ---------------------------------------------- */

/* Step 4: the reordering window. */
static uint32_t reorder_window(const struct tcp_conn *c)
{
	const struct tcp_flight *f = c->flight;

	if (!f->reordered && (c->recovery || c->dupacks >= TCP_DUPACKS ||
			      f->sacked >= TCP_DUPACKS * (uint32_t)c->mss))
		return 0;
	return min_u32(tcp_usec(c->rtt.min) / 4 * f->reo_mult, tcp_usec(c->rtt.srtt));
}

/*
 * True if run r was sent before the most recently sent delivered segment. First transmissions are
 * sent in order of sequence numbers.
 */
static bool sent_before(const struct tcp_flight *f, const struct tcp_run *r)
{
	if (!(r->what & RUN_RTX) && !f->rack_rtx)
		return seq_lt(r->end, f->rack_end);
	if (r->last == f->rack_at)
		return seq_lt(r->end, f->rack_end);
	return seq_lt(r->last, f->rack_at);
}

void tcp_rack_detect(struct tcp_conn *c, uint32_t usec)
{
	struct tcp_flight *f = c->flight;
	uint32_t window = reorder_window(c), need = f->rack_rtt + window, age;

	f->reo_wait = 0;
	if (!f->rack_rtt)
		return;
	for (unsigned i = 0; i < f->n; i++) {
		const struct tcp_run *r = &f->r[i];

		if ((r->what & (RUN_SACKED | RUN_LOST)) || !sent_before(f, r))
			continue;
		age = usec - r->last;
		if (window == 0 || age >= need)
			tcp_flight_lose(f, i);
		else
			f->reo_wait = max_u32(f->reo_wait, need - age);
	}
}

void tcp_rack_learn(struct tcp_conn *c, const struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;

	f->reordered |= news->reordered;
	if (news->reordered && tcp_rare(c))
		c->rare->reord_seen++;
	if (f->in_dsack_round && seq_geq(c->snd_una, f->dsack_round))
		f->in_dsack_round = false;
}

void tcp_rack_recovered(struct tcp_flight *f)
{
	if (f->reo_persist && --f->reo_persist == 0)
		f->reo_mult = 1;
}

/* Section 8: segments sent shortly before the timer expired may still arrive. */
void tcp_rack_timeout(struct tcp_conn *c, uint32_t usec)
{
	struct tcp_flight *f = c->flight;
	uint32_t rtt = f->rack_rtt ? f->rack_rtt : tcp_usec(c->rtt.srtt);

	for (unsigned i = 0; i < f->n; i++) {
		if (i == 0 || usec - f->r[i].last >= rtt + reorder_window(c))
			tcp_flight_lose(f, i);
	}
}

/* ---- tail loss probes (section 7) ------------------------------------------------------------ */

void tcp_tlp_sent(struct tcp_conn *c, enum tcp_tlp what, nsec_t now)
{
	c->flight->tlp = (uint8_t)what;
	c->flight->tlp_alone = c->snd_nxt - c->snd_una <= c->mss;
	c->flight->tlp_end = c->snd_nxt;
	c->flight->tlp_ts = tcp_ts_now(c, now);
	c->trouble = true;
}

/* Section 7.4.2; true if the probe repaired a loss that was not detected. */
bool tcp_tlp_acked(struct tcp_conn *c, const struct tcp_news *news)
{
	struct tcp_flight *f = c->flight;
	enum tcp_tlp what = (enum tcp_tlp)f->tlp;
	bool in_vain;

	if (what == TLP_NONE || seq_lt(c->snd_una, f->tlp_end))
		return false;
	in_vain = news->tlp_dsack || (news->echo_age && seq_lt(news->tsecr, f->tlp_ts));
	if (what == TLP_RTX && f->tlp_alone && in_vain && c->probe_credit)
		c->probe_credit--;
	if (what == TLP_RTX && !in_vain && c->snd_una == f->tlp_end && news->advanced)
		return false; /* original or probe may be acknowledged; the next ACK decides */
	f->tlp = TLP_NONE;
	if (what == TLP_RTX && f->tlp_alone && !in_vain)
		c->probe_credit = TCP_PROBE_CREDIT;
	return what == TLP_RTX && !in_vain && seq_gt(c->snd_una, f->tlp_end);
}
