/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cleanup handlers for thread cancellation, for a signal handler of the program that leaves
 * the interrupted call with siglongjmp(), and for a callback of the program that throws a C++
 * exception.  The C library runs these in the first two cases; those of pthread_cleanup_push() in C
 * are not run by siglongjmp().  In the third one the unwinder asks cleanup_personality().
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

/* In the function that this is inlined into: it is called when an exception passes its frame. */
static inline __attribute__((always_inline)) void cleanup_push(struct cleanup *undo,
							       void (*fn)(void *arg), void *arg)
{
	/* 0x1b: relative to its place.  The linker keeps what code refers to, not unwind tables. */
	__asm__ inline volatile(".reloc ., R_X86_64_NONE, cleanup_personality\n\t"
				".cfi_personality 0x1b, cleanup_personality");
	_pthread_cleanup_push(&undo->buffer, fn, arg);
}

static inline void cleanup_pop(struct cleanup *undo)
{
	_pthread_cleanup_pop(&undo->buffer, 0);
}

#endif
