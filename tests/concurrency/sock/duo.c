/* SPDX-License-Identifier: BSD-2-Clause */
#include "duo.h"

#include <string.h>

#include "ring/logic.h"

#define TCP_NODELAY 1 /* the names of states in netinet/tcp.h conflict with ours */

static struct sock_move_stats opened;

static unsigned count(const unsigned *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void duo_params(int mode)
{
	const char *level = getenv("VMA_STRESS_LOG");

	params.thread_mode = mode;
	params.ring_logic_rx = params.ring_logic_tx = RING_LOGIC_SOCKET;
	params.ring_migration_rx = params.ring_migration_tx = 1;
	params.progress_interval = 1;
	params.tx_nonblocked_eagains = true;
	params.log_level = level ? (enum log_level)atoi(level) : LOG_WARNING;
}

void duo_begin(void)
{
	duo_params(HOLD_SPIN);
	loop_net_start();
}

void duo_end(struct tsock *listener)
{
	loop_port_gate(false);
	if (listener)
		tsock_close(listener);
	loop_net_finish();
}

struct tsock duo_listener(unsigned port)
{
	struct tsock ts = tsock_tcp();

	NET_CHECK(ts.fd >= 0);
	NET_CHECK_EQ(tsock_bind(&ts, fake_link_addr(0), port), 0);
	NET_CHECK_EQ(tsock_listen(&ts, 16), 0);
	return ts;
}

static bool accepted(struct tsock *listener, struct tsock *child, struct sockaddr_in *from)
{
	int fd = tsock_accept(listener, child, from);

	NET_CHECK(fd >= 0 || fd == -EAGAIN);
	return fd >= 0;
}

struct tsock duo_accept(struct tsock *listener, struct sockaddr_in *from)
{
	struct sockaddr_in somebody;
	struct tsock child;

	NET_CHECK(NET_WAIT(accepted(listener, &child, from ? from : &somebody), NET_PATIENCE));
	return child;
}

static bool is_connected(const struct tsock *ts)
{
	sock_poll_ring(tsock_home(ts));
	return sock_events(ts->ref.sk) & EPOLLOUT;
}

int duo_set_nodelay(struct tsock *ts, bool on)
{
	return tsock_set_int(ts, IPPROTO_TCP, TCP_NODELAY, on);
}

static void open_tcp(struct duo *duo, struct tsock *listener)
{
	struct sockaddr_in to = tsock_name(listener);

	duo->end[0] = tsock_tcp();
	NET_CHECK_EQ(tsock_bind(&duo->end[0], fake_link_addr(1), 0), 0);
	NET_CHECK_EQ(tsock_connect(&duo->end[0], &to), -EINPROGRESS);
	duo->end[1] = duo_accept(listener, &duo->name[0]);
	NET_CHECK(NET_WAIT(is_connected(&duo->end[0]), NET_PATIENCE));
	duo->name[1] = to;
	/* A socket that moves receives no acknowledgements. */
	for (unsigned i = 0; i < 2; i++)
		NET_CHECK_EQ(duo_set_nodelay(&duo->end[i], true), 0);
}

static void open_udp(struct duo *duo)
{
	for (unsigned i = 0; i < 2; i++) {
		bool any = i && duo->kind == DUO_UDP_UNCONNECTED;

		duo->end[i] = tsock_udp();
		NET_CHECK_EQ(tsock_bind(&duo->end[i], any ? INADDR_ANY : fake_link_addr(i), 0), 0);
		duo->name[i] = tsock_name(&duo->end[i]);
		duo->name[i].sin_addr.s_addr = fake_link_addr(i);
	}
	for (unsigned i = 0; i < 2 && duo->kind == DUO_UDP; i++)
		NET_CHECK_EQ(tsock_connect(&duo->end[i], &duo->name[1 - i]), 0);
}

void duo_open(struct duo *duo, enum duo_kind kind, struct tsock *listener)
{
	memset(duo, 0, sizeof(*duo));
	duo->kind = kind;
	if (kind == DUO_TCP)
		open_tcp(duo, listener);
	else
		open_udp(duo);
	duo_talk(duo, 2);
	loop_net_settle();
	opened = (struct sock_move_stats){0};
	opened = duo_moves();
}

void duo_close(struct duo *duo)
{
	for (unsigned i = 0; i < 2; i++) {
		if (duo->kind == DUO_TCP && duo->end[i].fd >= 0)
			tsock_linger_none(&duo->end[i]);
		tsock_close(&duo->end[i]);
	}
}

/* ---- talking -------------------------------------------------------------------------- */

uint8_t duo_byte(uint64_t pos)
{
	return (uint8_t)(pos * 0x9e3779b97f4a7c15ull >> 40);
}

static void send_bytes(struct duo *duo, unsigned from)
{
	uint8_t buf[DUO_MESSAGE];

	for (unsigned i = 0; i < sizeof(buf); i++)
		buf[i] = duo_byte(duo->sent[from] + i);
	NET_CHECK_EQ(tsock_send(&duo->end[from], buf, sizeof(buf), 0), sizeof(buf));
	duo->sent[from] += sizeof(buf);
}

static void send_datagram(struct duo *duo, unsigned from)
{
	uint8_t buf[DUO_MESSAGE] = {0};
	const struct sockaddr_in *to = duo->kind == DUO_UDP ? NULL : &duo->name[1 - from];

	memcpy(buf, &duo->sent[from], sizeof(duo->sent[from]));
	NET_CHECK_EQ(tsock_sendto(&duo->end[from], buf, sizeof(buf), to), sizeof(buf));
	duo->sent[from]++;
}

void duo_send(struct duo *duo, unsigned from, unsigned n)
{
	while (n--) {
		if (duo->kind == DUO_TCP)
			send_bytes(duo, from);
		else
			send_datagram(duo, from);
	}
}

static unsigned take_bytes(struct duo *duo, unsigned from)
{
	uint8_t buf[1000];
	ssize_t n = tsock_recv(&duo->end[1 - from], buf, sizeof(buf), MSG_DONTWAIT);

	NET_CHECK(n >= 0 || n == -EAGAIN);
	duo->ended[from] |= n == 0;
	for (ssize_t i = 0; i < n; i++)
		NET_CHECK_EQ(buf[i], duo_byte(duo->got[from] + (uint64_t)i));
	return n > 0 ? (unsigned)n : 0;
}

static unsigned take_datagram(struct duo *duo, unsigned from)
{
	uint8_t buf[2 * DUO_MESSAGE];
	uint64_t number;
	ssize_t n = tsock_recv(&duo->end[1 - from], buf, sizeof(buf), MSG_DONTWAIT);

	if (n == -EAGAIN)
		return 0;
	NET_CHECK_EQ(n, DUO_MESSAGE);
	memcpy(&number, buf, sizeof(number));
	NET_CHECK_EQ(number, duo->got[from]);
	return 1;
}

unsigned duo_take(struct duo *duo, unsigned from)
{
	unsigned n, all = 0;

	do {
		n = duo->kind == DUO_TCP ? take_bytes(duo, from) : take_datagram(duo, from);
		duo->got[from] += n;
		all += n;
	} while (n);
	return all;
}

static bool all_taken(struct duo *duo, unsigned from)
{
	/* The sender may have to retransmit. */
	sock_poll_ring(tsock_home(&duo->end[from]));
	duo_take(duo, from);
	NET_CHECK(duo->got[from] <= duo->sent[from]);
	return duo->got[from] == duo->sent[from];
}

void duo_drain(struct duo *duo, unsigned from)
{
	if (!NET_WAIT(all_taken(duo, from), NET_PATIENCE))
		NET_CHECK_EQ(duo->got[from], duo->sent[from]);
	NET_CHECK_EQ(duo_take(duo, from), 0);
}

void duo_talk(struct duo *duo, unsigned n)
{
	for (unsigned from = 0; from < 2; from++) {
		duo_send(duo, from, n);
		duo_drain(duo, from);
	}
}

/* ---- moving --------------------------------------------------------------------------- */

uint64_t duo_key(unsigned user)
{
	return (uint64_t)RING_LOGIC_USER_ID << RING_KEY_LOGIC_SHIFT | user;
}

uint64_t duo_home(const struct tsock *ts)
{
	return tsock_home(ts)->key;
}

void duo_ask(struct tsock *ts, unsigned user)
{
	NET_CHECK_EQ(tsock_set_logic(ts, RING_LOGIC_USER_ID, user, true, true), 0);
}

bool duo_arrives(const struct tsock *ts, unsigned user)
{
	return NET_WAIT(duo_home(ts) == duo_key(user), NET_PATIENCE);
}

void duo_move(struct tsock *ts, unsigned user)
{
	duo_ask(ts, user);
	NET_CHECK(duo_arrives(ts, user));
}

void duo_begin_move(struct tsock *ts, unsigned user)
{
	unsigned before = loop_port_barriers();

	loop_port_gate(true);
	duo_ask(ts, user);
	NET_CHECK(NET_WAIT(loop_port_barriers() != before, NET_PATIENCE));
}

struct sock_move_stats duo_moves(void)
{
	return (struct sock_move_stats){
		.started = count(&sock_moves_rx.started) - opened.started,
		.finished = count(&sock_moves_rx.finished) - opened.finished,
		.abandoned = count(&sock_moves_rx.abandoned) - opened.abandoned,
	};
}

void duo_expect_moves(unsigned started, unsigned finished, unsigned abandoned)
{
	loop_net_settle();
	NET_CHECK_EQ(duo_moves().started, started);
	NET_CHECK_EQ(duo_moves().finished, finished);
	NET_CHECK_EQ(duo_moves().abandoned, abandoned);
}
