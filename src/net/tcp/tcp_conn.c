/* SPDX-License-Identifier: BSD-2-Clause */
/* Creation and end of a connection, and the program's calls: RFC 9293 section 3.9.1. */
#include "net/tcp/tcp_conn.h"

#include <errno.h>

#include "net/tcp/tcp_internal.h"

/* ---- life -------------------------------------------------------------------------- */

void tcp_init(struct tcp_conn *c, const struct tcp_ops *ops, const struct tcp_config *config)
{
	*c = (struct tcp_conn){.ops = ops, .state = TCP_CLOSED};
	c->config_mss = tcp_mss_to_announce(config);
	c->ip6 = config->ip6;
	c->agreed_mss = (uint16_t)max_u32(config->mss, TCP_MSS_MIN);
	c->route_mss = UINT16_MAX;
	if (config->route_mss)
		c->route_mss = (uint16_t)max_u32(config->route_mss, TCP_MSS_MIN);
	c->path_mss = (uint16_t)min_u32(c->agreed_mss, c->route_mss);
	c->mss = c->path_mss;
	c->rcv_mss = (uint16_t)min_u32(c->config_mss, TCP_MSS_DEFAULT_V4);
	tcp_tune_init(c, config);
	tcp_set_notsent_lowat(c, 0);
	c->linger2 = TCP_FIN_WAIT_2_LEN / NSEC_PER_SEC;
	if (config->nodelay)
		c->flags |= CONN_NODELAY;
	if (config->quickack)
		c->flags |= CONN_QUICKACK;
	if (config->timestamps)
		c->flags |= CONN_TIMESTAMPS;
	if (config->ecn == TCP_ECN_ASK)
		c->flags |= CONN_ECN;
	if (tcp_settings.sack)
		c->flags |= CONN_SACK;
	if (tcp_settings.window_scaling)
		c->flags |= CONN_WSCALE;
	c->quickacks = TCP_QUICKACKS;
	c->probe_credit = TCP_PROBE_CREDIT;
	c->data_rx_at = LONG_AGO;
	rtt_init(&c->rtt);
	tcp_cc_init(&c->cc, tcp_cc_by_number(config->cc_algo), c->mss);
	tcp_begin_route(c, &config->route);
	tcp_set_window_clamp(c, config->window_clamp);
	tcp_timer_stop_all(c);
}

/* mss: announced, without the options of each segment as far as they are known. */
static void start_handshake(struct tcp_conn *c, struct tcp_start from, uint32_t mss, nsec_t now)
{
	c->flags |= CONN_STARTED;
	c->iss = from.iss;
	c->ts_offset = from.ts_offset;
	c->snd_una = c->iss;
	c->snd_nxt = c->iss + 1;
	c->recover = c->iss;
	c->rcv_wscale = tcp_wscale_for(c->rcvbuf_max, c->window_clamp);
	tcp_begin_window(c, mss);
	c->rx_at = now;
	c->tx_at = now;
	tcp_timer_syn_sent(c, now);
}

int tcp_connect(struct tcp_conn *c, struct tcp_start from, nsec_t now)
{
	if (c->state != TCP_CLOSED || (c->flags & CONN_STARTED))
		return -EISCONN;
	start_handshake(c, from, c->config_mss, now);
	tcp_set_state(c, TCP_SYN_SENT);
	tcp_output_syn(c, now);
	return 0;
}

void tcp_init_passive(struct tcp_conn *c, const struct tcp_ops *ops,
		      const struct tcp_config *config, const struct tcp_synreq *req, nsec_t now)
{
	struct tcp_options opt = {
		.has_ts = req->timestamps,
		.sack_permitted = req->sack,
		.wscale = req->peer_wscale,
		.mss = req->peer_mss,
		.tsval = req->ts_recent,
	};

	tcp_init(c, ops, config);
	if (req->timestamps) /* the listener has negotiated them */
		c->flags |= CONN_TIMESTAMPS;
	c->flags &= ~(uint32_t)CONN_ECN;
	if (req->ecn)
		c->flags |= CONN_ECN;
	c->config_mss = req->mss;
	start_handshake(c, (struct tcp_start){req->iss, req->ts_offset}, tcp_synreq_payload(req),
			now);
	tcp_set_state(c, TCP_SYN_RECEIVED);
	c->irs = req->irs;
	c->rcv_nxt = req->irs + 1;
	c->rcv_acked = c->rcv_nxt;
	c->rcv_wscale = req->wscale;
	c->rcv_edge = c->rcv_nxt + req->wnd;
	tcp_ack_peer_options(c, &opt);
	tcp_ack_set_window(c, req->irs, req->peer_wnd);
	c->ts_recent_at = now;
	c->retries = req->retries;
	for (unsigned i = 0; i < req->retries; i++) /* of the listener's SYN-ACK */
		tcp_count_retransmit(c, 0);
	if (req->retries)
		c->flags |= CONN_SYN_RTX;
	else /* the handshake gives the first round-trip sample */
		c->progress_at = req->created == NSEC_NEVER ? now : req->created;
}

/* ---- receiving --------------------------------------------------------------------- */

static ssize_t recv_empty(struct tcp_conn *c)
{
	if (c->flags & CONN_FIN_RCVD)
		return 0; /* as Linux: after the FIN the stream is complete */
	if (c->state == TCP_CLOSED && c->error)
		return -tcp_take_error(c);
	if (c->flags & CONN_READ_SHUT)
		return 0;
	if (!(c->flags & CONN_STARTED))
		return -ENOTCONN;
	return c->state == TCP_CLOSED ? 0 : -EAGAIN;
}

/*
 * A read made room. Sends a window update if the window known to the peer is at most half of the
 * buffer and would at least double: not for each read, and never in small steps.
 */
static void update_window(struct tcp_conn *c, nsec_t now)
{
	uint32_t offered = tcp_window_told(c), gain;

	if (offered > c->rcvbuf / 2 || !tcp_synchronized(c) || (c->flags & CONN_FIN_RCVD))
		return;
	gain = tcp_output_window_gain(c);
	if (gain && gain >= offered)
		tcp_output_ack(c, now);
}

/* The program has read some bytes. */
static inline void read_done(struct tcp_conn *c, nsec_t now)
{
	if (unlikely(c->rcv_nxt - c->rcv.bytes - c->tune_seq >= c->rcvbuf / 2))
		tcp_tune_read(c, now);
	update_window(c, now);
}

ssize_t tcp_recv(struct tcp_conn *c, const struct iovec *iov, int iovcnt, bool peek, nsec_t now)
{
	ssize_t n;

	if (c->rcv.bytes == 0)
		return recv_empty(c);
	if (unlikely(c->urgent)) {
		n = tcp_urgent_read(c, iov, iovcnt, peek);
		if (n == 0 && tcp_readable_bytes(c) == 0)
			return recv_empty(c); /* only the urgent byte was queued, or is */
	} else {
		n = tcp_recvq_read(&c->rcv, iov, iovcnt, peek);
	}
	if (peek || unlikely(n < 0))
		return n;
	read_done(c, now);
	return n;
}

ssize_t tcp_recv_first(struct tcp_conn *c, struct pkt **pkt)
{
	if (c->rcv.bytes == 0)
		return recv_empty(c);
	if (c->urgent)
		return -EOPNOTSUPP;
	if (!tcp_rare(c) || c->rare->taken >= c->rcv.limit)
		return -ENOBUFS;
	*pkt = c->rcv.head;
	return (*pkt)->len;
}

uint32_t tcp_recv_take(struct tcp_conn *c, nsec_t now)
{
	uint32_t size = pkt_size(tcp_recvq_take(&c->rcv));

	c->rare->taken += size;
	read_done(c, now);
	return size;
}

void tcp_recv_borrowed_done(struct tcp_conn *c, nsec_t now)
{
	read_done(c, now);
}

/* The number of bytes read from the stream, in 64 bits. */
static uint64_t read_so_far(const struct tcp_conn *c)
{
	if (c->state == TCP_SYN_SENT)
		return 0;
	return ((uint64_t)c->nxt_hi << 32) + (c->rcv_nxt - c->irs - 1) -
	       !!(c->flags & CONN_FIN_RCVD) - c->rcv.bytes;
}

int tcp_set_peek_offset(struct tcp_conn *c, int offset)
{
	if (offset < 0) {
		if (c->rare)
			c->rare->peek_on = 0;
		return 0;
	}
	if (!tcp_rare(c))
		return -ENOMEM;
	c->rare->peek_on = 1;
	c->rare->peek_at = read_so_far(c) + (unsigned)offset;
	return 0;
}

int tcp_peek_offset(const struct tcp_conn *c)
{
	uint64_t base = read_so_far(c);

	if (!c->rare || !c->rare->peek_on)
		return -1;
	return c->rare->peek_at > base ? (int)(c->rare->peek_at - base) : 0;
}

ssize_t tcp_peek(struct tcp_conn *c, const struct iovec *iov, int iovcnt, uint32_t most)
{
	uint32_t skip = (uint32_t)tcp_peek_offset(c);
	ssize_t n;

	if (c->rcv.bytes <= skip)
		return recv_empty(c);
	n = c->rcv.bytes - skip < most ? c->rcv.bytes - skip : most;
	if (iov)
		n = tcp_recvq_peek(&c->rcv, iov, iovcnt, skip, most);
	if (n > 0)
		c->rare->peek_at = read_so_far(c) + skip + (uint64_t)n;
	return n;
}

uint32_t tcp_unread(const struct tcp_conn *c)
{
	return c->rcv.bytes + !!(c->flags & CONN_FIN_RCVD);
}

uint32_t tcp_readable_bytes(const struct tcp_conn *c)
{
	return unlikely(c->urgent) ? tcp_urgent_readable(c) : c->rcv.bytes;
}

/* ---- closing ----------------------------------------------------------------------- */

int tcp_shutdown(struct tcp_conn *c, nsec_t now)
{
	if (c->state == TCP_CLOSED)
		return -ENOTCONN;
	if (c->state == TCP_SYN_SENT) { /* as Linux: aborts the attempt */
		tcp_finish(c, ECONNRESET, now);
		return 0;
	}
	if (c->flags & CONN_FIN_WANTED)
		return 0;
	c->flags |= CONN_FIN_WANTED;
	tcp_begin_fin(c);
	tcp_output(c, now);
	return 0;
}

void tcp_expect_fin(struct tcp_conn *c)
{
	c->way |= WAY_FIN;
}

bool tcp_awaits_fin(const struct tcp_conn *c)
{
	return (c->flags & CONN_PACED) && !(c->way & WAY_PACED);
}

bool tcp_fin_follows(const struct tcp_conn *c, nsec_t now)
{
	if (c->state != TCP_ESTABLISHED)
		return false;
	return tcp_awaits_fin(c) || (c->data_segs_out == 1 && c->tx_at == now);
}

void tcp_shutdown_read(struct tcp_conn *c)
{
	c->flags |= CONN_READ_SHUT;
}

void tcp_close(struct tcp_conn *c, nsec_t now)
{
	bool unread = c->rcv.bytes != 0;

	c->flags |= CONN_DETACHED;
	tcp_recvq_purge(&c->rcv);
	c->sacks = 0;
	switch (c->state) {
	case TCP_CLOSED:
		tcp_rare_fini(c);
		return;
	case TCP_TIME_WAIT:
		return;
	case TCP_SYN_SENT:
		tcp_finish(c, 0, now);
		return;
	case TCP_FIN_WAIT_2:
		if (!unread && tcp_timer_fin_wait_2(c, now))
			return;
		break;
	}
	if (unread) { /* RFC 2525 section 2.17 */
		tcp_output_rst(c, now);
		tcp_finish(c, 0, now);
		return;
	}
	(void)tcp_shutdown(c, now);
}

void tcp_abort(struct tcp_conn *c, int error, nsec_t now)
{
	c->flags |= CONN_DETACHED;
	tcp_recvq_purge(&c->rcv);
	if (c->state == TCP_CLOSED) {
		tcp_rare_fini(c);
		return;
	}
	if (c->state != TCP_SYN_SENT && c->state != TCP_TIME_WAIT)
		tcp_output_rst(c, now);
	tcp_finish(c, error, now);
}

void tcp_reset_syn(struct tcp_conn *c, nsec_t now)
{
	if (c->state != TCP_SYN_SENT)
		return;
	c->ops->event(c, TCP_EVENT_RESET, 0);
	(void)tcp_emit_bare(c, c->snd_nxt, TCP_RST, now);
}

void tcp_unreachable(struct tcp_conn *c, int error, nsec_t now)
{
	if (c->state == TCP_SYN_SENT || c->state == TCP_SYN_RECEIVED)
		tcp_finish(c, error, now);
}

/* ---- options ----------------------------------------------------------------------- */

static void set_flag(struct tcp_conn *c, uint32_t flag, bool on)
{
	if (on)
		c->flags |= flag;
	else
		c->flags &= ~flag;
}

/* As Linux: setting it sends the queued data, even what TCP_CORK holds. */
void tcp_set_nodelay(struct tcp_conn *c, bool on, nsec_t now)
{
	set_flag(c, CONN_NODELAY, on);
	if (!on || !tcp_synchronized(c))
		return;
	c->flags |= CONN_PUSH;
	tcp_output(c, now);
}

void tcp_set_cork(struct tcp_conn *c, bool on, nsec_t now)
{
	set_flag(c, CONN_CORK, on);
	if (on || !tcp_synchronized(c))
		return;
	c->flags = (c->flags | CONN_PUSH) & ~(uint32_t)CONN_MORE;
	tcp_output(c, now);
}

/* As Linux: temporary, ends when the program sends a response. */
void tcp_set_quickack(struct tcp_conn *c, bool on, nsec_t now)
{
	set_flag(c, CONN_PINGPONG, !on);
	if (!on) {
		c->flags &= ~(uint32_t)CONN_QUICKACK;
		c->quickacks = 0;
		return;
	}
	c->quickacks = TCP_QUICKACKS;
	tcp_acknowledge(c, now);
}

void tcp_set_keepalive(struct tcp_conn *c, const struct tcp_keepalive *keepalive, nsec_t now)
{
	c->keepalive = *keepalive;
	c->probes = 0;
	if (!tcp_synchronized(c) || c->state == TCP_TIME_WAIT ||
	    (c->state == TCP_FIN_WAIT_2 && (c->flags & CONN_DETACHED)))
		return; /* life_at has another meaning here, or none yet */
	c->life_at = NSEC_NEVER;
	if (keepalive->on) {
		c->life_at = c->rx_at + keepalive->idle * NSEC_PER_SEC;
		if (c->life_at < now)
			c->life_at = now;
	}
}

void tcp_set_congestion(struct tcp_conn *c, int number)
{
	tcp_cc_switch(&c->cc, tcp_cc_by_number(number));
}

void tcp_set_user_timeout(struct tcp_conn *c, nsec_t timeout)
{
	nsec_t msec = (timeout + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;

	c->user_timeout = msec > UINT32_MAX ? UINT32_MAX : (uint32_t)msec;
}

void tcp_set_syn_retries(struct tcp_conn *c, uint8_t retries)
{
	c->syn_retries = retries & 127;
}

void tcp_set_linger2(struct tcp_conn *c, int seconds)
{
	c->linger2 = (int16_t)(seconds < 0 ? -1 : (int)min_u32((uint32_t)seconds, INT16_MAX));
}

void tcp_set_notsent_lowat(struct tcp_conn *c, uint32_t bytes)
{
	c->notsent_lowat = bytes ? bytes : UINT32_MAX;
	tcp_look_at_unsent(c);
}

uint32_t tcp_maxseg(const struct tcp_conn *c)
{
	bool hoped = c->state == TCP_SYN_SENT && (c->flags & CONN_TIMESTAMPS);

	return c->mss - (hoped ? TCP_OPT_TIMESTAMPS : 0u);
}

int tcp_take_error(struct tcp_conn *c)
{
	int error = c->error;

	c->error = 0;
	return error;
}
