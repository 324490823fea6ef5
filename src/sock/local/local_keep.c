/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/local/local_keep.h"

#include "base/delay.h"
#include "base/mem.h"
#include "sock/local/local_sock.h"

#define FREE_MAX 64u /* packets of a keeper that wait to be used again */

static void item_run(struct ring *ring, struct inbox_item *item);

/* Nothing of a link that has an end of a keeper is for it. */
static void ignore(struct local_end *end)
{
	(void)end;
}

static const struct local_end_ops end_ops = {.notice = ignore, .died = ignore};

struct local_keeper *local_keeper_new(const struct local_keeper_ops *ops, struct sock *sk)
{
	struct local_keeper *keeper = mem_zalloc(sizeof(*keeper));

	if (!keeper)
		return NULL;
	keeper->ops = ops;
	keeper->sk = sk;
	list_init(&keeper->kept);
	keeper->first = LOCAL_NOT_KEPT;
	keeper->refs = 1;
	keeper->item.run = item_run;
	keeper->end.ops = &end_ops;
	keeper->segment = SEGMENT_NONE;
	return keeper;
}

static void free_keeper(struct local_keeper *keeper)
{
	struct pkt *pkt, *next;

	for (pkt = keeper->free; pkt; pkt = next) {
		next = pkt->next;
		mem_free(local_kept_of(pkt));
	}
	mem_free(keeper);
}

static void unref(struct local_keeper *keeper, uint32_t n)
{
	/* Pairs with itself: the last one frees what all others have used. */
	if (__atomic_sub_fetch(&keeper->refs, n, __ATOMIC_ACQ_REL) == 0)
		free_keeper(keeper);
}

static struct local_kept *kept_of(struct list *link)
{
	return container_of(link, struct local_kept, link);
}

/* holder */
static inline void tell_first(struct local_keeper *keeper)
{
	uint64_t first = list_empty(&keeper->kept) ? LOCAL_NOT_KEPT
						   : kept_of(keeper->kept.next)->position;

	if (first == keeper->first || __atomic_load_n(&keeper->left, __ATOMIC_RELAXED))
		return;
	keeper->first = first;
	keeper->ops->first(keeper, first);
}

/* ---- packets come back --------------------------------------------------------------------- */

static struct ring *home_of(const struct local_keeper *keeper)
{
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	return __atomic_load_n(&keeper->sk->home, __ATOMIC_ACQUIRE);
}

static void post(struct local_keeper *keeper)
{
	struct ring *ring = local_ring();

	/* Pairs with item_run(): what is marked before this is seen by the item, or it is posted again. */
	if (!ring || __atomic_exchange_n(&keeper->posted, true, __ATOMIC_ACQ_REL))
		return;
	__atomic_fetch_add(&keeper->refs, 1, __ATOMIC_RELAXED);
	/* acquire: pairs with local_keeper_leave() */
	if (!__atomic_load_n(&keeper->left, __ATOMIC_ACQUIRE))
		ring = home_of(keeper);
	ring_post(ring, &keeper->item);
}

/* any: a packet comes back. */
static void put_elsewhere(struct pkt *pkt)
{
	struct local_kept *kept = local_kept_of(pkt);
	struct local_keeper *keeper = kept->keeper;

	__atomic_fetch_sub(&keeper->bytes, pkt->room, __ATOMIC_RELAXED);
	delay_at(DELAY_INBOX_POST);
	/* release: pairs with local_keeper_take(): what was done with the packet; it is the holder's now */
	__atomic_store_n(&kept->back, true, __ATOMIC_RELEASE);
	post(keeper);
	unref(keeper, 1);
}

/* holder: nobody has those from first to last, which follow one another in both lists. */
static inline void unlink_kept(struct local_keeper *keeper, struct local_kept *first,
			       struct local_kept *last)
{
	first->link.prev->next = last->link.next;
	last->link.next->prev = first->link.prev;
	last->pkt.next = keeper->free;
	keeper->free = &first->pkt;
}

/* holder: is pkt, of any pool or NULL, what this keeper has behind kept? */
static inline bool follows(const struct local_kept *kept, const struct pkt *pkt)
{
	return (uintptr_t)kept->link.next == (uintptr_t)pkt + offsetof(struct local_kept, link);
}

/* holder: n more are free. */
static inline void count_free(struct local_keeper *keeper, uint32_t n)
{
	keeper->n_free += n;
	while (__builtin_expect(keeper->n_free > FREE_MAX, 0)) {
		struct pkt *pkt = keeper->free;

		keeper->free = pkt->next;
		keeper->n_free--;
		mem_free(local_kept_of(pkt));
	}
}

/* Does this thread hold the ring of the socket that has the keeper? */
static bool is_holder(const struct local_keeper *keeper)
{
	struct ring *home = home_of(keeper);

	/* It stays so while the thread holds that ring. */
	return home && hold_current == &home->hold &&
	       /* acquire: pairs with local_keeper_leave() */
	       !__atomic_load_n(&keeper->left, __ATOMIC_ACQUIRE);
}

/* holder: the first packets of a list, which one keeper has.  Returns the rest. */
static struct pkt *put_held(struct local_keeper *keeper, struct pkt *pkt, struct pkt_pool *pool)
{
	uint32_t n = 0, bytes = 0;

	while (pkt && pkt->pool == pool && local_kept_of(pkt)->keeper == keeper) {
		struct local_kept *first = local_kept_of(pkt), *last;

		do {
			last = local_kept_of(pkt);
			bytes += pkt->room;
			n++;
			pkt = pkt->next;
		} while (follows(last, pkt));
		unlink_kept(keeper, first, last);
	}
	count_free(keeper, n);
	__atomic_fetch_sub(&keeper->bytes, bytes, __ATOMIC_RELAXED);
	if (list_empty(&keeper->kept))
		tell_first(keeper);
	else
		local_keeper_take(keeper); /* those that others have freed behind them */
	unref(keeper, n);		   /* the socket has one still */
	keeper->ops->returned(inet_of(keeper->sk));
	return pkt;
}

/* The pool's. */
static struct pkt *put_some(struct pkt_pool *pool, struct pkt *list)
{
	struct local_keeper *keeper = local_kept_of(list)->keeper;
	struct pkt *next = list->next;

	if (is_holder(keeper))
		return put_held(keeper, list, pool);
	put_elsewhere(list);
	return next;
}

static void put(struct pkt_pool *pool, struct pkt *pkt)
{
	pkt->next = NULL;
	(void)put_some(pool, pkt);
}

/* Copies of them are not needed, and any thread may free them. */
static struct pkt_pool pool = {.put = put, .put_some = put_some, .flags = PKT_POOL_SHARED};

struct pkt *local_keep_extend(struct local_keeper *keeper)
{
	struct local_kept *kept = mem_alloc(sizeof(*kept));

	if (!kept)
		return NULL;
	*kept = (struct local_kept){.pkt.pool = &pool, .keeper = keeper};
	keeper->n_free++; /* until local_keep_end() */
	return &kept->pkt;
}

static inline void end_run(struct local_keeper *keeper, struct local_keep_run run)
{
	run.last->next = &keeper->kept;
	keeper->kept.prev = run.last;
	keeper->free = run.free;
	keeper->n_free -= run.n;
	__atomic_fetch_add(&keeper->refs, run.n, __ATOMIC_RELAXED);
	__atomic_fetch_add(&keeper->bytes, run.bytes, __ATOMIC_RELAXED);
	tell_first(keeper);
}

void local_keep_end(struct local_keeper *keeper, struct local_keep_run run)
{
	end_run(keeper, run);
}

struct pkt *local_keep(struct local_keeper *keeper, uint64_t position, uint8_t *at, uint32_t len)
{
	struct local_keep_run run = local_keep_begin(keeper);
	struct list *last = run.last, *after = last;
	struct pkt *pkt = local_keep_next(keeper, &run, position, at, len);

	if (!pkt)
		return NULL;
	while (after != &keeper->kept && kept_of(after)->position > position)
		after = after->prev;
	if (__builtin_expect(after != last, 0)) {
		run.last = last;
		list_push_back(after->next, &local_kept_of(pkt)->link); /* before that */
	}
	pkt->next = NULL;
	end_run(keeper, run);
	return pkt;
}

void local_keeper_take(struct local_keeper *keeper)
{
	uint32_t n = 0;

	while (!list_empty(&keeper->kept)) {
		struct local_kept *kept = kept_of(keeper->kept.next);

		/* acquire: pairs with put_elsewhere() */
		if (!__atomic_load_n(&kept->back, __ATOMIC_ACQUIRE))
			break;
		kept->back = false;
		unlink_kept(keeper, kept, kept);
		n++;
	}
	count_free(keeper, n);
	tell_first(keeper);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* holder of local_ring(): no packet is left. */
static void end(struct local_keeper *keeper)
{
	if (keeper->end.link && keeper->moved_away)
		local_end_move_away(&keeper->end);
	else if (keeper->end.link)
		local_end_leave(&keeper->end);
	if (keeper->side) /* release: pairs with is_gone() (local_end.c) */
		__atomic_store_n(&keeper->side->gone, 1, __ATOMIC_RELEASE);
	keeper->side = NULL;
	segment_close(&keeper->segment);
	local_memory_give(keeper->memory);
	keeper->memory = 0;
	unref(keeper, 1); /* that of the part */
}

void local_keeper_leave(struct local_keeper *keeper)
{
	bool none;

	local_keeper_take(keeper);
	none = list_empty(&keeper->kept);
	/*
	 * release: pairs with post(): the holder is another one now, and if packets are left, it may end
	 * the keeper at once
	 */
	__atomic_store_n(&keeper->left, true, __ATOMIC_RELEASE);
	if (none)
		end(keeper);
}

/* holder of a ring that may be the right one: sends the item on, or takes what is back. */
static void look(struct local_keeper *keeper, struct ring *ring)
{
	struct ring *home = home_of(keeper);
	/* acquire: pairs with local_keeper_leave(); after home, which may be another one since then */
	bool left = __atomic_load_n(&keeper->left, __ATOMIC_ACQUIRE);

	/* Until it is left the socket has the keeper, whatever has become of the program's references. */
	if (ring != (left ? local_ring() : home)) {
		post(keeper); /* it has moved on */
		return;
	}
	if (list_empty(&keeper->kept))
		return; /* an item that came late */
	local_keeper_take(keeper);
	if (!left)
		keeper->ops->returned(inet_of(keeper->sk));
	else if (list_empty(&keeper->kept))
		end(keeper);
}

static void item_run(struct ring *ring, struct inbox_item *item)
{
	struct local_keeper *keeper = container_of(item, struct local_keeper, item);

	delay_at(DELAY_INBOX_TAKE);
	/* Pairs with post(). */
	(void)__atomic_exchange_n(&keeper->posted, false, __ATOMIC_ACQ_REL);
	look(keeper, ring);
	unref(keeper, 1);
}
