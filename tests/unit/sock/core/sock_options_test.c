/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/sock_options.h"

#include <netinet/in.h>

#include "ring/rings.h"
#include "sock/core/kind.h"
#include "tests/vma_test.h"

#define CHOSEN 77

static void no_defaults(struct inet_sock *so, struct sock_options *opt)
{
	(void)so;
	(void)opt;
}

static const struct sock_kind kind = {.default_options = no_defaults};

static int set_up(void **state)
{
	(void)state;
	clock_init();
	return control_lock() ? 0 : -1;
}

static int ttl_of(int fd)
{
	socklen_t len = sizeof(int);
	int ttl = 0;

	assert_int_equal(getsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, &len), 0);
	return ttl;
}

static void begin(struct inet_sock *so, int ttl)
{
	memset(so, 0, sizeof(*so));
	so->sk.twin = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(so->sk.twin >= 0);
	if (ttl)
		assert_int_equal(setsockopt(so->sk.twin, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl)), 0);
}

static void end(struct inet_sock *so)
{
	options_put(so->opt);
	close(so->sk.twin);
}

/* A program that inherits a socket and then makes one, within the second of the cache. */
static void test_the_ttl_of_an_inherited_socket_is_its_own(void **state)
{
	struct inet_sock inherited, fresh, late;
	int system;

	(void)state;
	begin(&inherited, CHOSEN);
	begin(&fresh, 0);
	begin(&late, CHOSEN);
	system = ttl_of(fresh.sk.twin);
	assert_int_not_equal(system, CHOSEN);
	assert_true(sock_options_init(&inherited, &kind));
	assert_int_equal(inherited.opt->ttl, CHOSEN);
	assert_true(sock_options_init_new(&fresh, &kind));
	assert_int_equal(fresh.opt->ttl, system);
	assert_true(sock_options_init(&late, &kind));
	assert_int_equal(late.opt->ttl, CHOSEN);
	end(&inherited);
	end(&fresh);
	end(&late);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_ttl_of_an_inherited_socket_is_its_own),
};

VMA_TEST_MAIN("sock_options", tests, set_up, NULL)
