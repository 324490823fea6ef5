/* SPDX-License-Identifier: BSD-2-Clause */
/* The internal thread of a program whose static TLS is larger than our stack. */
#include "ring/progress.h"

#include <sched.h>

#include "base/clock.h"
#include "base/param.h"
#include "ring/rings.h"
#include "vma_test.h"

static __thread volatile char large[1 << 20];
static int rounds; /* atomic */

static bool count_round(void)
{
	large[sizeof(large) / 2] = 1; /* the thread has it, too */
	__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
	return false;
}

static void run(void)
{
	int before = __atomic_load_n(&rounds, __ATOMIC_RELAXED);

	large[0] = 1;
	progress_set_hook(count_round);
	assert_int_equal(progress_start(), 0);
	while (__atomic_load_n(&rounds, __ATOMIC_RELAXED) == before)
		sched_yield();
	progress_stop();
	assert_false(progress_running());
}

static int setup(void **state)
{
	clock_init();
	rings_init(NULL);
	return 0;
}

static void test_it_runs(void **state)
{
	run();
}

static void test_it_runs_bound_to_a_processor(void **state)
{
	int cpu = sched_getcpu();

	assert_true(cpu >= 0);
	params.internal_thread_affinity.count = 1;
	CPU_ZERO(&params.internal_thread_affinity.set);
	CPU_SET((size_t)cpu, &params.internal_thread_affinity.set);
	run();
	params.internal_thread_affinity.count = 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_runs),
	cmocka_unit_test(test_it_runs_bound_to_a_processor),
};

VMA_TEST_MAIN("ring/progress_tls", tests, setup, NULL)
