/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/reuseport.h"

#include <string.h>

#include "vma_test.h"

static uint8_t buckets[REUSEPORT_BUCKETS];
static struct reuseport_members members;

static int setup(void **state)
{
	memset(buckets, 0, sizeof(buckets));
	memset(&members, 0, sizeof(members));
	return 0;
}

static unsigned add(uint8_t rank, bool spread)
{
	struct flow_share share = {.rank = rank, .spread = spread};
	int member = reuseport_add(&members, &share, 0);

	assert_true(member >= 0);
	return (unsigned)member;
}

static uint64_t bit(unsigned i)
{
	return UINT64_C(1) << i;
}

/* Every receiver gets its share, give or take one sender; no other member gets any. */
static void expect_even(uint64_t receivers)
{
	unsigned count[REUSEPORT_MEMBERS] = {0};
	unsigned least = REUSEPORT_BUCKETS / (unsigned)__builtin_popcountll(receivers);

	for (unsigned b = 0; b < REUSEPORT_BUCKETS; b++)
		count[buckets[b]]++;
	for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++) {
		if (receivers & bit(i))
			assert_in_range(count[i], least, least + 1);
		else
			assert_int_equal(count[i], 0);
	}
}

static unsigned changed_hands(const uint8_t before[REUSEPORT_BUCKETS])
{
	unsigned n = 0;

	for (unsigned b = 0; b < REUSEPORT_BUCKETS; b++)
		n += before[b] != buckets[b];
	return n;
}

static void test_parts_are_even_and_few_change_hands(void **state)
{
	uint8_t before[REUSEPORT_BUCKETS];
	uint64_t receivers = 0;

	for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++) {
		receivers |= bit(i);
		memcpy(before, buckets, sizeof(before));
		reuseport_balance(buckets, receivers);
		expect_even(receivers);
		if (i)
			assert_true(changed_hands(before) <= REUSEPORT_BUCKETS / (i + 1) + 1);
	}
	for (unsigned i = 0; i + 1 < REUSEPORT_MEMBERS; i++) {
		unsigned had = 0;

		receivers &= ~bit(i);
		memcpy(before, buckets, sizeof(before));
		for (unsigned b = 0; b < REUSEPORT_BUCKETS; b++)
			had += before[b] == i;
		reuseport_balance(buckets, receivers);
		expect_even(receivers);
		assert_int_equal(changed_hands(before), had);
	}
}

static void test_every_receiver_gets_something(void **state)
{
	assert_int_equal(reuseport_receivers(&members), 0);
	memset(buckets, 5, sizeof(buckets));
	reuseport_balance(buckets, 0);
	assert_int_equal(buckets[0], 5);
}

static void test_the_latest_of_those_that_do_not_spread_gets_everything(void **state)
{
	unsigned a = add(0, false), b = add(0, false);

	assert_int_equal(reuseport_receivers(&members), bit(b));
	members.at[b].seq = 0;
	assert_int_equal(reuseport_receivers(&members), bit(a));
	b = add(0, false);
	assert_int_equal(reuseport_receivers(&members), bit(b));
}

/*
 * As in the kernel: the latest socket is found first; if it is in a group, the group gets the
 * packet.
 */
static void test_those_that_spread_do_if_the_latest_does(void **state)
{
	unsigned a = add(0, true), b = add(0, false), c = add(0, true);

	assert_int_equal(reuseport_receivers(&members), bit(a) | bit(c));
	members.at[c].seq = 0;
	assert_int_equal(reuseport_receivers(&members), bit(b));
	members.at[b].seq = 0;
	assert_int_equal(reuseport_receivers(&members), bit(a));
}

static void test_the_more_specific_flow_comes_first(void **state)
{
	unsigned a = add(2, true), b = add(0, true), c = add(2, true);
	unsigned d;

	assert_int_equal(reuseport_receivers(&members), bit(a) | bit(c));
	d = add(3, true);
	assert_int_equal(reuseport_receivers(&members), bit(d));
	members.at[a].seq = members.at[c].seq = members.at[d].seq = 0;
	assert_int_equal(reuseport_receivers(&members), bit(b));
}

static void test_a_full_share_takes_no_member(void **state)
{
	struct flow_share share = {.spread = true};

	for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++)
		assert_int_equal(add(0, true), i);
	assert_int_equal(reuseport_add(&members, &share, 0), -1);
	members.at[9].seq = 0;
	assert_int_equal(add(0, true), 9);
}

static void test_senders_find_every_place(void **state)
{
	unsigned count[REUSEPORT_BUCKETS] = {0};

	for (uint32_t port = 0; port < 65536; port++)
		count[reuseport_bucket(0x0100000a, (uint16_t)port, 77)]++;
	for (uint32_t host = 0; host < 65536; host++)
		count[reuseport_bucket(0x0000000a | host << 16, 80, 77)]++;
	for (unsigned b = 0; b < REUSEPORT_BUCKETS; b++)
		/* 512, and five times the standard deviation */
		assert_in_range(count[b], 400, 624);
}

#define TEST(test) cmocka_unit_test_setup(test, setup)

static const struct CMUnitTest tests[] = {
	TEST(test_parts_are_even_and_few_change_hands),
	TEST(test_every_receiver_gets_something),
	TEST(test_the_latest_of_those_that_do_not_spread_gets_everything),
	TEST(test_those_that_spread_do_if_the_latest_does),
	TEST(test_the_more_specific_flow_comes_first),
	TEST(test_a_full_share_takes_no_member),
	TEST(test_senders_find_every_place),
};

VMA_TEST_MAIN("share", tests, NULL, NULL)
