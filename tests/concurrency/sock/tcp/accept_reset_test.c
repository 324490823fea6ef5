/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that are reset at the moment at which a thread accepts them: one thread connects and
 * resets, one accepts, and one receives the frames of both.
 */
#include <errno.h>

#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#define PORT 7000
#define CONNECTIONS 2000

static bool ended; /* any, atomic */
static struct tsock listener;

static bool has_ended(void)
{
	return __atomic_load_n(&ended, __ATOMIC_ACQUIRE);
}

static void *accepting(void *arg)
{
	unsigned *accepted = arg;

	while (!has_ended()) {
		struct sockaddr_in from;
		struct tsock child;

		if (tsock_accept(&listener, &child, &from) < 0)
			continue;
		++*accepted;
		tsock_close(&child);
	}
	return NULL;
}

static void *receiving(void *arg)
{
	while (!has_ended())
		sock_poll_ring(tsock_home(&listener));
	return NULL;
}

static void connect_and_reset(void)
{
	struct sockaddr_in to = tsock_name(&listener);
	struct tsock ts = tsock_tcp();

	tsock_block(&ts, true);
	NET_CHECK_EQ(tsock_connect(&ts, &to), 0);
	tsock_linger_none(&ts);
	tsock_close(&ts);
}

static void run(void *arg)
{
	pthread_t threads[2];
	unsigned accepted = 0;

	params.log_level = LOG_WARNING;
	params.thread_mode = HOLD_MUTEX;
	params.progress_interval = 1;
	loop_net_start();
	listener = tsock_tcp();
	NET_CHECK_EQ(tsock_bind(&listener, fake_link_addr(0), PORT), 0);
	NET_CHECK_EQ(tsock_listen(&listener, 128), 0);
	NET_CHECK_EQ(pthread_create(&threads[0], NULL, accepting, &accepted), 0);
	NET_CHECK_EQ(pthread_create(&threads[1], NULL, receiving, NULL), 0);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		connect_and_reset();
	__atomic_store_n(&ended, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	NET_CHECK(accepted > 0);
	tsock_close(&listener);
	loop_net_finish();
}

static void test_reset_while_it_is_accepted(void **state)
{
	assert_int_equal(loop_net_run("accept and reset", run, NULL, 60), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_reset_while_it_is_accepted),
};

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

VMA_TEST_MAIN("sock/accept_reset", tests, enter, NULL)
