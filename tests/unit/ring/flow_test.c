/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/flow.h"

#include "fake_port.h"

#define MANY 3000 /* several doublings of the table */

static struct flow_table table;

static int setup(void **state)
{
	flow_table_init(&table);
	return 0;
}

static int teardown(void **state)
{
	flow_table_fini(&table);
	return 0;
}

static void insert(struct flow *flow, struct flow_key key)
{
	*flow = (struct flow){.key = key};
	assert_int_equal(flow_insert(&table, flow), 0);
}

/* The flow that a frame from this peer belongs to. */
static struct flow *find(const char *local, uint16_t port, const char *remote, uint16_t from)
{
	struct flow_key key = key5(local, port, remote, from);

	return flow_find(&table, &key);
}

static void test_an_empty_table_finds_nothing(void **state)
{
	struct flow_key key = key3("10.0.0.1", 7);

	assert_null(find("10.0.0.1", 7, "10.0.0.9", 99));
	assert_null(flow_lookup(&table, &key));
}

static void test_a_5_tuple_goes_before_a_3_tuple(void **state)
{
	struct flow three, five;

	insert(&three, key3("10.0.0.1", 7));
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &three);
	insert(&five, key5("10.0.0.1", 7, "10.0.0.9", 99));
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &five);
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 98), &three);
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.8", 99), &three);
	assert_null(find("10.0.0.1", 8, "10.0.0.9", 99));
	assert_null(find("10.0.0.2", 7, "10.0.0.9", 99));
}

static void test_protocols_do_not_mix(void **state)
{
	struct flow_key key = key5("10.0.0.1", 7, "10.0.0.9", 99);
	struct flow udp;

	insert(&udp, key3("10.0.0.1", 7));
	key.proto = IPPROTO_TCP;
	assert_null(flow_find(&table, &key));
}

/* The result depends neither on the order of the flows nor on what was found before. */
static void test_the_flow_found_last_hides_no_other(void **state)
{
	struct flow three, five, twin;

	insert(&five, key5("10.0.0.1", 7, "10.0.0.9", 99));
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &five);
	insert(&three, key3("10.0.0.1", 7));
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &five);
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 98), &three);
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &five);
	insert(&twin, key5("10.0.0.1", 7, "10.0.0.9", 98));
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 98), &twin);
	flow_remove(&table, &five);
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &three);
	flow_remove(&table, &three);
	assert_null(find("10.0.0.1", 7, "10.0.0.9", 99));
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 98), &twin);
}

static void test_removing_twice_is_harmless(void **state)
{
	struct flow a, b, never = {.listed = false};

	insert(&a, key3("10.0.0.1", 7));
	insert(&b, key3("10.0.0.1", 8));
	flow_remove(&table, &never);
	flow_remove(&table, &a);
	flow_remove(&table, &a);
	assert_int_equal(table.count, 1);
	assert_ptr_equal(find("10.0.0.1", 8, "10.0.0.9", 99), &b);
}

/* ---- several flows with the same key ----------------------------------------------------- */

static void test_the_latest_of_one_key_is_found_first(void **state)
{
	struct flow a, b, c;

	insert(&a, key3("10.0.0.1", 7));
	insert(&b, key3("10.0.0.1", 7));
	insert(&c, key3("10.0.0.1", 7));
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &c);
	flow_remove(&table, &c);
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &b);
	flow_remove(&table, &a);
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &b);
}

/* Walks from the first of these flows; returns how many it meets, each once. */
static unsigned walk(struct flow *flows, unsigned n)
{
	struct flow *f = flow_lookup(&table, &flows[0].key);
	unsigned seen = 0, count = 0;

	for (; f; f = flow_next(f), count++) {
		assert_true(f >= flows && f < flows + n);
		assert_false(seen & 1u << (f - flows));
		seen |= 1u << (f - flows);
	}
	return count;
}

static void test_all_members_of_a_group_are_met(void **state)
{
	struct flow members[20], others[MANY];

	for (int i = 0; i < MANY; i++) {
		if (i % 100 == 0 && i / 100 < 20)
			insert(&members[i / 100], key3("239.1.1.1", 7));
		insert(&others[i], key3("239.1.1.2", (uint16_t)(i + 1)));
	}
	assert_int_equal(walk(members, 20), 20);
	flow_remove(&table, &members[3]);
	flow_remove(&table, &members[19]);
	assert_int_equal(walk(members, 20), 18);
}

static void test_growing_keeps_the_order_of_one_key(void **state)
{
	struct flow members[4], others[MANY], *f;

	for (int i = 0; i < 4; i++)
		insert(&members[i], key3("239.1.1.1", 7));
	for (int i = 0; i < MANY; i++)
		insert(&others[i], key3("239.1.1.2", (uint16_t)(i + 1)));
	f = flow_lookup(&table, &members[0].key);
	for (int i = 3; i >= 0; i--, f = flow_next(f))
		assert_ptr_equal(f, &members[i]);
	assert_null(f);
}

/* ---- many ------------------------------------------------------------------------------ */

static void test_a_table_that_grows_and_empties_loses_no_flow(void **state)
{
	static struct flow flows[MANY];

	for (int i = 0; i < MANY; i++)
		insert(&flows[i], key5("10.0.0.1", 7, "10.0.0.9", (uint16_t)(i + 1)));
	assert_int_equal(table.count, MANY);
	assert_true(table.mask + 1 >= MANY);
	for (int i = 0; i < MANY; i += 2)
		flow_remove(&table, &flows[i]);
	for (int i = 0; i < MANY; i++) {
		struct flow *found = find("10.0.0.1", 7, "10.0.0.9", (uint16_t)(i + 1));

		assert_ptr_equal(found, i % 2 ? &flows[i] : NULL);
	}
	for (int i = 1; i < MANY; i += 2)
		flow_remove(&table, &flows[i]);
	assert_int_equal(table.count, 0);
	assert_int_equal(table.exact, 0);
}

struct visit {
	unsigned seen, max;
};

static bool visit(struct flow *flow, void *arg)
{
	struct visit *v = arg;

	assert_true(flow->listed);
	return ++v->seen < v->max;
}

static void test_a_walk_in_pieces_meets_every_flow_once(void **state)
{
	static struct flow flows[MANY];
	struct visit v = {.max = 10};
	unsigned bucket = 0, pieces = 0;

	assert_false(flow_table_walk(&table, &bucket, visit, &v));
	for (int i = 0; i < MANY; i++)
		insert(&flows[i], key5("10.0.0.1", 7, "10.0.0.9", (uint16_t)(i + 1)));
	while (flow_table_walk(&table, &bucket, visit, &v)) {
		v.max = v.seen + 10;
		pieces++;
	}
	assert_int_equal(v.seen, MANY);
	assert_true(pieces > 2 && pieces <= MANY / 10);
	for (int i = 0; i < MANY; i++)
		flow_remove(&table, &flows[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_an_empty_table_finds_nothing),
	TEST(test_a_5_tuple_goes_before_a_3_tuple),
	TEST(test_protocols_do_not_mix),
	TEST(test_the_flow_found_last_hides_no_other),
	TEST(test_removing_twice_is_harmless),
	TEST(test_the_latest_of_one_key_is_found_first),
	TEST(test_all_members_of_a_group_are_met),
	TEST(test_growing_keeps_the_order_of_one_key),
	TEST(test_a_table_that_grows_and_empties_loses_no_flow),
	TEST(test_a_walk_in_pieces_meets_every_flow_once),
};

VMA_TEST_MAIN("flow", tests, NULL, NULL)
