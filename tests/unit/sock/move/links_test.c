/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses and the interface go and come back under sockets. */
#include "sock/move/links.h"

#include "sock/tcp/tcp_sock.h"
#include "tests/unit/sock/world.h"

#define KEPT 1024 /* addresses that are remembered */

/* ---- what is remembered: before there is an internal thread ------------------------------ */

static struct endpoint lost(unsigned i)
{
	return (struct endpoint){.addr = addr_v4(htonl(0x0a400000 + i))};
}

static bool expected(unsigned i)
{
	struct endpoint addr = lost(i);

	return links_addr_expected(&addr);
}

static void tell(unsigned i, bool present)
{
	struct endpoint addr = lost(i);

	links_addr(&addr, present);
}

static int forget(void **state)
{
	links_forget();
	return 0;
}

static void test_an_address_that_is_lost_is_expected_back(void **state)
{
	assert_false(expected(1));
	tell(1, false);
	tell(1, false); /* the kernel may say it twice */
	tell(2, false);
	assert_true(expected(1) && expected(2));
	assert_false(expected(3));
	tell(1, true);
	tell(3, true); /* which was never lost */
	assert_false(expected(1));
	assert_true(expected(2));
}

static void test_the_oldest_address_is_forgotten(void **state)
{
	for (unsigned i = 0; i <= KEPT; i++)
		tell(i, false);
	assert_false(expected(0));
	for (unsigned i = 1; i <= KEPT; i++)
		assert_true(expected(i));
	tell(500, true); /* from the middle */
	tell(KEPT + 1, false);
	assert_false(expected(500));
	for (unsigned i = 1; i <= KEPT + 1; i++)
		assert_int_equal(expected(i), i != 500);
	links_forget();
	assert_false(expected(KEPT));
}

static void test_a_link_local_address_is_lost_by_one_interface(void **state)
{
	struct endpoint here = {.addr = {.b = {0xfe, 0x80, [15] = 1}}, .scope = 2};
	struct endpoint there = {.addr = here.addr, .scope = 3};

	links_addr(&here, false);
	assert_true(links_addr_expected(&here));
	assert_false(links_addr_expected(&there));
	links_addr(&there, false);
	links_addr(&here, true);
	assert_false(links_addr_expected(&here));
	assert_true(links_addr_expected(&there));
	links_forget();
}

/* ---- an address that goes and comes back --------------------------------------------------- */

static struct tsock listener, client, child, udp, from;
static unsigned port;
static unsigned frames; /* by address 1, which goes; any, atomic */

static bool count_frame(const struct pkt *pkt)
{
	uint32_t source = fake_link_addr(1);

	if (!memcmp(pkt->frame + ETH_HDR + 12, &source, 4))
		__atomic_fetch_add(&frames, 1, __ATOMIC_RELEASE);
	return false;
}

static int connected(void **state)
{
	port = world_port();
	udp = tsock_udp();
	listener = world_listener(0, port, 4);
	assert_int_equal(tsock_bind(&udp, INADDR_ANY, port), 0);
	from = world_udp(3, world_port());
	world_pair(&listener, port, &client, &child);
	loop_port_lose(count_frame);
	return 0;
}

static int end(void **state)
{
	loop_port_lose(NULL);
	tsock_close(&client);
	tsock_close(&child);
	tsock_close(&listener);
	tsock_close(&udp);
	tsock_close(&from);
	return 0;
}

static bool has_route(const struct tsock *ts)
{
	struct ring *ring;
	bool has;

	if (!sock_hold(ts->ref, &ring))
		return false;
	has = !tsock_inet(ts)->tcp.dst.unroutable;
	sock_release(ring);
	return has;
}

static bool address_gone(void)
{
	struct ring *ring;
	bool gone;

	if (!sock_hold(listener.ref, &ring))
		return false;
	gone = sock_flow_of(tsock_inet(&listener)->flows.next)->shard->address_gone;
	sock_release(ring);
	return gone;
}

static void test_a_connection_waits_for_its_address(void **state)
{
	unsigned before;

	fake_netlink_addr(1, false);
	assert_true(NET_WAIT(!has_route(&client), WORLD_WAIT));
	assert_true(has_route(&child)); /* its own address is there */
	before = __atomic_load_n(&frames, __ATOMIC_ACQUIRE);
	assert_int_equal(tsock_send(&client, "late", 4, 0), 4);
	world_settle();
	assert_int_equal(__atomic_load_n(&frames, __ATOMIC_ACQUIRE), before);
	fake_netlink_addr(1, true);
	world_expect(&child, "late");
	assert_true(has_route(&client));
}

static void test_a_listener_is_silent_while_its_address_is_gone(void **state)
{
	struct tsock another = tsock_tcp(), its;

	fake_netlink_addr(0, false);
	assert_true(NET_WAIT(address_gone(), WORLD_WAIT));
	fake_netlink_addr(0, true);
	assert_true(NET_WAIT(!address_gone(), WORLD_WAIT));
	world_connect(&another, 0, port);
	its = world_accept(&listener);
	tsock_close(&another);
	tsock_close(&its);
}

static unsigned count_flows(const struct tsock *ts)
{
	unsigned n = 0;

	WORLD_LOCKED(list_for_each(link, &tsock_inet(ts)->flows) n++);
	return n;
}

/* The port drops frames for the address until it is told, which may be later than a route is. */
static bool hears(const char *text)
{
	char buf[16];

	world_send(&from, 2, port, text);
	return tsock_recv(&udp, buf, sizeof(buf), 0) == (ssize_t)strlen(text);
}

/* Its frames would go to the kernel meanwhile, which has nobody for them. */
static void test_a_wildcard_socket_keeps_the_flow_of_an_expected_address(void **state)
{
	assert_int_equal(count_flows(&udp), FAKE_LINK_ADDRS);
	fake_netlink_addr(2, false);
	fake_netlink_addr(1, false);
	assert_true(NET_WAIT(!has_route(&client), WORLD_WAIT));
	assert_int_equal(count_flows(&udp), FAKE_LINK_ADDRS);
	fake_netlink_addr(2, true);
	fake_netlink_addr(1, true);
	assert_true(NET_WAIT(has_route(&client), WORLD_WAIT));
	assert_int_equal(count_flows(&udp), FAKE_LINK_ADDRS);
	assert_true(NET_WAIT(hears("back"), WORLD_WAIT));
}

/* ---- the interface goes ------------------------------------------------------------------------ */

/* The port says which interface it is of: only such a one can be gone. */
static struct ring *name_interface(void)
{
	struct ring *home = tsock_home(&client);

	assert_true(ring_hold_cold(home));
	ring_queue(home)->port->ifindex = FAKE_LINK_INDEX;
	ring_release_cold(home);
	return home;
}

static bool is_retired(const struct ring *ring)
{
	bool retired;

	WORLD_LOCKED(retired = ring->retired);
	return retired;
}

/* Last: the rings are new afterwards. */
static void test_what_is_unread_outlives_the_interface(void **state)
{
	struct ring *home = name_interface();
	struct tsock queued = tsock_tcp(), its;
	char c;

	world_connect(&queued, 0, port); /* nobody has accepted it yet */
	assert_true(NET_WAIT(sock_events(queued.ref.sk) & EPOLLOUT, WORLD_WAIT));
	assert_int_equal(tsock_send(&queued, "early", 5, 0), 5);

	assert_int_equal(tsock_send(&client, "bytes", 5, 0), 5);
	world_send(&from, 0, port, "datagram");
	assert_true(NET_WAIT(sock_events(child.ref.sk) & EPOLLIN, WORLD_WAIT));
	assert_true(NET_WAIT(sock_events(udp.ref.sk) & EPOLLIN, WORLD_WAIT));
	fake_netlink_plug(false);
	assert_true(NET_WAIT(!has_route(&client) && !has_route(&child), WORLD_WAIT));
	assert_true(NET_WAIT(is_retired(home), WORLD_WAIT));
	/* What is unread is in no frame of the interface: its memory is given back. */
	assert_true(NET_WAIT(loop_port_queues() == 0, WORLD_WAIT));
	its = world_accept(&listener);
	world_expect(&its, "early");
	tsock_close(&its);
	tsock_close(&queued);
	world_expect(&child, "bytes");
	world_expect(&udp, "datagram");
	assert_int_equal(count_flows(&udp), 0);
	assert_int_equal(count_flows(&listener), 0);
	assert_int_equal(tsock_send(&client, "later", 5, 0), 5);
	fake_netlink_plug(true);
	/* Connections move to a ring of the new interface, and others get their flows. */
	world_expect(&child, "later");
	assert_true(NET_WAIT(count_flows(&udp) == FAKE_LINK_ADDRS, WORLD_WAIT));
	assert_true(NET_WAIT(count_flows(&listener) == 1, WORLD_WAIT));
	world_send(&from, 0, port, "again");
	world_expect(&udp, "again");
	tsock_close(&client);
	assert_int_equal(world_recv(&child, &c, 1), 0);
}

#define EARLY(name) cmocka_unit_test_setup_teardown(name, NULL, forget)
#define CASE(name) cmocka_unit_test_setup_teardown(name, connected, end)

static const struct CMUnitTest tests[] = {
	EARLY(test_an_address_that_is_lost_is_expected_back),
	EARLY(test_the_oldest_address_is_forgotten),
	EARLY(test_a_link_local_address_is_lost_by_one_interface),
	CASE(test_a_connection_waits_for_its_address),
	CASE(test_a_listener_is_silent_while_its_address_is_gone),
	CASE(test_a_wildcard_socket_keeps_the_flow_of_an_expected_address),
	CASE(test_what_is_unread_outlives_the_interface),
};

VMA_TEST_MAIN("sock/move/links", tests, world_start, world_finish)
