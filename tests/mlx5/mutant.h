/* SPDX-License-Identifier: BSD-2-Clause */
/* Included before everything in the copies of src/ring/mlx5 that mutants.txt changes. */
#ifndef TESTS_MLX5_MUTANT_H
#define TESTS_MLX5_MUTANT_H

#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Is this the defect that the program is to have?  MLX5_MUTANT names it; without it: none. */
static inline bool mutant(const char *name)
{
	const char *chosen = getenv("MLX5_MUTANT");

	return chosen && !strcmp(chosen, name);
}

/* A processor may put any time between two instructions. */
static inline void mutant_pause(void)
{
	struct timespec pause = {.tv_nsec = 1000000};

	nanosleep(&pause, NULL);
}

/*
 * As long as the card needs to do this, 100 ms at most: what happens in between is not left to the
 * scheduler.
 */
#define MUTANT_AWAIT(this)                                                 \
	for (unsigned mutant_n = 0; !(this) && mutant_n < 100; mutant_n++) \
	mutant_pause()

#endif
