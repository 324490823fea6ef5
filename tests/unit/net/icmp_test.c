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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_path_that_takes_less),
	cmocka_unit_test(test_a_router_that_does_not_say_how_much_less),
	cmocka_unit_test(test_errors_are_the_kernels),
	cmocka_unit_test(test_a_datagram_has_no_sequence_number),
	cmocka_unit_test(test_other_messages_say_nothing),
	cmocka_unit_test(test_what_is_cut_off_or_lies_about_its_length),
};

VMA_TEST_MAIN("icmp", tests, NULL, NULL)
