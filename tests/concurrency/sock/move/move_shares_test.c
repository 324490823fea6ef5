/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Moves of sockets that share an address and port. The datagrams of a sender reach the same
 * socket before, during and after the move; none is lost, repeated or out of order. The same
 * holds for a handshake.
 */
#include "tests/concurrency/sock/duo.h"
#include "vma_test.h"

#include <string.h>

#include "net/tcp/tcp_wire.h"

#define SHARERS 3
#define SENDERS 16
#define ROUNDS 12
#define CLIENTS 12

static void run(const char *name, void (*fn)(void *arg), void *arg)
{
	assert_int_equal(loop_net_run(name, fn, arg, 60), 0);
}

/* ---- datagrams ---------------------------------------------------------------------- */

struct datagram {
	unsigned sender, number;
};

static struct tsock sharers[SHARERS], senders[SENDERS];
static unsigned sent, got[SENDERS]; /* datagrams per sender */
/* the socket that gets a sender's datagrams; -1: not known yet */
static int owner[SENDERS];

static struct tsock sharer(unsigned user)
{
	struct tsock ts = tsock_udp();

	NET_CHECK_EQ(tsock_set_logic(&ts, RING_LOGIC_USER_ID, user, true, true), 0);
	NET_CHECK_EQ(tsock_set_int(&ts, SOL_SOCKET, SO_REUSEPORT, 1), 0);
	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(0), 7200), 0);
	return ts;
}

static void open_all(void)
{
	for (unsigned i = 0; i < SHARERS; i++)
		sharers[i] = sharer(1);
	for (unsigned i = 0; i < SENDERS; i++) {
		senders[i] = tsock_udp();
		NET_CHECK_EQ(tsock_bind(&senders[i], fake_link_addr(1), 0), 0);
		owner[i] = -1;
	}
}

static void close_all(void)
{
	for (unsigned i = 0; i < SHARERS; i++)
		tsock_close(&sharers[i]);
	for (unsigned i = 0; i < SENDERS; i++)
		tsock_close(&senders[i]);
	duo_end(NULL);
}

static void send_all(unsigned n)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr.s_addr = fake_link_addr(0),
				 .sin_port = htons(7200)};

	while (n--) {
		for (unsigned i = 0; i < SENDERS; i++) {
			struct datagram d = {i, sent};

			NET_CHECK_EQ(tsock_sendto(&senders[i], &d, sizeof(d), &to), sizeof(d));
		}
		sent++;
	}
}

static void take(unsigned by)
{
	struct datagram d;

	while (sharers[by].fd >= 0 &&
	       tsock_recv(&sharers[by], &d, sizeof(d), MSG_DONTWAIT) == sizeof(d)) {
		NET_CHECK(d.sender < SENDERS);
		if (owner[d.sender] < 0)
			owner[d.sender] = (int)by;
		NET_CHECK_EQ((unsigned)owner[d.sender], by);
		NET_CHECK_EQ(d.number, got[d.sender]);
		got[d.sender]++;
	}
}

static bool all_came(void)
{
	unsigned missing = 0;

	for (unsigned i = 0; i < SHARERS; i++)
		take(i);
	for (unsigned i = 0; i < SENDERS; i++)
		missing += sent - got[i];
	return missing == 0;
}

static void sharers_move(void *arg)
{
	(void)arg;
	duo_begin();
	open_all();
	for (unsigned round = 0; round < ROUNDS; round++) {
		/* To its own ring, to the ring of another socket, and back. */
		struct tsock *ts = &sharers[round % SHARERS];
		unsigned user = 1 + (round + 1) % 4;

		if (duo_home(ts) == duo_key(user))
			continue;
		send_all(3);
		duo_begin_move(ts, user);
		send_all(3);
		loop_port_gate(false);
		NET_CHECK(duo_arrives(ts, user));
		send_all(3);
		NET_CHECK(NET_WAIT(all_came(), NET_PATIENCE));
	}
	close_all();
}

static void test_a_sharer_that_moves_keeps_its_senders(void **state)
{
	run("sharers", sharers_move, NULL);
}

/* One socket is closed during its move: its senders go to the others, all other senders stay. */
static void sharer_closed(void *arg)
{
	int before[SENDERS];

	(void)arg;
	duo_begin();
	open_all();
	send_all(3);
	NET_CHECK(NET_WAIT(all_came(), NET_PATIENCE));
	memcpy(before, owner, sizeof(before));
	duo_begin_move(&sharers[0], 2);
	tsock_close(&sharers[0]);
	loop_port_gate(false);
	for (unsigned i = 0; i < SENDERS; i++)
		owner[i] = owner[i] ? owner[i] : -1;
	send_all(3);
	NET_CHECK(NET_WAIT(all_came(), NET_PATIENCE));
	for (unsigned i = 0; i < SENDERS; i++)
		NET_CHECK(before[i] ? owner[i] == before[i] : owner[i] > 0);
	close_all();
}

static void test_a_sharer_closed_during_its_move_leaves_its_senders_to_the_others(void **state)
{
	run("sharer closed", sharer_closed, NULL);
}

#define MOVES_MIN 10

/* All of them move at any time, while datagrams are in transit. */
static void sharers_move_at_random(void *arg)
{
	nsec_t end = clock_now() + 2 * NSEC_PER_SEC;
	uint64_t rnd = 88172645463325252u;

	(void)arg;
	duo_begin();
	open_all();
	while (clock_now() < end || duo_moves().finished < MOVES_MIN) {
		rnd ^= rnd << 13;
		rnd ^= rnd >> 7;
		rnd ^= rnd << 17;
		duo_ask(&sharers[rnd % SHARERS], 1 + rnd / SHARERS % 4);
		send_all(1);
		NET_CHECK(NET_WAIT(all_came(), NET_PATIENCE));
	}
	close_all();
}

static void test_sharers_move_at_any_time(void **state)
{
	run("at random", sharers_move_at_random, NULL);
}

/* ---- a socket that others have, too ----------------------------------------------------- */

/* As after fork(): two processes have the twin, and each has an object. */
static void tell_inherited(const struct tsock *ts)
{
	NET_CHECK(control_lock());
	NET_CHECK_EQ(sock_flows_inherited(tsock_inet(ts)), 0);
	control_unlock();
}

static enum verdict attach_inherited(struct tsock *other, const struct tsock *of, int type)
{
	struct inet_sock *so;

	other->fd = dup(of->fd);
	other->ref = sock_create(other->fd, AF_INET, type, 0, true);
	so = tsock_inet(other);
	NET_CHECK(control_lock());
	NET_CHECK_EQ(sock_read_local(so), 0);
	so->bound = true;
	NET_CHECK_EQ(sock_flows_inherited(so), 0);
	so->verdict = sock_attach(so);
	control_unlock();
	return so->verdict;
}

static void inherited_joins(void *arg)
{
	unsigned some = 0;

	(void)arg;
	duo_begin();
	open_all();
	for (unsigned i = 0; i < SHARERS; i++)
		tsock_close(&sharers[i]);
	sharers[0] = tsock_udp();
	NET_CHECK_EQ(tsock_bind(&sharers[0], fake_link_addr(0), 7200), 0);
	NET_CHECK_EQ(attach_inherited(&sharers[1], &sharers[0], SOCK_DGRAM), VERDICT_FLOW);
	tsock_close(&sharers[1]);
	send_all(3);
	NET_CHECK(NET_WAIT(all_came(), NET_PATIENCE));
	tell_inherited(&sharers[0]);
	NET_CHECK_EQ(attach_inherited(&sharers[1], &sharers[0], SOCK_DGRAM), VERDICT_ACCELERATED);
	NET_CHECK_EQ(attach_inherited(&sharers[2], &sharers[0], SOCK_DGRAM), VERDICT_ACCELERATED);
	for (unsigned i = 0; i < SENDERS; i++)
		owner[i] = -1;
	send_all(3);
	NET_CHECK(NET_WAIT(all_came(), NET_PATIENCE));
	for (unsigned i = 0; i < SENDERS; i++)
		some |= 1u << owner[i];
	NET_CHECK(__builtin_popcount(some) > 1); /* most of the time, each of them */
	/* The last remaining socket gets everything, even if it joined last. */
	tsock_close(&sharers[0]);
	tsock_close(&sharers[1]);
	for (unsigned i = 0; i < SENDERS; i++)
		owner[i] = 2;
	send_all(3);
	NET_CHECK(NET_WAIT(all_came(), NET_PATIENCE));
	close_all();
}

static void test_a_process_that_inherits_a_socket_gets_a_part_of_its_senders(void **state)
{
	run("inherited", inherited_joins, NULL);
}

/* ---- handshakes ------------------------------------------------------------------------ */

/* Clients stay half open: the listener's answers are lost. */
static bool lose_answers(const struct pkt *pkt)
{
	return (pkt->tcp_flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK);
}

static struct tsock listener(void)
{
	struct tsock ts = tsock_tcp();

	NET_CHECK_EQ(tsock_set_logic(&ts, RING_LOGIC_USER_ID, 1, true, true), 0);
	NET_CHECK_EQ(tsock_set_int(&ts, SOL_SOCKET, SO_REUSEPORT, 1), 0);
	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(0), 7000), 0);
	NET_CHECK_EQ(tsock_listen(&ts, 2 * CLIENTS), 0);
	return ts;
}

static struct tsock client(const struct tsock *to)
{
	struct sockaddr_in name = tsock_name(to);
	struct tsock ts = tsock_tcp();

	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(2), 0), 0);
	NET_CHECK_EQ(tsock_connect(&ts, &name), -EINPROGRESS);
	return ts;
}

static struct tsock listeners[3], clients[CLIENTS], children[CLIENTS];
static unsigned accepted;

static bool accept_some(void)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		sock_poll_ring(tsock_home(&clients[i]));
	for (unsigned i = 0; i < 3; i++) {
		struct sockaddr_in from;

		while (listeners[i].fd >= 0 && accepted < CLIENTS &&
		       tsock_accept(&listeners[i], &children[accepted], &from) >= 0)
			accepted++;
	}
	return accepted == CLIENTS;
}

static bool answered(struct tsock *ts)
{
	char byte;

	for (unsigned i = 0; i < CLIENTS; i++) {
		if (tsock_recv(&children[i], &byte, 1, MSG_DONTWAIT) == 1)
			NET_CHECK_EQ(tsock_send(&children[i], &byte, 1, 0), 1);
	}
	return tsock_recv(ts, &byte, 1, MSG_DONTWAIT) == 1;
}

/* Some connections are half open when one listener moves, another ends and a third joins. */
static void listeners_move(void *arg)
{
	(void)arg;
	duo_begin();
	listeners[0] = listener();
	listeners[1] = listener();
	listeners[2] = TSOCK_NONE;
	loop_port_lose(lose_answers);
	for (unsigned i = 0; i < CLIENTS; i++) {
		clients[i] = client(&listeners[0]);
		sock_poll_ring(tsock_home(&listeners[0]));
	}
	duo_begin_move(&listeners[0], 2);
	listeners[2] = listener();
	loop_port_lose(NULL);
	loop_port_gate(false);
	NET_CHECK(duo_arrives(&listeners[0], 2));
	(void)NET_WAIT(accept_some(), 10000);
	NET_CHECK_EQ(accepted, CLIENTS);
	for (unsigned i = 0; i < CLIENTS; i++) {
		NET_CHECK_EQ(tsock_send(&clients[i], "x", 1, 0), 1);
		NET_CHECK(NET_WAIT(answered(&clients[i]), NET_PATIENCE));
	}
	for (unsigned i = 0; i < 3; i++)
		tsock_close(&listeners[i]);
	for (unsigned i = 0; i < CLIENTS; i++) {
		NET_CHECK_EQ(tsock_send(&clients[i], "x", 1, 0), 1);
		NET_CHECK(NET_WAIT(answered(&clients[i]), NET_PATIENCE));
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		tsock_linger_none(&clients[i]);
		tsock_linger_none(&children[i]);
		tsock_close(&clients[i]);
		tsock_close(&children[i]);
	}
	duo_end(NULL);
}

static void test_listeners_that_share_move_with_what_they_have_begun(void **state)
{
	run("listeners", listeners_move, NULL);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_sharer_that_moves_keeps_its_senders),
	cmocka_unit_test(test_a_sharer_closed_during_its_move_leaves_its_senders_to_the_others),
	cmocka_unit_test(test_sharers_move_at_any_time),
	cmocka_unit_test(test_a_process_that_inherits_a_socket_gets_a_part_of_its_senders),
	cmocka_unit_test(test_listeners_that_share_move_with_what_they_have_begun),
};

VMA_TEST_MAIN("move, shared flows", tests, enter, NULL)
