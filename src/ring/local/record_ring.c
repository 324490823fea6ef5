/* SPDX-License-Identifier: BSD-2-Clause */
/* The readers' side of a record ring; see record_ring.h. */
#include "ring/local/record_ring.h"

#include <errno.h>

#include "ring/local/record_internal.h"
#include "ring/local/record_quick.h"
#include "ring/local/shared_word.h"

#define RECORD_CELLS \
	((RECORD_MAX + (uint32_t)sizeof(struct record_header) + RECORD_CELL - 1) / RECORD_CELL)

_Static_assert(sizeof(struct record_header) == 32, "a header takes half a cell");

int record_ring_init(struct record_ring_reader *r, struct record_ring_shared *shared,
		     uint32_t cells, uint32_t limit)
{
	if (!record_cells_are_valid(cells))
		return -EINVAL;
	/* The first lap is 1, so a word that is zero is of an earlier one. */
	*r = (struct record_ring_reader){.shared = shared,
					 .data = record_data_of(shared, cells),
					 .cells = cells,
					 .shift = (uint32_t)__builtin_ctz(cells),
					 .head = cells,
					 .next = cells,
					 .stop = UINT64_MAX,
					 .words = shared->word,
					 .mask = cells - 1};
	record_ring_renew_pause(r);
	store(&shared->tail, make_tail(cells, 0, 0));
	store(&shared->head, cells);
	store(&shared->limit, limit);
	store(&shared->dropped, 0);
	return 0;
}

void record_ring_set_limit(struct record_ring_reader *r, uint32_t limit)
{
	store(&r->shared->limit, limit);
}

static inline bool has_bit(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

int record_ring_add_writer(struct record_ring_reader *r)
{
	for (uint32_t i = 0; i < RECORD_WRITERS; i++) {
		if (!has_bit(r->used, i)) {
			r->used[i / 64] |= 1ull << i % 64;
			return (int)i;
		}
	}
	return -EUSERS;
}

/* The numbers of dead writers of which nothing is left can be used again. */
static void free_numbers(struct record_ring_reader *r)
{
	if (r->head < r->dead_end)
		return;
	for (uint32_t i = 0; i < RECORD_WRITERS / 64 + 1; i++) {
		r->used[i] &= ~r->dead[i];
		r->dead[i] = 0;
	}
	r->any_dead = false;
}

void record_ring_writer_gone(struct record_ring_reader *r, uint32_t number)
{
	/* acquire: pairs with reserve() */
	uint64_t tail = __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);
	uint64_t end = position_of(tail, r->head);

	if (number >= RECORD_WRITERS || !has_bit(r->used, number))
		return;
	r->dead[number / 64] |= 1ull << number % 64;
	r->any_dead = true;
	r->pause = 0;
	if (end - r->head <= r->cells)
		r->dead_end = end;
	else
		r->broken = true;
	free_numbers(r);
}

/* Does nobody write what this writer has reserved? */
static inline bool is_gone(const struct record_ring_reader *r, uint32_t writer)
{
	return writer != RECORD_READER && (!has_bit(r->used, writer) || has_bit(r->dead, writer));
}

/* The position of the first hole, or of the first record that is kept. */
static uint64_t first_behind(const struct record_ring_reader *r)
{
	uint64_t head = r->n_holes ? r->holes[0].position : r->next;

	return r->keeps && r->kept < head ? r->kept : head;
}

/* Gives back what is before the first hole, before what is kept, or before what was not looked at. */
static inline void publish_head(struct record_ring_reader *r)
{
	uint64_t head = r->behind ? first_behind(r) : r->next;

	if (head == r->head)
		return;
	r->head = head;
	/* release: pairs with see_head(): what is before it is not read any more */
	__atomic_store_n(&r->shared->head, head, __ATOMIC_RELEASE);
	if (unlikely(r->any_dead))
		free_numbers(r);
}

static inline uint64_t look_at(const struct record_ring_reader *r, uint64_t position)
{
	/* acquire: pairs with record_commit(): what a committed record has, and all that was before it */
	return __atomic_load_n(&r->shared->word[position & (r->cells - 1)], __ATOMIC_ACQUIRE);
}

static void remove_hole(struct record_ring_reader *r, uint32_t i)
{
	r->n_holes--;
	for (; i < r->n_holes; i++)
		r->holes[i] = r->holes[i + 1];
}

/* Sets r->record.  False: what is there cannot be a record. */
static inline bool take_record(struct record_ring_reader *r, enum record_state state,
			       uint64_t position, uint32_t cells, int hole)
{
	const void *from = r->data + (size_t)(position & (r->cells - 1)) * RECORD_CELL;

	r->record.header = *(const struct record_header *)from;
	r->record.position = position;
	r->record.cells = cells;
	r->record.is_mark = state == RECORD_MARK;
	r->in_hole = hole;
	/* The compiler must not read the header a second time, when another may have changed it. */
	__asm__ volatile("" ::: "memory");
	return state != RECORD_VOID && r->record.header.len <= RECORD_MAX &&
	       record_ring_cells(r->record.header.len) <= cells;
}

static inline bool is_committed(const struct record_ring_reader *r, uint32_t hole)
{
	uint64_t word = look_at(r, r->holes[hole].position);

	return lap_of(word) == lap_at(r->shift, r->holes[hole].position) &&
	       state_of(word) != RECORD_RESERVED;
}

/*
 * The first committed hole, or n_holes.  What was written before a later one began was committed
 * before that one was passed over.
 */
static uint32_t find_hole(const struct record_ring_reader *r)
{
	uint32_t i = 0;

	while (i < r->n_holes && !is_committed(r, i))
		i++;
	return i;
}

/* Delivers a hole that was committed, removes those of writers that are gone.  True: delivered. */
static __attribute__((noinline)) bool look_at_holes(struct record_ring_reader *r)
{
	uint32_t i;

	while ((i = find_hole(r)) < r->n_holes) {
		uint64_t word = look_at(r, r->holes[i].position);

		/* Its length is the one of the reservation, whatever the word says now. */
		if (take_record(r, state_of(word), r->holes[i].position, r->holes[i].cells, (int)i))
			return true;
		remove_hole(r, i);
	}
	for (i = r->n_holes; i-- > 0;) {
		/* Committed since? It is found next time. */
		if (is_gone(r, r->holes[i].writer) && !is_committed(r, i))
			remove_hole(r, i);
	}
	publish_head(r);
	return false;
}

/* A reservation at next: skipped if its writer is gone, else passed over. */
static void pass(struct record_ring_reader *r, uint32_t cells, uint32_t writer)
{
	r->pause = 0;
	if (!is_gone(r, writer))
		r->holes[r->n_holes++] =
			(struct record_hole){.position = r->next, .cells = cells, .writer = writer};
	r->next += cells;
}

static bool break_ring(struct record_ring_reader *r)
{
	r->broken = true;
	r->pause = 0;
	return false;
}

/*
 * The word at next is of an earlier lap.  Passes over a reservation that only the tail describes.
 * False: nothing is there, or broken.
 */
static bool look_at_tail(struct record_ring_reader *r)
{
	/* acquire: pairs with reserve(): all reservations before the last one are described */
	uint64_t tail = __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);
	uint64_t end = position_of(tail, r->head), word;
	uint32_t cells = cells_of(tail);

	if (end == r->next)
		return false;
	if (end - r->head > r->cells || end < r->next)
		return break_ring(r);
	word = look_at(r, r->next);
	if (lap_of(word) == lap_at(r->shift, r->next))
		return true;
	if (end - cells != r->next || !cells || cells > RECORD_CELLS)
		return break_ring(r);
	pass(r, cells, writer_of(tail));
	return true;
}

/* Looks at next.  *found: r->record is there.  False: look no further. */
static inline bool look_at_next(struct record_ring_reader *r, bool *found)
{
	uint64_t word = look_at(r, r->next);
	uint32_t cells = cells_of(word);

	if (lap_of(word) != lap_at(r->shift, r->next)) {
		if (lap_of(word) > lap_at(r->shift, r->next))
			return break_ring(r);
		return look_at_tail(r);
	}
	if (unlikely(!cells || cells > RECORD_CELLS || r->next + cells - r->head > r->cells))
		return break_ring(r);
	if (state_of(word) == RECORD_RESERVED) {
		pass(r, cells, writer_of(word));
		return true;
	}
	/* A hole may have been committed before this one. */
	if (unlikely(r->n_holes) && look_at_holes(r)) {
		*found = true;
		return false;
	}
	if (take_record(r, state_of(word), r->next, cells, -1)) {
		*found = true;
		return false;
	}
	r->next += cells;
	return true;
}

int record_ring_peek(struct record_ring_reader *r)
{
	bool found = false;

	if (r->peeked)
		return 0;
	if (unlikely(r->broken))
		return -EPROTO;
	if (unlikely(r->n_holes) && look_at_holes(r)) {
		r->peeked = true;
		r->pause = 0;
		return 0;
	}
	while (r->n_holes < RECORD_HOLES && look_at_next(r, &found))
		;
	r->peeked = found;
	if (found) {
		r->pause = 0;
		return 0;
	}
	if (r->broken)
		return -EPROTO;
	publish_head(r);
	return -EAGAIN;
}

/* Copies from a place behind the begin of a record. */
static inline bool get(const struct record_ring_reader *r, uint64_t at, void *to, size_t n)
{
	size_t size = (size_t)r->cells * RECORD_CELL, place = at & (size - 1), first = size - place;

	if (n <= first)
		return user_copy(to, r->data + place, n);
	return user_copy(to, r->data + place, first) &&
	       user_copy((uint8_t *)to + first, r->data, n - first);
}

/* Several pieces, or round the end of the ring. */
static __attribute__((noinline)) ssize_t get_pieces(const struct record_ring_reader *r, uint64_t at,
						    size_t left, const struct iovec *iov,
						    int iovcnt)
{
	size_t done = 0;

	for (int i = 0; i < iovcnt && left; i++) {
		size_t n = iov[i].iov_len < left ? iov[i].iov_len : left;

		if (n && !get(r, at + done, iov[i].iov_base, n))
			return -EFAULT;
		done += n;
		left -= n;
	}
	return (ssize_t)done;
}

ssize_t record_ring_copy(const struct record_ring_reader *r, size_t skip, const struct iovec *iov,
			 int iovcnt)
{
	uint32_t cell = (uint32_t)r->record.position & (r->cells - 1);
	size_t at = sizeof(struct record_header) + skip, n = r->record.header.len;

	n = n > skip ? n - skip : 0;
	if (unlikely(iovcnt != 1 || cell + r->record.cells > r->cells))
		return get_pieces(r, r->record.position * RECORD_CELL + at, n, iov, iovcnt);
	if (n > iov->iov_len)
		n = iov->iov_len;
	if (unlikely(!user_copy(iov->iov_base, r->data + (size_t)cell * RECORD_CELL + at, n)))
		return -EFAULT;
	return (ssize_t)n;
}

void record_ring_consume(struct record_ring_reader *r)
{
	if (unlikely(!r->peeked))
		return;
	r->peeked = false;
	if (unlikely(r->in_hole >= 0))
		remove_hole(r, (uint32_t)r->in_hole);
	else
		r->next += r->record.cells;
	publish_head(r);
	record_ring_renew_pause(r);
}

uint8_t *record_ring_bytes(const struct record_ring_reader *r)
{
	uint32_t cell = (uint32_t)r->record.position & (r->cells - 1);

	return cell + r->record.cells > r->cells ? NULL : (uint8_t *)(record_at(r->data, cell) + 1);
}

void record_ring_keep(struct record_ring_reader *r, uint64_t position)
{
	r->kept = position;
	r->keeps = position != UINT64_MAX;
	publish_head(r);
}

uint32_t record_ring_dropped(const struct record_ring_reader *r)
{
	return (uint32_t)load(&r->shared->dropped);
}

void record_ring_close(struct record_ring_reader *r)
{
	struct record_ring_writer self;

	if (record_ring_writer_open(&self, r->shared, r->cells, RECORD_READER)) {
		break_ring(r);
		return;
	}
	for (int i = 0; i < RECORD_ATTEMPTS; i++) {
		/* acquire: pairs with reserve(): a word it described is not described twice */
		uint64_t tail = __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);
		uint64_t end = position_of(tail, r->head);

		record_describe(&self, tail, end);
		/* release: pairs with the loads in reserve(): the last reservation is described */
		if (__atomic_compare_exchange_n(&r->shared->tail, &tail,
						make_tail(end, 0, RECORD_READER), false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return;
	}
	break_ring(r); /* only one that does nothing else wins so often */
}

bool record_ring_is_drained(const struct record_ring_reader *r)
{
	return r->broken ||
	       (!r->n_holes && r->next == position_of(load(&r->shared->tail), r->head));
}
