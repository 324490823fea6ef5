/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * In a network namespace of its own, with few ports:
 *
 *	40000-40007, of which 40002 and 40004-40005 are reserved
 */
#include "sock/core/port/local_port.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>

#include "tests/lib/loop_net.h"
#include "tests/vma_test.h"

#ifndef IP_LOCAL_PORT_RANGE
#define IP_LOCAL_PORT_RANGE 51
#endif
#define USABLE 5 /* of them */
#define ONLY_40003 ((int)(40003u << 16 | 40003u))

static struct endpoint destination(unsigned port)
{
	struct endpoint to = {.addr = addr_v4(htonl(0x0a090002)), .port = htons((uint16_t)port)};

	return to;
}

static int reserve(struct tsock *ts, unsigned to_port)
{
	struct endpoint to = destination(to_port);
	struct dst_query query = {.to = {.addr = addr_v4(fake_link_addr(1)), .port = to.port},
				  .src = addr_v4(fake_link_addr(0))};
	struct dst_found found;
	int rc;

	assert_true(control_lock());
	assert_true(sock_start());
	dst_find(&query, &found);
	assert_int_equal(found.verdict, VERDICT_ACCELERATED);
	rc = local_port_reserve(tsock_inet(ts), found.ring, &query.src, &to);
	control_unlock();
	return rc;
}

static unsigned twin_port(const struct tsock *ts)
{
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);

	assert_int_equal(getsockname(ts->fd, (struct sockaddr *)&sin, &len), 0);
	assert_int_equal(sin.sin_addr.s_addr, fake_link_addr(0));
	return ntohs(sin.sin_port);
}

static bool is_usable(unsigned port)
{
	return port >= 40000 && port <= 40007 && port != 40002 && port != 40004 && port != 40005;
}

static void test_each_socket_gets_a_port_of_its_own_while_there_are_some(void **state)
{
	struct tsock socks[USABLE + 1];
	unsigned seen = 0;

	(void)state;
	for (unsigned i = 0; i < USABLE; i++) {
		unsigned port;

		socks[i] = tsock_tcp();
		assert_int_equal(reserve(&socks[i], 80 + i % 2), 0);
		port = ntohs(tsock_inet(&socks[i])->local.port);
		assert_int_equal(port, twin_port(&socks[i]));
		assert_true(is_usable(port));
		assert_false(seen & 1u << (port - 40000));
		seen |= 1u << (port - 40000);
	}
	socks[USABLE] = tsock_tcp();
	assert_int_equal(reserve(&socks[USABLE], 80), -EADDRINUSE);
	for (unsigned i = 0; i <= USABLE; i++)
		tsock_close(&socks[i]);
}

static void test_every_other_port_comes_first(void **state)
{
	struct tsock socks[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		socks[i] = tsock_tcp();
		assert_int_equal(reserve(&socks[i], 443), 0);
		assert_int_equal(twin_port(&socks[i]) % 2, 0); /* 40000 and 40006 */
	}
	for (unsigned i = 0; i < 2; i++)
		tsock_close(&socks[i]);
}

static void test_range_of_the_socket_counts(void **state)
{
	struct tsock ts = tsock_tcp();

	(void)state;
	/* Linux 6.3 */
	assert_int_equal(tsock_set_int(&ts, IPPROTO_IP, IP_LOCAL_PORT_RANGE, ONLY_40003), 0);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(reserve(&ts, 80 + i), 0);
		assert_int_equal(twin_port(&ts), 40003);
		tsock_close(&ts);
		ts = tsock_tcp();
		tsock_set_int(&ts, IPPROTO_IP, IP_LOCAL_PORT_RANGE, ONLY_40003);
	}
	tsock_close(&ts);
}

static void test_socket_that_may_share_a_port_gets_one_of_its_own(void **state)
{
	struct tsock socks[USABLE];
	unsigned seen = 0;

	(void)state;
	for (unsigned i = 0; i < USABLE; i++) {
		socks[i] = tsock_tcp();
		tsock_set_int(&socks[i], SOL_SOCKET, SO_REUSEADDR, 1);
		assert_int_equal(reserve(&socks[i], 80), 0);
		assert_false(seen & 1u << (twin_port(&socks[i]) - 40000));
		seen |= 1u << (twin_port(&socks[i]) - 40000);
	}
	for (unsigned i = 0; i < USABLE; i++)
		tsock_close(&socks[i]);
}

static void test_socket_that_is_bound_without_a_port_gets_one(void **state)
{
	struct tsock ts = tsock_tcp();

	(void)state;
	assert_int_equal(tsock_set_int(&ts, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1), 0);
	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), 0), 0);
	assert_int_equal(twin_port(&ts), 0);
	assert_int_equal(reserve(&ts, 80), 0);
	assert_true(is_usable(twin_port(&ts)));
	tsock_close(&ts);
}

/* Both get a port, and each keeps its option. */
static void test_socket_that_is_bound_without_a_port_and_may_share_gets_one(void **state)
{
	static const int shares[] = {SO_REUSEADDR, SO_REUSEPORT};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct tsock ts = tsock_tcp();
		socklen_t len = sizeof(int);
		int on = 0;

		tsock_set_int(&ts, SOL_SOCKET, shares[i], 1);
		tsock_set_int(&ts, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
		assert_int_equal(tsock_bind(&ts, fake_link_addr(0), 0), 0);
		assert_int_equal(twin_port(&ts), 0);
		assert_int_equal(reserve(&ts, 80), 0);
		assert_true(is_usable(twin_port(&ts)));
		assert_int_equal(ntohs(tsock_inet(&ts)->local.port), twin_port(&ts));
		getsockopt(ts.fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, &len);
		assert_int_equal(on, 1);
		tsock_close(&ts);
	}
}

static bool has_all_but_40003(const struct flow_key *key)
{
	return key->remote_port == htons(8080) && key->local_port != htons(40003);
}

/* Another process may have a pair of endpoints whose port is free. */
static void test_port_whose_pair_another_process_has_is_passed_over(void **state)
{
	(void)state;
	loop_port_share(has_all_but_40003);
	for (unsigned i = 0; i < 10; i++) {
		struct tsock ts = tsock_tcp();

		assert_int_equal(reserve(&ts, 8080), 0);
		assert_int_equal(twin_port(&ts), 40003);
		tsock_close(&ts);
	}
	loop_port_share(NULL);
}

static bool set(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_every_other_port_comes_first),
	cmocka_unit_test(test_each_socket_gets_a_port_of_its_own_while_there_are_some),
	cmocka_unit_test(test_range_of_the_socket_counts),
	cmocka_unit_test(test_socket_that_may_share_a_port_gets_one_of_its_own),
	cmocka_unit_test(test_socket_that_is_bound_without_a_port_gets_one),
	cmocka_unit_test(test_socket_that_is_bound_without_a_port_and_may_share_gets_one),
	cmocka_unit_test(test_port_whose_pair_another_process_has_is_passed_over),
};

static int enter(void **state)
{
	(void)state;
	loop_net_enter();
	/* The file is read once a second. */
	if (!set("/proc/sys/net/ipv4/ip_local_port_range", "40000 40007") ||
	    !set("/proc/sys/net/ipv4/ip_local_reserved_ports", "40002,40004-40005"))
		return -1;
	loop_net_start();
	return 0;
}

VMA_TEST_MAIN("sock/local_port", tests, enter, NULL)
