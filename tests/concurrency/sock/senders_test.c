/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Senders that the kernel does not accept: none of their packets reaches a socket without a
 * peer, before or after a change of the network. All packets of other senders arrive, in order.
 */
#include "duo.h"
#include "vma_test.h"

#include "ring/rings.h"
#include "sock/core/inet_sock.h"

#define BURST 200

static struct tsock bound(unsigned addr, unsigned port)
{
	struct tsock ts = tsock_udp();

	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(addr), port), 0);
	return ts;
}

static void send_burst(struct tsock *from, const struct sockaddr_in *to, uint32_t first)
{
	for (uint32_t i = first; i < first + BURST; i++)
		NET_CHECK_EQ(tsock_sendto(from, &i, sizeof(i), to), sizeof(i));
}

/*
 * Receives all datagrams that are there: they continue at *next, and come from the accepted
 * sender.
 */
static bool all_came(struct tsock *ts, uint32_t *next, uint32_t end)
{
	struct sockaddr_in who;
	uint32_t number;

	while (tsock_recvfrom(ts, &number, sizeof(number), &who) == sizeof(number)) {
		NET_CHECK_EQ(who.sin_addr.s_addr, fake_link_addr(2));
		NET_CHECK_EQ(number, *next);
		++*next;
	}
	return *next == end;
}

static uint64_t refused_packets(void)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		NET_CHECK(ring_hold(ring, ring_mode));
		n += ring->stats.drops[DROP_SOURCE];
		ring_release(ring, ring_mode);
	}
	return n;
}

static void datagrams(void *arg)
{
	struct tsock receiver, bad, good;
	struct sockaddr_in to;
	uint32_t next = 0;

	duo_begin();
	fake_netlink_refuse(fake_link_addr(1));
	receiver = bound(0, 7100);
	bad = bound(1, 7101);
	good = bound(2, 7102);
	to = tsock_name(&receiver);
	for (uint32_t round = 0; round < 10; round++) {
		send_burst(&bad, &to, 0);
		send_burst(&good, &to, round * BURST);
		send_burst(&bad, &to, 0);
		NET_CHECK(NET_WAIT(all_came(&receiver, &next, (round + 1) * BURST), NET_PATIENCE));
		fake_netlink_change(false);
	}
	/* When a ring is full, frames are lost before they are checked. */
	NET_CHECK(refused_packets() > 0);
	tsock_close(&bad);
	tsock_close(&good);
	tsock_close(&receiver);
	duo_end(NULL);
}

/* Routes to other destinations change: neither side asks the kernel again. */
static void routes_elsewhere(void *arg)
{
	struct tsock receiver, bad, good;
	struct sockaddr_in to;
	uint32_t next = 0, end = 0;
	unsigned asked = 0;

	duo_begin();
	fake_netlink_refuse(fake_link_addr(1));
	receiver = bound(0, 7100);
	bad = bound(1, 7101);
	good = bound(2, 7102);
	to = tsock_name(&receiver);
	for (uint32_t round = 0; round < 30; round++) {
		send_burst(&bad, &to, 0);
		send_burst(&good, &to, end);
		end += BURST;
		NET_CHECK(NET_WAIT(all_came(&receiver, &next, end), NET_PATIENCE));
		if (round == 0)
			asked = fake_netlink_asked();
		NET_CHECK_EQ(fake_netlink_asked(), asked);
		fake_netlink_elsewhere();
	}
	fake_netlink_change(false);
	send_burst(&good, &to, end);
	NET_CHECK(NET_WAIT(all_came(&receiver, &next, end + BURST), NET_PATIENCE));
	NET_CHECK(fake_netlink_asked() > asked);
	tsock_close(&bad);
	tsock_close(&good);
	tsock_close(&receiver);
	duo_end(NULL);
}

static void test_routes_elsewhere(void **state)
{
	assert_int_equal(loop_net_run("routes elsewhere", routes_elsewhere, NULL, 60), 0);
}

static void test_datagrams(void **state)
{
	assert_int_equal(loop_net_run("datagrams", datagrams, NULL, 30), 0);
}

static bool has_child(struct tsock *listener)
{
	struct sockaddr_in from;
	struct tsock child;

	if (tsock_accept(listener, &child, &from) < 0)
		return false;
	tsock_close(&child);
	return true;
}

static void connections(void *arg)
{
	struct tsock listener, bad;
	struct sockaddr_in to;
	struct duo duo;

	duo_begin();
	listener = duo_listener(7000);
	to = tsock_name(&listener);
	fake_netlink_refuse(fake_link_addr(3));
	bad = tsock_tcp();
	NET_CHECK_EQ(tsock_bind(&bad, fake_link_addr(3), 7101), 0);
	NET_CHECK_EQ(tsock_connect(&bad, &to), -EINPROGRESS);
	duo_open(&duo, DUO_TCP, &listener); /* other senders are accepted meanwhile */
	duo_talk(&duo, 5);
	NET_CHECK(NET_WAIT((sock_poll_ring(tsock_home(&listener)), refused_packets() > 0),
			   NET_PATIENCE));
	NET_CHECK(!has_child(&listener));
	duo_close(&duo);
	tsock_close(&bad);
	duo_end(&listener);
}

static void test_connections(void **state)
{
	assert_int_equal(loop_net_run("connections", connections, NULL, 30), 0);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_datagrams),
	cmocka_unit_test(test_routes_elsewhere),
	cmocka_unit_test(test_connections),
};

VMA_TEST_MAIN("senders", tests, enter, NULL)
