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
static inline struct record_header *record_at(uint8_t *data, uint32_t cell)
{
	return (void *)(data + (size_t)cell * RECORD_CELL);
}

/* Writes a record as record_ring_write() does.  0, -EFAULT, or -EAGAIN. */
static inline __attribute__((always_inline)) int
record_ring_write_at_once(struct record_ring_writer *w, const struct record_header *header,
			  const void *from, size_t len)
{
	/* acquire: pairs with see_head(), and with the exchange below: words are described once */
	uint64_t head = __atomic_load_n(&w->head, __ATOMIC_ACQUIRE);
	uint64_t tail = __atomic_load_n(&w->shared->tail, __ATOMIC_ACQUIRE);
	uint64_t used = ((tail >> TAIL_SHIFT) - head) & TAIL_MASK, end = head + used;
	uint64_t last = end - cells_of(tail);
	uint32_t n = record_ring_cells(len), cell = (uint32_t)end & (w->cells - 1);
	struct record_header *to = record_at(w->data, cell);
	bool good;

	if (unlikely(len > RECORD_MAX) || unlikely(used >= load(&w->limit)) ||
	    unlikely(used + n > w->cells) || unlikely(cell + n > w->cells) ||
	    unlikely(lap_of(load(&w->shared->word[last & (w->cells - 1)])) <
		     lap_at(w->shift, last)))
		return -EAGAIN;
	RECORD_STEP();
	/* release: pairs with the loads of the tail: the word of the reservation before is described */
	if (unlikely(!__atomic_compare_exchange_n(&w->shared->tail, &tail,
						  make_tail(end + n, n, w->number), false,
						  __ATOMIC_RELEASE, __ATOMIC_RELAXED)))
		return -EAGAIN;
	RECORD_STEP();
	*to = *header;
	to->len = (uint16_t)len;
	RECORD_STEP();
	good = user_copy(to + 1, from, len);
	RECORD_STEP();
	record_commit(w, end, n, good ? RECORD_COMMITTED : RECORD_VOID);
	return good ? 0 : -EFAULT;
}

/* Reader: the quick reads go on from here, to the end of the ring at most. */
static inline void record_ring_renew_pause(struct record_ring_reader *r)
{
	uint64_t end = (r->next | (r->cells - 1)) + 1;

	if (end > r->next + RECORD_STRIDE)
		end = r->next + RECORD_STRIDE;
	r->pause = end < r->stop ? end : r->stop;
}

/*
 * Reader: record_ring_read_at_once() reads RECORD_STRIDE cells at most, and nothing from this position
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
 * Copies the next record's bytes, as many as fit, and its header, and consumes it.  Returns the
 * number of bytes that were copied, or -EAGAIN; *header has any value then.
 */
static inline __attribute__((always_inline)) ssize_t
record_ring_read_at_once(struct record_ring_reader *r, struct record_header *header, void *to,
			 size_t size)
{
	uint64_t next = r->next;
	uint32_t cell = (uint32_t)next & (r->cells - 1);
	/* acquire: pairs with record_commit(): what a committed record has, and all before it */
	uint64_t word = __atomic_load_n(&r->shared->word[cell], __ATOMIC_ACQUIRE);
	const struct record_header *from = record_at(r->data, cell);
	uint32_t n = cells_of(word);
	size_t len;

	if (unlikely(word >> TAIL_SHIFT !=
		     (lap_at(r->shift, next) << STATE_BITS | RECORD_COMMITTED)) ||
	    unlikely(r->broken | r->peeked | r->any_dead) || unlikely(r->head != next) ||
	    unlikely(next + n > r->pause))
		return -EAGAIN; /* where head is not next, reservations were passed over */
	*header = *from;
	/* The compiler must not read the header a second time, when another may have changed it. */
	__asm__ volatile("" ::: "memory");
	len = header->len;
	if (unlikely(record_ring_cells(len) != n) || unlikely(len > RECORD_MAX))
		return -EAGAIN;
	if (len > size)
		len = size;
	if (unlikely(!user_copy(to, from + 1, len)))
		return -EAGAIN;
	r->head = r->next = next + n;
	/* release: pairs with see_head(): what is before it is not read any more */
	__atomic_store_n(&r->shared->head, next + n, __ATOMIC_RELEASE);
	return (ssize_t)len;
}

#endif
