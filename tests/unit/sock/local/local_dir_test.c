/* SPDX-License-Identifier: BSD-2-Clause */
/* The directory of local endpoints: what is found, what is swept, what is not trusted. */
#include "dir_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "vma_test.h"

static bool odd_ones_are_dead(uint64_t process)
{
	return process & 1;
}

static void test_an_exact_address_precedes_any_address(void **state)
{
	struct local_place to = place_of(LOCAL_TCP, "127.0.0.1", 80), at;
	struct local_entry found[LOCAL_MEMBERS];

	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 80, found), 0);
	add(LOCAL_TCP, "0.0.0.0", 80, 7, 1);
	assert_int_equal(local_dir_find(&to, &at, found), 1);
	assert_true(addr_is_any(&at.at.addr));
	assert_int_equal(found[0].process, 7);
	assert_int_equal(found[0].socket, 1);
	add(LOCAL_TCP, "127.0.0.1", 80, 8, 2);
	assert_int_equal(local_dir_find(&to, &at, found), 1);
	assert_int_equal(found[0].process, 8);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.2", 80, found), 1);
	assert_int_equal(found[0].process, 7);
	assert_int_equal(find(LOCAL_UDP, "127.0.0.1", 80, found), 0);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 81, found), 0);
}

static void test_any_address_is_of_one_family_or_of_both(void **state)
{
	struct local_place both = place_of(LOCAL_TCP, "::", 80);
	struct local_entry found[LOCAL_MEMBERS], dual = {.process = 9, .socket = 3};

	add(LOCAL_TCP, "0.0.0.0", 81, 7, 1);
	add(LOCAL_TCP, "::", 81, 8, 2);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 81, found), 1);
	assert_int_equal(found[0].process, 7);
	assert_int_equal(find(LOCAL_TCP, "::1", 81, found), 1);
	assert_int_equal(found[0].process, 8);

	both.ipv4 = true;
	assert_int_equal(local_dir_add(&both, &dual), 0);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 80, found), 1);
	assert_int_equal(found[0].process, 9);
	assert_int_equal(find(LOCAL_TCP, "fd00::1", 80, found), 1);
	assert_int_equal(found[0].process, 9);
	add(LOCAL_TCP, "fd00::1", 80, 6, 1);
	assert_int_equal(find(LOCAL_TCP, "fd00::1", 80, found), 1);
	assert_int_equal(found[0].process, 6);
	assert_int_equal(find(LOCAL_TCP, "fd00::2", 80, found), 1);
	assert_int_equal(found[0].process, 9);
	local_dir_remove(&both, &dual);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 80, found), 0);
	assert_int_equal(find(LOCAL_TCP, "::1", 80, found), 0);
}

static void test_a_place_has_the_addresses_of_its_family(void **state)
{
	static const struct {
		const char *at;
		bool ipv4;
		const char *to;
		bool has;
	} rows[] = {
		{"127.0.0.1", false, "127.0.0.1", true},
		{"127.0.0.1", false, "127.0.0.2", false},
		{"0.0.0.0", false, "127.0.0.1", true},
		{"0.0.0.0", false, "::1", false},
		{"::", false, "::1", true},
		{"::", false, "127.0.0.1", false},
		{"::", true, "::1", true},
		{"::", true, "127.0.0.1", true},
		{"::1", false, "::1", true},
		{"::1", false, "127.0.0.1", false},
		{"0.0.0.0", false, "0.0.0.0", false},
		{"::", true, "::", false},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct local_place at = place_of(LOCAL_UDP, rows[i].at, 1),
				   to = place_of(LOCAL_UDP, rows[i].to, 1);

		at.ipv4 = rows[i].ipv4;
		assert_int_equal(local_place_has(&at, &to.at.addr), rows[i].has);
	}
}

static void test_members_are_in_order_and_go(void **state)
{
	struct local_place place = place_of(LOCAL_UDP, "10.0.0.1", 53);
	struct local_entry found[LOCAL_MEMBERS], gone = {.process = 2, .socket = 9};
	char path[256];

	add(LOCAL_UDP, "10.0.0.1", 53, 3, 1);
	add(LOCAL_UDP, "10.0.0.1", 53, 2, 9);
	add(LOCAL_UDP, "10.0.0.1", 53, 2, 4);
	assert_int_equal(find(LOCAL_UDP, "10.0.0.1", 53, found), 3);
	assert_int_equal(found[0].socket, 4);
	assert_int_equal(found[1].socket, 9);
	assert_int_equal(found[2].process, 3);
	local_dir_remove(&place, &gone);
	local_dir_remove(&place, &gone);
	assert_int_equal(find(LOCAL_UDP, "10.0.0.1", 53, found), 2);
	gone = found[0];
	local_dir_remove(&place, &gone);
	gone = found[1];
	local_dir_remove(&place, &gone);
	snprintf(path, sizeof(path), "%s/u0a000001-0035", inside);
	assert_int_equal(access(path, F_OK), -1); /* no empty directory stays */
}

static void test_a_cookie_is_part_of_an_entry(void **state)
{
	struct local_place place = place_of(LOCAL_UDP, "10.0.0.1", 54);
	struct local_entry found[LOCAL_MEMBERS],
		entry = {.process = 5, .socket = 6, .cookie = 0x123456789abcdef0};

	assert_int_equal(local_dir_add(&place, &entry), 0);
	add(LOCAL_UDP, "10.0.0.1", 54, 5, 7);
	assert_int_equal(find(LOCAL_UDP, "10.0.0.1", 54, found), 2);
	assert_int_equal(found[0].socket, 6);
	assert_int_equal(found[0].cookie, 0x123456789abcdef0);
	assert_int_equal(found[1].socket, 7);
	assert_int_equal(found[1].cookie, 0);
	local_dir_remove(&place, &entry);
	assert_int_equal(find(LOCAL_UDP, "10.0.0.1", 54, found), 1);
	assert_int_equal(found[0].socket, 7);
}

static void test_only_the_lowest_members_are_returned(void **state)
{
	struct local_entry found[LOCAL_MEMBERS];

	for (unsigned i = LOCAL_MEMBERS + 10; i > 0; i--)
		add(LOCAL_TCP, "127.0.0.1", 1, 1, i);
	add(LOCAL_TCP, "127.0.0.1", 1, 2, 0);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 1, found), LOCAL_MEMBERS);
	for (unsigned i = 0; i < LOCAL_MEMBERS; i++)
		assert_int_equal(found[i].socket, i + 1);
}

static void test_entries_of_dead_processes_are_swept(void **state)
{
	struct local_entry found[LOCAL_MEMBERS];
	char path[256];

	add(LOCAL_TCP, "127.0.0.1", 80, 1, 1);
	add(LOCAL_TCP, "127.0.0.1", 80, 2, 1);
	add(LOCAL_TCP, "127.0.0.1", 81, 3, 1);
	local_dir_close();
	assert_false(local_dir_is_open());
	assert_int_equal(local_dir_open(base, odd_ones_are_dead), 0);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 80, found), 1);
	assert_int_equal(found[0].process, 2);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 81, found), 0);
	snprintf(path, sizeof(path), "%s/t7f000001-0051", inside);
	assert_int_equal(access(path, F_OK), -1);
}

static void make_file(const char *name, mode_t mode)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/t7f000001-0050/%s", inside, name);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void test_what_is_no_entry_is_ignored(void **state)
{
	struct local_entry found[LOCAL_MEMBERS];
	char path[256];

	add(LOCAL_TCP, "127.0.0.1", 80, 9, 9);
	make_file("0000000000000001-00000001 ", 0600);
	make_file("0000000000000001-1", 0600);
	make_file("0000000000000000-00000001", 0600); /* no process has this name */
	make_file("-1-00000001", 0600);
	make_file("0000000000000002-00000001", 0644);
	snprintf(path, sizeof(path), "%s/t7f000001-0050/0000000000000003-00000001", inside);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	snprintf(path, sizeof(path), "%s/t7f000001-0050/0000000000000004-00000001", inside);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 80, found), 1);
	assert_int_equal(found[0].process, 9);
}

static void test_what_others_can_access_is_refused(void **state)
{
	struct local_entry found[LOCAL_MEMBERS], entry = {.process = 1, .socket = 1};
	struct local_place place = place_of(LOCAL_TCP, "127.0.0.1", 80);
	char path[256];

	add(LOCAL_TCP, "127.0.0.1", 80, 1, 1);
	snprintf(path, sizeof(path), "%s/t7f000001-0050", inside);
	assert_int_equal(chmod(path, 0755), 0);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 80, found), 0);
	assert_int_equal(local_dir_add(&place, &entry), -EPERM);
	assert_int_equal(chmod(inside, 0711), 0);
	local_dir_close();
	assert_int_equal(local_dir_open(base, nobody_is_dead), -EPERM);
	assert_int_equal(chmod(inside, 0700), 0);
	assert_int_equal(chmod(base, 0755), 0);
	assert_int_equal(local_dir_open(base, nobody_is_dead), -EPERM);
	assert_int_equal(chmod(base, 0700), 0);
	assert_int_equal(rename(inside, path), -1); /* not into itself */
	snprintf(path, sizeof(path), "%s/elsewhere", base);
	assert_int_equal(rename(inside, path), 0);
	assert_int_equal(symlink(path, inside), 0);
	assert_true(local_dir_open(base, nobody_is_dead) < 0);
	assert_false(local_dir_is_open());
}

static void test_modes_are_right_whatever_umask_says(void **state)
{
	struct local_entry found[LOCAL_MEMBERS];
	mode_t old = umask(0477);

	local_dir_close();
	assert_int_equal(rmdir(inside), 0);
	open_it();
	add(LOCAL_TCP, "127.0.0.1", 80, 1, 1);
	umask(old);
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 80, found), 1);
}

static void test_another_namespace_has_another_directory(void **state)
{
	struct local_entry found[LOCAL_MEMBERS];
	int status;

	add(LOCAL_TCP, "127.0.0.1", 80, 1, 1);
	if (!fork()) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNET) && unshare(CLONE_NEWNET))
			_exit(3);
		local_dir_close();
		if (local_dir_open(base, nobody_is_dead))
			_exit(2);
		_exit(find(LOCAL_TCP, "127.0.0.1", 80, found) != 0);
	}
	wait(&status);
	assert_int_not_equal(WEXITSTATUS(status), 3);
	/* In a user namespace without a map the files are nobody's. */
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 2);
}

static void await_change(uint32_t before)
{
	struct pollfd pfd = {.fd = local_dir_fd(), .events = POLLIN};

	if (pfd.fd >= 0) {
		assert_int_equal(poll(&pfd, 1, 5000), 1);
		local_dir_changed();
	}
	while (local_dir_generation() == before)
		;
}

static void test_the_generation_follows_changes(void **state)
{
	struct local_place place = place_of(LOCAL_TCP, "127.0.0.1", 80);
	struct local_entry second = {.process = 1, .socket = 2};
	uint32_t before = local_dir_generation();

	add(LOCAL_TCP, "127.0.0.1", 80, 1, 1);
	await_change(before);
	before = local_dir_generation();
	add(LOCAL_TCP, "127.0.0.1", 80, 1, 2); /* the place is there already */
	await_change(before);
	before = local_dir_generation();
	local_dir_remove(&place, &second);
	await_change(before);
	if (local_dir_fd() >= 0)
		assert_int_equal(local_dir_generation(), local_dir_generation());
}

/* Before anybody has called local_dir_changed(). */
static void test_a_sender_notices_a_change_at_once(void **state)
{
	uint32_t before;

	if (!local_dir_catch_up())
		return; /* without inotify */
	before = local_dir_generation();
	assert_true(local_dir_is_still(before));
	add(LOCAL_GROUP, "0.0.0.0", 80, 1, 1);
	assert_int_equal(local_dir_generation(), before);
	assert_false(local_dir_is_still(before));
	assert_true(local_dir_catch_up());
	assert_false(local_dir_is_still(before));
	before = local_dir_generation();
	assert_true(local_dir_is_still(before));
	local_dir_changed(); /* another thread has seen one */
	assert_false(local_dir_is_still(before));
}

static void *take_in_changes(void *arg)
{
	local_dir_changed();
	return NULL;
}

/* A change is told, which another thread takes away. */
static void tell_another(int fd)
{
	int bytes = 1;

	assert_int_equal(write(fd, "", 1), 1);
	while (bytes) {
		assert_int_equal(ioctl(local_dir_fd(), FIONREAD, &bytes), 0);
		sched_yield();
	}
}

/* The pipe has the changes: so the other thread waits for more of them before it counts what it took. */
static void test_what_another_thread_takes_in_is_noticed(void **state)
{
	pthread_t thread;
	uint32_t before;
	int fds[2];

	if (local_dir_fd() < 0)
		return; /* without inotify */
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(dup2(fds[0], local_dir_fd()), local_dir_fd());
	before = local_dir_generation();
	assert_true(local_dir_is_still(before));
	assert_int_equal(pthread_create(&thread, NULL, take_in_changes, NULL), 0);
	tell_another(fds[1]);
	before = local_dir_generation();
	tell_another(fds[1]);
	assert_false(local_dir_is_still(before));
	close(fds[1]); /* no more changes */
	pthread_join(thread, NULL);
	assert_false(local_dir_is_still(before));
	assert_true(local_dir_is_still(local_dir_generation()));
	close(fds[0]);
}

static void test_members_of_groups_are_a_place_of_their_own(void **state)
{
	struct local_entry found[LOCAL_MEMBERS];

	add(LOCAL_GROUP, "0.0.0.0", 80, 1, 1);
	assert_int_equal(find(LOCAL_UDP, "127.0.0.1", 80, found), 0);
	assert_int_equal(find(LOCAL_GROUP, "0.0.0.0", 80, found), 1);
	assert_int_equal(find(LOCAL_GROUP, "0.0.0.0", 81, found), 0);
}

static void test_without_a_directory_nobody_is_found(void **state)
{
	struct local_place place = place_of(LOCAL_TCP, "127.0.0.1", 80);
	struct local_entry found[LOCAL_MEMBERS], entry = {.process = 1, .socket = 1};

	local_dir_close();
	assert_int_equal(find(LOCAL_TCP, "127.0.0.1", 80, found), 0);
	assert_int_equal(local_dir_add(&place, &entry), -ENOENT);
	local_dir_remove(&place, &entry);
}

static const struct CMUnitTest tests[] = {
	CASE(test_an_exact_address_precedes_any_address),
	CASE(test_any_address_is_of_one_family_or_of_both),
	CASE(test_a_place_has_the_addresses_of_its_family),
	CASE(test_members_are_in_order_and_go),
	CASE(test_a_cookie_is_part_of_an_entry),
	CASE(test_only_the_lowest_members_are_returned),
	CASE(test_entries_of_dead_processes_are_swept),
	CASE(test_what_is_no_entry_is_ignored),
	CASE(test_what_others_can_access_is_refused),
	CASE(test_modes_are_right_whatever_umask_says),
	CASE(test_another_namespace_has_another_directory),
	CASE(test_the_generation_follows_changes),
	CASE(test_a_sender_notices_a_change_at_once),
	CASE(test_what_another_thread_takes_in_is_noticed),
	CASE(test_members_of_groups_are_a_place_of_their_own),
	CASE(test_without_a_directory_nobody_is_found),
};

VMA_TEST_MAIN("local_dir", tests, NULL, NULL)
