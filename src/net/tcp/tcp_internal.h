/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of the engine only.
 *
 *   tcp_conn.c      life of a connection, the program's calls
 *   tcp_send.c      those that send
 *   tcp_state.c     the state variable
 *   tcp_input.c     RFC 9293 section 3.10.7
 *   tcp_ack.c       its fifth step: acknowledgements and windows
 *   tcp_urgent.c    its sixth step: urgent data
 *   tcp_text.c      its seventh and eighth: data and FIN
 *   tcp_flight.c    the bytes in flight and their send times
 *   tcp_rack.c      loss detection (RACK-TLP)
 *   tcp_loss.c      loss recovery
 *   tcp_undo.c      reversal of spurious recoveries
 *   tcp_ecn.c       explicit congestion notification
 *   tcp_mtu.c       path MTU discovery
 *   tcp_pace.c      pacing
 *   tcp_eor.c       sends that end a segment
 *   tcp_output.c    which data is sent, and when
 *   tcp_control.c   segments without data; when an acknowledgement is due
 *   tcp_timer.c     timers
 *   tcp_timewait.c  FIN-WAIT-2 and TIME-WAIT after the program closed the socket
 *   tcp_tune.c      autotuning of the buffers
 *   tcp_snapshot.c  serialisation, for export to another process
 *   tcp_rare.c      state that few connections need
 *   tcp_info.c      struct tcp_info
 *   tcp_cc.c        congestion control; tcp_cubic.c: CUBIC
 */
#ifndef NET_TCP_TCP_INTERNAL_H
#define NET_TCP_TCP_INTERNAL_H

#include "net/tcp/tcp.h"
#include "net/tcp/tcp_flight.h"
#include "net/tcp/tcp_rare.h"
#include "net/tcp/tcp_seq.h"
#include "net/tcp/tcp_wire.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define TCP_SYN_RETRIES 6		   /* as Linux: 127 s in total */
#define TCP_SYNACK_RETRIES 5		   /* as Linux */
#define TCP_DATA_RETRIES 15		   /* as Linux: between 13 and 30 minutes */
#define TCP_ORPHAN_RETRIES 8		   /* as Linux: 102 s for an RTO of 200 ms */
#define TCP_ACK_DELAY (50 * NSEC_PER_MSEC) /* assumed of peers: see tcp_tlp_timeout() */
#define TCP_ACK_DELAY_MAX (200 * NSEC_PER_MSEC)
#define TCP_TLP_MIN (2 * NSEC_PER_MSEC) /* ours: allows for timers and schedulers */
#define TCP_PROBE_CREDIT 8
#define LONG_AGO (-3600 * NSEC_PER_SEC)
#define TCP_DELACK (40 * NSEC_PER_MSEC)
#define TCP_QUICKACKS 16
#define TCP_TRAIN_MAX 65536u /* bytes passed to the wire at once */
#define TCP_ACK_GAP (30 * NSEC_PER_USEC)
#define TCP_ACK_STRETCH 16u /* segments of a stream per acknowledgement, at most */
#define TCP_TIME_WAIT_LEN (60 * NSEC_PER_SEC)
#define TCP_FIN_WAIT_2_LEN (60 * NSEC_PER_SEC)
#define TCP_HOLD (200 * NSEC_PER_MSEC)		/* longest time that cork holds a segment */
#define TCP_CHALLENGE_GAP (500 * NSEC_PER_MSEC) /* between two challenge ACKs */
#define TCP_TRIM_IDLE (1 * NSEC_PER_SEC)
#define TCP_MSS_MIN 48u /* smallest accepted, as Linux */
#define TCP_DUPACKS 3	/* RFC 5681 section 3.2 */
#define TCP_RCVBUF_MIN 256u
#define TCP_RATE_UNIT 16u
#define TCP_WSCALE_FOR (4u * 1024 * 1024) /* receive buffers may grow to this size */

/* conn->flags */
enum {
	/* due at the next tcp_flush() */
	CONN_ACK_NOW = 1 << 0,
	CONN_OUTPUT = 1 << 1,	/* data that was blocked may be sent now */
	CONN_ACK_OWED = 1 << 2, /* data received and not acknowledged: ack_at is set */
	CONN_DUE = CONN_ACK_NOW | CONN_OUTPUT | CONN_ACK_OWED,
	/* set by the program */
	CONN_NODELAY = 1 << 3,
	CONN_CORK = 1 << 4,
	CONN_MORE = 1 << 5,	  /* the last send had MSG_MORE */
	CONN_FIN_WANTED = 1 << 6, /* send FIN after the queued data */
	CONN_DETACHED = 1 << 7,	  /* tcp_close() was called */
	CONN_READ_SHUT = 1 << 8,  /* SHUT_RD */
	CONN_SND_FULL = 1 << 9,	  /* the program was told that the buffer is full */
	CONN_QUICKACK = 1 << 10,  /* configured: never delay */
	CONN_PINGPONG = 1 << 11,  /* responses carry our acknowledgements */
	CONN_STARTED = 1 << 12,	  /* has left CLOSED */
	/* negotiated with the peer */
	CONN_TIMESTAMPS = 1 << 13,
	CONN_SACK = 1 << 14,
	CONN_WSCALE = 1 << 15,
	/* sent and received */
	CONN_FIN_SENT = 1 << 16, /* snd_nxt counts our FIN */
	CONN_FIN_RCVD = 1 << 17, /* rcv_nxt counts the peer's FIN */
	CONN_SYN_OLD = 1 << 30,	 /* in TIME_WAIT: a SYN arrived that did not end it */
	CONN_RTX_NOW = 1 << 18,	 /* send one lost segment regardless of cwnd */
	CONN_PUSH = 1 << 19,	 /* send the queued data, even a partial segment */
	CONN_SYN_RTX = 1 << 20,	 /* the SYN was retransmitted */
	CONN_URG_OUT = 1 << 22,	 /* snd_up may be unacknowledged */
	CONN_URG_WAIT = 1 << 23, /* the urgent byte was announced and not received */
	CONN_OOBINLINE = 1 << 24,
	CONN_ECN = 1 << 25,		   /* negotiated with the peer */
	CONN_ECN_ECHO = 1 << 26,	   /* set ECE until the peer sends CWR */
	CONN_ECN_CWR = 1 << 27,		   /* set CWR in the next new data */
	CONN_MTU_PROBE = 1 << 28,	   /* an MTU probe is in flight */
	CONN_PACED = 1 << 29,		   /* data waits until trim_at, or a FIN */
	CONN_RTT_WANTED = (int)(1u << 31), /* measure with the next data segment: tcp_tune.c */
	CONN_DSACK = 1 << 21,		   /* the next ACK reports a duplicate (RFC 2883) */
};

/* conn->way: what treats new data individually */
enum {
	WAY_PACED = 1, /* rare->pace is set */
	WAY_HOLE = 2,  /* hole_mss is set */
	WAY_FIN = 4,   /* tcp_expect_fin() was called, and no data was sent since */
	WAY_EOR = 8,   /* rare->eor[] has some places */
};

/* A segment that is being processed, trimmed to new data in the window. */
struct tcp_arrival {
	struct pkt *pkt; /* NULL after it was taken */
	uint32_t seq;	 /* as received, before trimming */
	uint32_t ack;
	uint32_t wnd; /* scaled */
	uint8_t flags;
	bool bare; /* without data, SYN and FIN: may be a duplicate ACK */
	enum drop drop;
	struct tcp_options opt;
};

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* The first sequence number after all queued data; the sequence number of our FIN. */
static inline uint32_t tcp_data_end(const struct tcp_conn *c)
{
	/* Until the handshake is complete, snd_una is the sequence number of the SYN. */
	uint32_t syn = c->state == TCP_SYN_SENT || c->state == TCP_SYN_RECEIVED;

	return c->snd_una + syn + c->snd.len;
}

static inline bool tcp_in_flight(const struct tcp_conn *c)
{
	return c->snd_una != c->snd_nxt;
}

/* True if data or a FIN was never sent. */
static inline bool tcp_unsent(const struct tcp_conn *c)
{
	if (c->flags & CONN_FIN_SENT)
		return false;
	return (c->flags & CONN_FIN_WANTED) || tcp_data_end(c) != c->snd_nxt;
}

/* As tcp_unsent(), after the handshake. */
static inline bool tcp_has_unsent(const struct tcp_conn *c)
{
	if (c->flags & (CONN_FIN_SENT | CONN_FIN_WANTED))
		return !(c->flags & CONN_FIN_SENT);
	return c->snd_una + c->snd.len != c->snd_nxt;
}

static inline uint32_t tcp_unsent_bytes(const struct tcp_conn *c)
{
	return c->flags & CONN_FIN_SENT ? 0 : tcp_data_end(c) - c->snd_nxt;
}

/* As Linux: a free third of the buffer makes the socket writable. */
static inline bool tcp_has_room(const struct tcp_conn *c)
{
	if (c->snd.len > c->sndbuf || c->sndbuf - c->snd.len < c->sndbuf / 3)
		return false;
	return likely(c->notsent_lowat == UINT32_MAX) ||
	       2ull * tcp_unsent_bytes(c) < c->notsent_lowat;
}

static inline uint16_t tcp_mss_to_announce(const struct tcp_config *config)
{
	return (uint16_t)max_u32(config->advmss ? config->advmss : config->mss, TCP_MSS_MIN);
}

/* The data of a segment that the peer fills. */
static inline uint32_t tcp_synreq_payload(const struct tcp_synreq *req)
{
	return req->mss - (req->timestamps ? TCP_OPT_TIMESTAMPS : 0u);
}

/* The limit of the first window: that of all windows, or the route's initrwnd. */
static inline uint32_t tcp_first_clamp(uint32_t window_clamp, uint32_t segments, uint32_t mss)
{
	return segments ? min_u32(window_clamp, segments * mss) : window_clamp;
}

/* The window of a SYN, which is never scaled. */
static inline uint16_t tcp_syn_window(uint32_t rcvbuf, uint32_t window_clamp)
{
	return (uint16_t)min_u32(min_u32(rcvbuf, window_clamp), UINT16_MAX);
}

static inline bool tcp_fin_acked(const struct tcp_conn *c)
{
	return (c->flags & CONN_FIN_SENT) && !tcp_in_flight(c);
}

static inline bool tcp_may_send(const struct tcp_conn *c)
{
	return c->state == TCP_ESTABLISHED || c->state == TCP_CLOSE_WAIT;
}

/* States in which our data and FIN may be in flight. */
static inline bool tcp_synchronized(const struct tcp_conn *c)
{
	return c->state >= TCP_ESTABLISHED;
}

static inline uint32_t tcp_msec(nsec_t now)
{
	return (uint32_t)((uint64_t)now / NSEC_PER_MSEC);
}

static inline uint32_t tcp_ts_now(const struct tcp_conn *c, nsec_t now)
{
	return tcp_msec(now) + c->ts_offset;
}

static inline uint32_t tcp_usec(nsec_t now)
{
	return (uint32_t)((uint64_t)now / NSEC_PER_USEC);
}

static inline uint8_t tcp_wscale_for(uint32_t rcvbuf, uint32_t window_clamp)
{
	uint32_t buf = min_u32(max_u32(rcvbuf, TCP_WSCALE_FOR), window_clamp);
	uint8_t shift = 0;

	while (shift < TCP_WSCALE_MAX && buf >> shift > UINT16_MAX)
		shift++;
	return shift;
}

/* IP and TCP headers without options. */
static inline uint32_t tcp_headers(const struct tcp_conn *c)
{
	return (c->ip6 ? IP6_HDR : IP4_HDR) + TCP_HDR;
}

/* tcp_conn.c: with CONN_SND_FULL: there may be room now */
void tcp_tell_writable(struct tcp_conn *c);
/* With notsent_lowat: the number of unsent bytes changed. */
void tcp_look_at_unsent(struct tcp_conn *c);

/*
 * The ISS of a connection that replaces one of the same pair in TIME_WAIT: beyond everything the
 * old one sent (RFC 1122 section 4.2.2.13); the distance is Linux's.
 */
static inline uint32_t tcp_iss_beyond(uint32_t snd_nxt)
{
	return snd_nxt + 65535 + 2;
}

static inline void tcp_note_iss(struct pkt *pkt, uint32_t iss)
{
	pkt->iss = iss;
	pkt->flags |= PKT_ISS;
}

/* tcp_state.c */
void tcp_set_state(struct tcp_conn *c, enum tcp_state next);
/* Enters CLOSED and frees everything but readable data; calls no callback. */
void tcp_retire(struct tcp_conn *c, nsec_t now);
/* As tcp_retire(), then calls ops->closed(error). */
void tcp_finish(struct tcp_conn *c, int error, nsec_t now);
/* The handshake is complete: counts the SYN as acknowledged and calls ops->established(). */
void tcp_establish(struct tcp_conn *c, nsec_t now);
/* A FIN is requested and the state allows it: enters FIN_WAIT_1 or LAST_ACK. */
void tcp_begin_fin(struct tcp_conn *c);
void tcp_enter_time_wait(struct tcp_conn *c, nsec_t now);

/* True for a SYN that opens a connection. */
static inline bool tcp_begins(const struct tcp_arrival *a)
{
	return (a->flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN;
}

/*
 * In TIME_WAIT: true if this SYN may open a new connection. RFC 6191 section 2, as Linux does: for
 * a connection without timestamps only the sequence numbers count, whatever the SYN offers.
 */
static inline bool tcp_reopens(const struct tcp_arrival *a, bool timestamps, uint32_t ts_recent,
			       uint32_t rcv_nxt)
{
	if (timestamps && a->opt.has_ts && a->opt.tsval != ts_recent)
		return seq_gt(a->opt.tsval, ts_recent);
	return seq_gt(a->seq, rcv_nxt);
}

/* PAWS, RFC 7323 section 5.3; a RST is exempt (section 3.2). */
static inline bool tcp_is_outdated(const struct tcp_arrival *a, bool timestamps, uint32_t ts_recent)
{
	return timestamps && a->opt.has_ts && !(a->flags & TCP_RST) &&
	       seq_lt(a->opt.tsval, ts_recent);
}

/* tcp_ack.c */
/* RFC 9293 3.10.7.4 step 5; false: the segment is done. */
bool tcp_ack_process(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now);
/* Advances snd_una to ack, which is acceptable and new; news: NULL if c->trouble is false. */
void tcp_ack_advance(struct tcp_conn *c, uint32_t ack, struct tcp_news *news, nsec_t now);
void tcp_ack_new_window(struct tcp_conn *c, uint32_t wnd);
static inline void tcp_ack_set_window(struct tcp_conn *c, uint32_t seq, uint32_t wnd)
{
	if (wnd != c->snd_wnd)
		tcp_ack_new_window(c, wnd);
	c->snd_wl1 = seq;
}
/* Applies the options of the peer's SYN. */
void tcp_ack_peer_options(struct tcp_conn *c, const struct tcp_options *opt);

/* Records duplicate data, which the next ACK reports. */
static inline void tcp_note_duplicate(struct tcp_conn *c, uint32_t start, uint32_t end)
{
	if (!(c->flags & CONN_SACK) || !seq_lt(start, end) || !tcp_rare(c))
		return;
	c->rare->dsack = (struct tcp_range){start, end};
	c->flags |= CONN_DSACK;
}

/* tcp_ecn.c: call with CONN_ECN set */
void tcp_ecn_received(struct tcp_conn *c, const struct tcp_arrival *a);
void tcp_ecn_mark(struct tcp_conn *c, struct tcp_segment *seg);
/* The window was reduced for any reason: the peer must be told. */
void tcp_ecn_reduced(struct tcp_conn *c);
/* Clears CONN_ECN unless the flags of the peer's SYN agree. */
void tcp_ecn_syn_ack(struct tcp_conn *c, uint8_t flags);

/* tcp_mtu.c */
/* The timer expired several times without progress: assumes a black hole. */
void tcp_mtu_black_hole(struct tcp_conn *c, nsec_t now);
/* With c->hole_mss: the size of an MTU probe; 0: none now. */
uint32_t tcp_mtu_probe(const struct tcp_conn *c, nsec_t now);
void tcp_mtu_probe_sent(struct tcp_conn *c);
void tcp_mtu_probe_acked(struct tcp_conn *c);
void tcp_mtu_probe_lost(struct tcp_conn *c, nsec_t now);

/* tcp_pace.c */
/* The pacing rate in bytes per second; 0: unlimited. */
uint64_t tcp_pacing(const struct tcp_conn *c);
/* call with WAY_PACED set */
bool tcp_pace_may(struct tcp_conn *c, uint32_t len, nsec_t now);
void tcp_pace_sent(struct tcp_conn *c, uint32_t len, nsec_t now);

/* tcp_eor.c */
/* The last queued byte ends its segment. */
void tcp_eor_queued(struct tcp_conn *c);
/* The others: with WAY_EOR. Forgets the places that were acknowledged. */
void tcp_eor_acked(struct tcp_conn *c);
/* How many of the len bytes from seq on may be in one segment. */
uint32_t tcp_eor_cut(const struct tcp_conn *c, uint32_t seq, uint32_t len);
/* The beginning of the last segment of [seq, end). */
uint32_t tcp_eor_begin(const struct tcp_conn *c, uint32_t seq, uint32_t end);

/* tcp_tune.c */
void tcp_tune_init(struct tcp_conn *c, const struct tcp_config *config);
void tcp_tune_established(struct tcp_conn *c, nsec_t now);
void tcp_tune_read(struct tcp_conn *c, nsec_t now);
void tcp_tune_rtt(struct tcp_conn *c, const struct tcp_arrival *a, nsec_t now);
/* The send buffer is full or nearly full: may enlarge it. */
void tcp_tune_full(struct tcp_conn *c);

/* tcp_urgent.c */
/* The last queued byte is urgent. */
void tcp_urgent_queued(struct tcp_conn *c);
/* Sets the urgent pointer of a segment to send; call with CONN_URG_OUT set. */
void tcp_urgent_mark(struct tcp_conn *c, struct tcp_segment *seg);
/* RFC 9293 3.10.7.4 step 6. */
void tcp_urgent_step_6(struct tcp_conn *c, const struct tcp_arrival *a);
/* With c->urgent set: the bytes that a read may return; it stops at the mark. */
uint32_t tcp_urgent_readable(const struct tcp_conn *c);
ssize_t tcp_urgent_read(struct tcp_conn *c, const struct iovec *iov, int iovcnt, bool peek);

/* tcp_text.c: RFC 9293 3.10.7.4 steps 7 and 8; false: the segment is done. */
bool tcp_text_step_7(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now);
void tcp_text_step_8(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now);

/* tcp_loss.c */
/*
 * Processes an ACK that reports more than in-order delivery. bytes were acknowledged (snd_una has
 * advanced), flight bytes were in flight before.
 */
void tcp_loss_acked(struct tcp_conn *c, struct tcp_news *news, uint32_t bytes, uint32_t flight,
		    nsec_t now);
void tcp_loss_timeout(struct tcp_conn *c, nsec_t now);
void tcp_loss_reorder_timeout(struct tcp_conn *c, nsec_t now);
uint32_t tcp_loss_pipe(const struct tcp_conn *c);
/* The number of lost bytes to retransmit next, at or after *seq, which is set; 0: none. */
uint32_t tcp_loss_next(const struct tcp_conn *c, uint32_t *seq);
/* [seq, end) was retransmitted. */
void tcp_loss_resent(struct tcp_conn *c, uint32_t seq, uint32_t end, nsec_t now);
/* Frees the flight list, when nothing is in flight or the connection ends. */
void tcp_loss_fini(struct tcp_conn *c);

/* tcp_rack.c */
/* Applies the SACK blocks of an ACK for ack. */
void tcp_rack_sacked(struct tcp_conn *c, const struct tcp_options *opt, uint32_t ack,
		     struct tcp_news *news);
void tcp_rack_learn(struct tcp_conn *c, const struct tcp_news *news);
/* Marks lost segments; flight->reo_wait is the time until the next check. */
void tcp_rack_detect(struct tcp_conn *c, uint32_t usec);
void tcp_rack_timeout(struct tcp_conn *c, uint32_t usec);
void tcp_rack_recovered(struct tcp_flight *f);
/* The input of hashes over a pair of endpoints. */
#define TCP_PAIR 36u
void tcp_pack_pair(uint8_t bytes[TCP_PAIR], const struct endpoint *local,
		   const struct endpoint *remote);

/*
 * The time until the tail loss probe, or NSEC_NEVER. RFC 8985 section 7.2: the ACK of a single segment
 * may be delayed by up to 200 ms. Most peers delay by 40 ms, so probes are sent sooner, until too many
 * were needless; and again after a timeout repaired what a probe would have repaired.
 */
static inline nsec_t tcp_tlp_timeout(const struct tcp_conn *c)
{
	nsec_t pto = 2 * c->rtt.srtt;

	if (!(c->flags & CONN_SACK) || !c->flight || c->trouble || c->rtt.srtt == 0 ||
	    !tcp_synchronized(c))
		return NSEC_NEVER;
	if (c->snd_nxt - c->snd_una <= c->mss)
		pto += c->probe_credit ? TCP_ACK_DELAY : TCP_ACK_DELAY_MAX;
	return pto > TCP_TLP_MIN ? pto : TCP_TLP_MIN;
}
void tcp_tlp_sent(struct tcp_conn *c, enum tcp_tlp what, nsec_t now);
bool tcp_tlp_acked(struct tcp_conn *c, const struct tcp_news *news);

/* tcp_undo.c */
/* A recovery begins; call before the window is reduced. */
void tcp_undo_begin(struct tcp_conn *c);
void tcp_undo_resent(struct tcp_conn *c, nsec_t now);
void tcp_undo_acked(struct tcp_conn *c, const struct tcp_news *news);

/* Bytes in flight, as RFC 6675 section 4 counts them. */
static inline uint32_t tcp_pipe(const struct tcp_conn *c)
{
	if (likely(!c->trouble))
		return c->snd_nxt - c->snd_una;
	return tcp_loss_pipe(c);
}

/* The window that the peer knows, rounded down by scaling. */
static inline uint32_t tcp_window_told(const struct tcp_conn *c)
{
	return (c->rcv_edge - c->rcv_nxt) >> c->rcv_wscale << c->rcv_wscale;
}

/* tcp_output.c */
void tcp_output(struct tcp_conn *c, nsec_t now);
/* Counts a segment that was sent again, with len bytes of data. */
void tcp_count_retransmit(struct tcp_conn *c, uint32_t len);
/* Sends new data, or retransmits the last segment, regardless of the congestion window. */
bool tcp_output_tail(struct tcp_conn *c, nsec_t now);
/* Sends a segment without data that acknowledges; false if it could not be sent. */
bool tcp_emit_bare(struct tcp_conn *c, uint32_t seq, uint8_t flags, nsec_t now);
/* How far the right window edge could advance now; 0 if it is not worth an update. */
uint32_t tcp_output_window_gain(struct tcp_conn *c);

/* tcp_control.c */
/* Sends SYN, or SYN-ACK in SYN_RECEIVED. */
void tcp_output_syn(struct tcp_conn *c, nsec_t now);
void tcp_output_ack(struct tcp_conn *c, nsec_t now);
/* Sends a challenge ACK, limited so that two confused peers do not answer each other forever. */
void tcp_output_challenge(struct tcp_conn *c, nsec_t now);
/* Sends an old sequence number, which makes the peer answer: keepalive and window probe. */
void tcp_output_probe(struct tcp_conn *c, nsec_t now);
void tcp_output_rst(struct tcp_conn *c, nsec_t now);

/* tcp_settings.c: what the route says from the beginning on; see struct tcp_config. */
void tcp_begin_route(struct tcp_conn *c, const struct route_metrics *metrics);
/*
 * initrwnd of the route: the first window, before any is offered, has that many segments of mss bytes.
 * Does nothing without it.
 */
void tcp_begin_window(struct tcp_conn *c, uint32_t mss);
/* There would be room for more than c->window_clamp: opens it further, if it is not open yet. */
uint32_t tcp_open_window(struct tcp_conn *c);
/* The minimum of the retransmission timeout, and the first flight in bytes. */
nsec_t tcp_min_rto_rare(const struct tcp_conn *c);
static inline nsec_t tcp_min_rto(const struct tcp_conn *c)
{
	return unlikely(c->rare != NULL) ? tcp_min_rto_rare(c) : tcp_settings.min_rto;
}
uint32_t tcp_initial_window(const struct tcp_conn *c);
/* Sets the congestion window of the first flight. */
void tcp_begin_flight(struct tcp_conn *c);
/* No acknowledgement is delayed: so it was configured, or the route says so. */
static inline bool tcp_never_delays(const struct tcp_conn *c)
{
	return (c->flags & CONN_QUICKACK) || (unlikely(c->rare != NULL) && c->rare->route.quickack);
}

/* tcp_timer.c: events, which start and stop the timers. */
void tcp_timer_syn_sent(struct tcp_conn *c, nsec_t now);
void tcp_timer_data_sent(struct tcp_conn *c, bool first, nsec_t now);
void tcp_timer_lost_resent(struct tcp_conn *c, nsec_t now);
void tcp_timer_duplicate(struct tcp_conn *c, nsec_t now);
/* With data in flight: RFC 6298 (5.3) */
void tcp_timer_restart(struct tcp_conn *c, nsec_t now);
/* RFC 6298 (5.2), (5.3) */
static inline void tcp_timer_acked(struct tcp_conn *c, nsec_t now)
{
	c->retries = 0;
	c->probes = 0;
	c->progress_at = now;
	if (likely(!tcp_in_flight(c)))
		c->rto_at = NSEC_NEVER;
	else
		tcp_timer_restart(c, now);
}

void tcp_timer_held_back(struct tcp_conn *c, nsec_t now);
/* An acknowledgement comes before the peer's timeout, if that has the same minimum. */
static inline nsec_t tcp_delack(const struct tcp_conn *c)
{
	nsec_t most = tcp_min_rto(c) - NSEC_PER_MSEC;

	return likely(most >= TCP_DELACK) ? TCP_DELACK : most;
}
static inline void tcp_timer_data_received(struct tcp_conn *c, nsec_t now)
{
	if (c->ack_at == NSEC_NEVER)
		c->ack_at = now + tcp_delack(c);
}

static inline void tcp_timer_ack_sent(struct tcp_conn *c)
{
	c->ack_at = NSEC_NEVER;
}

void tcp_timer_established(struct tcp_conn *c, nsec_t now);
/* True if the connection was reset because the program has left and waits for no FIN. */
bool tcp_timer_fin_wait_2(struct tcp_conn *c, nsec_t now);
void tcp_timer_time_wait(struct tcp_conn *c, nsec_t now);
static inline void tcp_timer_buffer_empty(struct tcp_conn *c, nsec_t now)
{
	if (c->trim_at == NSEC_NEVER)
		c->trim_at = now + TCP_TRIM_IDLE;
}

void tcp_timer_stop_all(struct tcp_conn *c);

/*
 * In-order data arrived: bytes, in segments of at most largest; push: with PSH. Marks an owed
 * acknowledgement.
 */
static inline void tcp_data_received(struct tcp_conn *c, uint32_t bytes, uint32_t largest,
				     bool push, nsec_t now)
{
	if (unlikely(c->rcv_nxt - c->irs < bytes)) /* rcv_nxt has just wrapped past irs */
		c->nxt_hi++;
	if (unlikely(largest > c->rcv_mss))
		c->rcv_mss = (uint16_t)min_u32(largest, c->config_mss);
	if (unlikely(now - c->data_rx_at > c->rtt.rto))
		c->quickacks = TCP_QUICKACKS; /* after a pause the peer is in slow start */
	c->data_rx_at = now;
	c->flags |= CONN_ACK_OWED;
	/* The peer has no more data now, so hold_ack() would wait in vain. */
	if (push && c->rcv_nxt - c->rcv_acked > c->rcv_mss)
		c->flags |= CONN_ACK_NOW;
	tcp_timer_data_received(c, now);
}

#endif
