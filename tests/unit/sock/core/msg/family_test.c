/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/msg/family.h"

#include <arpa/inet.h>
#include <unistd.h>

#include "sock/core/kind.h"
#include "tests/vma_test.h"

static struct inet_sock so;

static int set_up(void **state)
{
	(void)state;
	return control_lock() ? 0 : -1;
}

/* A socket of this family, with a twin. */
static void begin(int family)
{
	memset(&so, 0, sizeof(so));
	so.family = (uint8_t)family;
	so.sk.twin = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(so.sk.twin >= 0);
}

static struct inaddr addr_of(const char *text)
{
	struct inaddr a;
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1)
		return addr_v4(v4.s_addr);
	assert_int_equal(inet_pton(AF_INET6, text, &a), 1);
	return a;
}

static void test_which_addresses_a_socket_reads(void **state)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} v4 = {.in = {.sin_family = AF_INET, .sin_port = 7, .sin_addr.s_addr = 0x0100007f}},
	  v6 = {.in6 = {.sin6_family = AF_INET6, .sin6_port = 9}};
	struct endpoint ep;

	(void)state;
	begin(AF_INET);
	assert_true(sock_addr_read(&so, &ep, &v4.sa, sizeof(v4.in)));
	assert_true(addr_is_v4(&ep.addr) && ep.port == 7);
	assert_false(sock_addr_read(&so, &ep, &v6.sa, sizeof(v6.in6)));
	close(so.sk.twin);
	begin(AF_INET6);
	assert_true(sock_addr_read(&so, &ep, &v4.sa, sizeof(v4.in)));
	assert_true(addr_is_v4(&ep.addr) && ep.port == 7);
	assert_true(sock_addr_read(&so, &ep, &v6.sa, sizeof(v6.in6)));
	assert_true(!addr_is_v4(&ep.addr) && ep.port == 9);
	assert_true(sock_addr_read(&so, &ep, &v6.sa, 24));
	assert_false(sock_addr_read(&so, &ep, &v6.sa, 23));
	close(so.sk.twin);
}

static void test_what_the_program_is_told_has_its_family(void **state)
{
	struct endpoint ep = {.addr = addr_of("192.0.2.1"), .port = htons(80)};
	struct sock_addr addr;
	char text[INET6_ADDRSTRLEN];

	(void)state;
	begin(AF_INET);
	addr = sock_addr_of(&so, &ep);
	assert_int_equal(addr.len, sizeof(struct sockaddr_in));
	assert_int_equal(addr.in.sin_family, AF_INET);
	assert_int_equal(addr.in.sin_addr.s_addr, addr_v4_of(&ep.addr));
	close(so.sk.twin);
	begin(AF_INET6);
	addr = sock_addr_of(&so, &ep);
	assert_int_equal(addr.len, sizeof(struct sockaddr_in6));
	assert_int_equal(addr.in6.sin6_family, AF_INET6);
	assert_int_equal(addr.in6.sin6_port, htons(80));
	assert_int_equal(addr.in6.sin6_flowinfo, 0);
	assert_int_equal(addr.in6.sin6_scope_id, 0);
	inet_ntop(AF_INET6, &addr.in6.sin6_addr, text, sizeof(text));
	assert_string_equal(text, "::ffff:192.0.2.1");
	close(so.sk.twin);
}

static void test_the_wildcard_of_a_family(void **state)
{
	struct inaddr any;

	(void)state;
	begin(AF_INET);
	any = sock_addr_any(&so);
	assert_true(addr_is_any(&any) && addr_is_v4(&any));
	assert_int_equal(sock_twin_bind_any(&so), 0);
	assert_int_equal(sock_read_local(&so), 0);
	assert_true(so.local.port && addr_is_v4(&so.local.addr));
	close(so.sk.twin);
	begin(AF_INET6);
	any = sock_addr_any(&so);
	assert_true(addr_is_any(&any) && !addr_is_v4(&any));
	assert_int_equal(sock_twin_bind_any(&so), 0);
	assert_int_equal(sock_read_local(&so), 0);
	assert_true(so.local.port && addr_eq(&so.local.addr, &any));
	close(so.sk.twin);
}

static void test_the_twin_is_bound_and_connected_in_its_family(void **state)
{
	static const int families[] = {AF_INET, AF_INET6};
	struct endpoint here = {.addr = addr_of("127.0.0.1")}, there = here;

	(void)state;
	there.port = htons(9);
	for (unsigned i = 0; i < 2; i++) {
		struct sock_addr name = {.len = sizeof(name.in6)};

		begin(families[i]);
		assert_int_equal(sock_twin_bind(&so, &here), 0);
		assert_int_equal(sock_read_local(&so), 0);
		assert_true(addr_eq(&so.local.addr, &here.addr));
		assert_int_equal(sock_twin_connect(&so, &there), 0);
		assert_int_equal(getpeername(so.sk.twin, &name.sa, &name.len), 0);
		assert_int_equal(name.sa.sa_family, families[i]);
		assert_int_equal(name.in.sin_port, htons(9)); /* also that of in6 */
		close(so.sk.twin);
	}
}

static void test_which_traffic_sockets_have(void **state)
{
	static const struct {
		int family;
		const char *local; /* bound to it */
		int v6only;
		bool has4, has6; /* sock_serves() of an address of each family, if bound to none */
		bool to4, to6;	 /* sock_may_reach() */
	} rows[] = {
		{AF_INET, "0.0.0.0", 0, true, false, true, false},
		{AF_INET, "10.0.0.1", 0, true, false, true, false},
		{AF_INET6, "::", 0, true, true, true, true},
		{AF_INET6, "::ffff:10.0.0.1", 0, true, true, true, false},
		{AF_INET6, "::", 1, false, true, false, true},
		{AF_INET6, "2001:db8::1", 0, true, true, false, true},
		{AF_INET6, "fe80::1", 0, true, true, false, true},
		{AF_INET6, "ff05::1", 0, true, true, false, true},
	};
	struct endpoint four = {.addr = addr_of("::ffff:10.0.0.2")},
			six = {.addr = addr_of("2001:db8::2")},
			group = {.addr = addr_of("ff05::2")};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin(rows[i].family);
		so.local.addr = addr_of(rows[i].local);
		if (rows[i].v6only)
			assert_int_equal(setsockopt(so.sk.twin, IPPROTO_IPV6, IPV6_V6ONLY,
						    &rows[i].v6only, sizeof(int)),
					 0);
		so.bound = true;
		if (sock_serves(&so, &four.addr, sock_has_ipv4(&so)) != rows[i].has4 ||
		    sock_serves(&so, &six.addr, sock_has_ipv4(&so)) != rows[i].has6 ||
		    sock_may_reach(&so, &four, 0) != rows[i].to4 ||
		    sock_may_reach(&so, &six, 0) != rows[i].to6)
			fail_msg("row %u", i);
		assert_int_equal(sock_may_reach(&so, &group, 0), rows[i].to6);
		close(so.sk.twin);
	}
}

static void test_a_link_local_address_needs_an_interface(void **state)
{
	struct sock_options plain = {.bind_ifindex = 0}, bound = {.bind_ifindex = 2};
	struct endpoint bare = {.addr = addr_of("fe80::2")}, scoped = bare, shown;
	struct endpoint group = {.addr = addr_of("ff02::2")};

	(void)state;
	scoped.scope = 2;
	begin(AF_INET6);
	so.opt = &plain;
	assert_true(sock_serves(&so, &bare.addr, true));
	assert_false(sock_may_reach(&so, &bare, 0) || sock_may_reach(&so, &group, 0));
	assert_true(sock_may_reach(&so, &group, 2));
	assert_true(sock_may_reach(&so, &bare, 2) && sock_may_reach(&so, &scoped, 0));
	shown = sock_addr_shown(&so, &scoped);
	assert_int_equal(shown.scope, 0);
	assert_int_equal(sock_bind_to_scope(&so, &bare), -EINVAL);
	so.opt = &bound;
	assert_true(sock_may_reach(&so, &bare, 0));
	shown = sock_addr_shown(&so, &bare);
	assert_int_equal(shown.scope, 2);
	assert_int_equal(sock_bind_to_scope(&so, &scoped), 0);
	scoped.scope = 3;
	assert_int_equal(sock_bind_to_scope(&so, &scoped), -EINVAL);
	assert_int_equal(sock_bind_to_scope(&so, &bare), 0);
	assert_int_equal(bare.scope, 2);
	close(so.sk.twin);
	so.opt = NULL;
}

static void test_the_family_of_a_socket_from_another_process(void **state)
{
	int v4 = socket(AF_INET, SOCK_STREAM, 0), v6 = socket(AF_INET6, SOCK_STREAM, 0);

	(void)state;
	sock_family_init(&so, v6);
	assert_int_equal(so.family, AF_INET6);
	sock_family_init(&so, v4);
	assert_int_equal(so.family, AF_INET);
	close(v4);
	close(v6);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_which_addresses_a_socket_reads),
	cmocka_unit_test(test_what_the_program_is_told_has_its_family),
	cmocka_unit_test(test_the_wildcard_of_a_family),
	cmocka_unit_test(test_the_twin_is_bound_and_connected_in_its_family),
	cmocka_unit_test(test_which_traffic_sockets_have),
	cmocka_unit_test(test_a_link_local_address_needs_an_interface),
	cmocka_unit_test(test_the_family_of_a_socket_from_another_process),
};

VMA_TEST_MAIN("family", tests, set_up, NULL)
