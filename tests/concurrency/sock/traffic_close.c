/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pairs end: in order, with everything received, or in the middle of it.
 */
#include "traffic_internal.h"

static void close_end(struct pair *pair, unsigned i, bool reset)
{
	struct tsock ts = pair->end[i]; /* others still read theirs */

	if (ts.fd < 0)
		return;
	if (reset && pair->kind == PAIR_TCP)
		tsock_linger_none(&ts);
	tsock_close(&ts);
}

static void wait_for_users(struct pair *pair)
{
	nsec_t until = clock_now() + 10 * NSEC_PER_SEC * NET_SLOW;

	while (__atomic_load_n(&pair->users, __ATOMIC_SEQ_CST)) {
		if (clock_now() > until)
			pair_fail(pair, 0, "somebody does not come back", pair->users, 0);
		sched_yield();
	}
}

/* In the middle of everything.  The one that goes last leaves no TIME_WAIT behind. */
static void close_abruptly(struct hand *hand, struct pair *pair)
{
	unsigned first = hand_random(hand, 2);

	if (pair->end[1].fd < 0)
		first = 1;
	close_end(pair, first, hand_random(hand, 2));
	close_end(pair, 1 - first, true);
	wait_for_users(pair);
}

/* Until everything that was sent is there. */
static void drain(struct hand *hand, struct pair *pair)
{
	nsec_t until = clock_now() + hand->traffic->patience;

	for (unsigned d = 0; d < 2; d++) {
		while (pair_count(&pair->dir[d].got) < pair_count(&pair->dir[d].sent)) {
			ssize_t n = stamp_recv(hand, pair, d, MSG_DONTWAIT);

			if (n > 0)
				continue;
			if (n != -EAGAIN)
				pair_fail(pair, d, "cannot receive the rest", n, 0);
			if (clock_now() > until)
				pair_fail(pair, d, "something is lost", 0, 0);
			sock_poll_ring(tsock_home(&pair->end[d]));
			sched_yield();
		}
		if (pair_count(&pair->dir[d].got) > pair_count(&pair->dir[d].sent))
			pair_fail(pair, d, "more than was sent", 0, 0);
	}
}

/* The stream ends, and where it should. */
static void expect_end(struct hand *hand, struct pair *pair, unsigned d)
{
	nsec_t until = clock_now() + hand->traffic->patience;

	for (;;) {
		ssize_t n = stamp_recv(hand, pair, d, MSG_DONTWAIT);

		if (n == 0)
			break;
		if (n < 0 && n != -EAGAIN)
			pair_fail(pair, d, "instead of the end", n, 0);
		if (clock_now() > until)
			pair_fail(pair, d, "the end does not come", 0, 0);
	}
	if (pair_count(&pair->dir[d].got) != pair_count(&pair->dir[d].sent))
		pair_fail(pair, d, "the end comes too soon", 0, 0);
}

static void close_in_order(struct hand *hand, struct pair *pair)
{
	unsigned first = hand_random(hand, 2);

	wait_for_users(pair);
	if (pair->kind != PAIR_TCP) {
		drain(hand, pair);
	} else if (hand_random(hand, 2)) {
		/* Nobody calls on its behalf while it sends the rest. */
		while (pair_count(&pair->dir[1 - first].got) <
		       pair_count(&pair->dir[1 - first].sent))
			drain(hand, pair);
		pair_send_some(hand, pair, first);
		close_end(pair, first, false);
		expect_end(hand, pair, first);
		first = 1 - first;
		close_end(pair, first, true);
		return;
	} else {
		for (unsigned d = 0; d < 2; d++)
			NET_CHECK_EQ(tsock_shutdown(&pair->end[d], SHUT_WR), 0);
		for (unsigned d = 0; d < 2; d++)
			expect_end(hand, pair, d);
	}
	close_end(pair, first, true);
	close_end(pair, 1 - first, true);
}

void pair_close(struct hand *hand, struct pair *pair, bool in_order)
{
	if (pair_change_state(pair, PAIR_OPEN, PAIR_CLOSING)) {
		if (in_order)
			close_in_order(hand, pair);
		else
			close_abruptly(hand, pair);
	} else if (!in_order && pair_change_state(pair, PAIR_OPENING, PAIR_CLOSING)) {
		close_abruptly(hand, pair);
	} else {
		return;
	}
	ADD(hand->traffic->stats.closed, 1);
	pair_set_state(pair, PAIR_FREE);
}
