/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/clock.h"

#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/vma_test.h"

#define THREADS 3
#define READS 300000

static nsec_t kernel_now(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

/* How far clock_now() lies outside the interval between two readings of the kernel's clock. */
static nsec_t distance(void)
{
	nsec_t best = NSEC_NEVER;

	/* The smallest of 20 distances: preemption enlarges the others. */
	for (int i = 0; i < 20; i++) {
		nsec_t before = kernel_now(CLOCK_MONOTONIC), now = clock_now();
		nsec_t after = kernel_now(CLOCK_MONOTONIC), off = 0;

		if (now < before)
			off = before - now;
		else if (now > after)
			off = now - after;
		if (off < best)
			best = off;
	}
	return best;
}

static void test_works_before_init(void **state)
{
	assert_true(distance() == 0);
}

static void test_init_is_quick_and_can_be_repeated(void **state)
{
	nsec_t before = kernel_now(CLOCK_THREAD_CPUTIME_ID), took;

	clock_init();
	took = kernel_now(CLOCK_THREAD_CPUTIME_ID) - before;
	print_message("clock_init: %lld ns\n", (long long)took);
	assert_true(took < 20 * NSEC_PER_MSEC); /* 100 µs; sanitizers are slow */
	clock_init();
}

/* Checks from the first microseconds on, through all renewals of the calibration in two seconds. */
static void test_stays_with_the_kernel(void **state)
{
	nsec_t worst = 0;

	for (nsec_t start = clock_now(); clock_now() - start < 2 * NSEC_PER_SEC;) {
		nsec_t off = distance();

		if (off > worst)
			worst = off;
		usleep(300);
	}
	print_message("off by at most %lld ns\n", (long long)worst);
	assert_true(worst < 100 * NSEC_PER_USEC);
}

static void test_a_long_sleep_is_seen_in_full(void **state)
{
	nsec_t before = clock_now();

	usleep(1500000);
	assert_true(clock_now() - before >= 1500 * NSEC_PER_MSEC - 10 * NSEC_PER_USEC);
	assert_true(distance() < 100 * NSEC_PER_USEC);
}

static nsec_t latest; /* the time that a thread read last */

/*
 * A thread that reads after another thread gets a later time, except for the skew between
 * processors.
 */
static void *watch(void *arg)
{
	nsec_t worst = 0, own = 0;

	for (int i = 0; i < READS; i++) {
		nsec_t seen = __atomic_load_n(&latest, __ATOMIC_ACQUIRE), now = clock_now();

		if (now < own)
			return (void *)-1;
		own = now;
		if (seen - now > worst)
			worst = seen - now;
		__atomic_store_n(&latest, now, __ATOMIC_RELEASE);
	}
	return (void *)(intptr_t)worst;
}

static void test_never_steps_back(void **state)
{
	pthread_t threads[THREADS];
	void *worst;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, watch, NULL);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &worst);
		assert_in_range((uintptr_t)worst, 0, 1000);
	}
}

static void test_goes_on_in_a_child(void **state)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		nsec_t before = clock_now();

		usleep(10000);
		_exit(clock_now() - before >= 9990 * NSEC_PER_USEC ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_real_time_is_the_kernels(void **state)
{
	nsec_t before = kernel_now(CLOCK_REALTIME), now = clock_real();

	assert_true(before <= now && now <= kernel_now(CLOCK_REALTIME));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_works_before_init),
	cmocka_unit_test(test_init_is_quick_and_can_be_repeated),
	cmocka_unit_test(test_stays_with_the_kernel),
	cmocka_unit_test(test_never_steps_back),
	cmocka_unit_test(test_a_long_sleep_is_seen_in_full),
	cmocka_unit_test(test_goes_on_in_a_child),
	cmocka_unit_test(test_real_time_is_the_kernels),
};

VMA_TEST_MAIN("clock", tests, NULL, NULL)
