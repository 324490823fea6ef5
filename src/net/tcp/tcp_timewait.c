/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RFC 9293 section 3.10.7.4 for FIN-WAIT-2 and TIME-WAIT after the program closed the socket.  The
 * first two steps are those of every state; the others do very little.
 */
#include "net/tcp/tcp_timewait.h"

#include "net/tcp/tcp_internal.h"

#define REUSE_AFTER 1000u /* msec, as Linux: a tick of the slowest timestamp clock */

/* tw->flags */
enum {
	TW_HALF = 1,
	TW_TIMESTAMPS = 2,
	TW_SYN_OLD = 4, /* a SYN arrived that did not end the state */
};

bool tcp_timewait_due(const struct tcp_conn *c)
{
	if ((c->flags & (CONN_DETACHED | CONN_DUE)) != CONN_DETACHED)
		return false;
	return c->state == TCP_TIME_WAIT || c->state == TCP_FIN_WAIT_2;
}

void tcp_timewait_begin(struct tcp_timewait *tw, struct tcp_conn *c)
{
	*tw = (struct tcp_timewait){
		.until = c->life_at,
		.snd_nxt = c->snd_nxt,
		.rcv_nxt = c->rcv_nxt,
		.rcv_edge = c->rcv_edge,
		.ts_recent = c->ts_recent,
		.ts_offset = c->ts_offset,
		.ts_recent_at = tcp_msec(c->ts_recent_at),
		.challenge_at = tcp_msec(c->rare ? c->rare->challenge_at : LONG_AGO),
		.wnd = (uint16_t)min_u32((c->rcv_edge - c->rcv_nxt) >> c->rcv_wscale, UINT16_MAX),
	};
	if (c->state == TCP_FIN_WAIT_2)
		tw->flags |= TW_HALF;
	if (c->flags & CONN_TIMESTAMPS)
		tw->flags |= TW_TIMESTAMPS;
	if (c->flags & CONN_SYN_OLD)
		tw->flags |= TW_SYN_OLD;
	tcp_retire(c, c->rx_at); /* no data is queued, so no time is counted */
}

bool tcp_timewait_half(const struct tcp_timewait *tw)
{
	return tw->flags & TW_HALF;
}

bool tcp_timewait_reusable(const struct tcp_timewait *tw, nsec_t now)
{
	return (tw->flags & (TW_HALF | TW_TIMESTAMPS)) == TW_TIMESTAMPS &&
	       tcp_msec(now) - tw->ts_recent_at > REUSE_AFTER;
}

uint32_t tcp_timewait_next_iss(const struct tcp_timewait *tw)
{
	return tcp_iss_beyond(tw->snd_nxt);
}

/* ---- answers ------------------------------------------------------------------------ */

static void fill_answer(const struct tcp_timewait *tw, struct tcp_timewait_answer *ans,
			uint8_t flags, nsec_t now)
{
	ans->seg = (struct tcp_segment){
		.seq = tw->snd_nxt, .ack = tw->rcv_nxt, .wnd = tw->wnd, .flags = flags};
	if (tw->flags & TW_TIMESTAMPS)
		ans->seg.opt_len = (uint8_t)tcp_options_write_timestamps(
			ans->seg.opts, tcp_msec(now) + tw->ts_offset, tw->ts_recent);
}

static void send_answer(const struct tcp_timewait *tw, struct tcp_timewait_answer *ans,
			uint8_t flags, nsec_t now)
{
	ans->send = true;
	fill_answer(tw, ans, flags, now);
}

/* RFC 5961 section 7: limits answers to segments of blind attackers and of ACK loops. */
static void send_challenge(struct tcp_timewait *tw, struct tcp_timewait_answer *ans, nsec_t now)
{
	if (tcp_msec(now) - tw->challenge_at < TCP_CHALLENGE_GAP / NSEC_PER_MSEC)
		return;
	tw->challenge_at = tcp_msec(now);
	send_answer(tw, ans, TCP_ACK, now);
}

static void enter_time_wait(struct tcp_timewait *tw, nsec_t now)
{
	tw->flags &= (uint8_t)~TW_HALF;
	tw->until = now + TCP_TIME_WAIT_LEN;
}

/* ---- the steps ---------------------------------------------------------------------- */

/* The length in sequence space: data, SYN and FIN. */
static uint32_t seq_length(const struct tcp_arrival *a)
{
	return a->pkt->len + !!(a->flags & TCP_SYN) + !!(a->flags & TCP_FIN);
}

static bool in_window(const struct tcp_timewait *tw, const struct tcp_arrival *a)
{
	uint32_t len = seq_length(a), window = tw->rcv_edge - tw->rcv_nxt;

	if (len == 0)
		return a->seq - tw->rcv_nxt <= window;
	return seq_leq(a->seq, tw->rcv_edge) && seq_gt(a->seq + len, tw->rcv_nxt);
}

/* "The only thing that can arrive is a retransmission of the remote FIN." */
static bool repeats_fin(const struct tcp_timewait *tw, const struct tcp_arrival *a)
{
	return !(tw->flags & TW_HALF) && (a->flags & TCP_FIN) &&
	       a->seq + seq_length(a) == tw->rcv_nxt;
}

static bool step_1_sequence(struct tcp_timewait *tw, struct tcp_arrival *a,
			    struct tcp_timewait_answer *ans, nsec_t now)
{
	bool old = tcp_is_outdated(a, tw->flags & TW_TIMESTAMPS, tw->ts_recent);

	if (!old && in_window(tw, a))
		return true;
	a->drop = old ? DROP_TCP_PAWS : DROP_TCP_SEQ;
	if (a->flags & TCP_RST)
		return false;
	if (!old && repeats_fin(tw, a)) {
		a->drop = DROP_TCP_DUPLICATE;
		enter_time_wait(tw, now);
	}
	if (a->bare || (a->flags & TCP_SYN))
		send_challenge(tw, ans, now);
	else
		send_answer(tw, ans, TCP_ACK, now);
	return false;
}

/*
 * Second step, RFC 5961 section 3.2. In TIME-WAIT a RST answers a late segment to a closed peer and
 * is ignored (RFC 1337 section 3), unless we acknowledged a new SYN of the peer before.
 */
static void step_2_reset(struct tcp_timewait *tw, struct tcp_arrival *a,
			 struct tcp_timewait_answer *ans, nsec_t now)
{
	if (!(tw->flags & (TW_HALF | TW_SYN_OLD))) {
		a->drop = DROP_TCP_STATE;
	} else if (a->seq == tw->rcv_nxt) {
		ans->over = true;
	} else {
		a->drop = DROP_TCP_SEQ;
		send_challenge(tw, ans, now);
	}
}

/* Fourth (RFC 5961 section 4.2) and fifth step (section 5.2). */
static bool steps_4_and_5(struct tcp_timewait *tw, struct tcp_arrival *a,
			  struct tcp_timewait_answer *ans, nsec_t now)
{
	if ((a->flags & (TCP_SYN | TCP_ACK)) != TCP_ACK) {
		a->drop = DROP_TCP_STATE;
		if (a->flags & TCP_SYN)
			send_challenge(tw, ans, now);
		return false;
	}
	if (seq_gt(a->ack, tw->snd_nxt)) {
		a->drop = DROP_TCP_ACK;
		send_challenge(tw, ans, now);
		return false;
	}
	/* RFC 7323 section 4.3 (2) */
	if (a->opt.has_ts && seq_geq(a->opt.tsval, tw->ts_recent) && seq_leq(a->seq, tw->rcv_nxt)) {
		tw->ts_recent = a->opt.tsval;
		tw->ts_recent_at = tcp_msec(now);
	}
	return true;
}

/* Seventh and eighth step. */
static void steps_7_and_8(struct tcp_timewait *tw, struct tcp_arrival *a,
			  struct tcp_timewait_answer *ans, nsec_t now)
{
	uint32_t end = a->seq + a->pkt->len;

	if (a->pkt->len && (tw->flags & TW_HALF) && seq_gt(end, tw->rcv_nxt)) {
		/* RFC 9293 section 3.6.1: the program cannot read the data */
		send_answer(tw, ans, TCP_RST | TCP_ACK, now);
		ans->over = true;
	} else if ((a->flags & TCP_FIN) && (tw->flags & TW_HALF) && end == tw->rcv_nxt) {
		tw->rcv_nxt++;
		tw->rcv_edge = seq_max(tw->rcv_edge, tw->rcv_nxt);
		enter_time_wait(tw, now);
		send_answer(tw, ans, TCP_ACK, now);
	} else if (seq_length(a)) {
		a->drop = DROP_TCP_STATE; /* data after the FIN, or a FIN after missing data */
		send_challenge(tw, ans, now);
	}
}

enum drop tcp_timewait_input(struct tcp_timewait *tw, struct pkt *pkt,
			     struct tcp_timewait_answer *ans, nsec_t now)
{
	struct tcp_arrival a = {.pkt = pkt,
				.flags = pkt->tcp_flags,
				.seq = pkt->seq,
				.ack = tcp_wire_ack(pkt),
				.drop = DROP_NONE};

	ans->send = ans->over = false;
	if (!tcp_options_parse(&a.opt, tcp_wire_options(pkt), tcp_wire_options_len(pkt)))
		return DROP_TCP_OPTION;
	if ((a.flags & TCP_SYN) && (a.flags & (TCP_FIN | TCP_RST)))
		return DROP_TCP_STATE;
	a.bare = pkt->len == 0 && !(a.flags & (TCP_SYN | TCP_FIN | TCP_RST));
	if (!(tw->flags & TW_HALF) && tcp_begins(&a)) {
		if (tcp_reopens(&a, tw->flags & TW_TIMESTAMPS, tw->ts_recent, tw->rcv_nxt)) {
			tcp_note_iss(pkt, tcp_timewait_next_iss(tw));
			ans->over = true;
			fill_answer(tw, ans, TCP_ACK, now);
			return DROP_NO_FLOW;
		}
		tw->flags |= TW_SYN_OLD;
	}
	if (!step_1_sequence(tw, &a, ans, now))
		return a.drop;
	if (a.flags & TCP_RST)
		step_2_reset(tw, &a, ans, now);
	else if (steps_4_and_5(tw, &a, ans, now))
		steps_7_and_8(tw, &a, ans, now);
	return a.drop;
}
