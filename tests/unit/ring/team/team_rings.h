/* SPDX-License-Identifier: BSD-2-Clause */
/* Rings of a team, for its tests. */
#ifndef TESTS_UNIT_RING_TEAM_TEAM_RINGS_H
#define TESTS_UNIT_RING_TEAM_TEAM_RINGS_H

#include "base/mem.h"
#include "ring/rings.h"
#include "ring/team/team_internal.h"
#include "tests/unit/ring/fake_port.h"

static char why[PORT_WHY];

static inline struct ring *open_ring(struct port *port, unsigned id)
{
	struct ring *ring = mem_aligned(64, sizeof(*ring));
	struct port_queue *q;

	assert_non_null(ring);
	assert_int_equal(port->ops->open_queue(port, &q, why), 0);
	ring_init(ring, q, id);
	return ring;
}

static inline void hold(struct ring *ring)
{
	assert_true(ring_hold(ring, ring_mode));
}

static inline void release(struct ring *ring)
{
	ring_release(ring, ring_mode);
}

#endif
