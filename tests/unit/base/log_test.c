/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/vma_test.h"

#define MAX_OUTPUT 65536

static char directory[] = "/tmp/log_test.XXXXXX";
static char file[64];
static int terminal_output; /* the saved stderr */

static int setup(void **state)
{
	if (!mkdtemp(directory))
		return -1;
	snprintf(file, sizeof(file), "%s/log", directory);
	terminal_output = dup(STDERR_FILENO);
	return 0;
}

static int teardown(void **state)
{
	unlink(file);
	rmdir(directory);
	return 0;
}

/* Redirects stderr to a new, empty file. */
static void capture(void)
{
	int fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);

	dup2(fd, STDERR_FILENO);
	close(fd);
}

static void release(void)
{
	dup2(terminal_output, STDERR_FILENO);
}

static void empty_file(void)
{
	close(open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600));
}

/* The contents of the file. */
static const char *output(void)
{
	static char text[MAX_OUTPUT];
	int fd = open(file, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static void test_before_init_only_warnings_are_shown(void **state)
{
	capture();
	log_info("information");
	log_warn("warning %d", 5);
	release();
	assert_string_equal(output(), " VMA WARNING: warning 5\n");
}

static void test_every_level_has_its_name_and_threshold(void **state)
{
	static const char *const lines[] = {
		" VMA PANIC: x\n",   " VMA ERROR: x\n", " VMA WARNING: x\n", " VMA INFO: x\n",
		" VMA DETAILS: x\n", " VMA DEBUG: x\n", " VMA FINE: x\n",    " VMA FINER: x\n",
	};

	for (int level = LOG_NONE; level <= LOG_ALL; level++) {
		char want[512] = "";

		capture();
		log_init((enum log_level)level, 0, true, "");
		log_panic("x");
		log_error("x");
		log_warn("x");
		log_info("x");
		log_details("x");
		log_debug("x");
		log_fine("x");
		log_finer("x");
		release();
		for (int i = 0; i <= level && i <= LOG_FINER; i++)
			strcat(want, lines[i]);
		assert_string_equal(output(), want);
	}
}

static void test_details_come_in_front(void **state)
{
	unsigned pid = (unsigned)getpid(), got_pid, got_tid;
	char want[128];
	double time;
	int end = 0;

	capture();
	log_init(LOG_INFO, 1, false, "");
	log_info("one");
	snprintf(want, sizeof(want), " Tid: %5u VMA INFO: one\n", (unsigned)gettid());
	assert_string_equal(output(), want);

	capture();
	log_init(LOG_INFO, 2, false, "");
	log_info("two");
	snprintf(want, sizeof(want), " Pid: %5u Tid: %5u VMA INFO: two\n", pid, (unsigned)gettid());
	assert_string_equal(output(), want);

	capture();
	log_init(LOG_INFO, 3, false, "");
	usleep(2000);
	log_info("three");
	release();
	assert_int_equal(sscanf(output(), " Time: %9lf Pid: %5u Tid: %5u VMA INFO: three%n", &time,
				&got_pid, &got_tid, &end),
			 3);
	assert_true(end > 0);
	assert_true(time >= 2 && time < 60000);
	assert_int_equal(got_pid, pid);
}

static void test_long_line_is_cut_and_ends_with_newline(void **state)
{
	char text[5000];
	const char *got;

	memset(text, 'y', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	capture();
	log_init(LOG_INFO, 0, false, "");
	log_info("%s", text);
	release();
	got = output();
	assert_in_range(strlen(got), 1000, 1100);
	assert_string_equal(got + strlen(got) - 4, "...\n");
}

static void test_errno_is_kept_and_can_be_shown(void **state)
{
	capture();
	log_init(LOG_INFO, 3, false, "");
	errno = ENOENT;
	log_info("%m");
	log_box(LOG_INFO, "box");
	assert_int_equal(errno, ENOENT);
	close(STDERR_FILENO);
	log_info("nowhere to go");
	assert_int_equal(errno, ENOENT);
	release();
	assert_non_null(strstr(output(), "No such file"));
}

static void test_box_frames_lines_as_users_know_it(void **state)
{
	capture();
	log_init(LOG_INFO, 0, false, "");
	log_box(LOG_DEBUG, "not shown");
	log_box(LOG_WARNING, "VMA is currently configured with high log level\n"
			     "two");
	release();
	assert_string_equal(
		output(),
		" VMA WARNING: *************************************************************\n"
		" VMA WARNING: * VMA is currently configured with high log level           *\n"
		" VMA WARNING: * two                                                       *\n"
		" VMA WARNING: *************************************************************\n");
}

static void test_box_grows_with_its_text(void **state)
{
	char text[101], want[128];

	memset(text, 'z', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	snprintf(want, sizeof(want), " VMA WARNING: * %s *\n", text);
	capture();
	log_init(LOG_INFO, 0, false, "");
	log_box(LOG_WARNING, "short\n%s", text);
	release();
	assert_non_null(strstr(output(), want));
	assert_int_equal(strcspn(output(), "\n"), strlen(want) - 1);
}

static void test_socket_in_the_place_of_stderr_gets_nothing(void **state)
{
	int pair[2];
	char byte;

	capture();
	log_init(LOG_INFO, 0, false, "");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	dup2(pair[0], STDERR_FILENO);
	log_info("not for the peer");
	assert_int_equal(recv(pair[1], &byte, 1, MSG_DONTWAIT), -1);
	/* If stderr is a socket from the beginning, the library writes to it. */
	log_init(LOG_INFO, 0, false, "");
	log_info("for the journal");
	assert_int_equal(recv(pair[1], &byte, 1, MSG_DONTWAIT), 1);
	close(pair[0]);
	close(pair[1]);
	release();
}

static void test_file_is_appended_to_by_a_hidden_descriptor(void **state)
{
	capture();
	log_warn("before");
	release();
	log_init(LOG_INFO, 0, true, file);
	log_info("to the file");
	assert_string_equal(output(), " VMA WARNING: before\n VMA INFO: to the file\n");
	assert_true(fcntl(512, F_GETFD) == FD_CLOEXEC);
}

static void test_file_survives_a_program_that_closes_everything(void **state)
{
	struct stat foreign;
	int fd;

	empty_file();
	log_init(LOG_INFO, 0, true, file);
	for (int round = 0; round < 3; round++) {
		for (fd = 512; fd < 530; fd++)
			close(fd);
		log_info("still there");
	}
	/* Another file takes the numbers of the log's descriptor, and must stay empty. */
	fd = open(directory, O_TMPFILE | O_RDWR, 0600);
	for (int taken = 512; taken < 530; taken++)
		dup2(fd, taken);
	log_info("still there");
	log_info("still there");
	assert_int_equal(fstat(fd, &foreign), 0);
	assert_int_equal(foreign.st_size, 0);
	assert_string_equal(output(), " VMA INFO: still there\n VMA INFO: still there\n"
				      " VMA INFO: still there\n VMA INFO: still there\n"
				      " VMA INFO: still there\n");
	for (int taken = 512; taken < 540; taken++)
		close(taken);
	close(fd);
}

static void test_relative_file_stays_where_it_was_when_directory_changes(void **state)
{
	char cwd[1024];

	assert_non_null(getcwd(cwd, sizeof(cwd)));
	empty_file();
	assert_int_equal(chdir(directory), 0);
	log_init(LOG_INFO, 0, true, "log");
	assert_int_equal(chdir("/"), 0);
	for (int fd = 512; fd < 530; fd++)
		close(fd);
	log_info("here");
	assert_string_equal(output(), " VMA INFO: here\n");
	assert_int_equal(chdir(cwd), 0);
}

static void test_file_that_cannot_be_opened_is_one_warning(void **state)
{
	capture();
	log_init(LOG_INFO, 0, true, "/nonexistent/log");
	log_info("to stderr");
	release();
	assert_string_equal(output(), " VMA WARNING: cannot open the log file /nonexistent/log "
				      "(VMA_LOG_FILE): logging to stderr\n"
				      " VMA INFO: to stderr\n");
}

static void test_descendants_tell_no_info_on_stderr(void **state)
{
	static const struct {
		enum log_level level, then;
		bool to_file;
	} rows[] = {
		{LOG_NONE, LOG_NONE, false},	  {LOG_WARNING, LOG_WARNING, false},
		{LOG_INFO, LOG_WARNING, false},	  {LOG_DETAILS, LOG_WARNING, false},
		{LOG_DEBUG, LOG_DEBUG, false},	  {LOG_INFO, LOG_INFO, true},
		{LOG_DETAILS, LOG_DETAILS, true},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		log_init(rows[i].level, 0, false, rows[i].to_file ? file : "");
		log_descend();
		assert_int_equal(log_level, rows[i].then);
	}
}

static void test_colours_only_on_a_terminal(void **state)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	char text[256];
	ssize_t n;

	assert_true(master >= 0);
	assert_int_equal(grantpt(master), 0);
	assert_int_equal(unlockpt(master), 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	assert_true(slave >= 0);
	dup2(slave, STDERR_FILENO);
	log_init(LOG_INFO, 0, true, "");
	log_error("red");
	n = read(master, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = '\0';
	assert_string_equal(text, "\033[0;31m VMA ERROR: red\033[0m\r\n");
	log_init(LOG_INFO, 0, false, "");
	log_error("plain");
	n = read(master, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = '\0';
	assert_string_equal(text, " VMA ERROR: plain\r\n");
	release();
	close(slave);
	close(master);
}

static void *log_lines(void *arg)
{
	for (int i = 0; i < 100; i++) {
		log_info("line of %zu", (size_t)(uintptr_t)arg);
		if (i % 10 == 0)
			close(512); /* as a faulty program does */
	}
	return NULL;
}

static void test_lines_of_threads_do_not_mix(void **state)
{
	pthread_t threads[4];
	const char *text;
	int lines = 0;

	empty_file();
	log_init(LOG_INFO, 0, true, file);
	for (size_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, log_lines, (void *)i);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (text = output(); *text; text += strcspn(text, "\n") + 1) {
		assert_int_equal(strncmp(text, " VMA INFO: line of ", 19), 0);
		assert_int_equal(strcspn(text, "\n"), 20);
		lines++;
	}
	/* If the descriptor is closed between the check and the write, that line is lost. */
	assert_in_range(lines, 360, 400);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_before_init_only_warnings_are_shown),
	cmocka_unit_test(test_every_level_has_its_name_and_threshold),
	cmocka_unit_test(test_details_come_in_front),
	cmocka_unit_test(test_long_line_is_cut_and_ends_with_newline),
	cmocka_unit_test(test_errno_is_kept_and_can_be_shown),
	cmocka_unit_test(test_box_frames_lines_as_users_know_it),
	cmocka_unit_test(test_box_grows_with_its_text),
	cmocka_unit_test(test_socket_in_the_place_of_stderr_gets_nothing),
	cmocka_unit_test(test_file_is_appended_to_by_a_hidden_descriptor),
	cmocka_unit_test(test_file_survives_a_program_that_closes_everything),
	cmocka_unit_test(test_relative_file_stays_where_it_was_when_directory_changes),
	cmocka_unit_test(test_file_that_cannot_be_opened_is_one_warning),
	cmocka_unit_test(test_descendants_tell_no_info_on_stderr),
	cmocka_unit_test(test_colours_only_on_a_terminal),
	cmocka_unit_test(test_lines_of_threads_do_not_mix),
};

VMA_TEST_MAIN("log", tests, setup, teardown)
