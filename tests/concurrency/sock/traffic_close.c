/* SPDX-License-Identifier: BSD-2-Clause */
/* Pairs end: in order, with everything received, or at any moment. */
#include "traffic_internal.h"

static void close_end(struct pair *pair, unsigned i, bool reset)
{
	struct tsock ts = pair->end[i]; /* other threads still read theirs */

	if (ts.fd < 0)
		return;
	if (reset && pair->kind == PAIR_TCP)
		tsock_linger_none(&ts);
	tsock_close(&ts);
}

static void wait_for_users(struct pair *pair)
{
	nsec_t until = clock_now() + NET_PATIENCE * NSEC_PER_MSEC * NET_SLOW;

	while (__atomic_load_n(&pair->users, __ATOMIC_SEQ_CST)) {
		if (clock_now() > until)
			pair_fail(pair, 0, "somebody does not come back", pair->users, 0);
		sched_yield();
	}
}

/* Closes at any moment. The end that closes last leaves no TIME_WAIT. */
static void close_abruptly(struct worker *worker, struct pair *pair)
{
	unsigned first = worker_random(worker, 2);

	if (pair->end[1].fd < 0)
		first = 1;
	close_end(pair, first, worker_random(worker, 2));
	close_end(pair, 1 - first, true);
	wait_for_users(pair);
}

/* Receives until everything that was sent has arrived. */
static void drain(struct worker *worker, struct pair *pair)
{
	nsec_t until = clock_now() + worker->traffic->patience;

	for (unsigned d = 0; d < 2; d++) {
		while (pair_count(&pair->dir[d].got) < pair_count(&pair->dir[d].sent)) {
			ssize_t n = stamp_recv(worker, pair, d, MSG_DONTWAIT);

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

/* The stream ends, after the right byte. */
static void expect_end(struct worker *worker, struct pair *pair, unsigned d)
{
	nsec_t until = clock_now() + worker->traffic->patience;

	for (;;) {
		ssize_t n = stamp_recv(worker, pair, d, MSG_DONTWAIT);

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

static void close_in_order(struct worker *worker, struct pair *pair)
{
	unsigned first = worker_random(worker, 2);

	wait_for_users(pair);
	if (pair->kind != PAIR_TCP) {
		drain(worker, pair);
	} else if (worker_random(worker, 2)) {
		/* No call of the program helps it to send the rest. */
		while (pair_count(&pair->dir[1 - first].got) <
		       pair_count(&pair->dir[1 - first].sent))
			drain(worker, pair);
		pair_send_some(worker, pair, first);
		close_end(pair, first, false);
		expect_end(worker, pair, first);
		first = 1 - first;
		close_end(pair, first, true);
		return;
	} else {
		for (unsigned d = 0; d < 2; d++)
			NET_CHECK_EQ(tsock_shutdown(&pair->end[d], SHUT_WR), 0);
		for (unsigned d = 0; d < 2; d++)
			expect_end(worker, pair, d);
	}
	close_end(pair, first, true);
	close_end(pair, 1 - first, true);
}

void pair_close(struct worker *worker, struct pair *pair, bool in_order)
{
	if (pair_change_state(pair, PAIR_OPEN, PAIR_CLOSING)) {
		if (in_order)
			close_in_order(worker, pair);
		else
			close_abruptly(worker, pair);
	} else if (!in_order && pair_change_state(pair, PAIR_OPENING, PAIR_CLOSING)) {
		close_abruptly(worker, pair);
	} else {
		return;
	}
	ADD(worker->traffic->stats.closed, 1);
	pair_set_state(pair, PAIR_FREE);
}
