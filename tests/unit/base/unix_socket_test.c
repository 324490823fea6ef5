/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "tests/vma_test.h"

static int ends[2];

static int setup(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int teardown(void **state)
{
	(void)state;
	close(ends[0]);
	close(ends[1]);
	return 0;
}

static void sends(const char *text, const int *fds, unsigned n)
{
	struct iovec iov = {(void *)(uintptr_t)text, strlen(text)};

	assert_int_equal(unix_socket_send(ends[0], &iov, 1, fds, n), 0);
}

static ssize_t receives(char *text, size_t size, int flags, int *fds, unsigned max, unsigned *n)
{
	struct iovec iov = {text, size};

	return unix_socket_receive(ends[1], &iov, 1, flags, fds, max, n);
}

/* How many descriptors this process has. */
static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A byte that is written to one end of a pipe comes out of the other. */
static bool are_a_pipe(int in, int out)
{
	char c = 0;

	return write(in, "x", 1) == 1 && read(out, &c, 1) == 1 && c == 'x';
}

static void test_a_message_and_its_descriptors(void **state)
{
	unsigned before = count_fds(), n = 77;
	int fds[4], pipe_fds[2];
	char text[16];

	(void)state;
	assert_int_equal(pipe(pipe_fds), 0);
	sends("hello", pipe_fds, 2);
	assert_int_equal(receives(text, sizeof(text), 0, fds, 4, &n), 5);
	assert_memory_equal(text, "hello", 5);
	assert_int_equal(n, 2);
	assert_true(sys_fd_is_hidden(fds[0]) && sys_fd_is_hidden(fds[1]));
	assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
	assert_true(are_a_pipe(fds[1], pipe_fds[0]));
	unix_socket_close_fds(fds, n);
	assert_int_equal(fds[0], -1);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	assert_int_equal(count_fds(), before);
}

static void test_a_message_without_descriptors(void **state)
{
	unsigned n = 77;
	char text[16];
	int fd = -1;

	(void)state;
	sends("hello", NULL, 0);
	assert_int_equal(receives(text, sizeof(text), MSG_PEEK, &fd, 1, &n), 5);
	assert_int_equal(receives(text, 5, 0, NULL, 0, &n), 5);
	assert_int_equal(n, 0);
	assert_int_equal(receives(text, sizeof(text), 0, &fd, 1, &n), -EAGAIN);
	assert_int_equal(n, 0);
}

/* An odd number leaves room for one more behind it, which the kernel fills if it may. */
static void test_more_descriptors_than_are_wanted(void **state)
{
	static const unsigned wanted[] = {0, 1, 2, 3, 7, 79};
	int zeros[80];

	(void)state;
	for (unsigned i = 0; i < 80; i++)
		zeros[i] = 0;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		unsigned max = wanted[i], before = count_fds(), n = 77;
		int fds[81];
		char text[16];

		for (unsigned k = 0; k < 81; k++)
			fds[k] = -7;
		sends("hello", zeros, max + 1);
		assert_int_equal(receives(text, sizeof(text), 0, fds, max, &n), -EBADMSG);
		assert_true(n <= max);
		assert_int_equal(fds[max], -7);
		unix_socket_close_fds(fds, n);
		assert_int_equal(count_fds(), before);
	}
}

static void test_a_message_that_is_too_long(void **state)
{
	unsigned before = count_fds(), n;
	int zero = 0, fd = -1;
	char text[16];

	(void)state;
	sends("hello", &zero, 1);
	assert_int_equal(receives(text, 4, 0, &fd, 1, &n), -EBADMSG);
	assert_int_equal(n, 1);
	unix_socket_close_fds(&fd, n);
	assert_int_equal(count_fds(), before);
}

static void test_the_other_end_is_closed(void **state)
{
	unsigned n = 77;
	struct iovec iov = {(void *)(uintptr_t) "x", 1};
	char text[16];

	(void)state;
	close(ends[0]);
	assert_int_equal(receives(text, sizeof(text), 0, NULL, 0, &n), 0);
	assert_int_equal(unix_socket_send(ends[1], &iov, 1, NULL, 0), -EPIPE);
	ends[0] = dup(ends[1]);
}

static void test_names(void **state)
{
	struct sockaddr_un un;
	socklen_t len = unix_socket_name(&un, "libvma-test-%d", (int)getpid());
	struct ucred peer;
	int listening, fd;

	(void)state;
	assert_int_equal(un.sun_path[0], 0);
	assert_int_equal(len, offsetof(struct sockaddr_un, sun_path) + 1 + strlen(un.sun_path + 1));
	assert_int_equal(unix_socket_connect(&un, len), -ECONNREFUSED);
	listening = unix_socket_new();
	assert_true(sys_fd_is_hidden(listening));
	assert_int_equal(sys_bind(listening, (struct sockaddr *)&un, len), 0);
	assert_int_equal(sys_listen(listening, 1), 0);
	fd = unix_socket_connect(&un, len);
	assert_true(fd >= 0);
	assert_true(unix_socket_is_of(fd, geteuid(), &peer));
	assert_int_equal(peer.pid, getpid());
	assert_false(unix_socket_is_of(fd, geteuid() + 1, NULL));
	assert_false(unix_socket_is_of(-1, geteuid(), NULL));
	sys_close(fd);
	sys_close(listening);
	assert_int_equal(unix_socket_connect(&un, len), -ECONNREFUSED);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_a_message_and_its_descriptors, setup, teardown),
	cmocka_unit_test_setup_teardown(test_a_message_without_descriptors, setup, teardown),
	cmocka_unit_test_setup_teardown(test_more_descriptors_than_are_wanted, setup, teardown),
	cmocka_unit_test_setup_teardown(test_a_message_that_is_too_long, setup, teardown),
	cmocka_unit_test_setup_teardown(test_the_other_end_is_closed, setup, teardown),
	cmocka_unit_test(test_names),
};

VMA_TEST_MAIN("unix_socket", tests, NULL, NULL)
