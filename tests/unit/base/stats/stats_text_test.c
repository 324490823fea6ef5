/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/stats_text.h"

#include <arpa/inet.h>
#include <string.h>

#include "tests/vma_test.h"

static const struct stats_sock member = {
	.fd = 14,
	.type = STATS_UDP,
	.flags = STATS_MC_LOOP,
	.local_port = 0x672b, /* 11111 */
	.n_groups = 1,
	.rx_packets = 786133,
	.rx_bytes = 1155615510,
	.rx_reads = 276077,
	.rx_misses = 10,
	.rx_queued_bytes = 1470,
	.rx_queued_packets = 1,
	.rx_most_bytes = 23520,
	.rx_most_packets = 16,
	.rx_limit = 16777216,
};

static void check_text(const struct stats_sock *slot, unsigned how, const char *wanted)
{
	char text[STATS_TEXT_SIZE];

	assert_int_equal(stats_sock_text(slot, how, text), strlen(wanted));
	assert_string_equal(text, wanted);
}

static void test_block_of_a_socket_in_use(void **state)
{
	static struct stats_sock slot; /* asan aligns less on the stack */

	slot = member;
	slot.local_addr = slot.remote_addr = (struct stats_addr){{0, 0, htonl(0xffff)}};

	slot.groups[0] = inet_addr("224.7.7.7");
	check_text(&slot, STATS_TEXT_RATES | STATS_TEXT_GROUPS,
		   "\tFd=[14]\n"
		   "- UDP, Blocked, MC Loop Enabled \n"
		   "- Local Address   = [0.0.0.0:11111]\n"
		   "- Member of = [224.7.7.7]\n"
		   "Rx Offload: 1128530 / 786133 / 0 / 0 [kilobytes/packets/eagains/errors]\n"
		   "Rx byte: cur 1470 / max 23520 / dropped/s 0 / limit 16777216\n"
		   "Rx pkt : cur 1 / max 16 / dropped/s 0\n"
		   "Rx poll: 10 / 276077 (100.00%) [miss/hit]\n");
}

static void test_block_without_groups_and_rates(void **state)
{
	static struct stats_sock slot; /* asan aligns less on the stack */

	slot = member;
	slot.local_addr = slot.remote_addr = (struct stats_addr){{0, 0, htonl(0xffff)}};

	slot.rx_misses = 276077;
	slot.retransmits = 3;
	slot.rx_migrations = 1;
	slot.mc_addr = inet_addr("10.0.0.1");
	slot.rx_queued_packets = slot.rx_most_packets = 0;
	check_text(&slot, 0,
		   "\tFd=[14]\n"
		   "- UDP, Blocked, MC Loop Enabled , MC IF = [10.0.0.1]\n"
		   "- Local Address   = [0.0.0.0:11111]\n"
		   "Rx Offload: 1128530 / 786133 / 0 / 0 [kilobytes/packets/eagains/errors]\n"
		   "Rx byte: cur 1470 / max 23520 / dropped 0 / limit 16777216\n"
		   "Rx poll: 276077 / 276077 (50.00%) [miss/hit]\n"
		   "Ring migrations Rx: 1, Tx: 0\n"
		   "Retransmissions: 3\n");
}

static void test_endpoints_of_both_families(void **state)
{
	static const struct {
		struct stats_addr addr;
		const char *text;
	} rows[] = {
		{{{0, 0, 0xffff0000, 0x0100000a}}, "10.0.0.1:80"},
		{{{0, 0, 0xffff0000, 0}}, "0.0.0.0:80"},
		{{{0}}, "[::]:80"},
		{{{0xb80d0120, 0, 0, 0x01000000}}, "[2001:db8::1]:80"},
		{{{~0u, ~0u, ~0u, ~0u}}, "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:80"},
	};
	char text[STATS_ENDPOINT];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		stats_endpoint_text(&rows[i].addr, htons(80), text);
		assert_string_equal(text, rows[i].text);
		assert_int_equal(stats_addr_is_any(&rows[i].addr), i == 1 || i == 2);
		assert_int_equal(stats_addr_is_ipv4(&rows[i].addr), i < 2);
	}
}

static void test_block_of_an_idle_socket(void **state)
{
	static const struct stats_sock slot = {
		.fd = 3, .type = STATS_TCP, .flags = STATS_NONBLOCK, .rx_limit = 9};

	check_text(&slot, STATS_TEXT_GROUPS,
		   "\tFd=[3]\n- TCP, Non-blocked\nRx and Tx where not active\n");
}

static void test_a_hostile_number_of_groups_is_bounded(void **state)
{
	static struct stats_sock slot; /* asan aligns less on the stack */
	char text[STATS_TEXT_SIZE], *at = text;
	unsigned n = 0;

	slot = member;
	slot.local_addr = slot.remote_addr = (struct stats_addr){{0, 0, htonl(0xffff)}};

	slot.n_groups = UINT32_MAX;
	stats_sock_text(&slot, STATS_TEXT_GROUPS, text);
	while ((at = strstr(at, "Member of"))) {
		at++;
		n++;
	}
	assert_int_equal(n, STATS_GROUPS);
}

static void test_place_is_parsed_strictly(void **state)
{
	static const char *const wrong[] = {
		"",
		"libvma-statistics",
		"libvma-statistics pid=1 namespace=2",
		"libvma-statistics pid=-1 namespace=2 fd=3\n",
		"libvma-statistics pid= 1 namespace=2 fd=3\n",
		"libvma-statistics pid=4294967297 namespace=2 fd=3\n",
		"libvma-statistics pid=1 namespace=2 fd=3",
		"libvma-statistics pid=1 namespace=2 fd=3\nmore",
		"libvma-statistics pid=01 namespace=2 fd=3\n",
	};
	struct stats_place place;

	assert_true(
		stats_place_parse("libvma-statistics pid=12 namespace=4026531836 fd=3\n", &place));
	assert_int_equal(place.pid, 12);
	assert_int_equal(place.namespace, 4026531836);
	assert_int_equal(place.fd, 3);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_false(stats_place_parse(wrong[i], &place));
}

static void test_share(void **state)
{
	assert_true(stats_share(0, 0) == 0);
	assert_true(stats_share(3, 1) == 75);
	assert_true(stats_share(UINT64_MAX, UINT64_MAX) == 50);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_block_of_a_socket_in_use),
	cmocka_unit_test(test_block_without_groups_and_rates),
	cmocka_unit_test(test_endpoints_of_both_families),
	cmocka_unit_test(test_block_of_an_idle_socket),
	cmocka_unit_test(test_a_hostile_number_of_groups_is_bounded),
	cmocka_unit_test(test_place_is_parsed_strictly),
	cmocka_unit_test(test_share),
};

VMA_TEST_MAIN("stats_text", tests, NULL, NULL)
