/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/rings.h"

#include "base/mem.h"
#include "base/param.h"
#include "fake_port.h"

#define IFINDEX 4711 /* an interface that no test uses */

/* A port that records its life. */
struct told_port {
	struct port base; /* first */
	unsigned queues, queues_opened;
	bool freed;
};

static struct port_ops ops;
static struct told_port ports[4];
static unsigned opened;
static int open_error, queue_error; /* results of the next attempts */
static unsigned linger;		    /* of ports that are opened */

static int open_queue(struct port *port, struct port_queue **q, char why[PORT_WHY])
{
	struct told_port *told = container_of(port, struct told_port, base);

	assert_false(told->freed);
	if (queue_error) {
		snprintf(why, PORT_WHY, "no queue\n");
		return queue_error;
	}
	*q = fake_new(port, &ops);
	told->queues++;
	told->queues_opened++;
	return 0;
}

static void close_queue(struct port_queue *q)
{
	struct told_port *told = container_of(q->port, struct told_port, base);

	assert_false(told->freed); /* a port outlives its queues */
	told->queues--;
	fake_free(q);
}

static void free_port(struct port *port)
{
	struct told_port *told = container_of(port, struct told_port, base);

	assert_int_equal(told->queues, 0);
	assert_false(told->freed);
	told->freed = true;
}

static int open_port(int ifindex, struct port **port, char why[PORT_WHY])
{
	if (open_error) {
		snprintf(why, PORT_WHY, "no port\n");
		return open_error;
	}
	ports[opened] =
		(struct told_port){.base = {.ops = &ops, .ifindex = ifindex, .linger = linger}};
	*port = &ports[opened++].base;
	return 0;
}

static const struct port_kind kind = FAKE_KIND(open_port);
static const struct port_kind *const kinds[] = {&kind, NULL};

static int setup(void **state)
{
	clock_init();
	ops = fake_ops;
	ops.open_queue = open_queue;
	ops.close_queue = close_queue;
	ops.free_port = free_port;
	opened = 0;
	open_error = queue_error = 0;
	linger = 0;
	rings_init(kinds);
	return 0;
}

/* Rings are permanent, but not in this test. */
static void free_rings(void)
{
	for (unsigned i = 0; i < rings_count(); i++)
		mem_free(rings_at(i));
	rings_forget(false);
}

static int teardown(void **state)
{
	params.ring_limit = 0;
	rings_close_all();
	for (unsigned i = 0; i < opened; i++) {
		assert_int_equal(ports[i].queues, 0);
		assert_true(ports[i].freed);
	}
	free_rings();
	return 0;
}

static char why[PORT_WHY];
static bool fresh;

static struct ring *get(int ifindex, uint64_t key)
{
	struct ring *ring;

	assert_int_equal(rings_get(ifindex, key, &ring, why, &fresh), 0);
	return ring;
}

static int get_error(int ifindex, uint64_t key)
{
	struct ring *ring = NULL;
	int rc;

	why[0] = '\0';
	rc = rings_get(ifindex, key, &ring, why, &fresh);
	assert_null(ring);
	return rc;
}

static void test_equal_keys_share_a_ring(void **state)
{
	struct ring *ring = get(IFINDEX, 0);

	assert_ptr_equal(get(IFINDEX, 0), ring);
	assert_int_equal(rings_count(), 1);
	assert_ptr_equal(rings_at(0), ring);
	assert_int_equal(ports[0].queues_opened, 1);
}

static void test_other_keys_are_other_rings_of_one_port(void **state)
{
	struct ring *a = get(IFINDEX, 0), *b = get(IFINDEX, 1);

	assert_ptr_not_equal(a, b);
	assert_int_equal(opened, 1);
	assert_ptr_equal(a->q->port, b->q->port);
	assert_int_equal(rings_count(), 2);
}

static void test_other_interfaces_are_other_ports(void **state)
{
	struct ring *a = get(IFINDEX, 0), *b = get(IFINDEX + 1, 0);

	assert_int_equal(opened, 2);
	assert_int_equal(a->q->port->ifindex, IFINDEX);
	assert_int_equal(b->q->port->ifindex, IFINDEX + 1);
}

static void test_a_port_that_fails_is_tried_and_told_once(void **state)
{
	open_error = -EPERM;
	assert_int_equal(get_error(IFINDEX, 0), -EPERM);
	assert_true(fresh);
	assert_string_equal(why, "no port\n");
	open_error = 0;
	assert_int_equal(get_error(IFINDEX, 0), -EPERM); /* the result is remembered */
	assert_false(fresh);
	assert_int_equal(rings_count(), 0);
	rings_interface_changed(IFINDEX + 1);
	assert_int_equal(get_error(IFINDEX, 0), -EPERM);
	rings_interface_changed(IFINDEX);
	get(IFINDEX, 0);
	assert_int_equal(opened, 1);
}

static void test_a_port_without_a_queue_is_given_back(void **state)
{
	queue_error = -EBUSY;
	assert_int_equal(get_error(IFINDEX, 0), -EBUSY);
	assert_true(fresh);
	assert_string_equal(why, "no queue\n");
	assert_true(ports[0].freed);
	queue_error = 0;
	assert_int_equal(get_error(IFINDEX, 0), -EBUSY);
	assert_false(fresh);
	rings_interface_changed(IFINDEX);
	get(IFINDEX, 0);
}

/* More rings than the interface supports: from then on this number is the limit. */
static void test_a_second_queue_that_fails_makes_sockets_share_the_first(void **state)
{
	struct ring *ring = get(IFINDEX, 0);

	queue_error = -ENOSPC;
	assert_ptr_equal(get(IFINDEX, 1), ring);
	assert_false(ports[0].freed);
	queue_error = 0;
	assert_ptr_equal(get(IFINDEX, 2), ring);
	assert_int_equal(ports[0].queues_opened, 1); /* the port is not asked again and again */
	assert_ptr_not_equal(get(IFINDEX + 1, 1), ring);
}

static void test_past_the_limit_the_ring_with_the_fewest_users_is_shared(void **state)
{
	struct ring *a, *b;

	params.ring_limit = 2;
	a = get(IFINDEX, 1);
	b = get(IFINDEX, 2);
	ring_get(a);
	assert_ptr_equal(get(IFINDEX, 3), b);
	ring_get(b);
	ring_get(b);
	assert_ptr_equal(get(IFINDEX, 3), a);
	assert_ptr_equal(get(IFINDEX, 2), b); /* a key with a ring keeps it */
	assert_int_equal(ports[0].queues_opened, 2);
	get(IFINDEX + 1, 3); /* each interface has its own limit */
	assert_int_equal(ports[1].queues_opened, 1);
}

#define LONG (2 * NSEC_PER_SEC)

static void test_an_unused_ring_is_closed_after_a_while(void **state)
{
	struct ring *a = get(IFINDEX, 1), *b = get(IFINDEX, 2);
	nsec_t now = clock_now();

	ring_get(a);
	assert_false(rings_close_unused(now, NULL)); /* not at once: a socket may need it again */
	assert_false(rings_close_unused(now + NSEC_PER_MSEC, NULL));
	assert_true(rings_close_unused(now + LONG, NULL));
	assert_non_null(a->q);
	assert_null(b->q);
	assert_int_equal(ports[0].queues, 1);
	assert_false(ports[0].freed);
	ring_put(a);
	assert_false(rings_close_unused(now + LONG, NULL));
	ring_get(a); /* a socket needed it again */
	assert_false(rings_close_unused(now + 2 * LONG, NULL));
	ring_put(a);
	assert_false(rings_close_unused(now + 2 * LONG, NULL));
	assert_true(rings_close_unused(now + 3 * LONG, NULL));
	assert_int_equal(ports[0].queues, 0);
	assert_true(ports[0].freed); /* the port has released the interface */
}

static void test_a_port_without_rings_stays_for_a_while(void **state)
{
	nsec_t now = clock_now();

	linger = 10;
	get(IFINDEX, 1);
	rings_close_unused(now, NULL);
	assert_true(rings_close_unused(now + LONG, NULL));
	assert_int_equal(ports[0].queues, 0);
	rings_close_unused(now + LONG + 9 * NSEC_PER_SEC, NULL);
	assert_false(ports[0].freed);
	get(IFINDEX, 2); /* a socket needed it again: the port is the same */
	assert_int_equal(opened, 1);
	rings_close_unused(now + 100 * NSEC_PER_SEC, NULL);
	assert_true(rings_close_unused(now + 102 * NSEC_PER_SEC, NULL));
	rings_close_unused(now + 111 * NSEC_PER_SEC, NULL);
	assert_false(ports[0].freed);
	rings_close_unused(now + 112 * NSEC_PER_SEC, NULL);
	assert_true(ports[0].freed);
}

static bool needed;

static bool is_needed(struct port *port)
{
	return needed;
}

/* Other processes could not let this one in again. */
static void test_a_port_that_others_need_stays(void **state)
{
	nsec_t now = clock_now();

	ops.is_needed = is_needed;
	get(IFINDEX, 1);
	rings_close_unused(now, NULL);
	needed = true;
	assert_true(rings_close_unused(now + LONG, NULL));
	rings_close_unused(now + 1000 * NSEC_PER_SEC, NULL);
	assert_int_equal(ports[0].queues, 0);
	assert_false(ports[0].freed);
	needed = false;
	rings_close_unused(now + 1001 * NSEC_PER_SEC, NULL);
	assert_true(ports[0].freed);
}

static void test_a_lingering_port_that_opens_no_ring_is_let_go(void **state)
{
	struct ring *ring;
	nsec_t now = clock_now();

	linger = 10;
	get(IFINDEX, 1);
	rings_close_unused(now, NULL);
	assert_true(rings_close_unused(now + LONG, NULL));
	queue_error = -EBUSY;
	assert_int_equal(rings_get(IFINDEX, 1, &ring, why, &fresh), -EBUSY);
	assert_true(ports[0].freed);
	rings_close_unused(now + 100 * NSEC_PER_SEC, NULL);
}

static void test_a_ring_with_packets_in_use_is_not_closed(void **state)
{
	struct ring *ring = get(IFINDEX, 1);
	nsec_t now = clock_now();
	struct pkt *pkt;

	assert_true(ring_hold(ring, ring_mode));
	pkt = ring_tx_get(ring);
	ring_release(ring, ring_mode);
	assert_false(rings_close_unused(now, NULL));
	assert_false(rings_close_unused(now + LONG, NULL));
	assert_true(ring_hold(ring, ring_mode));
	pkt_free(pkt);
	ring_release(ring, ring_mode);
	assert_true(rings_close_unused(now + 2 * LONG, NULL));
}

static void test_a_closed_ring_is_used_again(void **state)
{
	struct ring *ring = get(IFINDEX, 1), *again;
	nsec_t now = clock_now();

	rings_close_unused(now, NULL);
	assert_true(rings_close_unused(now + LONG, NULL));
	again = get(IFINDEX + 1, 7);
	assert_ptr_equal(again, ring); /* the memory is used for rings only */
	assert_int_equal(rings_count(), 1);
	assert_int_equal(again->ifindex, IFINDEX + 1);
	assert_int_equal(again->key, 7);
	assert_false(rings_close_unused(now + LONG, NULL));
}

static void test_a_port_that_was_lost_is_told_of_and_opened_anew(void **state)
{
	struct ring *ring = get(IFINDEX, 1);

	get(IFINDEX + 1, 1);
	assert_int_equal(rings_lost(), 0);
	ports[0].base.lost = true;
	assert_int_equal(rings_lost(), IFINDEX);
	assert_int_equal(rings_lost(), IFINDEX); /* until something on the host changed */
	assert_true(ring_hold(ring, ring_mode));
	ring_retire(ring);
	ring_release(ring, ring_mode);
	rings_interface_gone(IFINDEX);
	assert_int_equal(rings_lost(), 0);
	assert_true(ports[0].freed);
	assert_false(ports[1].freed);
	get(IFINDEX, 1);
	assert_int_equal(opened, 3);
	ports[0].base.lost = false;
}

static void test_the_ring_with_a_flow_is_found(void **state)
{
	struct ring *a = get(IFINDEX, 1), *b = get(IFINDEX, 2);
	struct flow flow = {.key = {.local_port = 1, .proto = 17}};

	assert_null(rings_find_flow(IFINDEX, &flow.key));
	assert_true(ring_hold(b, ring_mode));
	assert_int_equal(ring_flow_add(b, &flow), 0);
	ring_release(b, ring_mode);
	assert_ptr_equal(rings_find_flow(IFINDEX, &flow.key), b);
	assert_null(rings_find_flow(IFINDEX + 1, &flow.key));
	assert_true(ring_hold(b, ring_mode));
	ring_flow_del(b, &flow);
	ring_release(b, ring_mode);
	assert_null(rings_find_flow(IFINDEX, &flow.key));
	(void)a;
}

static void test_an_interface_that_changes_keeps_a_port_that_works(void **state)
{
	struct ring *ring = get(IFINDEX, 0);

	rings_interface_changed(IFINDEX);
	assert_ptr_equal(get(IFINDEX, 0), ring);
	assert_int_equal(opened, 1);
	assert_false(ports[0].freed);
}

static void test_too_many_interfaces_are_refused(void **state)
{
	open_error = -EPERM;
	for (int i = 0; i < 64; i++)
		assert_int_equal(get_error(IFINDEX + i, 0), -EPERM);
	assert_int_equal(get_error(IFINDEX + 64, 0), -ENOSPC);
	assert_true(strstr(why, "64 interfaces") != NULL);
	rings_interface_changed(IFINDEX + 63);
	assert_int_equal(get_error(IFINDEX + 64, 0), -EPERM);
}

static void test_a_ring_that_was_closed_can_still_be_held(void **state)
{
	struct ring *ring = get(IFINDEX, 0);

	rings_close_all();
	assert_int_equal(ports[0].queues, 0);
	assert_true(ports[0].freed);
	assert_true(ring_hold(ring, ring_mode));
	assert_int_equal(ring_poll(ring), 0);
	assert_null(ring_tx_get(ring));
	ring_release(ring, ring_mode);
}

static void test_a_child_forgets_the_rings_of_its_parent(void **state)
{
	struct ring *of_parent = get(IFINDEX, 0);

	rings_forget(false);
	assert_int_equal(rings_count(), 0);
	assert_false(ports[0].freed); /* the parent handles it */
	get(IFINDEX, 0);
	assert_int_equal(opened, 2); /* the child opens its own port */
	close_queue(of_parent->q);
	free_port(&ports[0].base);
	mem_free(of_parent);
}

static void test_nowhere_is_a_ring_without_a_port(void **state)
{
	struct ring *ring = rings_nowhere();

	assert_null(ring->q);
	assert_int_equal(rings_count(), 0);
	assert_true(ring_hold(ring, ring_mode));
	ring_release(ring, ring_mode);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_equal_keys_share_a_ring),
	TEST(test_other_keys_are_other_rings_of_one_port),
	TEST(test_other_interfaces_are_other_ports),
	TEST(test_a_port_that_fails_is_tried_and_told_once),
	TEST(test_a_port_without_a_queue_is_given_back),
	TEST(test_a_second_queue_that_fails_makes_sockets_share_the_first),
	TEST(test_past_the_limit_the_ring_with_the_fewest_users_is_shared),
	TEST(test_an_unused_ring_is_closed_after_a_while),
	TEST(test_a_port_without_rings_stays_for_a_while),
	TEST(test_a_port_that_others_need_stays),
	TEST(test_a_lingering_port_that_opens_no_ring_is_let_go),
	TEST(test_a_ring_with_packets_in_use_is_not_closed),
	TEST(test_a_closed_ring_is_used_again),
	TEST(test_a_port_that_was_lost_is_told_of_and_opened_anew),
	TEST(test_the_ring_with_a_flow_is_found),
	TEST(test_an_interface_that_changes_keeps_a_port_that_works),
	TEST(test_too_many_interfaces_are_refused),
	TEST(test_a_ring_that_was_closed_can_still_be_held),
	TEST(test_a_child_forgets_the_rings_of_its_parent),
	TEST(test_nowhere_is_a_ring_without_a_port),
};

VMA_TEST_MAIN("rings", tests, NULL, NULL)
