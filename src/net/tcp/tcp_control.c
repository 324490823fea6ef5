/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments without data (SYN, RST, probes, acknowledgements), and when an acknowledgement is due
 * (RFC 9293 section 3.8.6.3).
 */
#include "net/tcp/tcp_internal.h"

void tcp_output_ack(struct tcp_conn *c, nsec_t now)
{
	if (!tcp_emit_bare(c, c->snd_nxt, TCP_ACK, now)) {
		c->flags |= CONN_ACK_OWED; /* the timer retries */
		tcp_timer_data_received(c, now);
	}
}

void tcp_output_challenge(struct tcp_conn *c, nsec_t now)
{
	if (!tcp_rare(c) || now - c->rare->challenge_at < TCP_CHALLENGE_GAP)
		return;
	c->rare->challenge_at = now;
	tcp_output_ack(c, now);
}

void tcp_output_probe(struct tcp_conn *c, nsec_t now)
{
	(void)tcp_emit_bare(c, c->snd_una - 1, TCP_ACK, now);
}

void tcp_output_rst(struct tcp_conn *c, nsec_t now)
{
	c->ops->event(c, TCP_EVENT_RESET, 0);
	(void)tcp_emit_bare(c, c->snd_nxt, TCP_RST | TCP_ACK, now);
}

void tcp_output_syn(struct tcp_conn *c, nsec_t now)
{
	bool answer = c->state == TCP_SYN_RECEIVED;
	struct tcp_segment seg;
	struct tcp_options opt = {.mss = c->config_mss, .wscale = -1};

	seg.seq = c->iss;
	seg.ack = answer ? c->rcv_nxt : 0;
	seg.flags = (uint8_t)(answer ? TCP_SYN | TCP_ACK : TCP_SYN);
	if (!answer && (c->flags & CONN_ECN)) /* RFC 3168 section 6.1.1 */
		seg.flags |= TCP_ECE | TCP_CWR;
	seg.wnd = tcp_syn_window(c->rcvbuf, c->window_clamp);
	seg.urg = 0;
	seg.ecn = ECN_NONE;
	opt.has_ts = (c->flags & CONN_TIMESTAMPS) != 0;
	opt.tsval = tcp_ts_now(c, now);
	opt.tsecr = answer ? c->ts_recent : 0;
	opt.sack_permitted = (c->flags & CONN_SACK) != 0;
	if (c->flags & CONN_WSCALE)
		opt.wscale = (int8_t)c->rcv_wscale;
	seg.opt_len = (uint8_t)tcp_options_write_syn(seg.opts, &opt);
	tcp_sndbuf_parts(&c->snd, 0, 0, &seg);
	if (answer) {
		c->rcv_edge = seq_max(c->rcv_edge, c->rcv_nxt + seg.wnd);
		c->rcv_acked = c->rcv_nxt;
	}
	c->segs_out++;
	(void)c->ops->send(c, &seg); /* if lost, the timer retransmits it */
}

/* ---- when to acknowledge ---------------------------------------------------------- */

/*
 * A stream is acknowledged as if it had arrived in larger segments, as receive offload makes them:
 * once for all contiguous segments, up to TCP_ACK_STRETCH. An acknowledgement for every second
 * segment is a SHOULD (RFC 9293 section 3.8.6.3); the peer's window opens by the same bytes (RFC
 * 3465, RFC 9438). Never during the peer's slow start, after a loss, or after PSH.
 */
static bool hold_ack(const struct tcp_conn *c, nsec_t now)
{
	uint32_t unacked = c->rcv_nxt - c->rcv_acked;

	if (c->quickacks || tcp_never_delays(c))
		return false;
	return now - c->data_rx_at < TCP_ACK_GAP && unacked < TCP_ACK_STRETCH * c->rcv_mss &&
	       unacked < min_u32(c->rcvbuf, c->window_clamp) / 4;
}

enum ack_due { ACK_NOT_DUE, ACK_DUE, ACK_HELD };

/* An owed acknowledgement may wait for the timer, or for data to go with it. */
static inline bool may_delay(const struct tcp_conn *c)
{
	/* RFC 5681 section 4.2: every second full segment at least. */
	if (c->rcv_nxt - c->rcv_acked > c->rcv_mss || tcp_never_delays(c))
		return false;
	return !c->quickacks || (c->flags & CONN_PINGPONG);
}

static enum ack_due ack_is_due(const struct tcp_conn *c, nsec_t now)
{
	if (c->flags & CONN_ACK_NOW)
		return ACK_DUE;
	if (!(c->flags & CONN_ACK_OWED) || may_delay(c))
		return ACK_NOT_DUE;
	if (c->rcv_nxt - c->rcv_acked > c->rcv_mss && hold_ack(c, now))
		return ACK_HELD;
	return ACK_DUE;
}

bool tcp_is_due(const struct tcp_conn *c)
{
	if (c->state != TCP_ESTABLISHED || (c->flags & (CONN_ACK_NOW | CONN_OUTPUT)))
		return true;
	return (c->flags & CONN_ACK_OWED) && !may_delay(c);
}

void tcp_acknowledge(struct tcp_conn *c, nsec_t now)
{
	if (c->flags & (CONN_ACK_OWED | CONN_ACK_NOW))
		tcp_output_ack(c, now);
}

bool tcp_flush(struct tcp_conn *c, nsec_t now)
{
	enum ack_due ack;

	if (!(c->flags & CONN_DUE))
		return false;
	if (c->flags & CONN_OUTPUT)
		tcp_output(c, now);
	ack = ack_is_due(c, now);
	if (ack == ACK_DUE)
		tcp_output_ack(c, now);
	return ack == ACK_HELD;
}
