/* SPDX-License-Identifier: BSD-2-Clause */
/* The grammar of libvma.conf, and where and how a file does not follow it. */
#include <string.h>

#include "base/conf/conf.h"
#include "tests/vma_test.h"

#define NOTES_MAX 4

struct notes {
	unsigned n;
	struct {
		bool error;
		unsigned line, column;
		char text[512];
	} all[NOTES_MAX];
};

static void collect(void *arg, const struct conf_note *note)
{
	struct notes *notes = arg;

	assert_true(notes->n < NOTES_MAX);
	notes->all[notes->n].error = note->error;
	notes->all[notes->n].line = note->line;
	notes->all[notes->n].column = note->column;
	snprintf(notes->all[notes->n].text, sizeof(notes->all[0].text), "%s", note->text);
	notes->n++;
}

static struct notes notes;

/* len bytes at text; the copy lets a sanitizer see each byte too far. */
static void parse_bytes(struct conf *conf, const char *text, size_t len)
{
	char *copy = malloc(len ? len : 1);

	memcpy(copy, text, len);
	memset(&notes, 0, sizeof(notes));
	assert_int_equal(conf_parse(conf, copy, len, collect, &notes), 0);
	free(copy);
}

static unsigned rules_of(const char *text)
{
	struct conf conf;
	unsigned n;

	parse_bytes(&conf, text, strlen(text));
	n = conf.n_rules;
	conf_fini(&conf);
	return n;
}

/* Each is one rule without a remark. */
static void test_what_is_a_rule(void **state)
{
	static const char *const rows[] = {
		"use vma tcp_client 192.168.1.0/24:*:*:*",
		"use os tcp_server *:5001",
		"use os tcp_server *:5001\n",
		"use os tcp_server *:5001\r\n",
		"\n\n  \t use\tos   tcp_server\t*:5001 \t \n\n",
		"use os tcp_server *:5001# comment",
		"use os tcp_server *:5001 # comment # comment\n# comment\n   #\n",
		"use os tcp_server*:5001",
		"use os tcp_server * : 5001",
		"use os tcp_client 1.2.3.4 / 24 : 10 - 20 : * : *",
		"use * udp_sender 0.0.0.0/0:1-65535",
		"use*udp_sender *:1",
		"use os udp_receiver 255.255.255.255/32:65535",
		"use os udp_connect *:53",
		"use os udp_connect *:7-7:1.2.3.4:*",
		"must tcp_client 10.0.0.0/8:*",
		"use os tcp_server [::]:80",
		"use os tcp_client [2001:db8::1]:80:[2001:db8::2]:*",
		"use vma udp_receiver [ff02::1:3]/16 : 5355",
		"interface allow eth0",
		"interface deny docker*",
		"interface deny [dv]*",
		"interface deny \xc3\xa4 # UTF-8",
		"application-id tcp-lat B1\nuse os tcp_server *:1",
		"application-id * *\nuse os tcp_server *:1",
		"application-id db2* 1234\nuse os tcp_server *:1",
		"application-id t?cp * # comment\nuse os tcp_server *:1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rules_of(rows[i]) != 1 || notes.n)
			fail_msg("%s: %s", rows[i], notes.n ? notes.all[0].text : "no rule");
	}
}

static void test_what_says_nothing(void **state)
{
	static const char *const rows[] = {
		"", "\n", "\n\n\n", "#", "# use os", " \t\r\v\f\n", "\r\n", "application-id a b\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(rules_of(rows[i]), 0);
		assert_int_equal(notes.n, 0);
	}
}

#define KEYWORDS "application-id, use, must, interface or log"
#define ROLES "a role (tcp_server, tcp_client, udp_sender, udp_receiver or udp_connect)"
#define ADDRESS "an address (a.b.c.d, a.b.c.d/LENGTH, [IPv6], [IPv6]/LENGTH or *)"
#define ADDRESS6 "an IPv6 address and \"]\""
#define OCTET "a number from 0 to 255 without leading zeros"
#define PORTS "a port from 1 to 65535, a range of ports, or *"

/* Each has one error at this column, and no rule. */
static void test_where_a_line_is_wrong_and_what_was_expected(void **state)
{
	static const struct {
		const char *text;
		unsigned column;
		const char *expected, *found;
	} rows[] = {
		{"foo", 1, KEYWORDS, "\"foo\""},
		{"\t foo", 3, KEYWORDS, "\"foo\""},
		{"Use os tcp_server *:1", 1, KEYWORDS, "\"Use\""},
		{"uses os tcp_server *:1", 1, KEYWORDS, "\"uses\""},
		{"use-os tcp_server *:1", 1, KEYWORDS, "\"use-os\""},
		{"\xef\xbb\xbfuse os tcp_server *:1", 1, KEYWORDS, "the byte 0xef"},
		{"use", 4, "vma or os", "the end of the line"},
		{"use # os", 5, "vma or os", "the end of the line"},
		{"use OS tcp_server *:1", 5, "vma or os", "\"OS\""},
		{"use must tcp_server *:1", 5, "vma or os", "\"must\""},
		{"use os", 7, ROLES, "the end of the line"},
		{"use os *:1", 8, ROLES, "\"*:1\""},
		{"use os tcp_servers *:1", 8, ROLES, "\"tcp_servers\""},
		{"must", 5, ROLES, "the end of the line"},
		{"must os tcp_server *:1", 6, ROLES, "\"os\""},
		{"use os tcp_server", 18, ADDRESS, "the end of the line"},
		{"use os tcp_server host:1", 19, ADDRESS, "\"host:1\""},
		{"use os tcp_server ::1:1", 19, ADDRESS, "\"::1:1\""},
		{"use os tcp_server 1.2.3:1", 24, "\".\" in an address", "\":1\""},
		{"use os tcp_server 1.2.3.:1", 25, OCTET, "\":1\""},
		{"use os tcp_server 1.2.3.256:1", 25, OCTET, "\"256:1\""},
		{"use os tcp_server 1.2.03.4:1", 23, OCTET, "\"03.4:1\""},
		{"use os tcp_server 00.0.0.0:1", 19, OCTET, "\"00.0.0.0:1\""},
		{"use os tcp_server 99999999999999999999.2.3.4:1", 19, OCTET,
		 "\"99999999999999999999.2.3\""},
		{"use os tcp_server 1.2.3.4", 26, "\":\" and ports", "the end of the line"},
		{"use os tcp_server 1.2.3.4.5:1", 26, "\":\" and ports", "\".5:1\""},
		{"use os tcp_server *.*.*.*:1", 20, "\":\" and ports", "\".*.*.*:1\""},
		{"use os tcp_server 1.2.3.4/:1", 27, "a prefix length from 0 to 32", "\":1\""},
		{"use os tcp_server 1.2.3.4/024:1", 27, "a prefix length from 0 to 32",
		 "\"024:1\""},
		{"use os tcp_server 1.2.3.4/-1:1", 27, "a prefix length from 0 to 32", "\"-1:1\""},
		{"use os tcp_server [::1:1", 20, ADDRESS6, "\"::1:1\""},
		{"use os tcp_server []:1", 20, ADDRESS6, "\"]:1\""},
		{"use os tcp_server [10.0.0.1]:1", 20, ADDRESS6, "\"10.0.0.1]:1\""},
		{"use os tcp_server [fe80::1%eth0]:1", 20, ADDRESS6, "\"fe80::1%eth0]:1\""},
		{"use os tcp_server [::1/64]:1", 20, ADDRESS6, "\"::1/64]:1\""},
		{"use os tcp_server [::1]", 24, "\":\" and ports", "the end of the line"},
		{"use os tcp_server [::1]/x:1", 25, "a prefix length from 0 to 128", "\"x:1\""},
		{"use os tcp_server *", 20, "\":\" and ports", "the end of the line"},
		{"use os tcp_server *:", 21, PORTS, "the end of the line"},
		{"use os tcp_server *:http", 21, PORTS, "\"http\""},
		{"use os tcp_server *:0", 21, PORTS, "\"0\""},
		{"use os tcp_server *:080", 21, PORTS, "\"080\""},
		{"use os tcp_server *:65536", 21, PORTS, "\"65536\""},
		{"use os tcp_server *:-5", 21, PORTS, "\"-5\""},
		{"use os tcp_server *:1-", 23, "the last port of the range, from 1 to 65535",
		 "the end of the line"},
		{"use os tcp_server *:20-10", 24, "the last port of the range, from 20 to 65535",
		 "\"10\""},
		{"use os tcp_server *:1-70000", 23, "the last port of the range, from 1 to 65535",
		 "\"70000\""},
		{"use os tcp_server *:1-2-3", 24, "\":\" or the end of the line", "\"-3\""},
		{"use os tcp_server *:1 2", 23, "\":\" or the end of the line", "\"2\""},
		{"use os tcp_server *:1,2", 22, "\":\" or the end of the line", "\",2\""},
		{"use os tcp_client *:1:", 23, ADDRESS, "the end of the line"},
		{"use os tcp_client *:1:*", 24, "\":\" and ports", "the end of the line"},
		{"use os tcp_client *:1:*:1:", 26, "the end of the line", "\":\""},
		{"interface", 10, "allow or deny", "the end of the line"},
		{"interface eth0", 11, "allow or deny", "\"eth0\""},
		{"interface deny", 15, "an interface or a pattern", "the end of the line"},
		{"interface deny eth0 eth1", 21, "the end of the line", "\"eth1\""},
		{"log", 4, "destination or min-level", "the end of the line"},
		{"log destination", 16, "a destination (stderr, syslog or file NAME)",
		 "the end of the line"},
		{"log destination file", 21, "the name of a file", "the end of the line"},
		{"log destination stderr x", 24, "the end of the line", "\"x\""},
		{"log min-level x", 15, "a number", "\"x\""},
		{"log min-level 01", 15, "a number", "\"01\""},
		{"log min-level 3 x", 17, "the end of the line", "\"x\""},
		{"use os tcp_server *:1\x01", 22, "\":\" or the end of the line", "the byte 0x01"},
		{"use os tcp_server *:1\x7f", 22, "\":\" or the end of the line", "the byte 0x7f"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[512];

		snprintf(want, sizeof(want), "expected %s, found %s", rows[i].expected,
			 rows[i].found);
		assert_int_equal(rules_of(rows[i].text), 0);
		if (notes.n != 1)
			fail_msg("%s: %u notes", rows[i].text, notes.n);
		assert_true(notes.all[0].error);
		if (notes.all[0].column != rows[i].column)
			fail_msg("%s: column %u", rows[i].text, notes.all[0].column);
		assert_string_equal(notes.all[0].text, want);
	}
}

static void test_lines_are_counted_right(void **state)
{
	static const char text[] = "# comment\n\nuse os tcp_server *:1 # comment\nfoo\r\n\n#\nbar";

	(void)state;
	assert_int_equal(rules_of(text), 1);
	assert_int_equal(notes.n, 2);
	assert_int_equal(notes.all[0].line, 4);
	assert_string_equal(strstr(notes.all[0].text, "found"), "found \"foo\"");
	assert_int_equal(notes.all[1].line, 7);
	assert_int_equal(notes.all[1].column, 1);
}

static void test_a_bad_line_is_skipped_and_the_others_hold(void **state)
{
	(void)state;
	assert_int_equal(rules_of("use os tcp_server *:1\nuse os tcp_server *:x\n"
				  "use os tcp_server *:2\n"),
			 2);
	assert_int_equal(notes.n, 1);
	assert_int_equal(notes.all[0].line, 2);
	assert_int_equal(notes.all[0].column, 21);
}

/* Rules that are meant for a program that cannot be read must not be for another one. */
static void test_what_follows_a_bad_application_id_is_for_nobody(void **state)
{
	static const struct {
		const char *line;
		unsigned column;
	} rows[] = {{"application-id", 15}, {"application-id a", 17}, {"application-id a b c", 20}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[256];

		snprintf(text, sizeof(text),
			 "use os tcp_server *:1\n%s\nuse os tcp_server *:2\nuse os tcp_server *:x\n"
			 "application-id * *\nuse os tcp_server *:3\n",
			 rows[i].line);
		assert_int_equal(rules_of(text), 2);
		assert_int_equal(notes.n, 3);
		assert_int_equal(notes.all[0].line, 2);
		assert_int_equal(notes.all[0].column, rows[i].column);
		assert_false(notes.all[1].error);
		assert_true(strstr(notes.all[1].text, "up to the next application-id"));
		assert_int_equal(notes.all[2].line, 4); /* errors there are told, too */
	}
}

static void test_what_has_no_effect_is_told(void **state)
{
	static const char *const rows[] = {
		"log destination stderr",  "log destination ystderr",
		"log destination syslog",  "log destination file /tmp/x.log",
		"log destination yfile x", "log min-level 9",
		"use sdp tcp_server *:*",  "use sa udp_sender *:*",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(rules_of(rows[i]), 0);
		assert_int_equal(notes.n, 1);
		assert_false(notes.all[0].error);
		assert_true(strstr(notes.all[0].text, "no effect"));
	}
	/* As before, and told now. */
	assert_int_equal(rules_of("use os tcp_server 1.2.3.4/33:*"), 1);
	assert_false(notes.all[0].error);
	assert_int_equal(notes.all[0].column, 27);
	assert_string_equal(notes.all[0].text, "the prefix length 33 counts as 32");
}

/* ---- hostile files --------------------------------------------------------------------------- */

static void test_bytes_0_are_found_where_they_are(void **state)
{
	static const char text[] = "use os\0 tcp_server *:1\ninterface deny e\0th\n# \0\n";
	struct conf conf;

	(void)state;
	parse_bytes(&conf, text, sizeof(text) - 1);
	assert_int_equal(conf.n_rules, 0);
	assert_int_equal(notes.n, 2); /* one in a comment does no harm */
	assert_int_equal(notes.all[0].column, 7);
	assert_true(strstr(notes.all[0].text, "found the byte 0x00"));
	assert_int_equal(notes.all[1].line, 2);
	assert_int_equal(notes.all[1].column, 17);
	conf_fini(&conf);
}

static void test_long_lines_and_names(void **state)
{
	char text[CONF_LINE_MAX + 32];

	(void)state;
	memset(text, ' ', sizeof(text));
	memcpy(text, "use os tcp_server *:1", 21);
	snprintf(text + CONF_LINE_MAX, 32, "\nuse os tcp_server *:2");
	assert_int_equal(rules_of(text), 2);
	snprintf(text + CONF_LINE_MAX, 32, " \nuse os tcp_server *:2");
	assert_int_equal(rules_of(text), 1);
	assert_int_equal(notes.n, 1);
	assert_int_equal(notes.all[0].line, 1);
	assert_int_equal(notes.all[0].column, CONF_LINE_MAX + 1);

	strcpy(text, "interface deny ");
	memset(text + 15, 'x', CONF_NAME_MAX);
	text[15 + CONF_NAME_MAX] = '\0';
	assert_int_equal(rules_of(text), 1);
	strcpy(text + 15 + CONF_NAME_MAX, "x");
	assert_int_equal(rules_of(text), 0);
	assert_int_equal(notes.all[0].column, 16 + CONF_NAME_MAX);
}

static void test_many_lines_and_rules(void **state)
{
	static const char rule[] = "use os tcp_server *:1\n";
	size_t len = sizeof(rule) - 1, lines = CONF_LINES_MAX + 1;
	char *text = malloc(lines * len);
	struct conf conf;

	(void)state;
	for (size_t i = 0; i < lines; i++)
		memcpy(text + i * len, rule, len);
	parse_bytes(&conf, text, lines * len);
	assert_int_equal(conf.n_rules, CONF_LINES_MAX);
	assert_int_equal(notes.n, 1);
	assert_int_equal(notes.all[0].line, CONF_LINES_MAX + 1);
	conf_fini(&conf);
	free(text);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_is_a_rule),
	cmocka_unit_test(test_what_says_nothing),
	cmocka_unit_test(test_where_a_line_is_wrong_and_what_was_expected),
	cmocka_unit_test(test_lines_are_counted_right),
	cmocka_unit_test(test_a_bad_line_is_skipped_and_the_others_hold),
	cmocka_unit_test(test_what_follows_a_bad_application_id_is_for_nobody),
	cmocka_unit_test(test_what_has_no_effect_is_told),
	cmocka_unit_test(test_bytes_0_are_found_where_they_are),
	cmocka_unit_test(test_long_lines_and_names),
	cmocka_unit_test(test_many_lines_and_rules),
};

VMA_TEST_MAIN("conf_parse", tests, NULL, NULL)
