/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For programs that run under tools/bench/steps: selects the calls that it counts.
 */
#ifndef TOOLS_BENCH_STEPS_H
#define TOOLS_BENCH_STEPS_H

#include <stdint.h>

#define STEPS_MAGIC 0x73746570u

/* The time-stamp counter now. */
static inline uint64_t steps_time(void)
{
	return __builtin_ia32_rdtsc();
}

/*
 * The next call of function, by this thread and within some hundred instructions,
 * counts under this name.  Without steps the program dies of SIGTRAP here.
 *
 * time: when the call begins, for the call: an earlier steps_time(), as if no time had passed since, so
 * that no timer is due which was not due then.  0: the time is as it is.
 */
static inline void steps_count_at(const void *function, const char *name, uint64_t time)
{
	__asm__ volatile("int3"
			 :
			 : "a"(STEPS_MAGIC), "D"((uintptr_t)function), "S"((uintptr_t)name),
			   "d"(time)
			 : "memory");
}

static inline void steps_count(const void *function, const char *name)
{
	steps_count_at(function, name, 0);
}

#endif
