/* SPDX-License-Identifier: BSD-2-Clause */
/* Directories of network namespaces that have ended go, and none that a process uses. */
#include "dir_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/wait.h>

/* As one that a process left, with an entry; its descriptor. */
static int other_directory(const char *name, mode_t mode)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", base, name);
	assert_int_equal(mkdir(path, 0700), 0);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(mkdirat(fd, "t7f000001-0050", 0700), 0);
	close(openat(fd, "t7f000001-0050/0000000000000001-00000001", O_CREAT | O_WRONLY, 0600));
	assert_int_equal(fchmod(fd, mode), 0);
	return fd;
}

static bool is_there(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	return !access(path, F_OK);
}

static void open_again(void)
{
	local_dir_close();
	open_it();
}

static void test_directories_that_nobody_uses_are_swept(void **state)
{
	int used = other_directory("local3-1", 0700), unused = other_directory("local3-2", 0700);
	int begun = other_directory("swept-3", 0700);

	assert_int_equal(flock(used, LOCK_SH), 0);
	open_again();
	assert_true(is_there("local3-1/t7f000001-0050/0000000000000001-00000001"));
	assert_false(is_there("local3-2"));
	assert_false(is_there("swept-2"));
	assert_false(is_there("swept-3")); /* who swept it was killed */
	assert_int_equal(access(inside, F_OK), 0);
	close(used); /* its process has ended */
	open_again();
	assert_false(is_there("local3-1"));
	close(unused);
	close(begun);
}

static void test_what_is_not_ours_is_not_swept(void **state)
{
	int open_to_all = other_directory("local3-1", 0755);
	int other_file = other_directory("local3-2", 0700);
	char path[256];

	close(openat(other_file, "t7f000001-0050/letter", O_CREAT | O_WRONLY, 0600));
	snprintf(path, sizeof(path), "%s/local3-3", base);
	assert_int_equal(symlink(inside, path), 0);
	open_again();
	add(LOCAL_TCP, "127.0.0.1", 80, 9, 9);
	assert_true(is_there("local3-1/t7f000001-0050/0000000000000001-00000001"));
	assert_true(is_there("swept-2/t7f000001-0050/letter"));
	assert_int_equal(access(inside, F_OK), 0);
	close(open_to_all);
	close(other_file);
}

/* In a child: it has the directory of this namespace as long as it is open. */
static void test_a_process_keeps_its_directory(void **state)
{
	char path[256];
	int fds[2];
	pid_t child;

	local_dir_close();
	snprintf(path, sizeof(path), "%s/local3-1", base);
	assert_int_equal(pipe(fds), 0);
	open_it();
	child = fork();
	if (!child) {
		char byte;

		close(fds[1]);
		_exit(read(fds[0], &byte, 1) != 0);
	}
	local_dir_close();			   /* the child has it */
	assert_int_equal(rename(inside, path), 0); /* as if it were of another namespace */
	open_it();
	assert_true(is_there("local3-1"));
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	open_again();
	assert_false(is_there("local3-1"));
}

#define PROCESSES 4
#define ROUNDS 200

/* Children in several namespaces, which sweep what the others have just left. */
static void test_who_starts_while_another_sweeps_has_a_directory(void **state)
{
	pid_t children[PROCESSES];
	int status;

	local_dir_close();
	for (unsigned i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (children[i])
			continue;
		if (i && unshare(CLONE_NEWNET))
			_exit(77);
		for (unsigned n = 0; n < ROUNDS; n++) {
			struct local_place place = place_of(LOCAL_TCP, "127.0.0.1", 80);
			struct local_entry entry = {.process = 2, .socket = i + 1};

			if (local_dir_open(base, nobody_is_dead))
				_exit(1);
			if (local_dir_add(&place, &entry))
				_exit(2);
			local_dir_remove(&place, &entry);
			local_dir_close();
		}
		_exit(0);
	}
	for (unsigned i = 0; i < PROCESSES; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_true(WIFEXITED(status));
		if (WEXITSTATUS(status) != 77) /* it may not have a namespace */
			assert_int_equal(WEXITSTATUS(status), 0);
	}
	open_it();
}

static const struct CMUnitTest tests[] = {
	CASE(test_directories_that_nobody_uses_are_swept),
	CASE(test_what_is_not_ours_is_not_swept),
	CASE(test_a_process_keeps_its_directory),
	CASE(test_who_starts_while_another_sweeps_has_a_directory),
};

VMA_TEST_MAIN("local_dir_sweep", tests, NULL, NULL)
