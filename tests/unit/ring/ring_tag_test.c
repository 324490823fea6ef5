/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries of a port whose frames carry tags: which flows get one of their own, or a wide one. */
#include "base/mem.h"
#include "base/param.h"
#include "fake_port.h"
#include "ring/ring.h"
#include "ring/rings.h"

struct fixture {
	struct ring ring; /* first */
	struct fake_queue queue;
	struct port port;
	struct port_ops ops;
};

static struct flow_key wide; /* of the last add_wide() */
static unsigned wides;

static int add_wide(struct port_queue *q, const struct flow_key *key)
{
	wide = *key;
	wides++;
	return fake_add_flow(q, key);
}

static int setup(void **state)
{
	struct fixture *f = mem_aligned(64, sizeof(*f));

	assert_non_null(f);
	memset(f, 0, sizeof(*f));
	clock_init();
	ring_mode = HOLD_SPIN;
	rings_init(NULL);
	wides = 0;
	params.tcp_3t_rules = 0;
	params.udp_3t_rules = 1;
	f->ops = fake_ops;
	f->ops.add_wide = add_wide;
	f->port = (struct port){.ops = &f->ops, .mtu = 1500, .can.tags = true};
	fake_init(&f->queue, &f->port);
	f->queue.base.ops = &f->ops;
	ring_init(&f->ring, &f->queue.base, 0);
	assert_true(ring_hold(&f->ring, ring_mode));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ring_release(&f->ring, ring_mode);
	flow_table_fini(&f->ring.flows);
	assert_int_equal(f->queue.n_flows, 0);
	mem_free(f);
	return 0;
}

static enum drop ignore(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	return DROP_NO_FLOW;
}

static struct flow flow_of(struct flow_key key, uint8_t proto, bool alone)
{
	key.proto = proto;
	return (struct flow){.key = key, .deliver = ignore, .alone = alone};
}

/* A listener and a connection that it accepted: how many entries the two have. */
static unsigned entries(struct fixture *f, int error)
{
	struct flow listener = flow_of(key3("10.0.0.1", 80), IPPROTO_TCP, false);
	struct flow conn = flow_of(key5("10.0.0.1", 80, "10.0.0.9", 99), IPPROTO_TCP, false);
	unsigned n;

	assert_int_equal(ring_flow_add(&f->ring, &listener), 0);
	f->queue.add_error = error;
	assert_int_equal(ring_flow_add(&f->ring, &conn), 0);
	n = f->queue.n_flows;
	assert_int_equal(conn.steered, n == 2);
	ring_flow_del(&f->ring, &listener); /* the connection has one now, if it had none */
	assert_int_equal(f->queue.n_flows, 1);
	ring_flow_del(&f->ring, &conn);
	return n;
}

static void test_vma_tcp_3t_rules(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(entries(f, 0), 2);
	params.tcp_3t_rules = 1;
	assert_int_equal(entries(f, 0), 1);
	params.tcp_3t_rules = 0;
	f->port.can.tags = false;
	assert_int_equal(entries(f, 0), 1);
}

static void test_a_connection_does_without_an_entry_that_the_port_refuses(void **state)
{
	assert_int_equal(entries(*state, -ENOSPC), 1);
	assert_int_equal(entries(*state, -EEXIST), 1);
}

static unsigned wide_entries(struct fixture *f, uint8_t proto, bool alone)
{
	struct flow flow = flow_of(key5("10.0.0.1", 80, "10.0.0.9", 99), proto, alone);
	unsigned before = wides;

	assert_int_equal(ring_flow_add(&f->ring, &flow), 0);
	if (wides != before)
		assert_true(flow_key_eq(&wide, &flow.key));
	ring_flow_del(&f->ring, &flow);
	return wides - before;
}

static void test_vma_udp_3t_rules(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(wide_entries(f, IPPROTO_UDP, true), 1);
	assert_int_equal(wide_entries(f, IPPROTO_UDP, false), 0);
	assert_int_equal(wide_entries(f, IPPROTO_TCP, true), 0);
	params.udp_3t_rules = 0;
	assert_int_equal(wide_entries(f, IPPROTO_UDP, true), 0);
	params.tcp_3t_rules = 1;
	assert_int_equal(wide_entries(f, IPPROTO_TCP, true), 1);
	f->port.can.tags = false;
	assert_int_equal(wide_entries(f, IPPROTO_TCP, true), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_vma_tcp_3t_rules),
	TEST(test_a_connection_does_without_an_entry_that_the_port_refuses),
	TEST(test_vma_udp_3t_rules),
};

VMA_TEST_MAIN("ring_tag", tests, NULL, NULL)
