/* SPDX-License-Identifier: BSD-2-Clause */
#include "intercept/process/inherited.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/sys.h"
#include "tests/unit/intercept/fake_sock.h"
#include "intercept/fdtable.h"
#include "tests/vma_test.h"

static void test_items_are_read_in_order(void **state)
{
	const char *text = "600,12345678901,7;0,18446744073709551615,4611686018427387904";
	struct inherited_item item;

	assert_true(inherited_read_item(&text, &item));
	assert_int_equal(item.fd, 600);
	assert_int_equal(item.inode, 12345678901);
	assert_int_equal(item.number, 7);
	assert_true(inherited_read_item(&text, &item));
	assert_int_equal(item.fd, 0);
	assert_true(item.inode == UINT64_MAX);
	assert_true(item.number == 1ull << 62);
	assert_false(inherited_read_item(&text, &item));
	assert_int_equal(*text, 0);
}

static void test_malformed_items_are_refused(void **state)
{
	static const char *const wrong[] = {
		"",
		";",
		"1",
		"1,",
		"1,2",
		"1,2,",
		"1,2,3,",
		"1,2,3x",
		",2,3",
		"-1,2,3",
		"1,-2,3",
		" 1,2,3",
		"+1,2,3",
		"0x1,2,3",
		"2147483648,2,3",
		"99999999999999999999999999,2,3",
		"1,18446744073709551616,3",
		"1,2,4611686018427387905",
	};
	struct inherited_item item;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		const char *text = wrong[i];

		if (inherited_read_item(&text, &item) || text != wrong[i])
			fail_msg("%s", wrong[i]);
	}
}

static void test_the_variable_is_removed(void **state)
{
	char *env[] = {(char *)"A=1", (char *)"VMA_INHERITED=1,2,3",
		       (char *)"VMA_INHERITED_LOCAL=4,5,6", (char *)"B=2", NULL};

	assert_string_equal(inherited_take_variable(env, INHERITED_NAME), "1,2,3");
	assert_string_equal(env[0], "A=1");
	assert_string_equal(env[1], "VMA_INHERITED_LOCAL=4,5,6");
	assert_string_equal(env[2], "B=2");
	assert_null(env[3]);
	assert_null(inherited_take_variable(env, INHERITED_NAME));
	assert_null(inherited_take_variable(NULL, INHERITED_NAME));
	assert_string_equal(inherited_take_variable(env, INHERITED_LOCAL_NAME), "4,5,6");
	assert_string_equal(env[1], "B=2");
}

/* A handler of the program that starts one, too, would wait for the thread that it interrupts. */
static void test_a_child_is_not_made_while_this_thread_makes_another(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct inherited outer, inner;

	fake.lends = true;
	signals_block();
	for (int i = 0; i < 2; i++) {
		inherited_lend(&outer, IMAGE_OURS, environ);
		assert_false(outer.refused);
		assert_non_null(outer.map);
		inherited_lend(&inner, IMAGE_OURS, environ);
		assert_true(inner.refused);
		assert_null(inner.map);
		inherited_lent(&outer);
		inherited_lent(&outer);
	}
	signals_unblock();
	fake.lends = false;
	assert_int_equal(close(fd), 0);
}

static void take_nothing(int fd, uint64_t inode)
{
	char text[100];

	snprintf(text, sizeof(text), "%d,%lu,1;%d,%lu,1", fd, inode, fd, inode);
	fake.n_opened = 0;
	inherited_take(text);
	if (fake.n_opened || fd_next(0) >= 0)
		fail_msg("%s", text);
}

static uint64_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static void test_missing_descriptors_are_not_inherited(void **state)
{
	fake.n_opened = 0;
	inherited_take(NULL);
	inherited_take("");
	assert_int_equal(fake.n_opened, 0);
	take_nothing(0, 1);
	take_nothing(INT_MAX, 1);
	take_nothing(1000000, 0);
}

/*
 * Only one end of an AF_UNIX SOCK_SEQPACKET pair, with the inode that was listed, is a
 * channel.
 */
static void test_a_descriptor_that_is_no_channel_is_not_opened(void **state)
{
	int pipes[2], stream[2], packets[2], tcp = sys_socket(AF_INET, SOCK_STREAM, 0);
	char text[100];

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stream), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets), 0);
	take_nothing(pipes[0], inode_of(pipes[0]));
	take_nothing(stream[0], inode_of(stream[0]));
	take_nothing(tcp, inode_of(tcp));
	take_nothing(packets[0], inode_of(packets[1]));
	snprintf(text, sizeof(text), "%d,%lu,1", packets[0], inode_of(packets[0]));
	inherited_take(text);
	assert_int_equal(fake.n_opened, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(close(pipes[i]), 0);
		assert_int_equal(close(stream[i]), 0);
		assert_int_equal(close(packets[i]), 0);
	}
	sys_close(tcp);
}

/* The channel is hidden at once, and opened at the first call. */
static void test_a_program_takes_what_it_inherits_at_its_first_call(void **state)
{
	int packets[2];
	char text[100];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets), 0);
	snprintf(text, sizeof(text), "%d,%lu,1;%d,%lu,1", packets[0], inode_of(packets[0]), 1,
		 inode_of(1));
	fake.n_opened = 0;
	inherited_start(text, NULL);
	memset(text, 0, sizeof(text)); /* as programs do that change their title */
	assert_int_equal(fake.n_opened, 0);
	assert_true(inherited_waits());
	assert_int_equal(sys_fcntl(packets[0], F_GETFD, 0), -EBADF); /* it was moved */
	assert_null(fd_get(1).sk);
	assert_int_equal(fake.n_opened, 1);
	assert_false(inherited_waits());
	assert_null(fd_get(1).sk);
	assert_int_equal(fake.n_opened, 1);
	close(packets[1]);
}

/* A descriptor past the first part of the table, or a list that is too long. */
static void test_what_cannot_wait_is_taken_at_once(void **state)
{
	static char text[20000];
	int packets[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets), 0);
	snprintf(text, sizeof(text), "%d,%lu,1;%d,1,1", packets[0], inode_of(packets[0]), 1 << 16);
	fake.n_opened = 0;
	inherited_start(text, NULL);
	assert_int_equal(fake.n_opened, 1);
	snprintf(text, sizeof(text), "%d,%lu,1", packets[0], inode_of(packets[0]));
	while (strlen(text) < sizeof(text) - 10)
		strcat(text, ";5,1,1");
	inherited_start(text, NULL);
	assert_int_equal(fake.n_opened, 2);
	inherited_start(NULL, NULL);
	assert_int_equal(fake.n_opened, 2);
	close(packets[0]);
	close(packets[1]);
}

/* How often it asks for a socket. */
static unsigned takes_local(int fd, uint64_t inode, uint64_t packed)
{
	char text[100];

	snprintf(text, sizeof(text), "%d,%lu,%lu", fd, inode, packed);
	fake.n_local = 0;
	inherited_start(NULL, text);
	assert_int_equal(fd_next(0), -1);
	return fake.n_local;
}

static void test_only_a_tcp_socket_that_was_listed_is_a_local_connection(void **state)
{
	int packets[2], tcp = sys_socket(AF_INET, SOCK_STREAM, 0);
	int udp = sys_socket(AF_INET, SOCK_DGRAM, 0), hidden;
	char text[100];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets), 0);
	assert_int_equal(takes_local(tcp, inode_of(tcp), 5), 1);
	assert_int_equal(takes_local(tcp, inode_of(tcp), INT_MAX), 1);
	assert_int_equal(takes_local(tcp, inode_of(tcp), INT_MAX + 1ull), 0);
	assert_int_equal(takes_local(tcp, inode_of(udp), 5), 0);
	assert_int_equal(takes_local(udp, inode_of(udp), 5), 0);
	assert_int_equal(takes_local(packets[0], inode_of(packets[0]), 5), 0);
	assert_int_equal(takes_local(1000000, 1, 5), 0);
	hidden = sys_fd_hide(tcp);
	assert_int_equal(takes_local(hidden, inode_of(hidden), 5), 0);
	/* What the parent has comes first, and at once. */
	snprintf(text, sizeof(text), "%d,%lu,1", packets[0], inode_of(packets[0]));
	fake.n_opened = 0;
	inherited_start(text, "x");
	assert_int_equal(fake.n_opened, 1);
	assert_false(inherited_waits());
	sys_close(hidden);
	sys_close(udp);
	close(packets[0]);
	close(packets[1]);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_items_are_read_in_order),
	cmocka_unit_test(test_malformed_items_are_refused),
	cmocka_unit_test(test_the_variable_is_removed),
	cmocka_unit_test(test_missing_descriptors_are_not_inherited),
	cmocka_unit_test(test_a_descriptor_that_is_no_channel_is_not_opened),
	cmocka_unit_test(test_what_cannot_wait_is_taken_at_once),
	cmocka_unit_test(test_only_a_tcp_socket_that_was_listed_is_a_local_connection),
	cmocka_unit_test(test_a_program_takes_what_it_inherits_at_its_first_call),
	cmocka_unit_test(test_a_child_is_not_made_while_this_thread_makes_another),
};

VMA_TEST_MAIN("exec", tests, NULL, NULL)
