/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Code sections that no signal handler of the program may interrupt, because they take locks
 * that the handler may need too.
 *
 * Role		any thread, handlers included.  Pairs nest, and only the outermost pair
 *		makes system calls: a call that takes several such locks, one after
 *		the other, blocks signals once around all of them.
 */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

#include <stdbool.h>

/* Blocks all of this thread's signals. */
void signals_block(void);
/* The outermost call restores the thread's mask. */
void signals_unblock(void);
/*
 * For a thread of the library, created with the program's signals blocked. The thread counts as
 * inside a pair for good, without a system call; the C library's own signals are still
 * delivered.
 */
void signals_are_never_taken(void);
/* True if this thread is inside a pair. */
bool signals_are_blocked(void);

#endif
