/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of one burst that are delivered as chains, or as runs. */
#include "ring/gro.h"

#include "base/mem.h"
#include "base/param.h"
#include "fake_port.h"
#include "ring/ring.h"
#include "ring/rings.h"

#define CALLS 32

/* A flow that records what it gets. */
struct taker {
	struct flow flow; /* first */
	unsigned calls, sizes[CALLS];
	uint64_t numbers[CALLS * 4]; /* the numbers in the packets, in order of arrival */
	unsigned got;
	bool refuses; /* refuses chains */
	bool unlists; /* unlists itself at the first packet */
	bool answers; /* returns DROP_SOCK_FULL for single packets */
};

static struct fixture {
	struct ring ring;
	struct fake_queue queue;
	struct port port;
} * fix;

static uint64_t number_of(const struct pkt *pkt)
{
	uint64_t number;

	memcpy(&number, pkt_payload(pkt), sizeof(number));
	return number;
}

static enum drop take(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct taker *t = (struct taker *)flow;
	unsigned n = 0;

	(void)now;
	if (pkt->next && t->refuses)
		return DROP_SOCK_FULL;
	if (t->unlists)
		ring_flow_del(ring, flow);
	if (t->answers)
		return DROP_SOCK_FULL;
	for (struct pkt *next; pkt; pkt = next, n++) {
		next = pkt->next;
		t->numbers[t->got++] = number_of(pkt);
		pkt_free(pkt);
	}
	t->sizes[t->calls++] = n;
	return DROP_NONE;
}

static struct flow_key key_of(unsigned peer)
{
	return key5("10.0.0.1", 7, "10.0.0.9", (uint16_t)(1000 + peer));
}

static void add(struct taker *t, unsigned peer)
{
	*t = (struct taker){.flow = {.key = key_of(peer), .deliver = take, .chains = true}};
	assert_int_equal(ring_flow_add(&fix->ring, &t->flow), 0);
}

static void arrive(unsigned peer, uint64_t number)
{
	struct flow_key key = key_of(peer);

	fake_arrive(&fix->queue, &key, number);
}

static int setup(void **state)
{
	fix = mem_aligned(64, sizeof(*fix));
	assert_non_null(fix);
	memset(fix, 0, sizeof(*fix));
	clock_init();
	params.gro_streams_max = 32;
	ring_mode = HOLD_SPIN;
	rings_init(NULL);
	fix->port = (struct port){.ops = &fake_ops, .mtu = 1500};
	fake_init(&fix->queue, &fix->port);
	ring_init(&fix->ring, &fix->queue.base, 0);
	assert_true(ring_hold(&fix->ring, ring_mode));
	return 0;
}

static int teardown(void **state)
{
	ring_release(&fix->ring, ring_mode);
	adj_table_fini(&fix->ring.adjs);
	flow_table_fini(&fix->ring.flows);
	assert_int_equal(fake_missing(&fix->queue), 0);
	mem_free(fix);
	return 0;
}

static void test_packets_of_a_flow_come_in_one_chain_and_in_order(void **state)
{
	struct taker a, b;

	add(&a, 1);
	add(&b, 2);
	for (unsigned i = 0; i < 4; i++) {
		arrive(1, i);
		arrive(2, 100 + i);
	}
	assert_int_equal(ring_poll(&fix->ring), 8);
	assert_int_equal(a.calls, 1);
	assert_int_equal(b.calls, 1);
	assert_int_equal(a.sizes[0], 4);
	assert_int_equal(fix->ring.stats.rx_frames, 8);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(a.numbers[i], i);
		assert_int_equal(b.numbers[i], 100 + i);
	}
}

static void test_a_single_packet_is_no_chain(void **state)
{
	struct taker a, b;

	add(&a, 1);
	add(&b, 2);
	a.refuses = b.refuses = true;
	arrive(1, 1);
	ring_poll(&fix->ring);
	arrive(1, 2);
	arrive(2, 3);
	ring_poll(&fix->ring);
	assert_int_equal(a.calls, 2);
	assert_int_equal(b.calls, 1);
}

static void test_a_chain_that_is_refused_comes_one_by_one(void **state)
{
	struct taker a;

	add(&a, 1);
	a.refuses = true;
	for (unsigned i = 0; i < 5; i++)
		arrive(1, i);
	ring_poll(&fix->ring);
	assert_int_equal(a.calls, 5);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(a.numbers[i], i);
	assert_int_equal(fix->ring.stats.drops[DROP_SOCK_FULL], 0);
	a.answers = true;
	arrive(1, 6);
	arrive(1, 7);
	ring_poll(&fix->ring);
	assert_int_equal(fix->ring.stats.drops[DROP_SOCK_FULL], 2);
}

static void test_packets_behind_the_end_of_a_flow_are_looked_up_anew(void **state)
{
	struct taker a, wide;

	add(&a, 1);
	wide = (struct taker){.flow = {.key = key3("10.0.0.1", 7), .deliver = take}};
	assert_int_equal(ring_flow_add(&fix->ring, &wide.flow), 0);
	a.refuses = true;
	a.unlists = true;
	for (unsigned i = 0; i < 3; i++)
		arrive(1, i);
	ring_poll(&fix->ring);
	assert_int_equal(a.got, 1);
	assert_int_equal(wide.got, 2);
	assert_int_equal(wide.numbers[0], 1);
	assert_int_equal(wide.numbers[1], 2);
}

static void test_no_more_streams_than_allowed(void **state)
{
	struct taker t[3];

	params.gro_streams_max = 2;
	for (unsigned i = 0; i < 3; i++)
		add(&t[i], i);
	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < 3; i++)
			arrive(i, k);
	ring_poll(&fix->ring);
	assert_int_equal(t[0].calls, 1);
	assert_int_equal(t[1].calls, 1);
	assert_int_equal(t[2].calls, 2);
	params.gro_streams_max = 0;
	arrive(0, 8);
	arrive(0, 9);
	ring_poll(&fix->ring);
	assert_int_equal(t[0].calls, 3);
}

/* ---- runs ------------------------------------------------------------------------------- */

static void add_run(struct taker *t, unsigned peer)
{
	*t = (struct taker){.flow = {.key = key_of(peer), .deliver = take, .runs = true}};
	assert_int_equal(ring_flow_add(&fix->ring, &t->flow), 0);
}

/* Two packets in turn predict the next one. */
static void test_packets_in_turn_come_in_a_run(void **state)
{
	struct taker a;

	add_run(&a, 1);
	for (unsigned i = 0; i < 6; i++)
		arrive(1, i);
	assert_int_equal(ring_poll(&fix->ring), 6);
	assert_int_equal(a.calls, 3);
	assert_int_equal(a.sizes[2], 4);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(a.numbers[i], i);
	assert_int_equal(fix->ring.stats.rx_frames, 6);
}

static struct taker *last; /* the flow that has had the latest packet */
static unsigned n_turns;

static enum drop take_turn(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	n_turns += last != (struct taker *)flow;
	last = (struct taker *)flow;
	return take(ring, flow, pkt, now);
}

/* A run ends where another flow's packet comes, and is not put off behind it. */
static void test_a_run_keeps_the_order_among_flows(void **state)
{
	struct taker a, b;

	add_run(&a, 1);
	add_run(&b, 2);
	a.flow.deliver = b.flow.deliver = take_turn;
	last = NULL;
	n_turns = 0;
	for (unsigned i = 0; i < 16; i++)
		arrive(i / 4 % 2 ? 2 : 1, i);
	assert_int_equal(ring_poll(&fix->ring), 16);
	assert_int_equal(n_turns, 4);
	assert_int_equal(a.got, 8);
	assert_int_equal(b.got, 8);
	assert_true(a.calls < 8);
	for (unsigned i = 1; i < 8; i++) {
		assert_true(a.numbers[i] > a.numbers[i - 1]);
		assert_true(b.numbers[i] > b.numbers[i - 1]);
	}
}

static void test_a_run_that_is_refused_comes_one_by_one(void **state)
{
	struct taker a;

	add_run(&a, 1);
	a.refuses = true;
	for (unsigned i = 0; i < 6; i++)
		arrive(1, i);
	ring_poll(&fix->ring);
	assert_int_equal(a.calls, 6);
	a.answers = true;
	for (unsigned i = 0; i < 6; i++)
		arrive(1, i);
	ring_poll(&fix->ring);
	assert_int_equal(fix->ring.stats.drops[DROP_SOCK_FULL], 6);
}

/* Of several receivers, or of one that takes none: one by one. */
static void test_other_flows_get_no_runs(void **state)
{
	struct taker a;

	add_run(&a, 1);
	a.flow.runs = false;
	for (unsigned i = 0; i < 6; i++)
		arrive(1, i);
	ring_poll(&fix->ring);
	assert_int_equal(a.calls, 6);
	a.flow.runs = true;
	a.flow.shared = true;
	for (unsigned i = 0; i < 6; i++)
		arrive(1, i);
	ring_poll(&fix->ring);
	assert_int_equal(a.calls, 12);
	a.flow.shared = false;
}

static void test_a_run_of_a_flow_that_ends_is_looked_up_anew(void **state)
{
	struct taker a, wide;

	add_run(&a, 1);
	wide = (struct taker){.flow = {.key = key3("10.0.0.1", 7), .deliver = take}};
	assert_int_equal(ring_flow_add(&fix->ring, &wide.flow), 0);
	for (unsigned i = 0; i < 2; i++)
		arrive(1, i);
	ring_poll(&fix->ring);
	a.refuses = true;
	a.unlists = true;
	for (unsigned i = 2; i < 6; i++)
		arrive(1, i);
	ring_poll(&fix->ring);
	assert_int_equal(a.got, 3);
	assert_int_equal(wide.got, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(wide.numbers[i], 3 + i);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_packets_of_a_flow_come_in_one_chain_and_in_order),
	TEST(test_a_single_packet_is_no_chain),
	TEST(test_a_chain_that_is_refused_comes_one_by_one),
	TEST(test_packets_behind_the_end_of_a_flow_are_looked_up_anew),
	TEST(test_no_more_streams_than_allowed),
	TEST(test_packets_in_turn_come_in_a_run),
	TEST(test_a_run_keeps_the_order_among_flows),
	TEST(test_a_run_that_is_refused_comes_one_by_one),
	TEST(test_other_flows_get_no_runs),
	TEST(test_a_run_of_a_flow_that_ends_is_looked_up_anew),
};

VMA_TEST_MAIN("gro", tests, NULL, NULL)
