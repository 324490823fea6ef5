/* SPDX-License-Identifier: BSD-2-Clause */
/* Rings of a loop-back port, for modules that need no more of the library. */
#ifndef TESTS_UNIT_SOCK_CORE_LOOP_RING_H
#define TESTS_UNIT_SOCK_CORE_LOOP_RING_H

#include "base/mem.h"
#include "ring/loop/port_loop.h"
#include "ring/rings.h"
#include "tests/vma_test.h"

static inline struct port *loop_ring_port(void)
{
	struct port *port;

	clock_init();
	ring_mode = HOLD_YIELD;
	rings_init(NULL);
	assert_int_equal(port_loop_open(1500, &port), 0);
	return port;
}

/* Not held. */
static inline struct ring *loop_ring_open(struct port *port, unsigned id)
{
	struct ring *ring = mem_aligned(64, sizeof(*ring));
	struct port_queue *q;
	char why[PORT_WHY];

	assert_non_null(ring);
	assert_int_equal(port->ops->open_queue(port, &q, why), 0);
	ring_init(ring, q, id);
	return ring;
}

/* Held; it is released and freed. */
static inline void loop_ring_close(struct ring *ring)
{
	ring_close(ring);
	ring_release(ring, HOLD_YIELD);
	mem_free(ring);
}

#endif
