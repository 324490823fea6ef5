/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls with a reference to a socket that another thread closes, and whose memory the next socket
 * gets: they return -EBADF or what the old socket returned, and read nothing that is being
 * written (ThreadSanitizer); the next socket is closed when the program closes it, or when they end.
 */
#include "duo.h"
#include "vma_test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define SOCKETS 200
#define CALLERS 2

/* What the callers use: a copy, which stays as it is when the socket is closed. */
static struct tsock shown[SOCKETS];
static struct tsock *now; /* atomic; publishes an entry of shown[] */
static bool over;	  /* atomic */
static int type;	  /* SOCK_STREAM, SOCK_DGRAM */

static void *call(void *arg)
{
	bool block = arg != NULL; /* for 1 ms, as close() does not end such a call */
	char byte;

	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		struct tsock ts = *__atomic_load_n(&now, __ATOMIC_ACQUIRE);
		ssize_t n = tsock_recv(&ts, &byte, 1, block ? 0 : MSG_DONTWAIT);

		NET_CHECK(n == -EAGAIN || n == -EBADF || n == -ENOTCONN || n == SOCK_KERNEL);
	}
	return NULL;
}

static struct tsock make(int i)
{
	struct tsock ts = tsock_make(type, i % 2 == 0);

	NET_CHECK(ts.ref.sk);
	NET_CHECK_EQ(tsock_set_timeout(&ts, SO_RCVTIMEO, 1), 0);
	if (type == SOCK_DGRAM)
		NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(1), 0), 0);
	shown[i] = ts;
	__atomic_store_n(&now, &shown[i], __ATOMIC_RELEASE);
	return ts;
}

/* Each socket has the memory of the last but one. */
static void run(void *arg)
{
	pthread_t callers[CALLERS];
	struct tsock last, next;

	duo_begin();
	type = (int)(intptr_t)arg;
	last = make(0);
	for (uintptr_t i = 0; i < CALLERS; i++)
		NET_CHECK_EQ(pthread_create(&callers[i], NULL, call, (void *)i), 0);
	for (int i = 1; i < SOCKETS; i++) {
		next = make(i);
		tsock_close(&last);
		last = next;
	}
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	for (int i = 0; i < CALLERS; i++)
		pthread_join(callers[i], NULL);
	tsock_close(&last);
	duo_end(NULL);
}

static void test_udp(void **state)
{
	assert_int_equal(loop_net_run("udp", run, (void *)(intptr_t)SOCK_DGRAM, 60), 0);
}

static void test_tcp(void **state)
{
	assert_int_equal(loop_net_run("tcp", run, (void *)(intptr_t)SOCK_STREAM, 60), 0);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_udp),
	cmocka_unit_test(test_tcp),
};

VMA_TEST_MAIN("stale", tests, enter, NULL)
