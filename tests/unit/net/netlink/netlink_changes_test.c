/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/netlink/netlink_internal.h"

#include <arpa/inet.h>

#include "tests/vma_test.h"

static struct inaddr address(const char *text)
{
	struct in_addr v4;
	struct inaddr a;

	if (inet_pton(AF_INET, text, &v4) == 1)
		return addr_v4(v4.s_addr);
	assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

/* The route to text, an address and the length of a prefix in its own family, changes. */
static void change(const char *text, uint32_t bits)
{
	struct route_prefix prefix = {.addr = address(text)};

	prefix.bits = bits + (addr_is_v4(&prefix.addr) ? 96 : 0);
	if (++netlink_generation_now == 0)
		++netlink_generation_now;
	changes_note(netlink_generation_now, &prefix);
}

static uint32_t still(uint32_t since, const char *to)
{
	struct inaddr addr = address(to);

	return netlink_still(since, &addr);
}

/* Each test begins with a generation that no other has used. */
static int setup(void **state)
{
	(void)state;
	netlink_generation_now += 2 * NETLINK_CHANGES;
	return 0;
}

static void test_without_a_change_it_holds(void **state)
{
	(void)state;
	assert_int_equal(still(netlink_generation_now, "10.0.0.1"), netlink_generation_now);
	assert_int_equal(still(0, "10.0.0.1"), 0);
}

static void test_other_routes_do_not_concern_it(void **state)
{
	uint32_t since = netlink_generation_now;

	(void)state;
	change("10.0.1.0", 24);
	change("10.0.0.2", 32);
	change("10.0.0.128", 25);
	change("10.0.0.4", 30);
	assert_int_equal(still(since, "10.0.0.1"), netlink_generation_now);
	assert_int_equal(still(since + 2, "10.0.0.1"), netlink_generation_now);
}

static void test_its_own_routes_do(void **state)
{
	static const struct {
		const char *prefix;
		uint32_t bits;
	} covers[] = {{"10.0.0.1", 32}, {"10.0.0.0", 31}, {"10.0.0.0", 24},
		      {"10.0.0.0", 8},	{"8.0.0.0", 5},	  {"0.0.0.0", 0}};

	(void)state;
	for (unsigned i = 0; i < sizeof(covers) / sizeof(covers[0]); i++) {
		uint32_t since = netlink_generation_now;

		change("192.0.2.0", 24);
		change(covers[i].prefix, covers[i].bits);
		change("192.0.2.0", 24);
		assert_int_equal(still(since, "10.0.0.1"), 0);
		assert_int_equal(still(since + 1, "10.0.0.1"), 0);
		assert_int_equal(still(since + 2, "10.0.0.1"), netlink_generation_now);
	}
}

static void test_the_families_are_apart(void **state)
{
	uint32_t since = netlink_generation_now;

	(void)state;
	change("::", 0);
	change("fd09::", 16);
	assert_int_equal(still(since, "10.0.0.1"), netlink_generation_now);
	assert_int_equal(still(since, "fd09::1"), 0);
	assert_int_equal(still(since + 1, "2001:db8::1"), netlink_generation_now);
	since = netlink_generation_now;
	change("0.0.0.0", 0);
	assert_int_equal(still(since, "fd09::1"), netlink_generation_now);
	change("fd09::8000", 113);
	assert_int_equal(still(since, "fd09::1"), netlink_generation_now);
	change("fd09::", 113);
	assert_int_equal(still(since, "fd09::1"), 0);
}

static void test_what_is_no_route_concerns_all(void **state)
{
	uint32_t since = netlink_generation_now;

	(void)state;
	changes_note(++netlink_generation_now, NULL);
	assert_int_equal(still(since, "10.0.0.1"), 0);
	assert_int_equal(still(netlink_generation_now, "10.0.0.1"), netlink_generation_now);
}

static void test_what_is_not_remembered_does_not_hold(void **state)
{
	uint32_t since = netlink_generation_now;

	(void)state;
	for (int i = 0; i < NETLINK_CHANGES / 2; i++)
		change("192.0.2.0", 24);
	assert_int_equal(still(since, "10.0.0.1"), netlink_generation_now);
	change("192.0.2.0", 24);
	assert_int_equal(still(since, "10.0.0.1"), 0);
	netlink_generation_now++; /* nobody noted it */
	assert_int_equal(still(netlink_generation_now - 1, "10.0.0.1"), 0);
}

static void test_generations_start_again(void **state)
{
	uint32_t since;

	(void)state;
	netlink_generation_now = since = UINT32_MAX - 2;
	for (int i = 0; i < 6; i++)
		change("192.0.2.0", 24);
	assert_int_equal(netlink_generation_now, 4);
	assert_int_equal(still(since, "10.0.0.1"), 4);
	since = netlink_generation_now = UINT32_MAX - 1;
	change("10.0.0.0", 24);
	change("192.0.2.0", 24);
	assert_int_equal(still(since, "10.0.0.1"), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_without_a_change_it_holds, setup),
	cmocka_unit_test_setup(test_other_routes_do_not_concern_it, setup),
	cmocka_unit_test_setup(test_its_own_routes_do, setup),
	cmocka_unit_test_setup(test_the_families_are_apart, setup),
	cmocka_unit_test_setup(test_what_is_no_route_concerns_all, setup),
	cmocka_unit_test_setup(test_what_is_not_remembered_does_not_hold, setup),
	cmocka_unit_test_setup(test_generations_start_again, setup),
};

VMA_TEST_MAIN("netlink_changes", tests, NULL, NULL)
