/* SPDX-License-Identifier: BSD-2-Clause */
/* The writers' side of a record ring; see record_ring.h. */
#include <errno.h>

#include "ring/local/record_internal.h"
#include "ring/local/record_quick.h"
#include "ring/local/shared_word.h"

#ifdef RECORD_RING_STEPS
static void go_on(void)
{
}

void (*record_ring_step)(void) = go_on;
#endif

int record_ring_writer_open(struct record_ring_writer *w, struct record_ring_shared *shared,
			    uint32_t cells, uint32_t number)
{
	uint64_t head = load(&shared->head);

	if (!record_cells_are_valid(cells) || number > RECORD_READER)
		return -EINVAL;
	if (position_of(load(&shared->tail), head) - head > cells)
		return -EPROTO;
	*w = (struct record_ring_writer){.shared = shared,
					 .data = record_data_of(shared, cells),
					 .cells = cells,
					 .shift = (uint32_t)__builtin_ctz(cells),
					 .number = number,
					 .head = head,
					 .limit = load(&shared->limit),
					 .words = shared->word,
					 .mask = cells - 1};
	return 0;
}

/* How far record_ring_write_next() can go on from w->end. */
static void renew_room(struct record_ring_writer *w)
{
	uint64_t room = w->head + (w->limit < w->cells ? w->limit : w->cells);
	uint64_t lap_end = (w->end | (w->cells - 1)) + 1;

	w->until = room < lap_end ? room : lap_end;
	w->word = make_word(lap_at(w->shift, w->end), RECORD_COMMITTED, 0, w->number);
}

/* The head and the limit as they are now; returns the head. */
static __attribute__((noinline)) uint64_t see_head(struct record_ring_writer *w)
{
	/* acquire: pairs with publish_head(): the reader has copied what is before the head */
	w->head = __atomic_load_n(&w->shared->head, __ATOMIC_ACQUIRE);
	w->limit = load(&w->shared->limit);
	if (w->until)
		renew_room(w);
	return w->head;
}

static inline bool fits(const struct record_ring_writer *w, uint64_t used, uint32_t n)
{
	return used < w->limit && used + n <= w->cells;
}

void record_describe(struct record_ring_writer *w, uint64_t tail, uint64_t end)
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
	return writer_of(tail) == RECORD_READER && !cells_of(tail);
}

int record_reserve(struct record_ring_writer *w, uint32_t n, uint64_t *position)
{
	uint64_t head = w->head;

	for (int i = 0; i < RECORD_ATTEMPTS; i++) {
		/* acquire: pairs with the exchange below: a word it described is not described twice */
		uint64_t tail = __atomic_load_n(&w->shared->tail, __ATOMIC_ACQUIRE);
		uint64_t end = position_of(tail, head), next;

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
		record_describe(w, tail, end);
		RECORD_STEP();
		/*
		 * release: pairs with the load above, and in look_at_tail(): the word of the
		 * reservation before is described
		 */
		next = make_tail(end + n, n, w->number);
		if (__atomic_compare_exchange_n(&w->shared->tail, &tail, next, false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
			*position = end;
			w->tail = next;
			w->end = end + n;
			renew_room(w);
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

void record_drop(struct record_ring_writer *w)
{
	/* orders nothing: a counter */
	__atomic_fetch_add(&w->shared->dropped, 1, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) int drop(struct record_ring_writer *w, int rc)
{
	if (rc == -ENOBUFS)
		record_drop(w);
	return rc;
}

bool record_fill(struct record_ring_writer *w, uint64_t position,
		 const struct record_header *header, const struct iovec *iov, int iovcnt,
		 size_t len, enum record_state state)
{
	struct record_header *to = record_at(w->data, (uint32_t)position & (w->cells - 1));
	bool good;

	RECORD_STEP();
	*to = *header;
	to->len = (uint16_t)len;
	RECORD_STEP();
	good = put_pieces(w, position * RECORD_CELL + sizeof(*to), iov, iovcnt, len);
	RECORD_STEP();
	record_commit(w, position, record_ring_cells(len), good ? state : RECORD_VOID);
	return good;
}

static __attribute__((noinline)) int write_slowly(struct record_ring_writer *w,
						  const struct record_header *header,
						  const struct iovec *iov, int iovcnt, size_t len,
						  enum record_state state)
{
	uint64_t position;
	int rc = record_reserve(w, record_ring_cells(len), &position);

	if (rc)
		return rc;
	return record_fill(w, position, header, iov, iovcnt, len, state) ? 0 : -EFAULT;
}

int record_ring_write_among(struct record_ring_writer *w, const struct record_header *header,
			    const void *from, size_t len)
{
	struct iovec iov = {(void *)(uintptr_t)from, len};
	int rc = write_slowly(w, header, &iov, 1, len, RECORD_COMMITTED);

	return rc && rc != -EFAULT ? -EAGAIN : rc;
}

int record_ring_write(struct record_ring_writer *w, const struct record_header *header,
		      const struct iovec *iov, int iovcnt, size_t len)
{
	int rc = -EAGAIN;

	if (unlikely(len > RECORD_MAX))
		return -EMSGSIZE;
	if (__builtin_expect(iovcnt == 1, 1))
		rc = record_ring_write_next(w, header, iov->iov_base, len);
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

uint64_t record_ring_written(struct record_ring_writer *w)
{
	return position_of(load(&w->shared->tail), see_head(w));
}

bool record_ring_has_read(struct record_ring_writer *w, uint64_t position)
{
	return see_head(w) >= position;
}

bool record_ring_is_closed(const struct record_ring_writer *w)
{
	return is_closed(load(&w->shared->tail));
}
