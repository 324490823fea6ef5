/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Half-open connections of a process that ends, or of a listener that is closed: the peers get
 * resets, as from the kernel, and do not retransmit for seconds.
 */
#include <errno.h>

#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include "net/tcp/tcp_wire.h"

#define PORT 7000
#define CONNECTIONS 5

/* The wire: any thread that sends. */
static struct {
	uint8_t lost; /* frames with exactly these of the flags SYN and ACK are lost; 0: none */
	unsigned begun[CONNECTIONS], ended[CONNECTIONS];
	uint32_t seq[CONNECTIONS];  /* sequence numbers of SYNs or SYN-ACKs */
	uint16_t port[CONNECTIONS]; /* port of the client */
	unsigned known;
} wire;

static unsigned read_atomic(const unsigned *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static unsigned connection_of(uint16_t client)
{
	unsigned i = 0;

	while (i < wire.known && wire.port[i] != client)
		i++;
	NET_CHECK(i < CONNECTIONS);
	if (i == wire.known)
		wire.port[wire.known++] = client;
	return i;
}

/* Finds the connection by the frame that wire.lost names; its reset has to follow that frame. */
static bool look(const struct pkt *pkt)
{
	const uint8_t *tcp = pkt->frame + ETH_HDR + IP4_HDR;
	uint8_t flags = tcp[13] & (TCP_SYN | TCP_ACK | TCP_RST);
	bool by_server = get16(tcp) == PORT, server_lost = wire.lost & TCP_ACK;
	unsigned i = connection_of(get16(tcp + (by_server ? 2 : 0)));

	if (by_server != server_lost)
		return false;
	if (flags == wire.lost) {
		wire.seq[i] = get32(tcp + 4);
		__atomic_fetch_add(&wire.begun[i], 1, __ATOMIC_RELEASE);
		return true;
	}
	if ((flags & TCP_RST) && get32(tcp + 4) == wire.seq[i] + 1)
		__atomic_fetch_add(&wire.ended[i], 1, __ATOMIC_RELEASE);
	return false;
}

static bool all_begun(void)
{
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		if (!read_atomic(&wire.begun[i]))
			return false;
	}
	return true;
}

static void begin(uint8_t lost)
{
	params.log_level = LOG_WARNING;
	params.progress_interval = 1;
	loop_net_start();
	wire.lost = lost;
	loop_port_lose(look);
}

static struct tsock listener_at(unsigned port)
{
	struct tsock ts = tsock_tcp();

	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(0), port), 0);
	NET_CHECK_EQ(tsock_listen(&ts, 128), 0);
	return ts;
}

static void connect_all(struct tsock clients[CONNECTIONS])
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = fake_link_addr(0)};

	for (unsigned i = 0; i < CONNECTIONS; i++) {
		clients[i] = tsock_tcp();
		NET_CHECK_EQ(tsock_connect(&clients[i], &to), -EINPROGRESS);
	}
}

static void connecting(void *arg)
{
	struct tsock clients[CONNECTIONS];

	begin(TCP_SYN);
	connect_all(clients);
	NET_CHECK(NET_WAIT(all_begun(), NET_PATIENCE));
	sock_exit();
	for (unsigned i = 0; i < CONNECTIONS; i++)
		NET_CHECK_EQ(read_atomic(&wire.ended[i]), 1);
}

static void test_a_peer_that_answers_a_syn_of_an_ended_process_is_reset(void **state)
{
	assert_int_equal(loop_net_run("connecting", connecting, NULL, 30), 0);
}

/* exits: the process ends; otherwise the listener is closed. */
static void answering(void *arg)
{
	bool *exits = arg;
	struct tsock clients[CONNECTIONS], listener;

	begin(TCP_SYN | TCP_ACK);
	listener = listener_at(PORT);
	connect_all(clients);
	NET_CHECK(NET_WAIT(all_begun(), NET_PATIENCE));
	if (*exits)
		sock_exit();
	else
		tsock_close(&listener);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		NET_CHECK_EQ(read_atomic(&wire.ended[i]), 1);
}

static void test_half_open_connections_are_reset_when_the_listener_closes(void **state)
{
	for (int exits = 0; exits <= 1; exits++) {
		bool arg = exits;

		assert_int_equal(loop_net_run("answering", answering, &arg, 30), 0);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_peer_that_answers_a_syn_of_an_ended_process_is_reset),
	cmocka_unit_test(test_half_open_connections_are_reset_when_the_listener_closes),
};

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

VMA_TEST_MAIN("sock/half_open", tests, enter, NULL)
