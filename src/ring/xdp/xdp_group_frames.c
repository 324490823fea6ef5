/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of a port group: moves them between the pool, the free stacks of the rings, the fill
 * rings and the completion rings.
 *
 * In each function a member may die between any two stores.  The mend_ functions say what the
 * next member finds then.
 */
#include "ring/xdp/xdp_group.h"

#define WORD(g, frame) (&(g)->ctl->owner[frame])

static uint64_t owner_of(const struct xdp_group *g, uint32_t frame)
{
	return __atomic_load_n(WORD(g, frame), __ATOMIC_RELAXED);
}

static void odd(struct xdp_group *g)
{
	__atomic_fetch_add(&g->ctl->odd, 1, __ATOMIC_RELAXED);
}

/* ---- the pool ------------------------------------------------------------------- */

static void set_pool_count(struct xdp_group *g, uint32_t n)
{
	__atomic_store_n(&g->ctl->pool_n, n, __ATOMIC_RELAXED);
	GROUP_STEP();
}

/*
 * Makes the pool's stack from the owner words.  So a frame returns whose word was written and that
 * was not pushed, and one that was popped and whose word was not written.  Its height.
 */
static uint32_t mend_pool(struct xdp_group *g)
{
	uint32_t n = 0;

	for (uint32_t f = 0; f < g->frames; f++)
		if (owner_kind(owner_of(g, f)) == OWNER_POOL)
			g->ctl->pool[n++] = f;
	set_pool_count(g, n);
	return n;
}

static bool lock_pool(struct xdp_group *g)
{
	switch (group_lock_try(g, &g->ctl->pool_lock)) {
	case GROUP_LOCKED:
		return true;
	case GROUP_DIED:
		(void)mend_pool(g);
		return true;
	case GROUP_BUSY:
	default:
		return false;
	}
}

/* pool_lock */
static uint32_t pool_height(struct xdp_group *g)
{
	uint32_t n = group_pool_count(g);

	if (n <= g->frames)
		return n;
	odd(g);
	return mend_pool(g);
}

/* pool_lock: no slot owns the frame any more. */
static void pool_push(struct xdp_group *g, uint32_t frame)
{
	uint32_t n = pool_height(g);

	if (n == g->frames) { /* a frame is there twice */
		odd(g);
		return;
	}
	group_set_owner(g, frame, OWNER_POOL);
	GROUP_STEP();
	g->ctl->pool[n] = frame;
	GROUP_STEP();
	set_pool_count(g, n + 1);
}

unsigned group_take(struct xdp_group *g, struct group_stack *to, unsigned n)
{
	uint64_t mine = owner_word(OWNER_HELD, to->slot);
	unsigned taken = 0;
	uint32_t height;

	if (!group_pool_count(g) || !lock_pool(g))
		return 0;
	height = pool_height(g);
	while (taken < n && height && to->n < g->frames) {
		uint32_t f = __atomic_load_n(&g->ctl->pool[--height], __ATOMIC_RELAXED);

		if (f >= g->frames || owner_kind(owner_of(g, f)) != OWNER_POOL) {
			odd(g);
			continue;
		}
		group_set_owner(g, f, mine);
		GROUP_STEP();
		to->frames[to->n++] = f;
		taken++;
	}
	set_pool_count(g, height);
	group_lock_release(g, &g->ctl->pool_lock);
	return taken;
}

unsigned group_give(struct xdp_group *g, struct group_stack *from, unsigned n)
{
	if (n > from->n)
		n = from->n;
	if (!n || !lock_pool(g))
		return 0;
	for (unsigned i = 0; i < n; i++)
		pool_push(g, from->frames[--from->n]);
	group_lock_release(g, &g->ctl->pool_lock);
	return n;
}

/* ---- fill rings --------------------------------------------------------------------- */

static uint32_t fill_level(const struct group_ring *r)
{
	/* acquire: pairs with the kernel's release of entries, which push_fill() may write again */
	return __atomic_load_n(r->producer, __ATOMIC_RELAXED) -
	       __atomic_load_n(r->consumer, __ATOMIC_ACQUIRE);
}

/*
 * A member died after it wrote entries and before it told the kernel of them: their frames still
 * belong to the slot that had them.
 */
static void mend_fill(struct xdp_group *g, unsigned queue)
{
	uint32_t producer = *g->fill[queue].producer;

	for (uint32_t f = 0; f < g->frames; f++) {
		uint64_t word = owner_of(g, f);

		if (owner_kind(word) != OWNER_FILL || owner_queue(word) != queue ||
		    (int32_t)(owner_pos(word) - producer) < 0)
			continue;
		group_set_owner(g, f, owner_word(OWNER_HELD, owner_slot(word)));
		GROUP_STEP();
	}
}

static bool lock_fill(struct xdp_group *g, unsigned queue)
{
	enum group_lock_result got = group_lock_try(g, &g->ctl->fill_lock[queue]);

	if (got == GROUP_DIED)
		mend_fill(g, queue);
	return got != GROUP_BUSY;
}

/* How many frames the fill ring lacks, less those that are waiting in the caller's RX ring. */
static unsigned fill_lacks(const struct xdp_group *g, unsigned queue, unsigned waiting)
{
	uint32_t level = fill_level(&g->fill[queue]);

	if (level > g->fill[queue].size || level + waiting >= g->fill_target)
		return 0;
	return g->fill_target - level - waiting;
}

/* fill_lock */
static unsigned push_fill(struct xdp_group *g, struct group_stack *from, unsigned queue, unsigned n)
{
	struct group_ring *r = &g->fill[queue];
	uint32_t producer = *r->producer;

	if (n > from->n)
		n = from->n;
	for (unsigned i = 0; i < n; i++) {
		uint32_t f = from->frames[--from->n];

		group_set_owner(g, f, owner_fill(from->slot, queue, producer + i));
		GROUP_STEP();
		r->addrs[(producer + i) & (r->size - 1)] = (uint64_t)f << g->frame_shift;
		GROUP_STEP();
	}
	/* release: pairs with the kernel's load of the producer, after which it reads entries */
	__atomic_store_n(r->producer, producer + n, __ATOMIC_RELEASE);
	GROUP_STEP();
	return n;
}

unsigned group_fill(struct xdp_group *g, struct group_stack *from, unsigned queue, unsigned waiting)
{
	unsigned n = fill_lacks(g, queue, waiting), lacks;
	unsigned spare = from->n + group_pool_count(g);

	spare = spare > XDP_TX_RESERVE ? spare - XDP_TX_RESERVE : 0;
	if (n > spare)
		n = spare;
	if (!n)
		return fill_lacks(g, queue, waiting);
	if (from->n < n)
		group_take(g, from, n - from->n);
	if (!lock_fill(g, queue))
		return n;
	lacks = fill_lacks(g, queue, waiting); /* again: others fill it, too */
	if (n > lacks)
		n = lacks;
	lacks -= push_fill(g, from, queue, n);
	group_lock_release(g, &g->ctl->fill_lock[queue]);
	return lacks;
}

/* ---- completion rings ----------------------------------------------------------------- */

/*
 * Nothing to mend: the next member reads the entries that a dead one was reading, and skips the
 * frames that it had taken, because these are not OWNER_TX any more.
 */
static bool lock_comp(struct xdp_group *g, unsigned queue)
{
	return group_lock_try(g, &g->ctl->comp_lock[queue]) != GROUP_BUSY;
}

/* The frame of the entry at this position, or -1: it is not a frame that was sent. */
static int32_t completed(struct xdp_group *g, const struct group_ring *r, uint32_t at)
{
	uint64_t addr = __atomic_load_n(&r->addrs[at & (r->size - 1)], __ATOMIC_RELAXED);
	uint64_t f = addr >> g->frame_shift;

	if (f < g->frames && owner_kind(owner_of(g, (uint32_t)f)) == OWNER_TX)
		return (int32_t)f;
	odd(g);
	return -1;
}

/* comp_lock: the number of entries, XDP_GROUP_REAP at most. */
static uint32_t comp_count(const struct group_ring *r)
{
	/* acquire: pairs with the kernel's release of the entries */
	uint32_t n = __atomic_load_n(r->producer, __ATOMIC_ACQUIRE) - *r->consumer;

	return n < XDP_GROUP_REAP ? n : XDP_GROUP_REAP;
}

/* comp_lock */
static void comp_consume(struct group_ring *r, uint32_t n)
{
	/* release: pairs with the kernel's load of the consumer, after which it writes entries */
	__atomic_store_n(r->consumer, *r->consumer + n, __ATOMIC_RELEASE);
	GROUP_STEP();
}

unsigned group_reap(struct xdp_group *g, struct group_stack *to, unsigned queue)
{
	uint64_t mine = owner_word(OWNER_HELD, to->slot);
	struct group_ring *r = &g->comp[queue];
	uint32_t n, first;
	unsigned got = 0;

	if (!lock_comp(g, queue))
		return 0;
	n = comp_count(r);
	first = *r->consumer;
	for (uint32_t i = 0; i < n; i++) {
		int32_t f = completed(g, r, first + i);

		if (f < 0 || to->n == g->frames)
			continue;
		group_set_owner(g, (uint32_t)f, mine);
		GROUP_STEP();
		to->frames[to->n++] = (uint32_t)f;
		got++;
	}
	comp_consume(r, n);
	group_lock_release(g, &g->ctl->comp_lock[queue]);
	return got;
}

/* ---- dead members ------------------------------------------------------------------------ */

/*
 * comp_lock, pool_lock: frames that were sent, by any member, go to the pool.  No more than the ring has
 * entries: any member can write the producer's position.
 */
static void reap_to_pool(struct xdp_group *g, unsigned queue)
{
	struct group_ring *r = &g->comp[queue];
	uint32_t n;

	for (uint32_t read = 0; read < r->size && (n = comp_count(r)); read += n) {
		uint32_t first = *r->consumer;

		for (uint32_t i = 0; i < n; i++) {
			int32_t f = completed(g, r, first + i);

			if (f >= 0)
				pool_push(g, (uint32_t)f);
		}
		comp_consume(r, n);
	}
}

static unsigned lock_comps(struct xdp_group *g)
{
	unsigned locked = 0;

	while (locked < g->queues && lock_comp(g, locked))
		locked++;
	return locked;
}

bool group_settle(struct xdp_group *g)
{
	for (unsigned i = 0; i < g->queues; i++) {
		if (!lock_fill(g, i))
			return false;
		group_lock_release(g, &g->ctl->fill_lock[i]);
	}
	return true;
}

static bool is_of(uint64_t word, const uint8_t dead[XDP_STEER_SLOTS], const uint32_t *limit)
{
	switch (owner_kind(word)) {
	case OWNER_HELD:
	case OWNER_TX:
		return dead && owner_slot(word) < XDP_STEER_SLOTS && dead[owner_slot(word)];
	case OWNER_FILL:
		/*
		 * Not the last frame before the limit: the kernel may not have been able to
		 * deliver it, and keeps it for the next packet.
		 */
		return limit && owner_queue(word) < XDP_STEER_QUEUES &&
		       (int32_t)(limit[owner_queue(word)] - 1 - owner_pos(word)) > 0;
	case OWNER_POOL:
	default:
		return false;
	}
}

/* All comp_locks, so that no member is reaping a dead slot's frame; pool_lock. */
static void reclaim_locked(struct xdp_group *g, const uint8_t *dead, const uint32_t *limit)
{
	for (unsigned i = 0; i < g->queues; i++)
		reap_to_pool(g, i);
	for (uint32_t f = 0; f < g->frames; f++) {
		if (!is_of(owner_of(g, f), dead, limit))
			continue;
		pool_push(g, f);
		__atomic_fetch_add(&g->ctl->reclaimed, 1, __ATOMIC_RELAXED);
	}
}

bool group_reclaim(struct xdp_group *g, const uint8_t *dead, const uint32_t *limit)
{
	unsigned locked = lock_comps(g);
	bool done = locked == g->queues && lock_pool(g);

	if (done) {
		reclaim_locked(g, dead, limit);
		group_lock_release(g, &g->ctl->pool_lock);
	}
	while (locked--)
		group_lock_release(g, &g->ctl->comp_lock[locked]);
	return done;
}

unsigned group_count_slot(const struct xdp_group *g, unsigned slot)
{
	unsigned count = 0;

	for (uint32_t f = 0; f < g->frames; f++) {
		uint64_t word = owner_of(g, f);

		count += (owner_kind(word) == OWNER_HELD || owner_kind(word) == OWNER_TX) &&
			 owner_slot(word) == slot;
	}
	return count;
}

void group_frames_init(struct group_ctl *ctl, uint32_t first)
{
	uint32_t n = 0;

	for (uint32_t f = ctl->frames; f-- > first;)
		ctl->pool[n++] = f;
	ctl->pool_n = n;
}
