/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this thread is in the middle of.  A signal handler of the program that finds
 * its thread busy gets no ring: its call is refused with EAGAIN or EINTR, and nothing
 * that was half changed is touched.
 *
 * Role		the thread itself, and its signal handlers.
 */
#ifndef BASE_BUSY_H
#define BASE_BUSY_H

#include <stdbool.h>
#include <stddef.h>

struct hold;

/* The ring this thread holds; or something else of that kind, see below; or NULL. */
extern __thread struct hold *hold_current __attribute__((tls_model("initial-exec")));

extern char busy_with[1]; /* its address stands for what is no ring */

/* True: we were not, and are now; busy_end() is for who was told so. */
static inline bool busy_begin(void)
{
	bool began = !hold_current;

	if (began)
		__atomic_store_n(&hold_current, (struct hold *)(void *)busy_with, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return began;
}

static inline void busy_end(bool began)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (began)
		__atomic_store_n(&hold_current, NULL, __ATOMIC_RELAXED);
}

#endif
