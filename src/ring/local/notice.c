/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/local/notice.h"

#include <ck_pr.h>
#include <errno.h>
#include <linux/membarrier.h>

#include "base/sys.h"

static bool registered; /* any, atomic: the kernel once did for this process what readers ask */

bool notice_register(void)
{
	/* orders nothing by itself.  A second time costs two system calls, and changes nothing. */
	bool works = sys_membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 &&
		     sys_membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;

	if (works)
		__atomic_store_n(&registered, true, __ATOMIC_RELAXED);
	return works;
}

void notice_fence(void)
{
	/* orders all stores before all later loads; pairs with notice_barrier() */
	ck_pr_fence_memory();
}

bool notice_barrier(void)
{
	bool expedited;

	/* orders the same for readers whose writers fence; pairs with notice_fence() */
	ck_pr_fence_memory();
	/*
	 * Orders for every thread of every registered process: each executes a full barrier
	 * between the begin and the end of this call.  Pairs with notice_post().
	 */
	expedited = sys_membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
	return expedited || !__atomic_load_n(&registered, __ATOMIC_RELAXED);
}

/* ---- reader --------------------------------------------------------------------------- */

int notice_reader_open(struct notice_reader *r, struct notice_lane *lane, uint32_t conns)
{
	if (conns > NOTICE_CONNS)
		return -EINVAL;
	*r = (struct notice_reader){.lane = lane, .conns = conns};
	r->seen = __atomic_load_n(&lane->posted, __ATOMIC_RELAXED);
	__atomic_store_n(&lane->armed, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&lane->barrier, notice_register(), __ATOMIC_RELAXED);
	return 0;
}

/* Calls fn for the connections of each group that had a notice after `seen`. */
static __attribute__((noinline)) uint32_t take_groups(const struct notice_reader *r, uint64_t seen,
						      notice_fn fn, void *arg)
{
	uint32_t n = 0;

	for (uint32_t first = 0; first < r->conns; first += NOTICE_GROUP) {
		uint64_t last =
			__atomic_load_n(&r->lane->group[first / NOTICE_GROUP], __ATOMIC_RELAXED);

		if ((int64_t)(last - seen) <= 0)
			continue;
		for (uint32_t i = first; i < first + NOTICE_GROUP && i < r->conns; i++, n++)
			fn(arg, i);
	}
	return n;
}

/* The i-th notice; it may be one that has not been counted yet. */
static inline uint16_t slot(const struct notice_reader *r, uint64_t i)
{
	return __atomic_load_n(&r->lane->slot[i % NOTICE_SLOTS], __ATOMIC_RELAXED);
}

/*
 * Was the slot of the notice after `seen` overwritten, maybe for one that is not counted yet?
 * Orders the loads of the slots before that of posted.
 */
static inline bool is_late(const struct notice_reader *r, uint64_t seen)
{
	ck_pr_fence_load();
	return __atomic_load_n(&r->lane->posted, __ATOMIC_RELAXED) - seen >= NOTICE_SLOTS;
}

static __attribute__((noinline)) uint32_t take_many(const struct notice_reader *r, uint64_t seen,
						    uint64_t posted, notice_fn fn, void *arg)
{
	uint16_t slots[NOTICE_SLOTS]; /* without those that follow an equal one */
	uint32_t n = 1, calls = 0;

	if (posted - seen >= NOTICE_SLOTS)
		return take_groups(r, seen, fn, arg);
	slots[0] = slot(r, seen);
	for (uint64_t i = seen + 1; i != posted; i++) {
		uint16_t conn = slot(r, i);

		if (conn != slots[n - 1])
			slots[n++] = conn;
	}
	if (is_late(r, seen))
		return take_groups(r, seen, fn, arg);
	for (uint32_t i = 0; i < n; i++) {
		if (slots[i] >= r->conns) /* the peer may have written any index */
			continue;
		fn(arg, slots[i]);
		calls++;
	}
	return calls;
}

typedef uint64_t __attribute__((may_alias)) four_slots;

_Static_assert(NOTICE_SLOTS == 4 * sizeof(four_slots) / sizeof(uint16_t) &&
		       offsetof(struct notice_lane, slot) % sizeof(four_slots) == 0,
	       "four words have all slots");

/* Does every slot name this connection?  So do those of a burst to the only one of two processes. */
static inline bool is_alone(const struct notice_reader *r, uint16_t conn)
{
	const four_slots *at = (const void *)r->lane->slot;
	uint64_t four = conn * 0x0001000100010001u, others = 0;

	for (unsigned i = 0; i < 4; i++)
		others |= __atomic_load_n(&at[i], __ATOMIC_RELAXED) ^ four;
	return !others;
}

static __attribute__((noinline)) uint32_t take_several(const struct notice_reader *r, uint64_t seen,
						       uint64_t posted, notice_fn fn, void *arg)
{
	uint16_t conn = slot(r, seen);

	if (!is_alone(r, conn) || conn >= r->conns || is_late(r, seen))
		return take_many(r, seen, posted, fn, arg);
	fn(arg, conn);
	return 1;
}

uint32_t notice_take(struct notice_reader *r, notice_fn fn, void *arg)
{
	/* acquire: pairs with notice_post() */
	uint64_t posted = __atomic_load_n(&r->lane->posted, __ATOMIC_ACQUIRE), seen = r->seen;
	uint16_t conn;

	if (posted == seen)
		return 0;
	r->seen = posted;
	conn = slot(r, seen);
	if (__builtin_expect(posted - seen != 1 || conn >= r->conns || is_late(r, seen), 0))
		return take_several(r, seen, posted, fn, arg);
	fn(arg, conn);
	return 1;
}

/* ---- writer --------------------------------------------------------------------------- */

int notice_writer_open(struct notice_writer *w, struct notice_lane *lane, uint32_t conns,
		       int wake_fd)
{
	if (conns > NOTICE_CONNS)
		return -EINVAL;
	*w = (struct notice_writer){.lane = lane, .conns = conns, .wake_fd = wake_fd};
	w->posted = __atomic_load_n(&lane->posted, __ATOMIC_RELAXED);
	w->fenced = !notice_register() || !__atomic_load_n(&lane->barrier, __ATOMIC_RELAXED);
	return 0;
}

void notice_wake(struct notice_writer *w)
{
	static const uint64_t one = 1;

	/* The reader does not sleep again before it has armed again.  Orders nothing: the eventfd
	 * does, and a reader that is awake looks anyway. */
	if (!__atomic_exchange_n(&w->lane->armed, 0, __ATOMIC_RELAXED))
		return;
	w->wakes++;
	/* EAGAIN: so many wake-ups wait there that it is readable. */
	(void)sys_write(w->wake_fd, &one, sizeof(one));
}
