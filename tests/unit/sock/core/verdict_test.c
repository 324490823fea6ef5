/* SPDX-License-Identifier: BSD-2-Clause */
/* What the user is told of sockets that the kernel serves, and when a call or a start is refused. */
#include "sock/core/verdict.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/param.h"
#include "tests/vma_test.h"

static char path[] = "/tmp/verdict-XXXXXX";

static int begin(void **state)
{
	int fd = mkstemp(path);

	return fd < 0 ? -1 : close(fd);
}

static int end(void **state)
{
	return unlink(path);
}

/* An empty log of this level, nothing counted, the default of VMA_EXCEPTION_HANDLING. */
static void start(enum log_level level)
{
	assert_int_equal(truncate(path, 0), 0);
	log_init(level, 0, false, path);
	memset(verdict_counts, 0, sizeof(verdict_counts));
	params.exception_handling = -1;
}

static int setup(void **state)
{
	start(LOG_DEBUG);
	return 0;
}

/* All of it; the next call gives what was logged since. */
static const char *logged(void)
{
	static char text[65536];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	assert_true(n >= 0);
	text[n] = '\0';
	assert_int_equal(truncate(path, 0), 0);
	return text;
}

/* ---- sentences ---------------------------------------------------------------------------- */

static void test_each_verdict_has_a_sentence_of_its_own(void **state)
{
	for (unsigned i = 0; i < VERDICT_COUNT; i++) {
		assert_true(strlen(verdict_text((enum verdict)i)) > 8);
		for (unsigned j = 0; j < i; j++)
			assert_string_not_equal(verdict_text((enum verdict)i),
						verdict_text((enum verdict)j));
	}
	assert_string_equal(verdict_text(VERDICT_UNDECIDED), "not decided yet");
	assert_string_equal(verdict_text(VERDICT_OPTION),
			    "an option is set that only the kernel serves");
	assert_string_equal(verdict_text(VERDICT_STOPPED), "it does not listen any more");
}

static void test_which_verdicts_are_fallbacks(void **state)
{
	static const bool is[] = {
		[VERDICT_UNDECIDED] = false,   [VERDICT_ACCELERATED] = false,
		[VERDICT_LOCAL] = false,       [VERDICT_DISABLED] = false,
		[VERDICT_FAMILY] = true,       [VERDICT_LOOPBACK] = false,
		[VERDICT_NO_ROUTE] = false,    [VERDICT_BROADCAST] = true,
		[VERDICT_INTERFACE] = true,    [VERDICT_PORT_FAILED] = true,
		[VERDICT_NO_RESOURCES] = true, [VERDICT_SHARED_PORT] = true,
		[VERDICT_FLOW] = true,	       [VERDICT_OPTION] = true,
		[VERDICT_ROUTE] = true,	       [VERDICT_CALL] = true,
		[VERDICT_FORKED] = false,      [VERDICT_PASSED] = true,
		[VERDICT_EXECUTED] = false,    [VERDICT_NAMESPACE] = true,
		[VERDICT_SHARED] = true,       [VERDICT_RULE] = false,
		[VERDICT_DENIED] = false,      [VERDICT_STOPPED] = false,
	};

	_Static_assert(sizeof(is) == VERDICT_COUNT, "a row for each");
	for (unsigned i = 0; i < VERDICT_COUNT; i++) {
		if (verdict_is_fallback((enum verdict)i) != is[i])
			fail_msg("%s", verdict_text((enum verdict)i));
	}
}

/* ---- counts ------------------------------------------------------------------------------- */

static void count(enum verdict verdict, unsigned n)
{
	while (n--)
		verdict_count(verdict);
}

static void test_a_socket_counts_for_its_verdict_alone(void **state)
{
	for (unsigned i = 0; i < VERDICT_COUNT; i++)
		count((enum verdict)i, i + 1);
	for (unsigned i = 0; i < VERDICT_COUNT; i++)
		assert_int_equal(verdict_counts[i], i + 1);
}

static void test_nothing_is_logged_of_nothing(void **state)
{
	verdict_log_counts();
	assert_string_equal(logged(), "");
}

static void test_one_socket(void **state)
{
	count(VERDICT_OPTION, 1);
	verdict_log_counts();
	assert_string_equal(
		logged(), " VMA INFO: 1 socket was not accelerated (1: an option is set that only "
			  "the kernel serves)\n"
			  " VMA DEBUG: 1 socket: an option is set that only the kernel serves\n");
}

/* One line has the fallbacks with their sum; each count has a line of its own, in order. */
static void test_several_sockets(void **state)
{
	count(VERDICT_ROUTE, 2);
	count(VERDICT_ACCELERATED, 7);
	count(VERDICT_BROADCAST, 3);
	verdict_log_counts();
	assert_string_equal(
		logged(),
		" VMA INFO: 5 sockets were not accelerated (3: broadcast; 2: the route has a "
		"metric that only the kernel serves)\n"
		" VMA DEBUG: 7 sockets: accelerated\n"
		" VMA DEBUG: 3 sockets: broadcast\n"
		" VMA DEBUG: 2 sockets: the route has a metric that only the kernel serves\n");
}

static void test_what_is_no_fallback_is_for_debugging(void **state)
{
	start(LOG_INFO);
	count(VERDICT_ACCELERATED, 2);
	count(VERDICT_LOOPBACK, 1);
	count(VERDICT_RULE, 1);
	verdict_log_counts();
	assert_string_equal(logged(), "");
	count(VERDICT_CALL, 2);
	verdict_log_counts();
	assert_string_equal(logged(),
			    " VMA INFO: 2 sockets were not accelerated (2: a call was made "
			    "that only the kernel serves)\n");
}

/* All reasons at once are more than a line takes: the sum is of all, and the line ends. */
static void test_more_reasons_than_a_line_takes(void **state)
{
	const unsigned many = 1000000;
	unsigned fallbacks = 0;
	const char *line;
	char head[64];
	int n;

	start(LOG_INFO);
	for (unsigned i = 0; i < VERDICT_COUNT; i++) {
		verdict_counts[i] = many;
		fallbacks += verdict_is_fallback((enum verdict)i);
	}
	verdict_log_counts();
	line = logged();
	n = snprintf(head, sizeof(head),
		     " VMA INFO: %u sockets were not accelerated (%u: ", fallbacks * many, many);
	assert_int_equal(strncmp(line, head, (size_t)n), 0);
	assert_string_equal(line + strlen(line) - 2, ")\n");
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
	assert_in_range(strlen(line), 500, 600);
}

/* ---- VMA_EXCEPTION_HANDLING --------------------------------------------------------------- */

#define ASKED "option 5"
#define LEFT "fd 7: " ASKED ": only the kernel can do it\n"
#define REFUSED \
	"fd 7: " ASKED ": only the kernel can do it, and the socket is accelerated: refused\n"

static void test_what_only_the_kernel_can_do(void **state)
{
	static const struct {
		int mode;
		bool possible, leaves;
		const char *line;
	} rows[] = {
		{-2, true, true, " VMA DEBUG: " LEFT},
		{-2, false, false, " VMA DEBUG: " REFUSED},
		{-1, true, true, " VMA DEBUG: " LEFT},
		{-1, false, false, " VMA DEBUG: " REFUSED},
		{0, true, true, " VMA DEBUG: " LEFT},
		{0, false, false, " VMA DEBUG: " REFUSED},
		{1, true, true, " VMA ERROR: " LEFT},
		{1, false, false, " VMA ERROR: " REFUSED},
		{2, true, false, " VMA ERROR: " REFUSED},
		{2, false, false, " VMA ERROR: " REFUSED},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		params.exception_handling = rows[i].mode;
		if (verdict_unsupported(7, rows[i].possible, "option %d", 5) != rows[i].leaves)
			fail_msg("row %u", i);
		assert_string_equal(logged(), rows[i].line);
	}
}

static void test_a_long_question_is_cut(void **state)
{
	char question[1000], *line;

	memset(question, 'x', sizeof(question));
	question[sizeof(question) - 1] = '\0';
	assert_true(verdict_unsupported(7, true, "%s", question));
	line = strstr(logged(), "fd 7: ");
	assert_non_null(line);
	assert_int_equal(strspn(line + 6, "x"), 159);
	assert_string_equal(line + 6 + 159, ": only the kernel can do it\n");
}

/* How a child that does it ends: 256 times its exit status, or a signal. */
static int status_of(void (*act)(void))
{
	const struct rlimit none = {0, 0};
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		setrlimit(RLIMIT_CORE, &none);
		signal(SIGABRT, SIG_DFL);
		act();
		_exit(77);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#define GOES_ON (77 << 8)

static void ask(void)
{
	(void)verdict_unsupported(7, true, ASKED);
}

static void test_the_program_is_aborted_if_that_is_wanted(void **state)
{
	for (int mode = -2; mode < 3; mode++) {
		params.exception_handling = mode;
		assert_int_equal(status_of(ask), GOES_ON);
	}
	logged();
	params.exception_handling = 3;
	assert_int_equal(status_of(ask), SIGABRT);
	assert_string_equal(logged(), " VMA ERROR: " REFUSED); /* the last words */
}

static void test_a_failed_start_ends_the_program_if_that_is_wanted(void **state)
{
	for (int mode = -1; mode <= 3; mode++) {
		params.exception_handling = mode;
		assert_int_equal(status_of(verdict_start_failed), GOES_ON);
	}
	params.exception_handling = -2;
	assert_int_equal(status_of(verdict_start_failed), EXIT_FAILURE << 8);
}

#define CASE(test) cmocka_unit_test_setup(test, setup)

static const struct CMUnitTest tests[] = {
	CASE(test_each_verdict_has_a_sentence_of_its_own),
	CASE(test_which_verdicts_are_fallbacks),
	CASE(test_a_socket_counts_for_its_verdict_alone),
	CASE(test_nothing_is_logged_of_nothing),
	CASE(test_one_socket),
	CASE(test_several_sockets),
	CASE(test_what_is_no_fallback_is_for_debugging),
	CASE(test_more_reasons_than_a_line_takes),
	CASE(test_what_only_the_kernel_can_do),
	CASE(test_a_long_question_is_cut),
	CASE(test_the_program_is_aborted_if_that_is_wanted),
	CASE(test_a_failed_start_ends_the_program_if_that_is_wanted),
};

VMA_TEST_MAIN("sock/verdict", tests, begin, end)
