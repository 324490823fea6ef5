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

/* Blocks all of this thread's signals. */
void signals_block(void);
/* The end of the outermost pair gives the thread its mask back. */
void signals_unblock(void);

#endif
