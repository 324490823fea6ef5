/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared flows of a ring: what the ring tells the port, and which flow gets a frame. */
#include "base/mem.h"
#include "fake_port.h"
#include "ring/ring.h"
#include "ring/rings.h"

struct fixture {
	struct ring ring[2]; /* first */
	struct fake_queue queue[2];
	struct port port;
};

static int setup(void **state)
{
	struct fixture *f = mem_aligned(64, sizeof(*f));

	assert_non_null(f);
	memset(f, 0, sizeof(*f));
	clock_init();
	ring_mode = HOLD_SPIN;
	rings_init(NULL);
	f->port = (struct port){.ops = &fake_ops, .mtu = 1500};
	for (unsigned i = 0; i < 2; i++) {
		fake_init(&f->queue[i], &f->port);
		ring_init(&f->ring[i], &f->queue[i].base, i);
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 2; i++) {
		flow_table_fini(&f->ring[i].flows);
		assert_int_equal(f->queue[i].n_flows, 0);
		assert_int_equal(fake_missing(&f->queue[i]), 0);
	}
	mem_free(f);
	return 0;
}

static void hold(struct ring *ring)
{
	assert_true(ring_hold(ring, ring_mode));
}

static void release(struct ring *ring)
{
	ring_release(ring, ring_mode);
}

struct receiver {
	struct shared_flow shared; /* first */
	unsigned got;
};

static enum drop count(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct receiver *r = container_of(flow, struct receiver, shared.flow);

	r->got++;
	pkt_free(pkt);
	return DROP_NONE;
}

static const char *const here = "10.0.0.1";

static struct flow *init(struct receiver *r)
{
	memset(r, 0, sizeof(*r));
	shared_flow_init(&r->shared, count, 0, true);
	r->shared.flow.key = key3(here, 7);
	return &r->shared.flow;
}

static void arrive(struct fixture *f, unsigned ring)
{
	struct flow_key from = key5(here, 7, "10.0.0.9", 99);

	fake_arrive(&f->queue[ring], &from, 1);
	ring_poll(&f->ring[ring]);
}

static void test_each_of_a_ring_joins_and_the_port_picks(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = &f->ring[0];
	struct receiver r[3];

	hold(ring);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ring_flow_add(ring, init(&r[i])), 0);
		assert_int_equal(f->queue[0].joined, i + 1);
	}
	for (unsigned i = 0; i < 3; i++) {
		f->queue[0].picked = i;
		arrive(f, 0);
		for (unsigned j = 0; j < 3; j++)
			assert_int_equal(r[j].got, j <= i);
	}
	/* A member that has left: another one gets the frame. */
	f->queue[0].picked = 1;
	ring_flow_del(ring, &r[1].shared.flow);
	arrive(f, 0);
	assert_int_equal(r[0].got + r[2].got, 3);
	assert_int_equal(r[1].got, 1);
	ring_flow_del(ring, &r[0].shared.flow);
	arrive(f, 0); /* a single member is not chosen by the port */
	ring_flow_del(ring, &r[2].shared.flow);
	assert_int_equal(f->queue[0].left, 3);
	assert_int_equal(r[0].got + r[2].got, 4);
	release(ring);
}

/* Otherwise the next member could get the frames of a connection. */
static void test_connections_of_a_shared_flow_have_entries_of_their_own(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = &f->ring[0];
	struct receiver listener;
	struct flow child[2] = {{.key = key5(here, 7, "10.0.0.9", 99)},
				{.key = key5(here, 7, "10.0.0.9", 98)}};

	hold(ring);
	assert_int_equal(ring_flow_add(ring, init(&listener)), 0);
	assert_int_equal(ring_flow_add(ring, &child[0]), 0);
	assert_true(fake_steers(&f->queue[0], &child[0].key));
	/* Without its own entry, as long as no other member joins. */
	f->queue[0].add_error = -ENOSPC;
	assert_int_equal(ring_flow_add(ring, &child[1]), 0);
	assert_false(fake_steers(&f->queue[0], &child[1].key));
	ring_flow_del(ring, &listener.shared.flow);
	assert_true(fake_steers(&f->queue[0], &child[0].key));
	ring_flow_del(ring, &child[0]);
	ring_flow_del(ring, &child[1]);
	f->queue[0].add_error = -ENOSPC;
	assert_int_equal(ring_flow_add(ring, &child[1]), -ENOSPC);
	release(ring);
}

static void test_shared_and_unshared_flows_exclude_each_other(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = &f->ring[0];
	struct receiver shared;
	struct flow alone = {.key = key3(here, 7)};

	hold(ring);
	assert_int_equal(ring_flow_add(ring, &alone), 0);
	assert_int_equal(ring_flow_add(ring, init(&shared)), -EEXIST);
	assert_int_equal(f->queue[0].joined, 0);
	ring_flow_del(ring, &alone);
	assert_int_equal(ring_flow_add(ring, init(&shared)), 0);
	f->queue[0].add_error = -EEXIST; /* the port says that another ring shares the flow */
	assert_int_equal(ring_flow_add(ring, &alone), -EEXIST);
	ring_flow_del(ring, &shared.shared.flow);
	release(ring);
}

static void test_a_flow_that_comes_to_be_shared_keeps_its_connections(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = &f->ring[0];
	struct receiver listener, other;
	struct flow child = {.key = key5(here, 7, "10.0.0.9", 99)};
	struct flow *flow;

	hold(ring);
	memset(&listener, 0, sizeof(listener));
	flow = &listener.shared.flow;
	flow->key = key3(here, 7);
	flow->deliver = count;
	assert_int_equal(ring_flow_add(ring, flow), 0);
	assert_int_equal(ring_flow_add(ring, &child), 0);
	assert_false(fake_steers(&f->queue[0], &child.key));
	f->queue[0].add_error = -ENOSPC;
	assert_int_equal(ring_flow_share(ring, &listener.shared, 0, true), -ENOSPC);
	assert_false(flow->shared);
	assert_int_equal(ring_flow_share(ring, &listener.shared, 0, true), 0);
	assert_int_equal(ring_flow_share(ring, &listener.shared, 0, true), 0);
	assert_int_equal(f->queue[0].joined, 1);
	assert_true(fake_steers(&f->queue[0], &child.key));
	assert_int_equal(ring_flow_add(ring, init(&other)), 0);
	ring_flow_del(ring, &child);
	f->queue[0].picked = 0;
	arrive(f, 0);
	f->queue[0].picked = 1;
	arrive(f, 0);
	assert_int_equal(listener.got, 1);
	assert_int_equal(other.got, 1);
	ring_flow_del(ring, flow);
	ring_flow_del(ring, &other.shared.flow);
	f->queue[0].n_flows = 0; /* the entry that the fake port did not replace */
	release(ring);
}

static void test_one_of_several_moves_to_another_ring(void **state)
{
	struct fixture *f = *state;
	struct receiver r[2], stand_in;

	hold(&f->ring[0]);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(ring_flow_add(&f->ring[0], init(&r[i])), 0);
	release(&f->ring[0]);
	hold(&f->ring[1]);
	init(&stand_in);
	stand_in.shared.share = r[1].shared.share;
	assert_int_equal(ring_flow_list(&f->ring[1], &stand_in.shared.flow), 0);
	release(&f->ring[1]);
	hold(&f->ring[0]);
	assert_int_equal(ring_flow_unsteer(&f->ring[0], &r[1].shared.flow), 0);
	release(&f->ring[0]);
	hold(&f->ring[1]);
	assert_int_equal(ring_flow_steer(&f->ring[1], &stand_in.shared.flow), 0);
	assert_int_equal(f->queue[1].joined, 1);
	release(&f->ring[1]);
	hold(&f->ring[0]);
	ring_flow_del(&f->ring[0], &r[1].shared.flow);
	assert_int_equal(f->queue[0].left, 0); /* it is a member, as before */
	release(&f->ring[0]);
	hold(&f->ring[1]);
	ring_flow_replace(&f->ring[1], &stand_in.shared.flow, &r[1].shared.flow);
	arrive(f, 1);
	assert_int_equal(r[1].got, 1);
	f->queue[1].joined = 2; /* its number belongs to the other queue */
	ring_flow_del(&f->ring[1], &r[1].shared.flow);
	assert_int_equal(f->queue[1].left, 1);
	release(&f->ring[1]);
	hold(&f->ring[0]);
	ring_flow_del(&f->ring[0], &r[0].shared.flow);
	release(&f->ring[0]);
}

static void test_a_pair_that_is_expected_is_taken_over_by_its_flow(void **state)
{
	struct fixture *f = *state;
	struct ring *ring = &f->ring[0];
	struct flow child = {.key = key5(here, 7, "10.0.0.9", 99)};
	struct flow_key other = key5(here, 7, "10.0.0.9", 98);

	hold(ring);
	assert_int_equal(ring_flow_expect(ring, &child.key), 0);
	assert_int_equal(ring_flow_expect(ring, &other), 0);
	assert_int_equal(ring_flow_expect(ring, &other), -EEXIST);
	assert_int_equal(ring_flow_add_expected(ring, &child), 0);
	ring_flow_unexpect(ring, &child.key);
	assert_true(fake_steers(&f->queue[0], &child.key));
	ring_flow_unexpect(ring, &other);
	assert_false(fake_steers(&f->queue[0], &other));
	ring_flow_del(ring, &child);
	assert_false(fake_steers(&f->queue[0], &child.key));
	release(ring);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_each_of_a_ring_joins_and_the_port_picks),
	TEST(test_connections_of_a_shared_flow_have_entries_of_their_own),
	TEST(test_shared_and_unshared_flows_exclude_each_other),
	TEST(test_a_flow_that_comes_to_be_shared_keeps_its_connections),
	TEST(test_one_of_several_moves_to_another_ring),
	TEST(test_a_pair_that_is_expected_is_taken_over_by_its_flow),
};

VMA_TEST_MAIN("ring_share", tests, NULL, NULL)
