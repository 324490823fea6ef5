/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of a record ring: what the tail and a cell's word are made of. */
#ifndef RING_LOCAL_RECORD_WORD_H
#define RING_LOCAL_RECORD_WORD_H

#include <stdint.h>

#define WRITER_BITS 10
#define CELLS_BITS 11
#define STATE_BITS 2
#define TAIL_SHIFT (WRITER_BITS + CELLS_BITS)
#define LAP_SHIFT (WRITER_BITS + CELLS_BITS + STATE_BITS)
#define TAIL_MASK (~0ull >> TAIL_SHIFT) /* of a position in the tail: 43 bits */
#define LAP_MASK (~0ull >> LAP_SHIFT)

/* A mark is a committed record that the quick way stops before: record_ring_mark(), record_fan.h. */
enum record_state { RECORD_RESERVED, RECORD_COMMITTED, RECORD_VOID, RECORD_MARK };

static inline uint32_t writer_of(uint64_t word)
{
	return word & ((1u << WRITER_BITS) - 1);
}

static inline uint32_t cells_of(uint64_t word)
{
	return word >> WRITER_BITS & ((1u << CELLS_BITS) - 1);
}

static inline enum record_state state_of(uint64_t word)
{
	return word >> TAIL_SHIFT & ((1u << STATE_BITS) - 1);
}

static inline uint64_t lap_of(uint64_t word)
{
	return word >> LAP_SHIFT;
}

static inline uint64_t make_word(uint64_t lap, enum record_state state, uint32_t cells,
				 uint32_t writer)
{
	return lap << LAP_SHIFT | (uint64_t)state << TAIL_SHIFT | (uint64_t)cells << WRITER_BITS |
	       writer;
}

static inline uint64_t make_tail(uint64_t position, uint32_t cells, uint32_t writer)
{
	return position << TAIL_SHIFT | (uint64_t)cells << WRITER_BITS | writer;
}

static inline uint64_t lap_at(uint32_t shift, uint64_t position)
{
	return position >> shift & LAP_MASK;
}

/* The position in a tail that is at or after head; positions of others are far after it. */
static inline uint64_t position_of(uint64_t tail, uint64_t head)
{
	return head + (((tail >> TAIL_SHIFT) - head) & TAIL_MASK);
}

#endif
