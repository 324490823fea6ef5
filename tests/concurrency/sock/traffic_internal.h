/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of traffic share. */
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

/* Says what is wrong with the pair, and aborts. */
void pair_fail(const struct pair *pair, unsigned dir, const char *what, long a, long b);

/*
 * The next datagram, or some bytes, in a direction; what was sent or received is
 * counted, what was received is checked.  As send(2) and recv(2) of the library: 0 is
 * the end of a stream.
 */
ssize_t stamp_send(struct hand *hand, struct pair *pair, unsigned dir);
ssize_t stamp_recv(struct hand *hand, struct pair *pair, unsigned dir, int flags);

/* Who has a direction's tx: until it takes no more, at most some. */
void pair_send_some(struct hand *hand, struct pair *pair, unsigned dir);

void pair_close(struct hand *hand, struct pair *pair, bool in_order);

#endif
