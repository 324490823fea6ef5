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
#include <stdint.h>

struct hold;

/* The ring this thread holds; or something else of that kind, see below; or NULL. */
extern __thread struct hold *hold_current __attribute__((tls_model("initial-exec")));

extern char busy_with[1]; /* its address stands for what is no ring */

/* Mutexes this thread has that are taken with signals let in, or is about to take. */
extern __thread unsigned busy_locks __attribute__((tls_model("initial-exec")));

/*
 * A signal of the program came while this thread was busy. Its handler could jump out of
 * the call, which would leave held for ever what is held. So it waits in the kernel, and
 * all others with it, until the thread is not busy any more: who ends that looks here.
 */
extern __thread bool busy_put_off __attribute__((tls_model("initial-exec")));

static inline bool busy_is(void)
{
	return hold_current || busy_locks;
}

/* Not those of the instruction they came at. */
bool busy_may_wait(int sig);
/* In a handler; mask: of the thread it interrupted, which this replaces when it returns. */
void busy_put_signals_off(uint64_t *mask);
/* If the thread is not busy any more: its mask is what it was, and handlers run now. */
void busy_let_signals_in(void);

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
	if (!began)
		return;
	__atomic_store_n(&hold_current, NULL, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(busy_put_off, 0))
		busy_let_signals_in();
}

#endif
