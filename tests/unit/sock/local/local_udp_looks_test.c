/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receive of a datagram that finds nothing in the ring of records looks again for a moment.  The peer is
 * in the test's hands.
 */
#include "ring/local/record_quick.h" /* before the fixture, whose names it has */

#include "receiver_fixture.h"

#include "base/param.h"
#include "looks.h"

#define LONG \
	2000 /* msec, of which a busy machine takes away a part: the number of looks is exact */

static char text[10];

static void put(struct record_header h, size_t len)
{
	static char bytes[sizeof(text) + 1] = "abcdefghij";
	struct iovec iov = {bytes, len};

	assert_int_equal(record_ring_write(&writer, &h, &iov, 1, len), 0);
}

static void datagram(void)
{
	put(header(), 3);
}

static void long_datagram(void)
{
	put(header(), sizeof(text) + 1);
}

static void impossible_datagram(void)
{
	struct record_header h = header();

	h.from = THERE;
	put(h, 3);
}

static int begin_test(void **state)
{
	begin(state);
	open_writer();
	arrive_at = 0;
	params.rx_poll = -1;
	spin_shared_until = 0;
	looks_timeout = 10;
	return 0;
}

static ssize_t receive(int flags)
{
	return look_and_recv(so, text, sizeof(text), flags);
}

static void looks_are(unsigned looks, int flags)
{
	assert_int_equal(receive(flags), -EAGAIN);
	assert_int_equal(first, looks);
}

static void test_looks_end(void **state)
{
	looks_are(QUICK_LOOKS, 0);
	looks_are(0, MSG_DONTWAIT);
}

static void test_looks_go_on_while_it_waits(void **state)
{
	looks_timeout = LONG / 4;
	looks_are(QUICK_LOOKS, 0);
	assert_true(series > 2);
	arriving = datagram;
	arrive_at = 3 * QUICK_LOOKS + 7;
	looks_timeout = LONG;
	assert_int_equal(receive(0), 3);
	assert_int_equal(looked, arrive_at);
	assert_int_equal(series, 4);
	assert_null(so->udp.head);
}

/* A round counts as one poll, its looks as others. */
static void test_looks_use_up_polls(void **state)
{
	params.rx_poll = 100;
	looks_timeout = LONG;
	assert_int_equal(receive(0), -EAGAIN);
	assert_in_range(series, 8, 13);
}

static void test_what_arrives_meanwhile_is_received(void **state)
{
	arriving = datagram;
	arrive_at = 9;
	assert_int_equal(receive(0), 3);
	assert_memory_equal(text, "abc", 3);
	assert_int_equal(looked, 9);
	assert_null(so->udp.head);
}

static void test_the_sender_is_told(void **state)
{
	struct sockaddr_in name,
		wanted = {.sin_family = AF_INET, .sin_port = htons(5000), .sin_addr.s_addr = HERE};
	struct iovec iov = {text, sizeof(text)};
	struct msghdr msg = {.msg_name = &name, .msg_iov = &iov, .msg_iovlen = 1};

	arriving = datagram;
	arrive_at = 1;
	for (socklen_t size = 0; size <= sizeof(name); size += 4) {
		memset(&name, 0xff, sizeof(name));
		msg.msg_namelen = size;
		msg.msg_flags = MSG_TRUNC;
		looked = 0;
		quick_nothing = true;
		assert_int_equal(sock_ops_of(&so->sk)->recv(sock_ref_of(so), &msg, 0), 3);
		assert_int_equal(looked, 1);
		assert_int_equal(msg.msg_flags, 0);
		assert_int_equal(msg.msg_namelen, sizeof(name));
		assert_memory_equal(&name, &wanted, size);
		for (size_t i = size; i < sizeof(name); i++)
			assert_int_equal(((uint8_t *)&name)[i], 0xff);
	}
}

/* recvmsg(2) has to tell it. */
static void test_what_is_cut_off_is_left(void **state)
{
	arriving = long_datagram;
	arrive_at = 4;
	assert_int_equal(receive(0), sizeof(text));
	assert_int_equal(looked, 4);
}

/* Where the quick reads pause, the other way reads on, and looks at the twin. */
static void test_a_pause_ends_the_looks(void **state)
{
	arriving = datagram;
	arrive_at = 1;
	for (unsigned i = 0; i < RECORD_STRIDE; i++) {
		assert_int_equal(receive(0), 3);
		assert_int_equal(looked, 1);
	}
	arrive_at = 0;
	looks_are(1, 0);
}

static void test_what_it_does_not_hear_ends_the_looks(void **state)
{
	so->udp.connected = true;
	so->remote = (struct endpoint){.addr = addr_v4(HERE), .port = htons(5000)};
	arriving = impossible_datagram;
	arrive_at = 5;
	looks_are(5, 0);
	so->udp.connected = false;
}

static const struct CMUnitTest tests[] = {
#define EACH(fn) cmocka_unit_test_setup_teardown(fn, begin_test, finish)
	EACH(test_looks_end),
	EACH(test_looks_go_on_while_it_waits),
	EACH(test_looks_use_up_polls),
	EACH(test_what_arrives_meanwhile_is_received),
	EACH(test_the_sender_is_told),
	EACH(test_what_is_cut_off_is_left),
	EACH(test_a_pause_ends_the_looks),
	EACH(test_what_it_does_not_hear_ends_the_looks),
};

VMA_TEST_MAIN("local_udp_looks", tests, setup, teardown)
