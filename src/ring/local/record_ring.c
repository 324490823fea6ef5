/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/local/record_ring.h"

#include <errno.h>

#include "ring/local/record_quick.h"
#include "ring/local/segment.h"
#include "ring/local/shared_word.h"

#define ATTEMPTS 1000 /* reservations of others that a writer gives way to */
#define READER_NUMBER RECORD_WRITERS
#define RECORD_CELLS \
	((RECORD_MAX + (uint32_t)sizeof(struct record_header) + RECORD_CELL - 1) / RECORD_CELL)

_Static_assert(sizeof(struct record_header) == 32, "a header takes half a cell");

#ifdef RECORD_RING_STEPS
static void go_on(void)
{
}

void (*record_ring_step)(void) = go_on;
#endif

/* ---- memory ------------------------------------------------------------------------- */

static bool cells_are_valid(uint32_t cells)
{
	return cells >= RECORD_CELLS_MIN && cells <= RECORD_CELLS_MAX && !(cells & (cells - 1));
}

static uint8_t *data_of(struct record_ring_shared *shared, uint32_t cells)
{
	return (uint8_t *)(shared->word + cells);
}

/* ---- writer ------------------------------------------------------------------------- */

int record_ring_writer_open(struct record_ring_writer *w, struct record_ring_shared *shared,
			    uint32_t cells, uint32_t number)
{
	uint64_t head = load(&shared->head);

	if (!cells_are_valid(cells) || number > READER_NUMBER)
		return -EINVAL;
	if (position_of(load(&shared->tail), head) - head > cells)
		return -EPROTO;
	*w = (struct record_ring_writer){.shared = shared,
					 .data = data_of(shared, cells),
					 .cells = cells,
					 .shift = (uint32_t)__builtin_ctz(cells),
					 .number = number,
					 .head = head,
					 .limit = load(&shared->limit)};
	return 0;
}

/* The head and the limit as they are now; returns the head. */
static __attribute__((noinline)) uint64_t see_head(struct record_ring_writer *w)
{
	/* acquire: pairs with publish_head(): the reader has copied what is before the head */
	uint64_t head = __atomic_load_n(&w->shared->head, __ATOMIC_ACQUIRE);

	store(&w->limit, load(&w->shared->limit));
	/* release: pairs with reserve(): another thread may use the head that this one saw */
	__atomic_store_n(&w->head, head, __ATOMIC_RELEASE);
	return head;
}

static inline bool fits(const struct record_ring_writer *w, uint64_t used, uint32_t n)
{
	return used < load(&w->limit) && used + n <= w->cells;
}

/* Describes the last reservation in its first cell, unless that has happened. */
static inline void describe(struct record_ring_writer *w, uint64_t tail, uint64_t end)
{
	uint32_t n = cells_of(tail);
	uint64_t first = end - n, lap = lap_at(w->shift, first);
	uint64_t *word = &w->shared->word[first & (w->cells - 1)];
	uint64_t old = load(word);

	if (!n || lap_of(old) >= lap)
		return;
	RECORD_STEP();
	/*
	 * Orders nothing: the tail's exchange that follows does.  It fails if the writer has
	 * committed, or if another one describes it.
	 */
	(void)__atomic_compare_exchange_n(word, &old,
					  make_word(lap, RECORD_RESERVED, n, writer_of(tail)),
					  false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	RECORD_STEP();
}

/* The reader's own number with no cells: record_ring_close(). */
static inline bool is_closed(uint64_t tail)
{
	return writer_of(tail) == READER_NUMBER && !cells_of(tail);
}

/* Reserves n cells at *position: 0, -ENOBUFS, -EPIPE or -EPROTO. */
static int reserve(struct record_ring_writer *w, uint32_t n, uint64_t *position)
{
	/* acquire: pairs with see_head() of another thread */
	uint64_t head = __atomic_load_n(&w->head, __ATOMIC_ACQUIRE);

	for (int i = 0; i < ATTEMPTS; i++) {
		/* acquire: pairs with the exchange below: a word it described is not described twice */
		uint64_t tail = __atomic_load_n(&w->shared->tail, __ATOMIC_ACQUIRE);
		uint64_t end = position_of(tail, head);

		if (unlikely(is_closed(tail)))
			return -EPIPE;
		if (unlikely(!fits(w, end - head, n))) {
			head = see_head(w);
			end = position_of(tail, head);
			/* The head may have passed the tail that was read before it. */
			if (end - head > w->cells)
				continue;
			if (!fits(w, end - head, n))
				return -ENOBUFS;
		}
		describe(w, tail, end);
		RECORD_STEP();
		/*
		 * release: pairs with the load above, and in look_at_tail(): the word of the
		 * reservation before is described
		 */
		if (__atomic_compare_exchange_n(&w->shared->tail, &tail,
						make_tail(end + n, n, w->number), false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
			*position = end;
			return 0;
		}
	}
	return position_of(load(&w->shared->tail), head) - head > w->cells ? -EPROTO : -ENOBUFS;
}

/* Copies to a place behind the begin of a record; at: bytes from the begin of the ring. */
static inline bool put(const struct record_ring_writer *w, uint64_t at, const void *from, size_t n)
{
	size_t size = (size_t)w->cells * RECORD_CELL, place = at & (size - 1), first = size - place;

	if (n <= first)
		return user_copy(w->data + place, from, n);
	return user_copy(w->data + place, from, first) &&
	       user_copy(w->data, (const uint8_t *)from + first, n - first);
}

static bool put_pieces(const struct record_ring_writer *w, uint64_t at, const struct iovec *iov,
		       int iovcnt, size_t len)
{
	for (int i = 0; i < iovcnt && len; i++) {
		size_t n = iov[i].iov_len < len ? iov[i].iov_len : len;

		if (n && !put(w, at, iov[i].iov_base, n))
			return false;
		at += n;
		len -= n;
	}
	return true;
}

static __attribute__((noinline)) int drop(struct record_ring_writer *w, int rc)
{
	if (rc == -ENOBUFS) {
		/* orders nothing: a counter */
		__atomic_fetch_add(&w->shared->dropped, 1, __ATOMIC_RELAXED);
	}
	return rc;
}

static __attribute__((noinline)) int write_slowly(struct record_ring_writer *w,
						  const struct record_header *header,
						  const struct iovec *iov, int iovcnt, size_t len,
						  enum record_state state)
{
	struct record_header *to;
	uint32_t cells = record_ring_cells(len);
	uint64_t position;
	bool good;
	int rc = reserve(w, cells, &position);

	if (rc)
		return rc;
	RECORD_STEP();
	to = record_at(w->data, (uint32_t)position & (w->cells - 1));
	*to = *header;
	to->len = (uint16_t)len;
	RECORD_STEP();
	good = put_pieces(w, position * RECORD_CELL + sizeof(*to), iov, iovcnt, len);
	RECORD_STEP();
	record_commit(w, position, cells, good ? state : RECORD_VOID);
	return good ? 0 : -EFAULT;
}

int record_ring_write(struct record_ring_writer *w, const struct record_header *header,
		      const struct iovec *iov, int iovcnt, size_t len)
{
	int rc = -EAGAIN;

	if (unlikely(len > RECORD_MAX))
		return -EMSGSIZE;
	if (__builtin_expect(iovcnt == 1, 1))
		rc = record_ring_write_at_once(w, header, iov->iov_base, len);
	if (__builtin_expect(rc != -EAGAIN, 1))
		return rc;
	return drop(w, write_slowly(w, header, iov, iovcnt, len, RECORD_COMMITTED));
}

int record_ring_mark(struct record_ring_writer *w, const struct record_header *header)
{
	return write_slowly(w, header, NULL, 0, 0, RECORD_MARK);
}

bool record_ring_has_room(struct record_ring_writer *w, size_t len)
{
	uint64_t head = see_head(w);

	return fits(w, position_of(load(&w->shared->tail), head) - head, record_ring_cells(len));
}

bool record_ring_is_closed(const struct record_ring_writer *w)
{
	return is_closed(load(&w->shared->tail));
}

/* ---- reader ------------------------------------------------------------------------- */

int record_ring_init(struct record_ring_reader *r, struct record_ring_shared *shared,
		     uint32_t cells, uint32_t limit)
{
	if (!cells_are_valid(cells))
		return -EINVAL;
	/* The first lap is 1, so a word that is zero is of an earlier one. */
	*r = (struct record_ring_reader){.shared = shared,
					 .data = data_of(shared, cells),
					 .cells = cells,
					 .shift = (uint32_t)__builtin_ctz(cells),
					 .head = cells,
					 .next = cells,
					 .stop = UINT64_MAX};
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
	if (end - r->head <= r->cells)
		r->dead_end = end;
	else
		r->broken = true;
	free_numbers(r);
}

/* Does nobody write what this writer has reserved? */
static inline bool is_gone(const struct record_ring_reader *r, uint32_t writer)
{
	return writer != READER_NUMBER && (!has_bit(r->used, writer) || has_bit(r->dead, writer));
}

/* Gives back what is before the first hole, or before what was not looked at. */
static inline void publish_head(struct record_ring_reader *r)
{
	uint64_t head = r->n_holes ? r->holes[0].position : r->next;

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
	if (!is_gone(r, writer))
		r->holes[r->n_holes++] =
			(struct record_hole){.position = r->next, .cells = cells, .writer = writer};
	r->next += cells;
}

static bool break_ring(struct record_ring_reader *r)
{
	r->broken = true;
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
		return 0;
	}
	while (r->n_holes < RECORD_HOLES && look_at_next(r, &found))
		;
	r->peeked = found;
	if (found)
		return 0;
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

uint32_t record_ring_dropped(const struct record_ring_reader *r)
{
	return (uint32_t)load(&r->shared->dropped);
}

void record_ring_trim(struct record_ring_reader *r)
{
	struct record_ring_writer self;
	uint64_t position;

	if (record_ring_writer_open(&self, r->shared, r->cells, READER_NUMBER))
		return;
	/* Nobody else uses what is reserved here.  A writer that comes meanwhile finds the rest. */
	for (uint32_t n = 0; n < r->cells; n += RECORD_CELLS_MIN / 2) {
		uint32_t cells = RECORD_CELLS_MIN / 2, first, part;

		if (record_ring_peek(r) != -EAGAIN || r->n_holes ||
		    reserve(&self, cells, &position))
			return;
		first = (uint32_t)position & (r->cells - 1);
		part = cells < r->cells - first ? cells : r->cells - first;
		segment_release(r->data + (size_t)first * RECORD_CELL, (size_t)part * RECORD_CELL);
		segment_release(r->data, (size_t)(cells - part) * RECORD_CELL);
		record_commit(&self, position, cells, RECORD_VOID);
	}
	(void)record_ring_peek(r);
}

void record_ring_close(struct record_ring_reader *r)
{
	struct record_ring_writer self;

	if (record_ring_writer_open(&self, r->shared, r->cells, READER_NUMBER)) {
		r->broken = true;
		return;
	}
	for (int i = 0; i < ATTEMPTS; i++) {
		/* acquire: pairs with reserve(): a word it described is not described twice */
		uint64_t tail = __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);
		uint64_t end = position_of(tail, r->head);

		describe(&self, tail, end);
		/* release: pairs with the loads in reserve(): the last reservation is described */
		if (__atomic_compare_exchange_n(&r->shared->tail, &tail,
						make_tail(end, 0, READER_NUMBER), false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED))
			return;
	}
	r->broken = true; /* only one that does nothing else wins so often */
}

bool record_ring_is_drained(const struct record_ring_reader *r)
{
	return r->broken ||
	       (!r->n_holes && r->next == position_of(load(&r->shared->tail), r->head));
}
