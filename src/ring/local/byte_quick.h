/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick looks at a byte ring: the bytes that were written, where nothing else has happened.  All else is left to
 * the functions of byte_ring.h.
 *
 * Role		as of byte_ring_readable() and byte_ring_space().
 * Ordering, Trust	as of byte_ring.h.
 */
#ifndef RING_LOCAL_BYTE_QUICK_H
#define RING_LOCAL_BYTE_QUICK_H

#include "ring/local/byte_ring.h"

/*
 * Reader: sees the bytes that were written.  False: there is an end, a new urgent byte, or what cannot be; then nothing
 * was done.
 */
static inline bool byte_ring_look_at_once(struct byte_ring_reader *r)
{
	/* acquire: pairs with the stores of the tail: the bytes before it can be copied */
	uint64_t word = __atomic_load_n(&r->shared->tail, __ATOMIC_ACQUIRE);

	/* As in byte_ring_read_at_once(). */
	if (__builtin_expect(word - r->head > r->capacity || word < r->word || r->broken, 0) ||
	    __builtin_expect(__atomic_load_n(&r->shared->urgent, __ATOMIC_RELAXED) != r->urgent, 0))
		return false;
	r->tail = r->word = word;
	return true;
}

/* Reader: byte_ring_readable(). */
static inline uint32_t byte_ring_readable_now(struct byte_ring_reader *r)
{
	return __builtin_expect(byte_ring_look_at_once(r), 1) ? (uint32_t)(r->tail - r->head)
							      : byte_ring_readable(r);
}

/* Reader: byte_ring_piece(), of what was readable just now. */
static inline uint32_t byte_ring_piece_now(const struct byte_ring_reader *r, uint32_t skip,
					   const uint8_t **at)
{
	uint32_t there = (uint32_t)(r->tail - r->head) - skip;
	uint32_t place = (uint32_t)(r->head + skip) & (r->capacity - 1), n = r->capacity - place;

	*at = r->data + place;
	return n < there ? n : there;
}

/* Reader: false: byte_ring_is_stopped() is false: the writer waits for nothing. */
static inline bool byte_ring_may_be_stopped(const struct byte_ring_reader *r)
{
	/* Orders nothing: as byte_ring_is_wanted(). */
	return __atomic_load_n(&r->shared->wanted, __ATOMIC_RELAXED) != 0;
}

/* Reader: was there no end, as of the last look? */
static inline bool byte_ring_was_open(const struct byte_ring_reader *r)
{
	return r->word == r->tail && !r->broken;
}

/* Writer: false: byte_ring_reader_closed() would be false, too, or its word cannot be. */
static inline bool byte_ring_may_be_closed(const struct byte_ring_writer *w)
{
	/* Orders nothing: byte_ring_reader_closed() looks once more, and checks the word. */
	return w->broken || w->closed ||
	       (__atomic_load_n(&w->shared->head, __ATOMIC_RELAXED) & BYTE_RING_CLOSED);
}

#endif
