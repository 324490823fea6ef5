/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Points where another thread may interleave.  A build with --config=delays sometimes waits
 * there for a random time, so that rare interleavings occur in every run.  In other builds
 * the functions do nothing.
 *
 * Role		delay_at(): any thread, also one that holds a ring.
 *		delay_seed(), delay_set_hook(): tests.
 */
#ifndef BASE_DELAY_H
#define BASE_DELAY_H

#include <stdint.h>

enum delay_point {
	DELAY_HOLD_ACQUIRE,  /* about to acquire a ring */
	DELAY_HOLD_ACQUIRED, /* has acquired it */
	DELAY_HOLD_RELEASE,  /* about to release it */
	DELAY_HOLD_RELEASED, /* released, and has not rechecked the inbox */
	DELAY_HOLD_OWNER,    /* HOLD_SINGLE: is the owner, has not set ->inside */
	DELAY_HOLD_WANTED,   /* HOLD_SINGLE: ->wanted is set, and membarrier(2) was called */
	DELAY_INBOX_POST,
	DELAY_INBOX_POSTED,
	DELAY_INBOX_TAKE,
	DELAY_READY_PUSH,
	DELAY_READY_TAKE,
	DELAY_SLEEP_CALL,   /* about to look for the threads to wake up */
	DELAY_SLEEP_LISTEN, /* registered as a sleeper, has not checked for events yet */
	DELAY_SLEEP_NOW,    /* has checked, about to block */
	DELAY_SLEEP_WOKEN,  /* awake, still registered as a sleeper */
	DELAY_REQUEST_POST,
	DELAY_REQUEST_TAKE,
	DELAY_MOVE_LISTED,  /* PREPARE is done, the old ring still gets the frames */
	DELAY_MOVE_STEERED, /* STEER is done */
	DELAY_MOVE_BARRIER, /* BARRIER is done */
	DELAY_MOVE_DRAINED, /* LEAVE has drained the old ring */
	DELAY_MOVE_POSTED,  /* ARRIVE is posted, LEAVE has not changed home */
	DELAY_MOVE_LEFT,    /* the old ring is released */
	DELAY_MOVE_ARRIVE,  /* ARRIVE begins */
	DELAY_SOURCE_READ,  /* a sender was found in the table, its way is not read yet */
	DELAY_LOCAL,	    /* between two accesses to memory shared with another process */
	DELAY_POINTS,
};

#ifdef VMA_TEST_DELAYS

void delay_at(enum delay_point at);

/* Call it before threads start. The same seed gives each thread the same choices. */
void delay_seed(uint64_t seed);

/*
 * Sets a function that delay_at() calls instead of delaying; NULL removes it. It may block until
 * a test triggers an event.
 */
void delay_set_hook(void (*hook)(enum delay_point at));

#else

static inline void delay_at(enum delay_point at)
{
	(void)at;
}

static inline void delay_seed(uint64_t seed)
{
	(void)seed;
}

#endif
#endif
