/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of rules, and rules of the program before it. */
#include "sock/core/rules/rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/param.h"
#include "sock/core/control.h"
#include "sock/core/inet_sock.h"
#include "vma_test.h"

static const char text[] = "use os tcp_server *:7001\n"			   /* 1 */
			   "use os tcp_client 10.9.9.9:80:192.168.1.1:*\n" /* 2 */
			   "must tcp_client 10.0.0.0/8:80\n"		   /* 3 */
			   "use vma udp_receiver *:7002\n"		   /* 4 */
			   "interface deny eth9\n"			   /* 5 */
			   "interface allow eth8\n"			   /* 6 */
			   "use os\n"					   /* 7: is skipped */
			   "use os udp_sender *:*\n"			   /* 8 */
			   "application-id other *\n"			   /* 9 */
			   "use os tcp_client *:*\n";			   /* of another program */

static char path[] = "/tmp/rules-XXXXXX";
static struct inet_sock so, other;

static int begin(void **state)
{
	int fd = mkstemp(path);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	params.config_file = path;
	return 0;
}

static int end(void **state)
{
	unlink(path);
	return 0;
}

static int setup(void **state)
{
	static uint64_t id;

	memset(&so, 0, sizeof(so));
	memset(&other, 0, sizeof(other));
	so.id = ++id;
	other.id = ++id;
	params.strict = false;
	assert_true(control_lock());
	return 0;
}

static int teardown(void **state)
{
	control_unlock();
	return 0;
}

static struct endpoint endpoint(const char *addr, unsigned port)
{
	return (struct endpoint){.addr = addr_v4(inet_addr(addr)), .port = htons((uint16_t)port)};
}

static enum conf_says ask(enum conf_role role, const char *addr, unsigned port)
{
	struct endpoint first = endpoint(addr, port);

	return rules_ask(&so, role, &first, NULL);
}

static enum conf_says ask_client(const char *peer, unsigned port, const char *local)
{
	struct endpoint first = endpoint(peer, port), second = endpoint(local, 1);

	return rules_ask(&so, CONF_TCP_CLIENT, &first, &second);
}

static void expect_text(enum verdict verdict, const char *wanted)
{
	char got[RULES_TEXT], all[RULES_TEXT];

	rules_verdict_text(verdict, rules_last(&so), got);
	snprintf(all, sizeof(all), "%s%s", *wanted == ':' ? path : "", wanted);
	assert_string_equal(got, all);
}

static void test_the_first_line_that_matches_decides(void **state)
{
	assert_int_equal(ask(CONF_TCP_SERVER, "10.0.0.1", 7001), CONF_OS);
	assert_int_equal(rules_last(&so).line, 1);
	expect_text(VERDICT_RULE, ":1 says os");
	assert_int_equal(ask_client("10.9.9.9", 80, "192.168.1.1"), CONF_OS);
	assert_int_equal(rules_last(&so).line, 2);
	assert_false(so.must);
	assert_int_equal(ask_client("10.9.9.9", 80, "192.168.1.2"), CONF_MUST);
	assert_int_equal(rules_last(&so).line, 3);
	assert_true(so.must);
	expect_text(VERDICT_ACCELERATED, ":3 says must");
	/* The kernel serves it for another reason. */
	expect_text(VERDICT_RULE, verdict_text(VERDICT_RULE));
}

static void test_what_no_rule_is_about_is_accelerated(void **state)
{
	assert_int_equal(ask(CONF_TCP_SERVER, "10.0.0.1", 7001), CONF_OS);
	assert_int_equal(ask(CONF_TCP_SERVER, "10.0.0.1", 7000), CONF_VMA);
	assert_int_equal(rules_last(&so).line, 0);
	expect_text(VERDICT_ACCELERATED, "");
	/* A line of another program, and one that was skipped. */
	assert_int_equal(ask_client("9.9.9.9", 81, "10.0.0.1"), CONF_VMA);
	params.strict = true;
	assert_int_equal(ask(CONF_TCP_SERVER, "10.0.0.1", 7000), CONF_MUST);
	assert_int_equal(ask(CONF_UDP_RECEIVER, "10.0.0.1", 7002), CONF_MUST);
	assert_int_equal(rules_last(&so).line, 4);
	assert_int_equal(ask(CONF_UDP_SENDER, "10.0.0.1", 7002), CONF_OS);
	assert_int_equal(rules_last(&so).line, 8);
	assert_false(so.must);
}

static void test_only_the_last_socket_has_a_decision(void **state)
{
	assert_int_equal(ask(CONF_TCP_SERVER, "10.0.0.1", 7001), CONF_OS);
	assert_int_equal(rules_last(&so).line, 1);
	assert_int_equal(rules_last(&other).line, 0);
	other.inet = INET_LISTEN;
	other.local = endpoint("10.0.0.1", 7000);
	assert_int_equal(rules_ask_receiver(&other), CONF_VMA);
	assert_int_equal(rules_last(&so).line, 0);
}

static void test_a_receiver_is_asked_about_by_its_kind(void **state)
{
	so.local = endpoint("10.0.0.1", 7001);
	so.inet = INET_LISTEN;
	assert_int_equal(rules_ask_receiver(&so), CONF_OS);
	so.inet = INET_UDP;
	assert_int_equal(rules_ask_receiver(&so), CONF_VMA);
	assert_int_equal(rules_last(&so).line, 0);
}

static void test_an_interface_is_denied(void **state)
{
	unsigned line = 0;

	assert_true(rules_allow_interface("eth8", &line));
	assert_true(rules_allow_interface("eth7", &line));
	assert_int_equal(line, 0);
	assert_false(rules_allow_interface("eth9", &line));
	assert_int_equal(line, 5);
	expect_text(VERDICT_DENIED, ":5 says deny");
}

static void test_rules_of_the_program_come_first_the_newest_before_all(void **state)
{
	assert_int_equal(rules_add("use os tcp_client 10.1.1.0/24:80"), 0);
	assert_int_equal(ask_client("10.1.1.1", 80, "192.168.1.2"), CONF_OS);
	assert_int_equal(rules_last(&so).line, 0); /* of no file */
	assert_int_equal(ask_client("10.1.2.1", 80, "192.168.1.2"), CONF_MUST);
	assert_int_equal(rules_add("use vma tcp_client 10.1.1.1:80\nuse os tcp_client *:*"), 0);
	assert_int_equal(ask_client("10.1.1.1", 80, "192.168.1.2"), CONF_VMA);
	assert_int_equal(ask_client("10.1.1.2", 80, "192.168.1.2"), CONF_OS);
	assert_int_equal(ask_client("10.1.2.1", 80, "192.168.1.2"), CONF_MUST);
	assert_int_equal(rules_last(&so).line, 3);
	/* Still, each call adds one rule. */
	assert_int_equal(rules_add(""), -EINVAL);
	assert_int_equal(rules_add("# comment"), -EINVAL);
	assert_int_equal(ask_client("10.1.1.1", 80, "192.168.1.2"), CONF_VMA);
}

static void test_what_is_no_rule_for_sockets_is_refused(void **state)
{
	static const char *const wrong[] = {
		"",
		"# comment",
		"use os",
		"interface deny eth0",
		"application-id a b",
		"log level 3",
	};
	static char longest[CONF_LINE_MAX + 3];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		if (rules_add(wrong[i]) != -EINVAL)
			fail_msg("\"%s\" is added", wrong[i]);
	}
	memset(longest, ' ', sizeof(longest) - 1);
	memcpy(longest, "use os tcp_server *:9", 21);
	assert_int_equal(rules_add(longest), -EINVAL);
	assert_int_equal(rules_add((const char *)8), -EFAULT);
	/* What was there before still decides. */
	assert_int_equal(ask(CONF_TCP_SERVER, "10.0.0.1", 9), CONF_VMA);
	assert_int_equal(ask(CONF_TCP_SERVER, "10.0.0.1", 7001), CONF_OS);
	assert_int_equal(rules_last(&so).line, 1);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_the_first_line_that_matches_decides),
	TEST(test_what_no_rule_is_about_is_accelerated),
	TEST(test_only_the_last_socket_has_a_decision),
	TEST(test_a_receiver_is_asked_about_by_its_kind),
	TEST(test_an_interface_is_denied),
	TEST(test_what_is_no_rule_for_sockets_is_refused),
	TEST(test_rules_of_the_program_come_first_the_newest_before_all),
};

VMA_TEST_MAIN("rules", tests, begin, end)
