/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is initialised once, by the first thread that needs it.
 *
 * Role		once_run(): any thread, also in a signal handler. The first caller runs fn(arg);
 *		the others block until it has returned. A call by the thread that is in fn (a
 *		signal handler, or fn calls back) returns at once: it cannot wait for itself.
 * Lifetime	static; zero at first.
 * Ordering	what fn has written is visible to every caller that once_is_done() or
 *		once_run() returned to, except the calls inside fn.
 * Progress	fn must not wait for a lock that another caller may have: locks of the dynamic
 *		loader belong to a thread that runs constructors. In a child forked meanwhile, the
 *		first caller runs fn again, because the thread that ran it is not there.
 */
#ifndef BASE_ONCE_H
#define BASE_ONCE_H

#include <stdbool.h>

#define ONCE_DONE (-1)

struct once {
	int state; /* any, atomic: 0; the thread that runs fn; ONCE_DONE */
};

static inline bool once_is_done(const struct once *once)
{
	/* Pairs with the end of once_run(). */
	return __builtin_expect(__atomic_load_n(&once->state, __ATOMIC_ACQUIRE) == ONCE_DONE, 1);
}

void once_run(struct once *once, void (*fn)(void *arg), void *arg) __attribute__((cold));

#endif
