/* SPDX-License-Identifier: BSD-2-Clause */
/* A receiver of AF_INET6, whose peer asks, and writes, with addresses of both families. */
#include "receiver_fixture.h"

static const struct inaddr here6 = {.b = {[15] = 1}};
static const struct inaddr there6 = {.b = {0xfd, [15] = 9}}; /* fd00::9, of another host */

static int begin_anywhere(int v6only)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)), 0);
	return begin_at(fd, (struct sockaddr *)&at, sizeof(at));
}

static int begin6(void **state)
{
	return begin_anywhere(0);
}

static int begin_v6only(void **state)
{
	return begin_anywhere(1);
}

static struct local_message question6(void)
{
	struct local_message m = question();

	m.from = m.to = here6;
	return m;
}

/* The header that the answer allows. */
static struct record_header header6(void)
{
	struct record_header h = header();

	h.flags = RECORD_IPV6;
	h.from = got.message.value[2] >> 16;
	h.to = got.message.value[2] & 0xffff;
	return h;
}

static void check_next(const struct inaddr *sender)
{
	struct sockaddr_in6 from = {0};
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};

	assert_true(ring_hold_cold(local_ring()));
	assert_int_equal(udp_take(so, &msg, 0), 1);
	ring_release_cold(local_ring());
	assert_int_equal(from.sin6_family, AF_INET6);
	assert_memory_equal(&from.sin6_addr, sender, 16);
	assert_int_equal(from.sin6_port, htons(5000));
}

static void test_records_of_both_families_become_datagrams(void **state)
{
	struct inaddr mapped = addr_v4(HERE);

	assert_true(ask(question6()));
	open_writer_of_answer();
	assert_int_equal(write_one(header6(), 'a'), 1);
	check_next(&here6);
	assert_int_equal(write_one(header(), 'b'), 1);
	check_next(&mapped);
}

static void test_addresses_that_were_not_agreed_to_are_not_delivered(void **state)
{
	struct record_header h;

	assert_true(ask(question6()));
	open_writer_of_answer();
	h = header6();
	h.from = so->udp.local->n_addrs;
	assert_int_equal(write_one(h, 'x'), 0);
	h.from = UINT32_MAX;
	assert_int_equal(write_one(h, 'x'), 0);
	h = header6();
	h.to = LOCAL_NO_ADDRESS;
	assert_int_equal(write_one(h, 'x'), 0);
	h = header();
	h.from = THERE;
	assert_int_equal(write_one(h, 'x'), 0);
	/* As if a sender of IPv4 had been admitted, too: its address has a number. */
	so->udp.local->addrs[so->udp.local->n_addrs++] = addr_v4(THERE);
	h = header6();
	h.from = so->udp.local->n_addrs - 1;
	assert_int_equal(write_one(h, 'x'), 0);
	h.to = h.from;
	assert_int_equal(write_one(h, 'x'), 0);
	assert_int_equal(write_one(header6(), 'a'), 1);
}

static void test_who_asks_with_other_addresses_is_refused(void **state)
{
	struct local_message m = question6();

	m.from = there6;
	assert_false(ask(m));
	m = question6();
	m.to = there6;
	assert_false(ask(m));
	m = question6();
	m.from = addr_v4(HERE); /* of two families */
	assert_false(ask(m));
	m = question6();
	m.to = addr_v4(HERE);
	assert_false(ask(m));
	m = question6();
	m.to = (struct inaddr){.q = {0, 0}};
	assert_false(ask(m));
	assert_null(so->udp.local->segment.base);
	assert_true(ask(question()));
}

static void test_v6only_refuses_ipv4(void **state)
{
	assert_false(ask(question()));
	assert_true(ask(question6()));
	open_writer_of_answer();
	assert_int_equal(write_one(header(), 'x'), 0);
	assert_int_equal(write_one(header6(), 'a'), 1);
}

static void test_a_connected_receiver_hears_its_peer_only(void **state)
{
	struct local_message m = question6();
	struct record_header h;

	so->udp.connected = true;
	so->remote = (struct endpoint){.addr = here6, .port = htons(5000)};
	assert_false(ask(question()));
	assert_true(ask(m));
	open_writer_of_answer();
	h = header6();
	h.from_port = htons(5001);
	assert_int_equal(write_one(h, 'x'), 0);
	assert_int_equal(write_one(header(), 'x'), 0);
	assert_int_equal(write_one(header6(), 'a'), 1);
}

static const struct CMUnitTest tests[] = {
#define TEST6(name, how) cmocka_unit_test_setup_teardown(name, how, finish)
	TEST6(test_records_of_both_families_become_datagrams, begin6),
	TEST6(test_addresses_that_were_not_agreed_to_are_not_delivered, begin6),
	TEST6(test_who_asks_with_other_addresses_is_refused, begin6),
	TEST6(test_v6only_refuses_ipv4, begin_v6only),
	TEST6(test_a_connected_receiver_hears_its_peer_only, begin6),
};

VMA_TEST_MAIN("local_udp6", tests, setup, teardown)
