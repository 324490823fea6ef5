/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/move/move.h"

#include <string.h>

#include "base/delay.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "ring/inbox.h"
#include "ring/source.h"
#include "sock/move/move_internal.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/udp/udp_sock.h"

struct sock_move_stats sock_moves_rx, sock_moves_tx;

static struct list moves = {&moves, &moves}; /* internal thread */

/* ---- starting (control lock) -------------------------------------------------------------------- */

bool move_is_possible(const struct move_request *req)
{
	struct sock_ref ref = {&req->so->sk, req->gen};
	const struct inet_sock *so = req->so;
	struct ring *home;
	bool yes;

	control_assert_held();
	control_assert_no_ring();
	if (sock_hold_cold(ref, &home))
		return false;
	yes = !sock_is_gone(so) && !so->move && home->q &&
	      !(so->inet == INET_TCP && (!sock_has_connection(so) || sock_is_connecting(so)));
	ring_release_cold(home);
	return yes && req->key != move_key(so, req->tx);
}

static uint64_t key_for(const struct inet_sock *so, const struct inaddr *local, uint64_t key)
{
	if (so->opt->alloc_rx.logic == RING_LOGIC_IP)
		return ring_key(&so->opt->alloc_rx, local, so->id);
	return key;
}

/* Where frames of an interface shall go; NULL: nowhere else. */
static struct ring *target(const struct inet_sock *so, const struct ring *from,
			   const struct inaddr *local, uint64_t key)
{
	char why[PORT_WHY] = "";
	struct ring *to;
	bool fresh;

	key = key_for(so, local, key);
	if (rings_get(from->ifindex, key, &to, why, &fresh) || to == from || to->key != key)
		return NULL;
	return to;
}

/* listed: NULL for a connection's own flow. */
static void add_part(struct move *move, struct flow *flow, struct sock_flow *listed,
		     struct ring *from)
{
	struct move_part *part = &move->parts[move->n_parts];

	*part = (struct move_part){.move = move, .flow = flow, .listed = listed, .from = from};
	part->to = target(move->so, from, &flow->key.local, move->key);
	if (!part->to || move_part_steer(part)) {
		log_debug("fd %d: a flow stays on ring %u", sock_twin(&move->so->sk), from->id);
		if (move->so->inet != INET_UDP)
			return; /* a listener's connections come in any order */
		move_part_stay(part);
	}
	ring_get(part->to);
	move->n_parts++;
}

static unsigned count_flows(const struct inet_sock *so)
{
	unsigned n = 1; /* a connection's own */

	list_for_each(link, &so->flows)
		n++;
	return n;
}

/* Where a connection sends to, from its new ring on; datagrams find out when they are sent. */
static void find_dst(struct move *move)
{
	struct inet_sock *so = move->so;
	struct dst_query query;

	if (so->inet != INET_TCP)
		return;
	query = sock_query(so);
	if (move_same_alloc(so))
		query.key = move->key; /* it sends from there, too */
	dst_find(&query, &move->found);
	move->has_dst = move->found.verdict == VERDICT_ACCELERATED;
}

static void arrive_run(struct ring *ring, struct inbox_item *item);

static struct move *prepare(struct inet_sock *so, uint64_t key, struct ring *to)
{
	size_t size = sizeof(struct move) + count_flows(so) * sizeof(struct move_part);
	struct move *move = mem_zalloc(size);

	if (!move)
		return NULL;
	list_init(&move->link);
	move->so = so;
	move->gen = so->sk.gen;
	move->from = sock_home(so);
	move->to = to;
	move->key = key;
	move->began = clock_now();
	move->arrive.run = arrive_run;
	if (so->inet == INET_TCP) {
		add_part(move, &so->tcp.flow, NULL, move->from);
	} else {
		list_for_each(link, &so->flows) {
			struct sock_flow *f = sock_flow_of(link);

			add_part(move, &f->flow, f, f->ring);
		}
	}
	return move;
}

static void abandoned(struct inet_sock *so, const char *why)
{
	move_count(&sock_moves_rx.abandoned);
	log_debug("fd %d: stays on ring %u: %s", sock_twin(&so->sk), sock_home(so)->id, why);
}

static void start_rx(const struct move_request *req)
{
	struct inet_sock *so = req->so;
	struct ring *to = NULL;
	struct move *move;

	if (!move_is_possible(req))
		return;
	move_count(&sock_moves_rx.started);
	to = target(so, sock_home(so), &so->local.addr, req->key);
	if (!to) {
		move_put_off(so, false);
		abandoned(so, "there is no other ring for it");
		return;
	}
	move = prepare(so, req->key, to);
	if (!move || (so->inet == INET_TCP && !move->n_parts)) {
		mem_free(move);
		abandoned(so, "its frames cannot be steered");
		return;
	}
	ring_get(to);
	so->move = move;
	list_push_back(&moves, &move->link);
	log_debug("fd %d: moves from ring %u to ring %u: %s", sock_twin(&so->sk), move->from->id,
		  to->id,
		  req->asked ? "its allocation logic was changed"
			     : "another thread or processor uses it");
}

/* ---- the end (control lock) ------------------------------------------------------------------------ */

static void let_go(struct move *move)
{
	for (unsigned i = 0; i < move->n_parts; i++)
		ring_put(move->parts[i].to);
	ring_put(move->to);
	move->n_parts = 0;
	move->over = true;
}

/* The socket ended: nothing arrives any more, and nothing of the move is left anywhere. */
static void call_off(struct move *move)
{
	for (unsigned i = 0; i < move->n_parts; i++) {
		struct move_part *part = &move->parts[i];

		if (ring_hold_cold(part->to)) {
			move_part_drop(part);
			ring_release_cold(part->to);
		}
	}
	let_go(move);
	move_count(&sock_moves_rx.abandoned);
}

/*
 * The socket lives on the new ring.  LEAVE does it, for it may not let go of the old
 * ring before; so does ARRIVE, which may run as soon as it is posted, and for which
 * the socket's home has to be the ring that it holds.  Whoever comes second finds it
 * done: only a holder of the old ring could make that one a home again.
 */
static void change_home(struct inet_sock *so, struct ring *from, struct ring *to)
{
	/* Pairs with sock_hold_mode(). */
	__atomic_compare_exchange_n(&so->sk.home, &from, to, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
}

/*
 * holder of the old home, drained; sent_by: with references.  A connection that its
 * program closed may be gone when this returns: nothing of it is looked at after ARRIVE
 * was posted.
 */
static unsigned leave(struct move *move, struct ring *ring, struct ring **sent_by)
{
	struct inet_sock *so = move->so;
	unsigned n = move_tx_rings(so, sent_by);

	for (unsigned i = 0; i < n; i++)
		ring_get(sent_by[i]);

	for (unsigned i = 0; i < move->n_parts; i++) {
		if (move->parts[i].from == ring)
			move_part_leave(&move->parts[i]);
	}
	if (so->inet == INET_UDP)
		udp_leave(so, ring);
	else if (so->inet == INET_TCP)
		tcp_leave(so, ring);
	move_set_key(so, false, move->key);
	if (move_same_alloc(so))
		move_set_key(so, true, move->key);
	sock_access_init(so);
	so->move = NULL;
	ring_get(move->to); /* as home */
	/* First: who finds the new home and holds it runs it before anything else. */
	ring_post(move->to, &move->arrive);
	delay_at(DELAY_MOVE_POSTED);
	change_home(so, ring, move->to);
	ring_put(ring);
	return n;
}

/* holder of the new home */
static void arrive_run(struct ring *ring, struct inbox_item *item)
{
	struct move *move = container_of(item, struct move, arrive);
	struct inet_sock *so = move->so;

	delay_at(DELAY_MOVE_ARRIVE);
	change_home(so, move->from, ring);
	if (so->inet == INET_TCP)
		tcp_arrive(so, ring, move->from, move->has_dst ? &move->found : NULL);
	for (unsigned i = 0; i < move->n_parts; i++) {
		if (move->parts[i].to == ring)
			move_part_arrive(&move->parts[i]);
	}
	/* Who sleeps on the old ring's descriptors looks for the new ones. */
	ready_wake_all(&so->sk);
}

/* Rings that are not home: drained into it, and the flows taken off. */
static void leave_others(struct move *move)
{
	for (unsigned i = 0; i < move->n_parts; i++) {
		struct move_part *part = &move->parts[i];

		if (part->from == move->from || !ring_hold_cold(part->from))
			continue;
		ring_drain(part->from);
		move_part_leave(part);
		ring_release_cold(part->from);
	}
}

static void arrive_others(struct move *move)
{
	for (unsigned i = 0; i < move->n_parts; i++) {
		struct move_part *part = &move->parts[i];

		if (part->to == move->to || !ring_hold_cold(part->to))
			continue;
		move_part_arrive(part);
		ring_release_cold(part->to);
	}
}

#define SENDERS_ROUNDS 16

/*
 * What has come to a ring that the socket leaves, and waits until its sender was checked, is
 * delivered before.  After the barrier nothing new comes for the socket; a flood for others
 * may go on.
 */
static void settle_senders(struct ring *ring)
{
	unsigned waiting = 1;

	for (unsigned i = 0; waiting && i < SENDERS_ROUNDS && ring_hold_cold(ring); i++) {
		if (i)
			sys_sched_yield(); /* another thread may be about to answer */
		ring_drain(ring);
		waiting = ring->n_waiting;
		ring_release_cold(ring);
		if (waiting)
			source_answer_all();
	}
}

/* After the barrier. */
static void finish(struct move *move)
{
	struct inet_sock *so = move->so;
	struct sock_ref ref = {&so->sk, move->gen};
	struct ring *ring, *sent_by[MOVE_TX_RINGS_MAX];
	unsigned n;
	int fd;

	delay_at(DELAY_MOVE_BARRIER);
	if (!move->closed) /* else it sends as before, and is nobody's: it may end at any time */
		find_dst(move);
	for (unsigned i = 0; i < move->n_parts; i++)
		settle_senders(move->parts[i].from);
	leave_others(move);
	/* A connection that its program closed may have ended; nothing of it is looked at then. */
	if (sock_hold_cold(ref, &ring)) {
		call_off(move);
		return;
	}
	ring_drain(ring);
	delay_at(DELAY_MOVE_DRAINED);
	if (!sock_at_home(ref, ring)) {
		ring_release_cold(ring);
		call_off(move);
		return;
	}
	fd = sock_twin(&so->sk);
	n = leave(move, ring, sent_by);
	ring_release_cold(ring);
	delay_at(DELAY_MOVE_LEFT);
	move_drain_tx(sent_by, n);
	/* If somebody else holds it: after him, ARRIVE has run. */
	if (ring_hold_cold(move->to))
		ring_release_cold(move->to);
	arrive_others(move);
	if (!move->closed)
		sock_rings_changed(so);
	log_debug("fd %d: moved from ring %u to ring %u in %ld us", fd, move->from->id,
		  move->to->id, (clock_now() - move->began) / NSEC_PER_USEC);
	let_go(move);
	move_count(&sock_moves_rx.finished);
}

static void barrier(const struct move *move)
{
	struct port *last = NULL;

	for (unsigned i = 0; i < move->n_parts; i++) {
		struct port_queue *q = move->parts[i].to->q;
		struct port *port = q ? q->port : last;

		if (port && port != last)
			port->ops->barrier(port);
		last = port;
	}
}

void sock_move_settle(struct inet_sock *so)
{
	control_assert_held();
	if (!so->move)
		return;
	barrier(so->move);
	finish(so->move);
	so->move = NULL;
}

void sock_moves_settle(void)
{
	control_assert_held();
	list_for_each(link, &moves) {
		struct move *move = container_of(link, struct move, link);

		if (move->over)
			continue;
		barrier(move);
		finish(move);
	}
}

void sock_move_cancel(struct inet_sock *so)
{
	control_assert_held();
	if (!so->move)
		return;
	call_off(so->move);
	so->move = NULL;
}

void sock_move_closed(struct inet_sock *so)
{
	control_assert_held();
	/* A segment that arrives in between is dropped by its stand-in, and sent again. */
	if (!so->move)
		return;
	so->move->closed = true;
	/* Pairs with is_alive() in move_flow.c. */
	__atomic_store_n(&so->move->gen, so->sk.gen, __ATOMIC_RELEASE);
}

/* ---- the internal thread ---------------------------------------------------------------------------------- */

/* It moves already: one at a time. */
static bool wait_for_move(const struct move_request *req)
{
	struct sock_ref ref = {&req->so->sk, req->gen};

	return sock_ref_valid(ref) && req->so->move;
}

static void start_all(void)
{
	struct move_request *req = move_take_requests();

	while (req) {
		struct move_request *next = (struct move_request *)(void *)req->link.next;

		if (wait_for_move(req)) {
			move_post_request(req);
		} else {
			if (req->tx)
				move_start_tx(req);
			else
				start_rx(req);
			mem_free(req);
		}
		req = next;
	}
}

/* All that are under way wait for the same moment. */
static void barrier_all(void)
{
	struct port *ports[64];
	unsigned n = 0;

	list_for_each(link, &moves) {
		const struct move *move = container_of(link, struct move, link);

		for (unsigned i = 0; i < move->n_parts; i++) {
			struct port_queue *q = move->parts[i].to->q;
			struct port *port = q ? q->port : NULL;
			unsigned p = 0;

			if (!port) /* its interface is gone */
				continue;
			while (p < n && ports[p] != port)
				p++;
			if (p == n && n < sizeof(ports) / sizeof(*ports))
				ports[n++] = port;
		}
	}
	control_unlock();
	/* Only this thread closes ports. */
	for (unsigned p = 0; p < n; p++)
		ports[p]->ops->barrier(ports[p]);
}

bool sock_moves_run(void)
{
	if (move_no_requests() && list_empty(&moves))
		return false;
	if (!control_trylock())
		return true;
	start_all();
	if (list_empty(&moves)) {
		control_unlock();
		return false;
	}
	barrier_all();
	if (!control_trylock())
		return true; /* and the barrier once more */
	list_for_each_safe(link, &moves) {
		struct move *move = container_of(link, struct move, link);

		if (!move->over)
			finish(move);
		list_remove(link);
		mem_free(move);
	}
	control_unlock();
	return !move_no_requests();
}

void sock_moves_forget(void)
{
	move_forget_requests();
	list_init(&moves);
	/* What was under way ends in the parent. */
	memset(&sock_moves_rx, 0, sizeof(sock_moves_rx));
	memset(&sock_moves_tx, 0, sizeof(sock_moves_tx));
}
