/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/move.h"

#include <limits.h>
#include <string.h>

#include "base/delay.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "ring/inbox.h"
#include "sock/move_internal.h"
#include "sock/tcp_internal.h"
#include "sock/udp_internal.h"

#define CONFIRMATIONS 20		/* accesses by the same key before a socket moves */
#define PUT_OFF_STEP 1000		/* accesses after which the clock is looked at again */
#define ASK_AGAIN (100 * NSEC_PER_MSEC) /* when nothing came of it */
#define PUT_OFF NSEC_PER_SEC		/* between two looks where there is no ring for it */
#define TX_RINGS_MAX 16u		/* destinations of one socket that are moved ahead */

struct sock_move_stats sock_moves_rx, sock_moves_tx;

/* Posted by whoever uses the socket; lock-free. */
struct request {
	ck_stack_entry_t link; /* first */
	struct inet_sock *so;
	uint32_t gen;
	bool tx;
	bool asked; /* by setsockopt(), not by its accesses */
	uint64_t key;
};

static ck_stack_t requests = CK_STACK_INITIALIZER;
static struct list moves = {&moves, &moves}; /* internal thread */

static void count(unsigned *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- who uses the socket (holder) ---------------------------------------------------------- */

static int ratio_of(const struct inet_sock *so, bool tx)
{
	const struct ring_alloc *alloc = tx ? &so->opt->alloc_tx : &so->opt->alloc_rx;
	int ratio = tx ? params.ring_migration_tx : params.ring_migration_rx;

	return ring_logic_moves(alloc->logic) && ratio > 0 ? ratio : INT_MAX;
}

/* any */
static uint64_t key_of(const struct inet_sock *so, bool tx)
{
	return __atomic_load_n(tx ? &so->tx_key : &so->rx_key, __ATOMIC_RELAXED);
}

/* control lock */
static void set_key(struct inet_sock *so, bool tx, uint64_t key)
{
	__atomic_store_n(tx ? &so->tx_key : &so->rx_key, key, __ATOMIC_RELAXED);
}

static int *left_of(struct inet_sock *so, bool tx)
{
	return tx ? &so->tx_left : &so->rx_left;
}

/* NULL: no memory; somebody will look again. */
static struct sock_wander *wander_of(struct inet_sock *so, bool tx)
{
	if (!so->wander)
		so->wander = mem_zalloc(2 * sizeof(*so->wander));
	return so->wander ? &so->wander[tx] : NULL;
}

void sock_access_init(struct inet_sock *so)
{
	so->rx_left = ratio_of(so, false);
	so->tx_left = ratio_of(so, true);
	if (so->wander)
		memset(so->wander, 0, 2 * sizeof(*so->wander));
}

static bool no_requests(void)
{
	return ck_pr_load_ptr(&requests.head) == NULL;
}

static void post_request(struct request *req)
{
	delay_at(DELAY_REQUEST_POST);
	tsan_release(&requests); /* pairs with take_requests() */
	ck_stack_push_upmc(&requests, &req->link);
}

static void request(struct inet_sock *so, bool tx, uint64_t key, bool asked)
{
	struct request *req = mem_alloc(sizeof(*req));

	if (!req)
		return; /* it is asked for again */
	req->so = so;
	req->gen = so->sk.gen;
	req->tx = tx;
	req->key = key;
	req->asked = asked;
	post_request(req);
	progress_kick();
}

void sock_access_slow(struct inet_sock *so, bool tx)
{
	const struct ring_alloc *alloc = tx ? &so->opt->alloc_tx : &so->opt->alloc_rx;
	struct sock_wander *access;
	uint64_t placed = key_of(so, tx), key;
	int ratio = ratio_of(so, tx);

	*left_of(so, tx) = ratio;
	if (placed == SOCK_NO_KEY || (ratio == INT_MAX && ring_logic_moves(alloc->logic)))
		return;
	key = ring_key(alloc, &so->local.addr, so->id);
	if (key == placed) {
		if (so->wander)
			so->wander[tx].confirmed = 0;
		return;
	}
	access = wander_of(so, tx);
	if (!access)
		return;
	if (access->not_before && clock_now() < access->not_before) {
		*left_of(so, tx) = ratio < PUT_OFF_STEP ? ratio : PUT_OFF_STEP;
		return;
	}
	*left_of(so, tx) = 1;
	if (!access->confirmed || access->candidate != key) {
		access->candidate = key;
		access->confirmed = 1;
		return;
	}
	if (access->confirmed++ < CONFIRMATIONS)
		return;
	access->confirmed = 0;
	*left_of(so, tx) = ratio;
	access->not_before = clock_now() + ASK_AGAIN;
	request(so, tx, key, false);
}

/* ---- keys (control lock) --------------------------------------------------------------------- */

uint64_t sock_rx_key(struct inet_sock *so, const struct inaddr *local)
{
	if (key_of(so, false) == SOCK_NO_KEY || so->opt->alloc_rx.logic == RING_LOGIC_IP)
		set_key(so, false, ring_key(&so->opt->alloc_rx, local, so->id));
	return key_of(so, false);
}

static bool same_alloc(const struct inet_sock *so)
{
	return so->opt->alloc_rx.logic == so->opt->alloc_tx.logic &&
	       so->opt->alloc_rx.user_id == so->opt->alloc_tx.user_id;
}

void sock_tx_query(struct inet_sock *so, struct dst_query *query)
{
	uint64_t rx = key_of(so, false);

	/* One ring for both, until the threads that send and receive differ. */
	if (key_of(so, true) == SOCK_NO_KEY)
		set_key(so, true,
			rx != SOCK_NO_KEY && same_alloc(so)
				? rx
				: ring_key(&so->opt->alloc_tx, &so->local.addr, so->id));
	query->alloc = so->opt->alloc_tx;
	query->key = key_of(so, true);
}

struct dst_query sock_query(struct inet_sock *so)
{
	struct dst_query query = sock_way_query(so, &so->remote, so->local.addr);

	sock_tx_query(so, &query);
	return query;
}

/* ---- starting (control lock) -------------------------------------------------------------------- */

static bool movable(const struct request *req)
{
	struct sock_ref ref = {&req->so->sk, req->gen};
	const struct inet_sock *so = req->so;
	struct ring *home;
	bool yes;

	if (sock_hold_cold(ref, &home))
		return false;
	yes = !so->gone && !so->move && home->q &&
	      !(so->inet == INET_TCP && (!so->connected || so->tcp.connecting));
	ring_release_cold(home);
	return yes && req->key != key_of(so, req->tx);
}

/* There is no ring for it: it is looked at again much later. */
static void put_off(struct inet_sock *so, bool tx)
{
	struct sock_wander *access;
	struct ring *home;

	if (sock_hold_cold(sock_ref_of(so), &home))
		return;
	access = wander_of(so, tx);
	if (access)
		access->not_before = clock_now() + PUT_OFF;
	*left_of(so, tx) = 1;
	ring_release_cold(home);
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
	if (same_alloc(so))
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
	count(&sock_moves_rx.abandoned);
	log_debug("fd %d: stays on ring %u: %s", sock_twin(&so->sk), sock_home(so)->id, why);
}

static void start_rx(const struct request *req)
{
	struct inet_sock *so = req->so;
	struct ring *to = NULL;
	struct move *move;

	if (!movable(req))
		return;
	count(&sock_moves_rx.started);
	to = target(so, sock_home(so), &so->local.addr, req->key);
	if (!to) {
		put_off(so, false);
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
	count(&sock_moves_rx.abandoned);
}

/* The rings its destinations are on; holder of home. */
static unsigned tx_rings(struct inet_sock *so, struct ring **rings)
{
	if (so->inet == INET_UDP)
		return udp_tx_rings(so, rings, TX_RINGS_MAX);
	if (so->inet == INET_TCP && so->tcp.dst.ring) {
		rings[0] = so->tcp.dst.ring;
		return 1;
	}
	return 0;
}

/*
 * What a socket had posted to the rings it sent by goes out before what it sends by
 * others: a datagram that has to find its way anew waits for the control lock.
 */
static void drain_tx(struct ring **rings, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (ring_hold_cold(rings[i]))
			ring_release_cold(rings[i]);
		ring_put(rings[i]);
	}
}

/*
 * The socket lives on the new ring.  LEAVE does it, for it may not let go of the old
 * ring before; so does ARRIVE, which may run as soon as it is posted, and for which
 * the socket's home has to be the ring that it holds.  Whoever comes second finds it
 * done: only a holder of the old ring could make that one a home again.
 */
static void change_home(struct inet_sock *so, struct ring *from, struct ring *to)
{
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
	unsigned n = tx_rings(so, sent_by);

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
	set_key(so, false, move->key);
	if (same_alloc(so))
		set_key(so, true, move->key);
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
		move_drain(part->from);
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

/* After the barrier. */
static void finish(struct move *move)
{
	struct inet_sock *so = move->so;
	struct sock_ref ref = {&so->sk, move->gen};
	struct ring *ring, *sent_by[TX_RINGS_MAX];
	unsigned n;
	int fd;

	delay_at(DELAY_MOVE_BARRIER);
	if (!move->closed) /* else it sends as before, and is nobody's: it may end at any time */
		find_dst(move);
	leave_others(move);
	/* A connection that its program closed may have ended; nothing of it is looked at then. */
	if (sock_hold_cold(ref, &ring)) {
		call_off(move);
		return;
	}
	move_drain(ring);
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
	drain_tx(sent_by, n);
	/* If somebody else holds it: after him, ARRIVE has run. */
	if (ring_hold_cold(move->to))
		ring_release_cold(move->to);
	arrive_others(move);
	if (!move->closed)
		sock_rings_changed(so);
	log_debug("fd %d: moved from ring %u to ring %u in %ld us", fd, move->from->id,
		  move->to->id, (clock_now() - move->began) / NSEC_PER_USEC);
	let_go(move);
	count(&sock_moves_rx.finished);
}

static void barrier(const struct move *move)
{
	struct port *last = NULL;

	for (unsigned i = 0; i < move->n_parts; i++) {
		struct port *port = move->parts[i].to->q->port;

		if (port != last)
			port->ops->barrier(port);
		last = port;
	}
}

void sock_move_settle(struct inet_sock *so)
{
	if (!so->move)
		return;
	barrier(so->move);
	finish(so->move);
	so->move = NULL;
}

void sock_move_cancel(struct inet_sock *so)
{
	if (!so->move)
		return;
	call_off(so->move);
	so->move = NULL;
}

void sock_move_closed(struct inet_sock *so)
{
	/* A segment that arrives in between is dropped by its stand-in, and sent again. */
	if (!so->move)
		return;
	so->move->closed = true;
	__atomic_store_n(&so->move->gen, so->sk.gen, __ATOMIC_RELEASE);
}

/* ---- sending ------------------------------------------------------------------------------------------ */

/* It sends by the ring of another key from now on; where it did: with references. */
static unsigned retarget(struct inet_sock *so, uint64_t key, const struct dst_found *found,
			 struct ring **sent_by)
{
	struct ring *home;
	unsigned n;

	if (sock_hold_cold(sock_ref_of(so), &home))
		return 0;
	n = tx_rings(so, sent_by);
	for (unsigned i = 0; i < n; i++)
		ring_get(sent_by[i]);
	set_key(so, true, key);
	sock_access_init(so);
	if (so->inet == INET_UDP)
		udp_retarget(so);
	else if (found->verdict == VERDICT_ACCELERATED)
		tcp_retarget(so, home, found);
	ring_release_cold(home);
	return n;
}

/* Opened ahead, so that no send waits for it. */
static int open_tx_rings(struct inet_sock *so, uint64_t key, char why[PORT_WHY])
{
	struct ring *rings[TX_RINGS_MAX], *home, *to;
	bool fresh;
	unsigned n;
	int rc = 0;

	if (so->opt->alloc_tx.logic == RING_LOGIC_IP || sock_hold_cold(sock_ref_of(so), &home))
		return 0;
	n = tx_rings(so, rings);
	ring_release_cold(home);
	for (unsigned i = 0; i < n && !rc; i++)
		rc = rings_get(rings[i]->ifindex, key, &to, why, &fresh);
	return rc;
}

static void start_tx(const struct request *req)
{
	struct dst_found found = {.verdict = VERDICT_UNDECIDED};
	struct ring *sent_by[TX_RINGS_MAX];
	struct inet_sock *so = req->so;
	struct dst_query query;
	char why[PORT_WHY] = "";
	unsigned n;

	if (!movable(req) || so->inet == INET_LISTEN)
		return;
	count(&sock_moves_tx.started);
	if (open_tx_rings(so, req->key, why)) {
		put_off(so, true);
		count(&sock_moves_tx.abandoned);
		log_debug("fd %d: goes on sending by the same ring: %s", sock_twin(&so->sk), why);
		return;
	}
	if (so->inet == INET_TCP) {
		query = sock_query(so);
		query.key = req->key;
		dst_find(&query, &found);
	}
	n = retarget(so, req->key, &found, sent_by);
	if (n)
		log_debug("fd %d: sends by key %#lx instead of ring %u: %s", sock_twin(&so->sk),
			  req->key, sent_by[0]->id,
			  req->asked ? "its allocation logic was changed"
				     : "another thread or processor sends");
	drain_tx(sent_by, n);
	count(&sock_moves_tx.finished);
}

/* ---- the internal thread ---------------------------------------------------------------------------------- */

static struct request *take_requests(void)
{
	ck_stack_entry_t *link, *oldest = NULL, *next;

	delay_at(DELAY_REQUEST_TAKE);
	link = ck_stack_batch_pop_upmc(&requests);
	tsan_acquire(&requests);
	for (; link; link = next) {
		next = link->next;
		link->next = oldest;
		oldest = link;
	}
	return (struct request *)(void *)oldest;
}

/* It moves already: one at a time. */
static bool wait_for_move(const struct request *req)
{
	struct sock_ref ref = {&req->so->sk, req->gen};

	return sock_ref_valid(ref) && req->so->move;
}

static void start_all(void)
{
	struct request *req = take_requests();

	while (req) {
		struct request *next = (struct request *)(void *)req->link.next;

		if (wait_for_move(req)) {
			post_request(req);
		} else {
			if (req->tx)
				start_tx(req);
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
			struct port *port = move->parts[i].to->q->port;
			unsigned p = 0;

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
	if (no_requests() && list_empty(&moves))
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
	return !no_requests();
}

void sock_alloc_changed(struct inet_sock *so, bool rx, bool tx)
{
	uint64_t key;

	sock_access_init(so);
	/* A key that was never needed is chosen when it is. */
	if (rx && key_of(so, false) != SOCK_NO_KEY) {
		key = ring_key(&so->opt->alloc_rx, &so->local.addr, so->id);
		if (key != key_of(so, false))
			request(so, false, key, true);
	}
	if (tx && key_of(so, true) != SOCK_NO_KEY) {
		key = ring_key(&so->opt->alloc_tx, &so->local.addr, so->id);
		if (key != key_of(so, true))
			request(so, true, key, true);
	}
}

void sock_moves_forget(void)
{
	ck_stack_init(&requests);
	list_init(&moves);
	/* What was under way ends in the parent. */
	memset(&sock_moves_rx, 0, sizeof(sock_moves_rx));
	memset(&sock_moves_tx, 0, sizeof(sock_moves_tx));
}
