/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stats/stats_text.h"
#include "tests/vma_test.h"

#define SLOTS 4

static char dir[64], path[128], log_path[128];

static int set_up(void **state)
{
	strcpy(dir, "/tmp/stats-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/" STATS_FILE "%d", dir, getpid());
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
	stats_init(dir, log_path, SLOTS, false);
	return 0;
}

static int tear_down(void **state)
{
	stats_close();
	stats_fork_child(); /* forgets the page */
	unlink(path);
	unlink(log_path);
	return rmdir(dir);
}

static bool exists(void)
{
	struct stat st;

	return !lstat(path, &st);
}

/* The contents of the file. */
static struct stats_place place_of(void)
{
	struct stats_place place;
	char text[STATS_PLACE_SIZE] = "";
	int fd = open(path, O_RDONLY | O_NOFOLLOW);

	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	assert_true(stats_place_parse(text, &place));
	return place;
}

static void write_file(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_the_page_is_made_when_it_is_needed(void **state)
{
	const struct stats_page *page;
	struct stat st;
	mode_t old;

	assert_false(exists());
	assert_null(stats_page());
	old = umask(0);
	assert_true(stats_open());
	umask(old);
	page = stats_page();
	assert_non_null(page);
	assert_true(page->magic == STATS_MAGIC);
	assert_int_equal(page->version, STATS_VERSION);
	assert_int_equal(page->n_socks, SLOTS);
	assert_int_equal(page->pid, getpid());
	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(place_of().pid, getpid());
	stats_close();
	assert_false(exists());
}

static void test_nothing_is_made_if_nobody_wants_it(void **state)
{
	stats_init("", "", SLOTS, false);
	assert_false(stats_open());
	assert_null(stats_page());
	stats_init("", log_path, SLOTS, false);
	assert_true(stats_open()); /* for the log file */
	assert_false(exists());
}

static void test_a_planted_link_is_not_followed(void **state)
{
	struct stat st;

	assert_int_equal(symlink(log_path, path), 0);
	assert_true(stats_open());
	assert_int_equal(lstat(path, &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_int_equal(lstat(log_path, &st), -1);
	stats_close();
	assert_true(exists()); /* it is not ours to remove */
}

static void test_an_earlier_file_of_our_id_is_replaced(void **state)
{
	write_file("left by a process that was killed");
	assert_true(stats_open());
	assert_int_equal(place_of().pid, getpid());
}

static void test_a_file_of_another_pid_namespace_stays(void **state)
{
	write_file("libvma-statistics pid=1 namespace=1 fd=1\n");
	assert_true(stats_open());
	assert_int_equal(place_of().namespace, 1);
	stats_close();
	assert_true(exists());
}

/* Writes vmastat.PID as a process of this namespace would. */
static void write_place(char other[128], pid_t pid)
{
	struct stat st;
	char text[STATS_PLACE_SIZE];
	FILE *f;

	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	snprintf(text, sizeof(text), STATS_PLACE_FORMAT, (uint32_t)pid, (uint64_t)st.st_ino, 5u);
	snprintf(other, 128, "%s/" STATS_FILE "%d", dir, (int)pid);
	f = fopen(other, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void test_files_of_killed_processes_are_removed(void **state)
{
	char dead[128], alive[128], foreign[128];
	pid_t child = fork();

	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	write_place(dead, child);
	write_place(alive, getppid());
	snprintf(foreign, sizeof(foreign), "%s/" STATS_FILE "x", dir);
	assert_int_equal(symlink(dead, foreign), 0); /* the library follows no link */
	assert_true(stats_open());
	assert_int_equal(access(dead, F_OK), -1);
	assert_int_equal(unlink(alive), 0);
	assert_int_equal(unlink(foreign), 0);
}

static void test_nobody_can_change_the_size(void **state)
{
	struct stats_place place;

	assert_true(stats_open());
	place = place_of();
	assert_int_equal(ftruncate((int)place.fd, 0), -1);
	assert_int_equal(ftruncate((int)place.fd, 1 << 20), -1);
	assert_int_equal(fcntl((int)place.fd, F_GETFD), FD_CLOEXEC);
}

static void test_a_forked_child_does_not_count_for_its_parent(void **state)
{
	void *page;
	unsigned char resident;
	int status;
	pid_t pid;

	assert_true(stats_open());
	page = stats_page();
	pid = fork();
	if (pid == 0) {
		bool gone = mincore(page, 4096, &resident) == -1 && errno == ENOMEM;

		stats_fork_child();
		gone = gone && !stats_page();
		stats_close();
		_exit(gone && exists() && stats_open() && stats_page()->pid == (uint32_t)getpid()
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(exists());
	snprintf(log_path, sizeof(log_path), "%s/" STATS_FILE "%d", dir, pid);
	assert_int_equal(unlink(log_path), 0); /* the child had one of its own */
}

static void test_slots_are_given_and_taken(void **state)
{
	unsigned numbers[SLOTS];

	assert_true(stats_open());
	for (int i = 0; i < SLOTS; i++) {
		numbers[i] = stats_slot_take(100 + i, STATS_OURS);
		assert_int_not_equal(numbers[i], 0);
		assert_int_equal(stats_slot(numbers[i])->fd, 100 + i);
		stats_add(&stats_slot(numbers[i])->rx_packets, 5);
	}
	assert_int_equal(stats_slot_take(7, STATS_OURS), 0);
	stats_slot_put(numbers[2]);
	assert_int_equal(stats_slot_take(7, STATS_OURS), numbers[2]);
	assert_true(stats_slot(numbers[2])->rx_packets == 0);
	assert_int_equal(stats_slot(numbers[2])->seq % 2, 0);
}

static void test_slots_of_sockets_that_left_give_way(void **state)
{
	int fds[2];
	unsigned left, number;

	assert_true(stats_open());
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	left = stats_slot_take(fds[0], STATS_LEFT);
	stats_slot_tell(left, STATS_LEFT, false, "why");
	assert_string_equal(stats_slot(left)->verdict, "why");
	for (int i = 1; i < SLOTS; i++)
		assert_int_not_equal(stats_slot_take(100 + i, STATS_OURS), left);
	/* No other socket that left needs it more, but one of ours does. */
	assert_int_equal(stats_slot_take(fds[1], STATS_LEFT), 0);
	assert_int_equal(stats_slot_take(200, STATS_OURS), left);
	stats_slot_put(left);
	/* The descriptor is another socket now. */
	number = stats_slot_take(fds[0], STATS_LEFT);
	assert_int_equal(stats_slot_take(fds[0], STATS_OURS), number);
	/* The descriptor was closed. */
	stats_slot_put(number);
	assert_int_equal(stats_slot_take(fds[0], STATS_LEFT), number);
	close(fds[0]);
	assert_int_equal(stats_slot_take(fds[1], STATS_LEFT), number);
	close(fds[1]);
}

static void test_counters_of_a_closed_socket_are_logged(void **state)
{
	char text[512] = "";
	unsigned number;
	FILE *f;

	assert_true(stats_open());
	number = stats_slot_take(10, STATS_OURS);
	stats_add(&stats_slot(number)->tx_packets, 2);
	stats_add(&stats_slot(number)->tx_bytes, 2048);
	for (int i = 0; i < 2; i++)
		stats_log_sock(number);
	f = fopen(log_path, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
	fclose(f);
#define BLOCK                                                                                  \
	STATS_RULE "\n\tFd=[10]\n- UDP, Blocked, MC Loop Disabled\n"                           \
		   "Tx Offload: 2 / 2 / 0 / 0 [kilobytes/packets/eagains/errors]\n" STATS_RULE \
		   "\n"
	assert_string_equal(text, BLOCK BLOCK);
}

static void test_asks_are_answered_once(void **state)
{
	struct stats_page *page;
	uint32_t argument = 1;

	assert_false(stats_asked(STATS_LEVEL, &argument)); /* no page */
	assert_true(stats_open());
	page = stats_page();
	assert_false(stats_asked(STATS_LEVEL, &argument));
	page->ask[STATS_LEVEL] = 1ull << 32 | 6;
	assert_false(stats_asked(STATS_ZERO, &argument));
	assert_true(stats_asked(STATS_LEVEL, &argument));
	assert_int_equal(argument, 6);
	stats_answer(STATS_LEVEL);
	assert_true(page->answer[STATS_LEVEL] == page->ask[STATS_LEVEL]);
	assert_false(stats_asked(STATS_LEVEL, &argument));
}

static void test_entries_of_epoll_sets_end_with_them(void **state)
{
	struct stats_iomux *first, *entry;

	assert_null(stats_epoll_take(3)); /* no page */
	assert_true(stats_open());
	first = stats_epoll_take(3);
	assert_non_null(first);
	stats_add(&first->now.hits, 1);
	for (unsigned i = 1; i < STATS_EPOLLS; i++)
		assert_non_null(stats_epoll_take(4));
	assert_null(stats_epoll_take(5));
	stats_epoll_put(first);
	entry = stats_epoll_take(6);
	assert_ptr_equal(entry, first);
	assert_int_equal(entry->fd, 6);
	assert_true(entry->now.hits == 0);
	stats_epoll_put(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void test_a_lock_of_a_reader_is_seen_as_long_as_the_reader_is_there(void **state)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 1};
	char name[64];
	int fd;

	assert_false(stats_is_locked(3)); /* there is no page */
	assert_true(stats_open());
	snprintf(name, sizeof(name), "/proc/self/fd/%u", place_of().fd);
	fd = open(name, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_false(stats_is_locked(3));
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	assert_true(stats_is_locked(3));
	assert_false(stats_is_locked(4));
	close(fd); /* as when it is killed */
	assert_false(stats_is_locked(3));
}

static const struct CMUnitTest tests[] = {
	TEST(test_the_page_is_made_when_it_is_needed),
	TEST(test_nothing_is_made_if_nobody_wants_it),
	TEST(test_a_planted_link_is_not_followed),
	TEST(test_an_earlier_file_of_our_id_is_replaced),
	TEST(test_a_file_of_another_pid_namespace_stays),
	TEST(test_files_of_killed_processes_are_removed),
	TEST(test_nobody_can_change_the_size),
	TEST(test_a_lock_of_a_reader_is_seen_as_long_as_the_reader_is_there),
	TEST(test_a_forked_child_does_not_count_for_its_parent),
	TEST(test_slots_are_given_and_taken),
	TEST(test_slots_of_sockets_that_left_give_way),
	TEST(test_counters_of_a_closed_socket_are_logged),
	TEST(test_asks_are_answered_once),
	TEST(test_entries_of_epoll_sets_end_with_them),
};

VMA_TEST_MAIN("stats", tests, NULL, NULL)
