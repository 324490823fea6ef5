/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/addr.h"

#include <arpa/inet.h>

#include "tests/vma_test.h"

static struct inaddr addr_of(const char *text)
{
	struct inaddr a;
	uint32_t v4;

	if (inet_pton(AF_INET, text, &v4) == 1)
		return addr_v4(v4);
	assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

static void test_classes(void **state)
{
	static const struct {
		const char *text;
		bool v4, any, multicast, loopback, broadcast;
	} rows[] = {
		{"0.0.0.0", .v4 = true, .any = true},
		{"::", .any = true},
		{"10.0.0.1", .v4 = true},
		{"::ffff:10.0.0.1", .v4 = true},
		{"127.0.0.1", .v4 = true, .loopback = true},
		{"127.255.255.254", .v4 = true, .loopback = true},
		{"128.0.0.1", .v4 = true},
		{"::1", .loopback = true},
		{"::2", .v4 = false},
		{"::127.0.0.1", .v4 = false},
		{"1::1", .v4 = false},
		{"223.255.255.255", .v4 = true},
		{"224.0.0.0", .v4 = true, .multicast = true},
		{"239.255.255.255", .v4 = true, .multicast = true},
		{"240.0.0.0", .v4 = true},
		{"ff02::1", .multicast = true},
		{"fe80::1", .v4 = false},
		{"255.255.255.255", .v4 = true, .broadcast = true},
		{"255.255.255.254", .v4 = true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct inaddr a = addr_of(rows[i].text);

		print_message("%s\n", rows[i].text);
		assert_int_equal(addr_is_v4(&a), rows[i].v4);
		assert_int_equal(addr_is_any(&a), rows[i].any);
		assert_int_equal(addr_is_multicast(&a), rows[i].multicast);
		assert_int_equal(addr_is_loopback(&a), rows[i].loopback);
		assert_int_equal(addr_is_broadcast(&a), rows[i].broadcast);
	}
}

static void test_text(void **state)
{
	static const struct {
		const char *addr, *text;
	} rows[] = {
		{"10.0.0.1", "10.0.0.1:80"},
		{"255.255.255.255", "255.255.255.255:80"},
		{"::", "[::]:80"},
		{"2001:db8::1", "[2001:db8::1]:80"},
		{"1111:2222:3333:4444:5555:6666:7777:8888",
		 "[1111:2222:3333:4444:5555:6666:7777:8888]:80"},
	};
	char buf[ENDPOINT_TEXT];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct endpoint ep = {.addr = addr_of(rows[i].addr), .port = htons(80)};

		assert_string_equal(endpoint_text(&ep, buf), rows[i].text);
		assert_string_equal(addr_text(&ep.addr, buf), rows[i].addr);
	}
}

static void test_sockaddr_in_there_and_back(void **state)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(4660)};
	struct sockaddr_in out;
	struct endpoint ep;
	socklen_t len = sizeof(out);

	in.sin_addr.s_addr = inet_addr("192.0.2.1");
	assert_true(endpoint_from_sin(&ep, (struct sockaddr *)&in, sizeof(in)));
	assert_true(addr_is_v4(&ep.addr));
	assert_int_equal(ep.port, htons(4660));
	memset(&out, 0xff, sizeof(out));
	endpoint_to_sockaddr(&ep, AF_INET, (struct sockaddr *)&out, &len);
	assert_int_equal(len, sizeof(out));
	assert_memory_equal(&in, &out, sizeof(in)); /* and sin_zero is zero */
}

static void test_ipv4_is_shown_mapped_to_an_ipv6_socket(void **state)
{
	struct endpoint ep = {.addr = addr_of("192.0.2.1"), .port = htons(7)}, back;
	struct sockaddr_in6 out;
	socklen_t len = sizeof(out);

	memset(&out, 0xff, sizeof(out));
	endpoint_to_sockaddr(&ep, AF_INET6, (struct sockaddr *)&out, &len);
	assert_int_equal(len, sizeof(out));
	assert_int_equal(out.sin6_family, AF_INET6);
	assert_true(IN6_IS_ADDR_V4MAPPED(&out.sin6_addr));
	assert_int_equal(out.sin6_scope_id, 0);
	assert_true(endpoint_from_sin6(&back, (struct sockaddr *)&out, len));
	assert_true(endpoint_eq(&ep, &back));
}

static void test_a_scope_is_that_of_an_address_that_needs_one(void **state)
{
	static const struct {
		const char *addr;
		bool needs;
	} rows[] = {
		{"fe80::1", true},  {"febf::1", true},		{"ff02::1", true},
		{"ff31::1", true},  {"fec0::1", false},		{"ff05::1", false},
		{"fd00::1", false}, {"::ffff:10.0.0.1", false}, {"ff0e::1", false},
		{"::", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sockaddr_in6 in = {.sin6_family = AF_INET6, .sin6_scope_id = 7}, out;
		struct sockaddr *sa = (struct sockaddr *)&in;
		struct endpoint ep, bare;
		socklen_t len = sizeof(out);

		inet_pton(AF_INET6, rows[i].addr, &in.sin6_addr);
		assert_true(endpoint_from_sin6(&ep, sa, sizeof(in)));
		assert_int_equal(addr_needs_scope(&ep.addr), rows[i].needs);
		assert_int_equal(ep.scope, rows[i].needs ? 7 : 0);
		assert_true(endpoint_from_sin6(&bare, sa, 24)); /* without it */
		assert_int_equal(bare.scope, 0);
		assert_int_equal(endpoint_eq(&ep, &bare), !rows[i].needs);
		endpoint_to_sockaddr(&ep, AF_INET6, (struct sockaddr *)&out, &len);
		assert_int_equal(out.sin6_scope_id, ep.scope);
	}
}

static void test_a_short_buffer_gets_the_beginning_and_the_full_size(void **state)
{
	struct endpoint ep = {.addr = addr_of("192.0.2.1"), .port = htons(7)};
	struct sockaddr_in full;
	uint8_t buf[sizeof(full)];

	for (socklen_t room = 0; room <= sizeof(full); room++) {
		socklen_t len = sizeof(full);

		endpoint_to_sockaddr(&ep, AF_INET, (struct sockaddr *)&full, &len);
		memset(buf, 0xee, sizeof(buf));
		len = room;
		endpoint_to_sockaddr(&ep, AF_INET, (struct sockaddr *)(void *)buf, &len);
		assert_int_equal(len, sizeof(full));
		assert_memory_equal(buf, &full, room);
		for (size_t i = room; i < sizeof(buf); i++)
			assert_int_equal(buf[i], 0xee);
	}
	endpoint_to_sockaddr(&ep, AF_INET, NULL, NULL);
}

static void test_incomplete_and_foreign_addresses_are_refused(void **state)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_storage other = {.ss_family = AF_UNIX};
	struct endpoint ep;

	for (socklen_t len = 0; len < sizeof(in); len++)
		assert_false(endpoint_from_sin(&ep, (struct sockaddr *)&in, len));
	for (socklen_t len = 0; len < 24; len++)
		assert_false(endpoint_from_sin6(&ep, (struct sockaddr *)&in6, len));
	assert_true(endpoint_from_sin6(&ep, (struct sockaddr *)&in6, 24));
	assert_false(endpoint_from_sin(&ep, (struct sockaddr *)&in6, sizeof(in6)));
	other.ss_family = AF_INET;
	assert_false(endpoint_from_sin6(&ep, (struct sockaddr *)&other, sizeof(other)));
	other.ss_family = AF_UNIX;
	assert_false(endpoint_from_sin(&ep, (struct sockaddr *)&other, sizeof(other)));
	assert_false(endpoint_from_sin6(&ep, (struct sockaddr *)&other, sizeof(other)));
	other.ss_family = AF_UNSPEC;
	assert_false(endpoint_from_sin(&ep, (struct sockaddr *)&other, sizeof(other)));
	assert_false(endpoint_from_sin6(&ep, (struct sockaddr *)&other, sizeof(other)));
	assert_false(endpoint_from_sin(&ep, NULL, sizeof(other)));
	assert_false(endpoint_from_sin6(&ep, NULL, sizeof(other)));
}

static void test_endpoints_differ_by_address_or_port(void **state)
{
	struct endpoint a = {.addr = addr_of("10.0.0.1"), .port = htons(1)}, b = a;

	assert_true(endpoint_eq(&a, &b));
	b.port = htons(2);
	assert_false(endpoint_eq(&a, &b));
	b = a;
	b.addr.b[0] = 1;
	assert_false(endpoint_eq(&a, &b));
	b = a;
	b.addr.b[15] ^= 1;
	assert_false(endpoint_eq(&a, &b));
}

static void test_link_addresses_of_groups(void **state)
{
	static const uint8_t v4[6] = {0x01, 0x00, 0x5e, 0x01, 0x02, 0x83};
	static const uint8_t v6[6] = {0x33, 0x33, 0xff, 0x81, 0x02, 0x03};
	struct inaddr group = addr_of("239.129.2.131");
	uint8_t mac[6];

	addr_multicast_mac(&group, mac);
	assert_memory_equal(mac, v4, 6);
	group = addr_of("ff02::1:ff81:203");
	addr_multicast_mac(&group, mac);
	assert_memory_equal(mac, v6, 6);
}

static void test_link_local_addresses(void **state)
{
	static const char *const yes[] = {"fe80::1", "febf::1"};
	static const char *const no[] = {"fec0::1", "fe40::1", "ff02::1", "169.254.0.1", "::1"};
	struct inaddr a;

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		a = addr_of(yes[i]);
		assert_true(addr_is_link_local6(&a));
	}
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		a = addr_of(no[i]);
		assert_false(addr_is_link_local6(&a));
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_link_addresses_of_groups),
	cmocka_unit_test(test_link_local_addresses),
	cmocka_unit_test(test_a_scope_is_that_of_an_address_that_needs_one),
	cmocka_unit_test(test_classes),
	cmocka_unit_test(test_text),
	cmocka_unit_test(test_sockaddr_in_there_and_back),
	cmocka_unit_test(test_ipv4_is_shown_mapped_to_an_ipv6_socket),
	cmocka_unit_test(test_a_short_buffer_gets_the_beginning_and_the_full_size),
	cmocka_unit_test(test_incomplete_and_foreign_addresses_are_refused),
	cmocka_unit_test(test_endpoints_differ_by_address_or_port),
};

VMA_TEST_MAIN("addr", tests, NULL, NULL)
