/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/tcp/tcp_habit.h"

#define LEAST (-64)
#define ENOUGH 4 /* a worker that a reload has started learns soon */
#define MOST 128 /* a process that was preempted once goes on */

#define SOON (100 * NSEC_PER_USEC) /* what a response may wait */

static int fins; /* any, atomic: LEAST to MOST */

enum tcp_habit tcp_habit_of(nsec_t spent, bool waited)
{
	if (spent <= SOON)
		return HABIT_FIN;
	return waited ? HABIT_IN_VAIN : HABIT_LATE;
}

void tcp_habit_learn(enum tcp_habit what)
{
	static const int worth[] = {
		[HABIT_FIN] = 1, [HABIT_LATE] = 0, [HABIT_NONE] = -8, [HABIT_IN_VAIN] = -64};
	int was = __atomic_load_n(&fins, __ATOMIC_RELAXED), is = was + worth[what];

	is = is < LEAST ? LEAST : is > MOST ? MOST : is;
	if (is != was) /* else the cache line stays shared */
		__atomic_store_n(&fins, is, __ATOMIC_RELAXED);
}

bool tcp_habit_expects_fin(void)
{
	return __atomic_load_n(&fins, __ATOMIC_RELAXED) >= ENOUGH;
}
