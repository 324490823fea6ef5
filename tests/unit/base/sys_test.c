/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/vma_test.h"

static void limit_files(rlim_t n)
{
	struct rlimit limit = {.rlim_cur = n, .rlim_max = 1024};

	if (setrlimit(RLIMIT_NOFILE, &limit))
		_exit(99);
}

static int is_ours(int fd)
{
	char byte = 0;

	return fcntl(fd, F_GETFD) == FD_CLOEXEC && read(fd, &byte, 1) == 1 && byte == 'x';
}

/* The read end of a pipe that contains one 'x'. */
static int open_something(void)
{
	int fds[2];

	if (pipe(fds) || write(fds[1], "x", 1) != 1)
		return -1;
	close(fds[1]);
	return fds[0];
}

static void test_hidden_descriptor_is_high_and_closed_on_exec(void **state)
{
	int fd = open_something(), hidden = sys_fd_hide(fd);

	assert_true(hidden >= 512);
	assert_true(is_ours(hidden));
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(sys_fd_hide(hidden), hidden);
	sys_close(hidden);
}

static void test_negative_descriptor_passes_through(void **state)
{
	assert_int_equal(sys_fd_hide(-EMFILE), -EMFILE);
}

/* Limits belong to the process, so each row runs in a child, which exits with 0 on success. */
static void test_low_limits_give_the_highest_there_is(void **state)
{
	static const struct {
		rlim_t limit;
		int taken; /* how many of the highest descriptors are in use */
		int want;
	} rows[] = {
		{1024, 0, 512},
		{512, 0, 511},
		{100, 0, 99},
		{100, 2, 96}, /* 99 and 98 are in use: 4 below the limit */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			int fd = open_something(), hidden;

			for (int n = 1; n <= rows[i].taken; n++)
				dup2(fd, (int)rows[i].limit - n);
			limit_files(rows[i].limit);
			hidden = sys_fd_hide(fd);
			_exit(hidden == rows[i].want && is_ours(hidden) ? 0 : hidden & 127);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

static void test_nothing_free_leaves_it_where_it_is(void **state)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		int fd = open_something();

		limit_files((rlim_t)fd + 1);
		_exit(sys_fd_hide(fd) == fd && is_ours(fd) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_errors_are_returned_and_errno_is_left_alone(void **state)
{
	errno = 77;
	assert_int_equal(sys_close(-1), -EBADF);
	assert_int_equal(sys_write(-1, "", 0), -EBADF);
	assert_int_equal(sys_open("/nonexistent", O_RDONLY, 0), -ENOENT);
	assert_int_equal(errno, 77);
}

static void test_hidden_descriptors_are_known_until_closed(void **state)
{
	int fd = open_something(), hidden = sys_fd_hide(fd), other = sys_fd_hide(open_something());

	assert_false(sys_fd_is_hidden(fd));
	assert_true(sys_fd_is_hidden(hidden));
	assert_int_equal(sys_fd_next_hidden(-1), hidden < other ? hidden : other);
	assert_int_equal(sys_fd_next_hidden(hidden), hidden);
	assert_int_equal(sys_fd_next_hidden(other + 1), -1);
	sys_fd_unhide(other);
	assert_false(sys_fd_is_hidden(other));
	assert_int_equal(close(other), 0);
	sys_close(hidden);
	assert_false(sys_fd_is_hidden(hidden));
	assert_int_equal(fcntl(hidden, F_GETFD), -1);
	assert_false(sys_fd_is_hidden(-1));
	assert_false(sys_fd_is_hidden(INT32_MAX));
	sys_fd_unhide(-1);
	sys_fd_unhide(INT32_MAX);
}

static void test_forgetting_closes_the_hidden_ones_only(void **state)
{
	int fd = open_something(), one = sys_fd_hide(open_something());
	int two = sys_fd_hide(open_something()), between = sys_fd_hide(open_something());
	int three = sys_fd_hide(open_something());

	sys_fd_unhide(between); /* the program's: two runs are left */
	sys_fd_forget_all();
	assert_true(fcntl(fd, F_GETFD) >= 0);
	assert_true(fcntl(between, F_GETFD) >= 0);
	assert_int_equal(fcntl(one, F_GETFD), -1);
	assert_int_equal(fcntl(two, F_GETFD), -1);
	assert_int_equal(fcntl(three, F_GETFD), -1);
	close(between);
	assert_int_equal(sys_fd_next_hidden(0), -1);
	close(fd);
}

/* Their numbers are the program's then: an owner that closes its number later closes nothing. */
static void test_numbers_of_closed_hidden_descriptors_are_the_programs(void **state)
{
	int one = sys_fd_hide(open_something()), kept = sys_fd_hide(open_something());
	int two = sys_fd_hide(open_something()), fd = open_something();

	sys_fd_close_hidden(kept);
	assert_int_equal(fcntl(one, F_GETFD), -1);
	assert_int_equal(fcntl(two, F_GETFD), -1);
	assert_true(fcntl(kept, F_GETFD) >= 0);
	sys_fd_unhide(kept);
	assert_int_equal(dup2(fd, one), one);
	assert_int_equal(dup2(fd, two), two);
	sys_close(one);
	sys_fd_forget_all();
	assert_true(fcntl(one, F_GETFD) >= 0);
	assert_true(fcntl(two, F_GETFD) >= 0);
	assert_int_equal(sys_fd_next_hidden(0), -1);
	sys_close(one);
	sys_close(two);
	sys_close(kept);
	sys_close(fd);
	assert_int_equal(fcntl(one, F_GETFD), -1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_hidden_descriptor_is_high_and_closed_on_exec),
	cmocka_unit_test(test_negative_descriptor_passes_through),
	cmocka_unit_test(test_low_limits_give_the_highest_there_is),
	cmocka_unit_test(test_nothing_free_leaves_it_where_it_is),
	cmocka_unit_test(test_hidden_descriptors_are_known_until_closed),
	cmocka_unit_test(test_forgetting_closes_the_hidden_ones_only),
	cmocka_unit_test(test_numbers_of_closed_hidden_descriptors_are_the_programs),
	cmocka_unit_test(test_errors_are_returned_and_errno_is_left_alone),
};

VMA_TEST_MAIN("sys", tests, NULL, NULL)
