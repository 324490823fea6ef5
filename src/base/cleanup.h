/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cleanup handlers for thread cancellation, and for a signal handler of the program that leaves
 * the interrupted call with siglongjmp().  The C library runs these in both cases;
 * those of pthread_cleanup_push() in C are not run by siglongjmp().
 *
 *	struct cleanup undo;
 *	cleanup_push(&undo, fn, arg);
 *	...
 *	cleanup_pop(&undo);
 *
 * Role		app.  The record lies on the stack of the call that it belongs to; records
 *		are popped in reverse order.  fn runs on the same thread.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <pthread.h>

struct cleanup {
	struct _pthread_cleanup_buffer buffer;
};

/* The C library exports them for old programs but no longer declares them. */
void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer, void (*fn)(void *arg),
			   void *arg);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute);

static inline void cleanup_push(struct cleanup *undo, void (*fn)(void *arg), void *arg)
{
	_pthread_cleanup_push(&undo->buffer, fn, arg);
}

static inline void cleanup_pop(struct cleanup *undo)
{
	_pthread_cleanup_pop(&undo->buffer, 0);
}

#endif
