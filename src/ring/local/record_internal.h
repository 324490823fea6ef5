/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of a record ring; see record_ring.h. */
#ifndef RING_LOCAL_RECORD_INTERNAL_H
#define RING_LOCAL_RECORD_INTERNAL_H

#include "ring/local/record_ring.h"
#include "ring/local/record_word.h"

#define RECORD_READER RECORD_WRITERS /* the reader's own number */
#define RECORD_ATTEMPTS 1000	     /* reservations of others that one gives way to */

static inline bool record_cells_are_valid(uint32_t cells)
{
	return cells >= RECORD_CELLS_MIN && cells <= RECORD_CELLS_MAX && !(cells & (cells - 1));
}

static inline uint8_t *record_data_of(struct record_ring_shared *shared, uint32_t cells)
{
	return (uint8_t *)(shared->word + cells);
}

/* Describes the last reservation in its first cell, unless that has happened. */
void record_describe(struct record_ring_writer *w, uint64_t tail, uint64_t end);
/* Reserves n cells at *position: 0, -ENOBUFS, -EPIPE or -EPROTO. */
int record_reserve(struct record_ring_writer *w, uint32_t n, uint64_t *position);
/*
 * Writes a record of len bytes where its cells were reserved, and commits it as `state`.  False: the bytes
 * cannot be read, it is void.
 */
bool record_fill(struct record_ring_writer *w, uint64_t position,
		 const struct record_header *header, const struct iovec *iov, int iovcnt,
		 size_t len, enum record_state state);
/* A record found the ring full: counts it. */
void record_drop(struct record_ring_writer *w);

#endif
