/* SPDX-License-Identifier: BSD-2-Clause */
/* Path MTU and headers of both families; what segments do then is in tests/sim. */
#include <linux/tcp.h>
#include <stdlib.h>

#include "net/tcp/tcp_internal.h"
#include "tests/vma_test.h"

static const struct tcp_ops no_ops;

static struct tcp_conn conn_of(bool ip6)
{
	struct tcp_config config = {.mss = ip6 ? 1440 : 1460,
				    .ip6 = ip6,
				    .rcvbuf = 65536,
				    .sndbuf = 65536,
				    .timestamps = true};
	struct tcp_conn c;

	tcp_init(&c, &no_ops, &config);
	return c;
}

static void test_the_path_mtu_has_the_headers_of_the_family(void **state)
{
	for (int ip6 = 0; ip6 < 2; ip6++) {
		struct tcp_conn c = conn_of(ip6);
		struct tcp_info info;

		assert_int_equal(tcp_headers(&c), ip6 ? 60 : 40);
		tcp_get_info(&c, &info, 0);
		assert_int_equal(info.tcpi_pmtu, 1500);
		tcp_path_mtu(&c, 1400, 0);
		assert_int_equal(c.route_mss, ip6 ? 1340 : 1360);
	}
}

/* A forged message cannot make it less. */
static void test_the_least_path_mtu(void **state)
{
	struct tcp_conn v4 = conn_of(false), v6 = conn_of(true);

	tcp_path_mtu(&v4, 68, 0);
	assert_int_equal(v4.route_mss, 552 - 40);
	tcp_path_mtu(&v6, 68, 0);
	assert_int_equal(v6.route_mss, 1280 - 60);
}

/* RFC 4821 section 7.7: IPv4 goes down in steps, IPv6 to what every path takes. */
static void test_a_black_hole(void **state)
{
	static const uint16_t steps[2][4] = {{984, 512, 216, 216}, {1220, 1220, 1220, 1220}};

	for (int ip6 = 0; ip6 < 2; ip6++) {
		struct tcp_conn c = conn_of(ip6);

		c.snd_nxt = c.snd_una + 100000;
		c.rare = calloc(1, sizeof(*c.rare));
		for (int i = 0; i < 4; i++) {
			tcp_mtu_black_hole(&c, 0);
			assert_int_equal(c.path_mss, steps[ip6][i]);
		}
		free(c.rare);
	}
}

/* RFC 9293 section 3.7.1: a SYN without the option. */
static void test_the_mss_of_a_peer_that_says_none(void **state)
{
	struct tcp_options opt = {.wscale = -1};

	for (int ip6 = 0; ip6 < 2; ip6++) {
		struct tcp_conn c = conn_of(ip6);

		c.route_mss = 1400;
		tcp_ack_peer_options(&c, &opt);
		assert_int_equal(c.path_mss, ip6 ? 1220 : 536);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_path_mtu_has_the_headers_of_the_family),
	cmocka_unit_test(test_the_least_path_mtu),
	cmocka_unit_test(test_a_black_hole),
	cmocka_unit_test(test_the_mss_of_a_peer_that_says_none),
};

VMA_TEST_MAIN("tcp_mtu", tests, NULL, NULL)
