/* SPDX-License-Identifier: BSD-2-Clause */
/* The home of a socket, the rings that have frames for it, and the list of all sockets. */
#include <pthread.h>

#include "ring/logic.h"
#include "sock/core/inet_sock.h"
#include "sock/core/kind.h"
#include "tests/unit/sock/world.h"

static struct tsock ts;
static unsigned port;

static int bound(void **state)
{
	port = world_port();
	ts = world_udp(0, port);
	return 0;
}

static int end(void **state)
{
	tsock_close(&ts);
	return 0;
}

/* ---- holding ------------------------------------------------------------------------- */

static void test_a_reference_outlives_its_socket(void **state)
{
	struct sock_ref old = ts.ref;
	struct ring *ring = NULL;

	assert_int_equal(sock_hold_cold(old, &ring), 0);
	assert_ptr_equal(ring, tsock_home(&ts));
	sock_release(ring);
	tsock_close(&ts);
	assert_int_equal(sock_hold_cold(old, &ring), -EBADF);
	assert_false(sock_hold(old, &ring));
	ts = world_udp(0, port); /* most likely in the same memory */
	assert_int_equal(sock_hold_cold(old, &ring), -EBADF);
	assert_int_equal(sock_hold_cold(ts.ref, &ring), 0);
	sock_release(ring);
}

static void test_a_socket_that_the_kernel_serves_is_not_held(void **state)
{
	struct ring *ring;

	assert_int_equal(sock_to_kernel(ts.ref, VERDICT_FORKED), 0);
	assert_int_equal(sock_hold_cold(ts.ref, &ring), SOCK_KERNEL);
	assert_false(sock_hold(ts.ref, &ring));
	close(ts.fd);
	ts = TSOCK_NONE;
}

/* A signal handler that interrupted the holder. */
static void test_a_thread_holds_one_ring_at_a_time(void **state)
{
	struct ring *ring, *second;

	assert_int_equal(sock_hold_cold(ts.ref, &ring), 0);
	assert_int_equal(sock_hold_cold(ts.ref, &second), -EAGAIN);
	assert_int_equal(tsock_send(&ts, "x", 1, 0), -EAGAIN);
	sock_release(ring);
	assert_int_equal(sock_hold_cold(ts.ref, &ring), 0);
	sock_release(ring);
}

static void set_home(struct ring *to)
{
	struct ring *ring;

	assert_true(control_lock());
	assert_int_equal(sock_hold_cold(ts.ref, &ring), 0);
	sock_set_home(tsock_inet(&ts), to);
	ring_release_cold(ring);
	control_unlock();
}

static void test_a_home_is_referred_to(void **state)
{
	struct ring *home = tsock_home(&ts);
	unsigned refs = home->refs;

	set_home(rings_nowhere());
	assert_int_equal(home->refs, refs - 1);
	assert_ptr_equal(tsock_home(&ts), rings_nowhere());
	set_home(home);
	assert_int_equal(home->refs, refs);
}

/* Whoever holds the home that it found, holds it still when it looks again. */
#define HOPS 20000

static void *hop(void *arg)
{
	struct ring *home = arg;

	for (unsigned i = 0; i < HOPS; i++)
		set_home(i % 2 ? home : rings_nowhere());
	return NULL;
}

static void test_the_home_does_not_change_while_it_is_held(void **state)
{
	struct ring *home = tsock_home(&ts), *ring;
	unsigned seen[2] = {0, 0};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, hop, home), 0);
	for (unsigned i = 0; i < HOPS || !seen[0] || !seen[1]; i++) {
		assert_int_equal(sock_hold_cold(ts.ref, &ring), 0);
		assert_ptr_equal(ring, tsock_home(&ts));
		seen[ring == home]++;
		sock_release(ring);
		if (i > 100 * HOPS)
			break; /* the other thread has ended on one of them */
	}
	pthread_join(thread, NULL);
	assert_ptr_equal(tsock_home(&ts), home);
}

/* ---- a socket that another process has ------------------------------------------------- */

static unsigned fetches, arrives_at; /* the fetch that brings it for good; 0: none */
static nsec_t patience_of_fetch;

int __wrap_share_fetch(struct sock_ref ref, nsec_t patience);

int __wrap_share_fetch(struct sock_ref ref, nsec_t patience)
{
	patience_of_fetch = patience;
	if (++fetches == arrives_at)
		__atomic_fetch_and(&ref.sk->events, ~(uint32_t)SOCK_EXPORTED, __ATOMIC_RELAXED);
	return arrives_at ? 0 : -EINTR;
}

static void test_a_socket_that_another_process_takes_in_between_is_fetched_again(void **state)
{
	struct ring *ring = NULL;

	for (arrives_at = 0; arrives_at < 4; arrives_at++) {
		__atomic_fetch_or(&ts.ref.sk->events, (uint32_t)SOCK_EXPORTED, __ATOMIC_RELAXED);
		sock_set_nonblock(ts.ref, arrives_at & 1);
		fetches = 0;
		assert_int_equal(sock_hold_here(ts.ref, &ring), arrives_at ? 0 : -EINTR);
		assert_int_equal(fetches, arrives_at ? arrives_at : 1);
		assert_int_equal(patience_of_fetch, arrives_at & 1 ? SHARE_FETCH_MAX : 0);
		if (arrives_at)
			sock_release(ring);
	}
	assert_int_equal(sock_hold_here(ts.ref, &ring), 0);
	assert_int_equal(fetches, 3); /* it is here */
	sock_release(ring);
}

/* ---- rings ------------------------------------------------------------------------------ */

static void test_rings_are_those_with_flows_and_the_home_once(void **state)
{
	struct ring *rings[SOCK_RINGS_MAX];

	assert_int_equal(sock_rings(ts.ref.sk, rings, SOCK_RINGS_MAX), 1);
	assert_ptr_equal(rings[0], tsock_home(&ts));
	assert_int_equal(sock_rings(ts.ref.sk, rings, 0), 0);
	tsock_close(&ts);
	ts = tsock_udp();
	assert_int_equal(sock_rings(ts.ref.sk, rings, SOCK_RINGS_MAX), 0); /* nowhere */
}

/* More rings than an object lists: all rings of the process, and no more than there is room for. */
static void test_a_socket_with_many_rings_has_all(void **state)
{
	struct inet_sock *so = tsock_inet(&ts);
	struct ring *rings[3] = {NULL, NULL, NULL};
	uint8_t before = so->n_rings;
	struct tsock others[2];

	for (unsigned i = 0; i < 2; i++) {
		others[i] = tsock_udp();
		assert_int_equal(
			tsock_set_logic(&others[i], RING_LOGIC_USER_ID, 100 + i, true, true), 0);
		assert_int_equal(tsock_bind(&others[i], fake_link_addr(1), world_port()), 0);
	}
	assert_true(rings_count() >= 3);
	so->n_rings = INET_RINGS + 1;
	assert_int_equal(sock_rings(ts.ref.sk, rings, 2), 2);
	assert_null(rings[2]);
	assert_int_equal(sock_rings(ts.ref.sk, rings, 3), 3);
	assert_ptr_not_equal(rings[0], rings[1]);
	assert_ptr_not_equal(rings[1], rings[2]);
	so->n_rings = before;
	for (unsigned i = 0; i < 2; i++)
		tsock_close(&others[i]);
}

/* ---- the twin --------------------------------------------------------------------------- */

static void test_the_twin_of_a_connection_does_not_matter(void **state)
{
	struct tsock tcp = tsock_tcp();

	assert_true(sock_twin_matters(ts.ref.sk));
	assert_false(sock_twin_matters(tcp.ref.sk));
	assert_int_equal(tsock_bind(&tcp, fake_link_addr(0), world_port()), 0);
	assert_int_equal(tsock_listen(&tcp, 1), 0);
	assert_true(sock_twin_matters(tcp.ref.sk));
	tsock_close(&tcp);
}

static void test_a_look_at_the_twin_says_what_it_has_now(void **state)
{
	struct sockaddr_in to = world_addr(0, port);
	int fd = world_kernel_udp(1, world_port());
	char c;

	sock_look_at_twin(ts.ref.sk);
	assert_int_equal(ts.ref.sk->twin_events, 0);
	assert_int_equal(sendto(fd, "k", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
	sock_look_at_twin(ts.ref.sk);
	assert_true(ts.ref.sk->twin_events & EPOLLIN);
	assert_int_equal(recv(ts.fd, &c, 1, MSG_DONTWAIT), 1);
	sock_look_at_twin(ts.ref.sk);
	assert_int_equal(ts.ref.sk->twin_events, 0);
	close(fd);
}

/* ---- all sockets ------------------------------------------------------------------------ */

static void test_numbers_are_never_given_twice(void **state)
{
	uint64_t first = sock_new_id();

	assert_int_equal(sock_new_id(), first + 1);
	assert_int_equal(sock_last_id(), first + 1);
	sock_skip_ids(first + 100);
	assert_int_equal(sock_new_id(), first + 101);
}

static void count(struct inet_sock *so, void *arg)
{
	++*(unsigned *)arg;
}

static unsigned count_all(void)
{
	unsigned n = 0;

	WORLD_LOCKED(sock_each(count, &n));
	return n;
}

static void test_a_socket_is_listed_until_it_is_closed(void **state)
{
	unsigned before = count_all();
	struct tsock other = tsock_tcp();

	assert_int_equal(count_all(), before + 1);
	tsock_close(&other);
	assert_int_equal(count_all(), before);
}

static void close_one(struct inet_sock *so, void *arg)
{
	++*(unsigned *)arg;
	sock_close_locked(sock_ref_of(so));
}

static void test_a_walk_goes_on_when_the_visited_socket_is_closed(void **state)
{
	struct tsock other = tsock_udp();
	unsigned n = 0, before = count_all();

	assert_true(before >= 2);
	WORLD_LOCKED(sock_each(close_one, &n));
	assert_int_equal(n, before);
	assert_int_equal(count_all(), 0);
	close(other.fd);
	close(ts.fd);
	ts = TSOCK_NONE;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, bound, end)

static const struct CMUnitTest tests[] = {
	CASE(test_a_reference_outlives_its_socket),
	CASE(test_a_socket_that_the_kernel_serves_is_not_held),
	CASE(test_a_thread_holds_one_ring_at_a_time),
	CASE(test_a_home_is_referred_to),
	CASE(test_the_home_does_not_change_while_it_is_held),
	CASE(test_a_socket_that_another_process_takes_in_between_is_fetched_again),
	CASE(test_rings_are_those_with_flows_and_the_home_once),
	CASE(test_a_socket_with_many_rings_has_all),
	CASE(test_the_twin_of_a_connection_does_not_matter),
	CASE(test_a_look_at_the_twin_says_what_it_has_now),
	CASE(test_numbers_are_never_given_twice),
	CASE(test_a_socket_is_listed_until_it_is_closed),
	CASE(test_a_walk_goes_on_when_the_visited_socket_is_closed),
};

VMA_TEST_MAIN("sock/core/sock_home", tests, world_start, world_finish)
