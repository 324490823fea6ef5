/* SPDX-License-Identifier: BSD-2-Clause */
/* Uses the real directories; host_state_test uses its own. */
#include "base/host_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "tests/vma_test.h"

#define NAME "host-dir-test"

static char file[128];

static int lock_file(void)
{
	char path[HOST_DIR_PATH];
	int fd = host_dir_lock_file(NAME, path);

	assert_true(fd >= 0);
	snprintf(file, sizeof(file), "%s/" NAME, path);
	return fd;
}

static int tear_down(void **state)
{
	unlink(file);
	return 0;
}

static void check_mode(const char *path, mode_t mode)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode, mode);
	assert_int_equal(st.st_uid, geteuid());
}

static void test_no_other_user_can_open_it(void **state)
{
	const mode_t masks[] = {0, 022, 0400};
	char dir[HOST_DIR_PATH];

	for (size_t i = 0; i < sizeof(masks) / sizeof(*masks); i++) {
		mode_t old;

		sys_close(lock_file()); /* the directory */
		assert_int_equal(unlink(file), 0);
		old = umask(masks[i]);
		sys_close(host_dir_lock_file(NAME, dir));
		umask(old);
		check_mode(dir, S_IFDIR | 0700);
		check_mode(file, S_IFREG | 0600);
	}
}

static void test_it_is_the_same_for_all(void **state)
{
	int fd = lock_file(), status = 1, other = lock_file();
	pid_t pid;

	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), -1);
	pid = fork();
	if (!pid)
		_exit(!flock(lock_file(), LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	sys_close(fd);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	sys_close(other);
}

static void test_it_is_hidden_from_the_program(void **state)
{
	int fd = lock_file();

	assert_true(sys_fd_is_hidden(fd));
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	sys_close(fd);
}

static void test_links_are_not_followed(void **state)
{
	char dir[HOST_DIR_PATH], path[128];
	int fd;

	sys_close(lock_file());
	assert_int_equal(unlink(file), 0);
	assert_int_equal(symlink("/dev/null", file), 0);
	fd = host_dir_lock_file(NAME, dir);
	snprintf(path, sizeof(path), "%s/" NAME, dir);
	assert_true(fd < 0 || strcmp(path, file) != 0);
	sys_close_fd(&fd);
}

#define CASE(test) cmocka_unit_test_teardown(test, tear_down)

static const struct CMUnitTest tests[] = {
	CASE(test_no_other_user_can_open_it),
	CASE(test_it_is_the_same_for_all),
	CASE(test_it_is_hidden_from_the_program),
	CASE(test_links_are_not_followed),
};

VMA_TEST_MAIN("base/host_dir", tests, NULL, NULL)
