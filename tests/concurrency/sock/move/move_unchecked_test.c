/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket moves while datagrams wait on its ring until their sender was checked, and the thread
 * that checks it does not get a processor.
 */
#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#define EACH 10 /* datagrams before, during and after the move */

static bool ended; /* any, atomic */

static struct tsock udp_at(unsigned i, unsigned user)
{
	struct tsock ts = tsock_udp();

	NET_CHECK_EQ(tsock_set_logic(&ts, RING_LOGIC_USER_ID, (int)user, true, true), 0);
	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(i), 0), 0);
	return ts;
}

/* The first datagram makes this thread ask for the sender. */
static void *receive(void *arg)
{
	struct ring *ring = arg;

	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
		sock_poll_ring(ring);
		sched_yield();
	}
	return NULL;
}

/* This thread asks for nobody: another one is asking. */
static void poll_ring_of(unsigned user)
{
	for (unsigned i = 0; i < rings_count(); i++) {
		if (rings_at(i)->key == duo_key(user))
			sock_poll_ring(rings_at(i));
	}
}

static void send_some(struct tsock *from, const struct tsock *to, unsigned *next)
{
	struct sockaddr_in name = tsock_name(to);

	for (unsigned i = 0; i < EACH; i++, ++*next)
		NET_CHECK_EQ(tsock_sendto(from, next, sizeof(*next), &name), sizeof(*next));
}

static bool hears_all(struct tsock *ts, unsigned *next)
{
	unsigned number;

	while (tsock_recv(ts, &number, sizeof(number), MSG_DONTWAIT) == sizeof(number)) {
		NET_CHECK_EQ(number, *next);
		++*next;
	}
	return *next == 3 * EACH;
}

static void datagrams_wait(void *arg)
{
	struct tsock sender, receiver, other;
	unsigned sent = 0, got = 0;
	pthread_t thread;

	duo_begin();
	sender = udp_at(1, 5);
	receiver = udp_at(0, 1);
	other = udp_at(0, 6);
	/* Until its barrier opens, the internal thread can ask for nobody. */
	duo_begin_move(&other, 7);
	fake_netlink_shut(true);
	send_some(&sender, &receiver, &sent);
	NET_CHECK_EQ(pthread_create(&thread, NULL, receive, tsock_home(&receiver)), 0);
	NET_CHECK(NET_WAIT(fake_netlink_waits(), NET_PATIENCE));
	loop_port_gate(false);
	NET_CHECK(duo_arrives(&other, 7));

	duo_begin_move(&receiver, 2);
	send_some(&sender, &receiver, &sent);
	poll_ring_of(2); /* these wait on the new ring */
	loop_port_gate(false);
	NET_CHECK(duo_arrives(&receiver, 2));
	send_some(&sender, &receiver, &sent);
	NET_CHECK(fake_netlink_waits());
	fake_netlink_shut(false);
	if (!NET_WAIT(hears_all(&receiver, &got), NET_PATIENCE))
		NET_CHECK_EQ(got, 3 * EACH);

	__atomic_store_n(&ended, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	tsock_close(&sender);
	tsock_close(&receiver);
	tsock_close(&other);
	duo_end(NULL);
}

static void test_datagrams_that_wait_for_a_check_move_with_their_socket(void **state)
{
	assert_int_equal(loop_net_run("unchecked", datagrams_wait, NULL, 30), 0);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_datagrams_that_wait_for_a_check_move_with_their_socket),
};

VMA_TEST_MAIN("sock/move_unchecked", tests, enter, NULL)
