/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/dst.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/param.h"
#include "sock/core/control.h"
#include "sock/core/inet_sock.h"
#include "tests/unit/sock/core/loop_ring.h"

#define IFINDEX 7
#define QUEUES 2

/* ---- an invented network, in place of the kernel and of the other modules of sock ------------ */

static struct route route;
static struct link interface;
static enum neigh_state neighbour;
static uint8_t neighbour_mac[6];
static unsigned resolved;	  /* calls of neigh_use() */
static bool resolves_at_once;	  /* the kernel answers before neigh_use() returns */
static uint64_t asked_key;	  /* of sock_ring_for() */
static struct ring *assigned;	  /* its result */
static enum verdict link_verdict; /* of sock_link_verdict() */

static uint32_t held_until;   /* netlink_still() says so */
static uint32_t held_since;   /* it was asked for this generation ... */
static struct inaddr held_to; /* ... and destination */

uint32_t __wrap_netlink_still(uint32_t since, const struct inaddr *addr);
uint32_t __wrap_netlink_still(uint32_t since, const struct inaddr *addr)
{
	held_since = since;
	held_to = *addr;
	return since ? held_until : 0;
}

int __wrap_route_get(const struct route_query *query, struct route *found);
int __wrap_route_get(const struct route_query *query, struct route *found)
{
	(void)query;
	*found = route;
	return route.ifindex ? 0 : -ENETUNREACH;
}

int __wrap_link_get(int ifindex, struct link *link);
int __wrap_link_get(int ifindex, struct link *link)
{
	*link = interface;
	return ifindex == IFINDEX ? 0 : -ENODEV;
}

enum neigh_state __wrap_neigh_get(int ifindex, const struct inaddr *addr, uint8_t mac[6]);
enum neigh_state __wrap_neigh_get(int ifindex, const struct inaddr *addr, uint8_t mac[6])
{
	(void)ifindex;
	(void)addr;
	memcpy(mac, neighbour_mac, 6);
	return neighbour;
}

int __wrap_neigh_use(int ifindex, const struct inaddr *addr);
int __wrap_neigh_use(int ifindex, const struct inaddr *addr)
{
	(void)ifindex;
	(void)addr;
	resolved++;
	if (resolves_at_once)
		neighbour = NEIGH_REACHABLE;
	return 0;
}

enum verdict __wrap_sock_link_verdict(const struct link *link);
enum verdict __wrap_sock_link_verdict(const struct link *link)
{
	(void)link;
	return link_verdict;
}

struct ring *__wrap_sock_ring_for(int ifindex, uint64_t key);
struct ring *__wrap_sock_ring_for(int ifindex, uint64_t key)
{
	assert_int_equal(ifindex, IFINDEX);
	asked_key = key;
	return assigned;
}

/* ---- two rings of one port ------------------------------------------------------------------- */

static struct port *port;
static struct ring *rings[QUEUES];
static struct dst dst;
static const struct dst_headers headers = {.proto = IPPROTO_UDP, .ttl = 64};

static struct inaddr v4(const char *text)
{
	return addr_v4(inet_addr(text));
}

static struct dst_query to(const char *text)
{
	return (struct dst_query){.to = {.addr = v4(text), .port = htons(4000)}, .key = 5};
}

static int set_up(void **state)
{
	(void)state;
	port = loop_ring_port();
	for (unsigned i = 0; i < QUEUES; i++)
		rings[i] = loop_ring_open(port, i);
	route = (struct route){.type = ROUTE_UNICAST, .ifindex = IFINDEX, .src = v4("10.0.0.1")};
	interface = (struct link){.ifindex = IFINDEX, .mtu = 1500, .up = true, .ethernet = true};
	neighbour = NEIGH_REACHABLE;
	memcpy(neighbour_mac, "\x02\0\0\0\0\x09", 6);
	netlink_generation_now++;
	held_until = 0;
	resolved = 0;
	resolves_at_once = false;
	assigned = rings[0];
	link_verdict = VERDICT_ACCELERATED;
	params.mtu = 0;
	dst_init(&dst);
	return control_lock() ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	control_unlock();
	assert_true(ring_hold(rings[0], HOLD_YIELD));
	dst_fini(&dst);
	ring_release(rings[0], HOLD_YIELD);
	assert_int_equal(dst_unroutable_count, 0);
	for (unsigned i = 0; i < QUEUES; i++) {
		assert_true(ring_hold(rings[i], HOLD_YIELD));
		assert_int_equal(rings[i]->refs, 0);
		loop_ring_close(rings[i]);
	}
	port->ops->free_port(port);
	return 0;
}

static struct dst_found find(const struct dst_query *query)
{
	struct dst_found found;

	dst_find(query, &found);
	return found;
}

/* Finds the way to 10.0.0.2 and uses it from ring 0. */
static void use(void)
{
	struct dst_query query = to("10.0.0.2");
	struct dst_found found = find(&query);

	assert_int_equal(found.verdict, VERDICT_ACCELERATED);
	assert_true(ring_hold(rings[0], HOLD_YIELD));
	assert_int_equal(dst_apply(&dst, rings[0], &query.to, &found, &headers), 0);
	ring_release(rings[0], HOLD_YIELD);
	dst_resolve_neighbour(&found);
}

/* A frame from ring 0 to the destination; the result of dst_send(). */
static int send_one(void)
{
	struct pkt *pkt;
	int rc;

	assert_true(ring_hold(rings[0], HOLD_YIELD));
	pkt = ring_tx_get(rings[0]);
	assert_non_null(pkt);
	memset(pkt->frame, 0, 60);
	memcpy(pkt->frame, neighbour_mac, 6);
	pkt->frame_len = 60;
	rc = dst_send(&dst, rings[0], pkt);
	ring_release(rings[0], HOLD_YIELD);
	return rc;
}

/* ---- dst_find() ------------------------------------------------------------------------------ */

static void test_each_way_that_is_the_kernels_says_why(void **state)
{
	struct dst_query query = to("127.0.0.1");

	(void)state;
	assert_int_equal(find(&query).verdict, VERDICT_LOOPBACK);
	query = to("0.0.0.0");
	assert_int_equal(find(&query).verdict, VERDICT_LOOPBACK);
	query = to("255.255.255.255");
	assert_int_equal(find(&query).verdict, VERDICT_BROADCAST);
	query = to("10.0.0.2");
	route.type = ROUTE_LOCAL;
	assert_int_equal(find(&query).verdict, VERDICT_LOOPBACK);
	route.type = ROUTE_BROADCAST;
	assert_int_equal(find(&query).verdict, VERDICT_BROADCAST);
	route.type = ROUTE_OTHER;
	assert_int_equal(find(&query).verdict, VERDICT_INTERFACE);
	route.type = ROUTE_UNICAST;
	link_verdict = VERDICT_DENIED;
	assert_int_equal(find(&query).verdict, VERDICT_DENIED);
	link_verdict = VERDICT_ACCELERATED;
	assigned = NULL;
	assert_int_equal(find(&query).verdict, VERDICT_PORT_FAILED);
	route.ifindex = 0;
	assert_int_equal(find(&query).verdict, VERDICT_NO_ROUTE);
}

static void test_without_routing_no_gateway_is_used(void **state)
{
	struct dst_query query = to("192.0.2.1");
	struct inaddr gateway = v4("10.0.0.254"), found;

	(void)state;
	route.gateway = gateway;
	found = find(&query).nexthop;
	assert_true(addr_eq(&found, &gateway));
	query.onlink = true;
	assert_int_equal(find(&query).verdict, VERDICT_NO_ROUTE);
}

static void test_the_smallest_mtu_counts(void **state)
{
	struct dst_query query = to("10.0.0.2");

	(void)state;
	assert_int_equal(find(&query).mtu, 1500);
	interface.mtu = 9000; /* grew after the port was opened */
	assert_int_equal(find(&query).mtu, 1500);
	route.mtu = 1400;
	assert_int_equal(find(&query).mtu, 1400);
	interface.mtu = 1300;
	assert_int_equal(find(&query).mtu, 1300);
	params.mtu = 1200;
	assert_int_equal(find(&query).mtu, 1200);
}

static void test_the_source_is_the_programs_or_the_routes(void **state)
{
	struct dst_query query = to("10.0.0.2");
	struct inaddr own = v4("10.0.0.77"), found;

	(void)state;
	found = find(&query).src;
	assert_true(addr_eq(&found, &route.src));
	query.src = own;
	found = find(&query).src;
	assert_true(addr_eq(&found, &own));
}

static void test_the_key_selects_the_ring(void **state)
{
	struct dst_query query = to("10.0.0.2");
	uint64_t of_first, of_second;

	(void)state;
	find(&query);
	assert_int_equal(asked_key, 5);
	query.alloc.logic = RING_LOGIC_IP;
	find(&query);
	of_first = asked_key;
	query.src = v4("10.0.0.77");
	find(&query);
	of_second = asked_key;
	assert_int_not_equal(of_first, of_second);
	/* The address that the route chose selects as the same address chosen by the program. */
	query.src = route.src;
	find(&query);
	assert_int_equal(asked_key, of_first);
}

static void test_a_group_has_its_own_link_address(void **state)
{
	struct dst_query query = to("239.129.2.3");
	struct dst_found found = find(&query);

	(void)state;
	assert_int_equal(found.verdict, VERDICT_ACCELERATED);
	assert_int_equal(found.neigh, NEIGH_REACHABLE);
	assert_memory_equal(found.mac, "\x01\x00\x5e\x01\x02\x03", 6);
	assert_true(addr_eq(&found.nexthop, &query.to.addr));
}

/* ---- its use --------------------------------------------------------------------------------- */

static void test_a_change_of_the_network_makes_it_stale(void **state)
{
	(void)state;
	assert_false(dst_fresh(&dst));
	use();
	assert_true(dst_fresh(&dst));
	netlink_generation_now++;
	assert_false(dst_fresh(&dst));
	use();
	dst_expire(&dst);
	assert_false(dst_fresh(&dst));
}

/* The kernel's routes to other destinations changed. */
static void test_a_change_of_other_routes_does_not(void **state)
{
	struct inaddr destination = v4("10.0.0.2");
	uint32_t since;

	(void)state;
	use();
	since = netlink_generation_now;
	netlink_generation_now += 3;
	held_until = netlink_generation_now;
	assert_true(dst_fresh(&dst));
	assert_int_equal(held_since, since);
	assert_true(addr_eq(&held_to, &destination));
	/* From here on it counts from there. */
	held_until = 0;
	assert_true(dst_fresh(&dst));
	netlink_generation_now++;
	assert_false(dst_fresh(&dst));
	/* What was never found, or shall be found again, is not asked for. */
	use();
	held_until = netlink_generation_now;
	dst_expire(&dst);
	assert_false(dst_fresh(&dst));
}

static void test_a_change_while_it_is_found_counts(void **state)
{
	struct dst_query query = to("10.0.0.2");
	struct dst_found found = find(&query);

	(void)state;
	netlink_generation_now++; /* after the tables were read, before the result is used */
	assert_true(ring_hold(rings[0], HOLD_YIELD));
	assert_int_equal(dst_apply(&dst, rings[0], &query.to, &found, &headers), 0);
	ring_release(rings[0], HOLD_YIELD);
	assert_false(dst_fresh(&dst));
}

static void test_a_neighbour_that_fails_makes_it_stale(void **state)
{
	struct inaddr nexthop = v4("10.0.0.2");

	(void)state;
	use();
	assert_int_equal(resolved, 0);
	ring_neigh_changed(rings[0], &nexthop, NEIGH_FAILED, NULL);
	assert_false(dst_fresh(&dst));
	/* Found again, the kernel is asked, because it does not know the neighbour either. */
	neighbour = NEIGH_FAILED;
	use();
	assert_int_equal(resolved, 1);
	assert_true(dst_fresh(&dst));
}

static void test_a_frame_waits_for_the_neighbour(void **state)
{
	struct inaddr nexthop = v4("10.0.0.2");

	(void)state;
	neighbour = NEIGH_UNKNOWN;
	use();
	assert_int_equal(resolved, 1);
	assert_int_equal(send_one(), 0);
	assert_int_equal(dst.adj->pending, 1);
	ring_neigh_changed(rings[0], &nexthop, NEIGH_REACHABLE, neighbour_mac);
	assert_int_equal(dst.adj->pending, 0);
}

static void test_an_answer_that_comes_at_once_is_not_lost(void **state)
{
	(void)state;
	neighbour = NEIGH_UNKNOWN;
	resolves_at_once = true;
	use();
	assert_int_equal(dst.adj->state, NEIGH_REACHABLE);
	assert_memory_equal(dst.adj->mac, neighbour_mac, 6);
}

static void test_without_a_route_frames_are_dropped_and_counted(void **state)
{
	(void)state;
	use();
	assert_true(ring_hold(rings[0], HOLD_YIELD));
	dst_set_unroutable(&dst);
	dst_set_unroutable(&dst);
	ring_release(rings[0], HOLD_YIELD);
	assert_int_equal(dst_unroutable_count, 1);
	assert_int_equal(send_one(), 0);
	assert_int_equal(rings[0]->stats.drops[DROP_NO_ROUTE], 1);
	use(); /* the route is back */
	assert_int_equal(dst_unroutable_count, 0);
	assert_int_equal(send_one(), 0);
	assert_int_equal(rings[0]->stats.drops[DROP_NO_ROUTE], 1);
}

static void test_a_destination_of_another_ring_gets_a_copy(void **state)
{
	uint64_t sent;

	(void)state;
	assigned = rings[1];
	use();
	assert_null(dst.adj); /* that is the other ring's */
	assert_int_equal(rings[1]->refs, 1);
	sent = rings[1]->stats.tx_frames;
	assert_int_equal(send_one(), 0);
	assert_int_equal(rings[1]->stats.tx_frames, sent + 1);
	assert_int_equal(rings[0]->stats.tx_frames, 0);
}

/* The answer comes before the first frame is posted there. */
static void test_another_ring_gets_the_answer_too(void **state)
{
	struct inaddr nexthop = v4("10.0.0.2");
	struct adj *adj;

	(void)state;
	assigned = rings[1];
	neighbour = NEIGH_UNKNOWN;
	use();
	ring_neigh_changed(rings[1], &nexthop, NEIGH_REACHABLE, neighbour_mac);
	adj = adj_find(&rings[1]->adjs, &nexthop);
	assert_non_null(adj);
	assert_int_equal(adj->state, NEIGH_REACHABLE);
}

static void test_it_moves_with_its_socket(void **state)
{
	(void)state;
	use();
	assert_true(ring_hold(rings[0], HOLD_YIELD));
	dst_detach(&dst);
	ring_release(rings[0], HOLD_YIELD);
	assert_true(ring_hold(rings[1], HOLD_YIELD));
	dst_rebind(&dst, rings[0], rings[1]);
	ring_release(rings[1], HOLD_YIELD);
	assert_ptr_equal(dst.ring, rings[1]);
	assert_int_equal(rings[0]->refs, 0);
	assert_int_equal(rings[1]->refs, 1);
	assert_false(dst_fresh(&dst)); /* the new ring looks for the way itself */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	CASE(test_each_way_that_is_the_kernels_says_why),
	CASE(test_without_routing_no_gateway_is_used),
	CASE(test_the_smallest_mtu_counts),
	CASE(test_the_source_is_the_programs_or_the_routes),
	CASE(test_the_key_selects_the_ring),
	CASE(test_a_group_has_its_own_link_address),
	CASE(test_a_change_of_the_network_makes_it_stale),
	CASE(test_a_change_of_other_routes_does_not),
	CASE(test_a_change_while_it_is_found_counts),
	CASE(test_a_neighbour_that_fails_makes_it_stale),
	CASE(test_a_frame_waits_for_the_neighbour),
	CASE(test_an_answer_that_comes_at_once_is_not_lost),
	CASE(test_without_a_route_frames_are_dropped_and_counted),
	CASE(test_a_destination_of_another_ring_gets_a_copy),
	CASE(test_another_ring_gets_the_answer_too),
	CASE(test_it_moves_with_its_socket),
};

VMA_TEST_MAIN("dst", tests, NULL, NULL)
