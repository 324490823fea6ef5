/* SPDX-License-Identifier: BSD-2-Clause */
/* The quick way out of a record ring (ring/local/record_quick.h), of any record. */
#ifndef TESTS_LIB_RECORD_READ_H
#define TESTS_LIB_RECORD_READ_H

#include "ring/local/record_quick.h"

/* Consumes the next record.  The number of bytes that were copied, or -EAGAIN. */
static inline ssize_t record_ring_read_at_once(struct record_ring_reader *r,
					       struct record_header *header, void *to, size_t size)
{
	struct record_seen seen;

	if (!record_ring_look_at_once(r, &seen))
		return -EAGAIN;
	*header = record_ring_seen_header(&seen);
	header->len = (uint16_t)seen.len;
	return record_ring_take_at_once(r, &seen, to, size);
}

#endif
