/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys of sockets, the threads that use them, and requests to move them: see access.h. */
#include "sock/core/access.h"

#include <limits.h>
#include <string.h>

#include "base/delay.h"
#include "base/mem.h"
#include "base/param.h"

#define CONFIRMATIONS 20		/* accesses with the same key before a socket moves */
#define PUT_OFF_STEP 1000		/* accesses between two reads of the clock */
#define ASK_AGAIN (100 * NSEC_PER_MSEC) /* between two requests of a socket */
#define PUT_OFF NSEC_PER_SEC		/* until the next request if there was no ring */

static ck_stack_t requests = CK_STACK_INITIALIZER;

/* ---- requests -------------------------------------------------------------------------------- */

bool move_no_requests(void)
{
	return ck_pr_load_ptr(&requests.head) == NULL;
}

void move_post_request(struct move_request *req)
{
	delay_at(DELAY_REQUEST_POST);
	tsan_release(&requests); /* pairs with move_take_requests() */
	ck_stack_push_upmc(&requests, &req->link);
}

static void request_move(struct inet_sock *so, bool tx, uint64_t key, bool asked)
{
	struct move_request *req = mem_alloc(sizeof(*req));

	if (!req)
		return; /* requested again later */
	req->so = so;
	req->gen = so->sk.gen;
	req->tx = tx;
	req->key = key;
	req->asked = asked;
	move_post_request(req);
	progress_kick();
}

struct move_request *move_take_requests(void)
{
	ck_stack_entry_t *link, *oldest = NULL, *next;

	delay_at(DELAY_REQUEST_TAKE);
	/* Pairs with the push of move_post_request(). */
	link = ck_stack_batch_pop_upmc(&requests);
	tsan_acquire(&requests);
	for (; link; link = next) {
		next = link->next;
		link->next = oldest;
		oldest = link;
	}
	return (struct move_request *)(void *)oldest;
}

void move_forget_requests(void)
{
	ck_stack_init(&requests);
}

/* ---- the threads that use a socket (holder) ----------------------------------------------- */

/* Accesses between two checks of the calling thread's key. */
static int ratio_of(const struct inet_sock *so, bool tx)
{
	const struct ring_alloc *alloc = tx ? &so->opt->alloc_tx : &so->opt->alloc_rx;
	int ratio = tx ? params.ring_migration_tx : params.ring_migration_rx;

	/* A program of socketxtreme polls the ring that it was told. */
	return ring_logic_moves(alloc->logic) && ratio > 0 && !params.socketxtreme ? ratio
										   : INT_MAX;
}

uint64_t move_key(const struct inet_sock *so, bool tx)
{
	return __atomic_load_n(tx ? &so->tx_key : &so->rx_key, __ATOMIC_RELAXED);
}

void move_set_key(struct inet_sock *so, bool tx, uint64_t key)
{
	control_assert_held();
	__atomic_store_n(tx ? &so->tx_key : &so->rx_key, key, __ATOMIC_RELAXED);
}

/* Receives between two looks at the twin, for which the kernel may have received something. */
static int twin_ratio(void)
{
	return params.rx_udp_poll_os_ratio > 0 ? params.rx_udp_poll_os_ratio : INT_MAX;
}

/*
 * A datagram socket counts its receives for two purposes: rx_left is the lesser of what is left until
 * the thread's key is checked, and until the twin is due.  With by_local it is 1.
 */
static void count_receives(struct inet_sock *so)
{
	struct udp_state *udp = &so->udp;

	udp->counts = udp->key_left < udp->twin_left ? udp->key_left : udp->twin_left;
	if (udp->by_local)
		udp->counts = 1;
	so->rx_left = udp->counts;
}

/* So many accesses until the thread's key is checked. */
static void set_left(struct inet_sock *so, bool tx, int left)
{
	if (tx) {
		so->tx_left = left;
	} else if (so->sk.type == SOCK_TYPE_UDP) {
		so->udp.key_left = left;
		count_receives(so);
	} else {
		so->rx_left = left;
	}
}

bool sock_twin_is_due(struct inet_sock *so)
{
	if (so->udp.twin_left > 0)
		return false;
	so->udp.twin_left = twin_ratio();
	count_receives(so);
	return params.rx_udp_poll_os_ratio > 0;
}

/* NULL: no memory; a later access tries again. */
static struct migration_candidate *candidates_of(struct inet_sock *so, bool tx)
{
	return sock_rare_make(so) ? &so->rare->candidates[tx] : NULL;
}

void sock_access_init(struct inet_sock *so)
{
	if (so->sk.type == SOCK_TYPE_UDP)
		so->udp.twin_left = twin_ratio();
	set_left(so, false, ratio_of(so, false));
	set_left(so, true, ratio_of(so, true));
	if (so->rare)
		memset(so->rare->candidates, 0, sizeof(so->rare->candidates));
}

static void check_key(struct inet_sock *so, bool tx)
{
	const struct ring_alloc *alloc = tx ? &so->opt->alloc_tx : &so->opt->alloc_rx;
	struct migration_candidate *access;
	uint64_t placed = move_key(so, tx), key;
	int ratio = ratio_of(so, tx);

	set_left(so, tx, ratio);
	if (placed == SOCK_NO_KEY || (ratio == INT_MAX && ring_logic_moves(alloc->logic)))
		return;
	key = ring_key(alloc, &so->local.addr, so->id);
	if (key == placed) {
		if (so->rare)
			so->rare->candidates[tx].confirmed = 0;
		return;
	}
	access = candidates_of(so, tx);
	if (!access)
		return;
	if (access->not_before && clock_now() < access->not_before) {
		set_left(so, tx, ratio < PUT_OFF_STEP ? ratio : PUT_OFF_STEP);
		return;
	}
	set_left(so, tx, 1);
	if (!access->confirmed || access->candidate != key) {
		access->candidate = key;
		access->confirmed = 1;
		return;
	}
	if (access->confirmed++ < CONFIRMATIONS)
		return;
	access->confirmed = 0;
	set_left(so, tx, ratio);
	access->not_before = clock_now() + ASK_AGAIN;
	request_move(so, tx, key, false);
}

/* Local senders reach the socket: has nothing come by them, and is the twin not known to have something? */
static inline bool is_quiet(const struct inet_sock *so, const struct local_quiet *quiet)
{
	return local_is_quiet(quiet) && !__atomic_load_n(&so->sk.twin_events, __ATOMIC_RELAXED);
}

static bool receive_slow(struct inet_sock *so)
{
	struct udp_state *udp = &so->udp;
	struct local_quiet *quiet = udp->by_local ? (void *)udp->local : NULL;

	udp->key_left -= udp->counts - so->rx_left;
	udp->twin_left -= udp->counts - so->rx_left;
	if (quiet && is_quiet(so, quiet) && udp->key_left > 0 && udp->twin_left > 0) {
		so->rx_left = udp->counts; /* as count_receives() has set it */
		quiet->others++;
		return false;
	}
	if (udp->key_left <= 0)
		check_key(so, false);
	else
		count_receives(so);
	return udp->by_local || udp->twin_left <= 0;
}

bool sock_access_slow(struct inet_sock *so, bool tx)
{
	if (!tx && so->sk.type == SOCK_TYPE_UDP)
		return receive_slow(so);
	check_key(so, tx);
	return false;
}

/* ---- keys (control lock) --------------------------------------------------------------------- */

uint64_t sock_rx_key(struct inet_sock *so, const struct inaddr *local)
{
	control_assert_held();
	if (move_key(so, false) == SOCK_NO_KEY || so->opt->alloc_rx.logic == RING_LOGIC_IP)
		move_set_key(so, false, ring_key(&so->opt->alloc_rx, local, so->id));
	return move_key(so, false);
}

bool move_same_alloc(const struct inet_sock *so)
{
	const struct ring_alloc *rx = &so->opt->alloc_rx, *tx = &so->opt->alloc_tx;

	return rx->logic == tx->logic && rx->profile == tx->profile && rx->user_id == tx->user_id;
}

void sock_tx_query(struct inet_sock *so, struct dst_query *query)
{
	uint64_t rx = move_key(so, false);

	control_assert_held();
	/* One ring for both directions, until the threads that send and receive differ. */
	if (move_key(so, true) == SOCK_NO_KEY)
		move_set_key(so, true,
			     rx != SOCK_NO_KEY && move_same_alloc(so)
				     ? rx
				     : ring_key(&so->opt->alloc_tx, &so->local.addr, so->id));
	query->alloc = so->opt->alloc_tx;
	query->key = move_key(so, true);
}

struct dst_query sock_query(struct inet_sock *so)
{
	struct dst_query query = sock_way_query(so, &so->remote, so->local.addr);

	control_assert_held();
	if (!query.oif && so->local.scope)
		query.oif = (int)so->local.scope;
	sock_tx_query(so, &query);
	return query;
}

void move_put_off(struct inet_sock *so, bool tx)
{
	struct migration_candidate *access;
	struct ring *home;

	control_assert_held();
	control_assert_no_ring();
	if (sock_hold_cold(sock_ref_of(so), &home))
		return;
	access = candidates_of(so, tx);
	if (access)
		access->not_before = clock_now() + PUT_OFF;
	set_left(so, tx, 1);
	ring_release_cold(home);
}

void sock_alloc_changed(struct inet_sock *so, bool rx, bool tx)
{
	uint64_t key;

	control_assert_held();
	sock_access_init(so);
	/* A key that was not needed so far is chosen when it is. */
	if (rx && move_key(so, false) != SOCK_NO_KEY) {
		key = ring_key(&so->opt->alloc_rx, &so->local.addr, so->id);
		if (key != move_key(so, false))
			request_move(so, false, key, true);
	}
	if (tx && move_key(so, true) != SOCK_NO_KEY) {
		key = ring_key(&so->opt->alloc_tx, &so->local.addr, so->id);
		if (key != move_key(so, true))
			request_move(so, true, key, true);
	}
}
