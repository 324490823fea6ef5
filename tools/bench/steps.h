/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For programs that run under tools/bench/steps: selects the calls that it counts.
 */
#ifndef TOOLS_BENCH_STEPS_H
#define TOOLS_BENCH_STEPS_H

#include <stdint.h>

#define STEPS_MAGIC 0x73746570u

/*
 * The next call of function, by this thread and within some hundred instructions,
 * counts under this name.  Without steps the program dies of SIGTRAP here.
 */
static inline void steps_count(const void *function, const char *name)
{
	__asm__ volatile("int3"
			 :
			 : "a"(STEPS_MAGIC), "D"((uintptr_t)function), "S"((uintptr_t)name)
			 : "memory");
}

#endif
