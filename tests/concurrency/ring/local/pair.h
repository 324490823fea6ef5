/* SPDX-License-Identifier: BSD-2-Clause */
/* Two sides in one process (threads) or in two, which end together. */
#ifndef TESTS_CONCURRENCY_RING_LOCAL_PAIR_H
#define TESTS_CONCURRENCY_RING_LOCAL_PAIR_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/check.h"
#include "vma_test.h"

/* Zeroed memory that a child shares; it stays until the process ends. */
static inline void *pair_memory(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	TEST_CHECK(at != MAP_FAILED);
	return at;
}

/* A child that runs fn, and that dies with this process. */
static inline pid_t pair_fork(void *(*fn)(void *), void *arg)
{
	pid_t child = fork();

	TEST_CHECK(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(arg);
		_exit(0);
	}
	return child;
}

/* Runs first() in this thread; second() in another thread, or in a child process. */
static inline void pair_run(void *(*first)(void *), void *(*second)(void *), void *arg, bool child)
{
	pthread_t thread;
	pid_t pid = 0;
	int status = 0;

	if (child)
		pid = pair_fork(second, arg);
	else
		TEST_CHECK(!pthread_create(&thread, NULL, second, arg));
	first(arg);
	if (child)
		TEST_CHECK(waitpid(pid, &status, 0) == pid && !status);
	else
		pthread_join(thread, NULL);
}

/* Waits some hundred nanoseconds, or lets others run. */
static inline void pair_pause(unsigned *seed)
{
	unsigned n = (unsigned)rand_r(seed) % 64;

	if (n == 0)
		sched_yield();
	for (volatile unsigned i = 0; i < n; i++)
		;
}

#endif
