/* SPDX-License-Identifier: BSD-2-Clause */
/* The quick calls that send datagrams: what they do at once, and what they leave to the others. */
#include <netinet/udp.h>

#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

static struct tsock ts, peer;
static struct sockaddr_in there;
static struct inet_sock *so;
static unsigned left; /* calls that were left to the others */

static ssize_t other_send(int fd, const void *buf, size_t len, int flags)
{
	assert_int_equal(fd, ts.fd);
	assert_null(hold_current);
	left++;
	return -1;
}

static ssize_t other_sendto(int fd, const void *buf, size_t len, int flags,
			    const struct sockaddr *to, socklen_t to_len)
{
	return other_send(fd, buf, len, flags);
}

static ssize_t quick_send(const void *buf, size_t len)
{
	return sock_ops_of(ts.ref.sk)->quick_send(ts.fd, buf, len, 0, ts.ref);
}

static ssize_t quick_sendto(const void *buf, size_t len, const struct sockaddr_in *to,
			    socklen_t to_len)
{
	return sock_ops_of(ts.ref.sk)->quick_sendto(ts.fd, buf, len, 0, (const struct sockaddr *)to,
						    to_len, ts.ref);
}

#define IS_LEFT(call)                                \
	do {                                         \
		unsigned before_ = left;             \
                                                     \
		assert_int_equal(call, -1);          \
		assert_int_equal(left, before_ + 1); \
	} while (0)

/* Connected; a first datagram has found the destination. */
static int begin(void **state)
{
	there = world_udp_pair(&ts, &peer);
	so = tsock_inet(&ts);
	sock_hooks.send = other_send;
	sock_hooks.sendto = other_sendto;
	left = 0;
	return 0;
}

static int end(void **state)
{
	sock_hooks.send = NULL;
	sock_hooks.sendto = NULL;
	tsock_close(&ts);
	tsock_close(&peer);
	return 0;
}

static void disconnect(void)
{
	struct sockaddr_in none = {.sin_family = AF_UNSPEC};

	assert_int_equal(tsock_connect(&ts, &none), 0);
}

/* holder: the state that a test changes. */
static struct dst *hold(struct ring **ring)
{
	assert_int_equal(sock_hold_cold(ts.ref, ring), 0);
	return &so->udp.dst;
}

static void test_a_known_destination_is_sent_to_at_once(void **state)
{
	assert_int_equal(quick_send("abc", 3), 3);
	world_expect(&peer, "abc");
	assert_int_equal(quick_sendto("to", 2, &there, sizeof(there)), 2);
	world_expect(&peer, "to");
	disconnect();
	IS_LEFT(quick_send("none", 4));
	IS_LEFT(quick_sendto("not yet", 7, &there, sizeof(there)));
	assert_int_equal(tsock_sendto(&ts, "found", 5, &there), 5);
	world_expect(&peer, "found");
	assert_int_equal(quick_sendto("known", 5, &there, sizeof(there)), 5);
	world_expect(&peer, "known");
	assert_int_equal(left, 2);
}

static void test_it_is_counted(void **state)
{
	/* Not on the stack, which the address sanitizer does not align as its type demands. */
	static struct stats_sock stats;
	struct stats_sock *before;
	struct ring *ring;

	hold(&ring);
	before = so->udp.stats;
	so->udp.stats = &stats;
	ring_release_cold(ring);
	assert_int_equal(quick_send("abc", 3), 3);
	assert_int_equal(quick_send("", 0), 0);
	hold(&ring);
	so->udp.stats = before;
	ring_release_cold(ring);
	assert_int_equal(stats.tx_packets, 2);
	assert_int_equal(stats.tx_bytes, 3);
	world_expect(&peer, "abc");
	world_expect(&peer, "");
}

static void test_addresses_that_are_left(void **state)
{
	struct sockaddr_in to = there;

	IS_LEFT(quick_sendto("a", 1, &to, sizeof(to) - 1));
	IS_LEFT(quick_sendto("a", 1, &to, sizeof(to) + 1));
	to.sin_family = AF_UNSPEC;
	IS_LEFT(quick_sendto("a", 1, &to, sizeof(to)));
	to = there;
	to.sin_port ^= 1;
	IS_LEFT(quick_sendto("a", 1, &to, sizeof(to)));
}

static void test_what_does_not_fit_is_left(void **state)
{
	static const char big[65536];
	struct ring *ring;
	size_t most = hold(&ring)->payload_max;

	ring_release_cold(ring);
	assert_int_equal(quick_send(big, most), most);
	IS_LEFT(quick_send(big, most + 1));
	IS_LEFT(quick_send(big, sizeof(big)));
}

static void test_memory_that_cannot_be_read_is_left(void **state)
{
	test_guard();
	IS_LEFT(quick_send(WORLD_BAD, 100));
	IS_LEFT(quick_send((void *)(uintptr_t)(1ull << 63), 100));
	assert_int_equal(quick_send("good", 4), 4); /* the frame is free again */
	world_expect(&peer, "good");
}

static void test_conditions_of_the_socket_that_are_left(void **state)
{
	__atomic_fetch_or(&ts.ref.sk->twin_events, EPOLLERR, __ATOMIC_RELAXED);
	IS_LEFT(quick_send("a", 1));
	__atomic_store_n(&ts.ref.sk->twin_events, 0, __ATOMIC_RELAXED);
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_CORK, 1), 0);
	IS_LEFT(quick_send("a", 1));
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_CORK, 0), 0);
	so->shut_wr = true;
	IS_LEFT(quick_send("a", 1));
	so->shut_wr = false;
	assert_int_equal(tsock_send(&ts, "on", 2, 0), 2);
	world_expect(&peer, "on");
	assert_int_equal(quick_send("again", 5), 5);
	world_expect(&peer, "again");
}

/* What is asked in dst_is_ready(), one by one. */
static void test_destinations_that_are_left(void **state)
{
	struct ring *ring;
	struct dst *dst = hold(&ring);
	struct adj *adj = dst->adj;
	uint32_t generation = dst->generation;

	dst->generation = generation + 1;
	ring_release_cold(ring);
	IS_LEFT(quick_send("a", 1));
	hold(&ring);
	dst->generation = generation;
	adj->state = NEIGH_UNKNOWN;
	ring_release_cold(ring);
	IS_LEFT(quick_send("a", 1));
	hold(&ring);
	adj->state = NEIGH_REACHABLE;
	dst->adj = NULL;
	ring_release_cold(ring);
	IS_LEFT(quick_send("a", 1));
	hold(&ring);
	dst->adj = adj;
	dst->ring = rings_nowhere();
	ring_release_cold(ring);
	IS_LEFT(quick_send("a", 1));
	hold(&ring);
	dst->ring = ring;
	dst->by_host = true;
	dst->host_epoch = __atomic_load_n(&dst_host_epoch, __ATOMIC_RELAXED) - 1;
	ring_release_cold(ring);
	IS_LEFT(quick_send("a", 1));
	hold(&ring);
	dst->host_epoch++;
	ring_release_cold(ring);
	assert_int_equal(quick_send("good", 4), 4);
	world_expect(&peer, "good");
}

static void test_a_socket_that_has_ended_is_left(void **state)
{
	struct sock_ref ref = ts.ref;

	ts.ref.gen -= 2;
	IS_LEFT(quick_send("a", 1));
	ts.ref = ref;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_a_known_destination_is_sent_to_at_once, begin, end),
	cmocka_unit_test_setup_teardown(test_it_is_counted, begin, end),
	cmocka_unit_test_setup_teardown(test_addresses_that_are_left, begin, end),
	cmocka_unit_test_setup_teardown(test_what_does_not_fit_is_left, begin, end),
	cmocka_unit_test_setup_teardown(test_memory_that_cannot_be_read_is_left, begin, end),
	cmocka_unit_test_setup_teardown(test_conditions_of_the_socket_that_are_left, begin, end),
	cmocka_unit_test_setup_teardown(test_destinations_that_are_left, begin, end),
	cmocka_unit_test_setup_teardown(test_a_socket_that_has_ended_is_left, begin, end),
};

VMA_TEST_MAIN("udp_quick", tests, world_start, world_finish)
