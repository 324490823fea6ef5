/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moves of sockets with several flows: listeners with all their requests and connections,
 * members of groups.
 */
#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include <string.h>

#include "net/tcp/tcp_wire.h"

#define CLIENTS 6

static void run(const char *name, void (*fn)(void *arg), void *arg)
{
	assert_int_equal(loop_net_run(name, fn, arg, 30), 0);
}

/* ---- listeners -------------------------------------------------------------------------- */

/* Clients stay half open: the listener's answers are lost. */
static bool lose_answers(const struct pkt *pkt)
{
	return (pkt->tcp_flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK);
}

static struct tsock client(const struct tsock *listener, const struct sockaddr_in *to)
{
	struct tsock ts = tsock_tcp();

	(void)listener;
	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(2), 0), 0);
	NET_CHECK_EQ(tsock_connect(&ts, to), -EINPROGRESS);
	return ts;
}

static bool poll_both(const struct tsock *a, const struct tsock *b)
{
	sock_poll_ring(tsock_home(a));
	sock_poll_ring(tsock_home(b));
	return sock_events(a->ref.sk) & EPOLLOUT;
}

static void say(struct tsock *from, char what)
{
	NET_CHECK_EQ(tsock_send(from, &what, 1, 0), 1);
}

static bool heard(struct tsock *ts, char *what)
{
	return tsock_recv(ts, what, 1, MSG_DONTWAIT) == 1;
}

static unsigned client_of(const struct tsock *clients, const struct sockaddr_in *from)
{
	for (unsigned i = 0; i < CLIENTS; i++) {
		if (tsock_name(&clients[i]).sin_port == from->sin_port)
			return i;
	}
	NET_CHECK(!"it is a client's");
	return 0;
}

static void accept_all(struct tsock *listener, struct tsock *clients)
{
	struct sockaddr_in from;
	unsigned seen = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		struct tsock child = duo_accept(listener, &from);
		unsigned which = client_of(clients, &from);
		char byte = 0;

		NET_CHECK(!(seen & 1u << which));
		seen |= 1u << which;
		NET_CHECK(NET_WAIT(poll_both(&clients[which], &child), NET_PATIENCE));
		say(&clients[which], (char)('a' + which));
		NET_CHECK(NET_WAIT(heard(&child, &byte), NET_PATIENCE));
		NET_CHECK_EQ(byte, 'a' + which);
		say(&child, (char)('A' + which));
		NET_CHECK(NET_WAIT(heard(&clients[which], &byte), NET_PATIENCE));
		NET_CHECK_EQ(byte, 'A' + which);
		tsock_linger_none(&child);
		tsock_close(&child);
	}
	NET_CHECK_EQ(seen, (1u << CLIENTS) - 1);
}

/* Some connections are in its queue, some are half open, some begin while it moves. */
static void listener_moves(void *arg)
{
	struct tsock listener, clients[CLIENTS];
	struct sockaddr_in to;
	bool twice = *(const bool *)arg;

	duo_begin();
	listener = duo_listener(7000);
	to = tsock_name(&listener);
	for (unsigned i = 0; i < 2; i++) {
		clients[i] = client(&listener, &to);
		NET_CHECK(NET_WAIT(poll_both(&clients[i], &listener), NET_PATIENCE));
	}
	loop_port_lose(lose_answers);
	for (unsigned i = 2; i < 4; i++) {
		clients[i] = client(&listener, &to);
		sock_poll_ring(tsock_home(&listener));
	}
	duo_begin_move(&listener, 1);
	for (unsigned i = 4; i < CLIENTS; i++)
		clients[i] = client(&listener, &to);
	loop_port_lose(NULL);
	if (twice)
		duo_ask(&listener, 2);
	loop_port_gate(false);
	NET_CHECK(duo_arrives(&listener, twice ? 2 : 1));
	accept_all(&listener, clients);
	for (unsigned i = 0; i < CLIENTS; i++)
		tsock_close(&clients[i]);
	duo_end(&listener);
}

static void test_a_listener_moves_with_its_requests_and_connections(void **state)
{
	bool twice[] = {false, true};

	for (unsigned i = 0; i < 2; i++)
		run("listener", listener_moves, &twice[i]);
}

/* Established connections stay on their ring when their listener moves. */
static void children_stay(void *arg)
{
	struct tsock listener;
	struct duo duo[3];

	duo_begin();
	listener = duo_listener(7000);
	for (unsigned i = 0; i < 3; i++)
		duo_open(&duo[i], DUO_TCP, &listener);
	for (unsigned user = 1; user < 6; user++) {
		for (unsigned i = 0; i < 3; i++)
			duo_send(&duo[i], 0, 3);
		duo_ask(&listener, user);
		for (unsigned i = 0; i < 3; i++)
			duo_talk(&duo[i], 3);
		NET_CHECK(duo_arrives(&listener, user));
	}
	for (unsigned i = 0; i < 3; i++) {
		duo_talk(&duo[i], 3);
		duo_close(&duo[i]);
	}
	duo_end(&listener);
}

static void test_connections_stay_when_their_listener_moves(void **state)
{
	run("children", children_stay, NULL);
}

/* The listener is closed during its move: waiting threads are told. */
static void listener_closed(void *arg)
{
	struct tsock listener, clients[2];
	struct sockaddr_in to;
	char byte;

	duo_begin();
	listener = duo_listener(7000);
	to = tsock_name(&listener);
	clients[0] = client(&listener, &to);
	NET_CHECK(NET_WAIT(poll_both(&clients[0], &listener), NET_PATIENCE));
	duo_begin_move(&listener, 1);
	clients[1] = client(&listener, &to);
	tsock_close(&listener);
	loop_port_gate(false);
	NET_CHECK(NET_WAIT(tsock_recv(&clients[0], &byte, 1, MSG_DONTWAIT) == -ECONNRESET,
			   NET_PATIENCE));
	NET_CHECK(NET_WAIT(tsock_recv(&clients[1], &byte, 1, MSG_DONTWAIT) == -ECONNREFUSED,
			   NET_PATIENCE));
	for (unsigned i = 0; i < 2; i++)
		tsock_close(&clients[i]);
	duo_end(NULL);
}

static void test_a_listener_closed_during_its_move_leaves_no_thread_waiting(void **state)
{
	run("listener closed", listener_closed, NULL);
}

/* ---- groups --------------------------------------------------------------------------------- */

static struct sockaddr_in group(void)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(0xef010203),
				    .sin_port = htons(7100)};
}

static struct tsock member(void)
{
	struct sockaddr_in to = group();
	struct ip_mreq req = {.imr_multiaddr = to.sin_addr,
			      .imr_interface.s_addr = fake_link_addr(0)};
	struct tsock ts = tsock_udp();

	NET_CHECK_EQ(tsock_set_int(&ts, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	NET_CHECK_EQ(tsock_bind(&ts, to.sin_addr.s_addr, 7100), 0);
	NET_CHECK_EQ(tsock_set(&ts, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, sizeof(req)), 0);
	return ts;
}

static struct tsock feed(void)
{
	struct tsock ts = tsock_udp();

	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(1), 0), 0);
	NET_CHECK_EQ(tsock_set_int(&ts, IPPROTO_IP, IP_MULTICAST_LOOP, 0), 0);
	return ts;
}

static unsigned fed;

static void send_feed(struct tsock *ts, unsigned n)
{
	struct sockaddr_in to = group();

	while (n--) {
		NET_CHECK_EQ(tsock_sendto(ts, &fed, sizeof(fed), &to), sizeof(fed));
		fed++;
	}
}

static bool hears_all(struct tsock *ts, unsigned *next)
{
	unsigned number;

	while (tsock_recv(ts, &number, sizeof(number), MSG_DONTWAIT) == sizeof(number)) {
		NET_CHECK_EQ(number, *next);
		(*next)++;
	}
	return *next == fed;
}

static void members_move(void *arg)
{
	unsigned n = *(const unsigned *)arg, next[3] = {0};
	struct tsock members[3], sender;

	NET_CHECK(n >= 1 && n <= 3);
	duo_begin();
	sender = feed();
	for (unsigned i = 0; i < n; i++) {
		members[i] = member();
		NET_CHECK_EQ(tsock_set_logic(&members[i], RING_LOGIC_USER_ID, 1, true, true), 0);
	}
	for (unsigned round = 0; round < 6; round++) {
		struct tsock *ts = &members[round % n];

		send_feed(&sender, 5);
		if (n == 1)
			duo_begin_move(ts, 2 + round);
		else
			duo_ask(ts, 2 + round); /* the flow stays and forwards, without a barrier */
		send_feed(&sender, 5);
		loop_port_gate(false);
		NET_CHECK(duo_arrives(ts, 2 + round));
		send_feed(&sender, 5);
		for (unsigned i = 0; i < n; i++) {
			if (!NET_WAIT(hears_all(&members[i], &next[i]), 5000))
				NET_CHECK_EQ(next[i], fed);
		}
	}
	for (unsigned i = 0; i < n; i++)
		tsock_close(&members[i]);
	tsock_close(&sender);
	duo_end(NULL);
}

static void test_members_of_a_group_move(void **state)
{
	unsigned members[] = {1, 2, 3};

	for (unsigned i = 0; i < 3; i++)
		run("members", members_move, &members[i]);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_listener_moves_with_its_requests_and_connections),
	cmocka_unit_test(test_connections_stay_when_their_listener_moves),
	cmocka_unit_test(test_a_listener_closed_during_its_move_leaves_no_thread_waiting),
	cmocka_unit_test(test_members_of_a_group_move),
};

VMA_TEST_MAIN("move, several flows", tests, enter, NULL)
