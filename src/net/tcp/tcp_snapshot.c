/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fixed part is an image of the engine's structs with pointers cleared.  The bytes to send,
 * the bytes to read, and the out-of-order segments follow.  The reader trusts none of it: it
 * checks or recomputes every number on which something depends.
 */
#include "net/tcp/tcp_snapshot.h"

#include <errno.h>
#include <string.h>

#include "net/tcp/tcp_handover.h"
#include "net/tcp/tcp_internal.h"

#define MAGIC 0x736e6170u
#define VERSION 3u
#define CHUNK 32768u	      /* bytes to read per packet */
#define FAR ((nsec_t)1 << 55) /* a year: the limit of relative times */
#define NOW_MAX ((nsec_t)1 << 60)
#define BUFFER_MAX TCP_CC_MAX_WINDOW
#define MSS_LEAST (TCP_MSS_MIN - TCP_OPT_TIMESTAMPS)

/* The header of an out-of-order packet. */
struct early {
	uint32_t seq;
	uint16_t len;
	uint8_t flags;
	uint8_t zero;
};

struct head {
	uint32_t magic, version;
	uint32_t conn_size, rare_size; /* of the images, to reject another build's */
	nsec_t now;		       /* the writer's clock */
	uint32_t to_send, to_read;     /* bytes */
	uint32_t early;		       /* packets */
	uint32_t early_bytes;
	bool has_rare;
	uint8_t cc; /* number of the congestion control algorithm */
	uint8_t zero[6];
	struct tcp_conn conn;
	struct tcp_rare rare;
};

/* ---- writing -------------------------------------------------------------------------- */

static void count_early(const struct tcp_conn *c, uint32_t *packets, uint32_t *bytes)
{
	*packets = 0;
	*bytes = 0;
	for (const struct pkt *pkt = c->rcv.ooo; pkt; pkt = pkt->next) {
		++*packets;
		*bytes += pkt->len;
	}
}

static size_t size_of(uint32_t to_send, uint32_t to_read, uint32_t early, uint32_t early_bytes)
{
	return sizeof(struct head) + to_send + to_read + early * sizeof(struct early) + early_bytes;
}

size_t tcp_snapshot_size(const struct tcp_conn *c)
{
	uint32_t early, bytes;

	count_early(c, &early, &bytes);
	return size_of(c->snd.len, c->rcv.bytes, early, bytes);
}

static void fill_head(struct head *h, const struct tcp_conn *c, nsec_t now)
{
	memset(h, 0, sizeof(*h));
	h->magic = MAGIC;
	h->version = VERSION;
	h->conn_size = sizeof(h->conn);
	h->rare_size = sizeof(h->rare);
	h->now = now;
	h->to_send = c->snd.len;
	h->to_read = c->rcv.bytes;
	count_early(c, &h->early, &h->early_bytes);
	h->has_rare = c->rare != NULL;
	h->cc = (uint8_t)tcp_cc_number_of(c->cc.ops->name);
	h->conn = *c;
	h->conn.way &= (uint8_t)~WAY_FIN;
	if (c->rare)
		h->rare = *c->rare;
	h->conn.ops = NULL;
	h->conn.cc.ops = NULL;
	memset(&h->conn.snd, 0, sizeof(h->conn.snd));
	memset(&h->conn.rcv, 0, sizeof(h->conn.rcv));
	h->conn.flight = NULL;
	h->conn.rare = NULL;
}

void tcp_snapshot_write(const struct tcp_conn *c, uint8_t *to, nsec_t now)
{
	struct head h;

	fill_head(&h, c, now);
	memcpy(to, &h, sizeof(h));
	to += sizeof(h);
	tcp_handover_copy_to_send(c, to);
	to += c->snd.len;
	tcp_handover_copy_to_read(c, to);
	to += c->rcv.bytes;
	for (const struct pkt *pkt = c->rcv.ooo; pkt; pkt = pkt->next) {
		struct early e = {.seq = pkt->seq, .len = pkt->len, .flags = pkt->tcp_flags};

		memcpy(to, &e, sizeof(e));
		memcpy(to + sizeof(e), pkt_payload(pkt), pkt->len);
		to += sizeof(e) + pkt->len;
	}
}

void tcp_snapshot_release(struct tcp_conn *c)
{
	c->flags |= CONN_DETACHED; /* no program reads here any more */
	if (c->state != TCP_CLOSED)
		tcp_retire(c, 0);
	tcp_recvq_purge(&c->rcv);
	tcp_rare_fini(c);
}

/* ---- validation -------------------------------------------------------------------------- */

static bool within(uint32_t value, uint32_t least, uint32_t most)
{
	return value >= least && value <= most;
}

static bool sane_sizes(const struct tcp_conn *c)
{
	return within(c->path_mss, MSS_LEAST, UINT16_MAX) &&
	       within(c->mss, MSS_LEAST, c->path_mss) && c->agreed_mss >= MSS_LEAST &&
	       c->config_mss >= MSS_LEAST && c->rcv_mss && c->snd_wscale <= TCP_WSCALE_MAX &&
	       c->rcv_wscale <= TCP_WSCALE_MAX && within(c->rcvbuf, 1, BUFFER_MAX) &&
	       within(c->sndbuf, 1, BUFFER_MAX) && within(c->rcvbuf_max, c->rcvbuf, BUFFER_MAX) &&
	       within(c->sndbuf_max, c->sndbuf, BUFFER_MAX) && c->window_clamp && c->notsent_lowat;
}

/* Checks sequence numbers and byte counts. */
static bool sane_numbers(const struct head *h)
{
	const struct tcp_conn *c = &h->conn;
	uint32_t out = c->snd_nxt - c->snd_una, fin = (c->flags & CONN_FIN_SENT) != 0;
	uint32_t syn = c->state == TCP_SYN_SENT || c->state == TCP_SYN_RECEIVED;

	if (h->to_send > c->sndbuf_max || h->to_read > BUFFER_MAX || h->early_bytes > BUFFER_MAX ||
	    h->early > BUFFER_MAX / sizeof(struct early))
		return false;
	if (c->state == TCP_CLOSED)
		return h->to_send == 0 && h->early == 0;
	if (c->rcv_edge - c->rcv_nxt > 2 * BUFFER_MAX && c->state != TCP_SYN_SENT)
		return false;
	if (c->rcv_nxt - c->rcv_acked > 2 * BUFFER_MAX)
		return false;
	if (syn)
		return out == 1 && h->to_send == 0 && h->to_read == 0;
	/* All bytes in flight are queued, except an unacknowledged FIN. */
	return out <= h->to_send + fin && (!fin || out >= h->to_send);
}

/* Checks that state in struct tcp_rare exists where flags need it. */
static bool sane_rare(const struct head *h)
{
	const struct tcp_conn *c = &h->conn;
	uint32_t needs = CONN_URG_OUT | CONN_URG_WAIT | CONN_DSACK;

	if (c->sacks > TCP_SACK_BLOCKS || c->limit >= TCP_LIMITS || c->urgent > 3 ||
	    (c->way & ~(WAY_PACED | WAY_HOLE | WAY_EOR)) || h->rare.eors > TCP_EORS)
		return false;
	if (!(c->way & WAY_HOLE) != !c->hole_mss || (c->hole_mss && c->hole_mss < c->path_mss))
		return false;
	if (((c->way & WAY_PACED) && !h->rare.pace.rate) ||
	    (h->rare.window_opens && !h->rare.window_clamp))
		return false;
	return h->has_rare || (!c->sacks && !c->limit && !c->urgent && !c->way && !c->hole_mss &&
			       !(c->flags & needs));
}

static bool sane_flags(const struct tcp_conn *c)
{
	bool fin_state = c->state == TCP_FIN_WAIT_1 || c->state == TCP_FIN_WAIT_2 ||
			 c->state == TCP_CLOSING || c->state == TCP_LAST_ACK ||
			 c->state == TCP_TIME_WAIT;

	if (c->state > TCP_TIME_WAIT || c->state == TCP_LISTEN || (c->flags & CONN_DETACHED))
		return false;
	if (fin_state && !(c->flags & CONN_FIN_WANTED))
		return false;
	if ((c->flags & CONN_FIN_SENT) && !(c->flags & CONN_FIN_WANTED))
		return false;
	return c->state == TCP_CLOSED || (c->flags & CONN_STARTED);
}

static bool sane_rtt(const struct rtt *rtt)
{
	return rtt->rto >= RTT_LEAST_MIN_RTO && rtt->rto <= RTT_MAX_RTO && rtt->srtt >= 0 &&
	       rtt->srtt <= RTT_MAX_RTO && rtt->rttvar >= 0 && rtt->rttvar <= RTT_MAX_RTO &&
	       rtt->min >= 0 && rtt->min <= RTT_MAX_RTO;
}

/* Called before the value is used as a bool. */
static bool is_bool(const void *value)
{
	uint8_t byte;

	memcpy(&byte, value, sizeof(byte));
	return byte <= 1;
}

static bool sane_bools(const struct head *h)
{
	return is_bool(&h->has_rare) && is_bool(&h->rare.window_closed) &&
	       is_bool(&h->rare.route.quickack) && is_bool(&h->rare.route.cc_locked) &&
	       is_bool(&h->rare.route.ecn) && is_bool(&h->conn.keepalive.on) &&
	       is_bool(&h->conn.trouble);
}

/* Checks the head against itself and the total length. */
static bool is_sane(const struct head *h, size_t len)
{
	const struct tcp_conn *c = &h->conn;

	if (h->magic != MAGIC || h->version != VERSION || h->conn_size != sizeof(h->conn) ||
	    h->rare_size != sizeof(h->rare) || h->now < 0 || h->now > NOW_MAX)
		return false;
	return sane_bools(h) && sane_flags(c) && sane_sizes(c) && sane_numbers(h) && sane_rare(h) &&
	       sane_rtt(&c->rtt) && within(c->cc.cwnd, 1, TCP_CC_MAX_WINDOW) &&
	       (!c->keepalive.on || (c->keepalive.idle && c->keepalive.interval)) &&
	       len == size_of(h->to_send, h->to_read, h->early, h->early_bytes);
}

/* ---- reading --------------------------------------------------------------------------- */

static void shift_time(nsec_t *at, nsec_t was, nsec_t is)
{
	nsec_t away = (nsec_t)((uint64_t)*at - (uint64_t)was);

	if (*at == NSEC_NEVER)
		return;
	if (away > FAR)
		away = FAR;
	if (away < -FAR)
		away = -FAR;
	*at = is + away;
}

/* Converts times from the writer's clock to ours. */
static void shift_times(struct tcp_conn *c, const struct head *h, nsec_t now)
{
	nsec_t *const times[] = {&c->rto_at,  &c->ack_at,      &c->life_at,
				 &c->trim_at, &c->rx_at,       &c->data_rx_at,
				 &c->tx_at,   &c->progress_at, &c->ts_recent_at};

	for (unsigned i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		shift_time(times[i], h->now, now);
	c->ts_offset += tcp_msec(h->now) - tcp_msec(now);
	c->tune_at += tcp_usec(now) - tcp_usec(h->now);
	/* While data is queued, busy has its start subtracted. */
	if (h->to_send)
		c->busy = (nsec_t)((uint64_t)c->busy + (uint64_t)h->now - (uint64_t)now);
}

static bool read_rare(struct tcp_conn *c, const struct head *h, nsec_t now)
{
	nsec_t *limited;

	if (!h->has_rare)
		return true;
	if (!tcp_rare(c))
		return false;
	*c->rare = h->rare;
	c->rare->taken = 0; /* those packets stay with the other process */
	c->rare->owner = NULL;
	shift_time(&c->rare->probe_at, h->now, now);
	shift_time(&c->rare->challenge_at, h->now, now);
	shift_time(&c->rare->pace.at, h->now, now);
	limited = &c->rare->limited[c->limit];
	if (c->limit)
		*limited = (nsec_t)((uint64_t)*limited + (uint64_t)h->now - (uint64_t)now);
	return true;
}

/* Keeps the windows of the path, but not the position on the CUBIC curve. */
static void read_cc(struct tcp_conn *c, const struct head *h)
{
	struct tcp_cc *cc = &c->cc;
	uint32_t cwnd = cc->cwnd, ssthresh = cc->ssthresh;

	if (c->recovery == TCP_RECOVERY_FAST && ssthresh < cwnd)
		cwnd = ssthresh;
	tcp_cc_init(cc, tcp_cc_by_number(h->cc), c->mss);
	cc->ssthresh = ssthresh;
	cc->cwnd = cwnd;
	tcp_cc_set_mss(cc, c->mss);
}

static bool read_to_send(struct tcp_conn *c, const uint8_t *from, uint32_t len)
{
	struct iovec iov = {(void *)(uintptr_t)from, len};

	if (!len)
		return true;
	if (tcp_sndbuf_reserve(&c->snd, c->ops, len, len) < len)
		return false;
	return tcp_sndbuf_append(&c->snd, &iov, 1, len);
}

/* Makes the data in flight one run that was just retransmitted. */
static bool make_flight(struct tcp_conn *c, nsec_t now)
{
	struct tcp_flight *f;

	c->recovery = TCP_RECOVERY_NONE;
	c->dupacks = 0;
	c->trouble = false;
	c->flags &= ~(uint32_t)(CONN_RTX_NOW | CONN_MTU_PROBE);
	if (c->state == TCP_CLOSED) {
		tcp_timer_stop_all(c);
		return true;
	}
	if (tcp_in_flight(c) && (c->timer != TCP_TIMER_RTO || c->rto_at == NSEC_NEVER))
		c->rto_at = now + c->rtt.rto;
	c->timer = TCP_TIMER_RTO;
	if (!c->snd.len)
		return true;
	if (!tcp_flight_create(c))
		return false;
	f = c->flight;
	f->start = c->snd_una;
	f->undo_end = c->snd_nxt;
	if (tcp_in_flight(c)) {
		tcp_flight_sent(f, c->snd_nxt, tcp_usec(now), 0);
		f->r[0].what = RUN_RTX;
	}
	return true;
}

static struct pkt *packet_of(tcp_snapshot_pkt_fn make, const uint8_t *from, uint32_t len,
			     uint32_t seq)
{
	struct pkt *pkt = make(len);

	if (!pkt)
		return NULL;
	memcpy(pkt->frame, from, len);
	pkt->frame_len = len;
	pkt->off = 0;
	pkt->len = (uint16_t)len;
	pkt->seq = seq;
	pkt->tcp_flags = 0;
	pkt->next = NULL;
	return pkt;
}

static int read_to_read(struct tcp_conn *c, const uint8_t *from, uint32_t len,
			tcp_snapshot_pkt_fn make)
{
	uint32_t seq = c->rcv_nxt - ((c->flags & CONN_FIN_RCVD) != 0) - len, n;
	bool pruned = false;

	for (; len; len -= n) {
		struct pkt *pkt;

		n = min_u32(len, CHUNK);
		pkt = packet_of(make, from, n, seq);
		if (!pkt)
			return -ENOMEM;
		if (!tcp_recvq_append(&c->rcv, pkt, &pruned)) {
			pkt_free(pkt);
			return -EINVAL; /* more than the limit of the writer */
		}
		from += n;
		seq += n;
	}
	return 0;
}

/* Reads the out-of-order segments; left: bytes of their records. */
static int read_early(struct tcp_conn *c, const struct head *h, const uint8_t *from, size_t left,
		      tcp_snapshot_pkt_fn make)
{
	for (uint32_t i = 0; i < h->early; i++) {
		uint32_t start, end;
		struct early e;
		struct pkt *pkt;

		if (left < sizeof(e))
			return -EINVAL;
		memcpy(&e, from, sizeof(e));
		from += sizeof(e);
		left -= sizeof(e);
		if (e.len > left || e.seq - c->rcv_nxt > c->rcv_edge - c->rcv_nxt ||
		    e.len > c->rcv_edge - e.seq)
			return -EINVAL;
		pkt = packet_of(make, from, e.len, e.seq);
		if (!pkt)
			return -ENOMEM;
		pkt->tcp_flags = e.flags & TCP_FIN;
		if (!tcp_recvq_insert(&c->rcv, pkt, &start, &end))
			pkt_free(pkt); /* the peer retransmits it */
		from += e.len;
		left -= e.len;
	}
	return 0;
}

static int read_all(struct tcp_conn *c, const struct head *h, const uint8_t *from, size_t len,
		    tcp_snapshot_pkt_fn make, nsec_t now)
{
	int rc;

	shift_times(c, h, now);
	read_cc(c, h);
	tcp_recvq_set_limit(&c->rcv, c->rcvbuf);
	if (!read_rare(c, h, now) || !read_to_send(c, from, h->to_send) || !make_flight(c, now))
		return -ENOMEM;
	from += h->to_send;
	rc = read_to_read(c, from, h->to_read, make);
	if (!rc)
		rc = read_early(c, h, from + h->to_read, len - h->to_send - h->to_read, make);
	if (!c->rcv.ooo)
		c->sacks = 0;
	return rc;
}

int tcp_snapshot_read(struct tcp_conn *c, const struct tcp_ops *ops, const uint8_t *from,
		      size_t len, tcp_snapshot_pkt_fn make, nsec_t now)
{
	struct head h;
	int rc;

	if (len < sizeof(h))
		return -EINVAL;
	memcpy(&h, from, sizeof(h));
	if (!is_sane(&h, len))
		return -EINVAL;
	*c = h.conn;
	c->ops = ops;
	c->flight = NULL;
	c->rare = NULL;
	memset(&c->snd, 0, sizeof(c->snd));
	memset(&c->rcv, 0, sizeof(c->rcv));
	rc = read_all(c, &h, from + sizeof(h), len - sizeof(h), make, now);
	if (rc)
		tcp_snapshot_release(c);
	return rc;
}

void tcp_snapshot_probe(struct tcp_conn *c, nsec_t now)
{
	if (tcp_synchronized(c) && c->state != TCP_TIME_WAIT)
		tcp_output_probe(c, now);
}

void tcp_snapshot_lost(struct tcp_conn *c, const struct tcp_ops *ops,
		       const struct tcp_config *config, int error)
{
	tcp_init(c, ops, config);
	c->flags |= CONN_STARTED;
	c->error = error;
}
