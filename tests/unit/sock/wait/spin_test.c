/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/poll_time.h"

#include <errno.h>
#include <pthread.h>

#include "base/cleanup.h"
#include "base/sys.h"
#include "tests/vma_test.h"

static nsec_t a_round(struct spin *spin, nsec_t now)
{
	spin_round(spin, now);
	return now + NSEC_PER_USEC;
}

static long switches; /* what the kernel says */
static int asked;

static long say_switches(void)
{
	asked++;
	return switches;
}

/* The kernel was asked before, and says the same until a test changes it. */
static int setup(void **state)
{
	struct spin spin;

	(void)state;
	spin_switches = say_switches;
	switches = 7;
	spin_start(&spin);
	spin_gap(&spin, 1);
	asked = 0;
	spin_shared_until = spin_own_until = 0;
	spin_give = sys_sched_yield;
	params.rx_poll_yield = 0;
	clock_init();
	return 0;
}

static int undone; /* atomic */

static void cancelled(void *call)
{
	__atomic_fetch_add(&undone, 1, __ATOMIC_SEQ_CST);
}

static void test_a_thread_alone_does_not_yield(void **state)
{
	nsec_t now = clock_now();
	struct spin spin;

	spin_start(&spin);
	for (int i = 0; i < 1000; i++)
		now = a_round(&spin, now);
	assert_int_equal(spin_shared_until, 0);
}

static void test_a_gap_in_which_threads_were_switched_means_a_shared_processor(void **state)
{
	nsec_t now = clock_now();
	struct spin spin;

	spin_start(&spin);
	now = a_round(&spin, now); /* however late the first wake-up is */
	assert_int_equal(spin_shared_until, 0);
	switches++;
	now += SPIN_GAP + NSEC_PER_USEC;
	a_round(&spin, now);
	assert_true(spin_shared_until > now); /* at least until the interval is over */
}

/* The host of a virtual machine took the processor: nobody here wants it. */
static void test_a_gap_without_a_switch_means_nothing(void **state)
{
	nsec_t now = clock_now(), end = now + NSEC_PER_SEC;
	struct spin spin;

	spin_start(&spin);
	for (int i = 1; i <= 100; i++) {
		now = a_round(&spin, now) + SPIN_LOST;
		assert_int_equal(spin_shared_until, 0);
		assert_int_equal(asked, i - 1); /* once for each gap */
	}
	assert_true(spin_was_late(&spin));
	assert_false(poll_spin_ended(now, end, &spin));
}

static void test_a_kernel_that_says_nothing_is_taken_to_have_switched(void **state)
{
	nsec_t now = clock_now();
	struct spin spin;

	switches = -ENOSYS;
	spin_start(&spin);
	for (int i = 0; i < 2; i++) {
		spin_shared_until = 0;
		now = a_round(&spin, now) + SPIN_GAP;
		now = a_round(&spin, now);
		assert_true(spin_shared_until > now);
	}
}

/* What is known is renewed by yields that let others run, and by nothing else. */
static void test_a_shared_processor_is_forgotten_when_nobody_runs(void **state)
{
	struct spin spin;

	params.rx_poll_yield = 1;
	spin_start(&spin);
	for (int i = 0; i < 100000; i++)
		spin_yield(&spin); /* some of them are slow, on a busy machine */
	assert_int_equal(spin_shared_until, 0);
	assert_int_equal(spin.lost, 0);
}

/* Checks that are due once in many rounds do not wait for those rounds. */
static void test_a_delay_is_reported_once(void **state)
{
	nsec_t now = clock_now();
	struct spin spin;

	spin_start(&spin);
	for (int i = 0; i < 100; i++)
		now = a_round(&spin, now);
	assert_false(spin_was_late(&spin));
	now = a_round(&spin, now + SPIN_GAP + NSEC_PER_USEC);
	assert_true(spin_was_late(&spin));
	assert_false(spin_was_late(&spin));
	a_round(&spin, clock_now() - NSEC_PER_MSEC);
	(void)spin_was_late(&spin);
	spin_start(&spin);
	assert_false(spin_was_late(&spin));
}

static void test_a_shared_processor_is_remembered_by_the_next_call(void **state)
{
	struct spin spin;
	nsec_t now;

	spin_shared_until = clock_now() + NSEC_PER_SEC;
	spin_start(&spin);
	now = clock_now();
	a_round(&spin, now - NSEC_PER_MSEC);
	assert_true(spin.last >= now); /* it yielded: only the time after that counts */
}

static void test_a_thread_that_polls_long_without_result_sleeps(void **state)
{
	nsec_t now = clock_now(), end = now + NSEC_PER_SEC;
	struct spin spin;

	spin_start(&spin);
	switches++;
	now = a_round(&spin, now) + SPIN_LOST + SPIN_GAP;
	assert_false(poll_spin_ended(now, end, &spin));
	now = a_round(&spin, now);
	assert_true(poll_spin_ended(now, end, &spin));
	assert_false(poll_spin_ended(now, NSEC_NEVER, &spin)); /* unless it polls forever */
	spin_start(&spin);
	assert_false(poll_spin_ended(now, end, &spin)); /* the next call has its full time */
}

static void test_short_gaps_are_no_loss(void **state)
{
	nsec_t now = clock_now(), end = now + NSEC_PER_SEC;
	struct spin spin;

	spin_start(&spin);
	spin_shared_until = 0;
	for (int i = 0; i < 100; i++) {
		spin.last = now;
		now += SPIN_GAP / 2;
		spin_round(&spin, now);
	}
	assert_false(poll_spin_ended(now, end, &spin));
}

static void test_yielding_can_be_asked_for(void **state)
{
	struct spin spin;
	nsec_t now = clock_now();

	params.rx_poll_yield = 1;
	spin_start(&spin);
	a_round(&spin, now - NSEC_PER_MSEC);
	assert_true(spin.last >= now);
}

static nsec_t turn, turn_end; /* how long another thread has the core, and until when it had it */
static int turns;

static int give_a_turn(void)
{
	nsec_t until = clock_now() + turn;

	while ((turn_end = clock_now()) < until)
		;
	turns++;
	return 0;
}

static void test_after_a_long_turn_the_poller_does_not_yield(void **state)
{
	struct spin spin;

	spin_give = give_a_turn;
	turn = 3 * SPIN_GAP;
	turns = 0;
	spin_shared_until = clock_now() + (3600 * NSEC_PER_SEC);
	spin_start(&spin);
	a_round(&spin, clock_now());
	assert_int_equal(turns, 1);
	assert_in_range(spin_own_until - turn_end, SPIN_OWN,
			NSEC_PER_SEC); /* late, on a busy machine */
	spin_own_until = clock_now() + (3600 * NSEC_PER_SEC);
	a_round(&spin, clock_now());
	assert_int_equal(turns, 1);
	params.rx_poll_yield = 1; /* unless the program wants each round to yield */
	a_round(&spin, clock_now());
	assert_int_equal(turns, 2);
	params.rx_poll_yield = 0;
	spin_own_until = 0;
	a_round(&spin, clock_now());
	assert_int_equal(turns, 3);
}

/* Two that yield to each other do so in each round. */
static void test_a_short_turn_is_answered_at_once(void **state)
{
	struct spin spin;

	spin_give = give_a_turn;
	turn = 2 * SPIN_TURN;
	spin_start(&spin);
	for (int i = 0; i < 100; i++) {
		spin_own_until = 0; /* on a busy machine a turn may be a long one */
		turns = 0;
		spin_shared_until = clock_now() + (3600 * NSEC_PER_SEC);
		a_round(&spin, clock_now());
		assert_int_equal(turns, 1);
		if (!spin_own_until)
			return;
	}
	fail_msg("each turn of 3 us was followed by one of the poller");
}

static void *spin_for_ever(void *arg)
{
	struct spin spin;
	struct cleanup undo;

	spin_start(&spin);
	cleanup_push(&undo, cancelled, arg);
	for (;;)
		spin_round(&spin, clock_now());
	return NULL;
}

static void test_a_thread_that_never_sleeps_can_be_cancelled(void **state)
{
	pthread_t thread;
	void *result;

	undone = 0;
	assert_int_equal(pthread_create(&thread, NULL, spin_for_ever, NULL), 0);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(undone, 1);
}

/* However often this thread loses the core, which it does not hear of. */
static void test_a_thread_that_waits_for_this_host_yields(void **state)
{
	nsec_t begin = clock_now(), now = begin;
	struct spin spin;

	spin_give = give_a_turn;
	turn = 0;
	turns = 0;
	spin_start(&spin);
	spin.beside = true;
	while (now - begin <= SPIN_BESIDE)
		now = a_round(&spin, now);
	assert_int_equal(turns, 0);
	a_round(&spin, now);
	assert_int_equal(turns, 1);
	now = clock_now(); /* the last yield was before */
	a_round(&spin, now + SPIN_BESIDE + NSEC_PER_USEC);
	assert_int_equal(turns, 2);
	assert_int_equal(spin_shared_until, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_a_thread_alone_does_not_yield, setup),
	cmocka_unit_test_setup(test_a_gap_in_which_threads_were_switched_means_a_shared_processor,
			       setup),
	cmocka_unit_test_setup(test_a_gap_without_a_switch_means_nothing, setup),
	cmocka_unit_test_setup(test_a_kernel_that_says_nothing_is_taken_to_have_switched, setup),
	cmocka_unit_test_setup(test_a_shared_processor_is_forgotten_when_nobody_runs, setup),
	cmocka_unit_test_setup(test_a_delay_is_reported_once, setup),
	cmocka_unit_test_setup(test_a_shared_processor_is_remembered_by_the_next_call, setup),
	cmocka_unit_test_setup(test_a_thread_that_polls_long_without_result_sleeps, setup),
	cmocka_unit_test_setup(test_short_gaps_are_no_loss, setup),
	cmocka_unit_test_setup(test_yielding_can_be_asked_for, setup),
	cmocka_unit_test_setup(test_after_a_long_turn_the_poller_does_not_yield, setup),
	cmocka_unit_test_setup(test_a_short_turn_is_answered_at_once, setup),
	cmocka_unit_test_setup(test_a_thread_that_waits_for_this_host_yields, setup),
	cmocka_unit_test(test_a_thread_that_never_sleeps_can_be_cancelled),
};

VMA_TEST_MAIN("spin", tests, NULL, NULL)
