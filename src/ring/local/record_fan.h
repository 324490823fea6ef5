/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One record for several record rings: all that are open get it, or none does.
 *
 * The cells are reserved in all rings before a byte is written.  What is reserved where another ring is
 * closed becomes void.  The records are committed as marks: the quick way of readers (record_quick.h)
 * stops before them, so a reader always looks at their headers.
 *
 * Role		as of record_ring_write().
 * Ordering, Trust	as of record_ring.h.
 */
#ifndef RING_LOCAL_RECORD_FAN_H
#define RING_LOCAL_RECORD_FAN_H

#include "ring/local/record_ring.h"

#define RECORD_FAN_MAX 64u /* rings */

struct record_part {
	struct record_ring_writer *writer; /* the caller's */
	uint64_t position;
	bool full;
};

/*
 * Writes a record to parts[n].writer, at most RECORD_FAN_MAX.  0: each has it, or was full, dropped and
 * counted it; -EMSGSIZE; -EPIPE: the ring of parts[*failed] is closed; -EPROTO: it is spoilt.  bytes: of
 * this process, they can be read.
 */
int record_fan_write(struct record_part *parts, unsigned n, const struct record_header *header,
		     const struct iovec *bytes, unsigned *failed);

#endif
