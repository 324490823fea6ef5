/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Listening TCP sockets.  Each ring that has an address of the listener has a
 * shard: handshakes and the connections they become live on the ring where their
 * frames arrive.  An established child travels to the listener's home through
 * the inbox and waits there for accept().
 */
#include <errno.h>
#include <linux/tcp.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/source.h"
#include "sock/core/access.h"
#include "sock/core/host_state.h"
#include "sock/tcp/syn_catch.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/wait/wait.h"

#define WAY_CACHE 256

/* Ways to those who sent SYNs, for SYN-ACKs that are sent again. */
struct way_cache {
	struct {
		struct inaddr addr;
		struct source_way way;
	} entry[WAY_CACHE];
};

struct shard_full {
	struct tcp_shard shard;		/* first */
	const struct source_way *input; /* holder: to who sent the segment being looked at, or NULL */
	struct way_cache ways;
};

static struct shard_full *full_of(struct tcp_listener *l)
{
	return container_of(container_of(l, struct tcp_shard, l), struct shard_full, shard);
}

static unsigned way_slot(const struct inaddr *addr)
{
	return (unsigned)((addr->q[0] ^ addr->q[1]) * 0x9e3779b97f4a7c15ull >> 56);
}

_Static_assert(WAY_CACHE == 256, "way_slot() takes eight bits");

/* ---- what the engine's listener asks for (holder of the shard's ring) ----------------------- */

static const struct source_way *way_to(const struct shard_full *full, const struct inaddr *remote)
{
	unsigned slot = way_slot(remote);

	if (full->input)
		return full->input;
	if (addr_eq(&full->ways.entry[slot].addr, remote))
		return &full->ways.entry[slot].way;
	return NULL;
}

/* Answers leave by the ring's interface, or not at all: what comes back to it comes to us. */
static bool leads_here(const struct tcp_shard *shard, const struct source_way *way)
{
	return way->here || (way->here_bound && shard->opt->bind_ifindex);
}

static int init_template(struct frame_template *tmpl, const struct tcp_shard *shard,
			 const uint8_t *mac, const struct endpoint *local,
			 const struct endpoint *remote)
{
	struct dst_headers headers = {.src = *local,
				      .proto = IPPROTO_TCP,
				      .ttl = shard->opt->ttl,
				      .tos = shard->opt->tos};

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

/* The neighbour that the way leads by, which is being asked for if it is not known. */
static struct adj *neighbour_of(struct ring *ring, const struct source_way *way,
				const struct endpoint *local, const struct endpoint *remote)
{
	struct adj *adj = ring_adj_for_source(ring, &way->nexthop);
	struct flow_key key;

	if (!adj || adj->state == NEIGH_REACHABLE)
		return adj;
	adj->state = NEIGH_UNKNOWN; /* also one that has failed before */
	key = key_of(local, remote);
	source_resolve(ring, &key);
	return adj;
}

static int shard_send(struct tcp_listener *l, const struct endpoint *local,
		      const struct endpoint *remote, const struct tcp_segment *seg)
{
	struct shard_full *full = full_of(l);
	struct ring *ring = full->shard.ring;
	const struct source_way *way = way_to(full, &remote->addr);
	struct frame_template tmpl;
	struct adj *adj;
	struct pkt *pkt;
	int rc;

	if (!way || full->shard.mute || !ring->q)
		return -EHOSTUNREACH; /* the peer sends its SYN again */
	adj = neighbour_of(ring, way, local, remote);
	if (!adj)
		return -ENOMEM;
	rc = init_template(&tmpl, &full->shard, adj->mac, local, remote);
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

/* The child's way back; accept() asks the routing table again, with the options of the socket. */
static int child_dst(struct inet_sock *child, const struct tcp_shard *shard,
		     const struct source_way *way)
{
	struct dst *dst = &child->tcp.dst;
	uint32_t mtu = shard->ring->q->port->mtu;
	struct dst_found found = {.verdict = VERDICT_ACCELERATED,
				  .ring = shard->ring,
				  .src = child->local.addr,
				  .nexthop = way->nexthop,
				  .mtu = way->mtu && way->mtu < mtu ? way->mtu : mtu};
	struct dst_headers headers = {.src = child->local,
				      .proto = IPPROTO_TCP,
				      .ttl = shard->opt->ttl,
				      .tos = shard->opt->tos};
	const struct adj *adj = ring_adj_for_source(shard->ring, &way->nexthop);
	int rc;

	if (!adj)
		return -ENOMEM;
	found.neigh = adj->state;
	memcpy(found.mac, adj->mac, sizeof(found.mac));
	rc = dst_apply(dst, shard->ring, &child->remote, &found, &headers);
	dst_expire(dst);
	return rc;
}

static struct flow_key pair_of(const struct tcp_synreq *req)
{
	return key_of(&req->local, &req->remote);
}

static int child_flow(struct inet_sock *child, struct ring *ring, const struct tcp_synreq *req)
{
	struct flow *flow = &child->tcp.flow;

	flow->key = pair_of(req);
	return req->expected ? ring_flow_add_expected(ring, flow) : ring_flow_add(ring, flow);
}

/*
 * Room in the accept queue, as the kernel counts?  Children on their way to it from
 * another ring are not seen; they are few.
 */
static bool admit(const struct inet_sock *listener)
{
	return __atomic_load_n(&listener->listen.waiting, __ATOMIC_RELAXED) <=
	       listener->listen.backlog;
}

static struct inet_sock *child_create(struct tcp_shard *shard, const struct tcp_synreq *req,
				      const struct source_way *way)
{
	struct inet_sock *child = sock_alloc(SOCK_TYPE_TCP);

	if (!child)
		return NULL;
	child->inet = INET_TCP;
	sock_options_use(child, options_get(shard->opt));
	child->rcvtimeo = __atomic_load_n(&shard->so->rcvtimeo, __ATOMIC_RELAXED);
	child->sndtimeo = __atomic_load_n(&shard->so->sndtimeo, __ATOMIC_RELAXED);
	child->local = req->local;
	child->remote = req->remote;
	child->verdict = VERDICT_ACCELERATED;
	child->raw_twin = true;
	tcp_part_init(child);
	sock_life_set(child, LIFE_HANDSHAKE);
	child->tcp.listener = shard->so;
	child->tcp.listener_gen = shard->gen;
	sock_set_home(child, shard->ring);
	child->rx_key = shard->ring->key;
	sock_access_init(child);
	if (child_dst(child, shard, way) || child_flow(child, shard->ring, req)) {
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

	if (!admit(shard->so))
		return -EAGAIN;
	child = child_create(shard, req, full_of(l)->input);
	if (!child)
		return -ENOMEM;
	config = tcp_config_for(shard->opt, ring->q->port->mtu);
	tcp_init_passive(&child->tcp.conn, &tcp_sock_engine_ops, &config, req, now);
	tcp_wire_options(child, now);
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
	return admit(full_of(l)->shard.so);
}

/* Who comes to share the listener's flow must not get what belongs to a handshake of ours. */
static void shard_began(struct tcp_listener *l, struct tcp_synreq *req)
{
	struct tcp_shard *shard = &full_of(l)->shard;
	struct flow_key key = pair_of(req);

	if (shard->flow->shared && !req->expected)
		req->expected = !ring_flow_expect(shard->ring, &key);
}

static void shard_ended(struct tcp_listener *l, struct tcp_synreq *req)
{
	struct flow_key key = pair_of(req);

	if (req->expected)
		ring_flow_unexpect(full_of(l)->shard.ring, &key);
}

/* It was of another ring's. */
static void shard_moved(struct tcp_listener *l, struct tcp_synreq *req)
{
	struct flow_key key = pair_of(req);

	if (req->expected)
		req->expected = !ring_flow_expect_here(full_of(l)->shard.ring, &key);
}

static const struct tcp_listener_ops shard_ops = {
	.accept = shard_accept,
	.alloc = mem_alloc,
	.began = shard_began,
	.ended = shard_ended,
	.free = mem_free,
	.has_room = shard_has_room,
	.send = shard_send,
	.start = shard_start,
};

/* ---- shards ------------------------------------------------------------------------------------- */

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

/* net.ipv4.tcp_syncookies: 0 never, 1 when the queue is full, 2 always. */
static void defend(struct tcp_listener *l)
{
	int cookies = sys_read_number("/proc/sys/net/ipv4/tcp_syncookies", 1);

	if (cookies)
		l->cookie_secret = host_secret();
	if (cookies == 2)
		l->backlog = 0;
	l->syn_rate = (uint32_t)params.tcp_max_syn_rate;
}

bool tcp_listen_flow_begin(struct inet_sock *so, struct sock_flow *flow)
{
	struct ring *ring = flow->ring;
	struct shard_full *full = mem_zalloc(sizeof(*full));
	struct tcp_config config = tcp_config_for(so->opt, ring->q->port->mtu);

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
	defend(&full->shard.l);
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
 * The listener whose handshake a segment belongs to (a SYN may come again), of those that
 * share the flow on this ring: by now the port may choose another one for its sender.
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
	unsigned slot = way_slot(&from.addr);
	struct source_way way;
	struct sock_flow *f;
	struct shard_full *full;
	enum drop reason;

	switch (source_check(ring, &key, pkt, &way, &reason)) {
	case SOURCE_KEPT:
		return DROP_NONE;
	case SOURCE_DROP:
		return reason;
	case SOURCE_PASS:
		break;
	}
	f = flow->shared ? handshake_of(ring, sock_flow_from(flow), pkt) : sock_flow_from(flow);
	full = container_of(f->shard, struct shard_full, shard);
	if (!leads_here(&full->shard, &way))
		return DROP_NO_WAY_BACK;
	full->ways.entry[slot].addr = from.addr;
	full->ways.entry[slot].way = way;
	full->input = &way;
	reason = tcp_listener_input(&full->shard.l, pkt, now);
	full->input = NULL;
	shard_arm(&full->shard);
	return reason;
}

/* ---- from the child's ring to the accept queue ----------------------------------------------------- */

/* holder of the child's home */
static void abort_run(struct ring *ring, struct inbox_item *item)
{
	struct inet_sock *child = container_of(item, struct inet_sock, item);

	list_init(&child->flows); /* the item was in its place */
	sock_life_set(child, LIFE_ORPHAN);
	if (!sock_has_ended(child))
		tcp_abort(&child->tcp.conn, 0, clock_now());
	ring_work_add(ring, &child->tcp.flush);
}

/* Nobody will accept it: its peer is told. */
static void abort_child(struct inet_sock *child)
{
	child->item.run = abort_run;
	ring_post(sock_home(child), &child->item);
}

/* holder of the listener's home */
static void count_waiting(struct inet_sock *so, unsigned delta)
{
	__atomic_store_n(&so->listen.waiting, so->listen.waiting + delta, __ATOMIC_RELAXED);
}

/* holder of the listener's home */
static void arrived_run(struct ring *ring, struct inbox_item *item)
{
	struct inet_sock *child = container_of(item, struct inet_sock, item);
	struct inet_sock *so = child->tcp.listener;
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	struct ring *home = __atomic_load_n(&so->sk.home, __ATOMIC_ACQUIRE);

	if (home != ring &&
	    /* pairs with the end of references */
	    __atomic_load_n(&so->sk.gen, __ATOMIC_ACQUIRE) == child->tcp.listener_gen) {
		ring_post(home, item); /* it moved on */
		return;
	}
	if (so->sk.gen != child->tcp.listener_gen || so->inet != INET_LISTEN || sock_is_gone(so)) {
		abort_child(child);
		return;
	}
	list_push_back(&so->listen.queue, &child->accept_link);
	count_waiting(so, 1);
	sock_set_events(so, sock_own_events(so) | EPOLLIN | EPOLLRDNORM);
	ready_notify(&so->sk, EPOLLIN | EPOLLRDNORM);
}

void tcp_child_established(struct inet_sock *child)
{
	sock_life_set(child, LIFE_QUEUED);
	child->item.run = arrived_run;
	tcp_update_events(child, 0);
	/* On to another ring if that is where the listener lives. */
	arrived_run(sock_home(child), &child->item);
}

void tcp_listen_options_applied(struct inet_sock *so)
{
	control_assert_held();
	list_for_each(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);

		if (!f->shard || !ring_hold_cold(f->ring))
			continue;
		options_put(f->shard->opt);
		f->shard->opt = options_get(so->opt);
		f->shard->l.defer = so->opt->defer_accept;
		f->shard->l.syn_ack_retries = so->opt->syncnt;
		f->shard->l.config = tcp_config_for(so->opt, f->ring->q->port->mtu);
		ring_release_cold(f->ring);
	}
}

void tcp_listen_device_changed(struct inet_sock *so)
{
	int device = so->opt->bind_ifindex;

	/* Handshakes on the device go on. */
	sock_upcalls.move_settle(so);
	list_for_each_safe(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);

		if (device && f->ring->ifindex != device)
			sock_flow_del(f);
	}
	so->verdict = sock_attach(so);
	sock_rings_changed(so);
}

bool tcp_listen_close(struct inet_sock *so, struct ring *ring)
{
	struct list *link;

	ring_assert_held(ring);
	while ((link = list_pop_front(&so->listen.queue)))
		abort_child(container_of(link, struct inet_sock, accept_link));
	return false;
}

/* ---- listen ---------------------------------------------------------------------------------------------- */

static unsigned bound_backlog(int backlog)
{
	int max = sys_read_number("/proc/sys/net/core/somaxconn", 4096);

	return (unsigned)(backlog < 0 || backlog > max ? max : backlog);
}

static void make_listener(struct inet_sock *so, int backlog)
{
	so->inet = INET_LISTEN;
	sock_life_set(so, LIFE_LISTENING);
	memset(&so->listen, 0, sizeof(so->listen));
	list_init(&so->listen.queue);
	so->listen.claim = -1;
	so->listen.backlog = bound_backlog(backlog);
	sock_set_events(so, 0);
}

/* The kernel refused after all: an ordinary socket again. */
static void unmake_listener(struct inet_sock *so)
{
	struct ring *ring;

	sock_flows_del(so);
	sock_port_unclaim(so);
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	tcp_listen_close(so, ring);
	so->inet = INET_TCP;
	sock_life_set(so, LIFE_OPEN);
	tcp_part_init(so);
	tcp_update_events(so, 0);
	ring_release_cold(ring);
}

/* listen(2) binds what is not bound. */
static int bind_any(struct inet_sock *so)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	int rc = so->bound ? 0 : sys_bind(sock_twin(&so->sk), (struct sockaddr *)&any, sizeof(any));

	if (!rc)
		rc = sock_read_local(so);
	so->bound = !rc;
	return rc;
}

/* The frames come here, and what came while the interface was opened. */
static int attach(struct inet_sock *so, int backlog)
{
	struct syn_catch caught = {.fd = -1};
	int rc = 0;

	if (!rings_count() && !syn_catch_begin(&caught, so))
		rc = sys_listen(sock_twin(&so->sk), backlog);
	if (!rc)
		so->verdict = sock_attach(so);
	syn_catch_end(&caught, so);
	return rc;
}

/* The twin listens as well, for what the kernel still accepts. */
static int listen_locked(struct inet_sock *so, int backlog)
{
	struct ring *ring;
	int rc;

	if (sock_has_connection(so))
		return -EINVAL;
	if (so->inet == INET_LISTEN) {
		so->listen.backlog = bound_backlog(backlog);
		return sys_listen(sock_twin(&so->sk), backlog);
	}
	rc = bind_any(so);
	if (!rc)
		rc = sock_options_for_children(so);
	if (rc)
		return rc;
	rc = sock_hold_cold(sock_ref_of(so), &ring);
	if (rc)
		return rc;
	make_listener(so, backlog);
	ring_release_cold(ring);
	sock_port_claim(so);
	if (sock_port_shared(so))
		so->verdict = VERDICT_SHARED_PORT;
	else
		rc = attach(so, backlog);
	if (rc) {
		unmake_listener(so);
		return rc;
	}
	if (so->verdict != VERDICT_ACCELERATED)
		sock_port_unclaim(so);
	log_debug("fd %d: listening, %s", sock_twin(&so->sk), verdict_text(so->verdict));
	if (so->verdict == VERDICT_ACCELERATED ||
	    (so->wildcard && so->verdict != VERDICT_SHARED_PORT)) {
		rc = sys_listen(sock_twin(&so->sk), backlog);
		if (rc)
			unmake_listener(so);
		return rc;
	}
	unmake_listener(so);
	rc = sock_leave(so, so->verdict);
	return rc ? rc : SOCK_KERNEL;
}

int tcp_sock_listen(struct sock_ref ref, int backlog)
{
	int rc = -EBADF;

	if (!control_lock())
		return -EAGAIN;
	if (sock_ref_valid(ref))
		rc = listen_locked(inet_of(ref.sk), backlog);
	control_unlock();
	return rc;
}

/* ---- accept ------------------------------------------------------------------------------------------------- */

/* The oldest child that waits, or NULL. */
static struct inet_sock *take_child(struct inet_sock *so)
{
	struct list *link = list_pop_front(&so->listen.queue);

	if (list_empty(&so->listen.queue))
		sock_set_events(so, sock_own_events(so) & ~(uint32_t)(EPOLLIN | EPOLLRDNORM));
	if (!link)
		return NULL;
	count_waiting(so, -1u);
	return container_of(link, struct inet_sock, accept_link);
}

/* The twin of a child: an ordinary socket, so that its descriptor is real. */
static int make_twin(int flags)
{
	return sys_socket(AF_INET, SOCK_STREAM | (flags & (SOCK_CLOEXEC | SOCK_NONBLOCK)), 0);
}

/* The program has it from now on. */
static void leave_queue(struct sock_ref child)
{
	struct ring *ring;

	if (sock_hold_cold(child, &ring))
		return;
	sock_life_set(inet_of(child.sk), LIFE_CONNECTED);
	ring_release_cold(ring);
}

static int hand_out(struct inet_sock *child, int fd, struct sockaddr *addr, socklen_t *len,
		    int flags, struct sock_ref *ref)
{
	ref->sk = &child->sk;
	ref->gen = child->sk.gen;
	child->sk.nonblock = (flags & SOCK_NONBLOCK) != 0;
	sock_set_twin(*ref, fd);
	leave_queue(*ref);
	if (control_lock()) {
		child->id = sock_new_id(); /* processes forked before do not know it */
		sock_list_add(child);
		/* A ring for each socket: it has had its listener's so far. */
		if (!ring_logic_moves(child->opt->alloc_rx.logic))
			sock_alloc_changed(child, true, false);
		tcp_resolve_locked(*ref);
		control_unlock();
	}
	if (addr)
		endpoint_to_sockaddr(&child->remote, AF_INET, addr, len);
	return fd;
}

static bool twin_due(struct inet_sock *so, struct sock_wait *wait)
{
	if (__atomic_load_n(&so->sk.twin_events, __ATOMIC_RELAXED) || !sock_home(so)->q)
		return true;
	if (so->listen.os_countdown-- > 0 && !spin_was_late(&wait->spin))
		return false;
	so->listen.os_countdown = params.rx_udp_poll_os_ratio;
	return true;
}

/*
 * A connection the kernel accepted, or -EAGAIN.  The twin is as blocking as the
 * program made it: it is asked first, and by one thread at a time, so that none is
 * caught in it.
 */
static int accept_twin(struct inet_sock *so, struct sockaddr *addr, socklen_t *len, int flags)
{
	struct sock *sk = &so->sk;
	int fd = -EAGAIN;

	/* A lock that is tried; pairs with its release below. */
	if (__atomic_exchange_n(&so->listen.twin_taken, 1, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	sock_look_at_twin(sk);
	if (__atomic_load_n(&sk->twin_events, __ATOMIC_RELAXED))
		fd = sys_accept4(sock_twin(sk), addr, len, flags);
	/* Pairs with the exchange above. */
	__atomic_store_n(&so->listen.twin_taken, 0, __ATOMIC_RELEASE);
	return fd;
}

struct accept {
	struct inet_sock *so;
	struct inet_sock *child; /* what was taken, and its descriptor */
	int spare;
	int flags;
	struct sockaddr *addr;
	socklen_t *len;
};

/*
 * Takes a child that waits.  Its descriptor is made first: without one the
 * connection stays in the queue, as in the kernel.
 */
static bool accept_try(void *arg, struct ring *ring, struct sock_wait *wait, ssize_t *n)
{
	struct accept *a = arg;
	struct inet_sock *so = a->so;

	*n = -EINVAL;
	if (so->inet != INET_LISTEN)
		return true;
	sock_access_rx(so);
	if (list_empty(&so->listen.queue))
		ring_poll(ring);
	else if (so->listen.waiting <= so->listen.backlog / 2) /* else frames wait better */
		ring_keep_up(ring);
	if (!list_empty(&so->listen.queue)) {
		if (a->spare < 0)
			a->spare = make_twin(a->flags);
		*n = a->spare;
		if (a->spare >= 0)
			a->child = take_child(so);
		return true;
	}
	*n = twin_due(so, wait) || wait->dontwait ? SOCK_TRY_ASIDE : SOCK_TRY_WAIT;
	return false;
}

static ssize_t accept_aside(void *arg, struct sock_wait *wait)
{
	const struct accept *a = arg;
	int fd = accept_twin(a->so, a->addr, a->len, a->flags);

	(void)wait;
	return fd == -EAGAIN ? SOCK_TRY_WAIT : fd;
}

int tcp_sock_accept(struct sock_ref ref, struct sockaddr *addr, socklen_t *len, int flags,
		    struct sock_ref *out)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct sock_call call = SOCK_CALL(ref, 0, EPOLLIN);
	struct accept a = {.so = so, .spare = -1, .flags = flags, .addr = addr, .len = len};
	int rc;

	out->sk = NULL;
	if (flags & ~(SOCK_NONBLOCK | SOCK_CLOEXEC))
		return -EINVAL;
	rc = (int)sock_wait_loop(call, SOCK_WAIT_COLD, accept_try, accept_aside, &a);
	return a.child ? hand_out(a.child, a.spare, addr, len, flags, out) : rc;
}
