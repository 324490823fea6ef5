/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/xdp/xdp_internal.h"
#include "vma_test.h"

#define KB 1024

static void test_the_limit_is_the_cause_only_where_it_can_be(void **state)
{
	static const struct {
		bool limited;
		int small, large;
		bool old_kernel, cause;
	} rows[] = {
		{true, 0, -EPERM, true, true},
		/* the behaviour of the kernel counts, not its version */
		{true, 0, -EPERM, false, true},
		{true, 0, 0, true, false}, /* the kernel refuses the program itself */
		{false, 0, -EPERM, true, false},
		{true, -EPERM, -EPERM, true, true},   /* a limit of zero */
		{true, -EPERM, -EPERM, false, false}, /* BPF is forbidden */
		{false, -EPERM, -EPERM, true, false},
		{true, -ENOSYS, -ENOSYS, true, false},
		{true, 0, -ENOMEM, true, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (xdp_memlock_decide(rows[i].limited, rows[i].small, rows[i].large,
				       rows[i].old_kernel) != rows[i].cause)
			fail_msg("row %zu", i);
}

static void test_the_reason_names_the_limit(void **state)
{
	char why[PORT_WHY];

	assert_int_equal(xdp_why_memlock_maps(why, "eth0-of-names15"), -EPERM);
	assert_non_null(strstr(why, "eth0-of-names15"));
	assert_non_null(strstr(why, "RLIMIT_MEMLOCK"));
	assert_non_null(strstr(why, "ulimit -l"));
	assert_non_null(strstr(why, "LimitMEMLOCK="));
	assert_int_equal(why[strlen(why) - 1], '\n'); /* the tables fit */
}

/* ---- the limit itself, in a separate process --------------------------------------- */

static void set(rlim_t soft, rlim_t hard)
{
	struct rlimit to = {soft, hard};

	if (setrlimit(RLIMIT_MEMLOCK, &to))
		_exit(2);
}

static bool is(rlim_t soft, rlim_t hard)
{
	struct rlimit now;

	return !getrlimit(RLIMIT_MEMLOCK, &now) && now.rlim_cur == soft && now.rlim_max == hard;
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};

	if (syscall(SYS_capset, &header, none))
		_exit(2);
}

static bool names_perfmon_where_it_is_missing(void)
{
	char why[PORT_WHY];

	drop_capabilities();
	return xdp_why_not_verified(why, "eth0") == -EPERM && strstr(why, "CAP_PERFMON");
}

/* To the hard limit, and back. */
static bool raises_the_soft_limit(void)
{
	struct xdp_memlock m;

	set(64 * KB, 256 * KB);
	drop_capabilities();
	if (!xdp_memlock_raise(&m) || !is(256 * KB, 256 * KB))
		return false;
	xdp_memlock_restore(&m);
	return is(64 * KB, 256 * KB);
}

static bool cannot_raise_what_is_at_its_end(void)
{
	struct xdp_memlock m;

	set(64 * KB, 64 * KB);
	drop_capabilities();
	if (xdp_memlock_raise(&m))
		return false;
	xdp_memlock_restore(&m);
	return is(64 * KB, 64 * KB);
}

/* Another thread of the program sets it. */
static bool leaves_what_was_set_meanwhile(void)
{
	struct xdp_memlock m;

	set(64 * KB, 256 * KB);
	if (!xdp_memlock_raise(&m))
		return false;
	set(32 * KB, 128 * KB);
	xdp_memlock_restore(&m);
	return is(32 * KB, 128 * KB);
}

/* Raises both with CAP_SYS_RESOURCE; without it, as far as possible. Then restores them. */
static bool puts_both_back(void)
{
	struct xdp_memlock m;

	set(64 * KB, 256 * KB);
	if (!xdp_memlock_raise(&m) || !(is(RLIM_INFINITY, RLIM_INFINITY) || is(256 * KB, 256 * KB)))
		return false;
	xdp_memlock_restore(&m);
	return is(64 * KB, 256 * KB);
}

static void in_a_process(bool (*test)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(test() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_the_limit_is_raised_for_a_moment(void **state)
{
	in_a_process(raises_the_soft_limit);
	in_a_process(cannot_raise_what_is_at_its_end);
	in_a_process(leaves_what_was_set_meanwhile);
	in_a_process(puts_both_back);
}

static void test_a_program_that_is_not_verified_may_lack_a_capability(void **state)
{
	in_a_process(names_perfmon_where_it_is_missing);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_limit_is_the_cause_only_where_it_can_be),
	cmocka_unit_test(test_the_reason_names_the_limit),
	cmocka_unit_test(test_the_limit_is_raised_for_a_moment),
	cmocka_unit_test(test_a_program_that_is_not_verified_may_lack_a_capability),
};

VMA_TEST_MAIN("xdp_memlock", tests, NULL, NULL)
