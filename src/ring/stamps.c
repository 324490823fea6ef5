/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/stamps.h"

#include "ring/progress.h"
#include "ring/rings.h"

static bool wanted; /* control lock */

/* A captured ring has operations of its own, which call those of the queue. */
static void stamp(struct ring *ring)
{
	const struct port_ops *before = ring->q->ops;

	before->stamp(ring->q);
	if (ring->ops == before)
		ring->ops = ring->q->ops;
}

void rings_stamp(void)
{
	if (wanted)
		return;
	wanted = true;
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		if (ring->q && ring_hold_cold(ring)) {
			if (ring->q)
				stamp(ring);
			ring_release_cold(ring);
		}
	}
	progress_wake(); /* ports may have a descriptor more for service() */
}

void ring_stamps_opened(struct ring *ring)
{
	ring_assert_held(ring);
	if (wanted)
		stamp(ring);
}

void ring_stamps_forget(void)
{
	wanted = false;
}
