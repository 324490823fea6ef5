/* SPDX-License-Identifier: BSD-2-Clause */
/* Control messages: what a program sends may be anything, what it receives into may be short. */
#include "sock/core/msg/cmsg.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <time.h>

#include <linux/errqueue.h> /* needs <time.h> */

#include "base/clock.h"
#include "vma_test.h"

#define PAGE 4096
#define ROUNDS 200000
#define LONGEST 96

static uint8_t *end; /* of memory: what follows cannot be accessed */
static unsigned seed = 4711;

static int set_up(void **state)
{
	uint8_t *at =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	clock_init();
	assert_true(at != MAP_FAILED);
	assert_int_equal(mprotect(at + PAGE, PAGE, PROT_NONE), 0);
	end = at + PAGE;
	return 0;
}

static unsigned any(unsigned below)
{
	return (unsigned)rand_r(&seed) % below;
}

/* Words that are near valid ones. */
static uint32_t any_word(void)
{
	static const uint32_t words[] = {0,
					 1,
					 2,
					 7,
					 15,
					 16,
					 17,
					 20,
					 24,
					 28,
					 32,
					 40,
					 64,
					 96,
					 1u << 31,
					 ~0u,
					 SOL_SOCKET,
					 IPPROTO_IP,
					 IPPROTO_UDP,
					 SCM_RIGHTS,
					 IPPROTO_IPV6,
					 IPV6_PKTINFO,
					 IP_PKTINFO,
					 IP_TTL,
					 IP_TOS,
					 UDP_SEGMENT};

	return words[any(sizeof(words) / sizeof(words[0]))];
}

/* Ends where memory ends: a step too far is a fault. */
static struct msghdr any_control(void)
{
	size_t len = any(LONGEST + 1);
	uint8_t *at = end - len;

	for (size_t i = 0; i + 4 <= len; i += 4) {
		uint32_t word = any_word();

		memcpy(at + i, &word, 4);
	}
	return (struct msghdr){.msg_control = at, .msg_controllen = len};
}

static void test_control_data_of_any_kind_is_read_within_its_bounds(void **state)
{
	unsigned good = 0, bad = 0;

	(void)state;
	print_message("seed %u\n", seed);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct msghdr msg = any_control();
		struct cmsg_sent sent;
		int rc = cmsg_check(&msg);

		assert_true(rc == 0 || rc == -EINVAL);
		rc ? bad++ : good++;
		if (!cmsg_read_sent(&msg, (enum cmsg_to)(i % 3), &sent))
			continue;
		assert_true(sent.tos >= -1 && sent.tos <= UINT8_MAX);
		assert_true(sent.segmented || !sent.gso_size);
	}
	print_message("%u good, %u bad\n", good, bad);
	assert_true(good > 100 && bad > 100);
}

static struct msghdr one(int level, int type, const void *data, size_t len)
{
	static uint8_t control[256] __attribute__((aligned(8)));
	struct cmsghdr head = {.cmsg_len = CMSG_LEN(len), .cmsg_level = level, .cmsg_type = type};

	memcpy(control, &head, sizeof(head));
	memcpy(CMSG_DATA((struct cmsghdr *)(void *)control), data, len);
	return (struct msghdr){.msg_control = control, .msg_controllen = CMSG_SPACE(len)};
}

/* ip(7), udp(7): the kernel judges what is not exactly so. */
static void test_values_out_of_range_are_left_to_the_kernel(void **state)
{
	static const struct {
		int level, type;
		size_t len;
		int value;
		bool taken;
	} rows[] = {
		{IPPROTO_IP, IP_TTL, 4, 1, true},	 {IPPROTO_IP, IP_TTL, 4, 255, true},
		{IPPROTO_IP, IP_TTL, 4, 0, false},	 {IPPROTO_IP, IP_TTL, 4, 256, false},
		{IPPROTO_IP, IP_TTL, 4, -1, false},	 {IPPROTO_IP, IP_TTL, 1, 5, false},
		{IPPROTO_IP, IP_TOS, 4, 0, true},	 {IPPROTO_IP, IP_TOS, 1, 8, true},
		{IPPROTO_IP, IP_TOS, 4, 256, false},	 {IPPROTO_IP, IP_TOS, 4, -1, false},
		{IPPROTO_IP, IP_TOS, 2, 8, false},	 {IPPROTO_IP, IP_PKTINFO, 4, 0, false},
		{IPPROTO_IP, IP_RETOPTS, 4, 0, false},	 {IPPROTO_UDP, UDP_SEGMENT, 2, 500, true},
		{IPPROTO_UDP, UDP_SEGMENT, 4, 5, false}, {IPPROTO_TCP, 1, 4, 5, true},
		{SOL_SOCKET, SO_MARK, 4, 5, false},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct msghdr msg = one(rows[i].level, rows[i].type, &rows[i].value, rows[i].len);
		struct cmsg_sent sent;

		if (cmsg_read_sent(&msg, CMSG_INET, &sent) != rows[i].taken)
			fail_msg("row %u", i);
	}
}

/* Of an AF_INET6 socket, for IPv4: the source must be mapped; AF_INET does not look. */
static void test_an_ipv6_source_counts_for_ipv6_sockets(void **state)
{
	struct in6_pktinfo info = {.ipi6_ifindex = 5};
	struct inaddr src = addr_v4(htonl(0x0a000001));
	struct cmsg_sent sent;
	struct msghdr msg;

	(void)state;
	memcpy(&info.ipi6_addr, &src, sizeof(src));
	msg = one(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	assert_true(cmsg_read_sent(&msg, CMSG_INET6_TO_IPV4, &sent));
	assert_true(sent.pktinfo && sent.oif == 5 && addr_eq(&sent.src, &src));
	assert_true(cmsg_read_sent(&msg, CMSG_INET, &sent));
	assert_false(sent.pktinfo);
	msg = one(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info) - 1);
	assert_false(cmsg_read_sent(&msg, CMSG_INET6_TO_IPV4, &sent));
	memset(&info.ipi6_addr, 0, sizeof(info.ipi6_addr));
	msg = one(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	assert_false(cmsg_read_sent(&msg, CMSG_INET6_TO_IPV4, &sent));
	msg = one(IPPROTO_IPV6, IPV6_TCLASS, &info, sizeof(int));
	assert_true(cmsg_read_sent(&msg, CMSG_INET6_TO_IPV4, &sent));
	assert_int_equal(sent.tos, -1);
}

/* To IPv6: its own messages count, and those of IPv4 do not. */
static void test_messages_for_ipv6(void **state)
{
	static const struct {
		int type, value;
		bool taken;
		int tos, ttl;
	} rows[] = {
		{IPV6_TCLASS, 0xb8, true, 0xb8, 0},   {IPV6_TCLASS, 0, true, 0, 0},
		{IPV6_TCLASS, -1, true, -1, 0},	      {IPV6_TCLASS, 256, false, 0, 0},
		{IPV6_TCLASS, -2, false, 0, 0},	      {IPV6_HOPLIMIT, 7, true, -1, 7},
		{IPV6_HOPLIMIT, 255, true, -1, 255},  {IPV6_HOPLIMIT, -1, true, -1, 0},
		{IPV6_HOPLIMIT, 0, false, 0, 0},      {IPV6_HOPLIMIT, 256, false, 0, 0},
		{IPV6_DONTFRAG, 1, false, 0, 0},      {IPV6_HOPOPTS, 0, false, 0, 0},
		{IPV6_DSTOPTS, 0x12345, false, 0, 0},
	};
	int ttl = 1;
	struct in6_pktinfo info = {.ipi6_addr = {.s6_addr = {0x20, 1}}};
	struct cmsg_sent sent;
	struct msghdr msg;

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		msg = one(IPPROTO_IPV6, rows[i].type, &rows[i].value, sizeof(int));
		if (cmsg_read_sent(&msg, CMSG_INET6, &sent) != rows[i].taken)
			fail_msg("row %u", i);
		if (rows[i].taken && (sent.tos != rows[i].tos || sent.ttl != rows[i].ttl))
			fail_msg("row %u: %d %u", i, sent.tos, sent.ttl);
	}
	msg = one(IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
	assert_true(cmsg_read_sent(&msg, CMSG_INET6, &sent));
	assert_int_equal(sent.ttl, 0);
	msg = one(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	assert_true(cmsg_read_sent(&msg, CMSG_INET6, &sent));
	assert_true(sent.pktinfo && !sent.oif && !memcmp(&sent.src, &info.ipi6_addr, 16));
	assert_false(cmsg_read_sent(&msg, CMSG_INET6_TO_IPV4, &sent));
	info.ipi6_addr.s6_addr[0] = 0xfe; /* fe80::, a link-local address */
	info.ipi6_addr.s6_addr[1] = 0x80;
	msg = one(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	assert_true(cmsg_read_sent(&msg, CMSG_INET6, &sent));
	assert_true(!memcmp(&sent.src, &info.ipi6_addr, 16));
	info.ipi6_addr.s6_addr[0] = 0xff; /* a group */
	msg = one(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	assert_false(cmsg_read_sent(&msg, CMSG_INET6, &sent));
	memset(&info, 0, sizeof(info));
	msg = one(IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	assert_true(cmsg_read_sent(&msg, CMSG_INET6, &sent));
	assert_true(addr_is_any(&sent.src));
}

/* Every length from none to plenty: nothing is written beyond it, what is cut is said. */
static void test_a_short_buffer_is_filled_to_its_end_and_no_further(void **state)
{
	struct sock_options opt;
	size_t whole = CMSG_SPACE(sizeof(struct timeval)) + CMSG_SPACE(sizeof(int));
	const struct pkt_arrival arrival = {.real = 5 * NSEC_PER_SEC};

	(void)state;
	memset(&opt, 0, sizeof(opt));
	opt.told = TOLD_STAMP | TOLD_INQ;
	for (size_t len = 0; len <= whole + 16; len++) {
		struct msghdr msg = {.msg_control = end - len, .msg_controllen = len};
		bool fits = len >= whole - (CMSG_SPACE(sizeof(int)) - CMSG_LEN(sizeof(int)));

		cmsg_fill_stream(&opt, &arrival, 9, &msg);
		assert_true(msg.msg_controllen <= len);
		assert_int_equal((msg.msg_flags & MSG_CTRUNC) == 0, fits);
	}
}

/* struct scm_timestamping: {software, 0, hardware}; nothing if neither is there. */
static void test_stamps_are_told_as_far_as_they_are_wanted_and_known(void **state)
{
	static const struct {
		uint16_t told;
		nsec_t device;
		int type; /* 0: none */
		long software, hardware;
	} rows[] = {
		{TOLD_STAMPING, 7, SO_TIMESTAMPING, 5, 0},
		{TOLD_HARDWARE, 7, SO_TIMESTAMPING, 0, 7},
		{TOLD_HARDWARE, 0, 0, 0, 0},
		{TOLD_STAMPING | TOLD_HARDWARE, 7, SO_TIMESTAMPING, 5, 7},
		{TOLD_STAMPING | TOLD_HARDWARE, 0, SO_TIMESTAMPING, 5, 0},
		{TOLD_HARDWARE | TOLD_STAMPING_NEW, 7, SO_TIMESTAMPING_NEW, 0, 7},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct pkt_arrival arrival = {5 * NSEC_PER_SEC + 1,
						    rows[i].device * NSEC_PER_SEC};
		_Alignas(struct cmsghdr) char control[256];
		struct msghdr msg = {.msg_control = control, .msg_controllen = sizeof(control)};
		struct timespec ts[3] = {{0}};
		struct sock_options opt;

		memset(&opt, 0, sizeof(opt));
		opt.told = rows[i].told;
		cmsg_fill_stream(&opt, &arrival, 9, &msg);
		assert_int_equal(msg.msg_controllen > 0, rows[i].type != 0);
		if (!rows[i].type)
			continue;
		assert_int_equal(CMSG_FIRSTHDR(&msg)->cmsg_type, rows[i].type);
		assert_int_equal(CMSG_FIRSTHDR(&msg)->cmsg_len, CMSG_LEN(sizeof(ts)));
		memcpy(ts, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(ts));
		assert_int_equal(ts[0].tv_sec, rows[i].software);
		assert_int_equal(ts[0].tv_nsec, rows[i].software != 0);
		assert_int_equal(ts[1].tv_sec, 0);
		assert_int_equal(ts[2].tv_sec, rows[i].hardware);
	}
}

/* As ip_recv_error() and ipv6_recv_error() write it; a range that begins again at 0, too. */
static void test_a_completion_is_an_error_of_the_socket_s_family(void **state)
{
	static const struct {
		uint8_t family;
		int level, type;
		size_t reporter;
	} cases[] = {
		{AF_INET, IPPROTO_IP, IP_RECVERR, sizeof(struct sockaddr_in)},
		{AF_INET6, IPPROTO_IPV6, IPV6_RECVERR, sizeof(struct sockaddr_in6)},
	};
	static const struct sock_options opt;
	uint8_t control[128] __attribute__((aligned(8))), zeros[64] = {0};
	struct sock_extended_err e;
	struct cmsghdr c;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct msghdr msg = {.msg_control = control, .msg_controllen = sizeof(control)};
		size_t len = sizeof(e) + cases[i].reporter;

		memset(control, 0xff, sizeof(control));
		cmsg_fill_completion(&opt, cases[i].family, UINT32_MAX, 2, &msg);
		assert_int_equal(msg.msg_flags, 0);
		assert_int_equal(msg.msg_controllen, CMSG_SPACE(len));
		memcpy(&c, control, sizeof(c));
		memcpy(&e, control + CMSG_LEN(0), sizeof(e));
		assert_int_equal(c.cmsg_len, CMSG_LEN(len));
		assert_int_equal(c.cmsg_level, cases[i].level);
		assert_int_equal(c.cmsg_type, cases[i].type);
		assert_int_equal(e.ee_errno, 0);
		assert_int_equal(e.ee_origin, SO_EE_ORIGIN_ZEROCOPY);
		assert_int_equal(e.ee_type, 0);
		assert_int_equal(e.ee_code, SO_EE_CODE_ZEROCOPY_COPIED);
		assert_int_equal(e.ee_info, UINT32_MAX);
		assert_int_equal(e.ee_data, 2);
		assert_memory_equal(control + CMSG_LEN(sizeof(e)), zeros, cases[i].reporter);
		assert_int_equal(control[CMSG_LEN(len)], 0xff);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_completion_is_an_error_of_the_socket_s_family),
	cmocka_unit_test(test_control_data_of_any_kind_is_read_within_its_bounds),
	cmocka_unit_test(test_values_out_of_range_are_left_to_the_kernel),
	cmocka_unit_test(test_an_ipv6_source_counts_for_ipv6_sockets),
	cmocka_unit_test(test_messages_for_ipv6),
	cmocka_unit_test(test_a_short_buffer_is_filled_to_its_end_and_no_further),
	cmocka_unit_test(test_stamps_are_told_as_far_as_they_are_wanted_and_known),
};

VMA_TEST_MAIN("cmsg", tests, set_up, NULL)
