/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP sockets as owners of the engine's connections: the callbacks of the engine, delivery of
 * segments, the timer, and how a connection ends.
 */
#include "sock/tcp/tcp_sock.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "base/user.h"
#include "net/tcp/tcp_snapshot.h"
#include "sock/core/access.h"
#include "sock/core/async.h"
#include "sock/core/poll_events.h"
#include "sock/core/quarantine.h"
#include "sock/core/stats/sock_record.h"
#include "sock/options/sock_opt.h"
#include "sock/tcp/tcp_habit.h"
#include "sock/tcp/timewait.h"

/* Initial buffer size in bytes, unless the program sets SO_RCVBUF or SO_SNDBUF. */
#define TCP_BUF_FIRST (256u << 10)

unsigned tcp_orphans[TCP_ORPHAN_KINDS];
unsigned tcp_orphans_max;

static struct inet_sock *sock_of_conn(struct tcp_conn *conn)
{
	return container_of(conn, struct inet_sock, tcp.conn);
}

/* ---- events (holder) ---------------------------------------------------------------- */

/* The peer has finished sending. */
static bool fin_received(const struct tcp_conn *conn)
{
	return conn->state == TCP_CLOSE_WAIT || conn->state == TCP_LAST_ACK ||
	       conn->state == TCP_CLOSING || conn->state == TCP_TIME_WAIT;
}

static uint32_t stream_events(const struct inet_sock *so)
{
	const struct tcp_conn *conn = &so->tcp.conn;
	bool fin = fin_received(conn) || so->shut_rd;
	uint32_t events = 0;

	if (fin || tcp_readable_bytes(conn) >= so->rcvlowat)
		events |= EPOLLIN | EPOLLRDNORM;
	if (tcp_urgent_here(conn))
		events |= EPOLLPRI;
	if (fin)
		events |= EPOLLRDHUP;
	if (fin && so->shut_wr)
		events |= EPOLLHUP;
	if (so->shut_wr || tcp_is_writable(conn))
		events |= EPOLLOUT | EPOLLWRNORM;
	return events;
}

static uint32_t compute_events(const struct inet_sock *so)
{
	if (so->tcp.conn.state >= TCP_ESTABLISHED)
		return stream_events(so);
	if (so->tcp.conn.state != TCP_CLOSED)
		return 0;
	if (sock_has_connection(so))
		return EPOLLIN | EPOLLRDNORM | EPOLLOUT | EPOLLWRNORM | EPOLLHUP | EPOLLRDHUP |
		       (so->tcp.error ? EPOLLERR : 0u);
	/* As the kernel reports for a new socket. */
	return EPOLLOUT | EPOLLWRNORM | EPOLLHUP | (so->tcp.error ? EPOLLERR : 0u) |
	       (so->shut_rd ? EPOLLIN | EPOLLRDNORM | EPOLLRDHUP : 0u);
}

void tcp_update_events(struct inet_sock *so, uint32_t happened)
{
	uint32_t before = sock_own_events(so), now = compute_events(so), notify;

	if (__builtin_expect(so->rare != NULL, 0))
		now = error_queue_events(so->rare, now);
	notify = (now & ~before) | (now & happened);
	if (now != before) {
		notify |= poll_events_of_end(before, now);
		sock_set_events(so, now);
	}
	if (notify)
		ready_notify(&so->sk, notify);
}

int sock_take_error(struct inet_sock *so)
{
	int error = so->tcp.error;

	so->tcp.error = 0;
	tcp_take_error(&so->tcp.conn); /* only one call reports it */
	tcp_update_events(so, 0);
	return error;
}

/* ---- callbacks of the engine (holder) ----------------------------------------------- */

static void on_established(struct tcp_conn *conn)
{
	struct inet_sock *so = sock_of_conn(conn);

	if (sock_life_is(so, LIFE_HANDSHAKE))
		tcp_child_established(so);
	else
		tcp_update_events(so, EPOLLOUT | EPOLLWRNORM);
}

static void on_event(struct tcp_conn *conn, enum tcp_event event, uint32_t argument)
{
	sock_record_tcp(sock_of_conn(conn), event, argument);
}

static void on_readable(struct tcp_conn *conn)
{
	tcp_update_unread(sock_of_conn(conn), EPOLLIN | EPOLLRDNORM);
}

static void on_urgent(struct tcp_conn *conn)
{
	if (!tcp_urgent_here(conn)) /* as the kernel: when it is announced */
		async_urgent(&sock_of_conn(conn)->sk);
	tcp_update_events(sock_of_conn(conn), EPOLLPRI);
}

static void on_writable(struct tcp_conn *conn)
{
	tcp_update_events(sock_of_conn(conn), EPOLLOUT | EPOLLWRNORM);
}

static void on_closed(struct tcp_conn *conn, int error)
{
	struct inet_sock *so = sock_of_conn(conn);

	/* As the kernel: the error of retransmitting without a route. */
	if (error == ETIMEDOUT && so->tcp.dst.unroutable && so->tcp.dst.unroutable_unacked)
		error = ENETUNREACH;
	so->tcp.error = error;
	sock_record(so, RECORD_ENDED, (uint32_t)error);
	/* A child that was not queued belongs to no listener. */
	if (sock_life_is(so, LIFE_HANDSHAKE))
		sock_life_set(so, LIFE_ORPHAN);
	tcp_update_events(so, EPOLLIN | EPOLLOUT | EPOLLHUP | (error ? EPOLLERR : 0u));
	ring_work_add(sock_home(so), &so->tcp.flush); /* frees an orphan */
}

const struct tcp_ops tcp_sock_engine_ops = {
	.alloc = mem_alloc,
	.closed = on_closed,
	.established = on_established,
	.event = on_event,
	.free = mem_free,
	.readable = on_readable,
	.send = tcp_send_segment,
	.send_train = tcp_send_segments,
	.urgent = on_urgent,
	.writable = on_writable,
};

/* ---- using the engine (holder) ------------------------------------------------------ */

static enum tcp_orphan orphan_kind(const struct inet_sock *so)
{
	if (!sock_is_orphan(so) || sock_has_ended(so) || so->tcp.conn.state == TCP_TIME_WAIT)
		return TCP_ORPHAN_NOT;
	return so->tcp.conn.state == TCP_FIN_WAIT_2 ? TCP_ORPHAN_HALF : TCP_ORPHAN_UNACKED;
}

void tcp_count_orphan(struct inet_sock *so)
{
	enum tcp_orphan kind = orphan_kind(so), counted = so->tcp.sends_as & ~TCP_SENDS_QUEUED;

	if (kind == counted)
		return;
	__atomic_fetch_sub(&tcp_orphans[counted], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&tcp_orphans[kind], 1, __ATOMIC_RELAXED);
	__atomic_store_n(&so->tcp.sends_as, (uint8_t)kind, __ATOMIC_RELAXED);
}

/* The connection of an orphan is over: frees the socket. */
static void reap(struct inet_sock *so, struct ring *ring)
{
	wheel_cancel(&ring->wheel, &so->tcp.timer);
	list_remove(&so->tcp.flush.link);
	ring_flow_del(ring, &so->tcp.flow);
	dst_fini(&so->tcp.dst);
	tcp_close(&so->tcp.conn, ring->now); /* frees unread data */
	sock_life_set(so, LIFE_CLOSED);
	tcp_count_orphan(so);
	sock_free(so);
}

void tcp_after_orphan(struct inet_sock *so, struct ring *ring)
{
	tcp_count_orphan(so);
	if (sock_has_ended(so) || timewait_take(so, ring))
		reap(so, ring);
	else
		tcp_arm(so, ring);
}

/*
 * The connection was reset while the program still has the socket. Removes its flow, because a
 * new connection with the same key may begin at once: of a listener here, on any ring, or in the
 * kernel. After an orderly end the flow stays, to answer a segment that is sent again. While the
 * socket moves, stand-ins receive its frames.
 */
static __attribute__((noinline)) void release_key(struct inet_sock *so, struct ring *ring)
{
	if (so->tcp.error && !so->move)
		ring_flow_del(ring, &so->tcp.flow);
}

static void tcp_run_flush(struct ring *ring, struct ring_work *work, nsec_t now)
{
	struct inet_sock *so = container_of(work, struct inet_sock, tcp.flush);

	if (__builtin_expect(sock_has_ended(so), 0)) {
		release_key(so, ring);
	} else if (tcp_flush(&so->tcp.conn, now)) {
		if (ring->settling)
			tcp_acknowledge(&so->tcp.conn, now);
		else
			ring_work_later(ring, work);
	}
	tcp_after(so, ring);
}

static void tcp_run_timer(struct timer *timer, nsec_t now)
{
	struct inet_sock *so = container_of(timer, struct inet_sock, tcp.timer);

	if (!sock_has_ended(so) && tcp_deadline(&so->tcp.conn) <= now) {
		bool waits = tcp_awaits_fin(&so->tcp.conn);

		tcp_timer(&so->tcp.conn, now);
		if (waits && !tcp_awaits_fin(&so->tcp.conn))
			tcp_habit_learn(HABIT_IN_VAIN);
	}
	/* Does not free the connection here, because the wheel still uses the timer. */
	ring_work_add(sock_home(so), &so->tcp.flush);
}

enum drop tcp_deliver_to_listener(struct ring *ring, const struct flow_key *key, struct pkt *pkt,
				  nsec_t now)
{
	struct flow_key wide = flow_key_widen(key);
	struct flow *flow;

	flow = flow_lookup(&ring->flows, &wide);
	return flow ? flow->deliver(ring, flow, pkt, now) : DROP_NO_FLOW;
}

/*
 * Delivers linked packets together. They are delivered one by one if each must be copied because
 * frames are scarce, or needs a timestamp.
 */
static enum drop deliver_chain(struct inet_sock *so, struct ring *ring, struct pkt *first,
			       nsec_t now)
{
	if (ring_is_short(ring) || sock_has_ended(so) || so->noted ||
	    !tcp_input_chain(&so->tcp.conn, first, now))
		return DROP_TCP_STATE;
	ring_work_add(ring, &so->tcp.flush);
	return DROP_NONE;
}

/*
 * The connection has ended and still has its flow.  A SYN may begin a new connection of a listener
 * on this ring; listeners elsewhere get the SYN when it is sent again.
 */
static enum drop deliver_to_ended(struct inet_sock *so, struct ring *ring, struct pkt *pkt,
				  nsec_t now)
{
	struct flow *flow = &so->tcp.flow;
	struct tcp_segment rst;

	if (tcp_opens(pkt)) {
		ring_flow_del(ring, flow);
		return tcp_deliver_to_listener(ring, &flow->key, pkt, now);
	}
	if (tcp_reset_for(pkt, &rst))
		tcp_send_segment(&so->tcp.conn, &rst);
	return DROP_TCP_STATE;
}

static inline __attribute__((always_inline)) enum drop
deliver_plain(struct inet_sock *so, struct ring *ring, struct pkt *pkt, nsec_t now)
{
	struct flow *flow = &so->tcp.flow;
	enum drop reason;

	if (__builtin_expect(sock_has_ended(so), 0))
		return deliver_to_ended(so, ring, pkt, now);
	reason = tcp_input(&so->tcp.conn, pkt, now);
	if (__builtin_expect(!tcp_is_due(&so->tcp.conn) && !sock_is_orphan(so), 1))
		tcp_arm(so, ring);
	else
		ring_work_add(ring, &so->tcp.flush);
	if (__builtin_expect(reason == DROP_NO_FLOW, 0)) {
		ring_flow_del(ring, flow);
		return tcp_deliver_to_listener(ring, &flow->key, pkt, now);
	}
	return reason;
}

static __attribute__((noinline)) enum drop deliver_noted(struct inet_sock *so, struct ring *ring,
							 struct pkt *pkt, nsec_t now)
{
	enum drop reason;

	pkt->stamp = pkt_arrived(pkt);
	tcp_filter_arrives(so);
	reason = deliver_plain(so, ring, pkt, now);
	tcp_filter_look(so, ring);
	return reason;
}

static inline __attribute__((always_inline)) enum drop
deliver_to_conn(struct inet_sock *so, struct ring *ring, struct pkt *pkt, nsec_t now)
{
	if (__builtin_expect(so->noted, 0))
		return deliver_noted(so, ring, pkt, now);
	return deliver_plain(so, ring, pkt, now);
}

/*
 * Delivers a packet when frames are scarce: what the connection keeps is a copy. The engine frees
 * a packet without data before it returns, and copies data to the end of the unread data where it
 * fits.
 */
static __attribute__((noinline)) enum drop deliver_copy(struct inet_sock *so, struct ring *ring,
							struct pkt *pkt, nsec_t now)
{
	struct tcp_recvq *rcv = &so->tcp.conn.rcv;
	struct pkt *kept = pkt;
	enum drop reason;

	if (tcp_recvq_keeps(rcv, pkt))
		kept = ring_keep_copy(ring, pkt, rcv->room, tcp_recvq_spare(rcv, pkt));
	if (!kept)
		return DROP_NO_MEMORY;
	rcv->gather = true;
	reason = deliver_to_conn(so, ring, kept, now);
	rcv->gather = false;
	if (reason != DROP_NONE && kept != pkt) {
		ring_drop(ring, reason); /* the frame is freed already */
		pkt_free(kept);
		return DROP_NONE;
	}
	return reason;
}

enum drop tcp_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct inet_sock *so = container_of(flow, struct inet_sock, tcp.flow);

	if (pkt->next)
		return deliver_chain(so, ring, pkt, now);
	if (__builtin_expect(ring_keeps_copy(ring, pkt), 0))
		return deliver_copy(so, ring, pkt, now);
	return deliver_to_conn(so, ring, pkt, now);
}

static void neighbour_changed(struct adj_user *user, const struct adj *adj)
{
	struct inet_sock *so = container_of(user, struct inet_sock, tcp.dst.user);

	if (adj->state == NEIGH_REACHABLE) {
		frame_template_set_mac(&so->tcp.dst.tmpl, adj->mac);
	} else if (adj->state == NEIGH_FAILED && !sock_has_ended(so)) {
		tcp_unreachable(&so->tcp.conn, EHOSTUNREACH, sock_home(so)->now);
		ring_work_add(sock_home(so), &so->tcp.flush);
	}
}

/* ---- beginning a connection --------------------------------------------------------- */

struct dst_headers tcp_headers_of(const struct sock_options *opt, const struct endpoint *local,
				  const struct inaddr *remote)
{
	struct dst_headers headers = {.src = *local,
				      .proto = IPPROTO_TCP,
				      .ttl = options_ttl(opt, remote),
				      .ttl_set = options_ttl_set(opt, remote),
				      .tos = options_tos(opt, remote),
				      .no_label = opt->no_label6};

	return headers;
}

struct dst_headers tcp_headers(const struct inet_sock *so)
{
	return tcp_headers_of(so->opt, &so->local, &so->remote.addr);
}

static bool timestamps_wanted(void)
{
	return params.tcp_timestamps == 2 ? tcp_kernel()->timestamps : params.tcp_timestamps;
}

/* Sizes set by the kernel or the program count memory, of which about half holds data. */
static void choose_buffer(uint32_t *buf, uint32_t *max, uint32_t set, uint32_t limit)
{
	*max = limit / 2;
	*buf = *max < TCP_BUF_FIRST ? *max : TCP_BUF_FIRST;
	if (set)
		*buf = *max = set / 2;
}

struct tcp_config tcp_config_for(const struct sock_options *opt, uint32_t mtu,
				 const struct inaddr *addr)
{
	uint32_t limit = (uint32_t)params.mtu;
	struct tcp_config config = {
		.mss = (uint16_t)((limit && limit < mtu ? limit : mtu) - ip_hdr_of(addr) - TCP_HDR),
		.ip6 = !addr_is_v4(addr),
		.nodelay = opt->nodelay,
		.timestamps = timestamps_wanted(),
		.quickack = opt->quickack,
		.cc_algo = opt->cc_algo,
		.ecn = tcp_kernel()->ecn,
		.window_clamp = opt->window_clamp,
	};

	choose_buffer(&config.rcvbuf, &config.rcvbuf_max, opt->rcvbuf_set ? opt->rcvbuf : 0,
		      tcp_kernel()->rmem_max);
	choose_buffer(&config.sndbuf, &config.sndbuf_max, opt->sndbuf_set ? opt->sndbuf : 0,
		      tcp_kernel()->wmem_max);
	if (params.mss && config.mss > params.mss)
		config.mss = (uint16_t)params.mss;
	if (opt->maxseg && config.mss > opt->maxseg)
		config.mss = opt->maxseg;
	return config;
}

struct tcp_config tcp_config_for_route(const struct sock_options *opt, const struct ring *ring,
				       uint32_t mtu, const struct route_metrics *metrics,
				       const struct inaddr *addr)
{
	struct tcp_config config = tcp_config_for(opt, ring_mtu(ring), addr);

	config.route = *metrics;
	config.route_mss = tcp_config_for(opt, mtu, addr).mss;
	config.advmss = config.route_mss;
	/* As Linux, it may be more than the MTU of the route allows us to send. */
	if (metrics->advmss)
		config.advmss = metrics->advmss < config.mss ? metrics->advmss : config.mss;
	if (metrics->ecn)
		config.ecn = TCP_ECN_ASK;
	if (metrics->cc != ROUTE_CC_NONE && metrics->cc != ROUTE_CC_UNKNOWN)
		config.cc_algo = (uint8_t)(metrics->cc - ROUTE_CC_FIRST);
	return config;
}

void tcp_part_init(struct inet_sock *so)
{
	struct tcp_state_part *tcp = &so->tcp;

	memset(tcp, 0, sizeof(*tcp));
	timer_init(&tcp->timer, tcp_run_timer);
	list_init(&tcp->flush.link);
	tcp->flush.run = tcp_run_flush;
	dst_init(&tcp->dst);
	tcp->dst.user.changed = neighbour_changed;
	tcp->flow.deliver = tcp_deliver;
	tcp->flow.chains = true;
}

void tcp_detach(struct inet_sock *so, struct ring *ring)
{
	wheel_cancel(&ring->wheel, &so->tcp.timer);
	list_remove(&so->tcp.flush.link);
	ring_flow_del(ring, &so->tcp.flow);
	tcp_filter_end(so);
	tcp_snapshot_release(&so->tcp.conn);
	dst_fini(&so->tcp.dst);
	tcp_part_init(so);
}

void tcp_sock_init(struct inet_sock *so)
{
	so->inet = INET_TCP;
	tcp_part_init(so);
	tcp_update_events(so, 0);
}

void tcp_apply_options(struct inet_sock *so, nsec_t now)
{
	struct tcp_conn *conn = &so->tcp.conn;

	tcp_set_keepalive(conn, &so->opt->keepalive, now);
	tcp_set_user_timeout(conn, so->opt->user_timeout);
	tcp_set_syn_retries(conn, so->opt->syncnt);
	tcp_set_oobinline(conn, so->opt->oobinline);
	tcp_set_linger2(conn, so->opt->linger2);
	tcp_set_notsent_lowat(conn, so->opt->notsent_lowat ? so->opt->notsent_lowat
							   : tcp_kernel()->notsent_lowat);
	tcp_set_pacing(conn, so->opt->pacing, so->opt->pacing_burst, now);
	if (so->opt->cork)
		tcp_set_cork(conn, true, now);
}

/* SO_* or TCP_* options were set. quickack: TCP_QUICKACK was one of them. */
void tcp_options_changed(struct inet_sock *so, bool quickack)
{
	struct tcp_conn *conn = &so->tcp.conn;
	nsec_t now = clock_now();

	if (!sock_has_connection(so) || sock_has_ended(so))
		return;
	if (so->opt->rcvbuf_set)
		tcp_set_rcvbuf(conn, so->opt->rcvbuf / 2);
	if (so->opt->sndbuf_set)
		tcp_set_sndbuf(conn, so->opt->sndbuf / 2);
	tcp_set_nodelay(conn, so->opt->nodelay, now);
	if (quickack)
		tcp_set_quickack(conn, so->opt->quickack, now);
	tcp_set_cork(conn, so->opt->cork, now);
	tcp_set_window_clamp(conn, so->opt->window_clamp);
	tcp_apply_options(so, now);
	tcp_update_events(so, 0);
	dst_expire(&so->tcp.dst); /* the headers contain TOS and TTL */
	tcp_after(so, sock_home(so));
}

/* ---- ending ------------------------------------------------------------------------- */

/*
 * An orphan keeps its buffers as long as the peer makes it wait, so there is a limit, as in the
 * kernel.
 */
static bool too_many_orphans(void)
{
	return __atomic_load_n(&tcp_orphans[TCP_ORPHAN_UNACKED], __ATOMIC_RELAXED) >=
	       tcp_orphans_max;
}

/*
 * The program's descriptor is closed, and another one keeps the port as long as the connection
 * lives.
 */
static void tcp_keep_port(struct inet_sock *so, struct ring *ring)
{
	if (so->spare < 0 && so->bound && sock_has_connection(so) && !sock_has_ended(so) &&
	    sock_twin(&so->sk) >= 0)
		so->spare = timewait_keep_port(ring, sock_twin(&so->sk));
}

void tcp_learn_habit(const struct inet_sock *so, const struct ring *ring)
{
	const struct tcp_conn *conn = &so->tcp.conn;

	if (!so->tcp.listener || so->shut_wr || (!conn->data_segs_out && !tcp_unacked_bytes(conn)))
		return;
	if (!tcp_fin_follows(conn, ring->now))
		tcp_habit_learn(HABIT_NONE);
	else
		tcp_habit_learn(tcp_habit_of(clock_now() - ring->now, tcp_awaits_fin(conn)));
}

bool tcp_sock_close(struct inet_sock *so, struct ring *ring)
{
	nsec_t now = clock_now();

	ring_assert_held(ring);
	tcp_keep_port(so, ring);
	if (!sock_has_connection(so)) { /* it never had one */
		wheel_cancel(&ring->wheel, &so->tcp.timer);
		list_remove(&so->tcp.flush.link);
		dst_fini(&so->tcp.dst);
		return false;
	}
	tcp_learn_habit(so, ring);
	tcp_filter_end(so);
	if (!sock_has_ended(so) && so->opt->linger_on && so->opt->linger_seconds == 0)
		tcp_abort(&so->tcp.conn, 0, now);
	else if (!sock_has_ended(so))
		tcp_close(&so->tcp.conn, now);
	if (orphan_kind(so) == TCP_ORPHAN_UNACKED && too_many_orphans())
		tcp_abort(&so->tcp.conn, 0, now);
	tcp_count_orphan(so);
	ring_work_add(ring, &so->tcp.flush); /* may free it, or replace it by a record */
	return true;
}
