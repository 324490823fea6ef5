/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/wait/light.h"

#include <pthread.h>
#include <stdbool.h>
#include <sched.h>

#include "tests/vma_test.h"

#define THREADS 4
#define ROUNDS 20000ul

static struct light_mutex mutex;
static unsigned long count; /* plain */
static bool done;	    /* plain */
static unsigned early;	    /* plain: threads that had it before it was released */

static void lock(void)
{
	busy_lock();
	light_lock(&mutex);
}

static void unlock(void)
{
	light_unlock(&mutex);
	busy_unlock();
}

static void test_it_is_free_again(void **state)
{
	(void)state;
	mutex = (struct light_mutex){0};
	lock();
	assert_int_equal(mutex.state, LIGHT_TAKEN);
	unlock();
	assert_int_equal(mutex.state, LIGHT_FREE);
}

static void *add(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < ROUNDS; i++) {
		lock();
		count++;
		unlock();
	}
	return NULL;
}

static void test_one_thread_at_a_time_has_it(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	mutex = (struct light_mutex){0};
	count = 0;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add, NULL), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(count, THREADS * ROUNDS);
	assert_int_equal(mutex.state, LIGHT_FREE);
}

static void *wait_for_it(void *arg)
{
	(void)arg;
	lock();
	early += !done;
	unlock();
	return NULL;
}

/* Each of them is woken, the last one, too. */
static void test_threads_that_sleep_are_woken(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	mutex = (struct light_mutex){0};
	done = false;
	early = 0;
	lock();
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for_it, NULL), 0);
	while (__atomic_load_n(&mutex.state, __ATOMIC_RELAXED) != LIGHT_WANTED)
		sched_yield();
	done = true;
	unlock();
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(early, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_is_free_again),
	cmocka_unit_test(test_one_thread_at_a_time_has_it),
	cmocka_unit_test(test_threads_that_sleep_are_woken),
};

VMA_TEST_MAIN("light", tests, NULL, NULL)
