/* SPDX-License-Identifier: BSD-2-Clause */
/* A receiver of local datagrams whose peer asks, and writes, what no kernel would deliver. */
#include "receiver_fixture.h"

static void test_who_asks_for_what_is_not_there_is_refused(void **state)
{
	struct local_message m = question();

	m.socket++;
	assert_false(ask(m));
	m = question();
	m.to_port ^= htons(1);
	assert_false(ask(m));
	m = question();
	m.to = addr_v4(htonl(0x7f000002));
	assert_false(ask(m));
	m = question();
	m.from = addr_v4(THERE);
	assert_false(ask(m));
	assert_null(so->udp.local->segment.base); /* nothing was made for them */
	assert_true(ask(question()));
}

static void test_a_connected_receiver_refuses_all_but_its_peer(void **state)
{
	struct local_message m = question();

	so->udp.connected = true;
	so->remote = (struct endpoint){.addr = addr_v4(HERE), .port = htons(5001)};
	assert_false(ask(m));
	m.from_port = htons(5001);
	assert_true(ask(m));
	assert_int_equal(got.message.value[1], 1);
}

static void test_records_become_datagrams(void **state)
{
	struct sockaddr_in from = {0};
	char buf[2] = {0};
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};

	open_writer();
	assert_int_equal(write_one(header(), 'a'), 1);
	assert_true(sock_events(&so->sk) & EPOLLIN);
	assert_true(ring_hold_cold(local_ring()));
	assert_int_equal(udp_take(so, &msg, 0), 1);
	ring_release_cold(local_ring());
	assert_int_equal(buf[0], 'a');
	assert_int_equal(from.sin_addr.s_addr, HERE);
	assert_int_equal(from.sin_port, htons(5000));
	assert_false(sock_events(&so->sk) & EPOLLIN);
}

static void test_impossible_addresses_are_not_delivered(void **state)
{
	struct record_header h = header();

	open_writer();
	h.from = THERE;
	assert_int_equal(write_one(h, 'x'), 0);
	h = header();
	h.to = THERE;
	assert_int_equal(write_one(h, 'x'), 0);
	h.to = 0;
	assert_int_equal(write_one(h, 'x'), 0);
	h = header();
	h.to_port ^= htons(1);
	assert_int_equal(write_one(h, 'x'), 0);
	h = header();
	h.from_port = 0;
	assert_int_equal(write_one(h, 'x'), 0);
	h = header();
	h.from_port = htons(1023);
	assert_int_equal(write_one(h, 'x'), 0);
	h.from_port = htons(1024);
	assert_int_equal(write_one(h, 'y'), 1);
	assert_int_equal(write_one(header(), 'y'), 2);
}

static void test_a_low_port_is_that_of_a_peer_that_has_asked_with_it(void **state)
{
	struct local_message m = question();
	struct record_header h = header();

	m.from_port = 0;
	assert_false(ask(m));
	m.from_port = htons(53);
	assert_int_equal(ask(m), !geteuid()); /* root needs no leave of the namespace */
	if (geteuid())
		skip();
	open_writer_of_answer();
	h.from_port = htons(52);
	assert_int_equal(write_one(h, 'x'), 0);
	h.from_port = 0;
	assert_int_equal(write_one(h, 'x'), 0);
	h.from_port = htons(53);
	assert_int_equal(write_one(h, 'y'), 1);
}

/* ---- recvfrom(2), the quick way --------------------------------------------------------------- */

static unsigned left; /* calls that were left to the other way */

static ssize_t other_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from,
			      socklen_t *from_len)
{
	left++;
	return -1;
}

static void put_record(struct record_header h, char byte)
{
	struct iovec iov = {&byte, 1};

	assert_int_equal(record_ring_write(&writer, &h, &iov, 1, 1), 0);
}

static ssize_t quick_recvfrom(char *byte, struct sockaddr_in *from, socklen_t *len)
{
	sock_hooks.recvfrom = other_recvfrom;
	return sock_ops_of(&so->sk)->quick_recvfrom(7, byte, 1, 0, (struct sockaddr *)from, len,
						    sock_ref_of(so));
}

static void test_the_sender_is_told_at_once(void **state)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char byte = 0;

	open_writer();
	put_record(header(), 'a');
	memset(&from, 0xff, sizeof(from));
	assert_int_equal(quick_recvfrom(&byte, &from, &len), 1);
	assert_int_equal(byte, 'a');
	assert_int_equal(len, sizeof(from));
	assert_memory_equal(&from,
			    (&(struct sockaddr_in){.sin_family = AF_INET,
						   .sin_port = htons(5000),
						   .sin_addr.s_addr = HERE}),
			    sizeof(from));
	assert_int_equal(left, 0);
	put_record(header(), 'b');
	len--; /* a part of the address: the other way */
	assert_int_equal(quick_recvfrom(&byte, &from, &len), -1);
	assert_int_equal(left, 1);
	len++;
	assert_int_equal(quick_recvfrom(&byte, &from, &len), 1);
	assert_int_equal(byte, 'b');
}

static void test_an_impossible_sender_is_not_told(void **state)
{
	struct record_header h = header();
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char byte = 0;

	left = 0;
	open_writer();
	h.from = THERE;
	put_record(h, 'x');
	put_record(header(), 'y');
	assert_int_equal(quick_recvfrom(&byte, &from, &len), -1);
	assert_int_equal(left, 1);
	assert_true(ring_hold_cold(local_ring()));
	local_pull(so->udp.local, 1); /* the other way drops it */
	ring_release_cold(local_ring());
	assert_int_equal(so->udp.count, 0);
	assert_int_equal(quick_recvfrom(&byte, &from, &len), 1);
	assert_int_equal(byte, 'y');
}

static void test_a_full_queue_leaves_the_rest_in_the_ring(void **state)
{
	uint32_t most;

	open_writer();
	so->udp.limit = 500;
	most = write_one(header(), '0');
	for (int i = 0; i < 20; i++)
		most = write_one(header(), '0');
	assert_in_range(most, 2, 10);
	assert_true(ring_hold_cold(local_ring()));
	for (int i = 0; i < 21; i++) {
		assert_non_null(so->udp.head);
		pkt_free(udp_pop(so));
		ring_poll(local_ring()); /* there is room: no notice is needed */
	}
	assert_null(so->udp.head);
	ring_release_cold(local_ring());
}

/* How many datagrams of so many bytes it takes until one is dropped; nobody reads. */
static uint32_t count_fitting(size_t len)
{
	static char bytes[1000];
	struct record_header h = header();
	struct iovec iov = {bytes, len};
	uint32_t n = 0;

	assert_true(ring_hold_cold(local_ring()));
	while (!record_ring_write(&writer, &h, &iov, 1, len))
		n++;
	assert_int_equal(record_ring_dropped(&so->udp.local->reader), 1);
	ring_release_cold(local_ring());
	return n;
}

/* Bytes of datagrams, not of what is kept beside them. */
static void test_the_ring_holds_what_the_receive_buffer_says(void **state)
{
	open_writer();
	assert_in_range(count_fitting(100) * 100, so->udp.limit, 2 * so->udp.limit);
}

static void test_it_holds_as_much_in_small_datagrams(void **state)
{
	open_writer();
	assert_in_range(count_fitting(64) * 64, so->udp.limit, 2 * so->udp.limit);
}

/* The kernel counts 768 bytes for one. */
static void test_it_holds_more_tiny_datagrams_than_the_kernel(void **state)
{
	open_writer();
	assert_in_range(count_fitting(14), so->udp.limit / 64, so->udp.limit / 14);
}

static void test_a_receiver_that_stops_keeps_what_it_has(void **state)
{
	struct record_header h = header();
	char byte = 0;
	struct iovec iov = {&byte, 1};
	unsigned before = __atomic_load_n(&notices, __ATOMIC_RELAXED);

	open_writer();
	assert_true(ring_hold_cold(local_ring()));
	so->udp.limit = 1;
	for (int i = 0; i < 5; i++)
		assert_int_equal(record_ring_write(&writer, &h, &iov, 1, 1), 0);
	ring_release_cold(local_ring());
	assert_true(control_lock());
	local_receive_stop(so);
	assert_int_equal(so->udp.count, 5);
	assert_false(local_receive(so)); /* for good */
	control_unlock();
	assert_true(record_ring_is_closed(&writer));
	assert_int_equal(record_ring_write(&writer, &h, &iov, 1, 1), -EPIPE);
	await(&notices, before + 1);
	assert_int_equal(so->udp.limit, 1);
}

/* The quick recv(2) would find what comes after it, although the queue takes nothing. */
static void test_a_receiver_that_is_shut_down_closes_its_ring(void **state)
{
	open_writer();
	assert_int_equal(write_one(header(), 'a'), 1);
	assert_true(control_lock());
	assert_int_equal(
		udp_kind.set_option(sock_ref_of(so), SOL_SOCKET, SO_VMA_SHUTDOWN_RX, NULL, 0), 0);
	assert_false(local_receive(so)); /* for good */
	control_unlock();
	assert_true(record_ring_is_closed(&writer));
	assert_int_equal(so->udp.count, 1);
}

/* Also if no sender of this host has met it so far. */
static void test_a_receiver_that_was_shut_down_stays_so(void **state)
{
	assert_true(control_lock());
	local_udp_end(so);
	assert_int_equal(
		udp_kind.set_option(sock_ref_of(so), SOL_SOCKET, SO_VMA_SHUTDOWN_RX, NULL, 0), 0);
	assert_false(local_receive(so));
	control_unlock();
}

static const struct CMUnitTest tests[] = {
	TEST(test_who_asks_for_what_is_not_there_is_refused),
	TEST(test_a_connected_receiver_refuses_all_but_its_peer),
	TEST(test_records_become_datagrams),
	TEST(test_impossible_addresses_are_not_delivered),
	TEST(test_a_low_port_is_that_of_a_peer_that_has_asked_with_it),
	TEST(test_the_sender_is_told_at_once),
	TEST(test_an_impossible_sender_is_not_told),
	TEST(test_a_full_queue_leaves_the_rest_in_the_ring),
	TEST(test_the_ring_holds_what_the_receive_buffer_says),
	TEST(test_it_holds_as_much_in_small_datagrams),
	TEST(test_it_holds_more_tiny_datagrams_than_the_kernel),
	TEST(test_a_receiver_that_stops_keeps_what_it_has),
	TEST(test_a_receiver_that_is_shut_down_closes_its_ring),
	TEST(test_a_receiver_that_was_shut_down_stays_so),
};

VMA_TEST_MAIN("local_udp", tests, setup, teardown)
