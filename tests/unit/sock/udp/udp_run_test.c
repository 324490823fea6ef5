/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams of one sender that arrive in one burst: as if each had come alone. */
#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

#define BURST 12u

static struct tsock ts, peer;
static unsigned ours, theirs;

/* As world_start(), but the internal thread leaves rings to this one: what is sent stays in one burst. */
static int start(void **state)
{
	loop_net_enter();
	params.log_level = LOG_WARNING;
	params.progress_interval = 0;
	params.thread_mode = HOLD_YIELD;
	loop_net_start();
	return 0;
}

/* It is connected; its ring is its own, so that sends of the peer do not poll it. */
static int begin(void **state)
{
	static unsigned user = 70;

	ours = world_port();
	theirs = world_port();
	ts = tsock_udp();
	assert_int_equal(tsock_set_logic(&ts, RING_LOGIC_USER_ID, user++, true, true), 0);
	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), ours), 0);
	peer = world_udp(1, theirs);
	world_connect(&ts, 1, theirs);
	for (int i = 0; i < 3; i++) {
		world_send(&peer, 0, ours, "first");
		world_expect(&ts, "first");
	}
	return 0;
}

static int end(void **state)
{
	tsock_close(&ts);
	tsock_close(&peer);
	return 0;
}

static struct ring *hold(void)
{
	struct ring *ring;

	assert_true(sock_hold(ts.ref, &ring));
	return ring;
}

/* n datagrams with their numbers, while no thread polls the ring; then one poll takes them all. */
static void arrive(unsigned n)
{
	struct ring *ring;
	int got;

	assert_ptr_not_equal(tsock_home(&ts), tsock_home(&peer));
	for (char i = 0; i < (char)n; i++) {
		char text[] = {(char)('a' + i), 0};

		world_send(&peer, 0, ours, text);
	}
	ring = hold();
	got = ring_poll(ring);
	sock_release(ring);
	assert_int_equal(got, n);
}

static void expect(char from, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char text[] = {(char)(from + (char)i), 0};

		world_expect(&ts, text);
	}
}

static void expect_nothing(void)
{
	char byte;

	world_settle();
	assert_int_equal(tsock_recv(&ts, &byte, 1, 0), -EAGAIN);
	assert_int_equal(tsock_inet(&ts)->udp.bytes, 0);
	assert_int_equal(tsock_inet(&ts)->udp.count, 0);
}

static void test_a_burst_is_queued_in_order(void **state)
{
	arrive(BURST);
	assert_true(sock_events(ts.ref.sk) & EPOLLIN);
	expect('a', BURST);
	assert_false(sock_events(ts.ref.sk) & EPOLLIN);
	expect_nothing();
}

/* What does not fit is dropped and counted, one for one; what fits is there. */
static void test_a_burst_that_does_not_fit(void **state)
{
	struct udp_state *udp = &tsock_inet(&ts)->udp;
	uint64_t dropped, ring_dropped;
	uint32_t one;
	struct ring *ring;

	arrive(1);
	one = udp->bytes;
	expect('a', 1);
	ring = hold();
	udp->limit = 5 * one;
	dropped = udp->dropped;
	ring_dropped = ring->stats.drops[DROP_SOCK_FULL];
	sock_release(ring);
	arrive(BURST);
	ring = hold();
	assert_int_equal(udp->dropped, dropped + BURST - 5);
	assert_int_equal(ring->stats.drops[DROP_SOCK_FULL], ring_dropped + BURST - 5);
	sock_release(ring);
	expect('a', 5);
	expect_nothing();
	arrive(3);
	expect('a', 3);
	expect_nothing();
}

/* Free frames run low: each datagram becomes a copy. */
static void test_a_burst_is_copied_when_frames_run_low(void **state)
{
	struct ring *ring = hold();
	unsigned low_water = ring->low_water;
	uint64_t copied = ring->stats.copied;

	ring->low_water = UINT32_MAX;
	sock_release(ring);
	arrive(BURST);
	ring = hold();
	ring->low_water = low_water;
	assert_true(ring->stats.copied >= copied + BURST);
	sock_release(ring);
	expect('a', BURST);
	expect_nothing();
}

static void test_a_burst_for_a_socket_that_was_closed(void **state)
{
	for (char i = 0; i < (char)BURST; i++)
		world_send(&peer, 0, ours, "late");
	tsock_close(&ts);
	world_settle();
	ts = world_udp(0, ours);
	world_connect(&ts, 1, theirs);
	expect_nothing();
	world_send(&peer, 0, ours, "new");
	world_expect(&ts, "new");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static const struct CMUnitTest tests[] = {
	TEST(test_a_burst_is_queued_in_order),
	TEST(test_a_burst_that_does_not_fit),
	TEST(test_a_burst_is_copied_when_frames_run_low),
	TEST(test_a_burst_for_a_socket_that_was_closed),
};

VMA_TEST_MAIN("udp_run", tests, start, world_finish)
