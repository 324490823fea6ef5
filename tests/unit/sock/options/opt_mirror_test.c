/* SPDX-License-Identifier: BSD-2-Clause */
/* Options are read back from a real twin, which changes or refuses what the program sets. */
#include "sock/options/opt_mirror.h"

#include <linux/net_tstamp.h>
#include <netinet/udp.h>

#include "tests/unit/sock/world.h"

static struct tsock ts;

static const struct sock_options *opt(void)
{
	return tsock_inet(&ts)->opt;
}

static int twin_int(int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(ts.fd, level, name, &value, &len), 0);
	return value;
}

static int udp(void **state)
{
	ts = tsock_udp();
	return ts.fd < 0;
}

static int tcp(void **state)
{
	ts = tsock_tcp();
	return ts.fd < 0;
}

static int end(void **state)
{
	tsock_close(&ts);
	return 0;
}

static void set(int level, int name, int value)
{
	assert_int_equal(tsock_set_int(&ts, level, name, value), 0);
}

/* socket(7): the kernel doubles the value, and has a minimum. */
static void test_buffers_have_the_size_that_the_kernel_made_of_it(void **state)
{
	set(SOL_SOCKET, SO_RCVBUF, 10000);
	set(SOL_SOCKET, SO_SNDBUF, 1);
	assert_int_equal(opt()->rcvbuf, 20000);
	assert_true(opt()->sndbuf > 2);
	assert_int_equal(opt()->sndbuf, twin_int(SOL_SOCKET, SO_SNDBUF));
	assert_true(opt()->rcvbuf_set && opt()->sndbuf_set);
}

static void test_timeouts_are_those_of_the_kernel_and_never_none(void **state)
{
	struct inet_sock *so = tsock_inet(&ts);
	struct timeval tv = {2, 500001};

	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	assert_in_range(so->rcvtimeo, 2501, 2510); /* the kernel's ticks are up to 10 ms */
	tv = (struct timeval){0, 1};
	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)), 0);
	assert_in_range(so->sndtimeo, 1, 10);
	tv = (struct timeval){0, 0};
	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)), 0);
	assert_int_equal(so->sndtimeo, 0);
}

static void test_what_the_kernel_refuses_changes_nothing(void **state)
{
	const struct sock_options before = *opt();

	assert_int_equal(tsock_set_int(&ts, IPPROTO_IP, IP_TTL, 256), -EINVAL);
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_SEGMENT, -1), -EINVAL);
	assert_int_equal(opt()->ttl, before.ttl);
	assert_int_equal(opt()->gso_size, before.gso_size);
}

static void test_values_of_ip(void **state)
{
	set(IPPROTO_IP, IP_TTL, 7);
	set(IPPROTO_IP, IP_MULTICAST_TTL, 9);
	set(IPPROTO_IP, IP_MULTICAST_LOOP, 0);
	set(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
	assert_int_equal(opt()->ttl, 7);
	assert_int_equal(opt()->mc_ttl, 9);
	assert_false(opt()->mc_loop);
	assert_int_equal(opt()->pmtudisc, IP_PMTUDISC_DONT);
	set(IPPROTO_IP, IP_TTL, -1); /* ip(7): the default again */
	assert_int_equal(opt()->ttl, twin_int(IPPROTO_IP, IP_TTL));
	assert_int_not_equal(opt()->ttl, 7);
}

/* The ECN bits of a connection belong to TCP. */
static void test_the_kernel_masks_a_part_of_tos(void **state)
{
	set(IPPROTO_IP, IP_TOS, 0xff);
	assert_int_equal(opt()->tos, twin_int(IPPROTO_IP, IP_TOS));
	assert_int_equal(opt()->tos & 3, 0);
}

static void test_an_address_names_the_interface_for_multicast(void **state)
{
	struct in_addr addr = {fake_link_addr(1)};

	assert_int_equal(tsock_set(&ts, IPPROTO_IP, IP_MULTICAST_IF, &addr, sizeof(addr)), 0);
	assert_int_equal(addr_v4_of(&opt()->mc_addr), addr.s_addr);
	assert_int_equal(opt()->mc_ifindex, FAKE_LINK_INDEX);
	addr.s_addr = 0;
	assert_int_equal(tsock_set(&ts, IPPROTO_IP, IP_MULTICAST_IF, &addr, sizeof(addr)), 0);
	assert_int_equal(opt()->mc_ifindex, 0);
}

/* socket(7): one kind of time stamp disables the other. */
static void test_an_option_that_disables_another_one(void **state)
{
	set(SOL_SOCKET, SO_TIMESTAMP, 1);
	assert_int_equal(opt()->told & TOLD_STAMPS, TOLD_STAMP);
	set(SOL_SOCKET, SO_TIMESTAMPNS, 1);
	assert_int_equal(opt()->told & (TOLD_STAMP | TOLD_STAMP_NS), TOLD_STAMP_NS);
	set(IPPROTO_IP, IP_PKTINFO, 1);
	assert_true(opt()->told & TOLD_PKTINFO);
	set(IPPROTO_IP, IP_PKTINFO, 0);
	assert_false(opt()->told & TOLD_PKTINFO);
}

#define STAMPED (TOLD_STAMPING | TOLD_HARDWARE | TOLD_STAMPING_NEW)

/* Each kind of stamp needs the flag that makes it, and the one that tells it, as in the kernel. */
static void test_stamps_of_arrival(void **state)
{
	const int both = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE |
			 SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;

	set(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE);
	assert_int_equal(opt()->told & STAMPED, 0);
	set(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE);
	assert_int_equal(opt()->told & STAMPED, TOLD_STAMPING);
	set(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RAW_HARDWARE);
	assert_int_equal(opt()->told & STAMPED, TOLD_HARDWARE);
	set(SOL_SOCKET, SO_TIMESTAMPING, both);
	assert_int_equal(opt()->told & STAMPED, TOLD_STAMPING | TOLD_HARDWARE);
	assert_false(opt()->tx_stamps);
	set(SOL_SOCKET, SO_TIMESTAMPING_NEW, both);
	assert_int_equal(opt()->told & STAMPED, STAMPED);
	set(SOL_SOCKET, SO_TIMESTAMPING, 0);
	assert_int_equal(opt()->told & STAMPED, 0);
}

static void test_stamps_of_sent_datagrams(void **state)
{
	set(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_TX_SCHED);
	assert_true(opt()->tx_stamps);
	assert_int_equal(opt()->told & STAMPED, 0);
	set(SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_OPT_ID | SOF_TIMESTAMPING_SOFTWARE);
	assert_false(opt()->tx_stamps);
}

static void test_the_size_of_segments(void **state)
{
	set(IPPROTO_UDP, UDP_SEGMENT, 1000);
	assert_int_equal(opt()->gso_size, 1000);
}

static void test_linger(void **state)
{
	struct linger linger = {1, 5};

	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	assert_true(opt()->linger_on);
	assert_int_equal(opt()->linger_seconds, 5);
}

#define UDP(name) cmocka_unit_test_setup_teardown(name, udp, end)
#define TCP(name) cmocka_unit_test_setup_teardown(name, tcp, end)

static const struct CMUnitTest tests[] = {
	UDP(test_buffers_have_the_size_that_the_kernel_made_of_it),
	UDP(test_timeouts_are_those_of_the_kernel_and_never_none),
	UDP(test_what_the_kernel_refuses_changes_nothing),
	UDP(test_values_of_ip),
	TCP(test_the_kernel_masks_a_part_of_tos),
	UDP(test_an_address_names_the_interface_for_multicast),
	UDP(test_an_option_that_disables_another_one),
	UDP(test_stamps_of_arrival),
	UDP(test_stamps_of_sent_datagrams),
	UDP(test_the_size_of_segments),
	TCP(test_linger),
};

VMA_TEST_MAIN("opt_mirror", tests, world_start, world_finish)
