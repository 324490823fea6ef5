/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/move/move.h"

#include <string.h>

#include "base/delay.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "ring/inbox.h"
#include "ring/source.h"
#include "sock/core/extra/xtreme.h"
#include "sock/local/local_link.h"
#include "sock/move/move_internal.h"
#include "sock/tcp/tcp_sock.h"
#include "sock/udp/udp_sock.h"

struct sock_move_stats sock_moves_rx, sock_moves_tx;

static struct list moves = {&moves, &moves}; /* internal thread */

/* ---- starting (control lock) -------------------------------------------------------- */

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
	yes = !sock_is_gone(so) && !so->move && ring_is_open(home) && home != local_ring() &&
	      !(so->inet == INET_TCP && (!sock_has_connection(so) || sock_is_connecting(so)));
	ring_release_cold(home);
	return yes && req->key != move_key(so, req->tx);
}

static uint64_t move_key_for(const struct inet_sock *so, const struct inaddr *local, uint64_t key)
{
	if (so->opt->alloc_rx.logic == RING_LOGIC_IP)
		return ring_key(&so->opt->alloc_rx, local, so->id);
	return key;
}

/*
 * The ring of an interface that the frames are to arrive at; NULL: there is none other than
 * the present one.
 */
static struct ring *move_target(const struct inet_sock *so, const struct ring *from,
				const struct inaddr *local, uint64_t key)
{
	char why[PORT_WHY] = "";
	struct ring *to;
	bool fresh;

	key = move_key_for(so, local, key);
	if (rings_get(from->ifindex, key, &to, why, &fresh) || to == from || to->key != key)
		return NULL;
	return to;
}

/* listed: NULL for a connection's own flow. */
static void move_add_part(struct move *move, struct flow *flow, struct sock_flow *listed,
			  struct ring *from)
{
	struct move_part *part = &move->parts[move->n_parts];

	*part = (struct move_part){.move = move, .flow = flow, .listed = listed, .from = from};
	part->to = move_target(move->so, from, &flow->key.local, move->key);
	if (!part->to || move_part_steer(part)) {
		log_debug("fd %d: a flow stays on ring %u", sock_twin(&move->so->sk), from->id);
		if (move->so->inet != INET_UDP)
			return; /* a listener's connections have no order */
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

/*
 * Looks up the route of a connection from its new ring; datagrams look theirs up when they are
 * sent.
 */
static void move_find_dst(struct move *move)
{
	struct inet_sock *so = move->so;
	struct dst_query query;

	if (so->inet != INET_TCP)
		return;
	query = sock_query(so);
	if (move_same_alloc(so))
		query.key = move->key; /* it sends by the new ring, too */
	dst_find(&query, &move->found);
	move->has_dst = move->found.verdict == VERDICT_ACCELERATED;
}

static void move_arrive_run(struct ring *ring, struct inbox_item *item);

static struct move *move_prepare(struct inet_sock *so, uint64_t key, struct ring *to)
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
	move->arrive.run = move_arrive_run;
	if (so->inet == INET_TCP) {
		move_add_part(move, &so->tcp.flow, NULL, move->from);
	} else {
		list_for_each(link, &so->flows) {
			struct sock_flow *f = sock_flow_of(link);

			move_add_part(move, &f->flow, f, f->ring);
		}
	}
	return move;
}

static void move_abandoned(struct inet_sock *so, const char *why)
{
	move_count(&sock_moves_rx.abandoned);
	log_debug("fd %d: stays on ring %u: %s", sock_twin(&so->sk), sock_home(so)->id, why);
}

static void move_start_rx(const struct move_request *req)
{
	struct inet_sock *so = req->so;
	struct ring *to = NULL;
	struct move *move;

	if (!move_is_possible(req))
		return;
	move_count(&sock_moves_rx.started);
	to = move_target(so, sock_home(so), &so->local.addr, req->key);
	if (!to) {
		move_put_off(so, false);
		move_abandoned(so, "there is no other ring for it");
		return;
	}
	move = move_prepare(so, req->key, to);
	if (!move || (so->inet == INET_TCP && !move->n_parts)) {
		mem_free(move);
		move_abandoned(so, "its frames cannot be steered");
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

/* ---- the end (control lock) --------------------------------------------------------- */

static void move_release(struct move *move)
{
	for (unsigned i = 0; i < move->n_parts; i++)
		ring_put(move->parts[i].to);
	ring_put(move->to);
	move->n_parts = 0;
	move->over = true;
}

/* The socket ended: removes the stand-ins, and what they kept. */
static void move_abort(struct move *move)
{
	for (unsigned i = 0; i < move->n_parts; i++) {
		struct move_part *part = &move->parts[i];

		if (ring_hold_cold(part->to)) {
			move_part_drop(part);
			ring_release_cold(part->to);
		}
	}
	move_release(move);
	move_count(&sock_moves_rx.abandoned);
}

/*
 * Makes the new ring the home of the socket. LEAVE does it, because it must do so before it
 * releases the old ring. ARRIVE does it, too: it may run as soon as it is posted, and needs the
 * ring that it holds to be the socket's home. The second of them changes nothing: only a holder
 * of the old ring could make that ring the home again.
 */
static void move_change_home(struct inet_sock *so, struct ring *from, struct ring *to)
{
	/* Pairs with sock_hold_mode(). */
	__atomic_compare_exchange_n(&so->sk.home, &from, to, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
}

/*
 * holder of the old home, drained; sent_by: gets a reference to each ring. Once ARRIVE is posted,
 * nothing but home may be accessed: a connection that its program closed may be freed by then.
 */
static unsigned move_leave(struct move *move, struct ring *ring, struct ring **sent_by)
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
	if (xtreme_is_on())
		xtreme_leave(so);
	ring_get(move->to); /* as the new home */
	/* First: a thread that finds the new home and holds it runs ARRIVE before anything else. */
	ring_post(move->to, &move->arrive);
	delay_at(DELAY_MOVE_POSTED);
	move_change_home(so, ring, move->to);
	ring_put(ring);
	return n;
}

/* holder of the new home */
static void move_arrive_run(struct ring *ring, struct inbox_item *item)
{
	struct move *move = container_of(item, struct move, arrive);
	struct inet_sock *so = move->so;

	delay_at(DELAY_MOVE_ARRIVE);
	move_change_home(so, move->from, ring);
	if (so->inet == INET_TCP)
		tcp_arrive(so, ring, move->from, move->has_dst ? &move->found : NULL);
	else if (so->inet == INET_UDP)
		udp_arrive(so, ring);
	for (unsigned i = 0; i < move->n_parts; i++) {
		if (move->parts[i].to == ring)
			move_part_arrive(&move->parts[i]);
	}
	if (xtreme_is_on())
		xtreme_arrive(so, ring);
	/* Threads that sleep on the old ring's descriptors look for the new ones. */
	ready_wake_all(&so->sk);
}

/* Drains the rings that are not home into the socket, and removes the flows from them. */
static void move_leave_others(struct move *move)
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

static void move_arrive_others(struct move *move)
{
	for (unsigned i = 0; i < move->n_parts; i++) {
		struct move_part *part = &move->parts[i];

		if (part->to == move->to || !ring_hold_cold(part->to))
			continue;
		move_part_arrive(part);
		ring_release_cold(part->to);
	}
}

#define UNCHECKED_ROUNDS 16

/*
 * Before the socket leaves a ring, delivers the packets there that wait until their senders were
 * checked. After the barrier no new ones arrive for this socket, but those of other sockets may,
 * so the number of rounds is limited. Then move_part_leave() takes the rest along, but for those of
 * groups.
 */
static void deliver_unchecked(struct ring *ring)
{
	unsigned waiting = 1;

	for (unsigned i = 0; waiting && i < UNCHECKED_ROUNDS && ring_hold_cold(ring); i++) {
		if (i)
			sys_sched_yield(); /* another thread may be about to answer */
		ring_drain(ring);
		waiting = ring->n_waiting;
		ring_release_cold(ring);
		if (waiting)
			source_answer_all();
	}
}

/* Called after the barrier. */
static void move_finish(struct move *move)
{
	struct inet_sock *so = move->so;
	struct sock_ref ref = {&so->sk, move->gen};
	struct ring *ring, *sent_by[MOVE_TX_RINGS_MAX];
	unsigned n;
	int fd;

	delay_at(DELAY_MOVE_BARRIER);
	if (!move->closed) /* a closed one sends as before, and may end at any time */
		move_find_dst(move);
	for (unsigned i = 0; i < move->n_parts; i++)
		deliver_unchecked(move->parts[i].from);
	move_leave_others(move);
	/* A connection that its program closed may have ended: then it must not be accessed. */
	if (sock_hold_cold(ref, &ring)) {
		move_abort(move);
		return;
	}
	ring_drain(ring);
	delay_at(DELAY_MOVE_DRAINED);
	if (!sock_at_home(ref, ring)) {
		ring_release_cold(ring);
		move_abort(move);
		return;
	}
	fd = sock_twin(&so->sk);
	n = move_leave(move, ring, sent_by);
	ring_release_cold(ring);
	delay_at(DELAY_MOVE_LEFT);
	move_drain_tx(sent_by, n);
	/* Once this thread has held and released the ring, ARRIVE has run. */
	if (ring_hold_cold(move->to))
		ring_release_cold(move->to);
	move_arrive_others(move);
	if (!move->closed) {
		sock_rings_changed(so);
		sock_stats_moved(so, true, move->from->id);
	}
	log_debug("fd %d: moved from ring %u to ring %u in %ld us", fd, move->from->id,
		  move->to->id, (clock_now() - move->began) / NSEC_PER_USEC);
	move_release(move);
	move_count(&sock_moves_rx.finished);
}

static void move_barrier_add(const struct move *move, struct rings_barrier *barrier)
{
	for (unsigned i = 0; i < move->n_parts; i++)
		rings_barrier_add(barrier, move->parts[i].to);
}

static void move_barrier(const struct move *move)
{
	struct rings_barrier barrier = {.n = 0};

	move_barrier_add(move, &barrier);
	rings_barrier_wait(&barrier);
}

void sock_move_settle(struct inet_sock *so)
{
	control_assert_held();
	if (!so->move)
		return;
	move_barrier(so->move);
	move_finish(so->move);
	so->move = NULL;
}

void sock_moves_settle(void)
{
	control_assert_held();
	list_for_each(link, &moves) {
		struct move *move = container_of(link, struct move, link);

		if (move->over)
			continue;
		move_barrier(move);
		move_finish(move);
	}
}

void sock_move_cancel(struct inet_sock *so)
{
	control_assert_held();
	if (!so->move)
		return;
	move_abort(so->move);
	so->move = NULL;
}

void sock_move_closed(struct inet_sock *so)
{
	control_assert_held();
	/* A stand-in drops a segment that arrives in between, and the peer sends it again. */
	if (!so->move)
		return;
	so->move->closed = true;
	/* Pairs with move_is_valid() in move_flow.c. */
	__atomic_store_n(&so->move->gen, so->sk.gen, __ATOMIC_RELEASE);
}

/* ---- the internal thread ------------------------------------------------------------ */

/* A socket that is moving finishes that move first. */
static bool must_wait(const struct move_request *req)
{
	struct sock_ref ref = {&req->so->sk, req->gen};

	return sock_ref_valid(ref) && req->so->move;
}

static void move_start_all(void)
{
	struct move_request *req = move_take_requests();

	while (req) {
		struct move_request *next = (struct move_request *)(void *)req->link.next;

		if (must_wait(req)) {
			move_post_request(req);
		} else {
			if (req->tx)
				move_start_tx(req);
			else
				move_start_rx(req);
			mem_free(req);
		}
		req = next;
	}
}

/* One barrier for all moves that are under way. */
static void move_barrier_all(void)
{
	struct rings_barrier barrier = {.n = 0};

	list_for_each(link, &moves)
		move_barrier_add(container_of(link, const struct move, link), &barrier);
	control_unlock();
	rings_barrier_wait(&barrier); /* no other thread closes ports */
}

bool sock_moves_run(void)
{
	if (move_no_requests() && list_empty(&moves))
		return false;
	if (!control_trylock())
		return true;
	move_start_all();
	if (list_empty(&moves)) {
		control_unlock();
		return false;
	}
	move_barrier_all();
	if (!control_trylock())
		return true; /* with another barrier */
	list_for_each_safe(link, &moves) {
		struct move *move = container_of(link, struct move, link);

		if (!move->over)
			move_finish(move);
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
	/* Moves that are under way end in the parent. */
	memset(&sock_moves_rx, 0, sizeof(sock_moves_rx));
	memset(&sock_moves_tx, 0, sizeof(sock_moves_tx));
}
