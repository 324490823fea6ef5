/* SPDX-License-Identifier: BSD-2-Clause */
/* Which calls fail because a socket must be accelerated, and what the user is told, how often. */
#include "sock/core/rules/strict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/param.h"
#include "net/netlink/netlink.h"
#include "sock/core/control.h"
#include "sock/core/inet_sock.h"
#include "sock/core/sock_options.h"
#include "vma_test.h"

#define REMEMBERED 64 /* sockets whose line is not repeated */
#define FALLBACK VERDICT_OPTION

static char path[] = "/tmp/strict-XXXXXX";
static struct inet_sock so;
static struct sock_options opt;

static int begin(void **state)
{
	close(mkstemp(path));
	log_init(LOG_WARNING, 0, false, path);
	return 0;
}

static int end(void **state)
{
	unlink(path);
	return 0;
}

static int setup(void **state)
{
	memset(&so, 0, sizeof(so));
	memset(&opt, 0, sizeof(opt));
	so.opt = &opt;
	params.strict = false;
	assert_true(control_lock());
	return 0;
}

static int teardown(void **state)
{
	control_unlock();
	return 0;
}

/* Lines of the log so far. */
static unsigned lines(void)
{
	FILE *log = fopen(path, "re");
	unsigned n = 0;
	int c;

	assert_non_null(log);
	while ((c = fgetc(log)) != EOF)
		n += c == '\n';
	fclose(log);
	return n;
}

static int check_of(uint64_t id, enum conf_says says, enum verdict verdict)
{
	so.id = id;
	return strict_check(&so, says, verdict);
}

static void test_only_what_must_be_accelerated_fails(void **state)
{
	assert_true(verdict_is_fallback(FALLBACK));
	assert_int_equal(check_of(1, CONF_VMA, FALLBACK), 0);
	assert_int_equal(check_of(1, CONF_OS, FALLBACK), 0);
	assert_int_equal(check_of(1, CONF_MUST, VERDICT_ACCELERATED), 0);
	assert_int_equal(check_of(1, CONF_MUST, VERDICT_RULE), 0);
	assert_int_equal(check_of(1, CONF_VMA, VERDICT_NO_ROUTE), 0);
	assert_int_equal(lines(), 0);
	assert_int_equal(check_of(1, CONF_MUST, VERDICT_NO_ROUTE), -ENETUNREACH);
	assert_int_equal(lines(), 0);
	assert_int_equal(check_of(1, CONF_MUST, FALLBACK), -EOPNOTSUPP);
	assert_int_equal(lines(), 1);
}

static void test_the_user_is_told_once_for_each_socket(void **state)
{
	unsigned before = lines();

	for (int again = 0; again < 3; again++) {
		for (uint64_t id = 100; id < 100 + REMEMBERED; id++)
			assert_int_equal(check_of(id, CONF_MUST, FALLBACK), -EOPNOTSUPP);
	}
	assert_int_equal(lines(), before + REMEMBERED);
	/* One more: the oldest is forgotten, and nobody else. */
	assert_int_equal(check_of(99, CONF_MUST, FALLBACK), -EOPNOTSUPP);
	assert_int_equal(check_of(101, CONF_MUST, FALLBACK), -EOPNOTSUPP);
	assert_int_equal(lines(), before + REMEMBERED + 1);
	assert_int_equal(check_of(100, CONF_MUST, FALLBACK), -EOPNOTSUPP);
	assert_int_equal(lines(), before + REMEMBERED + 2);
}

static void test_a_socket_is_forbidden_to_leave_by_a_rule_or_the_parameter(void **state)
{
	assert_false(strict_forbids(&so, FALLBACK));
	so.must = true;
	assert_true(strict_forbids(&so, FALLBACK));
	assert_false(strict_forbids(&so, VERDICT_RULE));
	so.must = false;
	params.strict = true;
	assert_true(strict_forbids(&so, FALLBACK));
	assert_false(strict_forbids(&so, VERDICT_ACCELERATED));
	so.id = 1000;
	assert_int_equal(sock_fall_back(&so, FALLBACK), -EOPNOTSUPP);
}

static void test_an_interface_is_told_of_once_if_the_socket_hears_it(void **state)
{
	struct link link = {.ifindex = 7, .name = "eth7"};
	unsigned before = lines();

	strict_warn_link(&so, CONF_VMA, &link, FALLBACK);
	strict_warn_link(&so, CONF_MUST, &link, VERDICT_ACCELERATED);
	opt.bind_ifindex = 8;
	strict_warn_link(&so, CONF_MUST, &link, FALLBACK);
	assert_int_equal(lines(), before);
	opt.bind_ifindex = 7;
	strict_warn_link(&so, CONF_MUST, &link, FALLBACK);
	opt.bind_ifindex = 0;
	strict_warn_link(&so, CONF_MUST, &link, FALLBACK);
	assert_int_equal(lines(), before + 1);
	link.ifindex = 9;
	strict_warn_link(&so, CONF_MUST, &link, FALLBACK);
	assert_int_equal(lines(), before + 2);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_only_what_must_be_accelerated_fails),
	TEST(test_the_user_is_told_once_for_each_socket),
	TEST(test_a_socket_is_forbidden_to_leave_by_a_rule_or_the_parameter),
	TEST(test_an_interface_is_told_of_once_if_the_socket_hears_it),
};

VMA_TEST_MAIN("strict", tests, begin, end)
