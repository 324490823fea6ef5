/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/adj.h"

#include "fake_port.h"

static const uint8_t mac[6] = {2, 1, 2, 3, 4, 5};

static struct adj_table table;
static struct fake_queue queue;
static struct port port;

static int setup(void **state)
{
	adj_table_init(&table);
	fake_init(&queue, &port);
	return 0;
}

static int teardown(void **state)
{
	adj_table_fini(&table);
	assert_int_equal(fake_missing(&queue), 0);
	return 0;
}

static struct adj *get(const char *text)
{
	struct inaddr addr = addr_v4(inet_addr(text));
	struct adj *adj = adj_get(&table, &addr);

	assert_non_null(adj);
	return adj;
}

static struct pkt *frame(uint64_t number)
{
	struct flow_key key = key5("10.0.0.1", 7, "10.0.0.9", 99);
	struct pkt *pkt = fake_take(&queue);

	assert_non_null(pkt);
	fake_build(pkt, &key, number);
	return pkt;
}

static void wait_for(struct adj *adj, unsigned from, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct pkt *pkt = frame(from + i);

		pkt->stamp = from + i; /* identifies the packet */
		assert_true(adj_wait(adj, pkt));
	}
}

/* Checks that n packets are numbered from `from` on, and frees them. */
static void check_and_free(struct pkt *pkt, unsigned from, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct pkt *next;

		assert_non_null(pkt);
		assert_int_equal(pkt->stamp, from + i);
		next = pkt->next;
		pkt_free(pkt);
		pkt = next;
	}
	assert_null(pkt);
}

static void test_a_neighbour_is_made_once(void **state)
{
	struct inaddr addr = addr_v4(inet_addr("10.0.0.2"));
	struct adj *adj;

	assert_null(adj_find(&table, &addr));
	adj = get("10.0.0.2");
	assert_int_equal(adj->state, NEIGH_UNKNOWN);
	assert_ptr_equal(adj_find(&table, &addr), adj);
	assert_ptr_equal(get("10.0.0.2"), adj);
	assert_ptr_not_equal(get("10.0.0.3"), adj);
}

static void test_many_neighbours_are_told_apart(void **state)
{
	struct adj *adjs[1000];
	char text[32];

	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "10.0.%d.%d", i / 250, i % 250 + 1);
		adjs[i] = get(text);
	}
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "10.0.%d.%d", i / 250, i % 250 + 1);
		assert_ptr_equal(get(text), adjs[i]);
	}
}

static void test_packets_wait_in_order_and_get_the_address(void **state)
{
	struct adj *adj = get("10.0.0.2");
	struct pkt *pkt;

	wait_for(adj, 1, 5);
	assert_null(adj_update(adj, NEIGH_UNKNOWN, NULL)); /* still in resolution */
	assert_int_equal(adj->pending, 5);
	pkt = adj_update(adj, NEIGH_REACHABLE, mac);
	for (struct pkt *p = pkt; p; p = p->next)
		assert_memory_equal(p->frame, mac, sizeof(mac));
	check_and_free(pkt, 1, 5);
	assert_int_equal(adj->state, NEIGH_REACHABLE);
	assert_memory_equal(adj->mac, mac, sizeof(mac));
	assert_int_equal(adj->pending, 0);
	assert_null(adj_update(adj, NEIGH_REACHABLE, mac)); /* no packet is returned twice */
}

static void test_a_neighbour_that_fails_gives_its_packets_back(void **state)
{
	struct adj *adj = get("10.0.0.2");

	wait_for(adj, 1, 3);
	check_and_free(adj_update(adj, NEIGH_FAILED, NULL), 1, 3);
	assert_int_equal(adj->state, NEIGH_FAILED);
	wait_for(adj, 7, 2); /* the neighbour can be requested again */
	check_and_free(adj_update(adj, NEIGH_REACHABLE, mac), 7, 2);
}

/* 212,992 bytes by default, and 768 for a small packet. */
static void test_as_many_wait_as_with_the_kernel(void **state)
{
	struct adj *adj = get("10.0.0.2");

	wait_for(adj, 0, 212992 / 768);
	check_and_free(adj_update(adj, NEIGH_FAILED, NULL), 0, 212992 / 768);
}

static void test_only_so_many_packets_wait(void **state)
{
	struct adj *adj = get("10.0.0.2");
	struct pkt *pkt;

	wait_for(adj, 0, ADJ_PENDING_MAX);
	pkt = frame(999);
	assert_false(adj_wait(adj, pkt));
	pkt_free(pkt); /* the caller still owned it */
	check_and_free(adj_update(adj, NEIGH_FAILED, NULL), 0, ADJ_PENDING_MAX);
	wait_for(adj, 0, ADJ_PENDING_MAX);
	assert_int_equal(fake_missing(&queue), ADJ_PENDING_MAX);
	/* adj_table_fini() frees them: see teardown() */
}

/* ---- users ---------------------------------------------------------------------------- */

struct user {
	struct adj_user user; /* first */
	int told;
	enum neigh_state state;
	bool leaves;
};

static void changed(struct adj_user *user, const struct adj *adj)
{
	struct user *u = (struct user *)(void *)user;

	u->told++;
	u->state = adj->state;
	if (u->leaves)
		adj_user_remove(user);
}

static void user_init(struct user *user, struct adj *adj)
{
	*user = (struct user){.user.changed = changed};
	list_init(&user->user.link);
	adj_user_add(adj, &user->user);
}

static void test_users_are_told_of_every_change(void **state)
{
	struct adj *adj = get("10.0.0.2");
	struct user a, b;

	user_init(&a, adj);
	user_init(&b, adj);
	adj_update(adj, NEIGH_FAILED, NULL);
	adj_update(adj, NEIGH_REACHABLE, mac);
	assert_int_equal(a.told, 2);
	assert_int_equal(b.told, 2);
	assert_int_equal(a.state, NEIGH_REACHABLE);
	adj_user_remove(&a.user);
	adj_user_remove(&a.user); /* harmless */
	adj_update(adj, NEIGH_FAILED, NULL);
	assert_int_equal(a.told, 2);
	assert_int_equal(b.told, 3);
	adj_user_remove(&b.user);
}

static void test_a_user_may_leave_while_it_is_told(void **state)
{
	struct adj *adj = get("10.0.0.2");
	struct user users[5];

	for (int i = 0; i < 5; i++) {
		user_init(&users[i], adj);
		users[i].leaves = i % 2 == 0;
	}
	adj_update(adj, NEIGH_REACHABLE, mac);
	adj_update(adj, NEIGH_REACHABLE, mac);
	for (int i = 0; i < 5; i++)
		assert_int_equal(users[i].told, i % 2 == 0 ? 1 : 2);
	adj_user_remove(&users[1].user);
	adj_user_remove(&users[3].user);
}

static void test_users_survive_the_table(void **state)
{
	struct user user;

	user_init(&user, get("10.0.0.2"));
	adj_table_fini(&table);
	adj_user_remove(&user.user); /* does not access the freed adjacency */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_a_neighbour_is_made_once),
	TEST(test_many_neighbours_are_told_apart),
	TEST(test_packets_wait_in_order_and_get_the_address),
	TEST(test_a_neighbour_that_fails_gives_its_packets_back),
	TEST(test_as_many_wait_as_with_the_kernel),
	TEST(test_only_so_many_packets_wait),
	TEST(test_users_are_told_of_every_change),
	TEST(test_a_user_may_leave_while_it_is_told),
	TEST(test_users_survive_the_table),
};

VMA_TEST_MAIN("adj", tests, NULL, NULL)
