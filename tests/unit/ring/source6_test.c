/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/source6.h"

#include "tests/vma_test.h"

#define IFINDEX 7

static struct flow_key key_of(uint32_t net, uint32_t host)
{
	return (struct flow_key){
		.remote.w = {htonl(0x20010db8), htonl(net), 0, htonl(host)},
		.local.w = {htonl(0xfd000000), 0, 0, htonl(1)},
		.local_port = htons(80),
		.remote_port = htons(1000),
		.proto = IPPROTO_TCP,
	};
}

static struct source_entry entry_of(uint32_t number)
{
	return (struct source_entry){
		.generation = number,
		.state = SOURCE_ACCEPTED | SOURCE_PATH_KNOWN | SOURCE_HERE,
		.path = {.nexthop.w = {htonl(0xfe800000), 0, 1, number},
			 .mtu = 1280 + number,
			 .metrics = {.hoplimit = (uint8_t)(255 - number),
				     .advmss = (uint16_t)(1000 + number),
				     .initrwnd = (uint16_t)(65535 - number),
				     .window = SOURCE_WINDOW - number,
				     .cc = (uint8_t)(number % (ROUTE_CC_UNKNOWN + 1)),
				     .cc_locked = number & 1,
				     .ecn = !(number & 1)}},
	};
}

static void enter(uint32_t net, uint32_t host)
{
	struct flow_key key = key_of(net, host);
	struct source_entry e = entry_of(net ^ host);

	source6_enter(IFINDEX, &key, &e);
}

static void check_metrics(const struct route_metrics *m, const struct route_metrics *want)
{
	assert_int_equal(m->hoplimit, want->hoplimit);
	assert_int_equal(m->advmss, want->advmss);
	assert_int_equal(m->initrwnd, want->initrwnd);
	assert_int_equal(m->window, want->window);
	assert_int_equal(m->cc, want->cc);
	assert_int_equal(m->cc_locked, want->cc_locked);
	assert_int_equal(m->ecn, want->ecn);
}

/* Is the sender known, with the path that was entered for it? */
static bool known(uint32_t net, uint32_t host)
{
	struct flow_key key = key_of(net, host);
	struct source_entry want = entry_of(net ^ host), e;

	if (!source6_look_up(IFINDEX, &key, &e))
		return false;
	assert_int_equal(e.generation, want.generation);
	assert_int_equal(e.state, want.state);
	assert_true(addr_eq(&e.path.nexthop, &want.path.nexthop));
	assert_int_equal(e.path.mtu, want.path.mtu);
	check_metrics(&e.path.metrics, &want.path.metrics);
	assert_true(e.path.here && !e.path.here_bound);
	return true;
}

/* The last 32 bits alone, as IPv4 has them, do not identify a sender. */
static void test_a_sender_is_a_whole_address(void **state)
{
	struct flow_key key = key_of(1, 1);
	struct source_entry e;

	assert_false(known(1, 1));
	enter(1, 1);
	assert_true(known(1, 1));
	assert_false(known(2, 1));
	assert_false(known(1, 2));
	assert_false(source6_look_up(IFINDEX + 1, &key, &e));
	key.local.b[15] ^= 3;
	assert_false(source6_look_up(IFINDEX, &key, &e));
	key = key_of(1, 1);
	key.remote_port = htons(1001); /* the ports do not count */
	key.local_port = htons(81);
	assert_true(source6_look_up(IFINDEX, &key, &e));
}

static void test_a_window_of_a_route_that_is_too_large_is_no_limit(void **state)
{
	struct flow_key key = key_of(4, 1);
	struct source_entry e = entry_of(0);

	e.path.metrics.window = SOURCE_WINDOW + 1;
	source6_enter(IFINDEX, &key, &e);
	assert_true(source6_look_up(IFINDEX, &key, &e));
	assert_int_equal(e.path.metrics.window, 0);
	assert_int_equal(e.path.metrics.initrwnd, 65535);
}

static void test_a_new_answer_replaces_the_old_one(void **state)
{
	struct flow_key key = key_of(3, 1);
	struct source_entry e = entry_of(99), got;

	enter(3, 1);
	e.state = SOURCE_ACCEPTED | SOURCE_PATH_KNOWN | SOURCE_HERE_BOUND;
	source6_enter(IFINDEX, &key, &e);
	assert_true(source6_look_up(IFINDEX, &key, &got));
	assert_int_equal(got.generation, 99);
	assert_true(got.path.here_bound && !got.path.here);
}

/* A flood of senders that come once does not displace one that came back. */
static void test_who_came_back_stays_in_a_flood(void **state)
{
	unsigned left = 0;

	for (uint32_t i = 1; i <= 100; i++) {
		enter(10, i);
		assert_true(known(10, i));
	}
	for (uint32_t i = 1; i <= 20000; i++) {
		enter(11, i);
		if (i % 100 == 0)
			for (uint32_t k = 1; k <= 100; k++)
				known(10, k);
	}
	for (uint32_t k = 1; k <= 100; k++)
		left += known(10, k);
	assert_true(left >= 95); /* a bucket may have five of them */
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_sender_is_a_whole_address),
	cmocka_unit_test(test_a_window_of_a_route_that_is_too_large_is_no_limit),
	cmocka_unit_test(test_a_new_answer_replaces_the_old_one),
	cmocka_unit_test(test_who_came_back_stays_in_a_flood),
};

VMA_TEST_MAIN("source6", tests, NULL, NULL)
