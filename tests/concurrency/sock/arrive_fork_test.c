/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMA_THREAD_MODE=0 and fork(2): a thread without sockets and a child are no second thread
 * (arrive_test.c has those that are).
 */
#include <sys/wait.h>

#include "duo.h"
#include "ring/rings.h"
#include "sock/core/sock.h"
#include "vma_test.h"

#define LIMIT 60 /* seconds for one run */

static struct duo duo;

static void *use_nothing(void *arg)
{
	usleep(1000);
	return arg;
}

/* A thread without sockets, and a child of fork(2), are none. */
static void stays_single(void *arg)
{
	pthread_t thread;
	pid_t pid;
	int status;

	(void)arg;
	duo_params(HOLD_SINGLE);
	loop_net_start();
	loop_net_follow_forks();
	duo_open(&duo, DUO_UDP, NULL);
	NET_CHECK_EQ(pthread_create(&thread, NULL, use_nothing, NULL), 0);
	duo_talk(&duo, 100);
	pthread_join(thread, NULL);
	pid = fork();
	NET_CHECK(pid >= 0);
	if (!pid) {
		struct tsock ts;

		loop_net_close_inherited();
		ts = tsock_udp();
		NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(0), 0), 0);
		tsock_close(&ts);
		NET_CHECK(!hold_single_left());
		NET_CHECK_EQ(ring_mode, HOLD_SINGLE);
		_exit(0);
	}
	NET_CHECK_EQ(waitpid(pid, &status, 0), pid);
	NET_CHECK_EQ(status, 0);
	NET_CHECK(!hold_single_left());
	NET_CHECK_EQ(ring_mode, HOLD_SINGLE);
	duo_close(&duo);
	duo_end(NULL);
}

/* A child that another thread forks has one thread, whichever that was in the parent. */
static void *fork_and_use(void *arg)
{
	pid_t pid = fork();
	int status;

	NET_CHECK(pid >= 0);
	if (!pid) {
		struct tsock ts;

		loop_net_close_inherited();
		NET_CHECK(!hold_single_left());
		ts = tsock_udp();
		NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(0), 0), 0);
		tsock_close(&ts);
		NET_CHECK(!hold_single_left());
		_exit(0);
	}
	NET_CHECK_EQ(waitpid(pid, &status, 0), pid);
	NET_CHECK_EQ(status, 0);
	return arg;
}

static void forked_by_another(void *arg)
{
	struct tsock ts;
	pthread_t thread;

	(void)arg;
	duo_params(HOLD_SINGLE);
	loop_net_start();
	loop_net_follow_forks();
	ts = tsock_udp(); /* not bound: nothing of it has to be handed over in fork() */
	sock_poll_ring(rings_nowhere());
	NET_CHECK_EQ(pthread_create(&thread, NULL, fork_and_use, NULL), 0);
	pthread_join(thread, NULL);
	tsock_close(&ts);
	NET_CHECK(!hold_single_left());
}

static void test_one_thread_stays_in_mode_0(void **state)
{
	assert_int_equal(loop_net_run("stays", stays_single, NULL, LIMIT), 0);
}

static void test_a_child_of_another_thread_begins_in_mode_0(void **state)
{
	assert_int_equal(loop_net_run("forked", forked_by_another, NULL, LIMIT), 0);
}

static int enter(void **state)
{
	clock_init();
	loop_net_enter();
	return !hold_single_supported();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_one_thread_stays_in_mode_0),
	cmocka_unit_test(test_a_child_of_another_thread_begins_in_mode_0),
};

VMA_TEST_MAIN("arrive_fork", tests, enter, NULL)
