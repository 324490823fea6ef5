/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program makes many calls without waiting for a frame, while no other thread polls the ring.
 * The answers must not accumulate in the ring until it is full and frames are lost.
 */
#include <errno.h>

#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include "net/tcp/tcp_wire.h"

#define PORT 7000
#define CONNECTIONS 300
#define PILE 64 /* frames between two polls, and some that were not reached */

/* Any, atomic. */
static struct {
	/* SYN-ACKs that the server sent; ACKs that complete the client's handshakes */
	unsigned syn_acks, acks;
} wire;

static unsigned number(const unsigned *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static bool look(const struct pkt *pkt)
{
	const uint8_t *tcp = pkt->frame + ETH_HDR + IP4_HDR;
	uint8_t flags = tcp[13] & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN);

	if (flags == (TCP_SYN | TCP_ACK))
		__atomic_fetch_add(&wire.syn_acks, 1, __ATOMIC_RELEASE);
	else if (flags == TCP_ACK)
		__atomic_fetch_add(&wire.acks, 1, __ATOMIC_RELEASE);
	return false;
}

static struct sockaddr_in server(void)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons(PORT),
				    .sin_addr.s_addr = fake_link_addr(0)};
}

static struct tsock listener_at(unsigned port)
{
	struct tsock ts = tsock_tcp();

	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(0), port), 0);
	NET_CHECK_EQ(tsock_listen(&ts, 4 * CONNECTIONS), 0);
	return ts;
}

static struct tsock connecting(void)
{
	struct sockaddr_in to = server();
	struct tsock ts = tsock_tcp();

	NET_CHECK_EQ(tsock_connect(&ts, &to), -EINPROGRESS);
	return ts;
}

/* From here on only calls poll; the state of the link is known. */
static struct tsock begin(void)
{
	struct tsock listener, child;

	params.log_level = LOG_WARNING;
	params.progress_interval = 1;
	loop_net_start();
	listener = listener_at(PORT);
	connecting();
	NET_CHECK(NET_WAIT(tsock_accept(&listener, &child, NULL) >= 0, NET_PATIENCE));
	progress_stop();
	loop_port_lose(look);
	wire.syn_acks = wire.acks = 0;
	return listener;
}

static void connects(void *arg)
{
	unsigned most = 0;

	begin();
	for (unsigned i = 1; i <= CONNECTIONS; i++) {
		connecting();
		if (i - number(&wire.acks) > most)
			most = i - number(&wire.acks);
	}
	NET_CHECK(most <= PILE);
}

static void test_connects_keep_up_with_their_answers(void **state)
{
	assert_int_equal(loop_net_run("connects", connects, NULL, 30), 0);
}

/* Some connections wait to be accepted; more begin meanwhile. */
static void accepts(void *arg)
{
	struct tsock listener = begin(), child;

	while (number(&wire.acks) < CONNECTIONS / 2)
		connecting();
	for (unsigned i = 0; i < 8; i++)
		connecting(); /* frames of some connections now wait in the ring */
	for (unsigned i = 0; i < CONNECTIONS / 4; i++) {
		NET_CHECK(tsock_accept(&listener, &child, NULL) >= 0);
	}
	NET_CHECK_EQ(number(&wire.syn_acks), number(&wire.acks));
}

static void test_accepts_keep_up_with_what_begins(void **state)
{
	assert_int_equal(loop_net_run("accepts", accepts, NULL, 30), 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_connects_keep_up_with_their_answers),
	cmocka_unit_test(test_accepts_keep_up_with_what_begins),
};

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

VMA_TEST_MAIN("sock/burst", tests, enter, NULL)
