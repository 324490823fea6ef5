/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/local/byte_ring.h"

#include <errno.h>

#include "base/user.h"
#include "ring/local/shared_word.h"

#define POSITION BYTE_RING_POSITION

static bool capacity_is_valid(uint32_t capacity)
{
	return capacity >= BYTE_RING_CAPACITY_MIN && capacity <= BYTE_RING_CAPACITY_MAX &&
	       !(capacity & (capacity - 1));
}

void byte_ring_init(struct byte_ring_shared *shared, uint32_t limit)
{
	store(&shared->tail, 0);
	store(&shared->urgent, 0);
	store(&shared->wanted, 0);
	store(&shared->head, 0);
	store(&shared->limit, limit);
	store(&shared->kept, POSITION);
}

/* The position before which a reader that consumed up to head, and keeps bytes, uses none. */
static uint64_t kept_from(const struct byte_ring_shared *shared, uint64_t head)
{
	/* acquire: pairs with byte_ring_keep(): what is before it is not read any more */
	uint64_t kept = __atomic_load_n(&shared->kept, __ATOMIC_ACQUIRE);

	return kept < head ? kept : head;
}

/* ---- writer ------------------------------------------------------------------------- */

/* The tail may reach this position. */
static inline void set_space(struct byte_ring_writer *w, uint64_t to)
{
	uint32_t third = w->send_limit / 3;

	w->space_to = to;
	w->plenty_to = to > third ? to - third : 0;
}

/* Once for each look: whatever depends on the room uses the same number. */
static __attribute__((noinline)) void see_kept(struct byte_ring_writer *w)
{
	uint64_t kept = w->head - kept_from(w->shared, w->head);

	w->kept = kept < w->capacity ? (uint32_t)kept : w->capacity;
	set_space(w, w->space_to ? w->space_to - w->kept : 0);
}

/* The head and the limit as they are now.  False: broken. */
static bool see_head(struct byte_ring_writer *w)
{
	uint64_t word, head, limit;

	if (w->broken)
		return false;
	/* acquire: pairs with publish_head(): the reader has copied what is before the head */
	word = __atomic_load_n(&w->shared->head, __ATOMIC_ACQUIRE);
	head = word & POSITION;
	/* Between the last head and the tail; neither is behind it. */
	if (unlikely(head - w->head > w->tail - w->head ||
		     (w->closed && !(word & BYTE_RING_CLOSED)))) {
		w->broken = true;
		set_space(w, 0);
		return false;
	}
	w->head = head;
	w->closed = word & BYTE_RING_CLOSED;
	limit = (uint32_t)load(&w->shared->limit) + (uint64_t)w->send_limit;
	if (limit > w->capacity)
		limit = w->capacity;
	set_space(w, w->closed || w->flags ? 0 : head + limit);
	if (unlikely(word & BYTE_RING_KEEPS))
		see_kept(w);
	return true;
}

/* A limit that was lowered may be below the tail. */
static inline uint64_t space(const struct byte_ring_writer *w)
{
	return w->space_to > w->tail ? w->space_to - w->tail : 0;
}

int byte_ring_writer_open(struct byte_ring_writer *w, struct byte_ring_shared *shared, void *data,
			  uint32_t capacity, uint32_t send_limit)
{
	uint64_t word = load(&shared->tail), head = load(&shared->head) & POSITION;

	if (!capacity_is_valid(capacity))
		return -EINVAL;
	if ((word & POSITION) - head > capacity)
		return -EPROTO;
	*w = (struct byte_ring_writer){.shared = shared,
				       .data = data,
				       .capacity = capacity,
				       .send_limit = send_limit,
				       .tail = word & POSITION,
				       .flags = word & ~POSITION,
				       .head = head};
	return see_head(w) ? 0 : -EPROTO;
}

static inline void publish_tail(struct byte_ring_writer *w)
{
	/* release: pairs with see_tail(): the bytes, and the mark, are there */
	__atomic_store_n(&w->shared->tail, w->tail | w->flags, __ATOMIC_RELEASE);
}

/* Copies n bytes to the position. */
static inline bool put(const struct byte_ring_writer *w, uint64_t position, const void *from,
		       size_t n)
{
	uint32_t at = (uint32_t)position & (w->capacity - 1);
	size_t first = w->capacity - at;

	if (n <= first)
		return user_copy(w->data + at, from, n);
	return user_copy(w->data + at, from, first) &&
	       user_copy(w->data, (const uint8_t *)from + first, n - first);
}

static __attribute__((noinline)) ssize_t why_not_written(const struct byte_ring_writer *w)
{
	if (w->broken)
		return -EPROTO;
	if (w->flags)
		return -EPIPE;
	return w->closed ? -ECONNRESET : -EAGAIN;
}

static size_t iov_size(const struct iovec *iov, int iovcnt)
{
	size_t size = 0;

	for (int i = 0; i < iovcnt; i++)
		size += iov[i].iov_len;
	return size;
}

/*
 * Copies up to room bytes behind the tail; returns their number, or -EFAULT: as the kernel, which
 * gives a segment up if a part of it faults.
 */
static inline ssize_t put_all(const struct byte_ring_writer *w, const struct iovec *iov, int iovcnt,
			      size_t room)
{
	size_t done = 0;

	for (int i = 0; i < iovcnt && room; i++) {
		size_t n = iov[i].iov_len < room ? iov[i].iov_len : room;

		if (unlikely(n && !put(w, w->tail + done, iov[i].iov_base, n)))
			return -EFAULT;
		done += n;
		room -= n;
	}
	return (ssize_t)done;
}

static inline ssize_t written(struct byte_ring_writer *w, size_t n, unsigned flags)
{
	w->tail += n;
	if (unlikely(flags & BYTE_RING_URGENT))
		store(&w->shared->urgent, w->tail);
	publish_tail(w);
	return (ssize_t)n;
}

/* Several pieces, more than there is room for, or round the end of the data. */
static __attribute__((noinline)) ssize_t
write_pieces(struct byte_ring_writer *w, const struct iovec *iov, int iovcnt, unsigned flags)
{
	size_t want = iov_size(iov, iovcnt);
	ssize_t n;

	if (w->tail + want > w->plenty_to)
		(void)see_head(w);
	if (w->broken || w->flags || w->closed || (want && !space(w)))
		return why_not_written(w);
	n = put_all(w, iov, iovcnt, space(w));
	return n > 0 ? written(w, (size_t)n, flags) : n;
}

ssize_t byte_ring_write(struct byte_ring_writer *w, const struct iovec *iov, int iovcnt,
			unsigned flags)
{
	size_t n = 0;

	if (__builtin_expect(iovcnt == 1 && !flags, 1))
		n = byte_ring_write_at_once(w, iov->iov_base, iov->iov_len);
	return __builtin_expect(n != 0, 1) ? (ssize_t)n : write_pieces(w, iov, iovcnt, flags);
}

static void end_stream(struct byte_ring_writer *w, uint64_t flag)
{
	w->flags |= flag;
	set_space(w, 0);
	if (!w->broken)
		publish_tail(w);
}

void byte_ring_finish(struct byte_ring_writer *w)
{
	end_stream(w, BYTE_RING_FIN);
}

void byte_ring_reset(struct byte_ring_writer *w)
{
	end_stream(w, BYTE_RING_RST);
}

uint32_t byte_ring_space(struct byte_ring_writer *w)
{
	return see_head(w) ? (uint32_t)space(w) : 0;
}

uint32_t byte_ring_unread(struct byte_ring_writer *w)
{
	return see_head(w) ? (uint32_t)(w->tail - w->head) : 0;
}

uint32_t byte_ring_unsent(struct byte_ring_writer *w)
{
	uint32_t unread = byte_ring_unread(w);
	uint32_t limit = w->broken ? 0 : (uint32_t)load(&w->shared->limit);

	return unread > limit ? unread - limit : 0;
}

bool byte_ring_reader_closed(struct byte_ring_writer *w)
{
	(void)see_head(w);
	return w->closed;
}

void byte_ring_writer_lost(struct byte_ring_writer *w)
{
	w->broken = true;
	set_space(w, 0);
}

void byte_ring_set_send_limit(struct byte_ring_writer *w, uint32_t limit)
{
	w->send_limit = limit;
	(void)see_head(w);
}

uint32_t byte_ring_written(const struct byte_ring_writer *w, uint64_t position, uint32_t most,
			   const uint8_t **at)
{
	uint32_t place = (uint32_t)position & (w->capacity - 1), n = w->capacity - place;

	*at = w->data + place;
	return n < most ? n : most;
}

void byte_ring_want_space(struct byte_ring_writer *w, uint32_t bytes)
{
	/* Space is measured from what is kept. */
	uint64_t full = w->space_to - w->head + w->kept, head = w->head;

	if (w->broken || !w->space_to)
		return;
	if (bytes > full)
		bytes = (uint32_t)full;
	if (bytes > space(w))
		head = w->tail + bytes - full;
	/* 0 says that none is wanted. */
	head = !bytes ? 0 : head ? head : 1;
	if (load(&w->shared->wanted) != head) /* else the reader need not fetch it again */
		store(&w->shared->wanted, head);
}

/* ---- reader ------------------------------------------------------------------------- */

static bool is_tail(const struct byte_ring_reader *r, uint64_t word)
{
	uint64_t tail = word & POSITION;

	/* Between the last tail and what fits; flags stay, and nothing follows them. */
	return tail - r->tail <= r->head + r->capacity - r->tail &&
	       !(r->word & ~word & ~POSITION) && (!(r->word & ~POSITION) || tail == r->tail);
}

static __attribute__((noinline)) bool see_new_tail(struct byte_ring_reader *r, uint64_t word)
{
	uint64_t urgent = load(&r->shared->urgent);

	if (!is_tail(r, word))
		goto broken;
	if (urgent != r->urgent) {
		/* It was not there when the last tail was seen, and may be newer than this one. */
		if (urgent <= r->urgent || urgent <= r->tail || urgent > r->head + r->capacity)
			goto broken;
		r->urgent = urgent;
	}
	r->word = word;
	r->tail = word & POSITION;
	return true;
broken:
	r->broken = true;
	return false;
}

/* The tail as it is now.  False: broken. */
static inline bool see_tail(struct byte_ring_reader *r)
{
	uint64_t word;

	if (unlikely(r->broken))
		return false;
	/* acquire: pairs with publish_tail(): the bytes before it can be copied */
	word = __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);
	if (word == r->word)
		return true;
	/* New bytes and nothing else, the usual case: a flag in either word is a large number. */
	if (unlikely(word - r->head > r->capacity || word < r->word ||
		     load(&r->shared->urgent) != r->urgent))
		return see_new_tail(r, word);
	r->word = word;
	r->tail = word;
	return true;
}

int byte_ring_reader_open(struct byte_ring_reader *r, struct byte_ring_shared *shared,
			  const void *data, uint32_t capacity)
{
	uint64_t word = load(&shared->head), head = word & POSITION;

	if (!capacity_is_valid(capacity))
		return -EINVAL;
	*r = (struct byte_ring_reader){.shared = shared,
				       .data = data,
				       .capacity = capacity,
				       .head = head,
				       .tail = head,
				       .word = head,
				       .flag = word & ~POSITION};
	r->urgent = load(&shared->urgent);
	if (r->urgent > head + capacity)
		return -EPROTO;
	return see_tail(r) ? 0 : -EPROTO;
}

static inline void publish_head(struct byte_ring_reader *r)
{
	/* release: pairs with see_head(): what is before it is not read any more */
	__atomic_store_n(&r->shared->head, r->head | r->flag, __ATOMIC_RELEASE);
}

/* Copies n bytes from the position. */
static inline bool get(const struct byte_ring_reader *r, uint64_t position, void *to, size_t n)
{
	uint32_t at = (uint32_t)position & (r->capacity - 1);
	size_t first = r->capacity - at;

	if (n <= first)
		return user_copy(to, r->data + at, n);
	return user_copy(to, r->data + at, first) &&
	       user_copy((uint8_t *)to + first, r->data, n - first);
}

static __attribute__((noinline)) ssize_t why_not_read(const struct byte_ring_reader *r)
{
	if (r->broken)
		return -EPROTO;
	if (r->word & BYTE_RING_RST)
		return -ECONNRESET;
	return r->word & BYTE_RING_FIN ? 0 : -EAGAIN;
}

/* Copies up to `there` bytes from the position; returns their number, or -EFAULT. */
static inline ssize_t get_all(const struct byte_ring_reader *r, uint64_t position, uint64_t there,
			      const struct iovec *iov, int iovcnt)
{
	size_t done = 0;

	for (int i = 0; i < iovcnt && there; i++) {
		size_t n = iov[i].iov_len < there ? iov[i].iov_len : (size_t)there;

		if (unlikely(n && !get(r, position + done, iov[i].iov_base, n)))
			return -EFAULT;
		done += n;
		there -= n;
	}
	return (ssize_t)done;
}

ssize_t byte_ring_peek_at(struct byte_ring_reader *r, uint32_t skip, const struct iovec *iov,
			  int iovcnt)
{
	if (!see_tail(r))
		return -EPROTO;
	if (r->tail - r->head <= skip)
		return why_not_read(r);
	return get_all(r, r->head + skip, r->tail - r->head - skip, iov, iovcnt);
}

static inline ssize_t consumed(struct byte_ring_reader *r, size_t n)
{
	r->head += n;
	publish_head(r);
	return (ssize_t)n;
}

/* Nothing there, several pieces, or round the end of the data. */
static __attribute__((noinline)) ssize_t read_pieces(struct byte_ring_reader *r,
						     const struct iovec *iov, int iovcnt, bool peek)
{
	ssize_t n;

	if (!see_tail(r))
		return -EPROTO;
	if (r->tail == r->head)
		return why_not_read(r);
	n = get_all(r, r->head, r->tail - r->head, iov, iovcnt);
	return n <= 0 || peek ? n : consumed(r, (size_t)n);
}

ssize_t byte_ring_read(struct byte_ring_reader *r, const struct iovec *iov, int iovcnt, bool peek)
{
	size_t n = 0;

	if (__builtin_expect(iovcnt == 1 && !peek, 1))
		n = byte_ring_read_at_once(r, iov->iov_base, iov->iov_len);
	return __builtin_expect(n != 0, 1) ? (ssize_t)n : read_pieces(r, iov, iovcnt, peek);
}

ssize_t byte_ring_discard(struct byte_ring_reader *r, uint32_t n)
{
	if (!see_tail(r))
		return -EPROTO;
	if (n > r->tail - r->head)
		n = (uint32_t)(r->tail - r->head);
	return consumed(r, n);
}

uint32_t byte_ring_readable(struct byte_ring_reader *r)
{
	return see_tail(r) ? (uint32_t)(r->tail - r->head) : 0;
}

void byte_ring_finish_for_writer(struct byte_ring_reader *r)
{
	if (!see_tail(r) || r->word & ~POSITION)
		return;
	/* Orders nothing: the writer is gone.  Another process that goes on reading sees it. */
	store(&r->shared->tail, r->tail | BYTE_RING_FIN);
	(void)see_tail(r);
}

enum byte_ring_end byte_ring_end(struct byte_ring_reader *r)
{
	if (!see_tail(r))
		return BYTE_RING_BROKEN;
	if (r->word & BYTE_RING_RST)
		return BYTE_RING_WAS_RESET;
	return r->word & BYTE_RING_FIN ? BYTE_RING_FINISHED : BYTE_RING_OPEN;
}

bool byte_ring_urgent(const struct byte_ring_reader *r, int64_t *ahead)
{
	*ahead = (int64_t)(r->urgent - 1 - r->head);
	return r->urgent;
}

void byte_ring_set_receive_limit(struct byte_ring_reader *r, uint32_t limit)
{
	if (!r->broken)
		store(&r->shared->limit, limit);
}

bool byte_ring_reached_wanted(const struct byte_ring_reader *r)
{
	uint64_t wanted = r->broken ? 0 : load(&r->shared->wanted);

	return wanted && r->head >= wanted &&
	       (!(r->flag & BYTE_RING_KEEPS) || kept_from(r->shared, r->head) >= wanted);
}

uint32_t byte_ring_piece(const struct byte_ring_reader *r, uint32_t skip, const uint8_t **at)
{
	uint64_t there = r->broken ? 0 : r->tail - r->head;
	uint32_t place = (uint32_t)(r->head + skip) & (r->capacity - 1), n = r->capacity - place;

	*at = r->data + place;
	if (there <= skip)
		return 0;
	return n < there - skip ? n : (uint32_t)(there - skip);
}

void byte_ring_keep(struct byte_ring_shared *shared, uint64_t position)
{
	/* release: pairs with kept_from(): what is before it is not read any more */
	__atomic_store_n(&shared->kept, position, __ATOMIC_RELEASE);
}

bool byte_ring_keeps_others(const struct byte_ring_reader *r)
{
	return (r->flag & BYTE_RING_KEEPS) && kept_from(r->shared, r->head) < r->head;
}

bool byte_ring_is_stopped(const struct byte_ring_reader *r, uint64_t position)
{
	uint64_t wanted = r->broken ? 0 : load(&r->shared->wanted);

	return wanted && r->head >= wanted && position < wanted;
}

void byte_ring_close(struct byte_ring_reader *r)
{
	r->flag |= BYTE_RING_CLOSED;
	if (!r->broken)
		publish_head(r);
}

void byte_ring_refuse(struct byte_ring_reader *r)
{
	byte_ring_close(r);
	r->broken = true;
}
