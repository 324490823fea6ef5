/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What has to be undone when a thread is cancelled, or a signal handler of the program
 * leaves the call it interrupted by siglongjmp(): the C library runs such handlers then,
 * which it does not for those of pthread_cleanup_push() in C.
 *
 *	struct cleanup undo;
 *	cleanup_push(&undo, fn, arg);
 *	...
 *	cleanup_pop(&undo);
 *
 * Role		app. The record lies on the stack of the call it belongs to; the last
 *		one pushed is the first one popped. fn runs on the thread itself.
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <pthread.h>

struct cleanup {
	struct _pthread_cleanup_buffer buffer;
};

/* The C library has them for programs of old, and does not declare them any more. */
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
