/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Points where another thread may come in between.  A build with --config=delays
 * waits there for a random while, now and then, so that what happens once in a
 * million runs happens in one.  In any other build they are nothing.
 *
 * Role		delay_at(): any thread, also one that holds a ring.
 *		The others: tests.
 */
#ifndef BASE_DELAY_H
#define BASE_DELAY_H

#include <stdint.h>

enum delay_point {
	DELAY_HOLD_ACQUIRE,  /* a ring is about to be taken */
	DELAY_HOLD_ACQUIRED, /* and was */
	DELAY_HOLD_RELEASE,  /* about to be let go */
	DELAY_HOLD_RELEASED, /* was, the inbox not looked at again yet */
	DELAY_HOLD_WANTED,   /* HOLD_SINGLE: the internal thread has said that it wants in */
	DELAY_INBOX_POST,
	DELAY_INBOX_POSTED,
	DELAY_INBOX_TAKE,
	DELAY_READY_PUSH,
	DELAY_READY_TAKE,
	DELAY_SLEEP_CALL,   /* there is news, whom it concerns is about to be looked for */
	DELAY_SLEEP_LISTEN, /* lies, and has not looked yet */
	DELAY_SLEEP_NOW,    /* has looked, and is about to sleep */
	DELAY_SLEEP_WOKEN,  /* is awake, and others think that he lies */
	DELAY_REQUEST_POST,
	DELAY_REQUEST_TAKE,
	DELAY_MOVE_LISTED,  /* PREPARE is done, the old ring still has the frames */
	DELAY_MOVE_STEERED, /* STEER is done */
	DELAY_MOVE_BARRIER, /* BARRIER is done */
	DELAY_MOVE_DRAINED, /* LEAVE has drained the old ring */
	DELAY_MOVE_POSTED,  /* ARRIVE was posted, LEAVE has not changed home */
	DELAY_MOVE_LEFT,    /* the old ring was let go */
	DELAY_MOVE_ARRIVE,  /* ARRIVE begins */
	DELAY_POINTS,
};

#ifdef VMA_TEST_DELAYS

void delay_at(enum delay_point at);

/* Before threads: the same seed makes the same choices in each thread. */
void delay_seed(uint64_t seed);

/* Called instead; NULL: none.  It may wait for what a test makes happen. */
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
