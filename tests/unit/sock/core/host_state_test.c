/* SPDX-License-Identifier: BSD-2-Clause */
/* In a separate directory; each process of a case is a child. */
#include "sock/core/host_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/vma_test.h"

#define PROCESSES 16
#define DRAWS 1000

static char top[64], dir[96], file[256];

/* The only entry of the directory; it is complete by then. */
static void find_file(void)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	unsigned n = 0;

	assert_non_null(d);
	while ((entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%.128s", dir, entry->d_name);
		n++;
	}
	closedir(d);
	assert_int_equal(n, 1);
}

static struct host_state *keep(void)
{
	int why = 1;
	struct host_state *kept = host_state_keep(dir, &why);

	assert_int_equal(why, 0);
	assert_non_null(kept);
	return kept;
}

static void let_go(struct host_state *kept)
{
	munmap(kept, sizeof(*kept));
}

static void refused(int with)
{
	int why = 0;

	assert_null(host_state_keep(dir, &why));
	assert_int_equal(why, with);
}

static int set_up(void **state)
{
	const char *tmp = getenv("TEST_TMPDIR");

	snprintf(top, sizeof(top), "%.40s/stateXXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (!mkdtemp(top))
		return -1;
	snprintf(dir, sizeof(dir), "%s/kept", top);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command);
}

static void test_no_other_user_can_read_it(void **state)
{
	struct stat st;

	umask(0);
	let_go(keep());
	find_file();
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	assert_int_equal(lstat(file, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(st.st_size, sizeof(struct host_state));
}

static void test_a_later_process_goes_on_with_it(void **state)
{
	static const uint8_t none[HOST_SECRET];
	struct host_state *first = keep(), *second;
	uint8_t secret[HOST_SECRET];

	memcpy(secret, first->secret, sizeof(secret));
	assert_memory_not_equal(secret, none, sizeof(secret));
	first->ports[7] = 4711;
	let_go(first);
	second = keep();
	assert_memory_equal(second->secret, secret, sizeof(secret));
	assert_int_equal(second->ports[7], 4711);
	let_go(second);
}

/* All start at once, in an empty directory. */
static void test_processes_agree_in_any_order(void **state)
{
	int start[2], told[2];
	uint8_t first[HOST_SECRET], other[HOST_SECRET];
	char go;

	assert_int_equal(pipe(start), 0);
	assert_int_equal(pipe(told), 0);
	for (unsigned i = 0; i < PROCESSES; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid) {
			struct host_state *kept;
			int why;

			close(start[1]);
			if (read(start[0], &go, 1)) /* until the parent closes it */
				_exit(1);
			kept = host_state_keep(dir, &why);
			_exit(!kept || write(told[1], kept->secret, HOST_SECRET) != HOST_SECRET);
		}
	}
	close(start[0]);
	close(start[1]);
	for (unsigned i = 0; i < PROCESSES; i++) {
		int status = -1;

		wait(&status);
		assert_int_equal(status, 0);
		assert_int_equal(read(told[0], i ? other : first, HOST_SECRET), HOST_SECRET);
		assert_true(!i || !memcmp(first, other, HOST_SECRET));
	}
	close(told[0]);
	close(told[1]);
	find_file(); /* and no other file is left */
}

static void test_what_others_may_read_is_refused(void **state)
{
	let_go(keep());
	find_file();
	chmod(file, 0640);
	refused(-EPERM);
	chmod(file, 0600);
	let_go(keep());
	chmod(dir, 0750);
	refused(-EPERM);
}

static void test_what_another_user_made_is_refused(void **state)
{
	assert_int_equal(geteuid(), 0);
	let_go(keep());
	find_file();
	assert_int_equal(chown(file, 1, 1), 0);
	refused(-EPERM);
	assert_int_equal(chown(file, 0, 0), 0);
	let_go(keep());
	assert_int_equal(chown(dir, 1, 1), 0);
	refused(-EPERM);
}

static void test_links_are_not_followed(void **state)
{
	char elsewhere[128];

	let_go(keep());
	find_file();
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", top);
	assert_int_equal(rename(file, elsewhere), 0);
	assert_int_equal(symlink(elsewhere, file), 0);
	refused(-ELOOP);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rmdir(dir), 0);
	snprintf(elsewhere, sizeof(elsewhere), "%s/other", top);
	assert_int_equal(mkdir(elsewhere, 0700), 0);
	assert_int_equal(symlink(elsewhere, dir), 0);
	refused(-ENOTDIR);
}

static void test_what_is_no_state_is_refused(void **state)
{
	let_go(keep());
	find_file();
	assert_int_equal(truncate(file, 100), 0);
	refused(-EINVAL);
	/* The right size, but only zeros. */
	assert_int_equal(truncate(file, 0), 0);
	assert_int_equal(truncate(file, sizeof(struct host_state)), 0);
	refused(-EINVAL);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(mkfifo(file, 0600), 0);
	refused(-EPERM);
}

static void test_where_no_directory_can_be_made_it_says_why(void **state)
{
	snprintf(dir, sizeof(dir), "%s/not/there", top);
	refused(-ENOENT);
}

static void draw(int to)
{
	for (unsigned i = 0; i < DRAWS; i++) {
		uint32_t n = host_port_next(77);

		if (write(to, &n, sizeof(n)) != sizeof(n))
			_exit(1);
	}
}

/* With or without a file: a forked process continues with the same state as the others. */
static void test_related_processes_try_other_ports(void **state)
{
	uint32_t first, n;
	static bool seen[2 * DRAWS];
	int told[2], status;
	pid_t pid;

	assert_int_equal(host_state_open(), 0);
	assert_int_equal(host_state_open(), 0); /* does nothing */
	first = host_port_next(77) + 1;
	assert_int_equal(pipe(told), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		draw(told[1]);
		_exit(0);
	}
	draw(told[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (unsigned i = 0; i < 2 * DRAWS; i++) {
		assert_int_equal(read(told[0], &n, sizeof(n)), sizeof(n));
		assert_true(n - first < 2 * DRAWS && !seen[n - first]);
		seen[n - first] = true;
	}
	close(told[0]);
	close(told[1]);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	CASE(test_no_other_user_can_read_it),
	CASE(test_a_later_process_goes_on_with_it),
	CASE(test_processes_agree_in_any_order),
	CASE(test_what_others_may_read_is_refused),
	CASE(test_what_another_user_made_is_refused),
	CASE(test_links_are_not_followed),
	CASE(test_what_is_no_state_is_refused),
	CASE(test_where_no_directory_can_be_made_it_says_why),
	CASE(test_related_processes_try_other_ports),
};

VMA_TEST_MAIN("sock/host_state", tests, NULL, NULL)
