/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include <pthread.h>
#include <sched.h>

#define PORT 7100
#define CALLS 100
#define CALLS_MAX 1000
#define NEXT 8

static unsigned polls_of(const struct tsock *ts)
{
	return __atomic_load_n(&tsock_home(ts)->polls, __ATOMIC_RELAXED);
}

/* The internal thread may poll the ring, too, but not during each of the calls. */
static void shut_down(void *arg)
{
	struct tsock listener;
	unsigned least = ~0u;
	struct duo duo;

	(void)arg;
	duo_begin();
	listener = duo_listener(PORT);
	duo_open(&duo, DUO_TCP, &listener);
	for (unsigned i = 0; i < CALLS; i++) {
		unsigned before = polls_of(&duo.end[0]), n;

		NET_CHECK_EQ(tsock_shutdown(&duo.end[0], SHUT_RD), 0);
		n = polls_of(&duo.end[0]) - before;
		least = n < least ? n : least;
	}
	NET_CHECK_EQ(least, 1);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_shutdown_polls_its_ring_once(void **state)
{
	(void)state;
	assert_int_equal(loop_net_run("shutdown", shut_down, NULL, 30), 0);
}

/* ---- a socket that another thread closes ------------------------------------------------------ */

/*
 * `called` orders nothing: what a call reads after it has let go of its locks is not before what the
 * other thread does then.
 */
static struct {
	struct tsock ts;
	unsigned made, called, over; /* atomic */
	struct sockaddr_in to;
	bool ended; /* as of the turn that is over */
	void (*call)(void);
} turn;

static void call_connect(void)
{
	tsock_connect(&turn.ts, &turn.to);
}

static void call_shutdown(void)
{
	tsock_shutdown(&turn.ts, SHUT_RDWR);
}

static void await_turn(const unsigned *n, unsigned least, int order)
{
	while (__atomic_load_n(n, order) < least)
		sched_yield();
}

static void *calls(void *arg)
{
	(void)arg;
	for (unsigned i = 1; !turn.ended; i++) {
		turn.ts = tsock_tcp();
		__atomic_store_n(&turn.made, i, __ATOMIC_RELEASE); /* pairs with await_turn() */
		turn.call();
		__atomic_store_n(&turn.called, i, __ATOMIC_RELAXED);
		await_turn(&turn.over, i, __ATOMIC_ACQUIRE);
	}
	return NULL;
}

/* One of the next sockets often has its memory; the calls go on until one has. */
static void close_others(void *arg)
{
	struct tsock listener, next[NEXT];
	unsigned reused = 0;
	pthread_t thread;

	(void)arg;
	duo_begin();
	listener = duo_listener(PORT);
	turn.to = tsock_name(&listener);
	NET_CHECK_EQ(pthread_create(&thread, NULL, calls, NULL), 0);
	for (unsigned i = 1; !turn.ended; i++) {
		const struct sock *sk;

		await_turn(&turn.made, i, __ATOMIC_ACQUIRE);
		await_turn(&turn.called, i, __ATOMIC_RELAXED);
		sk = turn.ts.ref.sk;
		tsock_close(&turn.ts);
		for (unsigned n = 0; n < NEXT; n++) {
			next[n] = tsock_tcp();
			reused += next[n].ref.sk == sk;
		}
		for (unsigned n = 0; n < NEXT; n++)
			tsock_close(&next[n]);
		turn.ended = i >= CALLS && (reused || i == CALLS_MAX);
		__atomic_store_n(&turn.over, i, __ATOMIC_RELEASE); /* pairs with await_turn() */
	}
	pthread_join(thread, NULL);
	NET_CHECK(reused > 0);
	duo_end(&listener);
}

static void test_calls_do_not_look_at_what_was_closed_meanwhile(void **state)
{
	static void (*const all[])(void) = {call_connect, call_shutdown};

	(void)state;
	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		turn.call = all[i];
		assert_int_equal(loop_net_run("close", close_others, NULL, 60), 0);
	}
}

static int enter(void **state)
{
	(void)state;
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_shutdown_polls_its_ring_once),
	cmocka_unit_test(test_calls_do_not_look_at_what_was_closed_meanwhile),
};

VMA_TEST_MAIN("tcp_calls", tests, enter, NULL)
