/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/param.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/param/param_internal.h"
#include "base/version.h"
#include "tests/vma_test.h"

#define MAX_OUTPUT 32768

/* The environment of a test: NAME, VALUE, ..., NULL. */
static const char *const *environment;

static const char *lookup(const char *name)
{
	for (const char *const *pair = environment; *pair; pair += 2) {
		if (!strcmp(pair[0], name))
			return pair[1];
	}
	return NULL;
}

#define INIT(...)                                                        \
	do {                                                             \
		static const char *const pairs_[] = {__VA_ARGS__, NULL}; \
		environment = pairs_;                                    \
		param_init(lookup);                                      \
	} while (0)

/* Everything a call writes to stderr. */
static const char *logged(void (*fn)(void))
{
	static char text[MAX_OUTPUT];
	int fd = memfd_create("stderr", 0), saved = dup(STDERR_FILENO);
	ssize_t n;

	dup2(fd, STDERR_FILENO);
	log_init(params.log_level, 0, false, "");
	fn();
	dup2(saved, STDERR_FILENO);
	n = pread(fd, text, sizeof(text) - 1, 0);
	text[n < 0 ? 0 : n] = '\0';
	close(fd);
	close(saved);
	return text;
}

static void warn_without_environ(void)
{
	param_warn(NULL);
}

static void warn_with_environ(void)
{
	static char a[] = "PATH=/bin", b[] = "VMA_RX_POLL=5", c[] = "VMA_RX_POLLS=5", d[] = "VMA_";
	static char *const vars[] = {a, b, c, d, NULL};

	param_warn(vars);
}

static void test_defaults_are_there_before_and_after_init(void **state)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(params.log_level, LOG_INFO);
		assert_int_equal(params.log_details, 0);
		assert_true(params.log_colors);
		assert_string_equal(params.log_file, "");
		assert_int_equal(params.rx_poll, 100000);
		assert_int_equal(params.thread_mode, 1);
		assert_int_equal(params.internal_thread_affinity.count, 0);
		INIT("PATH", "/bin");
	}
	assert_string_equal(logged(warn_without_environ), "");
}

static void test_numbers_are_strict_and_bounded(void **state)
{
	static const struct {
		const char *text;
		int want; /* 100000 is refused: the default applies */
	} rows[] = {
		{"-1", -1},
		{"0", 0},
		{"100000000", 100000000},
		{"+7", 7},
		{"100000001", 100000},
		{"-2", 100000},
		{"99999999999999999999", 100000},
		{"", 100000},
		{" 5", 100000},
		{"5 ", 100000},
		{"5k", 100000},
		{"0x5", 100000},
		{"abc", 100000},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *pairs[] = {"VMA_RX_POLL", rows[i].text, NULL};
		char want[128] = "";

		environment = pairs;
		errno = 77;
		param_init(lookup);
		assert_int_equal(errno, 77);
		assert_int_equal(params.rx_poll, rows[i].want);
		if (rows[i].want == 100000)
			snprintf(want, sizeof(want),
				 " VMA WARNING: VMA_RX_POLL=%s is not a number in -1..100000000; "
				 "using the default 100000\n",
				 rows[i].text);
		assert_string_equal(logged(warn_without_environ), want);
		/* Once. */
		assert_string_equal(logged(warn_without_environ), "");
	}
}

static void test_switches(void **state)
{
	INIT("VMA_TCP_NODELAY", "1", "VMA_OFFLOADED_SOCKETS", "0", "VMA_RX_POLL_YIELD", "Enable",
	     "VMA_TX_MC_LOOPBACK", "false");
	assert_true(params.tcp_nodelay);
	assert_false(params.offloaded_sockets);
	assert_true(params.rx_poll_yield);
	assert_false(params.tx_mc_loopback);
	INIT("VMA_OFFLOADED_SOCKETS", "2");
	assert_true(params.offloaded_sockets);
	assert_string_equal(logged(warn_without_environ),
			    " VMA WARNING: VMA_OFFLOADED_SOCKETS=2 is not 0 or 1; "
			    "using the default 1\n");
}

static void test_congestion_control_is_one_of_three(void **state)
{
	INIT("VMA_TCP_CC_ALGO", "1");
	assert_int_equal(params.tcp_cc_algo, 1);
	INIT("VMA_TCP_CC_ALGO", "3");
	assert_int_equal(params.tcp_cc_algo, 0);
	INIT("PATH", "/bin");
	assert_int_equal(params.tcp_cc_algo, 0);
}

static void test_timestamps_follow_the_kernel_unless_told(void **state)
{
	INIT("PATH", "/bin");
	assert_int_equal(params.tcp_timestamps, 2);
	INIT("VMA_TCP_TIMESTAMP_OPTION", "0");
	assert_int_equal(params.tcp_timestamps, 0);
	INIT("VMA_TCP_TIMESTAMP_OPTION", "1");
	assert_int_equal(params.tcp_timestamps, 1);
	INIT("VMA_TCP_TIMESTAMP_OPTION", "3");
	assert_int_equal(params.tcp_timestamps, 2);
}

static void test_levels_by_name_and_number(void **state)
{
	static const struct {
		const char *text;
		enum log_level want;
	} rows[] = {
		{"none", LOG_NONE},	  {"panic", LOG_PANIC},	    {"error", LOG_ERROR},
		{"warn", LOG_WARNING},	  {"WARNING", LOG_WARNING}, {"Info", LOG_INFO},
		{"details", LOG_DETAILS}, {"debug", LOG_DEBUG},	    {"fine", LOG_FINE},
		{"func", LOG_FINE},	  {"finer", LOG_FINER},	    {"func_all", LOG_FINER},
		{"all", LOG_ALL},	  {"0", LOG_PANIC},	    {"1", LOG_ERROR},
		{"2", LOG_WARNING},	  {"3", LOG_INFO},	    {"4", LOG_DEBUG},
		{"5", LOG_FINE},	  {"6", LOG_FINER},	    {"7", LOG_INFO},
		{"-1", LOG_INFO},	  {"04", LOG_INFO},	    {"loud", LOG_INFO},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *pairs[] = {"VMA_TRACELEVEL", rows[i].text, NULL};

		environment = pairs;
		param_init(lookup);
		assert_int_equal(params.log_level, rows[i].want);
	}
	assert_non_null(strstr(logged(warn_without_environ),
			       "VMA_TRACELEVEL=loud is not a log level (none, panic,"));
}

static void test_debug_level_shows_thread_ids_and_a_warning(void **state)
{
	INIT("VMA_TRACELEVEL", "debug");
	assert_int_equal(params.log_details, 2);
	assert_string_equal(
		logged(warn_without_environ),
		" VMA WARNING: *************************************************************\n"
		" VMA WARNING: * VMA is currently configured with high log level           *\n"
		" VMA WARNING: * Application performance will decrease in this log level!  *\n"
		" VMA WARNING: * This log level is recommended for debugging purposes only *\n"
		" VMA WARNING: *************************************************************\n");
	INIT("VMA_TRACELEVEL", "debug", "VMA_LOG_DETAILS", "3");
	assert_int_equal(params.log_details, 3);
	INIT("VMA_TRACELEVEL", "details");
	assert_int_equal(params.log_details, 0);
}

static void test_first_percent_d_of_a_string_is_the_process(void **state)
{
	char want[64];

	INIT("VMA_LOG_FILE", "/tmp/log.%d.%d.%s");
	snprintf(want, sizeof(want), "/tmp/log.%d.%%d.%%s", (int)getpid());
	assert_string_equal(params.log_file, want);
	INIT("VMA_LOG_FILE", "plain");
	assert_string_equal(params.log_file, "plain");
	INIT("PATH", "/bin");
	assert_string_equal(params.log_file, "");
}

static void test_choices_are_numbers_with_names(void **state)
{
	INIT("VMA_THREAD_MODE", "3");
	assert_int_equal(params.thread_mode, 3);
	INIT("VMA_THREAD_MODE", "4");
	assert_int_equal(params.thread_mode, 1);
	assert_string_equal(logged(warn_without_environ),
			    " VMA WARNING: VMA_THREAD_MODE=4 is not a number in 0..3; "
			    "using the default 1 (Multi spin lock)\n");
}

static void test_ring_parameters(void **state)
{
	static const char logic[] = "one of 0, 1, 10, 20, 30, 31; using the default "
				    "0 (Ring per interface)",
			  ratio[] = "-1 or a number in 1..100000000; using the default 100",
			  limit[] = "a number in 0..100000000; using the default 0 (no limit)";
	static const struct {
		const char *variable;
		const int *value;
		const char *text;
		int want;
		const char * not ; /* refused: the text ends the warning */
	} rows[] = {
#define BOTH(name, member, text, want, no)                 \
	{name "_TX", &params.member##_tx, text, want, no}, \
		{name "_RX", &params.member##_rx, text, want, no}
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "0", 0, NULL),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "1", 1, NULL),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "10", 10, NULL),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "20", 20, NULL),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "30", 30, NULL),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "31", 31, NULL),
		/* Ring per user id is refused: the program gives the id, through the API only. */
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "11", 0, logic),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "2", 0, logic),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "32", 0, logic),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "-1", 0, logic),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "4294967306", 0, logic),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "thread", 0, logic),
		BOTH("VMA_RING_ALLOCATION_LOGIC", ring_logic, "", 0, logic),
		BOTH("VMA_RING_MIGRATION_RATIO", ring_migration, "-1", -1, NULL),
		BOTH("VMA_RING_MIGRATION_RATIO", ring_migration, "1", 1, NULL),
		BOTH("VMA_RING_MIGRATION_RATIO", ring_migration, "5000", 5000, NULL),
		BOTH("VMA_RING_MIGRATION_RATIO", ring_migration, "0", 100, ratio),
		BOTH("VMA_RING_MIGRATION_RATIO", ring_migration, "-2", 100, ratio),
		BOTH("VMA_RING_MIGRATION_RATIO", ring_migration, "off", 100, ratio),
		BOTH("VMA_RING_MIGRATION_RATIO", ring_migration, "100000001", 100, ratio),
		{"VMA_RING_LIMIT_PER_INTERFACE", &params.ring_limit, "0", 0, NULL},
		{"VMA_RING_LIMIT_PER_INTERFACE", &params.ring_limit, "4", 4, NULL},
		{"VMA_RING_LIMIT_PER_INTERFACE", &params.ring_limit, "-1", 0, limit},
		{"VMA_RING_LIMIT_PER_INTERFACE", &params.ring_limit, "few", 0, limit},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *pairs[] = {rows[i].variable, rows[i].text, NULL};
		char want[256] = "";

		environment = pairs;
		param_init(lookup);
		assert_int_equal(*rows[i].value, rows[i].want);
		if (rows[i].not )
			snprintf(want, sizeof(want), " VMA WARNING: %s=%s is not %s\n",
				 rows[i].variable, rows[i].text, rows[i].not );
		assert_string_equal(logged(warn_without_environ), want);
	}
}

static void test_banner_names_how_rings_are_chosen(void **state)
{
	const char *text;

	INIT("VMA_TRACELEVEL", "details");
	text = strstr(logged(param_banner), " VMA DETAILS: Ring allocation logic TX");
	assert_non_null(text);
#define DEFAULTS                                                                   \
	" VMA DETAILS: Ring allocation logic TX       0 (Ring per interface)     " \
	"[VMA_RING_ALLOCATION_LOGIC_TX]\n"                                         \
	" VMA DETAILS: Ring allocation logic RX       0 (Ring per interface)     " \
	"[VMA_RING_ALLOCATION_LOGIC_RX]\n"                                         \
	" VMA DETAILS: Ring migration ratio TX        100                        " \
	"[VMA_RING_MIGRATION_RATIO_TX]\n"                                          \
	" VMA DETAILS: Ring migration ratio RX        100                        " \
	"[VMA_RING_MIGRATION_RATIO_RX]\n"                                          \
	" VMA DETAILS: Ring limit per interface       0 (no limit)               " \
	"[VMA_RING_LIMIT_PER_INTERFACE]\n"
	assert_memory_equal(text, DEFAULTS, sizeof(DEFAULTS) - 1);
	INIT("VMA_RING_ALLOCATION_LOGIC_TX", "20", "VMA_RING_ALLOCATION_LOGIC_RX", "31",
	     "VMA_RING_MIGRATION_RATIO_RX", "-1", "VMA_RING_LIMIT_PER_INTERFACE", "4");
	text = strstr(logged(param_banner), " VMA INFO: Ring allocation logic TX");
	assert_non_null(text);
#define CHANGED                                                                          \
	" VMA INFO: Ring allocation logic TX       20 (Ring per thread)       "          \
	"[VMA_RING_ALLOCATION_LOGIC_TX]\n"                                               \
	" VMA INFO: Ring allocation logic RX       31 (Ring per core - attach threads) " \
	"[VMA_RING_ALLOCATION_LOGIC_RX]\n"                                               \
	" VMA INFO: Ring migration ratio RX        -1                         "          \
	"[VMA_RING_MIGRATION_RATIO_RX]\n"                                                \
	" VMA INFO: Ring limit per interface       4                          "          \
	"[VMA_RING_LIMIT_PER_INTERFACE]\n"
	assert_memory_equal(text, CHANGED, sizeof(CHANGED) - 1);
}

static void test_processors_as_mask_or_list(void **state)
{
	static const struct {
		const char *text;
		int count;    /* 0: any; -1: refused */
		uint64_t low; /* processors 0 to 63 */
	} rows[] = {
		{"-1", 0, 0},
		{"0", 1, 1},
		{"1,3-5", 4, 0x3a},
		{"2-2,2", 1, 4},
		{"0x3", 2, 3},
		{"0XaB", 5, 0xab},
		{"0x10000000000000000", 1, 0},
		{"1023", 1, 0},
		{"1024", -1, 0},
		{"0x", -1, 0},
		{"0x0", -1, 0},
		{"0xg", -1, 0},
		{"", -1, 0},
		{"5-3", -1, 0},
		{"1,", -1, 0},
		{"1-", -1, 0},
		{"1;2", -1, 0},
		{"99999999999999999999", -1, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *pairs[] = {"VMA_INTERNAL_THREAD_AFFINITY", rows[i].text, NULL};
		const struct param_cpus *cpus = &params.internal_thread_affinity;
		uint64_t low = 0;

		environment = pairs;
		param_init(lookup);
		for (unsigned cpu = 0; cpu < 64; cpu++)
			low |= (uint64_t)CPU_ISSET(cpu, &cpus->set) << cpu;
		assert_int_equal(cpus->count, rows[i].count < 0 ? 0 : rows[i].count);
		assert_true(low == rows[i].low);
		assert_int_equal(strlen(logged(warn_without_environ)) > 0, rows[i].count < 0);
	}
}

static void test_unknown_variables_are_named(void **state)
{
	INIT("PATH", "/bin");
	assert_string_equal(
		logged(warn_with_environ),
		" VMA WARNING: VMA_RX_POLLS is not a parameter and has no effect; the nearest name is "
		"VMA_RX_POLL\n"
		" VMA WARNING: VMA_ is not a parameter and has no effect; the nearest name is "
		"VMA_BF\n");
}

static void test_banner_shows_what_was_changed(void **state)
{
	static const char rule[] = " VMA INFO: ----------------------------------------------"
				   "-----------------------------\n";
	const char *text;

	INIT("VMA_RX_POLL", "-1", "VMA_THREAD_MODE", "0", "VMA_RX_POLL_YIELD", "1",
	     "VMA_INTERNAL_THREAD_AFFINITY", "0x1");
	text = logged(param_banner);
	assert_int_equal(strncmp(text, rule, sizeof(rule) - 1), 0);
	assert_non_null(strstr(text, " VMA INFO: VMA_VERSION: " VMA_VERSION " "));
	assert_non_null(strstr(text, " VMA INFO: Cmd Line: "));
	assert_non_null(strstr(text, "param_test"));
	assert_non_null(strstr(text, " VMA INFO: Pid: "));
	assert_non_null(strstr(text, " VMA INFO: Architecture: x86_64\n"));
	assert_non_null(strstr(text, " VMA INFO: Node: "));
	text = strstr(text, " VMA INFO: Log Level");
	assert_non_null(text);
	assert_string_equal(
		text,
		" VMA INFO: Log Level                      INFO                       [VMA_TRACELEVEL]\n"
		" VMA INFO: Rx Poll Loops                  -1                         [VMA_RX_POLL]\n"
		" VMA INFO: Rx Poll Yield                  Enabled                    [VMA_RX_POLL_YIELD]\n"
		" VMA INFO: Internal Thread Affinity       0x1                        "
		"[VMA_INTERNAL_THREAD_AFFINITY]\n"
		" VMA INFO: Thread mode                    Single                     [VMA_THREAD_MODE]\n"
		" VMA INFO: ---------------------------------------------------------------------------\n");
}

static void test_banner_shows_everything_at_details(void **state)
{
	const char *text;

	INIT("VMA_TRACELEVEL", "details");
	text = logged(param_banner);
#define SEEN(var, label) assert_int_equal(strstr(text, "[" #var "]\n") != NULL, (label)[0] != '\0');
#define PARAM_INT(m, var, d, lo, hi, label, ...) SEEN(var, label)
#define PARAM_BOOL(m, var, d, label, ...) SEEN(var, label)
#define PARAM_STR(m, var, d, label, ...) SEEN(var, label)
#define PARAM_LEVEL(m, var, d, label, ...) SEEN(var, label)
#define PARAM_NAMED(m, var, d, lo, hi, n, label, ...) SEEN(var, label)
#define PARAM_RATIO(m, var, d, hi, label, ...) SEEN(var, label)
#define PARAM_CPUS(m, var, d, label, ...) SEEN(var, label)
#define PARAM_SPEC(m, var, d, label, ...) SEEN(var, "")
#define ALWAYS_INT(var, d, lo, hi, label, ...) SEEN(var, label)
#define ALWAYS_BOOL(var, d, label, ...) SEEN(var, label)
#define ALWAYS_STR(var, d, label, ...) SEEN(var, label)
#define CARD_INT(var, d, lo, hi, label, ...) SEEN(var, label)
#define CARD_BOOL(var, d, label, ...) SEEN(var, label)
#include "base/param/param_list.h"
	assert_non_null(strstr(text, " VMA DETAILS: Thread mode                    "
				     "Multi spin lock            [VMA_THREAD_MODE]\n"));
	assert_non_null(strstr(text, " VMA DETAILS: Log File                       "
				     "                           [VMA_LOG_FILE]\n"));
	assert_non_null(strstr(text, " VMA DETAILS: Log Details                    "
				     "0                          [VMA_LOG_DETAILS]\n"));
}

static void test_banner_is_silent_below_info(void **state)
{
	INIT("VMA_TRACELEVEL", "warn");
	assert_string_equal(logged(param_banner), "");
	INIT("PATH", "/bin"); /* frees the copies of the last test */
}

/* ---- what has no effect, or another name ------------------------------------------------- */

static void test_what_is_always_so_says_what_differs(void **state)
{
	INIT("VMA_FORK", "0", "VMA_TCP_TIMER_RESOLUTION_MSEC", "10");
	assert_string_equal(
		logged(warn_without_environ),
		" VMA WARNING: VMA_TCP_TIMER_RESOLUTION_MSEC=10 has no effect: timers of TCP expire at "
		"their deadline, not at a tick\n"
		" VMA WARNING: VMA_FORK=0 has no effect: sockets always work in both processes after "
		"fork()\n");
	assert_string_equal(logged(warn_without_environ), ""); /* once */
	INIT("VMA_FORK", "1", "VMA_TCP_TIMER_RESOLUTION_MSEC", "100");
	assert_string_equal(logged(warn_without_environ), "");
}

static void test_what_needs_a_card_is_told_at_details(void **state)
{
	INIT("VMA_RING_DEV_MEM_TX", "64");
	assert_string_equal(logged(warn_without_environ), "");
	INIT("VMA_RING_DEV_MEM_TX", "64", "VMA_TRACELEVEL", "details");
	assert_string_equal(
		logged(warn_without_environ),
		" VMA DETAILS: VMA_RING_DEV_MEM_TX=64 acts on cards that have it; AF_XDP does not\n");
}

static void test_old_names_set_the_parameter(void **state)
{
	INIT("VMA_RX_SKIP_OS", "7");
	assert_int_equal(params.rx_udp_poll_os_ratio, 7);
	assert_string_equal(logged(warn_without_environ),
			    " VMA WARNING: VMA_RX_SKIP_OS is an old name of "
			    "VMA_RX_UDP_POLL_OS_RATIO, which it sets\n");
	INIT("VMA_RX_SKIP_OS", "7", "VMA_RX_UDP_POLL_OS_RATIO", "8");
	assert_int_equal(params.rx_udp_poll_os_ratio, 8);
	assert_string_equal(logged(warn_without_environ), "");
	INIT("VMA_RX_SKIP_OS", "often");
	assert_int_equal(params.rx_udp_poll_os_ratio, 100);
	assert_non_null(
		strstr(logged(warn_without_environ), " VMA_RX_SKIP_OS=often is not a number"));
}

static void test_select_poll_os_force_sets_two_others(void **state)
{
	INIT("VMA_SELECT_POLL_OS_FORCE", "1");
	assert_int_equal(params.select_poll_os_ratio, 1);
	assert_int_equal(params.select_skip_os, 1);
	INIT("VMA_SELECT_POLL_OS_FORCE", "1", "VMA_SELECT_SKIP_OS", "9");
	assert_int_equal(params.select_poll_os_ratio, 1);
	assert_int_equal(params.select_skip_os, 9);
	INIT("VMA_SELECT_POLL_OS_FORCE", "0");
	assert_int_equal(params.select_poll_os_ratio, 10);
}

/* ---- a hostile environment ----------------------------------------------------------------- */

static char hostile_name[300], hostile_value[100000];

static void warn_hostile(void)
{
	static char more[12][24];
	static char *vars[16];
	int n = 0;

	memset(hostile_name, 'A', sizeof(hostile_name) - 1);
	memcpy(hostile_name, "VMA_\n\033[2J", 9);
	vars[n++] = hostile_name;
	for (int i = 0; i < 12; i++) {
		snprintf(more[i], sizeof(more[i]), "VMA_%d=1", i);
		vars[n++] = more[i];
	}
	vars[n] = NULL;
	param_warn(vars);
}

static unsigned lines_of(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static void test_a_hostile_environment_cannot_flood_or_forge_the_log(void **state)
{
	const char *text;

	INIT("PATH", "/bin");
	text = logged(warn_hostile);
	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(text, "VMA_??[2JAAAA"));
	assert_non_null(strstr(text, "AAA... is not a parameter"));
	assert_non_null(strstr(text, " VMA WARNING: 5 more VMA_* variables are not parameters\n"));
	assert_int_equal(lines_of(text), 8 + 1);
}

static void test_overlong_values_are_refused(void **state)
{
	const char *pairs[] = {"VMA_LOG_FILE",
			       hostile_value,
			       "VMA_RX_POLL",
			       hostile_value,
			       "VMA_INTERNAL_THREAD_AFFINITY",
			       hostile_value,
			       NULL};
	const char *text;

	memset(hostile_value, '7', sizeof(hostile_value) - 1);
	environment = pairs;
	param_init(lookup);
	assert_string_equal(params.log_file, "");
	assert_int_equal(params.rx_poll, 100000);
	assert_int_equal(params.internal_thread_affinity.count, 0);
	text = logged(warn_without_environ);
	assert_int_equal(lines_of(text), 3);
	assert_non_null(strstr(text, "777... is not a text of at most 4095 characters; using the "
				     "default\n"));
}

static void test_line_feeds_in_values_do_not_reach_the_log(void **state)
{
	INIT("VMA_RX_POLL", "1\n VMA PANIC: forged", "VMA_LOG_FILE", "/tmp/a\nb");
	assert_string_equal(logged(warn_without_environ),
			    " VMA WARNING: VMA_RX_POLL=1? VMA PANIC: forged is not a number in "
			    "-1..100000000; using the default 100000\n");
	assert_non_null(strstr(logged(param_banner), "/tmp/a?b"));
}

/* ---- VMA_SPEC -------------------------------------------------------------------------------- */

static void test_profiles_are_known_by_name_and_number(void **state)
{
	static const struct {
		const char *name, *number;
		int rx_poll, logic, select_poll, skip_os;
	} rows[] = {
		{"none", "0", 100000, 0, 100000, 4},
		{"ultra-latency", "10", -1, 0, -1, 0},
		{"latency", "15", -1, 0, -1, 1},
		{"29west", "29", 0, 0, 100000, 50},
		{"wombat_fh", "554", 0, 0, 0, 20},
		{"mcd", "623", 100000, 31, 100000, 4},
		{"mcd-irq", "624", 0, 31, 0, 4},
		{"rti", "784", -1, 0, 100000, 4},
		{"7750", "7750", -1, 0, -1, 4},
		{"multi_ring_latency", "Multi_Ring_Latency", -1, 20, -1, 0},
	};

	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		const char *pairs[] = {"VMA_SPEC", i % 2 ? rows[i / 2].number : rows[i / 2].name,
				       NULL};

		environment = pairs;
		param_init(lookup);
		assert_int_equal(params.rx_poll, rows[i / 2].rx_poll);
		assert_int_equal(params.ring_logic_rx, rows[i / 2].logic);
		assert_int_equal(params.ring_logic_tx, rows[i / 2].logic);
		assert_int_equal(params.select_poll, rows[i / 2].select_poll);
		assert_int_equal(params.select_skip_os, rows[i / 2].skip_os);
		assert_string_equal(logged(warn_without_environ), "");
	}
	INIT("VMA_SPEC", "nginx");
	assert_int_equal(params.rx_poll, 100000);
	assert_string_equal(logged(warn_without_environ),
			    " VMA WARNING: VMA_SPEC=nginx is not a profile: none, ultra-latency, "
			    "latency, 29west, wombat_fh, mcd, mcd-irq, rti, 7750, "
			    "multi_ring_latency; using the default none\n");
	INIT("VMA_SPEC", "-1");
	assert_int_equal(params.spec, 0);
}

/* A profile that sets what does not exist, or to what it cannot be, would do so in silence. */
static void test_profiles_set_parameters_to_values_that_they_take(void **state)
{
	for (int spec = 1; param_spec_name(spec); spec++) {
		unsigned n = 0, set = 0;
		const char *variable, *value;
		const char *pairs[] = {"VMA_SPEC", param_spec_name(spec), NULL};

		environment = pairs;
		param_init(lookup);
		for (unsigned i = 0; i < param_count(); i++)
			n += param_states[i].source == PARAM_FROM_SPEC;
		while (param_profile_setting((unsigned)spec, set, &variable, &value))
			set++;
		assert_int_equal(n, set);
	}
}

static void test_a_variable_overrides_its_profile(void **state)
{
	const char *text;

	INIT("VMA_SPEC", "latency", "VMA_RX_POLL", "7", "VMA_THREAD_MODE", "many");
	assert_int_equal(params.rx_poll, 7);
	assert_int_equal(params.thread_mode, 0); /* malformed: the profile holds */
	assert_int_equal(params.select_poll, -1);
	text = logged(param_banner);
	assert_non_null(strstr(text, " VMA INFO: VMA Spec                       latency            "
				     "        [VMA_SPEC]\n"));
	assert_non_null(strstr(text, " VMA INFO: Rx Poll Loops                  7 "));
	assert_non_null(strstr(text, " VMA INFO: Thread mode                    Single "));
	text = logged(warn_without_environ);
	assert_string_equal(text, " VMA WARNING: VMA_THREAD_MODE=many is not a number in 0..3; "
				  "using the profile's 0 (Single)\n");
	INIT("VMA_SPEC", "latency", "VMA_TRACELEVEL", "details");
	text = logged(warn_without_environ);
	assert_non_null(strstr(text, " VMA DETAILS: VMA_AVOID_SYS_CALLS_ON_TCP_FD=1 has no "
				     "effect: "));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_defaults_are_there_before_and_after_init),
	cmocka_unit_test(test_numbers_are_strict_and_bounded),
	cmocka_unit_test(test_switches),
	cmocka_unit_test(test_congestion_control_is_one_of_three),
	cmocka_unit_test(test_timestamps_follow_the_kernel_unless_told),
	cmocka_unit_test(test_levels_by_name_and_number),
	cmocka_unit_test(test_debug_level_shows_thread_ids_and_a_warning),
	cmocka_unit_test(test_first_percent_d_of_a_string_is_the_process),
	cmocka_unit_test(test_choices_are_numbers_with_names),
	cmocka_unit_test(test_ring_parameters),
	cmocka_unit_test(test_banner_names_how_rings_are_chosen),
	cmocka_unit_test(test_processors_as_mask_or_list),
	cmocka_unit_test(test_unknown_variables_are_named),
	cmocka_unit_test(test_banner_shows_what_was_changed),
	cmocka_unit_test(test_banner_shows_everything_at_details),
	cmocka_unit_test(test_banner_is_silent_below_info),
	cmocka_unit_test(test_what_is_always_so_says_what_differs),
	cmocka_unit_test(test_what_needs_a_card_is_told_at_details),
	cmocka_unit_test(test_old_names_set_the_parameter),
	cmocka_unit_test(test_select_poll_os_force_sets_two_others),
	cmocka_unit_test(test_a_hostile_environment_cannot_flood_or_forge_the_log),
	cmocka_unit_test(test_overlong_values_are_refused),
	cmocka_unit_test(test_line_feeds_in_values_do_not_reach_the_log),
	cmocka_unit_test(test_profiles_are_known_by_name_and_number),
	cmocka_unit_test(test_profiles_set_parameters_to_values_that_they_take),
	cmocka_unit_test(test_a_variable_overrides_its_profile),
};

VMA_TEST_MAIN("param", tests, NULL, NULL)
