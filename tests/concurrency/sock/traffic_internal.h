/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of traffic. */
#ifndef TESTS_CONCURRENCY_SOCK_TRAFFIC_INTERNAL_H
#define TESTS_CONCURRENCY_SOCK_TRAFFIC_INTERNAL_H

#include "traffic.h"

#define ADD(what, n) __atomic_fetch_add(&(what), (n), __ATOMIC_RELAXED)

static inline int pair_state(const struct pair *pair)
{
	return __atomic_load_n(&pair->state, __ATOMIC_SEQ_CST);
}

static inline void pair_set_state(struct pair *pair, int state)
{
	__atomic_store_n(&pair->state, state, __ATOMIC_SEQ_CST);
}

static inline bool pair_change_state(struct pair *pair, int from, int to)
{
	return __atomic_compare_exchange_n(&pair->state, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static inline bool pair_enter(struct pair *pair)
{
	__atomic_fetch_add(&pair->users, 1, __ATOMIC_SEQ_CST);
	if (pair_state(pair) == PAIR_OPEN)
		return true;
	__atomic_fetch_sub(&pair->users, 1, __ATOMIC_SEQ_CST);
	return false;
}

static inline void pair_leave(struct pair *pair)
{
	__atomic_fetch_sub(&pair->users, 1, __ATOMIC_SEQ_CST);
}

static inline uint64_t pair_count(const uint64_t *value)
{
	return __atomic_load_n(value, __ATOMIC_ACQUIRE);
}

/* Reports what is wrong with the pair, and aborts. */
void pair_fail(const struct pair *pair, unsigned dir, const char *what, long a, long b);

/*
 * Send or receive the next datagram, or some bytes, in a direction, and count and check it.
 * Results as of send(2) and recv(2) of the library: 0 is the end of a stream.
 */
ssize_t stamp_send(struct worker *worker, struct pair *pair, unsigned dir);
ssize_t stamp_recv(struct worker *worker, struct pair *pair, unsigned dir, int flags);

/* For the thread that has the direction's tx: sends until the socket is full, at most some. */
void pair_send_some(struct worker *worker, struct pair *pair, unsigned dir);

void pair_close(struct worker *worker, struct pair *pair, bool in_order);

#endif
