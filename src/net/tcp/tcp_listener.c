/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The passive open: RFC 9293 section 3.10.7.2 (LISTEN), and the part of SYN-RECEIVED before
 * there is a connection.
 */
#include <assert.h>

#include "net/tcp/tcp_cookie.h"
#include "net/tcp/tcp_internal.h"

/* Deadlines are rounded up to this grid, so one pass serves many handshakes. */
#define DEADLINE_GRID (20 * NSEC_PER_MSEC)
/* With a rate limit, a burst may hold as many SYNs as are allowed in this time. */
#define SYN_BURST (100 * NSEC_PER_MSEC)

void tcp_listener_init(struct tcp_listener *l, const struct tcp_listener_ops *ops,
		       const struct tcp_config *config, unsigned backlog)
{
	*l = (struct tcp_listener){
		.ops = ops, .config = *config, .backlog = backlog, .next = NSEC_NEVER};
	for (int i = 0; i < TCP_SYN_BUCKETS; i++)
		list_init(&l->buckets[i]);
	list_init(&l->ages);
}

/* A cheap hash: an attacker can only cause a longer chain, bounded by the backlog. */
static struct list *bucket_of(struct tcp_listener *l, const struct endpoint *local,
			      const struct endpoint *remote)
{
	uint64_t h = remote->addr.q[0] ^ remote->addr.q[1] ^ local->addr.q[1];

	h = (h ^ ((uint64_t)remote->port << 16 | local->port)) * 0x9e3779b97f4a7c15u;
	return &l->buckets[h >> 58];
}

_Static_assert(TCP_SYN_BUCKETS == 64, "bucket_of() takes six bits");

static struct tcp_synreq *find_handshake(struct tcp_listener *l, const struct endpoint *local,
					 const struct endpoint *remote)
{
	list_for_each(pos, bucket_of(l, local, remote)) {
		struct tcp_synreq *req = container_of(pos, struct tcp_synreq, link);

		if (endpoint_eq(&req->remote, remote) && endpoint_eq(&req->local, local))
			return req;
	}
	return NULL;
}

static void remove_handshake(struct tcp_listener *l, struct tcp_synreq *req)
{
	list_remove(&req->link);
	list_remove(&req->age);
	l->pending--;
	if (l->pending == 0)
		l->next = NSEC_NEVER;
	if (l->ops->ended)
		l->ops->ended(l, req);
	l->ops->free(req);
}

void tcp_listener_each(struct tcp_listener *l,
		       void (*fn)(struct tcp_listener *l, struct tcp_synreq *req))
{
	list_for_each(pos, &l->ages)
		fn(l, container_of(pos, struct tcp_synreq, age));
}

/*
 * The peer may regard the connection as established, with its ACK still in flight, which would get
 * no answer.
 */
static void reset_handshake(struct tcp_listener *l, const struct tcp_synreq *req)
{
	struct tcp_segment rst = {
		.seq = req->iss + 1, .ack = req->irs + 1, .flags = TCP_RST | TCP_ACK};

	(void)l->ops->send(l, &req->local, &req->remote, &rst);
}

void tcp_listener_fini(struct tcp_listener *l)
{
	list_for_each_safe(pos, &l->ages) {
		struct tcp_synreq *req = container_of(pos, struct tcp_synreq, age);

		reset_handshake(l, req);
		remove_handshake(l, req);
	}
	assert(l->pending == 0);
}

static void send_syn_ack_at(struct tcp_listener *l, const struct tcp_synreq *req, uint32_t clock)
{
	struct tcp_options opt = {
		.mss = req->mss,
		.wscale = req->peer_wscale < 0 ? (int8_t)-1 : (int8_t)req->wscale,
		.sack_permitted = req->sack,
		.has_ts = req->timestamps,
		.tsval = clock + req->ts_offset,
		.tsecr = req->ts_recent,
	};
	struct tcp_segment seg = {
		.seq = req->iss,
		.ack = req->irs + 1,
		.wnd = req->wnd,
		.flags = (uint8_t)(TCP_SYN | TCP_ACK | (req->ecn ? TCP_ECE : 0)),
	};

	seg.opt_len = (uint8_t)tcp_options_write_syn(seg.opts, &opt);
	(void)l->ops->send(l, &req->local, &req->remote, &seg); /* if lost, it is retransmitted */
}

static uint32_t clock_of(nsec_t now)
{
	return (uint32_t)(now / NSEC_PER_MSEC);
}

static void send_syn_ack(struct tcp_listener *l, const struct tcp_synreq *req, nsec_t now)
{
	send_syn_ack_at(l, req, clock_of(now));
}

/* RFC 9293 section 3.10.7.4: tells the peer the expected sequence numbers. */
static void send_ack(struct tcp_listener *l, const struct tcp_synreq *req, nsec_t now)
{
	struct tcp_segment seg = {
		.seq = req->iss + 1,
		.ack = req->irs + 1,
		.wnd = (uint16_t)(req->wnd >> (req->peer_wscale < 0 ? 0 : req->wscale)),
		.flags = TCP_ACK,
	};

	if (req->timestamps)
		seg.opt_len = (uint8_t)tcp_options_write_timestamps(
			seg.opts, clock_of(now) + req->ts_offset, req->ts_recent);
	(void)l->ops->send(l, &req->local, &req->remote, &seg);
}

static void set_deadline(struct tcp_listener *l, struct tcp_synreq *req, nsec_t now)
{
	nsec_t at = now + (RTT_INITIAL_RTO << min_u32(req->retries, TCP_SYNACK_RETRIES));

	req->deadline = (at + DEADLINE_GRID - 1) / DEADLINE_GRID * DEADLINE_GRID;
	if (req->deadline < l->next)
		l->next = req->deadline;
}

nsec_t tcp_listener_deadline(const struct tcp_listener *l)
{
	return l->next;
}

void tcp_listener_timer(struct tcp_listener *l, nsec_t now)
{
	uint32_t retries = l->syn_ack_retries ? l->syn_ack_retries : tcp_settings.syn_ack_retries;

	if (now < l->next)
		return;
	l->next = NSEC_NEVER;
	list_for_each_safe(pos, &l->ages) {
		struct tcp_synreq *req = container_of(pos, struct tcp_synreq, age);

		if (now < req->deadline) {
			if (req->deadline < l->next)
				l->next = req->deadline;
		} else if (req->retries >= (req->acked ? max_u32(l->defer, retries) : retries)) {
			remove_handshake(l, req);
		} else {
			req->retries++;
			/*
			 * With TCP_DEFER_ACCEPT nothing is sent while waiting for data. The last
			 * SYN-ACKs ask for an ACK, which completes the handshake.
			 */
			if (!req->acked || req->retries >= l->defer)
				send_syn_ack(l, req, now);
			set_deadline(l, req, now);
		}
	}
}

static void send_reset(struct tcp_listener *l, const struct pkt *pkt, const struct endpoint *local,
		       const struct endpoint *remote)
{
	struct tcp_segment rst;

	if (tcp_reset_for(pkt, &rst))
		(void)l->ops->send(l, local, remote, &rst);
}

static struct tcp_config config_for(struct tcp_listener *l, const struct tcp_synreq *req)
{
	struct tcp_config config = l->config;

	/* With a configuration for IPv4, a peer of IPv6 has a longer header. */
	if (!addr_is_v4(&req->remote.addr) && !config.ip6)
		config.mss -= (uint16_t)min_u32(config.mss, IP6_HDR - IP4_HDR);
	if (l->ops->configure)
		l->ops->configure(l, &req->local, &req->remote, &config);
	return config;
}

/* Negotiates the options of a SYN. */
static void negotiate(const struct tcp_config *config, struct tcp_synreq *req,
		      const struct pkt *pkt, const struct tcp_options *opt)
{
	uint32_t rcvbuf = max_u32(config->rcvbuf, TCP_RCVBUF_MIN);
	uint32_t most = max_u32(rcvbuf, config->rcvbuf_max);
	uint32_t clamp = config->window_clamp ? config->window_clamp : config->route.window;

	if (!clamp)
		clamp = UINT32_MAX;
	req->irs = pkt->seq;
	req->peer_mss = opt->mss;
	req->peer_wnd = tcp_wire_window(pkt);
	req->peer_wscale = opt->wscale;
	req->timestamps = opt->has_ts && config->timestamps;
	req->sack = opt->sack_permitted;
	req->ts_recent = opt->has_ts ? opt->tsval : 0;
	req->mss = tcp_mss_to_announce(config);
	req->wnd = tcp_syn_window(rcvbuf, tcp_first_clamp(clamp, config->route.initrwnd,
							  tcp_synreq_payload(req)));
	req->wscale = tcp_wscale_for(most, clamp);
}

/* RFC 3168 section 6.1.1: true if the peer asks for ECN and we allow it. */
static bool wants_ecn(const struct tcp_config *config, const struct pkt *syn)
{
	return config->ecn != TCP_ECN_NONE &&
	       (syn->tcp_flags & (TCP_ECE | TCP_CWR)) == (TCP_ECE | TCP_CWR);
}

/* A segment without a handshake: its connection may be elsewhere. */
static enum drop input_stray(struct tcp_listener *l, struct pkt *pkt, const struct endpoint *local,
			     const struct endpoint *remote)
{
	if (l->ops->pass && l->ops->pass(l, pkt))
		return DROP_NONE;
	send_reset(l, pkt, local, remote);
	return DROP_NO_FLOW;
}

/* ---- SYN cookies -------------------------------------------------------------------- */

static void send_cookie(struct tcp_listener *l, struct tcp_synreq *req, const struct pkt *pkt,
			struct tcp_options *opt, nsec_t now)
{
	struct tcp_start start = l->ops->start(l, &req->local, &req->remote, now);
	struct tcp_config config = config_for(l, req);
	uint32_t clock = clock_of(now);

	if (opt->has_ts && config.timestamps) {
		req->ecn = wants_ecn(&config, pkt);
		clock = tcp_cookie_timestamp(clock, opt, req->ecn);
	} else { /* without timestamps there is no place to store them */
		opt->wscale = -1;
		opt->sack_permitted = false;
	}
	negotiate(&config, req, pkt, opt);
	req->ts_offset = start.ts_offset;
	req->iss = tcp_cookie_make(l->cookie_secret, &req->local, &req->remote, req->irs, opt->mss,
				   now);
	l->cookies_until = now + 2 * TCP_COOKIE_LIFE;
	send_syn_ack_at(l, req, clock);
}

/* Have cookies been sent that are still valid? */
static bool cookies_are_out(const struct tcp_listener *l, nsec_t now)
{
	return l->cookie_secret && now < l->cookies_until;
}

/* Does it answer a cookie, or follow a segment that does? */
static bool is_for_cookie(const struct tcp_listener *l, const struct pkt *pkt,
			  const struct tcp_synreq *req, nsec_t now)
{
	uint32_t iss = tcp_wire_ack(pkt) - 1;

	return cookies_are_out(l, now) &&
	       (tcp_cookie_check(l->cookie_secret, &req->local, &req->remote, pkt->seq - 1, iss,
				 now) ||
		tcp_cookie_maybe(l->cookie_secret, &req->local, &req->remote, pkt->seq, iss, now));
}

/* An ACK without a connection, or that is not for its handshake: may answer a cookie. */
static enum drop input_cookie(struct tcp_listener *l, struct pkt *pkt, const struct endpoint *local,
			      const struct endpoint *remote, nsec_t now)
{
	struct tcp_synreq req = {.local = *local, .remote = *remote, .created = NSEC_NEVER};
	struct tcp_config config;
	struct tcp_options opt;
	uint32_t iss = tcp_wire_ack(pkt) - 1;

	if (!tcp_options_parse(&opt, tcp_wire_options(pkt), tcp_wire_options_len(pkt)))
		return DROP_TCP_OPTION;
	opt.mss = tcp_cookie_check(l->cookie_secret, local, remote, pkt->seq - 1, iss, now);
	if (!opt.mss && tcp_cookie_maybe(l->cookie_secret, local, remote, pkt->seq, iss, now))
		return DROP_TCP_SEQ; /* the handshake's ACK was lost: the peer retransmits */
	if (!opt.mss)
		return input_stray(l, pkt, local, remote);
	req.ts_offset = l->ops->start(l, local, remote, now).ts_offset;
	config = config_for(l, &req);
	if (opt.has_ts)
		req.ecn = tcp_cookie_read_timestamp(opt.tsecr - req.ts_offset, &opt) &&
			  config.ecn != TCP_ECN_NONE;
	negotiate(&config, &req, pkt, &opt);
	req.irs--; /* the SYN was one before */
	req.iss = iss;
	return l->ops->accept(l, &req, pkt, now) ? DROP_TCP_BACKLOG : DROP_NONE;
}

/* ---- segments ---------------------------------------------------------------------- */

bool tcp_syn_in_rate(nsec_t *syn_at, uint32_t rate, nsec_t now)
{
	if (*syn_at < now)
		*syn_at = now;
	if (*syn_at - now > SYN_BURST)
		return false;
	*syn_at += NSEC_PER_SEC / rate;
	return true;
}

static enum drop new_syn(struct tcp_listener *l, const struct pkt *pkt,
			 const struct endpoint *local, const struct endpoint *remote, nsec_t now)
{
	struct tcp_synreq syn = {.local = *local, .remote = *remote, .created = now}, *req;
	struct tcp_config config;
	struct tcp_options opt;
	struct tcp_start start;

	if (!tcp_options_parse(&opt, tcp_wire_options(pkt), tcp_wire_options_len(pkt)))
		return DROP_TCP_OPTION;
	opt.sack_permitted &= tcp_settings.sack;
	if (!tcp_settings.window_scaling)
		opt.wscale = -1;
	if (l->ops->in_rate && !l->ops->in_rate(l, now))
		return DROP_TCP_SYN_RATE;
	if (l->ops->has_room && !l->ops->has_room(l))
		return DROP_TCP_BACKLOG;
	/* A cookie determines its own ISS, so none is sent for a SYN that follows a TIME_WAIT. */
	if (l->pending >= l->backlog && !(pkt->flags & PKT_ISS && l->pending < 2 * l->backlog)) {
		if (!l->cookie_secret || pkt->flags & PKT_ISS)
			return DROP_TCP_BACKLOG; /* the TIME_WAIT ends before the next SYN */
		send_cookie(l, &syn, pkt, &opt, now);
		return DROP_NONE;
	}
	req = l->ops->alloc(sizeof(*req));
	if (!req)
		return DROP_NO_MEMORY;
	*req = syn;
	config = config_for(l, req);
	negotiate(&config, req, pkt, &opt);
	req->ecn = wants_ecn(&config, pkt);
	start = l->ops->start(l, local, remote, now);
	req->iss = pkt->flags & PKT_ISS ? pkt->iss : start.iss;
	req->ts_offset = start.ts_offset;
	list_push_back(bucket_of(l, local, remote), &req->link);
	list_push_back(&l->ages, &req->age);
	l->pending++;
	if (l->ops->began)
		l->ops->began(l, req);
	send_syn_ack(l, req, now);
	set_deadline(l, req, now);
	return DROP_NONE;
}

/*
 * An ACK of another number than that of the handshake.  A peer that sent its SYN twice has two: the first was
 * answered with a cookie, the second when there was room again.  It takes the answer that arrives first.
 */
static enum drop input_other_answer(struct tcp_listener *l, struct tcp_synreq *req, struct pkt *pkt,
				    nsec_t now)
{
	struct endpoint local = req->local, remote = req->remote;
	enum drop why;

	if (!is_for_cookie(l, pkt, req, now)) {
		send_reset(l, pkt, &local, &remote);
		return DROP_TCP_ACK;
	}
	why = input_cookie(l, pkt, &local, &remote, now);
	if (why == DROP_NONE)
		remove_handshake(l, req);
	return why;
}

/* A segment other than SYN for a pending handshake: RFC 9293 3.10.7.4. */
static enum drop input_pending(struct tcp_listener *l, struct tcp_synreq *req, struct pkt *pkt,
			       nsec_t now)
{
	uint32_t behind = pkt->seq - (req->irs + 1);

	if (behind > req->wnd) {
		if (!(pkt->tcp_flags & TCP_RST))
			send_ack(l, req, now);
		return DROP_TCP_SEQ;
	}
	if (pkt->tcp_flags & TCP_RST) {
		if (behind) /* RFC 5961 section 3.2; the SYN-ACK will be sent again */
			return DROP_TCP_SEQ;
		remove_handshake(l, req);
		pkt_free(pkt);
		return DROP_NONE;
	}
	if (!(pkt->tcp_flags & TCP_ACK))
		return DROP_TCP_STATE;
	if (tcp_wire_ack(pkt) != req->iss + 1)
		return input_other_answer(l, req, pkt, now);
	if (req->retries < l->defer && !pkt->len && !(pkt->tcp_flags & TCP_FIN)) {
		req->acked = true;
		pkt_free(pkt);
		return DROP_NONE;
	}
	if (l->ops->accept(l, req, pkt, now))
		return DROP_TCP_BACKLOG;
	remove_handshake(l, req);
	return DROP_NONE;
}

bool tcp_listener_knows(struct tcp_listener *l, const struct pkt *pkt)
{
	struct endpoint local = frame_destination(pkt), remote = frame_source(pkt);

	return find_handshake(l, &local, &remote) != NULL;
}

enum drop tcp_listener_input(struct tcp_listener *l, struct pkt *pkt, nsec_t now)
{
	struct endpoint local = frame_destination(pkt), remote = frame_source(pkt);
	struct tcp_synreq *req = find_handshake(l, &local, &remote);
	uint8_t flags = pkt->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN);
	enum drop why;

	if ((flags & TCP_SYN) && (flags & (TCP_RST | TCP_FIN)) && (req || !(flags & TCP_ACK)))
		return DROP_TCP_STATE;
	if (req && !(flags & TCP_SYN))
		return input_pending(l, req, pkt, now);
	if (flags & TCP_RST) /* first: check for a RST */
		return input_stray(l, pkt, &local, &remote);
	if (flags & TCP_ACK) { /* second: check for an ACK */
		if (cookies_are_out(l, now) && !(flags & TCP_SYN))
			return input_cookie(l, pkt, &local, &remote, now);
		return input_stray(l, pkt, &local, &remote);
	}
	if (!(flags & TCP_SYN)) /* fourth: other data or control */
		return DROP_TCP_STATE;
	if (req) {
		/*
		 * A retransmission, or the peer restarted: then our SYN-ACK makes it reset the old
		 * handshake.
		 */
		send_syn_ack(l, req, now);
		return DROP_TCP_DUPLICATE;
	}
	why = new_syn(l, pkt, &local, &remote, now); /* third: check for a SYN */
	if (why == DROP_NONE)
		pkt_free(pkt);
	return why;
}

bool tcp_opens(const struct pkt *pkt)
{
	return (pkt->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) == TCP_SYN;
}

bool tcp_reset_for(const struct pkt *pkt, struct tcp_segment *rst)
{
	if (pkt->tcp_flags & TCP_RST)
		return false;
	*rst = (struct tcp_segment){.flags = TCP_RST};
	if (pkt->tcp_flags & TCP_ACK) {
		rst->seq = tcp_wire_ack(pkt);
	} else {
		rst->flags = TCP_RST | TCP_ACK;
		rst->ack = pkt->seq + pkt->len + !!(pkt->tcp_flags & TCP_SYN) +
			   !!(pkt->tcp_flags & TCP_FIN);
	}
	return true;
}
