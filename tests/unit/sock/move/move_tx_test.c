/* SPDX-License-Identifier: BSD-2-Clause */
/* A socket sends by another ring, and receives where it did. */
#include <pthread.h>

#include "sock/move/move_internal.h"
#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

static struct tsock ts, peer;
static unsigned port;
static unsigned user = 1;

static struct sock_move_stats moves(void)
{
	return (struct sock_move_stats){
		__atomic_load_n(&sock_moves_tx.started, __ATOMIC_ACQUIRE),
		__atomic_load_n(&sock_moves_tx.finished, __ATOMIC_ACQUIRE),
		__atomic_load_n(&sock_moves_tx.abandoned, __ATOMIC_ACQUIRE),
	};
}

static struct sock_move_stats before;

static int connected(void **state)
{
	port = world_port();
	ts = world_udp(0, world_port());
	peer = world_udp(1, port);
	world_connect(&ts, 1, port);
	assert_int_equal(tsock_send(&ts, "first", 5, 0), 5);
	world_expect(&peer, "first");
	before = moves();
	return 0;
}

static int end(void **state)
{
	loop_port_fail_opens(0);
	tsock_close(&ts);
	tsock_close(&peer);
	return 0;
}

/* The ring that it sends by, or NULL. */
static struct ring *sends_by(void)
{
	struct ring *rings[MOVE_TX_RINGS_MAX] = {NULL}, *home;

	assert_true(sock_hold(ts.ref, &home));
	move_tx_rings(tsock_inet(&ts), rings);
	sock_release(home);
	return rings[0];
}

static void ask(unsigned number)
{
	assert_int_equal(tsock_set_logic(&ts, RING_LOGIC_USER_ID, number, false, true), 0);
}

static bool finished(unsigned n)
{
	return moves().finished - before.finished == n;
}

static void test_a_socket_sends_by_the_ring_that_it_was_told(void **state)
{
	struct ring *home = tsock_home(&ts), *old = sends_by();
	unsigned refs = old->refs;

	ask(++user);
	assert_true(NET_WAIT(finished(1), WORLD_WAIT));
	assert_int_equal(tsock_send(&ts, "second", 6, 0), 6);
	world_expect(&peer, "second");
	assert_ptr_not_equal(sends_by(), old);
	assert_ptr_equal(tsock_home(&ts), home);
	assert_int_equal(old->refs, refs - 1); /* it has no reference to the old one any more */
	assert_int_equal(moves().abandoned, before.abandoned);
}

/* What was posted to the old ring leaves before anything by the new one. */
static void test_the_order_of_datagrams_is_kept(void **state)
{
	char text[16];

	for (unsigned i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "%03u", i);
		if (i % 10 == 5)
			ask(100 + i / 10 % 4);
		assert_int_equal(tsock_send(&ts, text, 3, 0), 3);
	}
	for (unsigned i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "%03u", i);
		world_expect(&peer, text);
	}
	loop_net_settle();
	assert_true(moves().finished > before.finished);
}

struct posted {
	struct inbox_item item;
	struct ring *ring;
	unsigned held, ran, drained; /* any, atomic */
};

static void run_posted(struct ring *ring, struct inbox_item *item)
{
	__atomic_store_n(&((struct posted *)(void *)item)->ran, 1, __ATOMIC_RELEASE);
}

static bool is_set(const unsigned *what)
{
	return __atomic_load_n(what, __ATOMIC_ACQUIRE);
}

/* Another sender: holds the ring, where an item waits, for 50 ms or until the test is done. */
static void *hold_for_a_while(void *arg)
{
	struct posted *p = arg;
	nsec_t until;

	if (!ring_hold_cold(p->ring))
		return arg;
	ring_post(p->ring, &p->item);
	__atomic_store_n(&p->held, 1, __ATOMIC_RELEASE);
	until = clock_now() + 50 * NSEC_PER_MSEC;
	while (!is_set(&p->drained) && clock_now() < until)
		usleep(1000);
	ring_release_cold(p->ring);
	return NULL;
}

/* move_drain_tx() returns after what was posted to the ring, even while another thread holds it. */
static void test_what_was_posted_has_left_when_the_ring_is_drained(void **state)
{
	struct posted p = {.item.run = run_posted, .ring = sends_by()};
	struct ring *rings[] = {p.ring};
	pthread_t thread;
	void *failed;

	assert_int_equal(pthread_create(&thread, NULL, hold_for_a_while, &p), 0);
	assert_true(NET_WAIT(is_set(&p.held), WORLD_WAIT));
	ring_get(p.ring); /* move_drain_tx() puts it */
	WORLD_LOCKED(move_drain_tx(rings, 1));
	assert_true(is_set(&p.ran));
	__atomic_store_n(&p.drained, 1, __ATOMIC_RELEASE);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
}

static void test_without_a_ring_of_its_own_it_shares_one(void **state)
{
	int queues = loop_port_queues();

	loop_port_fail_opens(1);
	ask(++user);
	loop_net_settle();
	assert_int_equal(loop_port_queues(), queues);
	assert_int_equal(tsock_send(&ts, "second", 6, 0), 6);
	world_expect(&peer, "second");
}

/* The same ring: nothing is started. */
static void test_the_same_ring_is_no_move(void **state)
{
	ask(++user);
	assert_true(NET_WAIT(finished(1), WORLD_WAIT));
	ask(user);
	loop_net_settle();
	assert_true(finished(1));
}

static void test_a_socket_that_is_closed_meanwhile(void **state)
{
	ask(++user);
	tsock_close(&ts);
	loop_net_settle();
	assert_int_equal(moves().started, moves().finished + moves().abandoned);
}

/* A connection finds its route anew, from the new ring. */
static void test_a_connection_goes_on_by_the_new_ring(void **state)
{
	unsigned at = world_port();
	struct tsock listener = world_listener(0, at, 1), client, child;

	world_pair(&listener, at, &client, &child);
	before = moves();
	assert_int_equal(tsock_set_logic(&client, RING_LOGIC_USER_ID, ++user, false, true), 0);
	assert_true(NET_WAIT(finished(1), WORLD_WAIT));
	assert_int_equal(tsock_send(&client, "by another", 10, 0), 10);
	world_expect(&child, "by another");
	assert_int_equal(tsock_send(&child, "and back", 8, 0), 8);
	world_expect(&client, "and back");
	tsock_close(&client);
	tsock_close(&child);
	tsock_close(&listener);
}

static void test_a_listener_sends_where_it_listens(void **state)
{
	unsigned at = world_port();
	struct tsock listener = world_listener(0, at, 1), client, child;

	before = moves();
	assert_int_equal(tsock_set_logic(&listener, RING_LOGIC_USER_ID, ++user, false, true), 0);
	loop_net_settle();
	assert_true(finished(0));
	world_pair(&listener, at, &client, &child);
	tsock_close(&client);
	tsock_close(&child);
	tsock_close(&listener);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, connected, end)

static const struct CMUnitTest tests[] = {
	CASE(test_a_socket_sends_by_the_ring_that_it_was_told),
	CASE(test_the_order_of_datagrams_is_kept),
	CASE(test_what_was_posted_has_left_when_the_ring_is_drained),
	CASE(test_without_a_ring_of_its_own_it_shares_one),
	CASE(test_the_same_ring_is_no_move),
	CASE(test_a_socket_that_is_closed_meanwhile),
	CASE(test_a_connection_goes_on_by_the_new_ring),
	CASE(test_a_listener_sends_where_it_listens),
};

VMA_TEST_MAIN("sock/move/move_tx", tests, world_start, world_finish)
