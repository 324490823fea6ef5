/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The acknowledgement field: RFC 9293 section 3.10.7.4, fifth step.  Handles received
 * acknowledgements, the peer's window, and the options of its SYN.
 */
#include "net/tcp/tcp_internal.h"

/* RFC 9293 section 3.7.1, RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2. */
void tcp_ack_peer_options(struct tcp_conn *c, const struct tcp_options *opt)
{
	uint32_t mss = opt->mss ? opt->mss : c->ip6 ? TCP_MSS_DEFAULT_V6 : TCP_MSS_DEFAULT_V4;

	c->agreed_mss = (uint16_t)min_u32(c->agreed_mss, max_u32(mss, TCP_MSS_MIN));
	c->path_mss = (uint16_t)min_u32(c->agreed_mss, c->route_mss);
	c->mss = c->path_mss;
	if (!opt->has_ts)
		c->flags &= ~(uint32_t)CONN_TIMESTAMPS;
	if (c->flags & CONN_TIMESTAMPS) {
		c->ts_recent = opt->tsval;
		c->mss = (uint16_t)(c->mss - TCP_OPT_TIMESTAMPS);
	}
	if (!opt->sack_permitted)
		c->flags &= ~(uint32_t)CONN_SACK;
	if (opt->wscale < 0)
		c->flags &= ~(uint32_t)CONN_WSCALE;
	if (c->flags & CONN_WSCALE)
		c->snd_wscale = (uint8_t)opt->wscale;
	else
		c->rcv_wscale = 0;
}

void tcp_ack_new_window(struct tcp_conn *c, uint32_t wnd)
{
	c->snd_wnd = wnd;
	if (tcp_unsent(c))
		c->flags |= CONN_OUTPUT;
	if (wnd > c->snd_wnd_max)
		c->snd_wnd_max = wnd;
}

/* Samples the delivery rate once per round trip, if enough data was delivered. */
static __attribute__((noinline)) void sample_rate(struct tcp_conn *c, struct tcp_flight *f,
						  uint32_t usec)
{
	uint32_t bytes = c->snd_una - f->rate_seq, elapsed = usec - f->rate_at;

	if (f->rate_len && bytes >= TCP_CC_INITIAL_SEGMENTS * c->mss)
		c->rate =
			(uint32_t)min_u64(bytes * 1000000ull / elapsed / TCP_RATE_UNIT, UINT32_MAX);
	f->rate_seq = c->snd_una;
	f->rate_at = usec;
	f->rate_len = max_u32((uint32_t)(c->rtt.srtt >> 10), 1); /* about 1 usec units */
}

/* Part of what is in flight was delivered: its latest send time, if it was never retransmitted. */
static __attribute__((noinline)) bool sample_part(struct tcp_conn *c, struct tcp_flight *f,
						  uint32_t usec, uint32_t *sent)
{
	struct tcp_news news = {.usec = usec};

	tcp_flight_acked(f, c->snd_una, &news);
	if (unlikely(usec - f->rate_at >= f->rate_len))
		sample_rate(c, f, usec);
	*sent = news.sent;
	return news.sampled;
}

/* Takes a round-trip sample when everything up to snd_una was delivered without loss. */
static void sample_rtt(struct tcp_conn *c, nsec_t now)
{
	struct tcp_flight *f = c->flight;
	const struct tcp_run *last;
	uint32_t usec, sent;
	bool sampled;
	nsec_t rtt;

	if (unlikely(!f || f->n == 0))
		return;
	usec = tcp_usec(now);
	last = &f->r[f->n - 1];
	if (likely(last->end == c->snd_una)) {
		f->n = 0;
		f->start = c->snd_una;
		sampled = !(last->what & RUN_RTX);
		sent = last->last;
	} else {
		sampled = sample_part(c, f, usec, &sent);
	}
	f->rack_rtt = 0; /* all data in flight was sent later than this */
	if (unlikely(!sampled))
		return;
	rtt = (nsec_t)(usec - sent) * NSEC_PER_USEC;
	rtt_sample(&c->rtt, rtt, tcp_min_rto(c));
	tcp_cc_sampled(&c->cc, c->snd_una, c->snd_nxt, rtt);
}

void tcp_ack_advance(struct tcp_conn *c, uint32_t ack, struct tcp_news *news, nsec_t now)
{
	uint32_t flight = c->snd_nxt - c->snd_una;
	uint32_t bytes = min_u32(ack - c->snd_una, c->snd.len); /* our FIN is not a byte */

	if (likely(bytes))
		tcp_sndbuf_consume(&c->snd, bytes);
	if (unlikely(ack - c->iss < ack - c->snd_una)) /* snd_una wraps past iss now */
		c->una_hi++;
	c->snd_una = ack;
	if (likely(!c->trouble && (!news || !news->delivered))) {
		sample_rtt(c, now);
		tcp_cc_acked(&c->cc, bytes, flight, c->rtt.srtt, now);
	} else {
		news->advanced = true;
		tcp_loss_acked(c, news, bytes, flight, now);
	}
	tcp_timer_acked(c, now);
	if (c->snd.len == 0) {
		tcp_timer_buffer_empty(c, now);
		if (likely(bytes))
			c->busy += now;
		if (unlikely(c->limit))
			tcp_limited_by(c, TCP_LIMIT_NONE, now);
	}
	if (tcp_has_unsent(c))
		c->flags |= CONN_OUTPUT;
	if (unlikely(c->flags & (CONN_SND_FULL | CONN_MTU_PROBE))) {
		if ((c->flags & CONN_MTU_PROBE) && seq_geq(ack, c->rare->probe_end))
			tcp_mtu_probe_acked(c);
		if (c->flags & CONN_SND_FULL)
			tcp_tell_writable(c);
	}
}

static struct tcp_news news_of(const struct tcp_conn *c, const struct tcp_options *opt, nsec_t now)
{
	struct tcp_news news = {
		.usec = tcp_usec(now),
		.min_rtt = tcp_usec(c->rtt.min),
		.fack = c->flight ? seq_max(c->flight->fack, c->snd_una) : c->snd_una,
		.recover = c->recover,
	};
	uint32_t elapsed = tcp_ts_now(c, now) - opt->tsecr;

	if ((c->flags & CONN_TIMESTAMPS) && opt->has_ts && opt->tsecr &&
	    elapsed < RTT_MAX_RTO / NSEC_PER_MSEC) {
		news.tsecr = opt->tsecr;
		news.echo_age = max_u32(elapsed, 1) * 1000;
	}
	return news;
}

/* True if an ACK that does not advance snd_una tells something about the data in flight. */
static bool is_duplicate(const struct tcp_conn *c, const struct tcp_arrival *a,
			 const struct tcp_news *news, bool same)
{
	if (!(c->flags & CONN_SACK))
		return same && c->flight;
	return news->delivered || news->dsack || (a->bare && c->flight && c->flight->tlp);
}

/*
 * RFC 9293 section 3.10.7.4: SND.WL1. An acknowledgement that advances snd_una is always news, so
 * snd_una serves as SND.WL2. Any acceptable segment opens a closed window: otherwise a segment with a
 * sequence number far ahead, perhaps forged, would keep it closed forever.
 */
static bool window_is_news(const struct tcp_conn *c, const struct tcp_arrival *a)
{
	if (c->snd_wnd == 0 && a->wnd && a->ack == c->snd_una)
		return true;
	if (seq_gt(a->ack, c->snd_una) || seq_gt(a->seq, c->snd_wl1))
		return true;
	return a->seq == c->snd_wl1 && a->ack == c->snd_una;
}

/* Our FIN was acknowledged; false if the connection ended. */
static bool fin_acked(struct tcp_conn *c, nsec_t now)
{
	switch (c->state) {
	case TCP_FIN_WAIT_1:
		tcp_set_state(c, TCP_FIN_WAIT_2);
		return !tcp_timer_fin_wait_2(c, now);
	case TCP_CLOSING:
		tcp_enter_time_wait(c, now);
		return true;
	case TCP_LAST_ACK:
		tcp_finish(c, 0, now);
		return false;
	default:
		return true;
	}
}

static bool handshake_ack(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	struct tcp_segment rst;

	if (seq_leq(a->ack, c->snd_una) || seq_gt(a->ack, c->snd_nxt)) {
		if (tcp_reset_for(a->pkt, &rst))
			(void)c->ops->send(c, &rst);
		a->drop = DROP_TCP_ACK;
		return false;
	}
	tcp_establish(c, now);
	tcp_ack_set_window(c, a->seq, a->wnd);
	return true;
}

/* Counts data that is acknowledged with ECE as CE-marked; part of it may not be. */
static void note_marked(struct tcp_conn *c, uint32_t ack)
{
	if (seq_gt(ack, c->snd_una) && tcp_rare(c))
		c->rare->delivered_ce += (ack - c->snd_una + c->mss - 1) / c->mss;
}

/*
 * RFC 5961 section 5.2: acknowledges data in flight, or older data by at most the largest window.
 * Never from before the first byte: as Linux, an ACK of unsent data does not count as an old one.
 */
static bool ack_is_acceptable(const struct tcp_conn *c, uint32_t ack)
{
	uint32_t oldest = c->snd_wnd_max;

	if (!c->una_hi)
		oldest = min_u32(oldest, c->snd_una - c->iss);
	return seq_leq(ack, c->snd_nxt) && seq_geq(ack, c->snd_una - oldest);
}

bool tcp_ack_process(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	struct tcp_news news;
	bool same;

	if (!(a->flags & TCP_ACK)) {
		a->drop = DROP_TCP_STATE;
		return false;
	}
	if (c->state == TCP_SYN_RECEIVED && !handshake_ack(c, a, now))
		return false;
	if (!ack_is_acceptable(c, a->ack)) {
		tcp_output_challenge(c, now);
		a->drop = DROP_TCP_ACK;
		return false;
	}
	c->probes = 0; /* the peer is alive */
	news = news_of(c, &a->opt, now);
	if (unlikely(a->opt.sacks) && (c->flags & CONN_SACK))
		tcp_rack_sacked(c, &a->opt, a->ack, &news);
	same = a->ack == c->snd_una && a->wnd == c->snd_wnd && a->bare && tcp_in_flight(c);
	if (window_is_news(c, a))
		tcp_ack_set_window(c, a->seq, a->wnd);
	if (unlikely(c->flags & CONN_ECN) && (a->flags & TCP_ECE))
		note_marked(c, a->ack);
	if (seq_gt(a->ack, c->snd_una)) {
		tcp_ack_advance(c, a->ack, &news, now);
	} else if (is_duplicate(c, a, &news, same)) {
		tcp_loss_acked(c, &news, 0, c->snd_nxt - c->snd_una, now);
		tcp_timer_duplicate(c, now);
	}
	if (tcp_fin_acked(c))
		return fin_acked(c, now);
	return true;
}
