/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#define PORT 7100
#define CALLS 100

static unsigned polls_of(const struct tsock *ts)
{
	return __atomic_load_n(&tsock_home(ts)->polls, __ATOMIC_RELAXED);
}

/* The internal thread may poll the ring, too, but not during each of the calls. */
static void shut_down(void *arg)
{
	struct tsock listener;
	unsigned least = ~0u;
	struct duo duo;

	(void)arg;
	duo_begin();
	listener = duo_listener(PORT);
	duo_open(&duo, DUO_TCP, &listener);
	for (unsigned i = 0; i < CALLS; i++) {
		unsigned before = polls_of(&duo.end[0]), n;

		NET_CHECK_EQ(tsock_shutdown(&duo.end[0], SHUT_RD), 0);
		n = polls_of(&duo.end[0]) - before;
		least = n < least ? n : least;
	}
	NET_CHECK_EQ(least, 1);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_shutdown_polls_its_ring_once(void **state)
{
	(void)state;
	assert_int_equal(loop_net_run("shutdown", shut_down, NULL, 30), 0);
}

static int enter(void **state)
{
	(void)state;
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_shutdown_polls_its_ring_once),
};

VMA_TEST_MAIN("tcp_calls", tests, enter, NULL)
