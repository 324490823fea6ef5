/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Code that no signal handler of the program may interrupt, because it takes locks
 * that the handler might come to want.
 *
 * Role		any thread, handlers included.  Pairs nest, and only the outer one costs
 *		system calls: a call that takes several such locks, one after the
 *		other, blocks signals around all of it.
 */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <stdbool.h>

/* Blocks all of this thread's signals. */
void signals_block(void);
/* The end of the outermost pair gives the thread its mask back. */
void signals_unblock(void);
/*
 * A thread of ours, which was created with the program's signals blocked: it is as in a
 * pair for good, without a system call, and the C library's own signals come through.
 */
void signals_are_never_taken(void);
/* Is this thread in a pair? */
bool signals_are_blocked(void);

#endif
