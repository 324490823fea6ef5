/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides which data is sent, and when: RFC 9293 sections 3.7 (segmentation, Nagle) and 3.8.6
 * (windows, silly-window avoidance).
 */
#include <assert.h>

#include "base/user.h"
#include "net/tcp/tcp_internal.h"

/* ---- the window we offer (RFC 9293 section 3.8.6.2.2) ------------------------ */

static inline __attribute__((always_inline)) uint32_t window_gain(struct tcp_conn *c)
{
	uint32_t window = c->rcv.bytes < c->rcvbuf ? c->rcvbuf - c->rcv.bytes : 0;
	uint32_t told = tcp_window_told(c);

	if (unlikely(window > c->window_clamp))
		window = min_u32(window, tcp_open_window(c));
	if (window <= told)
		return 0;
	if (window - told < min_u32(min_u32(c->rcvbuf, c->window_clamp) / 2, c->rcv_mss))
		return 0;
	return window - told;
}

uint32_t tcp_output_window_gain(struct tcp_conn *c)
{
	return window_gain(c);
}

/*
 * Returns the window field, and advances the right edge; never moves it back. The bytes that
 * scaling cuts off are not offered, but accepted (RFC 7323 section 2.4). An opening window is
 * rounded up, because one below a scaling unit would stay closed forever.
 */
static inline uint16_t offer_window(struct tcp_conn *c)
{
	uint32_t gain = window_gain(c), unit = 1u << c->rcv_wscale;

	if (gain)
		c->rcv_edge =
			seq_max(c->rcv_edge, c->rcv_nxt + ((tcp_window_told(c) + gain + unit - 1) &
							   ~(unit - 1)));
	return (uint16_t)min_u32((c->rcv_edge - c->rcv_nxt) >> c->rcv_wscale, UINT16_MAX);
}

/* ---- one segment --------------------------------------------------------------- */

/* RFC 2018; a duplicate comes first (RFC 2883 section 4). */
static __attribute__((noinline)) size_t write_sacks(const struct tcp_conn *c,
						    struct tcp_segment *seg, size_t at)
{
	struct tcp_range block[1 + TCP_SACK_BLOCKS];
	unsigned n = 0;

	if (seg->len + at + 12 > c->path_mss)
		return 0;
	if (c->flags & CONN_DSACK)
		block[n++] = c->rare->dsack;
	for (unsigned i = 0; i < c->sacks; i++)
		block[n++] = c->rare->sack[i];
	return tcp_options_write_sack(seg->opts + at,
				      min_u32(TCP_OPT_MAX - (uint32_t)at,
					      (uint32_t)(c->path_mss - seg->len - at)),
				      block, n);
}

static uint8_t write_options(const struct tcp_conn *c, struct tcp_segment *seg, nsec_t now)
{
	size_t at = 0;

	if (c->flags & CONN_TIMESTAMPS)
		at = tcp_options_write_timestamps(seg->opts, tcp_ts_now(c, now), c->ts_recent);
	if (unlikely(c->sacks || (c->flags & CONN_DSACK)))
		at += write_sacks(c, seg, at);
	return (uint8_t)at;
}

static __attribute__((noinline)) void mark_segment(struct tcp_conn *c, struct tcp_segment *seg)
{
	if (c->flags & CONN_URG_OUT)
		tcp_urgent_mark(c, seg);
	if ((c->flags & CONN_ECN) && !(seg->flags & TCP_RST))
		tcp_ecn_mark(c, seg);
}

static inline __attribute__((always_inline)) void
complete_segment(struct tcp_conn *c, struct tcp_segment *seg, nsec_t now)
{
	seg->ack = c->rcv_nxt;
	seg->wnd = offer_window(c);
	seg->urg = 0;
	seg->ecn = ECN_NONE;
	if (unlikely(c->flags & (CONN_URG_OUT | CONN_ECN)))
		mark_segment(c, seg);
	seg->opt_len = write_options(c, seg, now);
}

/* Segments were sent that acknowledged all received data: clears what is owed. */
static inline void note_ack_sent(struct tcp_conn *c, uint32_t segments)
{
	c->segs_out += segments;
	if (c->flags & (CONN_ACK_OWED | CONN_ACK_NOW)) {
		c->flags &= ~(uint32_t)(CONN_ACK_OWED | CONN_ACK_NOW);
		if (c->quickacks)
			c->quickacks--;
		tcp_timer_ack_sent(c);
	}
	c->rcv_acked = c->rcv_nxt;
	c->flags &= ~(uint32_t)CONN_DSACK;
}

/* Completes a segment with an acknowledgement, sends it, and records that. */
static inline __attribute__((always_inline)) bool emit_segment(struct tcp_conn *c,
							       struct tcp_segment *seg, nsec_t now)
{
	complete_segment(c, seg, now);
	if (unlikely(c->ops->send(c, seg)))
		return false;
	note_ack_sent(c, 1);
	return true;
}

bool tcp_emit_bare(struct tcp_conn *c, uint32_t seq, uint8_t flags, nsec_t now)
{
	struct tcp_segment seg;

	seg.seq = seq;
	seg.flags = flags;
	tcp_sndbuf_parts(&c->snd, 0, 0, &seg);
	return emit_segment(c, &seg, now);
}

/* Sends len bytes of the stream from seq on, and FIN if fin. */
static inline __attribute__((always_inline)) bool emit_data(struct tcp_conn *c, uint32_t seq,
							    uint32_t len, bool fin, nsec_t now)
{
	struct tcp_segment seg;
	uint32_t offset = seq - c->snd_una;

	seg.seq = seq;
	seg.flags = TCP_ACK;
	if (fin)
		seg.flags |= TCP_FIN;
	if (len && offset + len == c->snd.len)
		seg.flags |= TCP_PSH; /* no data follows yet */
	tcp_sndbuf_parts(&c->snd, offset, len, &seg);
	if (likely(emit_segment(c, &seg, now))) {
		c->data_segs_out += len != 0;
		return true;
	}
	c->flags |= CONN_OUTPUT; /* retried at the next flush, or by the timer */
	return false;
}

/* Out of line, to keep the path of new data short. */
static __attribute__((noinline)) bool emit_again(struct tcp_conn *c, uint32_t seq, uint32_t len,
						 bool fin, nsec_t now)
{
	return emit_data(c, seq, len, fin, now);
}

void tcp_count_retransmit(struct tcp_conn *c, uint32_t len)
{
	c->retransmits++;
	c->ops->event(c, TCP_EVENT_RETRANSMIT, len);
	if (len && tcp_rare(c))
		c->rare->bytes_retrans += len;
}

/* ---- retransmissions ----------------------------------------------------------- */

/* Retransmits one segment; false if none may be sent (any more). */
static bool output_lost(struct tcp_conn *c, uint32_t pipe, nsec_t now)
{
	uint32_t seq = c->snd_una;
	uint32_t end = tcp_data_end(c), len = tcp_loss_next(c, &seq), data;
	bool forced = (c->flags & CONN_RTX_NOW) != 0, fin;

	if (len == 0)
		return false;
	len = min_u32(len, c->mss);
	if (c->way & WAY_EOR)
		len = tcp_eor_cut(c, seq, len);
	if ((c->way & WAY_PACED) && !tcp_pace_may(c, len, now))
		return false;
	if (!forced && (pipe + len > c->cc.cwnd || seq_gt(seq + len, c->snd_una + c->snd_wnd)))
		return false;
	data = min_u32(len, end - seq); /* the FIN is not in the buffer */
	fin = (c->flags & CONN_FIN_SENT) && seq + data == end;
	if (!emit_again(c, seq, data, fin, now))
		return false;
	c->flags &= ~(uint32_t)CONN_RTX_NOW;
	tcp_loss_resent(c, seq, seq + data + fin, now);
	if (c->way & WAY_PACED)
		tcp_pace_sent(c, data, now);
	tcp_count_retransmit(c, data);
	tcp_timer_lost_resent(c, now);
	return true;
}

/* ---- new data ------------------------------------------------------------------ */

/* Is a segment that was not full unacknowledged? */
static bool small_in_flight(const struct tcp_conn *c)
{
	return seq_gt(c->snd_sml, c->snd_una) && seq_leq(c->snd_sml, c->snd_nxt);
}

/* MSG_EOR cuts the next segment, which has len bytes; more data follows. */
static bool ends_at_eor(const struct tcp_conn *c, uint32_t len)
{
	return (c->way & WAY_EOR) && tcp_eor_cut(c, c->snd_nxt, len + 1) == len;
}

/*
 * True if a partial segment may be sent; it has len of the unsent bytes. Nagle's algorithm (RFC 1122
 * section 4.2.3.4) as Linux has it, changed by Minshall: only an earlier small segment holds it back.
 * Otherwise the end of a large send would wait for a peer that delays its acknowledgement.
 */
static bool may_send_partial(const struct tcp_conn *c, uint32_t len, uint32_t unsent, bool fin)
{
	if (fin || (c->flags & (CONN_PUSH | CONN_URG_OUT)))
		return true;
	if (len < unsent && ends_at_eor(c, len))
		return true;
	if (len < unsent) /* the peer's window cuts it: RFC 9293 section 3.8.6.2.1 (3) */
		return len >= c->snd_wnd_max / 2 && len > 0;
	if (c->flags & (CONN_CORK | CONN_MORE))
		return false;
	return (c->flags & CONN_NODELAY) || !small_in_flight(c);
}

/*
 * Records new data in flight up to snd_nxt, if there is a flight list; a FIN alone needs none. Data
 * sent within a sixteenth of a round trip forms one run.
 */
static inline void note_sent(struct tcp_conn *c, uint32_t len, nsec_t now)
{
	struct tcp_flight *f = c->flight;

	if (unlikely(!f))
		return;
	tcp_flight_sent(f, c->snd_nxt, tcp_usec(now), (uint32_t)(c->rtt.srtt >> 14));
	if (unlikely(c->recovery == TCP_RECOVERY_FAST))
		f->prr_out += len;
}

static bool may_note(struct tcp_conn *c)
{
	return !c->flight || likely(c->flight->n < c->flight->max) || tcp_flight_reserve(c, 1);
}

/*
 * tcp_expect_fin(): true if the first data waits for a FIN to go with it; only a single segment
 * does, and only data that nothing else holds back or pushes.
 */
static bool wait_for_fin(struct tcp_conn *c, uint32_t most, nsec_t now)
{
	c->way &= (uint8_t)~WAY_FIN;
	if (c->way || most >= c->mss || tcp_in_flight(c))
		return false;
	if (c->flags & (CONN_FIN_WANTED | CONN_PUSH | CONN_URG_OUT | CONN_CORK | CONN_MORE))
		return false;
	c->flags |= CONN_PACED;
	c->trim_at = now - NSEC_PER_MSEC; /* in the past, however coarse the timers are */
	return true;
}

/*
 * Applies MSG_EOR, pacing and MTU probing: false if nothing may be sent now; *len is reduced, or enlarged
 * for a probe.
 */
static __attribute__((noinline)) bool apply_way(struct tcp_conn *c, uint32_t *len, uint32_t most,
						nsec_t now)
{
	uint32_t probe = c->hole_mss ? tcp_mtu_probe(c, now) : 0;

	if (c->way & WAY_EOR) {
		most = tcp_eor_cut(c, c->snd_nxt, most);
		*len = min_u32(*len, most);
		tcp_eor_acked(c);
	}
	if ((c->way & WAY_FIN) && wait_for_fin(c, most, now))
		return false;
	if ((c->way & WAY_PACED) && !tcp_pace_may(c, *len, now))
		return false;
	if (probe && most >= probe)
		*len = probe;
	return true;
}

static __attribute__((noinline)) void note_way(struct tcp_conn *c, uint32_t len, nsec_t now)
{
	if (c->way & WAY_PACED)
		tcp_pace_sent(c, len, now);
	if (len > c->mss)
		tcp_mtu_probe_sent(c);
}

/* Sends one segment of new data; false if there is nothing to send now. */
static inline __attribute__((always_inline)) bool output_new(struct tcp_conn *c, uint32_t pipe,
							     nsec_t now)
{
	uint32_t unsent = c->snd_una + c->snd.len - c->snd_nxt;
	int32_t window = (int32_t)(c->snd_una + c->snd_wnd - c->snd_nxt);
	bool first = !tcp_in_flight(c), fin;
	uint32_t len;

	if ((c->flags & CONN_FIN_SENT) || window <= 0)
		return false;
	len = min_u32(min_u32(unsent, c->mss), (uint32_t)window);
	if (unlikely(c->way) && !apply_way(c, &len, min_u32(unsent, (uint32_t)window), now))
		return false;
	fin = (c->flags & CONN_FIN_WANTED) && len == unsent && len < (uint32_t)window;
	if (len + fin == 0)
		return false;
	if (pipe + len > c->cc.cwnd && pipe)
		return false;
	if (len < c->mss && !may_send_partial(c, len, unsent, fin))
		return false;
	if (!may_note(c) || !emit_data(c, c->snd_nxt, len, fin, now))
		return false;
	c->snd_nxt += len + fin;
	if (len < c->mss)
		c->snd_sml = c->snd_nxt;
	if (fin)
		c->flags |= CONN_FIN_SENT;
	note_sent(c, len + fin, now);
	if (unlikely(c->way))
		note_way(c, len, now);
	tcp_timer_data_sent(c, first, now);
	return true;
}

/*
 * Sends several full segments of new data at once, if the windows allow it. Segments that need
 * individual treatment are excluded, and so is the last one before a FIN.
 */
static bool output_train(struct tcp_conn *c, uint32_t pipe, nsec_t now)
{
	uint32_t unsent = c->snd_una + c->snd.len - c->snd_nxt, most = c->cc.cwnd - pipe, sent;
	int32_t window = (int32_t)(c->snd_una + c->snd_wnd - c->snd_nxt);
	bool first = !tcp_in_flight(c);
	struct tcp_segment seg;

	if (c->way || (c->flags & (CONN_FIN_SENT | CONN_FIN_WANTED | CONN_URG_OUT | CONN_ECN_CWR)))
		return false;
	if (window <= 0 || pipe >= c->cc.cwnd)
		return false;
	most = min_u32(min_u32(most, unsent), min_u32((uint32_t)window, TCP_TRAIN_MAX));
	if (most < 2 * (uint32_t)c->mss || !may_note(c))
		return false;
	most -= most % c->mss;
	seg.seq = c->snd_nxt;
	seg.flags = most == unsent ? TCP_ACK | TCP_PSH : TCP_ACK;
	tcp_sndbuf_parts(&c->snd, c->snd_nxt - c->snd_una, most, &seg);
	complete_segment(c, &seg, now);
	sent = c->ops->send_train(c, &seg, c->mss);
	if (sent) {
		uint32_t segments = (sent + c->mss - 1) / c->mss;

		note_ack_sent(c, segments);
		c->data_segs_out += segments;
		c->snd_nxt += sent;
		note_sent(c, sent, now);
		tcp_timer_data_sent(c, first, now);
	}
	if (sent < most)
		c->flags |= CONN_OUTPUT; /* as in emit_data() */
	return sent == most;
}

uint32_t tcp_send_train(struct tcp_conn *c, const struct tcp_segment *seg, uint32_t mss)
{
	struct tcp_segment rest = *seg, piece;
	uint32_t sent;

	while (rest.len) {
		sent = seg->len - rest.len;
		tcp_segment_cut(&rest, min_u32(rest.len, mss), &piece);
		if (c->ops->send(c, &piece))
			return sent;
	}
	return seg->len;
}

static __attribute__((noinline)) bool output_new_tail(struct tcp_conn *c, nsec_t now)
{
	return output_new(c, 0, now);
}

bool tcp_output_tail(struct tcp_conn *c, nsec_t now)
{
	uint32_t seq = c->snd_nxt - min_u32(c->snd_nxt - c->snd_una, c->mss);
	bool fin = (c->flags & CONN_FIN_SENT) != 0;

	if (c->way & WAY_EOR)
		seq = tcp_eor_begin(c, seq, c->snd_nxt - fin);
	if (tcp_unsent(c) && output_new_tail(c, now)) {
		tcp_tlp_sent(c, TLP_NEW, now);
		c->ops->event(c, TCP_EVENT_TAIL_PROBE, 0);
		return true;
	}
	if (!emit_again(c, seq, c->snd_nxt - seq - fin, fin, now))
		return false;
	tcp_flight_resent_tail(c, seq, tcp_usec(now));
	tcp_tlp_sent(c, TLP_RTX, now);
	c->ops->event(c, TCP_EVENT_TAIL_PROBE, 0);
	tcp_count_retransmit(c, c->snd_nxt - seq - fin);
	c->tx_at = now;
	return true;
}

/* RFC 2861. Data sent soon after received data counts as a response to it. */
static void before_sending(struct tcp_conn *c, nsec_t now)
{
	nsec_t idle = now - c->tx_at;

	if (!tcp_in_flight(c) && idle > c->rtt.rto && tcp_settings.restart_after_idle)
		tcp_cc_idle(&c->cc, tcp_initial_window(c), idle, c->rtt.rto);
	if (now - c->data_rx_at < TCP_DELACK)
		c->flags |= CONN_PINGPONG;
}

/* A closed window is an event when data waits for it. */
static void note_window(struct tcp_conn *c, bool closed)
{
	if (!c->rare || c->rare->window_closed == closed || (!closed && !c->snd_wnd))
		return;
	c->rare->window_closed = closed;
	c->ops->event(c, closed ? TCP_EVENT_WINDOW_CLOSED : TCP_EVENT_WINDOW_OPEN, c->snd_wnd);
}

/* Records what limits the sender; as Linux, only if congestion control does not. */
static __attribute__((noinline)) void note_limit(struct tcp_conn *c, nsec_t now)
{
	int32_t window = (int32_t)(c->snd_una + c->snd_wnd - c->snd_nxt);
	uint32_t waits = tcp_unsent_bytes(c);
	bool congested = tcp_pipe(c) + c->mss > c->cc.cwnd || !c->snd.len;
	enum tcp_limit what = TCP_LIMIT_NONE;

	if (!congested && waits && window < (int32_t)min_u32(c->mss, waits))
		what = TCP_LIMIT_WINDOW;
	else if (!congested && !waits && (c->flags & CONN_SND_FULL))
		what = TCP_LIMIT_SNDBUF;
	tcp_limited_by(c, what, now);
	note_window(c, what == TCP_LIMIT_WINDOW && !c->snd_wnd);
}

void tcp_output(struct tcp_conn *c, nsec_t now)
{
	bool more;

	c->flags &= ~(uint32_t)(CONN_OUTPUT | CONN_PACED);
	if (!tcp_synchronized(c))
		return;
	if (unlikely(c->recovery)) {
		while (output_lost(c, tcp_pipe(c), now))
			;
	}
	more = tcp_has_unsent(c);
	if (more) {
		before_sending(c, now);
		while (tcp_unsent_bytes(c) > c->mss && output_train(c, tcp_pipe(c), now))
			;
		while ((more = tcp_has_unsent(c)) && output_new(c, tcp_pipe(c), now))
			;
		if (!tcp_in_flight(c) && more)
			tcp_timer_held_back(c, now);
	}
	c->flags &= ~(uint32_t)CONN_PUSH;
	if (unlikely(c->limit || (c->flags & CONN_SND_FULL) || more))
		note_limit(c, now);
	if (unlikely(c->notsent_lowat != UINT32_MAX))
		tcp_look_at_unsent(c);
}

/* ---- one small segment ----------------------------------------------------------------- */

/* What tcp_output() and tcp_send() treat individually. */
#define CONN_NOT_QUICK                                                                           \
	(CONN_OUTPUT | CONN_CORK | CONN_MORE | CONN_FIN_WANTED | CONN_FIN_SENT | CONN_SND_FULL | \
	 CONN_PUSH | CONN_URG_OUT | CONN_ECN | CONN_PACED | CONN_DSACK)

/* Nothing is queued, hence nothing in flight, and only the peer's window limits a segment. */
static inline bool conn_is_quick(const struct tcp_conn *c)
{
	if (c->snd.len || c->state != TCP_ESTABLISHED || (c->flags & CONN_NOT_QUICK))
		return false;
	if (c->recovery || c->trouble || c->way || c->sacks || c->limit)
		return false;
	return c->flight && !c->flight->n && c->notsent_lowat == UINT32_MAX;
}

bool tcp_quick_begin(struct tcp_conn *c, const void *buf, size_t len, struct tcp_segment *seg,
		     nsec_t now)
{
	if (!conn_is_quick(c))
		return false;
	/* Not a full one: tcp_quick_sent() records a small one. */
	if (unlikely(!len || len >= c->mss || len > c->snd_wnd))
		return false;
	if (unlikely(len > c->snd.size ||
		     len > c->sndbuf / 2)) /* not above two thirds: is_full() */
		return false;
	if (unlikely(now - c->tx_at > c->rtt.rto)) /* RFC 2861 */
		return false;
	if (unlikely(!user_copy(c->snd.data, buf, len)))
		return false;
	c->snd.head = 0; /* what is queued is in one piece, and in the same lines of the cache */
	seg->seq = c->snd_nxt;
	seg->flags = TCP_ACK | TCP_PSH;
	seg->len = (uint32_t)len;
	seg->part[0] = (struct tcp_part){c->snd.data, (uint32_t)len};
	seg->part[1] = (struct tcp_part){NULL, 0};
	complete_segment(c, seg, now);
	return true;
}

void tcp_quick_sent(struct tcp_conn *c, uint32_t len, nsec_t now)
{
	struct tcp_flight *f = c->flight;

	if (now - c->data_rx_at < TCP_DELACK)
		c->flags |= CONN_PINGPONG;
	note_ack_sent(c, 1);
	c->data_segs_out++;
	c->busy -= now;
	c->snd.len = len;
	c->snd_nxt += len;
	c->snd_sml = c->snd_nxt;
	f->rate_len = 0; /* a pause does not count as a low rate */
	tcp_flight_sent(f, c->snd_nxt, tcp_usec(now), 0);
	tcp_timer_data_sent(c, true, now);
}
