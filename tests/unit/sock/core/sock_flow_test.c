/* SPDX-License-Identifier: BSD-2-Clause */
/* Which frames a socket receives, and what is left when it receives none. */
#include "sock/core/inet_sock.h"
#include "tests/unit/sock/world.h"

static struct tsock ts;
static unsigned port;

static int open_one(void **state)
{
	port = world_port();
	ts = tsock_udp();
	return ts.fd < 0;
}

static int end(void **state)
{
	loop_port_share(NULL);
	loop_port_fail_opens(0);
	tsock_close(&ts);
	return 0;
}

static unsigned count_flows(const struct tsock *of)
{
	unsigned n = 0;

	list_for_each(link, &tsock_inet(of)->flows)
		n++;
	return n;
}

/* A ring has a flow for datagrams to this address. */
static void expect_from(struct tsock *from, unsigned i)
{
	world_send(from, i, port, "data");
	world_expect(&ts, "data");
}

static void expect_nothing_from(struct tsock *from, unsigned i)
{
	char buf[8];

	world_send(from, i, port, "data");
	assert_false(NET_WAIT(tsock_recv(&ts, buf, sizeof(buf), 0) != -EAGAIN, 100));
}

/* ---- addresses ---------------------------------------------------------------------------- */

static void test_a_wildcard_socket_has_a_flow_for_each_address_of_the_host(void **state)
{
	struct tsock from = world_udp(3, world_port());

	assert_int_equal(tsock_bind(&ts, INADDR_ANY, port), 0);
	assert_int_equal(count_flows(&ts), FAKE_LINK_ADDRS);
	for (unsigned i = 0; i < FAKE_LINK_ADDRS; i++)
		expect_from(&from, i);
	WORLD_LOCKED(sock_reattach(tsock_inet(&ts))); /* addresses changed: none did */
	assert_int_equal(count_flows(&ts), FAKE_LINK_ADDRS);
	tsock_close(&from);
}

static void test_a_bound_socket_hears_its_address_only(void **state)
{
	struct tsock from = world_udp(3, world_port());

	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), port), 0);
	assert_int_equal(count_flows(&ts), 1);
	expect_from(&from, 0);
	expect_nothing_from(&from, 1);
	tsock_close(&from);
}

static void test_a_connected_socket_hears_its_peer_only(void **state)
{
	unsigned theirs = world_port();
	struct tsock peer = world_udp(1, theirs), other = world_udp(2, theirs);
	struct sockaddr unspec = {.sa_family = AF_UNSPEC};

	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), port), 0);
	world_connect(&ts, 1, theirs);
	assert_int_equal(count_flows(&ts), 1);
	expect_from(&peer, 0);
	expect_nothing_from(&other, 0);
	assert_int_equal(sock_ops_of(ts.ref.sk)->connect(ts.ref, &unspec, sizeof(unspec)), 0);
	expect_from(&other, 0);
	tsock_close(&peer);
	tsock_close(&other);
}

static enum verdict attach(uint32_t addr)
{
	struct inet_sock *so = tsock_inet(&ts);
	enum verdict verdict;

	so->local.addr = addr_v4(addr);
	so->local.port = htons((uint16_t)port);
	WORLD_LOCKED(verdict = sock_attach(so));
	return verdict;
}

static void test_why_a_socket_gets_no_flow(void **state)
{
	assert_int_equal(attach(htonl(INADDR_LOOPBACK)), VERDICT_LOOPBACK);
	assert_int_equal(attach(inet_addr("192.0.2.1")), VERDICT_INTERFACE); /* nobody has it */
	assert_int_equal(attach(inet_addr("239.1.1.1")), VERDICT_ACCELERATED);
	assert_int_equal(count_flows(&ts), 0);
	assert_ptr_equal(tsock_home(&ts), rings_nowhere());
}

/* ---- failures: nothing is left ------------------------------------------------------------ */

static bool all_are_foreign(const struct flow_key *key)
{
	return true;
}

static unsigned foreign_calls;

/* Another process has the second address. */
static bool one_is_foreign(const struct flow_key *key)
{
	struct inaddr addr = addr_v4(fake_link_addr(1));

	foreign_calls++;
	return addr_eq(&key->local, &addr);
}

static unsigned all_refs(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < rings_count(); i++)
		n += rings_at(i)->refs;
	return n;
}

/* A home, and each flow, keep their ring open: no more of them, and no longer. */
static void test_each_flow_has_a_reference_to_its_ring(void **state)
{
	unsigned refs = all_refs();

	assert_int_equal(attach(INADDR_ANY), VERDICT_ACCELERATED);
	assert_int_equal(all_refs(), refs + 1 + FAKE_LINK_ADDRS);
	WORLD_LOCKED(sock_flows_del(tsock_inet(&ts)));
	assert_int_equal(all_refs(), refs + 1);
	tsock_close(&ts);
	assert_int_equal(all_refs(), refs);
}

static void test_a_flow_that_another_process_has_is_refused(void **state)
{
	unsigned refs;

	assert_int_equal(attach(fake_link_addr(0)), VERDICT_ACCELERATED); /* it has a home now */
	WORLD_LOCKED(sock_flows_del(tsock_inet(&ts)));
	refs = all_refs();
	loop_port_share(all_are_foreign);
	assert_int_equal(attach(fake_link_addr(0)), VERDICT_FLOW);
	assert_int_equal(attach(INADDR_ANY), VERDICT_FLOW);
	assert_int_equal(count_flows(&ts), 0);
	assert_int_equal(all_refs(), refs);
	loop_port_share(NULL);
	assert_int_equal(attach(fake_link_addr(0)), VERDICT_ACCELERATED);
	assert_int_equal(count_flows(&ts), 1);
	assert_int_equal(all_refs(), refs + 1);
}

/* A wildcard socket is accelerated if one of its addresses is; the kernel has the others. */
static void test_one_address_of_several_may_be_taken(void **state)
{
	foreign_calls = 0;
	loop_port_share(one_is_foreign);
	assert_int_equal(attach(INADDR_ANY), VERDICT_ACCELERATED);
	assert_int_equal(foreign_calls, FAKE_LINK_ADDRS);
	assert_int_equal(count_flows(&ts), FAKE_LINK_ADDRS - 1);
}

static void test_a_ring_that_cannot_be_opened(void **state)
{
	assert_int_equal(tsock_set_logic(&ts, RING_LOGIC_USER_ID, 4711, true, true), 0);
	/* Without a ring at all: otherwise it would join one that is there. */
	assert_int_equal(loop_port_queues(), 0);
	loop_port_fail_opens(1000);
	assert_int_equal(attach(fake_link_addr(0)), VERDICT_PORT_FAILED);
	assert_int_equal(attach(INADDR_ANY), VERDICT_PORT_FAILED);
	assert_int_equal(count_flows(&ts), 0);
	assert_ptr_equal(tsock_home(&ts), rings_nowhere());
	loop_port_fail_opens(0);
	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), port), 0);
	WORLD_LOCKED(rings_interface_changed(FAKE_LINK_INDEX));
	assert_int_equal(attach(fake_link_addr(0)), VERDICT_ACCELERATED);
}

/* ---- one port, several receivers -------------------------------------------------------------- */

static bool all_got(struct tsock *both[2], unsigned got[2], unsigned n)
{
	char buf[8];

	for (unsigned i = 0; i < 2; i++)
		got[i] += tsock_recv(both[i], buf, sizeof(buf), 0) == 5;
	return got[0] + got[1] == n;
}

static void test_two_sockets_share_a_port_if_both_say_so(void **state)
{
	struct tsock second = tsock_udp(), from = world_udp(3, world_port());
	struct tsock *both[] = {&ts, &second};
	unsigned got[2] = {0, 0};

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(tsock_set_int(both[i], SOL_SOCKET, SO_REUSEPORT, 1), 0);
		assert_int_equal(tsock_bind(both[i], fake_link_addr(0), port), 0);
		assert_int_equal(count_flows(both[i]), 1);
	}
	/* By a hash of the sender: the same one for each of its datagrams. */
	for (unsigned i = 0; i < 8; i++)
		world_send(&from, 0, port, "share");
	assert_true(NET_WAIT(all_got(both, got, 8), WORLD_WAIT));
	assert_true(got[0] == 0 || got[1] == 0);
	/* The other one withdraws: this one gets all senders. */
	tsock_close(got[0] ? &ts : &second);
	world_send(&from, 0, port, "alone");
	world_expect(got[0] ? &second : &ts, "alone");
	tsock_close(&second);
	tsock_close(&from);
}

/* The option came after bind(): the flow has no receivers beside it, and gets them. */
static void test_an_option_that_is_set_late_shares_the_flow(void **state)
{
	struct inet_sock *so = tsock_inet(&ts);
	int rc;

	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), port), 0);
	assert_false(sock_flow_of(so->flows.next)->flow.shared);
	WORLD_LOCKED(rc = sock_flows_inherited(so));
	assert_int_equal(rc, 0);
	assert_true(sock_flow_of(so->flows.next)->flow.shared);
	WORLD_LOCKED(rc = sock_flows_share(so));
	assert_int_equal(rc, 0); /* it was done */
}

static void test_the_flow_of_one_peer_is_not_shared(void **state)
{
	struct inet_sock *so = tsock_inet(&ts);
	int rc;

	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), port), 0);
	world_connect(&ts, 1, world_port());
	WORLD_LOCKED(rc = sock_flows_share(so));
	assert_int_equal(rc, 0);
	assert_false(sock_flow_of(so->flows.next)->flow.shared);
}

/* ---- interfaces that go ------------------------------------------------------------------------ */

/* What links.c does with the rings when the sockets have left. */
static void retire_rings(void)
{
	assert_true(control_lock());
	for (unsigned i = 0; i < rings_count(); i++) {
		if (!ring_queue(rings_at(i)) || !ring_hold_cold(rings_at(i)))
			continue;
		ring_retire(rings_at(i));
		ring_release_cold(rings_at(i));
	}
	rings_interface_gone(FAKE_LINK_INDEX);
	control_unlock();
}

static void test_what_is_unread_outlives_the_interface(void **state)
{
	struct tsock from = world_udp(3, world_port());
	struct ring *ring;

	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), port), 0);
	world_send(&from, 0, port, "before");
	assert_true(NET_WAIT(sock_events(ts.ref.sk) & EPOLLIN, WORLD_WAIT));
	ring = tsock_home(&ts);
	WORLD_LOCKED(sock_detach_from(tsock_inet(&ts), FAKE_LINK_INDEX + 1));
	assert_ptr_equal(tsock_home(&ts), ring); /* another interface */
	WORLD_LOCKED(rings_interface_leaving(FAKE_LINK_INDEX);
		     sock_detach_from(tsock_inet(&ts), FAKE_LINK_INDEX));
	assert_int_equal(count_flows(&ts), 0);
	assert_ptr_equal(tsock_home(&ts), rings_nowhere());
	world_expect(&ts, "before");
	retire_rings();
	tsock_close(&from);
}

static void test_pollers_learn_of_each_change(void **state)
{
	uint32_t generation = sock_rings_generation();

	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), port), 0);
	assert_int_not_equal(sock_rings_generation(), generation);
	generation = sock_rings_generation();
	WORLD_LOCKED(sock_flows_del(tsock_inet(&ts)));
	assert_int_not_equal(sock_rings_generation(), generation);
	assert_int_equal(tsock_inet(&ts)->n_rings, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_one, end)

static const struct CMUnitTest tests[] = {
	CASE(test_a_ring_that_cannot_be_opened), /* first: there is no ring yet */
	CASE(test_a_wildcard_socket_has_a_flow_for_each_address_of_the_host),
	CASE(test_a_bound_socket_hears_its_address_only),
	CASE(test_a_connected_socket_hears_its_peer_only),
	CASE(test_why_a_socket_gets_no_flow),
	CASE(test_each_flow_has_a_reference_to_its_ring),
	CASE(test_a_flow_that_another_process_has_is_refused),
	CASE(test_one_address_of_several_may_be_taken),
	CASE(test_two_sockets_share_a_port_if_both_say_so),
	CASE(test_an_option_that_is_set_late_shares_the_flow),
	CASE(test_the_flow_of_one_peer_is_not_shared),
	CASE(test_pollers_learn_of_each_change),
	CASE(test_what_is_unread_outlives_the_interface), /* last: the rings of the others go */
};

VMA_TEST_MAIN("sock/core/sock_flow", tests, world_start, world_finish)
