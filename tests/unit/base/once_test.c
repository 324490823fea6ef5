/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/once.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/wait.h>

#include "vma_test.h"

#define WAITERS 4

static struct once once;
static unsigned runs; /* of fn */
static int complete;  /* written at the end of fn, plain */
static sem_t in_fn, leave_fn;
static int behind; /* any, atomic: threads whose call has returned */

static int set_up(void **state)
{
	(void)state;
	once = (struct once){0};
	runs = 0;
	complete = 0;
	behind = 0;
	sem_init(&in_fn, 0, 0);
	sem_init(&leave_fn, 0, 0);
	return 0;
}

static void count(void *arg)
{
	runs += *(unsigned *)arg;
}

static void test_it_runs_once(void **state)
{
	unsigned one = 1;

	(void)state;
	assert_false(once_is_done(&once));
	once_run(&once, count, &one);
	assert_true(once_is_done(&once));
	once_run(&once, count, &one);
	assert_int_equal(runs, 1);
}

static void call_back(void *arg)
{
	runs++;
	once_run(&once, call_back, arg);
	assert_false(once_is_done(&once));
	complete = 1;
}

static void test_the_thread_that_runs_it_does_not_wait_for_itself(void **state)
{
	(void)state;
	once_run(&once, call_back, NULL);
	assert_int_equal(runs, 1);
	assert_int_equal(complete, 1);
	assert_true(once_is_done(&once));
}

static void stay(void *arg)
{
	(void)arg;
	runs++;
	sem_post(&in_fn);
	sem_wait(&leave_fn);
	complete = 1;
}

static void *run(void *arg)
{
	if (arg)
		__atomic_store_n((int *)arg, gettid(), __ATOMIC_RELEASE);
	once_run(&once, stay, NULL);
	/* A thread that went on too early finds 0 here, and leaves fn a second time. */
	__atomic_add_fetch(&behind, complete ? 1 : 1000, __ATOMIC_RELAXED);
	return NULL;
}

static void *run_and_leave(void *arg)
{
	once_run(&once, stay, NULL);
	return arg;
}

/* Until the thread sleeps, or has ended. */
static void await_blocked(const int *tid)
{
	char path[64], state = 'R';

	while (!__atomic_load_n(tid, __ATOMIC_ACQUIRE))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", *tid);
	while (state != 'S') {
		FILE *stat = fopen(path, "r");

		if (!stat)
			return;
		if (fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
			state = 'S'; /* it ended meanwhile */
		fclose(stat);
	}
}

static void test_other_threads_wait_until_it_is_done(void **state)
{
	pthread_t first, others[WAITERS];
	int tids[WAITERS] = {0};

	(void)state;
	assert_int_equal(pthread_create(&first, NULL, run, NULL), 0);
	sem_wait(&in_fn);
	for (int i = 0; i < WAITERS; i++)
		assert_int_equal(pthread_create(&others[i], NULL, run, &tids[i]), 0);
	for (int i = 0; i < WAITERS; i++)
		await_blocked(&tids[i]);
	assert_int_equal(__atomic_load_n(&behind, __ATOMIC_RELAXED), 0);
	sem_post(&leave_fn);
	pthread_join(first, NULL);
	for (int i = 0; i < WAITERS; i++)
		pthread_join(others[i], NULL);
	assert_int_equal(behind, WAITERS + 1);
	assert_int_equal(runs, 1);
}

/* The thread that runs it exists in the parent only. */
static void test_a_forked_child_runs_it_again(void **state)
{
	pthread_t first;
	unsigned one = 1;
	int status, pid;

	(void)state;
	assert_int_equal(pthread_create(&first, NULL, run_and_leave, NULL), 0);
	sem_wait(&in_fn);
	pid = fork();
	if (!pid) {
		alarm(20);
		once_run(&once, count, &one);
		_exit(once_is_done(&once) && runs == 2 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	sem_post(&leave_fn);
	pthread_join(first, NULL);
	assert_int_equal(runs, 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_it_runs_once, set_up),
	cmocka_unit_test_setup(test_the_thread_that_runs_it_does_not_wait_for_itself, set_up),
	cmocka_unit_test_setup(test_other_threads_wait_until_it_is_done, set_up),
	cmocka_unit_test_setup(test_a_forked_child_runs_it_again, set_up),
};

VMA_TEST_MAIN("once", tests, NULL, NULL)
