/* SPDX-License-Identifier: BSD-2-Clause */
/* What a piece of work costs: nanoseconds, and instructions of the program and the library. */
#ifndef EXAMPLES_COST_H
#define EXAMPLES_COST_H

#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct cost {
	uint64_t nsec, instructions;
};

static inline uint64_t cost_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A counter of this thread's instructions, without the kernel's; -1: this machine has none. */
static inline int cost_open(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static inline struct cost cost_now(int counter)
{
	struct cost cost = {.nsec = cost_nsec()};

	if (counter >= 0 && read(counter, &cost.instructions, 8) != 8)
		cost.instructions = 0;
	return cost;
}

static inline struct cost cost_since(int counter, struct cost from)
{
	struct cost now = cost_now(counter);

	now.nsec -= from.nsec;
	now.instructions -= from.instructions;
	return now;
}

/* Prints what each of n messages has cost, of the sum for all of them. */
static inline void cost_print(const char *what, int counter, struct cost sum, uint64_t n)
{
	printf("%s: %llu messages, %llu ns each, ", what, (unsigned long long)n,
	       (unsigned long long)(n ? sum.nsec / n : 0));
	if (counter < 0)
		printf("instructions unknown: this machine has no counter\n");
	else
		printf("%llu instructions each\n",
		       (unsigned long long)(n ? sum.instructions / n : 0));
}

#endif
