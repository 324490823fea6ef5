/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections that the program closed while the peer reads nothing: their number is limited. */
#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include "sock/tcp/tcp_orphans.h"

#define CONNECTIONS 5
#define ORPHANS 2

/* Writes until the peer's buffer and our own are full. */
static void fill(struct tsock *ts)
{
	static const char data[16384];

	while (tsock_send(ts, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
}

static bool is_at_its_end(struct tsock *ts, ssize_t *last)
{
	static char data[65536];

	do
		*last = tsock_recv(ts, data, sizeof(data), MSG_DONTWAIT);
	while (*last > 0);
	return *last != -EAGAIN;
}

static void close_all(void *arg)
{
	struct duo duo[CONNECTIONS];
	struct tsock listener;
	unsigned resets = 0, ends = 0;
	ssize_t last;

	duo_begin();
	listener = duo_listener(7000);
	tcp_orphans_max = ORPHANS; /* the listener has read the kernel's */
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		duo_open(&duo[i], DUO_TCP, &listener);
		fill(&duo[i].end[0]);
	}
	for (unsigned i = 0; i < CONNECTIONS; i++)
		tsock_close(&duo[i].end[0]);
	NET_CHECK_EQ(__atomic_load_n(&tcp_orphans[TCP_ORPHAN_UNACKED], __ATOMIC_RELAXED), ORPHANS);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		NET_CHECK(NET_WAIT(is_at_its_end(&duo[i].end[1], &last), NET_PATIENCE));
		NET_CHECK(last == 0 || last == -ECONNRESET);
		ends += last == 0;
		resets += last == -ECONNRESET;
	}
	NET_CHECK_EQ(ends, ORPHANS);
	NET_CHECK_EQ(resets, CONNECTIONS - ORPHANS);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		tsock_close(&duo[i].end[1]);
	duo_end(&listener);
}

static void test_what_is_closed_beyond_the_bound_is_reset(void **state)
{
	assert_int_equal(loop_net_run("orphans", close_all, NULL, 30), 0);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_is_closed_beyond_the_bound_is_reset),
};

VMA_TEST_MAIN("orphans", tests, enter, NULL)
