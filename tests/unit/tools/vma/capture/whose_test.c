/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/capture/whose.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/stats/stats_text.h"
#include "tests/vma_test.h"

#define A ((struct stats_addr){{0, 0, htonl(0xffff), 0x0100090au}}) /* 10.9.0.1 */
#define ANY ((struct stats_addr){{0, 0, htonl(0xffff), 0}})
#define B ((struct stats_addr){{0, 0, htonl(0xffff), 0x0200090au}})

/* UDP from A:5000 to B:7000 */
static const uint8_t udp[42] = {
	2,    1, 1,  1,	 1, 1, 2,    2,	   2,	 2,    2, 2, 8,	 0, /* Ethernet */
	0x45, 0, 0,  28, 0, 0, 0x40, 0,	   64,	 17,   0, 0, 10, 9,
	0,    1, 10, 9,	 0, 2, 0x13, 0x88, 0x1b, 0x58, 0, 8, 0,	 0};

static struct whose_key key;

static void test_the_key_of_a_frame_is_that_of_the_process(void **state)
{
	assert_true(whose_key_of(udp, sizeof(udp), true, &key));
	assert_int_equal(key.proto, IPPROTO_UDP);
	assert_true(stats_addr_eq(&key.local_addr, &A) && stats_addr_eq(&key.remote_addr, &B));
	assert_true(key.local_port == htons(5000) && key.remote_port == htons(7000));
	assert_true(whose_key_of(udp, sizeof(udp), false, &key));
	assert_true(stats_addr_eq(&key.local_addr, &B) && stats_addr_eq(&key.remote_addr, &A));
	assert_true(key.local_port == htons(7000) && key.remote_port == htons(5000));
}

static void test_frames_of_other_kinds_have_none(void **state)
{
	uint8_t frame[60];
	static const struct {
		unsigned at;
		uint8_t value;
	} changes[] = {
		{12, 0x88}, /* another protocol */
		{14, 0x65}, /* IPv6 in IPv4 */
		{14, 0x44}, /* a header that is too short */
		{14, 0x4f}, /* longer than the frame */
		{21, 1},    /* a later fragment */
		{14 + 9, IPPROTO_ICMP},
	};

	for (size_t len = 0; len < sizeof(udp) - 4; len++)
		assert_false(whose_key_of(udp, len, true, &key));
	for (unsigned i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		memcpy(frame, udp, sizeof(udp));
		frame[changes[i].at] = changes[i].value;
		assert_false(whose_key_of(frame, sizeof(udp), true, &key));
	}
	/* With a VLAN tag it is the same. */
	memcpy(frame, udp, 12);
	memcpy(frame + 12, (const uint8_t[]){0x81, 0, 0, 5}, 4);
	memcpy(frame + 16, udp + 12, sizeof(udp) - 12);
	assert_true(whose_key_of(frame, sizeof(udp) + 4, true, &key));
	assert_true(stats_addr_eq(&key.local_addr, &A) && key.remote_port == htons(7000));
}

static struct stats_sock slot(int fd, uint8_t type, struct stats_addr addr,
			      struct stats_addr remote)
{
	return (struct stats_sock){.state = STATS_OURS,
				   .accelerated = 1,
				   .fd = fd,
				   .type = type,
				   .local_addr = addr,
				   .local_port = htons(5000),
				   .remote_addr = remote,
				   .remote_port = stats_addr_is_any(&remote) ? 0 : htons(7000)};
}

static void finds(struct stats_sock *socks, unsigned n, int fd, bool is_exact)
{
	static struct snapshot s;
	bool exact = !is_exact;
	const struct stats_sock *found;

	s.socks = socks;
	s.n_socks = n;
	found = whose_find(&s, &key, &exact);
	assert_int_equal(found ? found->fd : -1, fd);
	assert_int_equal(exact, is_exact);
}

static void test_the_connected_socket_is_preferred(void **state)
{
	static struct stats_sock socks[5]; /* aligned, also where a sanitizer has the stack */

	socks[0] = slot(3, STATS_UDP, ANY, ANY);
	socks[1] = slot(4, STATS_TCP, A, B);
	socks[2] = slot(5, STATS_UDP, A, ANY);
	socks[3] = slot(6, STATS_UDP, B, ANY);
	socks[4] = slot(7, STATS_UDP, A, B);
	assert_true(whose_key_of(udp, sizeof(udp), true, &key));
	finds(socks, 5, 7, true);
	finds(socks, 4, 5, false);
	finds(socks, 2, 3, false);
	finds(socks, 0, -1, false);
	socks[4].remote_addr = A; /* connected to another peer */
	finds(socks + 4, 1, -1, false);
	socks[0].accelerated = 0; /* the kernel's */
	finds(socks, 1, -1, false);
}

/* 2001:db8::1, port 5000, to 2001:db8::2, port 7000. */
static void test_frames_of_ipv6(void **state)
{
	static struct stats_sock socks[2];
	const struct stats_addr one = {{htonl(0x20010db8), 0, 0, htonl(1)}};
	const struct stats_addr two = {{htonl(0x20010db8), 0, 0, htonl(2)}}, any6 = {{0}};
	uint8_t frame[14 + 40 + 8] = {[12] = 0x86, 0xdd, 0x60, [20] = IPPROTO_TCP};

	memcpy(frame + 22, &one, 16);
	memcpy(frame + 38, &two, 16);
	memcpy(frame + 54, udp + 34, 4); /* ports */
	for (size_t len = 0; len < 58; len++)
		assert_false(whose_key_of(frame, len, true, &key));
	assert_true(whose_key_of(frame, 58, true, &key));
	assert_int_equal(key.proto, IPPROTO_TCP);
	assert_true(stats_addr_eq(&key.local_addr, &one) && stats_addr_eq(&key.remote_addr, &two));
	assert_true(key.local_port == htons(5000) && key.remote_port == htons(7000));
	socks[0] = slot(3, STATS_TCP, ANY, ANY); /* an AF_INET listener has no IPv6 */
	socks[1] = slot(4, STATS_TCP, any6, any6);
	socks[1].flags = STATS_INET6;
	finds(socks, 1, -1, false);
	finds(socks, 2, 4, false);
	socks[0] = slot(5, STATS_TCP, one, two);
	finds(socks, 2, 5, true);
	frame[20] = IPPROTO_ICMPV6;
	assert_false(whose_key_of(frame, 58, true, &key));
	frame[14] = 0x40;
	frame[20] = IPPROTO_TCP;
	assert_false(whose_key_of(frame, 58, true, &key));
}

static void test_the_text(void **state)
{
	static struct stats_sock sock;
	char text[WHOSE_TEXT];

	sock = slot(17, STATS_UDP, A, B);
	whose_text("v0", 3, NULL, NULL, text);
	assert_string_equal(text, "accelerated over v0 on ring 3");
	assert_true(whose_key_of(udp, sizeof(udp), true, &key));
	whose_text("v0", 3, &key, NULL, text);
	assert_string_equal(text,
			    "accelerated over v0 on ring 3; udp 10.9.0.1:5000 to 10.9.0.2:7000");
	whose_text("v0", 3, &key, &sock, text);
	assert_string_equal(
		text, "accelerated over v0 on ring 3; udp 10.9.0.1:5000 to 10.9.0.2:7000; fd 17");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_key_of_a_frame_is_that_of_the_process),
	cmocka_unit_test(test_frames_of_other_kinds_have_none),
	cmocka_unit_test(test_the_connected_socket_is_preferred),
	cmocka_unit_test(test_frames_of_ipv6),
	cmocka_unit_test(test_the_text),
};

VMA_TEST_MAIN("whose", tests, NULL, NULL)
