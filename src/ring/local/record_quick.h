/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick way into and out of a record ring: a record of one piece that does not go round the
 * end of the ring, with no reservation to describe, and none passed over.  All else is left to the
 * functions of record_ring.h: these return -EAGAIN then, and have done nothing.
 *
 * Role		as of record_ring_write() and record_ring_peek().
 * Ordering, Trust	as of record_ring.h.
 */
#ifndef RING_LOCAL_RECORD_QUICK_H
#define RING_LOCAL_RECORD_QUICK_H

#include <errno.h>

#include "base/delay.h"
#include "base/user.h"
#include "ring/local/record_ring.h"
#include "ring/local/record_word.h"
#include "ring/local/shared_word.h"

#define RECORD_STRIDE 512u /* cells */

/* Where a writer may die. */
#ifdef RECORD_RING_STEPS
#define RECORD_STEP() record_ring_step()
#else
#define RECORD_STEP() delay_at(DELAY_LOCAL)
#endif

static inline void record_commit(const struct record_ring_writer *w, uint64_t position, uint32_t n,
				 enum record_state state)
{
	/* release: pairs with the loads of words by the reader: the record is there */
	__atomic_store_n(&w->shared->word[position & (w->cells - 1)],
			 make_word(lap_at(w->shift, position), state, n, w->number),
			 __ATOMIC_RELEASE);
}

/* The place of a header; the bytes follow it. */
static inline struct record_header *record_at(uint8_t *data, uint64_t cell)
{
	return (void *)(data + cell * RECORD_CELL);
}

/*
 * Writes a record as record_ring_write() does, if nobody has written since this writer, and there is
 * room before the end of the ring.  0, -EFAULT, or -EAGAIN.
 *
 * Then the last reservation is this writer's own, and was committed, so it needs no description; its
 * position is known, and so is the room.  len: RECORD_MAX at most.
 */
static inline __attribute__((always_inline)) int
record_ring_write_next(struct record_ring_writer *w, const struct record_header *header,
		       const void *from, size_t len)
{
	uint64_t n = (len + sizeof(*header) + RECORD_CELL - 1) / RECORD_CELL, tail = w->tail;
	uint64_t begin = w->end, end = begin + n, cell = begin & w->mask;
	uint64_t next = end << TAIL_SHIFT | n << WRITER_BITS | w->number;
	struct record_header *to = record_at(w->data, cell);

	if (unlikely(end > w->until))
		return -EAGAIN;
	RECORD_STEP();
	/* release: pairs with the loads of the tail: the record before is committed */
	if (unlikely(!__atomic_compare_exchange_n(&w->shared->tail, &tail, next, false,
						  __ATOMIC_RELEASE, __ATOMIC_RELAXED)))
		return -EAGAIN;
	w->tail = next;
	w->end = end;
	RECORD_STEP();
	*to = *header;
	to->len = (uint16_t)len;
	RECORD_STEP();
	if (unlikely(!user_copy_short(to + 1, from, len))) {
		record_commit(w, begin, (uint32_t)n, RECORD_VOID);
		return -EFAULT;
	}
	RECORD_STEP();
	/* release: pairs with the loads of words by the reader: the record is there */
	__atomic_store_n(&w->words[cell], w->word | n << WRITER_BITS, __ATOMIC_RELEASE);
	return 0;
}

/* The same when others write, too, and round the end of the ring. */
int record_ring_write_among(struct record_ring_writer *w, const struct record_header *header,
			    const void *from, size_t len);

/* Writes a record as record_ring_write() does.  0, -EFAULT, or -EAGAIN: nothing was done. */
static inline __attribute__((always_inline)) int
record_ring_write_at_once(struct record_ring_writer *w, const struct record_header *header,
			  const void *from, size_t len)
{
	int rc;

	if (unlikely(len > RECORD_MAX))
		return -EAGAIN;
	rc = record_ring_write_next(w, header, from, len);
	return __builtin_expect(rc == -EAGAIN, 0) ? record_ring_write_among(w, header, from, len)
						  : rc;
}

/*
 * Reader: the quick reads go on from here, to the end of the ring at most; not after reservations that
 * were passed over (then head is not next), nor where a writer has died.
 */
static inline void record_ring_renew_pause(struct record_ring_reader *r)
{
	uint64_t end = (r->next | (r->cells - 1)) + 1;

	r->lap = make_word(lap_at(r->shift, r->next), RECORD_COMMITTED, 0, 0) >> TAIL_SHIFT;
	if (end > r->next + RECORD_STRIDE)
		end = r->next + RECORD_STRIDE;
	r->pause = end < r->stop ? end : r->stop;
	if (unlikely(r->broken | r->peeked | r->any_dead) || unlikely(r->head != r->next))
		r->pause = 0;
}

/*
 * Reader: record_ring_take_at_once() takes RECORD_STRIDE cells at most, and nothing from this position
 * on: then a record has to be read by the functions of record_ring.h.  UINT64_MAX: no position.
 */
static inline void record_ring_pause_at(struct record_ring_reader *r, uint64_t position)
{
	r->stop = position;
	record_ring_renew_pause(r);
}

/*
 * Reader: the position after the last reservation: what was written before this call is before it.
 * Within the ring, whatever the writers say.
 */
static inline uint64_t record_ring_end(const struct record_ring_reader *r)
{
	/* acquire: pairs with reserve(): what its writer did before is done */
	uint64_t end = position_of(__atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE), r->head);

	return end - r->head > r->cells ? r->head + r->cells : end;
}

/*
 * Reader: has everything been read, and nothing passed over?  *seen: while the tail is that, nothing was written
 * since.
 */
static inline bool record_ring_is_read(const struct record_ring_reader *r, uint64_t *seen)
{
	*seen = __atomic_load_n(&r->shared->tail, __ATOMIC_RELAXED);
	return position_of(*seen, r->head) == r->next && !r->n_holes && !r->peeked;
}

/* The record that record_ring_look_at_once() found. */
struct record_seen {
	const struct record_header *at; /* shared: what is read may change after that */
	uint64_t end;			/* the position after it */
	uint64_t len;
};

/* Reader: looks at the next record.  False: leave it to the functions of record_ring.h. */
static inline __attribute__((always_inline)) bool
record_ring_look_at_once(const struct record_ring_reader *r, struct record_seen *seen)
{
	uint64_t next = r->next, cell = next & r->mask, n;
	/* acquire: pairs with record_commit(): what a committed record has, and all before it */
	uint64_t word = __atomic_load_n(&r->words[cell], __ATOMIC_ACQUIRE);

	n = word >> WRITER_BITS & ((1u << CELLS_BITS) - 1);
	seen->end = next + n;
	if (unlikely(word >> TAIL_SHIFT != r->lap) || unlikely(seen->end > r->pause))
		return false;
	seen->at = record_at(r->data, cell);
	seen->len = __atomic_load_n(&seen->at->len, __ATOMIC_RELAXED);
	return __builtin_expect(record_ring_cells(seen->len) == n && seen->len <= RECORD_MAX, 1);
}

/*
 * Reader: record_ring_look_at_once() has found no record.  True: it will, as soon as one is committed; false: the
 * functions of record_ring.h may find one.
 */
static inline bool record_ring_is_quiet(const struct record_ring_reader *r)
{
	/* relaxed: a record that is seen here is read by the next look */
	uint64_t word = __atomic_load_n(&r->words[r->next & r->mask], __ATOMIC_RELAXED);

	return r->next < r->pause && word >> TAIL_SHIFT != r->lap;
}

/*
 * Reader: records one after another, which record_ring_run_look() finds, and record_ring_run_next() takes; in one
 * piece of memory, also while some are kept.  Those that were taken are kept (record_ring_keep()) before
 * record_ring_run_end() consumes them.
 */
struct record_run {
	const uint64_t *word; /* of the next one */
	uint8_t *at;
	uint64_t next; /* its position */
	uint64_t end;  /* the run does not go on from here */
	uint64_t lap;
};

/* False: leave it to the functions of record_ring.h. */
static inline bool record_ring_run_begin(const struct record_ring_reader *r, struct record_run *run)
{
	uint64_t end = (r->next | r->mask) + 1, most = r->head + r->cells, cell = r->next & r->mask;

	if (unlikely(r->broken | r->peeked | r->any_dead) || unlikely(r->n_holes))
		return false;
	end = end < most ? end : most;
	*run = (struct record_run){
		.word = &r->words[cell],
		.at = r->data + cell * RECORD_CELL,
		.next = r->next,
		.end = end < r->stop ? end : r->stop,
		.lap = make_word(lap_at(r->shift, r->next), RECORD_COMMITTED, 0, 0) >> TAIL_SHIFT,
	};
	return true;
}

/* False: the run ends. */
static inline __attribute__((always_inline)) bool record_ring_run_look(const struct record_run *run,
								       struct record_seen *seen)
{
	/* acquire: pairs with record_commit(): what a committed record has, and all before it */
	uint64_t word = __atomic_load_n(run->word, __ATOMIC_ACQUIRE);
	uint64_t n = word >> WRITER_BITS & ((1u << CELLS_BITS) - 1);

	seen->end = run->next + n;
	if (unlikely(word >> TAIL_SHIFT != run->lap) || unlikely(seen->end > run->end))
		return false;
	seen->at = (const void *)run->at;
	seen->len = __atomic_load_n(&seen->at->len, __ATOMIC_RELAXED);
	return __builtin_expect(record_ring_cells(seen->len) == n && seen->len <= RECORD_MAX, 1);
}

static inline __attribute__((always_inline)) void
record_ring_run_next(struct record_run *run, const struct record_seen *seen)
{
	uint64_t n = seen->end - run->next;

	run->word += n;
	run->at += n * RECORD_CELL;
	run->next = seen->end;
}

static inline void record_ring_run_end(struct record_ring_reader *r, const struct record_run *run)
{
	r->next = run->next;
	r->pause = 0;
}

/* Its header, read once. */
static inline struct record_header record_ring_seen_header(const struct record_seen *seen)
{
	struct record_header header = *seen->at;

	/* The compiler must not read it a second time, when another may have changed it. */
	__asm__ volatile("" ::: "memory");
	return header;
}

/*
 * Reader: copies the bytes of the record that was looked at, as many as fit, and consumes it.  Returns
 * their number, or -EAGAIN: they cannot be written, and it is still there.
 */
static inline __attribute__((always_inline)) ssize_t
record_ring_take_at_once(struct record_ring_reader *r, const struct record_seen *seen, void *to,
			 size_t size)
{
	size_t len = seen->len < size ? seen->len : size;

	if (unlikely(!user_copy_short(to, seen->at + 1, len)))
		return -EAGAIN;
	r->next = seen->end;
	/* release: pairs with see_head(): what is before it is not read any more */
	__atomic_store_n(&r->shared->head, seen->end, __ATOMIC_RELEASE);
	r->head = seen->end;
	return (ssize_t)len;
}

#endif
