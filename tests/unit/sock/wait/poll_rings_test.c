/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/poll_rings.h"

#include <string.h>
#include <unistd.h>

#include "tests/unit/sock/fake_sock.h"

static struct ring others[SOCK_RINGS_MAX + 1];
static struct waiter waiter;

static int each(void **state)
{
	fake_init();
	waiter_init(&waiter);
	return 0;
}

static int end(void **state)
{
	fake_fini();
	return 0;
}

static void test_a_set_has_each_ring_once(void **state)
{
	struct ring_set set = {.n = 0};

	ring_set_add(&set, &others[0]);
	ring_set_add(&set, &others[1]);
	ring_set_add(&set, &others[0]);
	assert_int_equal(set.n, 2);
	assert_ptr_equal(set.rings[0], &others[0]);
	assert_ptr_equal(set.rings[1], &others[1]);
}

/* The internal thread polls the others. */
static void test_a_full_set_takes_no_more(void **state)
{
	struct {
		struct ring_set set;
		struct ring *beyond;
	} is = {.set = {.n = 0}};

	for (unsigned i = 0; i <= SOCK_RINGS_MAX; i++)
		ring_set_add(&is.set, &others[i]);
	assert_int_equal(is.set.n, SOCK_RINGS_MAX);
	assert_ptr_equal(is.set.rings[SOCK_RINGS_MAX - 1], &others[SOCK_RINGS_MAX - 1]);
	assert_null(is.beyond);
}

static void test_a_socket_adds_its_rings(void **state)
{
	struct ring_set set = {.n = 0};
	struct fake_sock sock = {.fd = -1};

	fake_open(&sock);
	ring_set_add_sock(&set, &sock.sk);
	ring_set_add_sock(&set, &sock.sk);
	assert_int_equal(set.n, 1);
	assert_ptr_equal(set.rings[0], &fake_ring);
	fake_send(&sock, EPOLLIN);
	assert_int_equal(ring_set_poll(&set), 1);
	assert_int_equal(ring_set_poll(&set), 0);
	assert_int_equal(sock_events(&sock.sk), EPOLLIN);
	fake_close(&sock);
}

static void test_descriptors_have_the_room_that_was_asked_for(void **state)
{
	unsigned sizes[] = {0, 3, SLEEP_FEW, 5 * SLEEP_FEW};
	struct ring_set none = {.n = 0};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct rest rest;
		unsigned added = 0;

		assert_true(rest_begin(&rest, &waiter, &none, sizes[i]));
		assert_int_equal(rest.fds.n, 1); /* the wake-up descriptor */
		while (added < sizes[i] && sleep_fds_add(&rest.fds, 0, POLLIN))
			added++;
		assert_int_equal(added, sizes[i]);
		while (sleep_fds_add(&rest.fds, 0, POLLIN))
			;
		assert_int_equal(rest.fds.n, rest.fds.room);
		rest_end(&rest);
		assert_ptr_equal(rest.fds.fds, rest.fds.few);
	}
}

static void test_a_rest_ends_by_time_or_by_a_descriptor_of_the_call(void **state)
{
	struct ring_set none = {.n = 0};
	struct rest rest;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_true(rest_begin(&rest, &waiter, &none, 1));
	assert_true(sleep_listen(&rest.sleep));
	assert_true(sleep_fds_add(&rest.fds, fds[0], POLLIN));
	assert_int_equal(rest_now(&rest, clock_now() + NSEC_PER_MSEC, NULL), REST_EXPIRED);
	assert_true(sleep_listen(&rest.sleep));
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(rest_now(&rest, NSEC_NEVER, NULL), 1);
	assert_int_equal(rest.fds.fds[1].revents, POLLIN);
	rest_end(&rest);
	close(fds[0]);
	close(fds[1]);
}

/* The thread leads: it sleeps on the ring's descriptor, and takes in what arrived. */
static void test_a_rest_ends_by_a_frame_and_polls_the_ring(void **state)
{
	struct ring_set set = {.n = 1, .rings = {&fake_ring}};
	struct fake_sock sock = {.fd = -1};
	struct rest rest;

	fake_open(&sock);
	assert_true(rest_begin(&rest, &waiter, &set, 0));
	assert_true(sleep_listen(&rest.sleep));
	fake_send(&sock, EPOLLIN);
	assert_int_equal(rest_now(&rest, NSEC_NEVER, NULL), 0);
	assert_int_equal(sock_events(&sock.sk), EPOLLIN);
	assert_int_equal(rest.fds.n, 1); /* those of rings are of one sleep only */
	rest_end(&rest);
	fake_close(&sock);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, each, end)

static const struct CMUnitTest tests[] = {
	CASE(test_a_set_has_each_ring_once),
	CASE(test_a_full_set_takes_no_more),
	CASE(test_a_socket_adds_its_rings),
	CASE(test_descriptors_have_the_room_that_was_asked_for),
	CASE(test_a_rest_ends_by_time_or_by_a_descriptor_of_the_call),
	CASE(test_a_rest_ends_by_a_frame_and_polls_the_ring),
};

VMA_TEST_MAIN("poll_rings", tests, NULL, NULL)
