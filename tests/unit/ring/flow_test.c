/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/flow.h"

#include "fake_port.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define MANY 3000 /* several doublings of the table */

static struct flow_table table;
static const struct pkt untagged;

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

	return flow_find(&table, &key, &untagged);
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
	assert_null(flow_find(&table, &key, &untagged));
}

/* What is remembered is the packet's key: the next one of another sender is looked up. */
static void test_a_3_tuple_is_remembered_for_one_sender(void **state)
{
	struct flow three, five;

	insert(&three, key3("10.0.0.1", 7));
	for (int i = 0; i < 3; i++) {
		assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &three);
		assert_int_equal(table.recent.is_predicted, i > 0);
	}
	assert_false(table.recent.goes_straight); /* its sender may have to be checked */
	assert_null(find("10.0.0.1", 8, "10.0.0.9", 99));
	insert(&five, key5("10.0.0.1", 7, "10.0.0.9", 99));
	assert_false(table.recent.is_predicted);
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &five);
	assert_true(table.recent.is_predicted && table.recent.goes_straight);
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 98), &three);
	assert_false(table.recent.is_predicted);
	flow_remove(&table, &five);
	assert_ptr_equal(find("10.0.0.1", 7, "10.0.0.9", 99), &three);
	flow_remove(&table, &three);
	assert_null(table.recent.flow);
	assert_null(find("10.0.0.1", 7, "10.0.0.9", 99));
}

/* A chain, and several receivers of a group, need more than a call of deliver(). */
static void test_which_flows_go_straight(void **state)
{
	static const struct {
		const char *local;
		bool three, chains, straight;
	} rows[] = {
		{"10.0.0.1", false, false, true},
		{"10.0.0.1", false, true, false},
		{"10.0.0.1", true, false, false},
		{"239.1.1.1", false, false, false},
	};

	for (size_t i = 0; i < LENGTH(rows); i++) {
		struct flow flow = {.chains = rows[i].chains};

		flow.key = rows[i].three ? key3(rows[i].local, 7)
					 : key5(rows[i].local, 7, "10.0.0.9", 99);
		assert_int_equal(flow_goes_straight(&flow), rows[i].straight);
	}
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

/* ---- tags -------------------------------------------------------------------------------- */

static struct flow *find_tagged(const struct flow_key *key, uint32_t tag)
{
	const struct pkt pkt = {.flags = PKT_TAGGED, .tag = tag};

	table.recent.flow = NULL;
	return flow_find(&table, key, &pkt);
}

/* What the tag alone finds: the buckets are out of the way. */
static struct flow *by_tag_alone(const struct flow_key *key, uint32_t tag)
{
	unsigned count = table.count;
	struct flow *f;

	table.count = 0;
	f = find_tagged(key, tag);
	table.count = count;
	return f;
}

static void test_a_tag_names_the_flow_of_the_frame_before(void **state)
{
	struct flow_key keys[] = {key5("10.0.0.1", 7, "10.0.0.9", 99), key3("10.0.0.2", 7)};
	uint32_t tags[] = {5, 0xabcdef}; /* the second one is larger than the slots */
	struct flow flow;

	for (unsigned i = 0; i < 2; i++) {
		struct flow_key key = key5("10.0.0.2", 7, "10.0.0.9", 99);

		key.local = keys[i].local;
		keys[i].proto = key.proto = IPPROTO_UDP;
		insert(&flow, keys[i]);
		assert_null(by_tag_alone(&key, tags[i]));
		assert_ptr_equal(find_tagged(&key, tags[i]), &flow);
		assert_ptr_equal(by_tag_alone(&key, tags[i]), &flow);
		assert_null(by_tag_alone(&key, tags[i] + 1));
		flow_remove(&table, &flow);
		assert_null(by_tag_alone(&key, tags[i]));
		assert_null(find_tagged(&key, tags[i]));
	}
}

static void test_the_key_decides_whatever_the_tag_says(void **state)
{
	struct flow_key ka = key5("10.0.0.1", 7, "10.0.0.9", 99),
			kb = key5("10.0.0.1", 7, "10.0.0.9", 98);
	struct flow a, b;

	insert(&a, ka);
	insert(&b, kb);
	for (int i = 0; i < 3; i++) {
		assert_ptr_equal(find_tagged(&ka, 5), &a);
		assert_ptr_equal(find_tagged(&kb, 5), &b);
	}
	/* Two tags of one flow: the later one holds. */
	assert_ptr_equal(find_tagged(&kb, 6), &b);
	assert_null(by_tag_alone(&kb, 5));
	assert_ptr_equal(by_tag_alone(&kb, 6), &b);
	assert_null(by_tag_alone(&ka, 6));
	assert_ptr_equal(find_tagged(&ka, 0), &a);
	assert_null(by_tag_alone(&ka, 0));
}

static void test_a_tag_hides_no_flow(void **state)
{
	struct flow_key k = key5("10.0.0.1", 7, "10.0.0.9", 99), wide = key3("10.0.0.1", 7);
	struct flow three, five, twin, next;

	k.proto = wide.proto = IPPROTO_UDP;
	insert(&three, wide);
	assert_ptr_equal(find_tagged(&k, 5), &three);
	insert(&five, k);
	assert_ptr_equal(find_tagged(&k, 5), &five);
	insert(&twin, k);
	assert_ptr_equal(find_tagged(&k, 5), &twin);
	flow_replace(&table, &twin, &next);
	assert_ptr_equal(by_tag_alone(&k, 5), &next);
	flow_remove(&table, &next);
	flow_remove(&table, &five);
	assert_ptr_equal(find_tagged(&k, 5), &three);
	assert_ptr_equal(by_tag_alone(&k, 5), &three);
}

/* A listener's entry brings the frames of its connections, too; a shared one those of others. */
static void test_a_tag_is_not_for_listeners_and_several_receivers(void **state)
{
	struct flow_key k = key5("10.0.0.1", 7, "10.0.0.9", 99), wide = key3("10.0.0.1", 7);
	struct flow flow;

	k.proto = wide.proto = IPPROTO_TCP;
	insert(&flow, wide);
	assert_ptr_equal(find_tagged(&k, 5), &flow);
	assert_null(by_tag_alone(&k, 5));
	flow_remove(&table, &flow);
	k.proto = wide.proto = IPPROTO_UDP;
	insert(&flow, wide);
	flow.shared = true;
	assert_ptr_equal(find_tagged(&k, 5), &flow);
	assert_null(by_tag_alone(&k, 5));
}

static unsigned draw(unsigned below)
{
	static uint64_t seed = 1;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % below;
}

static struct flow_key any_key(bool exact)
{
	struct flow_key key = exact ? key5("10.0.0.1", (uint16_t)(1 + draw(3)), "10.0.0.9",
					   (uint16_t)(1 + draw(6)))
				    : key3("10.0.0.1", (uint16_t)(1 + draw(3)));

	key.proto = draw(3) ? IPPROTO_UDP : IPPROTO_TCP;
	return key;
}

/* Whatever comes and goes, with any tags: the flow is the one that the buckets have. */
static void test_with_tags_and_without_them_the_flow_is_the_same(void **state)
{
	static struct flow flows[16];

	for (int i = 0; i < 200000; i++) {
		struct flow *f = &flows[draw(16)], *other = &flows[draw(16)];
		struct flow_key key = any_key(true);

		if (!f->listed)
			insert(f, any_key(draw(4)));
		else if (!draw(8))
			flow_remove(&table, f);
		else if (!draw(8) && !other->listed)
			flow_replace(&table, f, other);
		f = find_tagged(&key, draw(70));
		table.recent.flow = NULL;
		assert_ptr_equal(f, flow_find(&table, &key, &untagged));
		table.recent.flow = NULL;
	}
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
	TEST(test_a_3_tuple_is_remembered_for_one_sender),
	TEST(test_which_flows_go_straight),
	TEST(test_the_flow_found_last_hides_no_other),
	TEST(test_removing_twice_is_harmless),
	TEST(test_the_latest_of_one_key_is_found_first),
	TEST(test_all_members_of_a_group_are_met),
	TEST(test_growing_keeps_the_order_of_one_key),
	TEST(test_a_table_that_grows_and_empties_loses_no_flow),
	TEST(test_a_walk_in_pieces_meets_every_flow_once),
	TEST(test_a_tag_names_the_flow_of_the_frame_before),
	TEST(test_the_key_decides_whatever_the_tag_says),
	TEST(test_a_tag_hides_no_flow),
	TEST(test_a_tag_is_not_for_listeners_and_several_receivers),
	TEST(test_with_tags_and_without_them_the_flow_is_the_same),
};

VMA_TEST_MAIN("flow", tests, NULL, NULL)
