/* SPDX-License-Identifier: BSD-2-Clause */
/* Which rule of a file decides. */
#include "base/conf/conf.h"

#include <string.h>

#include "tests/vma_test.h"

static void no_notes(void *arg, const struct conf_note *note)
{
	(void)arg;
	print_error("%u:%u: %s\n", note->line, note->column, note->text);
	fail();
}

static void parse(struct conf *conf, const char *text)
{
	assert_int_equal(conf_parse(conf, text, strlen(text), no_notes, NULL), 0);
}

/* The line of the rule that decides, 0: none.  what: as on the command line of check-conf. */
static unsigned line_for(const char *text, const char *program, const char *id, const char *role,
			 const char *what)
{
	const struct conf_rule *rule;
	struct conf_addr addr[2];
	struct conf conf;
	unsigned line;
	int n, block;

	parse(&conf, text);
	block = conf_block_of(&conf, program, id);
	if (!strcmp(role, "interface")) {
		rule = conf_find_interface(&conf, block, what);
	} else {
		assert_true(conf_parse_question(what, addr, &n));
		rule = conf_find(&conf, block, conf_role_of(role, strlen(role)), addr[0],
				 n == 2 ? &addr[1] : NULL);
	}
	line = rule ? rule->line : 0;
	conf_fini(&conf);
	return line;
}

static unsigned line_of(const char *text, const char *role, const char *what)
{
	return line_for(text, "prog", "ID", role, what);
}

static void test_patterns_match_as_those_of_ls(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool match;
	} rows[] = {
		{"*", "", true},
		{"*", "anything", true},
		{"", "", true},
		{"", "a", false},
		{"db2*", "db2", true},
		{"db2*", "db2sysc", true},
		{"db2*", "db", false},
		{"t?cp", "tocp", true},
		{"t?cp", "tcp", false},
		{"?", "", false},
		{"*cp", "tcpcp", true},
		{"*a*b", "xaxxbb", true},
		{"*a*b", "xaxxbc", false},
		{"**a", "a", true},
		{"a*", "b", false},
		{"[ab]c", "bc", true},
		{"[ab]c", "cc", false},
		{"[!ab]c", "cc", true},
		{"[^ab]c", "ac", false},
		{"[a-c]", "b", true},
		{"[a-c]", "d", false},
		{"[a-]", "-", true},
		{"[]x]", "]", true},
		{"[]x]", "y", false},
		{"[!]]", "]", false},
		{"[ab", "[ab", true},
		{"[ab", "a", false},
		{"eth[0-9]*", "eth0", true},
		{"eth[0-9]*", "ethx", false},
		{"A", "a", false},
		{"\\*", "\\x", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (conf_matches(rows[i].pattern, rows[i].text) != rows[i].match)
			fail_msg("%s and %s", rows[i].pattern, rows[i].text);
	}
}

/* A matcher that tries everything would take 2^100 steps. */
static void test_a_pattern_of_stars_takes_no_time(void **state)
{
	char pattern[256], text[256];

	(void)state;
	for (int i = 0; i < 254; i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[254] = 'b';
	pattern[255] = '\0';
	memset(text, 'a', 255);
	text[255] = '\0';
	assert_false(conf_matches(pattern, text));
}

static void test_the_first_rule_that_matches_decides(void **state)
{
	static const char text[] = "use os tcp_server *:5001\n"
				   "use vma tcp_server *:*\n"
				   "use os tcp_server *:80\n";

	(void)state;
	assert_int_equal(line_of(text, "tcp_server", "10.0.0.1:5001"), 1);
	assert_int_equal(line_of(text, "tcp_server", "10.0.0.1:80"), 2);
	assert_int_equal(line_of(text, "tcp_client", "10.0.0.1:80"), 0);
}

static void test_roles_are_apart(void **state)
{
	static const char text[] = "use os tcp_server *:*\nuse os tcp_client *:*\n"
				   "use os udp_sender *:*\nuse os udp_receiver *:*\n"
				   "use os udp_connect *:*\n";

	(void)state;
	for (unsigned role = 0; role < CONF_ROLES; role++) {
		const char *name = conf_role_name((enum conf_role)role);

		assert_int_equal(conf_role_of(name, strlen(name)), role);
		assert_int_equal(line_of(text, name, "1.2.3.4:5"), role + 1);
	}
	assert_int_equal(conf_role_of("tcp", 3), CONF_ROLES);
	assert_int_equal(conf_role_of("tcp_serverx", 11), CONF_ROLES);
}

static void test_prefixes_compare_that_many_bits_of_both_sides(void **state)
{
	static const struct {
		const char *rule, *addr;
		bool match;
	} rows[] = {
		{"192.168.1.0/24", "192.168.1.255", true},
		{"192.168.1.0/24", "192.168.2.0", false},
		{"192.168.1.77/24", "192.168.1.1", true}, /* bits of the host do not count */
		{"192.168.1.1", "192.168.1.1", true},
		{"192.168.1.1", "192.168.1.2", false},
		{"192.168.1.1/32", "192.168.1.2", false},
		{"192.168.1.1/31", "192.168.1.0", true},
		{"1.2.3.4/0", "255.255.255.255", true},
		{"128.0.0.0/1", "255.0.0.1", true},
		{"128.0.0.0/1", "127.0.0.1", false},
		{"*", "0.0.0.0", true},
		{"192.168.1.0/24", "0.0.0.0", false}, /* bound to no address */
		{"255.255.255.255", "255.255.255.255", true},
		{"[2001:db8::]/32", "[2001:db8:1::1]", true},
		{"[2001:db8::]/32", "[2001:db9::1]", false},
		{"[2001:db8::]/33", "[2001:db8:8000::1]", false},
		{"[2001:db8::]/33", "[2001:db8:7fff::1]", true},
		{"[2001:db8::1:1]/112", "[2001:db8::1:2]", true},
		{"[2001:db8::1]", "[2001:db8::1]", true},
		{"[2001:db8::1]", "[2001:db8::2]", false},
		{"*", "[2001:db8::1]", true},
		{"0.0.0.0/0", "[2001:db8::1]", false}, /* all of IPv4 */
		{"[::]/0", "[2001:db8::1]", true},     /* all of IPv6 */
		{"[::]/0", "10.0.0.1", false},
		{"[::]/64", "10.0.0.1", false},
		{"[::ffff:10.0.0.0]/104", "10.1.1.1", true}, /* the mapped form of IPv4 */
		{"[::ffff:10.0.0.0]/104", "11.1.1.1", false},
		{"10.0.0.0/8", "[::ffff:10.1.1.1]", true},
		{"10.0.0.0/8", "[2001:db8::1]", false},
		/* Bound to no address: both families. */
		{"0.0.0.0", "[::]", true},
		{"[::]", "0.0.0.0", true},
		{"0.0.0.0/0", "[::]", true},
		{"[::]/0", "0.0.0.0", true},
		{"[2001:db8::]/32", "[::]", false},
		{"10.0.0.0/8", "[::]", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[128], what[64];

		snprintf(text, sizeof(text), "use os udp_sender %s:*\n", rows[i].rule);
		snprintf(what, sizeof(what), "%s:7", rows[i].addr);
		if (line_of(text, "udp_sender", what) != rows[i].match)
			fail_msg("%s and %s", rows[i].rule, rows[i].addr);
	}
}

static void test_ranges_contain_both_ends(void **state)
{
	static const char text[] = "use os udp_receiver *:10-20\n";

	(void)state;
	assert_int_equal(line_of(text, "udp_receiver", "1.1.1.1:9"), 0);
	assert_int_equal(line_of(text, "udp_receiver", "1.1.1.1:10"), 1);
	assert_int_equal(line_of(text, "udp_receiver", "1.1.1.1:20"), 1);
	assert_int_equal(line_of(text, "udp_receiver", "1.1.1.1:21"), 0);
	assert_int_equal(line_of("use os udp_receiver *:1-65535\n", "udp_receiver", "*:*"), 0);
	assert_int_equal(line_of("use os udp_receiver *:*\n", "udp_receiver", "*:*"), 1);
}

static void test_the_second_half_counts_where_it_is_asked_for(void **state)
{
	static const char text[] = "use os tcp_client 10.0.0.0/8:80:192.168.0.0/16:1000-2000\n";

	(void)state;
	assert_int_equal(line_of(text, "tcp_client", "10.1.1.1:80:192.168.3.3:1500"), 1);
	assert_int_equal(line_of(text, "tcp_client", "10.1.1.1:80:192.168.3.3:999"), 0);
	assert_int_equal(line_of(text, "tcp_client", "10.1.1.1:80:172.16.0.1:1500"), 0);
	assert_int_equal(line_of(text, "tcp_client", "11.1.1.1:80:192.168.3.3:1500"), 0);
	assert_int_equal(line_of(text, "tcp_client", "10.1.1.1:80"), 1);
	/* A rule with one half does not look at the local address. */
	assert_int_equal(line_of("use os tcp_client *:80\n", "tcp_client", "1.1.1.1:80:2.2.2.2:3"),
			 1);
}

static void test_the_first_block_that_matches_decides_alone(void **state)
{
	static const char text[] = "application-id nginx *\n"
				   "use os tcp_server *:80\n"
				   "application-id * B1\n"
				   "use os tcp_server *:81\n"
				   "application-id * *\n"
				   "use os tcp_server *:82\n";

	(void)state;
	assert_int_equal(line_for(text, "nginx", "B1", "tcp_server", "*:80"), 2);
	assert_int_equal(line_for(text, "nginx", "B1", "tcp_server", "*:82"), 0);
	assert_int_equal(line_for(text, "redis", "B1", "tcp_server", "*:81"), 4);
	assert_int_equal(line_for(text, "redis", "B1", "tcp_server", "*:82"), 0);
	assert_int_equal(line_for(text, "redis", "B2", "tcp_server", "*:82"), 6);
	/* The id * of a program is that of any block. */
	assert_int_equal(line_for(text, "redis", "*", "tcp_server", "*:81"), 4);
}

static void test_no_block_no_rule(void **state)
{
	struct conf conf;

	(void)state;
	assert_int_equal(line_for("application-id a B\nuse os tcp_server *:*\n", "b", "B",
				  "tcp_server", "*:1"),
			 0);
	parse(&conf, "application-id a B\n");
	assert_int_equal(conf_block_of(&conf, "b", "B"), -1);
	assert_true(conf_has_id(&conf, "B"));
	assert_false(conf_has_id(&conf, "b"));
	conf_fini(&conf);
}

static void test_an_application_id_that_is_repeated_goes_on(void **state)
{
	static const char text[] = "application-id a *\nuse vma tcp_server *:1\n"
				   "application-id * *\nuse os tcp_server *:*\n"
				   "application-id a *\nuse os tcp_server *:2\n";

	(void)state;
	assert_int_equal(line_for(text, "a", "x", "tcp_server", "*:2"), 6);
	assert_int_equal(line_for(text, "a", "x", "tcp_server", "*:3"), 0);
	assert_int_equal(line_for(text, "b", "x", "tcp_server", "*:2"), 4);
}

static void test_rules_before_any_application_id_are_for_all(void **state)
{
	static const char text[] = "use os tcp_server *:1\n"
				   "application-id a *\nuse os tcp_server *:2\n"
				   "application-id * *\nuse os tcp_server *:3\n";

	(void)state;
	assert_int_equal(line_for(text, "a", "x", "tcp_server", "*:1"), 1);
	assert_int_equal(line_for(text, "a", "x", "tcp_server", "*:2"), 0);
	assert_int_equal(line_for(text, "a", "x", "tcp_server", "*:3"), 5);
}

static void test_interfaces_are_allowed_unless_a_rule_denies_them(void **state)
{
	static const char text[] = "interface allow docker-fast\n"
				   "interface deny docker*\n"
				   "interface deny virbr?\n";

	(void)state;
	assert_int_equal(line_of(text, "interface", "docker-fast"), 1);
	assert_int_equal(line_of(text, "interface", "docker0"), 2);
	assert_int_equal(line_of(text, "interface", "virbr0"), 3);
	assert_int_equal(line_of(text, "interface", "virbr10"), 0);
	assert_int_equal(line_of(text, "interface", "eth0"), 0);
}

static void test_what_rules_say(void **state)
{
	struct conf conf;

	(void)state;
	parse(&conf, "use os tcp_server *:1\nuse vma tcp_server *:1\nuse * tcp_server *:1\n"
		     "must tcp_server *:1\ninterface allow a\ninterface deny a\n");
	assert_int_equal(conf.n_rules, 6);
	assert_int_equal(conf.rules[0].says, CONF_OS);
	assert_int_equal(conf.rules[1].says, CONF_VMA);
	assert_int_equal(conf.rules[2].says, CONF_VMA);
	assert_int_equal(conf.rules[3].says, CONF_MUST);
	assert_int_equal(conf.rules[4].says, CONF_VMA);
	assert_int_equal(conf.rules[5].says, CONF_OS);
	conf_fini(&conf);
	assert_int_equal(conf.n_rules, 0);
}

static bool is_v4(const struct conf_addr *addr, uint32_t v4)
{
	uint8_t want[16];

	conf_addr_v4(want, v4);
	return !memcmp(addr->addr, want, sizeof(want));
}

static void test_questions(void **state)
{
	static const char *const bad[] = {
		"",	 "1.2.3.4",    "1.2.3.4:",    "x:1",	  "1.2.3.4:0",	 "1.2.3.0/24:1",
		"*:1-2", "1.2.3.4:1:", "1.2.3.4:1 x", "[::]/0:1", "[::1]/127:1", "[::1]"};
	struct conf_addr addr[2];
	int n;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(conf_parse_question(bad[i], addr, &n));
	assert_true(conf_parse_question("1.2.3.4:65535", addr, &n));
	assert_int_equal(n, 1);
	assert_true(is_v4(&addr[0], 0x01020304));
	assert_int_equal(addr[0].port, 65535);
	assert_true(conf_parse_question("*:53:10.0.0.1:*", addr, &n));
	assert_int_equal(n, 2);
	assert_memory_equal(addr[0].addr, (uint8_t[16]){0}, 16);
	assert_int_equal(addr[0].port, 53);
	assert_true(is_v4(&addr[1], 0x0a000001));
	assert_int_equal(addr[1].port, 0);
	assert_true(conf_parse_question("[2001:db8::1]:53:[::]:1", addr, &n));
	assert_int_equal(n, 2);
	assert_int_equal(addr[0].addr[0], 0x20);
	assert_int_equal(addr[0].addr[15], 1);
	assert_memory_equal(addr[1].addr, (uint8_t[16]){0}, 16);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_patterns_match_as_those_of_ls),
	cmocka_unit_test(test_a_pattern_of_stars_takes_no_time),
	cmocka_unit_test(test_the_first_rule_that_matches_decides),
	cmocka_unit_test(test_roles_are_apart),
	cmocka_unit_test(test_prefixes_compare_that_many_bits_of_both_sides),
	cmocka_unit_test(test_ranges_contain_both_ends),
	cmocka_unit_test(test_the_second_half_counts_where_it_is_asked_for),
	cmocka_unit_test(test_the_first_block_that_matches_decides_alone),
	cmocka_unit_test(test_no_block_no_rule),
	cmocka_unit_test(test_an_application_id_that_is_repeated_goes_on),
	cmocka_unit_test(test_rules_before_any_application_id_are_for_all),
	cmocka_unit_test(test_interfaces_are_allowed_unless_a_rule_denies_them),
	cmocka_unit_test(test_what_rules_say),
	cmocka_unit_test(test_questions),
};

VMA_TEST_MAIN("conf", tests, NULL, NULL)
