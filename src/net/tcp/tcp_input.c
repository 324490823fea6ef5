/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Input of a segment: RFC 9293 section 3.10.7, one function per step, in its order.  A step returns
 * false if no further step is needed; a->drop is then the reason to drop the segment, or
 * DROP_NONE if it was processed.
 *
 * Only segments that cannot wait are sent here; tcp_flush() sends the others.
 */
#include <errno.h>

#include "net/tcp/tcp_internal.h"

#define CONN_SLOW (CONN_DETACHED | CONN_URG_WAIT | CONN_RTT_WANTED)

/* ---- the fast path ------------------------------------------------------------------ */

/* True in ESTABLISHED with nothing lost and nothing out of order. */
static inline bool conn_is_fast(const struct tcp_conn *c)
{
	return c->state == TCP_ESTABLISHED && !c->trouble && !c->rcv.ooo && !(c->flags & CONN_SLOW);
}

/*
 * True if the segment holds the bytes at seq, an acknowledgement of data in flight, or both, and
 * nothing else. *ts_recent is the latest timestamp before it, and is set to its own.
 */
static inline __attribute__((always_inline)) bool
segment_is_plain(const struct tcp_conn *c, const struct pkt *pkt, uint32_t seq, uint32_t *ts_recent)
{
	const uint8_t *opts = tcp_wire_options(pkt);
	uint32_t acked = tcp_wire_ack(pkt) - c->snd_una, tsval;

	if ((pkt->tcp_flags & ~TCP_PSH) != TCP_ACK || pkt->seq != seq)
		return false;
	if (acked > c->snd_nxt - c->snd_una || acked + pkt->len == 0)
		return false;
	if (pkt->len > c->rcv_edge - seq)
		return false;
	if (unlikely(c->flags & CONN_ECN) && tcp_wire_ecn(pkt) == ECN_CE)
		return false;
	if (!(c->flags & CONN_TIMESTAMPS))
		return tcp_wire_options_len(pkt) == 0;
	if (!tcp_options_only_timestamps(opts, tcp_wire_options_len(pkt)))
		return false;
	tsval = load_be32(opts + 4);
	if (seq_lt(tsval, *ts_recent))
		return false;
	*ts_recent = tsval;
	return true;
}

/* Processes the headers of plain segments; tsval: of the first one, the others: of the last. */
static inline __attribute__((always_inline)) void
plain_arrived(struct tcp_conn *c, uint32_t tsval, uint32_t ack, uint32_t wnd, nsec_t now)
{
	if ((c->flags & CONN_TIMESTAMPS) && c->rcv_acked == c->rcv_nxt) {
		c->ts_recent = tsval;
		c->ts_recent_at = now;
	}
	c->rx_at = now;
	c->probes = 0;
	tcp_ack_set_window(c, c->rcv_nxt, wnd);
	if (ack != c->snd_una)
		tcp_ack_advance(c, ack, NULL, now);
}

/* False if the slow path must process it; nothing changed then. */
static inline bool input_fast(struct tcp_conn *c, struct pkt *pkt, nsec_t now)
{
	uint32_t ack = tcp_wire_ack(pkt), len = pkt->len, tsval = c->ts_recent;
	uint32_t wnd = (uint32_t)tcp_wire_window(pkt) << c->snd_wscale;
	bool pruned, push = (pkt->tcp_flags & TCP_PSH) != 0;

	if (!conn_is_fast(c) || !segment_is_plain(c, pkt, c->rcv_nxt, &tsval))
		return false;
	if (len && !tcp_recvq_append(&c->rcv, pkt, &pruned))
		return false;
	/* From here on pkt may be freed: its fields were read before. */
	plain_arrived(c, tsval, ack, wnd, now);
	if (!len) {
		pkt_free(pkt);
		return true;
	}
	c->rcv_nxt += len;
	tcp_data_received(c, len, len, push, now);
	c->ops->readable(c);
	return true;
}

bool tcp_input_chain(struct tcp_conn *c, struct pkt *first, nsec_t now)
{
	uint32_t bytes = 0, segments = 0, largest = 0, tsval = c->ts_recent, first_tsval = 0;
	uint32_t ack = c->snd_una;
	struct pkt *last = first;
	bool push;

	if (!conn_is_fast(c))
		return false;
	for (struct pkt *pkt = first; pkt; last = pkt, pkt = pkt->next) {
		if (!pkt->len || !segment_is_plain(c, pkt, c->rcv_nxt + bytes, &tsval))
			return false;
		if (seq_lt(tcp_wire_ack(pkt), ack))
			return false;
		if (!segments++)
			first_tsval = tsval;
		ack = tcp_wire_ack(pkt);
		bytes += pkt->len;
		largest = max_u32(largest, pkt->len);
	}
	if (!tcp_recvq_append_chain(&c->rcv, first, last, bytes))
		return false;
	c->segs_in += segments;
	c->data_segs_in += segments;
	push = (last->tcp_flags & TCP_PSH) != 0;
	plain_arrived(c, first_tsval, ack, (uint32_t)tcp_wire_window(last) << c->snd_wscale, now);
	c->rcv_nxt += bytes;
	tcp_data_received(c, bytes, largest, push, now);
	c->ops->readable(c);
	return true;
}

/* ---- the slow path ------------------------------------------------------------------ */

static void cut_front(struct pkt *pkt, uint32_t n)
{
	pkt->seq += n;
	pkt->off = (uint16_t)(pkt->off + n);
	pkt->len = (uint16_t)(pkt->len - n);
}

static void cut_back(struct tcp_arrival *a, uint32_t keep)
{
	a->pkt->len = (uint16_t)keep;
	a->pkt->tcp_flags &= (uint8_t)~TCP_FIN;
	a->flags &= (uint8_t)~TCP_FIN;
}

/* Trims the segment to new data within the window. */
static void cut_to_window(struct tcp_conn *c, struct tcp_arrival *a)
{
	struct pkt *pkt = a->pkt;

	if (seq_lt(pkt->seq, c->rcv_nxt)) {
		if (pkt->len)
			tcp_note_duplicate(c, pkt->seq, seq_min(pkt->seq + pkt->len, c->rcv_nxt));
		cut_front(pkt, min_u32(c->rcv_nxt - pkt->seq, pkt->len));
		pkt->seq = c->rcv_nxt;
		c->flags |= CONN_ACK_NOW; /* a retransmission: our ACK may be lost */
	}
	if (seq_gt(pkt->seq + pkt->len, c->rcv_edge))
		cut_back(a, seq_gt(c->rcv_edge, pkt->seq) ? c->rcv_edge - pkt->seq : 0);
}

/* ---- SYN_SENT: RFC 9293 section 3.10.7.3 -------------------------------------------- */

static void syn_received(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	c->irs = a->seq;
	c->rcv_nxt = a->seq + 1;
	c->rcv_acked = c->rcv_nxt;
	c->rcv_edge = c->rcv_nxt + tcp_syn_window(c->rcvbuf, c->window_clamp);
	a->flags &= (uint8_t)~TCP_SYN;
	a->pkt->seq = c->rcv_nxt;
	tcp_ack_peer_options(c, &a->opt);
	c->ts_recent_at = now;
}

/*
 * The peer has an old connection of the same pair and acknowledges its numbers: our RST ends it
 * (RFC 9293 section 3.5.1, figure 9). The SYN was not lost and is retransmitted at once, as on
 * Linux, but only once: a peer that ignores the RST would answer each time.
 */
static void reset_old_peer(struct tcp_conn *c, const struct tcp_arrival *a, nsec_t now)
{
	struct tcp_segment rst;

	if (!tcp_reset_for(a->pkt, &rst))
		return;
	(void)c->ops->send(c, &rst);
	if ((a->flags & TCP_SYN) || c->retransmits)
		return;
	tcp_count_retransmit(c, 0);
	tcp_output_syn(c, now);
	tcp_timer_syn_sent(c, now);
}

/* True if our SYN was acknowledged; then text and FIN are processed. */
static bool input_syn_sent(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	bool has_ack = a->flags & TCP_ACK;

	/* first: the ACK bit */
	if (has_ack && (seq_leq(a->ack, c->iss) || seq_gt(a->ack, c->snd_nxt))) {
		reset_old_peer(c, a, now);
		a->drop = DROP_TCP_ACK;
		return false;
	}
	/* second: the RST bit */
	if (a->flags & TCP_RST) {
		if (has_ack)
			tcp_finish(c, ECONNREFUSED, now);
		else
			a->drop = DROP_TCP_ACK;
		return false;
	}
	/* third: security; fourth: the SYN bit */
	if (!(a->flags & TCP_SYN)) {
		a->drop = DROP_TCP_STATE;
		return false;
	}
	syn_received(c, a, now);
	tcp_ecn_syn_ack(c, has_ack ? a->flags : 0);
	if (!has_ack) { /* simultaneous open */
		tcp_ack_set_window(c, a->seq, a->wnd);
		tcp_set_state(c, TCP_SYN_RECEIVED);
		tcp_timer_syn_sent(c, now);
		tcp_output_syn(c, now);
		return false; /* the peer retransmits other data in it */
	}
	tcp_establish(c, now);
	tcp_ack_set_window(c, a->seq, a->wnd);
	c->flags |= CONN_ACK_NOW;
	cut_to_window(c, a);
	return true;
}

/* ---- other states: RFC 9293 section 3.10.7.4 ----------------------------------------- */

/* RFC 7323 section 5.3; a timestamp older than 24 days proves nothing. */
static bool paws_rejects(const struct tcp_conn *c, const struct tcp_arrival *a, nsec_t now)
{
	return tcp_is_outdated(a, c->flags & CONN_TIMESTAMPS, c->ts_recent) &&
	       now - c->ts_recent_at < 24 * 86400 * NSEC_PER_SEC;
}

/* Sends an ACK with the expected sequence number; for a bare segment only at a limited rate. */
static void answer_unacceptable(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	if (c->state == TCP_TIME_WAIT && (a->flags & TCP_FIN))
		tcp_timer_time_wait(c, now);
	if (c->state == TCP_SYN_RECEIVED && (a->flags & TCP_SYN) && a->seq == c->irs)
		tcp_output_syn(c, now); /* our SYN-ACK was lost */
	else if (!a->bare || a->seq == c->rcv_nxt - 1)
		tcp_output_ack(c, now); /* retransmitted data, or a probe */
	else
		tcp_output_challenge(c, now);
}

static bool step_1_sequence(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	uint32_t window = c->rcv_edge - c->rcv_nxt;
	uint32_t len = a->pkt->len + !!(a->flags & TCP_SYN) + !!(a->flags & TCP_FIN);
	bool ok;

	if (paws_rejects(c, a, now)) {
		answer_unacceptable(c, a, now);
		a->drop = DROP_TCP_PAWS;
		return false;
	}
	if (len == 0) /* also at the right edge: ACKs follow a full window */
		ok = a->seq - c->rcv_nxt <= window;
	else if (window == 0)
		ok = a->seq == c->rcv_nxt;
	else
		ok = seq_lt(a->seq, c->rcv_edge) && seq_gt(a->seq + len, c->rcv_nxt);
	if (!ok) {
		a->drop = seq_lt(a->seq, c->rcv_nxt) ? DROP_TCP_DUPLICATE : DROP_TCP_SEQ;
		if (a->pkt->len && seq_leq(a->seq + len, c->rcv_nxt))
			tcp_note_duplicate(c, a->seq, a->seq + a->pkt->len);
		if (!(a->flags & TCP_RST))
			answer_unacceptable(c, a, now);
		return false;
	}
	if (window == 0 &&
	    a->pkt->len) { /* "special allowance": its ACK, RST and URG are processed */
		cut_back(a, 0);
		c->flags |= CONN_ACK_NOW;
		a->drop = DROP_TCP_WINDOW;
	}
	cut_to_window(c, a);
	/* RFC 7323 section 4.3 (2) */
	if (a->opt.has_ts && seq_geq(a->opt.tsval, c->ts_recent) && seq_leq(a->seq, c->rcv_acked)) {
		c->ts_recent = a->opt.tsval;
		c->ts_recent_at = now;
	}
	return true;
}

/* As Linux: the error that a reset reports depends on the state. */
static int reset_error(const struct tcp_conn *c)
{
	switch (c->state) {
	case TCP_CLOSE_WAIT:
		return EPIPE;
	case TCP_TIME_WAIT:
		return 0;
	default:
		return ECONNRESET;
	}
}

/*
 * RFC 5961 section 3.2. In TIME_WAIT a RST answers a late segment to a closed peer and is ignored
 * (RFC 1337 section 3), unless we acknowledged a new SYN of the peer before.
 */
static bool step_2_reset(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	if (!(a->flags & TCP_RST))
		return true;
	if (c->state == TCP_TIME_WAIT && !(c->flags & CONN_SYN_OLD)) {
		a->drop = DROP_TCP_STATE;
	} else if (a->seq == c->rcv_nxt) {
		tcp_finish(c, reset_error(c), now);
	} else {
		tcp_output_challenge(c, now);
		a->drop = DROP_TCP_SEQ;
	}
	return false;
}

/* RFC 5961 section 4.2. (The third step, security, does not apply.) */
static bool step_4_syn(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	if (!(a->flags & TCP_SYN))
		return true;
	tcp_output_challenge(c, now);
	a->drop = DROP_TCP_STATE;
	return false;
}

static void input_steps(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	if (c->state == TCP_SYN_SENT) {
		if (!input_syn_sent(c, a, now))
			return;
	} else {
		if (c->state == TCP_TIME_WAIT && tcp_begins(a)) {
			if (tcp_reopens(a, c->flags & CONN_TIMESTAMPS, c->ts_recent, c->rcv_nxt)) {
				tcp_note_iss(a->pkt, tcp_iss_beyond(c->snd_nxt));
				tcp_finish(c, 0, now);
				a->drop = DROP_NO_FLOW; /* the caller passes it to a listener */
				return;
			}
			c->flags |= CONN_SYN_OLD;
		}
		/* As Linux: what no connection sends gets no answer, in the window or not. */
		if (!(a->flags & (TCP_ACK | TCP_RST | TCP_SYN))) {
			a->drop = DROP_TCP_STATE;
			return;
		}
		/* Simultaneous open: the peer's SYN-ACK repeats its SYN. */
		if (c->state == TCP_SYN_RECEIVED && a->seq == c->irs &&
		    (a->flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK)) {
			a->flags &= (uint8_t)~TCP_SYN;
			a->pkt->seq = ++a->seq;
			c->flags |= CONN_ACK_NOW;
		}
		if (!step_1_sequence(c, a, now) || !step_2_reset(c, a, now) ||
		    !step_4_syn(c, a, now) || !tcp_ack_process(c, a, now))
			return;
	}
	if (unlikely(c->flags & CONN_ECN) && !(a->pkt->tcp_flags & TCP_SYN))
		tcp_ecn_received(c, a);
	if ((a->flags & TCP_URG) || (c->flags & CONN_URG_WAIT))
		tcp_urgent_step_6(c, a);
	if (tcp_text_step_7(c, a, now))
		tcp_text_step_8(c, a, now);
}

static enum drop input_slow(struct tcp_conn *c, struct pkt *pkt, nsec_t now)
{
	struct tcp_arrival a;

	if (c->state == TCP_CLOSED)
		return DROP_TCP_STATE;
	if (!tcp_options_parse(&a.opt, tcp_wire_options(pkt), tcp_wire_options_len(pkt)))
		return DROP_TCP_OPTION;
	a.flags = pkt->tcp_flags;
	a.pkt = pkt;
	a.seq = pkt->seq;
	a.ack = tcp_wire_ack(pkt);
	a.wnd = tcp_wire_window(pkt);
	if (!(a.flags & TCP_SYN))
		a.wnd <<= c->snd_wscale;
	a.bare = pkt->len == 0 && !(a.flags & (TCP_SYN | TCP_FIN | TCP_RST));
	a.drop = DROP_NONE;
	c->rx_at = now;
	input_steps(c, &a, now);
	if (a.drop == DROP_NONE && a.pkt)
		pkt_free(a.pkt);
	return a.drop;
}

enum drop tcp_input(struct tcp_conn *c, struct pkt *pkt, nsec_t now)
{
	c->segs_in++;
	c->data_segs_in += pkt->len != 0;
	if (likely(input_fast(c, pkt, now)))
		return DROP_NONE;
	return input_slow(c, pkt, now);
}
