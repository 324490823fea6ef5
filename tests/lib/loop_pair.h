/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A TCP connection over the plain loop-back port, with a ring for each end: for benchmarks and
 * budgets, which measure nothing else.
 */
#ifndef TESTS_LIB_LOOP_PAIR_H
#define TESTS_LIB_LOOP_PAIR_H

#include <stdbool.h>

#include "tests/lib/tsock.h"

struct loop_pair {
	struct tsock from, to; /* blocking */
};

/* Starts the library in a new namespace, with parameters from the environment; once. */
void loop_pair_start(void);

/* nodelay: the sender sends one segment per message. */
void loop_pair_open(struct loop_pair *pair, bool nodelay);
void loop_pair_close(struct loop_pair *pair);

#endif
