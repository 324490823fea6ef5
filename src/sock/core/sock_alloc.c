/* SPDX-License-Identifier: BSD-2-Clause */
#include <ck_spinlock.h>

#include "base/mem.h"
#include "base/image/sections.h"
#include "sock/core/access.h"
#include "sock/core/kind.h"
#include "sock/core/port/port_keeper.h"

/*
 * Objects of one type: freed ones, to be used again, and memory for new ones.  Memory is
 * taken in large pieces, which are never given back, because the size classes of the
 * allocator would make each object larger.  (For each piece it adds one page, for a random
 * offset.)  The unused part of a piece is not touched.  Protected by pool_lock, a spinlock
 * that is held for some instructions.
 */
#define POOL_PIECE (1u << 20)
#define POOL_ALIGN 64u /* a cache line */
struct pool {
	struct list ended; /* of inet_sock.link: freed objects */
	char *fresh;	   /* the unused part of the last piece; NULL: none */
	size_t left;	   /* bytes there */
};

static ck_spinlock_fas_t pool_lock EARLY_DATA = CK_SPINLOCK_FAS_INITIALIZER;
static struct pool pools[SOCK_TYPES] EARLY_DATA;

EARLY_CODE void sock_alloc_init(void)
{
	memset(pools, 0, sizeof(pools));
	for (unsigned type = 0; type < SOCK_TYPES; type++)
		list_init(&pools[type].ended);
}

/* The size of an object of the type: it ends with its member of the union. */
static size_t size_of(enum sock_type type)
{
	switch (type) {
	case SOCK_TYPE_UDP:
		return offsetof(struct inet_sock, udp) + sizeof(struct udp_state);
	case SOCK_TYPE_TCP:
		return sizeof(struct inet_sock);
	case SOCK_TYPE_EPOLL:
	default:
		return offsetof(struct inet_sock, udp);
	}
}

/* pool_lock: a freed object, or (*fresh) new memory.  NULL: the pool is empty. */
static struct inet_sock *pool_take(struct pool *pool, size_t room, bool *fresh)
{
	struct list *link = list_pop_front(&pool->ended);
	char *at = pool->fresh;

	*fresh = !link;
	if (link)
		return container_of(link, struct inet_sock, link);
	if (pool->left < room)
		return NULL;
	pool->fresh += room;
	pool->left -= room;
	return (struct inet_sock *)(void *)at;
}

/* Adds a piece to the pool.  False: no memory. */
static bool pool_extend(struct pool *pool, size_t room)
{
	char *piece = mem_aligned(POOL_ALIGN, POOL_PIECE);

	if (!piece)
		return false;
	ck_spinlock_fas_lock(&pool_lock);
	if (pool->left < room) { /* else another thread was faster */
		pool->fresh = piece;
		pool->left = POOL_PIECE;
		piece = NULL;
	}
	ck_spinlock_fas_unlock(&pool_lock);
	mem_free(piece);
	return true;
}

/* Calls with a stale reference may read what comes before this. */
#define CLEARED offsetof(struct inet_sock, link)

static void init_fresh(struct inet_sock *so, enum sock_type type)
{
	memset(so, 0, CLEARED);
	so->sk.type = type;
}

static const struct sock_ops *ops_of(enum sock_type type, enum hold_mode mode)
{
	if (type == SOCK_TYPE_EPOLL)
		return NULL;
	return &sock_kinds[type == SOCK_TYPE_TCP ? INET_TCP : INET_UDP]->ops[mode];
}

/*
 * The calls that the socket may have: those of its kind; with udp.by_local, which may become true meanwhile,
 * those of one part of their table.
 */
static const struct sock_ops *ops_now(const struct inet_sock *so, enum hold_mode mode,
				      unsigned part)
{
	if (part)
		return &sock_upcalls.local_udp_ops[(part - 1) * HOLD_MODES + mode];
	return so->inet == INET_LOCAL ? &sock_kinds[INET_LOCAL]->ops[mode]
				      : ops_of(so->sk.type, mode);
}

void sock_ops_renew(struct inet_sock *so)
{
	control_assert_held();
	if (so->sk.type == SOCK_TYPE_EPOLL || !hold_single_left())
		return;
	for (unsigned part = 0; part <= LOCAL_UDP_OPS / HOLD_MODES; part++) {
		const struct sock_ops *old = ops_now(so, HOLD_SINGLE, part);

		/*
		 * Others may store those of share or udp_linger meanwhile, which are of every mode.
		 * Pairs with sock_ops_of(): the table is constant.
		 */
		__atomic_compare_exchange_n(&so->sk.ops, &old, ops_now(so, HOLD_SPIN, part), false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	}
}

struct inet_sock *sock_alloc(enum sock_type type)
{
	size_t size = size_of(type), room = (size + POOL_ALIGN - 1) & ~(size_t)(POOL_ALIGN - 1);
	const struct sock_ops *ops = ops_of(type, ring_mode_now());
	struct pool *pool = &pools[type];
	struct inet_sock *so;
	uint32_t gen;
	bool fresh;

	do {
		ck_spinlock_fas_lock(&pool_lock);
		so = pool_take(pool, room, &fresh);
		ck_spinlock_fas_unlock(&pool_lock);
	} while (!so && pool_extend(pool, room));
	if (!so)
		return NULL;
	if (fresh)
		init_fresh(so, type);
	gen = so->sk.gen;
	memset((char *)so + CLEARED, 0, size - CLEARED);
	if (so->sk.ops != ops) /* exported, or of another mode; no other thread writes it */
		__atomic_store_n(&so->sk.ops, ops, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.epoll, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.twin, -1, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.twin_events, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.events, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sk.nonblock, false, __ATOMIC_RELAXED);
	so->spare = PORT_KEEPER_NONE;
	list_init(&so->link);
	list_init(&so->flows);
	list_init(&so->sk.watches);
	so->rx_key = so->tx_key = SOCK_NO_KEY;
	__atomic_store_n(&so->id, sock_new_id(), __ATOMIC_RELAXED);
	__atomic_store_n(&so->rcvtimeo, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&so->sndtimeo, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&so->n_rings, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&so->stats_slot, 0, __ATOMIC_RELAXED);
	sock_life_set(so, LIFE_OPEN);
	ring_get(rings_nowhere());
	/* Pairs with sock_hold_mode(): the object is complete. */
	__atomic_store_n(&so->sk.home, rings_nowhere(), __ATOMIC_RELEASE);
	/* Pairs with sock_ref_valid(). */
	__atomic_store_n(&so->sk.gen, gen + 1, __ATOMIC_RELEASE);
	return so;
}

void sock_free(struct inet_sock *so)
{
	if (so->sk.type != SOCK_TYPE_EPOLL)
		sock_upcalls.epoll_sock_closed(&so->sk); /* entries added after close() */
	/* Pairs with sock_ref_valid(): references are invalid before the object is reused. */
	__atomic_store_n(&so->sk.gen, so->sk.gen + 1, __ATOMIC_RELEASE);
	port_keeper_close(so->spare);
	mem_free(so->rare);
	mem_free(so->sharing);
	options_put(so->opt);
	ring_put(sock_home(so));
	sock_life_set(so, LIFE_FREE);
	ck_spinlock_fas_lock(&pool_lock);
	list_push_back(&pools[so->sk.type].ended, &so->link);
	ck_spinlock_fas_unlock(&pool_lock);
}

bool sock_rare_make(struct inet_sock *so)
{
	if (!so->rare)
		so->rare = mem_zalloc(sizeof(*so->rare));
	return so->rare != NULL;
}

EARLY_CODE void sock_alloc_fork_prepare(void)
{
	ck_spinlock_fas_lock(&pool_lock);
}

EARLY_CODE void sock_alloc_fork_parent(void)
{
	ck_spinlock_fas_unlock(&pool_lock);
}

void sock_alloc_fork_child(void)
{
	ck_spinlock_fas_init(&pool_lock);
	sock_alloc_init();
}
