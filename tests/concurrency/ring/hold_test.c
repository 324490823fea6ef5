/* SPDX-License-Identifier: BSD-2-Clause */
/* One thread at a time holds a ring, and the next holder sees what it wrote. */
#include "crew.h"

static struct {
	struct ring ring;
	/* holder, plain: TSan reports a race if two threads hold it */
	unsigned long a, b;
	int inside;
	unsigned long done[CREW_MAX];
} shared;

static int setup(void **state)
{
	clock_init();
	memset(&shared, 0, sizeof(shared));
	ring_init(&shared.ring, NULL, 0);
	return 0;
}

static void enter_and_leave(struct worker *worker)
{
	TEST_CHECK(shared.inside++ == 0);
	TEST_CHECK(shared.a == shared.b);
	shared.a++;
	worker_pause(worker);
	shared.b++;
	TEST_CHECK(--shared.inside == 0);
	__atomic_store_n(&shared.done[worker->number], shared.done[worker->number] + 1,
			 __ATOMIC_RELAXED);
}

static unsigned workers(void)
{
	return ring_mode_now() == HOLD_SINGLE ? 2 : CREW_MAX;
}

static bool everybody_has_held(void)
{
	for (unsigned i = 0; i < workers(); i++) {
		if (!__atomic_load_n(&shared.done[i], __ATOMIC_RELAXED))
			return false;
	}
	return true;
}

static void hold_and_count(struct worker *worker)
{
	for (unsigned n = 0; n % 256 || crew_goes_on(worker->crew); n++) {
		bool got;

		crew_stall_stores();
		got = crew_hold(&shared.ring);
		TEST_CHECK(got || ring_thread.internal);
		if (got) {
			enter_and_leave(worker);
			crew_release(&shared.ring);
		}
		worker_pause(worker);
	}
}

/* The same with every function that holds: waiting, trying, cold. */
static void hold_in_every_way(struct worker *worker)
{
	for (unsigned n = 0; n % 256 || crew_goes_on(worker->crew); n++) {
		bool cold = rand_r(&worker->seed) % 2, got;

		if (!cold)
			got = crew_hold(&shared.ring);
		else if (rand_r(&worker->seed) % 2)
			got = ring_try(&shared.ring);
		else
			got = ring_hold_cold(&shared.ring);
		if (!got)
			continue;
		enter_and_leave(worker);
		if (cold)
			ring_release_cold(&shared.ring);
		else
			crew_release(&shared.ring);
	}
}

static void check(bool everybody)
{
	unsigned long sum = 0;

	for (unsigned i = 0; i < workers(); i++) {
		print_message("mode %d, thread %u: %lu\n", (int)ring_mode, i, shared.done[i]);
		assert_true(!everybody || shared.done[i] > 0);
		sum += shared.done[i];
	}
	assert_int_equal(shared.a, sum);
	assert_int_equal(shared.b, sum);
}

static void test_one_thread_holds_at_a_time(void **state)
{
	for (unsigned m = 0; m < CREW_MODES; m++) {
		setup(state);
		crew_run_until(crew_modes[m], CREW_MAX, hold_and_count, everybody_has_held);
		check(true);
	}
}

static void test_one_thread_holds_at_a_time_whichever_call_it_used(void **state)
{
	for (unsigned m = 0; m < CREW_MODES; m++) {
		setup(state);
		crew_run(crew_modes[m], CREW_MAX, hold_in_every_way);
		check(false);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_one_thread_holds_at_a_time, setup),
	cmocka_unit_test_setup(test_one_thread_holds_at_a_time_whichever_call_it_used, setup),
};

VMA_TEST_MAIN("hold", tests, NULL, NULL)
