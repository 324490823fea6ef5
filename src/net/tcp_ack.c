/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The acknowledgement field: RFC 9293 section 3.10.7.4, fifth step.  What the
 * peer has received, what it lets us send, what it agreed to in its SYN.
 */
#include "net/tcp_internal.h"

/* RFC 9293 section 3.7.1, RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2. */
void tcp_ack_peer_options(struct tcp_conn *c, const struct tcp_options *opt)
{
	uint32_t mss = opt->mss ? opt->mss : TCP_MSS_DEFAULT_V4;

	c->path_mss = (uint16_t)min_u32(c->config_mss, max_u32(mss, TCP_MSS_MIN));
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

void tcp_ack_set_window(struct tcp_conn *c, uint32_t seq, uint32_t ack, uint32_t wnd)
{
	if (wnd != c->snd_wnd) {
		c->snd_wnd = wnd;
		if (tcp_unsent(c))
			c->flags |= CONN_OUTPUT;
		if (wnd > c->snd_wnd_max)
			c->snd_wnd_max = wnd;
	}
	c->snd_wl1 = seq;
	c->snd_wl2 = ack;
}

/* As Linux: a third free is worth waking somebody. */
static void tell_writable(struct tcp_conn *c)
{
	if (c->snd.len > c->sndbuf || c->sndbuf - c->snd.len < c->sndbuf / 3)
		return;
	c->flags &= ~(uint32_t)CONN_SND_FULL;
	c->ops->writable(c);
}

void tcp_ack_advance(struct tcp_conn *c, uint32_t ack, nsec_t now)
{
	uint32_t flight = c->snd_nxt - c->snd_una;
	uint32_t bytes = min_u32(ack - c->snd_una, c->snd.len); /* our FIN is not one */

	if (likely(bytes))
		tcp_sndbuf_consume(&c->snd, bytes);
	c->snd_una = ack;
	if (c->timed_at != NSEC_NEVER && seq_geq(ack, c->timed_seq)) {
		rtt_sample(&c->rtt, now - c->timed_at);
		tcp_cc_sampled(&c->cc, ack, c->snd_nxt, now - c->timed_at);
		c->timed_at = NSEC_NEVER;
	}
	if (likely(tcp_loss_quiet(c)))
		tcp_cc_acked(&c->cc, bytes, flight, c->rtt.srtt, now);
	else
		tcp_loss_acked(c, bytes, flight, now);
	tcp_timer_acked(c, now);
	if (c->snd.len == 0)
		tcp_timer_buffer_empty(c, now);
	if (tcp_unsent(c))
		c->flags |= CONN_OUTPUT;
	if (unlikely(c->flags & CONN_SND_FULL))
		tell_writable(c);
}

/* RFC 7323 section 4: a sample that survives retransmission. */
static void sample_timestamp(struct tcp_conn *c, const struct tcp_options *opt, nsec_t now)
{
	uint32_t elapsed = tcp_ts_now(c, now) - opt->tsecr;

	if (c->timed_at != NSEC_NEVER || !c->recovery || !opt->has_ts || !opt->tsecr)
		return;
	if (elapsed < RTT_MAX_RTO / NSEC_PER_MSEC)
		rtt_sample(&c->rtt, max_u32(elapsed, 1) * NSEC_PER_MSEC);
}

static bool window_is_news(const struct tcp_conn *c, const struct tcp_arrival *a)
{
	if (seq_gt(a->ack, c->snd_una) || seq_gt(a->seq, c->snd_wl1))
		return true;
	return a->seq == c->snd_wl1 && seq_geq(a->ack, c->snd_wl2);
}

/* Our FIN was acknowledged; false when the connection is no more. */
static bool fin_acked(struct tcp_conn *c, nsec_t now)
{
	switch (c->state) {
	case TCP_FIN_WAIT_1:
		tcp_set_state(c, TCP_FIN_WAIT_2);
		tcp_timer_fin_wait_2(c, now);
		return true;
	case TCP_CLOSING:
		tcp_enter_time_wait(c, now);
		return true;
	case TCP_LAST_ACK:
		tcp_finish(c, 0);
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
	tcp_ack_set_window(c, a->seq, a->ack, a->wnd);
	return true;
}

bool tcp_ack_process(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	bool news = false, same;

	if (!(a->flags & TCP_ACK)) {
		a->drop = DROP_TCP_STATE;
		return false;
	}
	if (c->state == TCP_SYN_RECEIVED && !handshake_ack(c, a, now))
		return false;
	/* RFC 5961 section 5.2 */
	if (seq_gt(a->ack, c->snd_nxt) || seq_lt(a->ack, c->snd_una - c->snd_wnd_max)) {
		tcp_output_challenge(c, now);
		a->drop = DROP_TCP_ACK;
		return false;
	}
	c->probes = 0; /* it is alive */
	if (unlikely(a->opt.sacks) && (c->flags & CONN_SACK))
		news = tcp_loss_sacked(c, &a->opt);
	same = a->ack == c->snd_una && a->wnd == c->snd_wnd && a->bare && tcp_in_flight(c);
	if (window_is_news(c, a))
		tcp_ack_set_window(c, a->seq, a->ack, a->wnd);
	if (seq_gt(a->ack, c->snd_una)) {
		if (c->flags & CONN_TIMESTAMPS)
			sample_timestamp(c, &a->opt, now);
		tcp_ack_advance(c, a->ack, now);
	} else if (c->flags & CONN_SACK ? news : same) {
		tcp_loss_duplicate(c, now);
	}
	if (tcp_fin_acked(c))
		return fin_acked(c, now);
	return true;
}
