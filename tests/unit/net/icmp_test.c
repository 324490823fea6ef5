/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/icmp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/vma_test.h"

/* A router's ICMP message about one of our segments, in parts that a test changes. */
struct message {
	uint8_t ip[20], icmp[8], quoted_ip[20], tcp[8];
};

static struct message message(uint8_t type, uint8_t code, uint16_t mtu)
{
	struct message m = {
		.ip = {0x45, [9] = IPPROTO_ICMP},
		.icmp = {type, code, [6] = (uint8_t)(mtu >> 8), (uint8_t)mtu},
		.quoted_ip = {0x45, [2] = 0x05, 0xdc, [9] = IPPROTO_TCP, [12] = 10, 9, 0, 1, 10, 9,
			      1, 2},
		.tcp = {0x30, 0x39, 0x1b, 0x58, 0x01, 0x02, 0x03, 0x04},
	};

	return m;
}

/* RFC 792: over the whole message. */
static void set_checksum(struct message *m)
{
	uint16_t sum;

	memset(m->icmp + 2, 0, sizeof(sum));
	sum = (uint16_t)~csum_fold(csum_add(0, m->icmp, sizeof(*m) - sizeof(m->ip)));
	memcpy(m->icmp + 2, &sum, sizeof(sum));
}

/* In memory of its exact size, so that AddressSanitizer sees an overrun. */
static bool parse(const struct message *m, size_t len, struct icmp_error *error)
{
	uint8_t *bytes = malloc(len ? len : 1);
	bool ok;

	memcpy(bytes, m, len);
	ok = icmp_parse_error(bytes, len, error);
	free(bytes);
	return ok;
}

static void test_a_path_that_takes_less(void **state)
{
	struct message m = message(3, 4, 1300);
	struct icmp_error error;
	char text[INET_ADDRSTRLEN];

	assert_true(parse(&m, sizeof(m), &error));
	assert_int_equal(error.mtu, 1300);
	assert_int_equal(error.seq, 0x01020304);
	assert_int_equal(error.key.local_port, htons(12345));
	assert_int_equal(error.key.remote_port, htons(7000));
	assert_int_equal(error.key.proto, IPPROTO_TCP);
	assert_string_equal(inet_ntop(AF_INET, (uint8_t *)&error.key.local + 12, text,
				      sizeof(text)),
			    "10.9.0.1");
	assert_string_equal(inet_ntop(AF_INET, (uint8_t *)&error.key.remote + 12, text,
				      sizeof(text)),
			    "10.9.1.2");
}

static void test_a_router_that_does_not_say_how_much_less(void **state)
{
	struct message m = message(3, 4, 0);
	struct icmp_error error;

	assert_true(parse(&m, sizeof(m), &error));
	assert_int_equal(error.mtu, 1492); /* RFC 1191: below 1500 */
	m.quoted_ip[2] = 0;
	m.quoted_ip[3] = 60;
	assert_true(parse(&m, sizeof(m), &error));
	assert_int_equal(error.mtu, 68);
}

static void test_errors_are_the_kernels(void **state)
{
	static const struct {
		uint8_t type, code;
		int error;
	} cases[] = {{3, 0, ENETUNREACH},   {3, 1, EHOSTUNREACH},  {3, 2, ENOPROTOOPT},
		     {3, 3, ECONNREFUSED},  {3, 10, EHOSTUNREACH}, {3, 13, EHOSTUNREACH},
		     {11, 0, EHOSTUNREACH}, {12, 0, EPROTO}};
	struct icmp_error error;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct message m = message(cases[i].type, cases[i].code, 0);

		assert_true(parse(&m, sizeof(m), &error));
		assert_int_equal(error.error, cases[i].error);
		assert_int_equal(error.mtu, 0);
	}
}

static void test_a_datagram_has_no_sequence_number(void **state)
{
	struct message m = message(3, 3, 0);
	struct icmp_error error;

	m.quoted_ip[9] = IPPROTO_UDP;
	assert_true(parse(&m, sizeof(m), &error));
	assert_int_equal(error.key.proto, IPPROTO_UDP);
	assert_int_equal(error.key.local_port, htons(12345));
	assert_int_equal(error.error, ECONNREFUSED);
	assert_int_equal(error.seq, 0);
}

static void test_other_messages_say_nothing(void **state)
{
	static const uint8_t types[] = {0, 4, 5, 8, 13, 255};
	struct icmp_error error;
	struct message m;

	for (size_t i = 0; i < sizeof(types); i++) {
		m = message(types[i], 0, 0);
		assert_false(parse(&m, sizeof(m), &error));
	}
	m = message(3, 16, 0);
	assert_false(parse(&m, sizeof(m), &error));
	m = message(3, 4, 1300);
	m.quoted_ip[9] = IPPROTO_ICMP;
	assert_false(parse(&m, sizeof(m), &error));
	m = message(3, 4, 1300);
	m.quoted_ip[7] = 8; /* not the first fragment: it contains no header */
	assert_false(parse(&m, sizeof(m), &error));
	m = message(3, 4, 1300);
	m.ip[9] = IPPROTO_TCP;
	assert_false(parse(&m, sizeof(m), &error));
}

static void test_what_is_cut_off_or_lies_about_its_length(void **state)
{
	struct message m = message(3, 4, 1300);
	struct icmp_error error;

	for (size_t len = 0; len < sizeof(m); len++)
		assert_false(parse(&m, len, &error));
	for (unsigned first = 0; first < 256; first++) {
		m = message(3, 4, 1300);
		m.ip[0] = (uint8_t)first;
		parse(&m, sizeof(m), &error);
		m = message(3, 4, 1300);
		m.quoted_ip[0] = (uint8_t)first;
		assert_int_equal(parse(&m, sizeof(m), &error), first == 0x45);
	}
}

/* ---- ICMPv6 ---------------------------------------------------------------------------- */

struct message6 {
	uint8_t icmp[8], quoted_ip[40], tcp[16];
};

static struct message6 message6(uint8_t type, uint8_t code, uint32_t word)
{
	struct message6 m = {
		.icmp = {type, code},
		.quoted_ip = {0x60, [4] = 0x05, 0xa0, IPPROTO_TCP, 64, 0x20, 1, 0xd, 0xb8, [23] = 1,
			      0x20, 1, 0xd, 0xb8, [39] = 2},
		.tcp = {0x30, 0x39, 0x1b, 0x58, 0x01, 0x02, 0x03, 0x04},
	};

	word = htonl(word);
	memcpy(m.icmp + 4, &word, sizeof(word));
	return m;
}

static bool parse6(const struct message6 *m, size_t len, struct icmp_error *error)
{
	uint8_t *bytes = malloc(len ? len : 1);
	bool ok;

	memcpy(bytes, m, len);
	ok = icmp6_parse_error(bytes, len, error);
	free(bytes);
	return ok;
}

static void test_what_the_kernel_ignores_is_not_genuine(void **state)
{
	struct message good = message(3, 4, 1300), m;

	memcpy(good.ip + 16, good.quoted_ip + 12, 4);
	set_checksum(&good);
	assert_true(icmp_is_genuine((const uint8_t *)&good, sizeof(good)));
	for (size_t at = sizeof(m.ip); at < sizeof(m); at++) {
		m = good;
		((uint8_t *)&m)[at] ^= 0x10;
		assert_false(icmp_is_genuine((const uint8_t *)&m, sizeof(m)));
	}
	m = good;
	memcpy(m.ip + 16, (uint8_t[]){224, 0, 0, 1}, 4);
	assert_false(icmp_is_genuine((const uint8_t *)&m, sizeof(m)));
	for (size_t len = 0; len < sizeof(m); len++)
		assert_false(icmp_is_genuine((const uint8_t *)&good, len));
}

static void test_ip6_a_packet_too_big(void **state)
{
	struct message6 m = message6(2, 0, 1400);
	struct icmp_error error;
	struct inaddr local = {.b = {0x20, 1, 0xd, 0xb8, [15] = 1}};
	struct inaddr remote = {.b = {0x20, 1, 0xd, 0xb8, [15] = 2}};

	assert_true(parse6(&m, sizeof(m), &error));
	assert_int_equal(error.mtu, 1400);
	assert_int_equal(error.error, EMSGSIZE);
	assert_int_equal(error.seq, 0x01020304);
	assert_true(addr_eq(&error.key.local, &local) && addr_eq(&error.key.remote, &remote));
	assert_int_equal(error.key.local_port, htons(12345));
	assert_int_equal(error.key.remote_port, htons(7000));
	assert_int_equal(error.key.proto, IPPROTO_TCP);
	m = message6(2, 0, 1280);
	assert_true(parse6(&m, sizeof(m), &error));
	assert_int_equal(error.mtu, 1280);
	m = message6(2, 0, 1279); /* no IPv6 path has less: RFC 8201 */
	assert_false(parse6(&m, sizeof(m), &error));
	m = message6(2, 0, 100000);
	assert_true(parse6(&m, sizeof(m), &error));
	assert_int_equal(error.mtu, 100000);
}

static void test_ip6_errors_are_the_kernels(void **state)
{
	static const struct {
		uint8_t type, code;
		int error;
	} cases[] = {{1, 0, ENETUNREACH},  {1, 1, EACCES},	 {1, 2, EHOSTUNREACH},
		     {1, 3, EHOSTUNREACH}, {1, 4, ECONNREFUSED}, {1, 5, EACCES},
		     {1, 6, EACCES},	   {1, 7, EPROTO},	 {3, 0, EHOSTUNREACH},
		     {3, 1, EHOSTUNREACH}, {4, 0, EPROTO},	 {0, 0, EPROTO},
		     {5, 0, EPROTO},	   {127, 9, EPROTO}};
	struct icmp_error error;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct message6 m = message6(cases[i].type, cases[i].code, 1300);

		assert_true(parse6(&m, sizeof(m), &error));
		assert_int_equal(error.error, cases[i].error);
		assert_int_equal(error.mtu, 0);
	}
}

/* The first fragment of a datagram has a fragment header, the others have no ports. */
static void test_ip6_a_fragment_is_quoted(void **state)
{
	struct message6 m = message6(1, 4, 0);
	struct icmp_error error;

	m.quoted_ip[6] = 44;
	memcpy(m.tcp, (uint8_t[]){IPPROTO_UDP, 0, 0, 1, 1, 2, 3, 4, 0x30, 0x39, 0x1b, 0x58}, 12);
	assert_true(parse6(&m, sizeof(m), &error));
	assert_int_equal(error.key.proto, IPPROTO_UDP);
	assert_int_equal(error.key.local_port, htons(12345));
	assert_int_equal(error.seq, 0);
	m.tcp[3] = 9; /* offset 8 */
	assert_false(parse6(&m, sizeof(m), &error));
}

static void test_ip6_other_messages_say_nothing(void **state)
{
	static const uint8_t types[] = {128, 129, 135, 136, 255};
	struct icmp_error error;
	struct message6 m;

	for (size_t i = 0; i < sizeof(types); i++) {
		m = message6(types[i], 0, 0);
		assert_false(parse6(&m, sizeof(m), &error));
	}
	m = message6(1, 4, 0);
	m.quoted_ip[6] = IPPROTO_ICMPV6;
	assert_false(parse6(&m, sizeof(m), &error));
	m = message6(1, 4, 0);
	m.quoted_ip[0] = 0x45;
	assert_false(parse6(&m, sizeof(m), &error));
	for (size_t at = 8; at <= 24; at += 16) { /* a mapped address: no IPv4 connection */
		m = message6(1, 4, 0);
		memset(m.quoted_ip + at, 0, 10);
		memset(m.quoted_ip + at + 10, 0xff, 2);
		assert_false(parse6(&m, sizeof(m), &error));
	}
}

static void test_ip6_what_is_cut_off(void **state)
{
	struct message6 m = message6(2, 0, 1400);
	struct icmp_error error;

	for (size_t len = 0; len <= sizeof(m); len++)
		assert_int_equal(parse6(&m, len, &error), len >= 8 + 40 + 8);
	m.quoted_ip[6] = 44;
	memcpy(m.tcp, (uint8_t[]){IPPROTO_UDP, 0, 0, 1}, 4);
	for (size_t len = 0; len <= sizeof(m); len++)
		assert_int_equal(parse6(&m, len, &error), len >= 8 + 40 + 16);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_path_that_takes_less),
	cmocka_unit_test(test_a_router_that_does_not_say_how_much_less),
	cmocka_unit_test(test_errors_are_the_kernels),
	cmocka_unit_test(test_a_datagram_has_no_sequence_number),
	cmocka_unit_test(test_other_messages_say_nothing),
	cmocka_unit_test(test_what_is_cut_off_or_lies_about_its_length),
	cmocka_unit_test(test_what_the_kernel_ignores_is_not_genuine),
	cmocka_unit_test(test_ip6_a_packet_too_big),
	cmocka_unit_test(test_ip6_errors_are_the_kernels),
	cmocka_unit_test(test_ip6_a_fragment_is_quoted),
	cmocka_unit_test(test_ip6_other_messages_say_nothing),
	cmocka_unit_test(test_ip6_what_is_cut_off),
};

VMA_TEST_MAIN("icmp", tests, NULL, NULL)
