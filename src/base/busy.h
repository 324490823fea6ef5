/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the calling thread is inside library code that must not be re-entered.  When a
 * signal handler of the program interrupts such a busy thread and calls a socket function,
 * the call fails with EAGAIN or EINTR and touches no half-changed state.
 *
 * Role		the thread itself, and the signal handlers that interrupt it.
 */
#ifndef BASE_BUSY_H
#define BASE_BUSY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hold;

/* The ring that this thread holds, busy_with inside a busy_begin() section, or NULL. */
extern __thread struct hold *hold_current __attribute__((tls_model("initial-exec")));

extern char busy_with[1]; /* its address marks a section that holds no ring */

/* The number of mutexes and of other sections between busy_lock() and busy_unlock() of this thread. */
extern __thread unsigned busy_locks __attribute__((tls_model("initial-exec")));

/* The number of sections of this thread in which handlers are deferred and calls are not refused. */
extern __thread unsigned busy_defers __attribute__((tls_model("initial-exec")));

/*
 * A signal arrived while this thread was busy, and its handler is deferred. The handler could
 * leave the call with siglongjmp() and the ring or mutex would stay locked. All deferrable
 * signals are therefore blocked until the thread is no longer busy; the code that ends the busy
 * section tests this flag.
 */
extern __thread bool busy_put_off __attribute__((tls_model("initial-exec")));

static inline bool busy_is(void)
{
	return hold_current || busy_locks || busy_defers;
}

/* True if sig can be deferred; false for signals that an instruction raises (SIGSEGV). */
bool busy_may_wait(int sig);
/*
 * Call in a signal handler. mask: the interrupted thread's mask, restored when the handler
 * returns; all deferrable signals are added to it.
 */
void busy_put_signals_off(uint64_t *mask);
/*
 * If signals are deferred and the thread is no longer busy: restores its signal mask, and
 * pending handlers run now. Otherwise does nothing.
 */
void busy_let_signals_in(void);

/* Enters a busy section. True if the thread was not busy; pass the result to busy_end(). */
static inline bool busy_begin(void)
{
	bool began = !hold_current;

	if (began)
		__atomic_store_n(&hold_current, (struct hold *)(void *)busy_with, __ATOMIC_RELAXED);
	/* Orders the store before the section, for signal handlers of this thread. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return began;
}

static inline void busy_end(bool began)
{
	/* Orders the section before the store, for signal handlers of this thread. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (!began)
		return;
	__atomic_store_n(&hold_current, NULL, __ATOMIC_RELAXED);
	/*
	 * Orders the store before the load of busy_put_off: a handler that still sees the thread
	 * busy sets the flag before it is read here.
	 */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(busy_put_off, 0))
		busy_let_signals_in();
}

/* A section of this thread begins; count: how many it is in. */
static inline __attribute__((always_inline)) void busy_enter(unsigned *count)
{
	++*count;
	/* Orders the count first: a signal handler that runs in between must find it. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* The handlers that were deferred run now, unless the thread is still busy; they may not return. */
static inline __attribute__((always_inline)) void busy_leave(unsigned *count)
{
	/* Orders the count last, and before the look at what signal handlers have put off. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	--*count;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(busy_put_off, 0))
		busy_let_signals_in();
}

/*
 * Around a mutex that is locked without blocking signals, or state that a handler must not find half
 * changed: handlers are deferred, calls that need the mutex are refused, the section may hold rings,
 * and no callback of the program runs in it.
 */
static inline void busy_lock(void)
{
	busy_enter(&busy_locks);
}

static inline void busy_unlock(void)
{
	busy_leave(&busy_locks);
}

/*
 * A section that holds nothing: its calls may hold rings, but no handler interrupts it.  They nest,
 * and may begin while a ring is held and end when it is released.
 */
static inline void busy_defer_begin(void)
{
	busy_enter(&busy_defers);
}

static inline void busy_defer_end(void)
{
	busy_leave(&busy_defers);
}

#endif
