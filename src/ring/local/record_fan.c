/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/local/record_fan.h"

#include <errno.h>

#include "ring/local/record_internal.h"
#include "ring/local/record_quick.h"

/* What was reserved for the first n is void. */
static void give_up(const struct record_part *parts, unsigned n, uint32_t cells)
{
	for (unsigned i = 0; i < n; i++) {
		if (!parts[i].full)
			record_commit(parts[i].writer, parts[i].position, cells, RECORD_VOID);
	}
}

int record_fan_write(struct record_part *parts, unsigned n, const struct record_header *header,
		     const struct iovec *bytes, unsigned *failed)
{
	uint32_t cells = record_ring_cells(bytes->iov_len);

	if (bytes->iov_len > RECORD_MAX)
		return -EMSGSIZE;
	for (unsigned i = 0; i < n; i++) {
		int rc = record_reserve(parts[i].writer, cells, &parts[i].position);

		parts[i].full = rc == -ENOBUFS;
		if (!rc || parts[i].full)
			continue;
		give_up(parts, i, cells);
		*failed = i;
		return rc;
	}
	for (unsigned i = 0; i < n; i++) {
		if (parts[i].full)
			record_drop(parts[i].writer);
		else
			record_fill(parts[i].writer, parts[i].position, header, bytes, 1,
				    bytes->iov_len, RECORD_MARK);
	}
	return 0;
}
