/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dummy sends (VMA_SND_FLAGS_DUMMY): no frame leaves, nothing of the socket changes, and the next
 * real send is as it would have been; each case in which one fails.
 */
#include "extra.h"
#include "vma_test.h"

#include <string.h>

#include "net/tcp/tcp_internal.h"
#include "ring/ring.h"
#include "ring/rings.h"

static struct tsock listener;
static struct duo duo;

static void begin(enum duo_kind kind)
{
	duo_begin();
	if (kind == DUO_TCP)
		listener = duo_listener(7100);
	duo_open(&duo, kind, &listener);
}

static void finish(enum duo_kind kind)
{
	duo_talk(&duo, 5);
	duo_close(&duo);
	duo_end(kind == DUO_TCP ? &listener : NULL);
}

static uint64_t frames_sent(struct tsock *ts)
{
	struct ring *ring;
	uint64_t n;

	NET_CHECK_EQ(sock_hold_cold(ts->ref, &ring), 0);
	n = ring->stats.tx_frames;
	ring_release_cold(ring);
	return n;
}

static ssize_t dummy(struct tsock *ts, size_t len)
{
	static const char data[4096];

	return tsock_send(ts, data, len, VMA_SND_FLAGS_DUMMY);
}

/* ---- connections ------------------------------------------------------------------------- */

static bool is_acked(struct tsock *ts)
{
	struct ring *ring;
	bool is;

	NET_CHECK_EQ(sock_hold_cold(ts->ref, &ring), 0);
	is = tcp_unacked_bytes(&tsock_inet(ts)->tcp.conn) == 0;
	ring_release_cold(ring);
	return is;
}

/* Neither end waits for an acknowledgement, or owes one, which the internal thread would send. */
static bool all_acked(void)
{
	sock_poll_ring(tsock_home(&duo.end[0]));
	sock_poll_ring(tsock_home(&duo.end[1]));
	return is_acked(&duo.end[0]) && is_acked(&duo.end[1]);
}

/* Compares everything that the engine knows about a connection before and after. */
static void check_unchanged(size_t len)
{
	static struct tcp_conn before;
	struct tcp_conn *conn = &tsock_inet(&duo.end[0])->tcp.conn;
	struct tcp_flight flight;
	struct tcp_rare rare;
	struct ring *ring;
	uint64_t frames = frames_sent(&duo.end[0]);
	uint32_t events = sock_events(duo.end[0].ref.sk);

	NET_CHECK_EQ(sock_hold_cold(duo.end[0].ref, &ring), 0);
	before = *conn;
	if (conn->flight)
		flight = *conn->flight;
	if (conn->rare)
		rare = *conn->rare;
	ring_release_cold(ring);
	NET_CHECK_EQ(dummy(&duo.end[0], len), len);
	NET_CHECK_EQ(sock_hold_cold(duo.end[0].ref, &ring), 0);
	if (before.flight)
		NET_CHECK(!memcmp(conn->flight, &flight, sizeof(flight)));
	if (before.rare)
		NET_CHECK(!memcmp(conn->rare, &rare, sizeof(rare)));
	NET_CHECK_EQ(conn->snd.len, 0);
	if (!before.snd.data)
		NET_CHECK(!conn->snd.data);
	before.snd = conn->snd; /* it may be larger, but is as empty */
	NET_CHECK(!memcmp(conn, &before, sizeof(before)));
	ring_release_cold(ring);
	NET_CHECK_EQ(frames_sent(&duo.end[0]), frames);
	NET_CHECK_EQ(sock_events(duo.end[0].ref.sk), events);
}

static void tcp(void *arg)
{
	const size_t sizes[] = {0, 1, 100, 1000};

	begin(DUO_TCP);
	for (unsigned round = 0; round < 20; round++) {
		NET_CHECK(NET_WAIT(all_acked(), NET_PATIENCE));
		check_unchanged(sizes[round % 4]);
		if (round % 5 == 4)
			duo_talk(&duo, 2);
	}
	finish(DUO_TCP);
}

/* The first send of a connection, which has neither a buffer nor a record of what is in flight. */
static void tcp_first(void *arg)
{
	struct sockaddr_in to;

	duo_begin();
	listener = duo_listener(7100);
	to = tsock_name(&listener);
	duo.end[0] = tsock_tcp();
	NET_CHECK_EQ(dummy(&duo.end[0], 10), -ENOTCONN);
	NET_CHECK_EQ(tsock_bind(&duo.end[0], fake_link_addr(1), 0), 0);
	NET_CHECK_EQ(tsock_connect(&duo.end[0], &to), -EINPROGRESS);
	duo.end[1] = duo_accept(&listener, NULL);
	NET_CHECK(NET_WAIT((sock_poll_ring(tsock_home(&duo.end[0])),
			    sock_events(duo.end[0].ref.sk) & EPOLLOUT),
			   NET_PATIENCE));
	duo.kind = DUO_TCP;
	NET_CHECK(!tsock_inet(&duo.end[0])->tcp.conn.flight);
	check_unchanged(100);
	NET_CHECK(!tsock_inet(&duo.end[0])->tcp.conn.flight);
	finish(DUO_TCP);
}

static void tcp_refused(void *arg)
{
	char data[10] = "";
	struct tcp_conn *conn;

	begin(DUO_TCP);
	conn = &tsock_inet(&duo.end[0])->tcp.conn;
	NET_CHECK(NET_WAIT(all_acked(), NET_PATIENCE));
	NET_CHECK_EQ(dummy(&duo.end[0], conn->mss + 1u), -EMSGSIZE);
	NET_CHECK_EQ(tsock_send(&duo.end[0], data, 10, VMA_SND_FLAGS_DUMMY | MSG_MORE), -EINVAL);
	NET_CHECK_EQ(tsock_send(&duo.end[0], data, 10, VMA_SND_FLAGS_DUMMY | MSG_OOB), -EINVAL);
	NET_CHECK_EQ(tsock_shutdown(&duo.end[0], SHUT_WR), 0);
	NET_CHECK_EQ(dummy(&duo.end[0], 10), -EPIPE);
	duo_close(&duo);
	duo_end(&listener);
}

static bool lose_all(const struct pkt *pkt)
{
	(void)pkt;
	return true;
}

/* Something is in flight: the path is warm. */
static void tcp_with_data_out(void *arg)
{
	begin(DUO_TCP);
	NET_CHECK(NET_WAIT(all_acked(), NET_PATIENCE));
	loop_port_lose(lose_all);
	duo_send(&duo, 0, 1);
	NET_CHECK_EQ(dummy(&duo.end[0], 10), -EAGAIN);
	loop_port_lose(NULL);
	duo_drain(&duo, 0);
	finish(DUO_TCP);
}

/* ---- datagrams --------------------------------------------------------------------------- */

static void udp(void *arg)
{
	uint64_t frames;
	char data[10] = "";

	begin(DUO_UDP);
	frames = frames_sent(&duo.end[0]);
	for (unsigned i = 0; i < 20; i++)
		NET_CHECK_EQ(dummy(&duo.end[0], 100), 100);
	NET_CHECK_EQ(dummy(&duo.end[0], 4000), -EMSGSIZE);
	NET_CHECK_EQ(tsock_send(&duo.end[0], data, 10, VMA_SND_FLAGS_DUMMY | MSG_MORE), -EINVAL);
	NET_CHECK_EQ(frames_sent(&duo.end[0]), frames);
	NET_CHECK_EQ(duo_take(&duo, 0), 0);
	finish(DUO_UDP);
}

/* It does not get a port. */
static void udp_without_a_port(void *arg)
{
	char data[10] = "";
	struct iovec iov = {data, sizeof(data)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	struct tsock ts;

	begin(DUO_UDP);
	msg.msg_name = &duo.name[1];
	msg.msg_namelen = sizeof(duo.name[1]);
	ts = tsock_udp();
	NET_CHECK_EQ(ts.ref.sk->ops->send(ts.ref, &msg, VMA_SND_FLAGS_DUMMY), -EINVAL);
	NET_CHECK_EQ(tsock_name(&ts).sin_port, 0);
	tsock_close(&ts);
	finish(DUO_UDP);
}

#define CASES(X)             \
	X(tcp)               \
	X(tcp_first)         \
	X(tcp_refused)       \
	X(tcp_with_data_out) \
	X(udp)               \
	X(udp_without_a_port)

CASES(LOOP_NET_TEST)

static const struct CMUnitTest tests[] = {CASES(LOOP_NET_ENTRY)};

VMA_TEST_MAIN("dummy", tests, loop_net_enter_group, NULL)
