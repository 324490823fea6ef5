/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A TCP connection over the plain loop-back port, each end on a ring of its own: for
 * benches and budgets, which want nothing in between.
 */
#ifndef TESTS_LIB_LOOP_PAIR_H
#define TESTS_LIB_LOOP_PAIR_H

#include <stdbool.h>

#include "tests/lib/tsock.h"

struct loop_pair {
	struct tsock from, to; /* blocking */
};

/* In a namespace of its own, parameters from the environment; once. */
void loop_pair_start(void);

/* nodelay: from sends a segment for each message. */
void loop_pair_open(struct loop_pair *pair, bool nodelay);
void loop_pair_close(struct loop_pair *pair);

#endif
