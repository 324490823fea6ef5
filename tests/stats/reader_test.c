/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages as processes make them, and pages that lie. */
#include "tools/vma_stats/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stats/stats.h"
#include "tests/vma_test.h"

#define SLOTS 4

static char dir[64], path[128], why[READER_WHY];
static struct process process;

static int set_up(void **state)
{
	strcpy(dir, "/tmp/reader-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/" STATS_FILE "%d", dir, getpid());
	stats_init(dir, "", SLOTS, false);
	assert_true(stats_open());
	return 0;
}

static int tear_down(void **state)
{
	stats_close();
	stats_fork_child(); /* forgets the page */
	unlink(path);
	return rmdir(dir);
}

static int open_own(void)
{
	return reader_open(dir, (uint32_t)getpid(), &process, why);
}

static void write_place(uint32_t pid, uint64_t namespace, uint32_t fd)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fprintf(f, STATS_PLACE_FORMAT, pid, namespace, fd);
	fclose(f);
}

static uint64_t own_namespace(void)
{
	struct stat st;

	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	return st.st_ino;
}

/* A memfd of our own instead of the page; its descriptor. */
static int pretend(const char *name, size_t size, int seals)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	write_place((uint32_t)getpid(), own_namespace(), (uint32_t)fd);
	return fd;
}

static void refuses(int rc, const char *text)
{
	assert_int_equal(open_own(), rc);
	if (!strstr(why, text))
		fail_msg("\"%s\" lacks \"%s\"", why, text);
}

static void test_reads_a_page(void **state)
{
	static struct snapshot s; /* asan aligns less on the stack */
	unsigned a = stats_slot_take(9, STATS_OURS), b = stats_slot_take(5, STATS_OURS);

	stats_slot(a)->rx_packets = 7;
	stats_slot(b)->rx_packets = 8;
	assert_int_equal(open_own(), 0);
	assert_true(process.writable);
	assert_true(reader_snapshot(&process, 1, &s));
	assert_int_equal(s.n_socks, 2);
	assert_int_equal(s.socks[0].fd, 5); /* by descriptor */
	assert_int_equal(s.socks[0].rx_packets, 8);
	assert_int_equal(s.socks[1].rx_packets, 7);
	reader_free(&s);
	stats_slot_put(b);
	assert_true(reader_snapshot(&process, 1, &s));
	assert_int_equal(s.n_socks, 1);
	reader_free(&s);
	reader_close(&process);
}

static void test_lists_processes(void **state)
{
	static uint32_t pids[READER_PROCESSES];

	assert_int_equal(reader_list(dir, pids), 1);
	assert_int_equal(pids[0], getpid());
	assert_int_equal(reader_list("/nonexistent", pids), -ENOENT);
}

static void test_refuses_files_that_name_no_page(void **state)
{
	FILE *f = fopen(path, "w");

	fputs("something else\n", f);
	fclose(f);
	refuses(-EBADMSG, "does not name");
	write_place((uint32_t)getpid() + 1, own_namespace(), 3);
	refuses(-EBADMSG, "does not name");
	assert_int_equal(truncate(path, 0), 0);
	refuses(-EBADMSG, "does not name");
	write_place((uint32_t)getpid(), 1, 3);
	refuses(-EXDEV, "namespace");
	unlink(path);
	refuses(-ENOENT, "No such file");
	assert_int_equal(symlink("/etc/passwd", path), 0);
	refuses(-ELOOP, "");
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	refuses(-EACCES, "no file");
}

static void test_opens_nothing_but_the_page(void **state)
{
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	write_place((uint32_t)getpid(), own_namespace(), (uint32_t)pipes[0]);
	refuses(-ESRCH, "no statistics");
	close(pipes[0]);
	close(pipes[1]);
	refuses(-ESRCH, "ended"); /* no such descriptor */
	close(pretend("something", 4096, 0));
	assert_int_equal(open_own(), -ESRCH);
}

static void test_refuses_pages_that_can_be_cut_off(void **state)
{
	int fd = pretend(STATS_MEMFD, stats_page_size(SLOTS, false), F_SEAL_GROW);

	refuses(-EBADMSG, "not sealed");
	close(fd);
	fd = pretend(STATS_MEMFD, 4096, F_SEAL_GROW | F_SEAL_SHRINK);
	refuses(-EBADMSG, "size");
	close(fd);
	fd = pretend(STATS_MEMFD, 1 << 24, F_SEAL_GROW | F_SEAL_SHRINK);
	refuses(-EBADMSG, "size");
	close(fd);
	fd = pretend(STATS_MEMFD, stats_page_size(SLOTS, false), F_SEAL_GROW | F_SEAL_SHRINK);
	refuses(-EBADMSG, "not a page");
	close(fd);
}

static void test_refuses_pages_that_contradict_themselves(void **state)
{
	struct stats_page *page = stats_page(), was = *page;

	page->version++;
	refuses(-EPROTO, "this vma_stats reads version");
	*page = was;
	page->sock_size--;
	refuses(-EBADMSG, "contradicts");
	*page = was;
	page->socks_at += 64;
	refuses(-EBADMSG, "contradicts");
	*page = was;
	page->n_socks = STATS_SOCKS_MAX;
	refuses(-EBADMSG, "contradicts");
	page->n_socks = UINT32_MAX;
	refuses(-EBADMSG, "contradicts");
	*page = was;
	assert_int_equal(open_own(), 0);
	reader_close(&process);
}

/* After it was checked. */
static void test_bounds_a_page_that_changes(void **state)
{
	struct stats_page *page = stats_page();
	unsigned number = stats_slot_take(9, STATS_OURS);
	struct stats_sock *slot = stats_slot(number);
	static struct snapshot s; /* asan aligns less on the stack */

	assert_int_equal(open_own(), 0);
	page->n_socks = UINT32_MAX;
	page->n_rings = UINT32_MAX;
	memset(page->name, 0xff, sizeof(page->name));
	memset(page->rings[3].interface, 'x', STATS_NAME);
	memset(page->drop_names, '"', sizeof(page->drop_names));
	memset(slot->verdict, '\033', sizeof(slot->verdict));
	slot->n_groups = UINT32_MAX;
	slot->type = 200;
	assert_true(reader_snapshot(&process, 1, &s));
	assert_int_equal(s.n_socks, 1);
	assert_int_equal(s.page.n_rings, STATS_RINGS);
	assert_string_equal(s.page.name, "???????????????");
	assert_string_equal(s.page.rings[3].interface, "xxxxxxxxxxxxxxx");
	assert_string_equal(s.page.drop_names[0], "???????????????");
	assert_int_equal(strspn(s.socks[0].verdict, "?"), STATS_VERDICT - 1);
	assert_int_equal(s.socks[0].n_groups, STATS_GROUPS);
	assert_in_range(s.socks[0].type, 0, STATS_TYPES - 1);
	reader_free(&s);
	slot->seq++; /* for ever */
	assert_true(reader_snapshot(&process, 1, &s));
	assert_int_equal(s.n_socks, 0);
	reader_free(&s);
	reader_close(&process);
}

/* A socket that the kernel serves counts as long as its descriptor is that socket. */
static void test_hides_descriptors_that_were_closed(void **state)
{
	int fds[2];
	unsigned number;
	static struct snapshot s; /* asan aligns less on the stack */

	assert_int_equal(pipe(fds), 0);
	number = stats_slot_take(fds[0], STATS_LEFT);
	stats_slot_tell(number, STATS_LEFT, false, "no route");
	assert_int_equal(open_own(), 0);
	assert_true(reader_snapshot(&process, 1, &s));
	assert_int_equal(s.n_socks, 0); /* a pipe */
	reader_free(&s);
	reader_close(&process);
	close(fds[0]);
	close(fds[1]);
}

/* ---- another process ---------------------------------------------------------------- */

/* A child with a page, which answers asks if it shall; its process id. */
static pid_t make_child(bool answers)
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		uint32_t argument;

		stats_fork_child();
		if (!stats_open() || write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;) {
			if (answers && stats_asked(STATS_ZERO, &argument))
				stats_answer(STATS_ZERO);
			usleep(1000);
		}
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	assert_int_equal(reader_open(dir, (uint32_t)pid, &process, why), 0);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_asks_and_waits_for_the_answer(void **state)
{
	pid_t pid = make_child(true);

	for (int i = 0; i < 3; i++)
		assert_int_equal(reader_ask(&process, STATS_ZERO, 0), 0);
	process.writable = false;
	assert_int_equal(reader_ask(&process, STATS_ZERO, 0), -EACCES);
	reader_close(&process);
	end_child(pid);
	reader_clean(dir, (uint32_t)pid);
}

static void test_says_that_a_process_is_stopped(void **state)
{
	pid_t pid = make_child(true);
	int status;

	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_int_equal(reader_ask(&process, STATS_ZERO, 0), -ETIMEDOUT);
	reader_why_not(&process, -ETIMEDOUT, why);
	assert_non_null(strstr(why, "is stopped"));
	reader_close(&process);
	end_child(pid);
	reader_clean(dir, (uint32_t)pid);
}

static void test_survives_a_process_that_is_killed(void **state)
{
	pid_t pid = make_child(false), killer;
	static struct snapshot s; /* asan aligns less on the stack */
	char file[128];

	stats_slot_take(9, STATS_OURS);
	killer = fork();
	if (killer == 0) {
		usleep(20000);
		kill(pid, SIGKILL);
		_exit(0);
	}
	waitpid(killer, NULL, 0);
	waitpid(pid, NULL, 0);
	assert_int_equal(reader_ask(&process, STATS_REFRESH, 0), -ESRCH);
	assert_true(reader_snapshot(&process, 1, &s)); /* the page is still mapped */
	reader_free(&s);
	reader_close(&process);
	assert_int_equal(reader_open(dir, (uint32_t)pid, &process, why), -ESRCH);
	snprintf(file, sizeof(file), "%s/" STATS_FILE "%d", dir, pid);
	assert_int_equal(access(file, F_OK), 0);
	reader_clean(dir, (uint32_t)pid);
	assert_int_equal(access(file, F_OK), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	TEST(test_reads_a_page),
	TEST(test_lists_processes),
	TEST(test_refuses_files_that_name_no_page),
	TEST(test_opens_nothing_but_the_page),
	TEST(test_refuses_pages_that_can_be_cut_off),
	TEST(test_refuses_pages_that_contradict_themselves),
	TEST(test_bounds_a_page_that_changes),
	TEST(test_hides_descriptors_that_were_closed),
	TEST(test_asks_and_waits_for_the_answer),
	TEST(test_says_that_a_process_is_stopped),
	TEST(test_survives_a_process_that_is_killed),
};

VMA_TEST_MAIN("reader", tests, NULL, NULL)
