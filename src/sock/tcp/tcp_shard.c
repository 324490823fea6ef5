/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shards of a listener: the handshakes that arrive on one ring, and the connections made from
 * them on that ring.
 */
#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/source.h"
#include "sock/core/access.h"
#include "sock/core/host_state.h"
#include "sock/core/sock_options.h"
#include "sock/tcp/tcp_habit.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/wait/wait.h"

#define PATH_CACHE 256

/* Reverse paths to senders of SYNs, for SYN-ACKs that are sent again. */
struct path_cache {
	struct {
		struct inaddr addr;
		struct source_path path;
	} entry[PATH_CACHE];
};

struct shard_full {
	struct tcp_shard shard;		 /* first */
	const struct source_path *input; /* holder: to the current segment's sender, or NULL */
	struct path_cache paths;
};

static struct shard_full *full_of(struct tcp_listener *l)
{
	return container_of(container_of(l, struct tcp_shard, l), struct shard_full, shard);
}

static unsigned path_slot(const struct inaddr *addr)
{
	return (unsigned)((addr->q[0] ^ addr->q[1]) * 0x9e3779b97f4a7c15ull >> 56);
}

_Static_assert(PATH_CACHE == 256, "path_slot() takes eight bits");

/* ---- callbacks of the engine's listener (holder of the shard's ring) ---------------- */

static const struct source_path *path_to(const struct shard_full *full, const struct inaddr *remote)
{
	unsigned slot = path_slot(remote);

	if (full->input)
		return full->input;
	if (addr_eq(&full->paths.entry[slot].addr, remote))
		return &full->paths.entry[slot].path;
	return NULL;
}

/* Answers leave by the ring's interface or not at all, because the replies to them arrive here. */
static bool leads_here(const struct tcp_shard *shard, const struct source_path *path)
{
	return path->here || (path->here_bound && shard->opt->bind_ifindex);
}

static int init_template(struct frame_template *tmpl, const struct tcp_shard *shard,
			 const struct source_path *path, const uint8_t *mac,
			 const struct endpoint *local, const struct endpoint *remote)
{
	struct dst_headers headers = tcp_headers_of(shard->opt, local, &remote->addr);

	headers.hoplimit = path->metrics.hoplimit;
	return dst_template(tmpl, shard->ring, mac, remote, &headers);
}

static struct flow_key key_of(const struct endpoint *local, const struct endpoint *remote)
{
	struct flow_key key;

	memset(&key, 0, sizeof(key));
	key.local = local->addr;
	key.local_port = local->port;
	key.remote = remote->addr;
	key.remote_port = remote->port;
	key.proto = IPPROTO_TCP;
	return key;
}

/* The neighbour that the route leads to. If its link address is not known, the kernel is asked. */
static struct adj *neighbour_of(struct ring *ring, const struct source_path *path,
				const struct endpoint *local, const struct endpoint *remote)
{
	struct adj *adj = ring_adj_for_source(ring, &path->nexthop);
	struct flow_key key;

	if (!adj || adj->state == NEIGH_REACHABLE)
		return adj;
	adj->state = NEIGH_UNKNOWN; /* also if it has failed before */
	key = key_of(local, remote);
	source_resolve(ring, &key);
	return adj;
}

static int shard_send(struct tcp_listener *l, const struct endpoint *local,
		      const struct endpoint *remote, const struct tcp_segment *seg)
{
	struct shard_full *full = full_of(l);
	struct ring *ring = full->shard.ring;
	const struct source_path *path = path_to(full, &remote->addr);
	struct frame_template tmpl;
	struct adj *adj;
	struct pkt *pkt;
	int rc;

	if (!path || full->shard.address_gone || !ring_is_open(ring))
		return -EHOSTUNREACH; /* the peer sends its SYN again */
	adj = neighbour_of(ring, path, local, remote);
	if (!adj)
		return -ENOMEM;
	rc = init_template(&tmpl, &full->shard, path, adj->mac, local, remote);
	if (rc)
		return rc;
	pkt = ring_tx_get(ring);
	if (!pkt)
		return -ENOBUFS;
	pkt->frame_len = (uint32_t)frame_build_tcp(&tmpl, pkt->frame, seg);
	return ring_tx_to(ring, adj, pkt);
}

static struct tcp_start shard_start(struct tcp_listener *l, const struct endpoint *local,
				    const struct endpoint *remote, nsec_t now)
{
	return tcp_start_of(host_secret(), local, remote, now);
}

static uint32_t mtu_of(const struct tcp_shard *shard, const struct source_path *path)
{
	uint32_t mtu = ring_mtu(shard->ring);

	return path->mtu && path->mtu < mtu ? path->mtu : mtu;
}

static void shard_configure(struct tcp_listener *l, const struct endpoint *local,
			    const struct endpoint *remote, struct tcp_config *config)
{
	struct tcp_shard *shard = &full_of(l)->shard;
	const struct source_path *path = full_of(l)->input;

	(void)remote;
	*config = tcp_config_for_route(shard->opt, shard->ring, mtu_of(shard, path), &path->metrics,
				       &local->addr);
}

/*
 * Sets the child's route to its sender. accept() looks the route up again, with the socket's
 * options.
 */
static int child_dst(struct inet_sock *child, const struct tcp_shard *shard,
		     const struct source_path *path)
{
	struct dst *dst = &child->tcp.dst;
	struct dst_found found = {.verdict = VERDICT_ACCELERATED,
				  .ring = shard->ring,
				  .src = child->local.addr,
				  .nexthop = path->nexthop,
				  .metrics = path->metrics,
				  .mtu = mtu_of(shard, path)};
	struct dst_headers headers = tcp_headers(child);
	const struct adj *adj = ring_adj_for_source(shard->ring, &path->nexthop);
	int rc;

	if (!adj)
		return -ENOMEM;
	found.neigh = adj->state;
	memcpy(found.mac, adj->mac, sizeof(found.mac));
	rc = dst_apply(dst, shard->ring, &child->remote, &found, &headers);
	dst_expire(dst);
	return rc;
}

static struct flow_key req_key(const struct tcp_synreq *req)
{
	return key_of(&req->local, &req->remote);
}

static int child_flow(struct inet_sock *child, struct ring *ring, const struct tcp_synreq *req)
{
	struct flow *flow = &child->tcp.flow;

	flow->key = req_key(req);
	return req->expected ? ring_flow_add_expected(ring, flow) : ring_flow_add(ring, flow);
}

/*
 * Has the accept queue room, as the kernel counts? Children that are posted from another ring are
 * not counted yet; they are few.
 */
static bool queue_has_room(const struct inet_sock *listener)
{
	return __atomic_load_n(&listener->listen.waiting, __ATOMIC_RELAXED) <=
	       listener->listen.backlog;
}

static struct inet_sock *child_create(struct tcp_shard *shard, const struct tcp_synreq *req,
				      const struct source_path *path)
{
	struct inet_sock *child = sock_alloc(SOCK_TYPE_TCP);

	if (!child)
		return NULL;
	child->inet = INET_TCP;
	child->family = shard->so->family;
	sock_options_use(child, options_get(shard->opt));
	child->rcvtimeo = __atomic_load_n(&shard->so->rcvtimeo, __ATOMIC_RELAXED);
	child->sndtimeo = __atomic_load_n(&shard->so->sndtimeo, __ATOMIC_RELAXED);
	child->local = req->local;
	child->local.scope = ring_scope(shard->ring, &req->local.addr);
	child->remote = req->remote;
	child->remote.scope = ring_scope(shard->ring, &req->remote.addr);
	child->verdict = VERDICT_ACCELERATED;
	child->raw_twin = true;
	tcp_part_init(child);
	sock_life_set(child, LIFE_HANDSHAKE);
	child->tcp.listener = shard->so;
	child->tcp.listener_gen = shard->gen;
	sock_set_home(child, shard->ring);
	child->rx_key = shard->ring->key;
	sock_access_init(child);
	if (child_dst(child, shard, path) || child_flow(child, shard->ring, req)) {
		dst_fini(&child->tcp.dst);
		sock_free(child);
		return NULL;
	}
	return child;
}

static int shard_accept(struct tcp_listener *l, const struct tcp_synreq *req, struct pkt *pkt,
			nsec_t now)
{
	struct tcp_shard *shard = &full_of(l)->shard;
	struct ring *ring = shard->ring;
	struct tcp_config config;
	struct inet_sock *child;
	enum drop reason;

	if (!queue_has_room(shard->so))
		return -EAGAIN;
	child = child_create(shard, req, full_of(l)->input);
	if (!child)
		return -ENOMEM;
	shard_configure(l, &req->local, &req->remote, &config);
	tcp_init_passive(&child->tcp.conn, &tcp_sock_engine_ops, &config, req, now);
	tcp_apply_options(child, now);
	if (tcp_habit_expects_fin())
		tcp_expect_fin(&child->tcp.conn);
	reason = tcp_input(&child->tcp.conn, pkt, now);
	if (reason != DROP_NONE) {
		ring_drop(ring, reason);
		pkt_free(pkt);
	}
	ring_work_add(ring, &child->tcp.flush);
	return 0;
}

static bool shard_has_room(struct tcp_listener *l)
{
	return queue_has_room(full_of(l)->shard.so);
}

/* The rate is that of the listening socket, whose shards are on several rings. */
static bool shard_in_rate(struct tcp_listener *l, nsec_t now)
{
	nsec_t *syn_at = &full_of(l)->shard.so->listen.syn_at;
	/* relaxed: the number is all that holders of other shards' rings share */
	nsec_t was = __atomic_load_n(syn_at, __ATOMIC_RELAXED), next;

	if (!params.tcp_max_syn_rate)
		return true;
	do {
		next = was;
		if (!tcp_syn_in_rate(&next, (uint32_t)params.tcp_max_syn_rate, now))
			return false;
		/* relaxed, as the load above */
	} while (!__atomic_compare_exchange_n(syn_at, &was, next, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return true;
}

/*
 * If the listener's flow is shared, the port must not give segments of this handshake to another
 * member.
 */
static void shard_began(struct tcp_listener *l, struct tcp_synreq *req)
{
	struct tcp_shard *shard = &full_of(l)->shard;
	struct flow_key key = req_key(req);

	if (shard->flow->shared && !req->expected)
		req->expected = !ring_flow_expect(shard->ring, &key);
}

static void shard_ended(struct tcp_listener *l, struct tcp_synreq *req)
{
	struct flow_key key = req_key(req);

	if (req->expected)
		ring_flow_unexpect(full_of(l)->shard.ring, &key);
}

/* The handshake has moved here from another ring. */
static void shard_moved(struct tcp_listener *l, struct tcp_synreq *req)
{
	struct flow_key key = req_key(req);

	if (req->expected)
		req->expected = !ring_flow_expect_here(full_of(l)->shard.ring, &key);
}

static bool shard_pass(struct tcp_listener *l, struct pkt *pkt)
{
	const struct tcp_shard *shard = &full_of(l)->shard;

	return kernel_conns_pass(shard->so, shard->ring, pkt);
}

static const struct tcp_listener_ops shard_ops = {
	.accept = shard_accept,
	.alloc = mem_alloc,
	.began = shard_began,
	.configure = shard_configure,
	.ended = shard_ended,
	.free = mem_free,
	.has_room = shard_has_room,
	.in_rate = shard_in_rate,
	.pass = shard_pass,
	.send = shard_send,
	.start = shard_start,
};

/* ---- shards ------------------------------------------------------------------------- */

static void shard_arm(struct tcp_shard *shard)
{
	nsec_t deadline = tcp_listener_deadline(&shard->l);

	if (deadline < shard->timer.when)
		ring_arm(shard->ring, &shard->timer, deadline);
}

static void shard_timer(struct timer *timer, nsec_t now)
{
	struct tcp_shard *shard = container_of(timer, struct tcp_shard, timer);

	tcp_listener_timer(&shard->l, now);
	shard_arm(shard);
}

/* Reads net.ipv4.tcp_syncookies: 0: never, 1: when the queue is full, 2: always. */
static void shard_set_limits(struct tcp_listener *l)
{
	int cookies = sys_read_number("/proc/sys/net/ipv4/tcp_syncookies", 1);

	if (cookies)
		l->cookie_secret = host_secret();
	if (cookies == 2)
		l->backlog = 0;
}

bool tcp_listen_flow_begin(struct inet_sock *so, struct sock_flow *flow)
{
	struct ring *ring = flow->ring;
	struct shard_full *full = mem_zalloc(sizeof(*full));
	struct tcp_config config = tcp_config_for(so->opt, ring_mtu(ring), &flow->flow.key.local);

	control_assert_held();
	if (!full)
		return false;
	full->shard.ring = ring;
	full->shard.so = so;
	full->shard.gen = so->sk.gen;
	full->shard.flow = &flow->flow;
	full->shard.opt = options_get(so->opt);
	timer_init(&full->shard.timer, shard_timer);
	tcp_listener_init(&full->shard.l, &shard_ops, &config, so->listen.backlog + 1);
	shard_set_limits(&full->shard.l);
	full->shard.l.defer = so->opt->defer_accept;
	full->shard.l.syn_ack_retries = so->opt->syncnt;
	flow->shard = &full->shard;
	return true;
}

void tcp_listen_flow_shared(struct sock_flow *flow)
{
	tcp_listener_each(&flow->shard->l, shard_began);
}

void tcp_shard_leave(struct tcp_shard *shard)
{
	wheel_cancel(&shard->ring->wheel, &shard->timer);
}

void tcp_shard_arrive(struct tcp_shard *shard, struct ring *ring)
{
	shard->ring = ring;
	tcp_listener_each(&shard->l, shard_moved);
	shard_arm(shard);
}

void tcp_listen_flow_end(struct sock_flow *flow)
{
	wheel_cancel(&flow->shard->ring->wheel, &flow->shard->timer);
	tcp_listener_fini(&flow->shard->l);
}

void tcp_listen_flow_free(struct sock_flow *flow)
{
	control_assert_held();
	options_put(flow->shard->opt);
	mem_free(container_of(flow->shard, struct shard_full, shard));
}

static struct sock_flow *sock_flow_from(struct flow *flow)
{
	return container_of(flow, struct sock_flow, flow);
}

/*
 * The listener whose handshake the segment belongs to (a SYN may come again), of those that share
 * the flow on this ring.  The port may select another one for its sender by now.  picked, if the
 * segment belongs to no handshake.
 */
static __attribute__((noinline)) struct sock_flow *
handshake_of(const struct ring *ring, struct sock_flow *picked, const struct pkt *pkt)
{
	struct flow *flow = flow_lookup(&ring->flows, &picked->flow.key);

	if (tcp_listener_knows(&picked->shard->l, pkt))
		return picked;
	for (; flow; flow = flow_next(flow)) {
		struct sock_flow *f = sock_flow_from(flow);

		if (flow->shared && f->shared.deliver == tcp_listen_deliver &&
		    tcp_listener_knows(&f->shard->l, pkt))
			return f;
	}
	return picked;
}

enum drop tcp_listen_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct endpoint from = frame_source(pkt), to = frame_destination(pkt);
	struct flow_key key = key_of(&to, &from);
	unsigned slot = path_slot(&from.addr);
	struct source_path path;
	struct sock_flow *f;
	struct shard_full *full;
	enum drop reason;

	switch (source_check(ring, &key, pkt, &path, &reason)) {
	case SOURCE_KEPT:
		return DROP_NONE;
	case SOURCE_DROP:
		return reason;
	case SOURCE_PASS:
		break;
	}
	f = flow->shared ? handshake_of(ring, sock_flow_from(flow), pkt) : sock_flow_from(flow);
	full = container_of(f->shard, struct shard_full, shard);
	if (!leads_here(&full->shard, &path))
		return DROP_NO_WAY_BACK;
	full->paths.entry[slot].addr = from.addr;
	full->paths.entry[slot].path = path;
	full->input = &path;
	reason = tcp_listener_input(&full->shard.l, pkt, now);
	full->input = NULL;
	shard_arm(&full->shard);
	return reason;
}
