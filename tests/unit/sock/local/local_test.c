/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a process takes part in local connections. */
#include "sock/local/local.h"

#include <string.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "base/clock.h"
#include "base/param.h"
#include "ring/progress.h"
#include "ring/rings.h"
#include "sock/core/control.h"
#include "sock/local/local_dir.h"
#include "sock/local/local_link.h"
#include "vma_test.h"

static int setup(void **state)
{
	static const struct port_kind *const kinds[] = {&port_local_kind, NULL};

	clock_init();
	ring_mode = HOLD_YIELD;
	rings_init(kinds);
	assert_int_equal(progress_start(), 0);
	return 0;
}

static int teardown(void **state)
{
	assert_true(control_lock());
	local_links_stop();
	control_unlock();
	progress_stop();
	local_links_forget();
	rings_close_all();
	/* Rings are permanent, but not in this test. */
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		flow_table_fini(&ring->flows);
		mem_free(ring);
	}
	rings_forget(false);
	return 0;
}

static bool available(void)
{
	bool is;

	assert_true(control_lock());
	is = local_available();
	control_unlock();
	return is;
}

static bool dir_is_open(void)
{
	bool is;

	assert_true(control_lock());
	is = local_dir_is_open();
	control_unlock();
	return is;
}

static void test_the_parameter_decides(void **state)
{
	params.local = false;
	assert_false(available());
	assert_false(local_links_started());
	params.local = true;
	assert_true(available());
	assert_true(local_links_started());
	assert_true(dir_is_open());
}

#if !defined(__SANITIZE_THREAD__) /* it ends children of several threads that start a thread */
/* In a child: the change is for good. */
static void test_a_process_that_changes_its_user_does_not_take_part(void **state)
{
	int status;

	params.local = true;
	if (!fork()) {
		local_links_forget();
		progress_forget();
		if (progress_start() || !available())
			_exit(1);
		if (seteuid(65534))
			_exit(3); /* no other user here */
		_exit(available() || seteuid(0) || available() || dir_is_open());
	}
	wait(&status);
	assert_int_equal(status, 0);
}
#endif

static void test_privileges_that_go_end_it(void **state)
{
	params.local = true;
	assert_true(available());
	assert_true(control_lock());
	local_unprivileged();
	control_unlock();
	assert_false(available());
	assert_false(dir_is_open());
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	CASE(test_the_parameter_decides),
#if !defined(__SANITIZE_THREAD__)
	CASE(test_a_process_that_changes_its_user_does_not_take_part),
#endif
	CASE(test_privileges_that_go_end_it), /* last: it is for good */
};

VMA_TEST_MAIN("local", tests, NULL, NULL)
