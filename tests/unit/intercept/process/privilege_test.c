/* SPDX-License-Identifier: BSD-2-Clause */
/* Before which changes of the user does a process open what it could not open afterwards? */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/intercept/fake_sock.h"
#include "intercept/wrap.h"
#include "tests/vma_test.h"

#define SAME ((uid_t)-1)

/* Replace the functions of libc, and do nothing. */
static uid_t asked[3];

static int fake_setresuid(uid_t real, uid_t effective, uid_t set)
{
	asked[0] = real;
	asked[1] = effective;
	asked[2] = set;
	return 0;
}

static int fake_setreuid(uid_t real, uid_t effective)
{
	return fake_setresuid(real, effective, 0);
}

static int fake_setuid(uid_t id)
{
	return fake_setresuid(id, 0, 0);
}

static int fake_chroot(const char *path)
{
	(void)path;
	asked[0]++;
	return 0;
}

static int setup(void **state)
{
	start();
	libc.chroot = fake_chroot;
	libc.setresuid = fake_setresuid;
	libc.setreuid = fake_setreuid;
	libc.setuid = fake_setuid;
	signal_watch_faults();
	return 0;
}

static int each(void **state)
{
	assert_int_equal(getuid(), 0); /* only root has privileges to give up */
	assert_int_equal(geteuid(), 0);
	fake_reset();
	asked[0] = asked[1] = asked[2] = 1234;
	errno = 42;
	return 0;
}

static void expect(uid_t real, uid_t effective, uid_t set, int told)
{
	assert_int_equal(asked[0], real);
	assert_int_equal(asked[1], effective);
	assert_int_equal(asked[2], set);
	assert_int_equal(fake.unprivileged, told);
	assert_int_equal(errno, 42);
}

static void test_root_becomes_another_user_for_good(void **state)
{
	assert_int_equal(setuid(33), 0);
	expect(33, 0, 0, 1);
	assert_int_equal(setreuid(33, 33), 0);
	expect(33, 33, 0, 2);
	assert_int_equal(setresuid(33, 34, 35), 0);
	expect(33, 34, 35, 3);
}

static void test_root_stays_root_or_can_return(void **state)
{
	assert_int_equal(setuid(0), 0);
	expect(0, 0, 0, 0);
	assert_int_equal(setreuid(33, SAME), 0);
	expect(33, SAME, 0, 0);
	assert_int_equal(setresuid(SAME, 33, SAME), 0);
	expect(SAME, 33, SAME, 0);
	assert_int_equal(setresuid(33, 33, 0), 0);
	expect(33, 33, 0, 0);
	assert_int_equal(setresuid(33, 33, SAME), 0);
	expect(33, 33, SAME, 0);
}

static void test_root_changes_its_root_directory(void **state)
{
	assert_int_equal(chroot("/nowhere"), 0);
	assert_int_equal(asked[0], 1235);
	assert_int_equal(fake.changed_root, 1);
	assert_int_equal(fake.unprivileged, 0);
	assert_int_equal(errno, 42);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_root_changes_its_root_directory, each),
	cmocka_unit_test_setup(test_root_becomes_another_user_for_good, each),
	cmocka_unit_test_setup(test_root_stays_root_or_can_return, each),
};

VMA_TEST_MAIN("privilege", tests, setup, NULL)
