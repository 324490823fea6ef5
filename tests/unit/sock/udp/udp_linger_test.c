/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that are unread when the kernel takes the socket come first. */
#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

static struct tsock ts, from;
static unsigned port, theirs;

static int bound(void **state)
{
	port = world_port();
	theirs = world_port();
	ts = world_udp(0, port);
	from = world_udp(1, theirs);
	return 0;
}

static int end(void **state)
{
	tsock_close(&ts);
	tsock_close(&from);
	return 0;
}

static void arrive(unsigned n)
{
	static const char *const texts[] = {"first", "second", "third"};

	for (unsigned i = 0; i < n; i++)
		world_send(&from, 0, port, texts[i]);
	assert_true(NET_WAIT(world_queued(&ts, n), WORLD_WAIT));
}

static void fall_back(void)
{
	assert_int_equal(sock_to_kernel(ts.ref, VERDICT_FORKED), 0);
}

static bool lingers(void)
{
	return sock_ref_valid(ts.ref) && udp_lingers(tsock_inet(&ts));
}

/* The kernel has a datagram for the twin now. */
static void kernel_sends(const char *text)
{
	struct sockaddr_in to = world_addr(0, port);
	int fd = world_kernel_udp(2, 0);

	assert_int_equal(sendto(fd, text, strlen(text), 0, (struct sockaddr *)&to, sizeof(to)),
			 strlen(text));
	close(fd);
}

static void test_unread_datagrams_come_before_those_of_the_kernel(void **state)
{
	char buf[16];

	arrive(3);
	fall_back();
	assert_true(lingers());
	kernel_sends("kernel");
	world_expect(&ts, "first");
	world_expect(&ts, "second");
	assert_true(lingers());
	assert_int_equal(tsock_recv(&ts, buf, sizeof(buf), MSG_PEEK), 5);
	assert_true(lingers());
	world_expect(&ts, "third");
	assert_false(lingers());
	assert_int_equal(tsock_recv(&ts, buf, sizeof(buf), 0), SOCK_KERNEL);
	assert_int_equal(recv(ts.fd, buf, sizeof(buf), MSG_DONTWAIT), 6);
	assert_memory_equal(buf, "kernel", 6);
}

static void test_a_socket_with_nothing_unread_leaves_at_once(void **state)
{
	fall_back();
	assert_false(lingers());
	assert_int_equal(sock_verdict(ts.ref.sk), VERDICT_FORKED);
	assert_true(list_empty(&tsock_inet(&ts)->flows));
}

/* A frame that no thread has taken from the ring yet was received before. */
static void test_frames_in_the_ring_are_taken_along(void **state)
{
	struct sockaddr_in to = world_addr(0, port);
	struct ring *ring;

	assert_int_equal(tsock_sendto(&from, "first", 5, &to), 5);
	fall_back();
	assert_true(lingers());
	world_expect(&ts, "first");
	assert_false(lingers());
	assert_int_equal(sock_hold_cold(ts.ref, &ring), SOCK_KERNEL);
}

/* Nor is one lost that the port has steered to the ring, and that is not there yet. */
static void test_frames_on_their_way_to_the_ring_are_taken_along(void **state)
{
	loop_port_late();
	world_send(&from, 0, port, "first");
	fall_back();
	assert_true(lingers());
	world_expect(&ts, "first");
	assert_false(lingers());
}

/* Nor one of a sender that the kernel was not asked about yet. */
static void test_a_datagram_of_an_unknown_sender_is_taken_along(void **state)
{
	struct sockaddr_in to = world_addr(0, port);
	struct tsock unknown = world_udp(3, world_port());

	loop_port_late();
	assert_int_equal(tsock_sendto(&unknown, "first", 5, &to), 5);
	fall_back();
	assert_true(lingers());
	world_expect(&ts, "first");
	assert_false(lingers());
	tsock_close(&unknown);
}

/* Of this one the kernel accepts nothing. */
static void test_a_datagram_of_a_refused_sender_is_dropped(void **state)
{
	struct sockaddr_in to = world_addr(0, port);
	struct tsock refused = world_udp(2, world_port());

	fake_netlink_refuse(fake_link_addr(2));
	loop_port_late();
	assert_int_equal(tsock_sendto(&refused, "first", 5, &to), 5);
	fall_back();
	assert_false(lingers());
	fake_netlink_refuse(0);
	tsock_close(&refused);
}

static void test_the_kernel_makes_all_other_calls(void **state)
{
	struct sockaddr_in to = world_addr(1, theirs);
	socklen_t len = sizeof(to);
	const struct sock_ops *ops;
	struct sock_ref child = ts.ref;
	char buf[8];

	arrive(1);
	fall_back();
	ops = sock_ops_of(ts.ref.sk);
	assert_int_equal(tsock_sendto(&ts, "x", 1, &to), SOCK_KERNEL);
	assert_int_equal(ops->bind(ts.ref, (struct sockaddr *)&to, len), SOCK_KERNEL);
	assert_int_equal(ops->connect(ts.ref, (struct sockaddr *)&to, len), SOCK_KERNEL);
	assert_int_equal(ops->getsockname(ts.ref, (struct sockaddr *)&to, &len), SOCK_KERNEL);
	assert_int_equal(ops->getpeername(ts.ref, (struct sockaddr *)&to, &len), SOCK_KERNEL);
	assert_int_equal(ops->listen(ts.ref, 1), SOCK_KERNEL);
	assert_int_equal(ops->accept(ts.ref, NULL, NULL, 0, &child), SOCK_KERNEL);
	assert_null(child.sk);
	assert_int_equal(tsock_recv(&ts, buf, sizeof(buf), MSG_ERRQUEUE), SOCK_KERNEL);
	/* There are no urgent datagrams, and the kernel does not look at this flag. */
	assert_int_equal(tsock_recv(&ts, buf, sizeof(buf), MSG_OOB | MSG_PEEK), 5);
	assert_true(lingers());
	world_expect(&ts, "first");
}

/* A pointer that cannot be written costs its datagram, as with the kernel, and no more. */
static void test_a_bad_buffer_loses_one_datagram(void **state)
{
	test_guard();
	arrive(2);
	fall_back();
	assert_int_equal(tsock_recv(&ts, WORLD_BAD, 16, 0), -EFAULT);
	assert_true(lingers());
	world_expect(&ts, "second");
	assert_false(lingers());
}

static void test_falling_back_again_changes_nothing(void **state)
{
	arrive(2);
	fall_back();
	fall_back();
	assert_true(lingers());
	world_expect(&ts, "first");
	fall_back();
	world_expect(&ts, "second");
	assert_false(lingers());
}

/* The frames are given back: world_finish() counts them. */
static void test_a_socket_that_lingers_can_be_closed(void **state)
{
	struct sock_ref ref = ts.ref;
	struct ring *ring;

	arrive(3);
	fall_back();
	tsock_close(&ts);
	assert_int_equal(sock_hold_cold(ref, &ring), -EBADF);
}

static void test_shutdown_does_not_discard_what_is_unread(void **state)
{
	arrive(1);
	world_connect(&ts, 1, theirs);
	fall_back();
	assert_true(lingers());
	assert_int_equal(tsock_shutdown(&ts, SHUT_RD), 0);
	world_expect(&ts, "first");
	assert_false(lingers());
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, bound, end)

static const struct CMUnitTest tests[] = {
	CASE(test_unread_datagrams_come_before_those_of_the_kernel),
	CASE(test_a_socket_with_nothing_unread_leaves_at_once),
	CASE(test_frames_in_the_ring_are_taken_along),
	CASE(test_frames_on_their_way_to_the_ring_are_taken_along),
	CASE(test_a_datagram_of_an_unknown_sender_is_taken_along),
	CASE(test_a_datagram_of_a_refused_sender_is_dropped),
	CASE(test_the_kernel_makes_all_other_calls),
	CASE(test_a_bad_buffer_loses_one_datagram),
	CASE(test_falling_back_again_changes_nothing),
	CASE(test_a_socket_that_lingers_can_be_closed),
	CASE(test_shutdown_does_not_discard_what_is_unread),
};

VMA_TEST_MAIN("sock/udp/udp_linger", tests, world_start, world_finish)
