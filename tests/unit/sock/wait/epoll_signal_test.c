/* SPDX-License-Identifier: BSD-2-Clause */
/* Epoll sets that a signal handler creates. */
#include <signal.h>
#include <sys/time.h>

#include "base/busy.h"
#include "sock/wait/epoll.h"
#include "vma_test.h"

#define HANDLED 2000

static volatile sig_atomic_t handled;

/* As in intercept: a signal that interrupts the library is deferred. */
static void on_alarm(int sig)
{
	struct epoll *set;

	if (busy_is())
		return;
	set = epoll_create_set(-1);
	if (set)
		epoll_destroy_set(set);
	handled++;
}

static void test_a_handler_makes_sets_beside_the_thread_it_interrupts(void **state)
{
	struct sigaction act = {.sa_handler = on_alarm}, old;
	struct itimerval often = {{0, 50}, {0, 50}}, off = {{0, 0}, {0, 0}};

	handled = 0;
	sigaction(SIGALRM, &act, &old);
	setitimer(ITIMER_REAL, &often, NULL);
	while (handled < HANDLED) {
		struct epoll *set = epoll_create_set(-1);

		assert_non_null(set);
		epoll_destroy_set(set);
	}
	setitimer(ITIMER_REAL, &off, NULL);
	sigaction(SIGALRM, &old, NULL);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_handler_makes_sets_beside_the_thread_it_interrupts),
};

VMA_TEST_MAIN("epoll_signal", tests, NULL, NULL)
