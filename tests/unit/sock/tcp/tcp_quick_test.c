/* SPDX-License-Identifier: BSD-2-Clause */
/* The quick way of send(2) on connections: when it sends, and when it leaves the call to the other. */
#include <errno.h>
#include <stdlib.h>

#include "sock/tcp/tcp_sock.h"
#include "tests/guard.h"
#include "tests/lib/loop_net.h"
#include "tests/lib/loop_pair.h"

static struct loop_pair pair;
static unsigned others; /* calls that were left to the hook */

static ssize_t other_send(int fd, const void *buf, size_t len, int flags)
{
	others++;
	return tsock_send(&pair.from, buf, len, flags);
}

static ssize_t quick_send(const void *buf, size_t len)
{
	return pair.from.ref.sk->ops->quick_send(pair.from.fd, buf, len, 0, pair.from.ref);
}

/* The peer acknowledges with its answer, as programs do. */
static void converse(void)
{
	char answer[20];

	NET_CHECK_EQ(tsock_recv(&pair.to, answer, sizeof(answer), 0), 14);
	NET_CHECK_EQ(tsock_send(&pair.to, answer, 14, 0), 14);
	NET_CHECK_EQ(tsock_recv(&pair.from, answer, sizeof(answer), 0), 14);
}

/* The internal thread must not poll a ring between two steps, however long they take. */
static void setup(void)
{
	setenv("VMA_PROGRESS_ENGINE_INTERVAL", "0", 1);
	loop_pair_start();
	loop_pair_open(&pair, true);
	sock_hooks.send = other_send;
	others = 0;
}

static void only_the_first_message_needs_the_other_way(void *arg)
{
	(void)arg;
	setup();
	for (int i = 0; i < 10; i++) {
		NET_CHECK_EQ(quick_send("thirteen char", 14), 14);
		NET_CHECK_EQ(others, 1);
		converse();
	}
	loop_pair_close(&pair);
}

/* What is in flight takes no try of the quick way, until a send finds that there is nothing. */
static void a_stream_takes_the_other_way(void *arg)
{
	static char heard[100];
	struct inet_sock *so;

	(void)arg;
	setup();
	so = tsock_inet(&pair.from);
	NET_CHECK_EQ(quick_send("thirteen char", 14), 14);
	NET_CHECK_EQ(so->tcp.sends_as, 0);
	for (unsigned i = 2; i < 5; i++) {
		NET_CHECK_EQ(quick_send("thirteen char", 14), 14);
		NET_CHECK_EQ(others, i);
		NET_CHECK_EQ(so->tcp.sends_as, TCP_SENDS_QUEUED);
	}
	NET_CHECK_EQ(tsock_recv(&pair.to, heard, sizeof(heard), 0), 4 * 14);
	NET_CHECK_EQ(tsock_send(&pair.to, heard, 14, 0), 14);
	NET_CHECK_EQ(tsock_recv(&pair.from, heard, sizeof(heard), 0), 14);
	NET_CHECK_EQ(quick_send("thirteen char", 14), 14);
	NET_CHECK_EQ(others, 5);
	converse();
	NET_CHECK_EQ(quick_send("thirteen char", 14), 14);
	NET_CHECK_EQ(others, 5);
	loop_pair_close(&pair);
}

static void an_error_is_for_the_other_way(void *arg)
{
	(void)arg;
	setup();
	NET_CHECK_EQ(quick_send("thirteen char", 14), 14);
	converse();
	tsock_inet(&pair.from)->tcp.kept_error = ECONNRESET;
	NET_CHECK_EQ(quick_send("thirteen char", 14), -ECONNRESET);
	NET_CHECK_EQ(others, 2);
	loop_pair_close(&pair);
}

/* The timer of what was sent, and of the acknowledgement that is owed, is set without more calls. */
static void timers_are_set(void *arg)
{
	struct inet_sock *from, *to;

	(void)arg;
	setup();
	from = tsock_inet(&pair.from);
	to = tsock_inet(&pair.to);
	for (int i = 0; i < 50; i++) { /* the first ones are acknowledged at once */
		NET_CHECK_EQ(quick_send("thirteen char", 14), 14);
		converse();
	}
	NET_CHECK_EQ(quick_send("thirteen char", 14), 14);
	NET_CHECK(from->tcp.conn.rto_at != NSEC_NEVER);
	NET_CHECK(from->tcp.timer.when <= from->tcp.conn.rto_at);
	to->tcp.timer.when = NSEC_NEVER; /* the wheel has it all the same */
	sock_poll_ring(tsock_home(&pair.to));
	NET_CHECK_EQ(to->tcp.conn.rcv.bytes, 14);
	NET_CHECK(to->tcp.conn.ack_at != NSEC_NEVER);
	NET_CHECK(to->tcp.timer.when <= to->tcp.conn.ack_at);
	NET_CHECK(sock_events(&to->sk) & EPOLLIN);
	loop_pair_close(&pair);
}

#define CASES(X)                                      \
	X(only_the_first_message_needs_the_other_way) \
	X(a_stream_takes_the_other_way)               \
	X(an_error_is_for_the_other_way)              \
	X(timers_are_set)

CASES(LOOP_NET_TEST)

static const struct CMUnitTest tests[] = {CASES(LOOP_NET_ENTRY)};

VMA_TEST_MAIN("tcp_quick", tests, NULL, NULL)
