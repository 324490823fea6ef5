/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/quarantine.h"

#include <arpa/inet.h>

#include "tests/unit/sock/core/loop_ring.h"
#include "tests/unit/sock/core/no_memory.h"
#include "tests/vma_test.h"

static struct port *port;
static struct ring *ring;
static struct flow flow;
static unsigned delivered, forwarded;
static bool forwards = true;

static enum drop deliver(struct ring *r, struct flow *f, struct pkt *pkt, nsec_t now)
{
	delivered++;
	pkt_free(pkt);
	return DROP_NONE;
}

static bool forward(uint64_t channel, uint64_t id, const struct pkt *pkt)
{
	assert_int_equal(channel, 5);
	assert_int_equal(id, 7);
	assert_non_null(pkt);
	forwarded += forwards;
	return forwards;
}

static int set_up(void **state)
{
	(void)state;
	port = loop_ring_port();
	ring = loop_ring_open(port, 0);
	assert_true(ring_hold(ring, HOLD_YIELD));
	memset(&flow, 0, sizeof(flow));
	flow.key.local = addr_v4(inet_addr("10.0.0.1"));
	flow.key.remote = addr_v4(inet_addr("10.0.0.2"));
	flow.key.local_port = htons(1000);
	flow.key.remote_port = htons(2000);
	flow.key.proto = IPPROTO_TCP;
	flow.deliver = deliver;
	assert_int_equal(ring_flow_add(ring, &flow), 0);
	delivered = forwarded = 0;
	forwards = true;
	memory_left = -1;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	memory_left = -1;
	if (flow.listed)
		ring_flow_del(ring, &flow);
	wheel_run(&ring->wheel, clock_now() + 2 * QUARANTINE_MAX);
	assert_null(flow_lookup(&ring->flows, &flow.key)); /* it ended, and its flow went */
	assert_int_equal(ring->parting, 0);
	loop_ring_close(ring);
	port->ops->free_port(port);
	return 0;
}

/* A frame for the flow's key, as the ring delivers it. */
static enum drop arrive(void)
{
	struct flow *to = flow_lookup(&ring->flows, &flow.key);
	struct pkt *pkt = pkt_blank(100);
	enum drop drop;

	assert_non_null(to);
	drop = to->deliver(ring, to, pkt, clock_now());
	if (drop != DROP_NONE)
		pkt_free(pkt);
	return drop;
}

static void test_late_frames_are_dropped(void **state)
{
	(void)state;
	assert_true(quarantine_replace(ring, &flow, QUARANTINE_TIME));
	assert_false(flow.listed);
	assert_int_equal(arrive(), DROP_SOCK_EXPORTED);
	assert_int_equal(delivered, 0);
}

static void test_without_memory_the_flow_stays(void **state)
{
	(void)state;
	memory_left = 0;
	assert_null(quarantine_create(ring));
	assert_false(quarantine_replace(ring, &flow, QUARANTINE_TIME));
	memory_left = -1;
	assert_true(flow.listed);
	assert_int_equal(arrive(), DROP_NONE);
	assert_int_equal(delivered, 1);
}

/* A sender that never stops does not fill the channel. */
static void test_so_many_are_forwarded_and_no_more(void **state)
{
	struct quarantine *quarantine = quarantine_create(ring);

	(void)state;
	quarantine_forward(quarantine, forward, 5, 7);
	quarantine_begin(quarantine, &flow);
	for (unsigned i = 0; i < QUARANTINE_LATE_MAX; i++)
		assert_int_equal(arrive(), DROP_NONE);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(arrive(), DROP_SOCK_EXPORTED);
	assert_int_equal(forwarded, QUARANTINE_LATE_MAX);
	assert_int_equal(delivered, 0);
}

static void test_what_cannot_be_forwarded_is_dropped(void **state)
{
	struct quarantine *quarantine = quarantine_create(ring);

	(void)state;
	quarantine_forward(quarantine, forward, 5, 7);
	quarantine_begin(quarantine, &flow);
	forwards = false;
	assert_int_equal(arrive(), DROP_SOCK_EXPORTED);
	forwards = true;
	assert_int_equal(arrive(), DROP_NONE);
	assert_int_equal(forwarded, 1);
}

/* ---- ports whose entry stays when another process takes the flow ------------------------- */

static unsigned looks, looks_over;
static bool is_elsewhere;

static bool part_flow(struct port_queue *q, const struct flow_key *key, bool over)
{
	assert_ptr_equal(q, ring->q);
	assert_true(flow_key_eq(key, &flow.key));
	looks++;
	looks_over += over;
	return is_elsewhere || over;
}

/* The ring's port has an entry for each process. */
static void part_from_it(void)
{
	static struct port_ops ops;
	struct quarantine *quarantine = quarantine_create(ring);

	ops = *ring->ops;
	ops.part_flow = part_flow;
	ring->ops = &ops;
	looks = looks_over = 0;
	is_elsewhere = false;
	quarantine_forward(quarantine, forward, 5, 7);
	quarantine_begin(quarantine, &flow);
	assert_int_equal(looks, 1);
}

static void let_pass(nsec_t time)
{
	ring->now = clock_now() + time;
	wheel_run(&ring->wheel, ring->now);
}

static void test_the_entry_goes_when_another_process_has_the_flow(void **state)
{
	(void)state;
	part_from_it();
	let_pass(QUARANTINE_TIME / 4);
	assert_true(looks > 1);
	is_elsewhere = true;
	let_pass(QUARANTINE_TIME / 2);
	looks = 0;
	assert_int_equal(arrive(), DROP_NONE); /* late */
	let_pass(2 * QUARANTINE_TIME);
	assert_int_equal(looks, 0);
	assert_int_equal(looks_over, 0);
}

static void test_a_late_frame_is_a_reason_to_look(void **state)
{
	(void)state;
	part_from_it();
	is_elsewhere = true;
	assert_int_equal(arrive(), DROP_NONE);
	assert_int_equal(looks, 2);
	assert_int_equal(arrive(), DROP_NONE);
	assert_int_equal(looks, 2);
}

/* The other process has no processor until then, or ends. */
static void test_the_entry_goes_in_any_case_at_the_end(void **state)
{
	(void)state;
	part_from_it();
	let_pass(QUARANTINE_MAX - QUARANTINE_TIME / 4);
	assert_int_equal(looks_over, 0);
	assert_int_equal(ring->parting, 1);
	assert_int_equal(arrive(), DROP_NONE);
	let_pass(QUARANTINE_MAX + QUARANTINE_TIME);
	assert_int_equal(looks_over, 1);
}

static void test_it_goes_on_until_another_process_has_the_flow(void **state)
{
	(void)state;
	part_from_it();
	let_pass(2 * QUARANTINE_TIME + QUARANTINE_TIME / 4);
	assert_int_equal(arrive(), DROP_NONE);
	is_elsewhere = true;
	let_pass(3 * QUARANTINE_TIME + QUARANTINE_TIME / 4);
	assert_int_equal(looks_over, 0);
	assert_null(flow_lookup(&ring->flows, &flow.key));
}

static void test_a_flow_that_came_back_keeps_the_entry(void **state)
{
	(void)state;
	part_from_it();
	assert_int_equal(ring_flow_take(ring, &flow), 0);
	let_pass(2 * QUARANTINE_TIME);
	assert_int_equal(looks, 1);
	assert_int_equal(arrive(), DROP_NONE);
	assert_int_equal(delivered, 1);
}

/* There the other process replaces the entry. */
static void test_also_where_processes_share_entries(void **state)
{
	(void)state;
	port->can.shared_steering = true;
	part_from_it();
	assert_int_equal(ring->parting, 1);
	is_elsewhere = true;
	assert_int_equal(arrive(), DROP_NONE);
	assert_int_equal(ring->parting, 0);
}

static void test_a_flow_without_an_entry_has_parted(void **state)
{
	struct quarantine *quarantine = quarantine_create(ring);

	(void)state;
	assert_true(ring_flow_cease(ring, &flow));
	quarantine_begin(quarantine, &flow);
	assert_int_equal(ring->parting, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
static const struct CMUnitTest tests[] = {
	TEST(test_late_frames_are_dropped),
	TEST(test_without_memory_the_flow_stays),
	TEST(test_so_many_are_forwarded_and_no_more),
	TEST(test_what_cannot_be_forwarded_is_dropped),
	TEST(test_the_entry_goes_when_another_process_has_the_flow),
	TEST(test_a_late_frame_is_a_reason_to_look),
	TEST(test_the_entry_goes_in_any_case_at_the_end),
	TEST(test_a_flow_that_came_back_keeps_the_entry),
	TEST(test_it_goes_on_until_another_process_has_the_flow),
	TEST(test_also_where_processes_share_entries),
	TEST(test_a_flow_without_an_entry_has_parted),
};

VMA_TEST_MAIN("quarantine", tests, NULL, NULL)
