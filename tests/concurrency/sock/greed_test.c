/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ten ways to take more than a fair share of the memory for received data. All sockets are on
 * one ring, and share a small VMA_RX_BUFS. Beside each of them a connection that is read at
 * once loses nothing, and its messages need at most one and a half times the polls that they
 * need alone.
 */
#include <errno.h>
#include <linux/tcp.h>
#include <stdlib.h>

#include "duo.h"
#include "vma_test.h"

#include "net/tcp/tcp_wire.h"
#include "ring/logic.h"
#include "sock/core/inet_sock.h"

#define PORT 7000
#define GREEDY_PORT 7001
#define BUFS 256 /* of 2 KB */
#define ECHOES 100
#define HOGS_MAX 320
#define STREAM_MAX 300000

struct greed {
	const char *name;
	/*
	 * number of greedy sockets; rounds: messages to each before the echoes, then one with
	 * each echo
	 */
	unsigned hogs, rounds;
	size_t size; /* of a message, in bytes */
	bool udp;
	bool unaccepted; /* connections */
	bool holes;	 /* the first segment of each stream is always lost */
	bool fin;	 /* after the rounds */
	bool nibbles;	 /* the program reads one byte of each message */
	bool modest;	 /* its own limits stop it before frames run short */
	bool verify;	 /* in the end the program reads everything */
};

static const struct greed shapes[] = {
	{"segments of one byte", 40, 2000, 1, .verify = true},
	{"full segments", 40, 300, 1400, .verify = true},
	{"holes", HOGS_MAX, 40, 1400, .holes = true, .modest = true},
	{"holes, and segments of one byte", HOGS_MAX, 40, 1, .holes = true},
	{"connections that nobody accepts", 40, 300, 500, .unaccepted = true},
	{"a flood of datagrams", 1, 4000, 1400, .udp = true, .modest = true},
	{"datagrams for many", 40, 300, 20, .udp = true},
	{"empty datagrams", 40, 300, 0, .udp = true},
	{"ends of streams", 40, 150, 1000, .fin = true},
	{"readers of single bytes", 40, 300, 1400, .nibbles = true},
};

static const struct greed *greed;
static struct tsock listener, from[HOGS_MAX], to[HOGS_MAX];
static uint32_t sent[HOGS_MAX], got[HOGS_MAX]; /* bytes */
static struct ring *ring;

/* ---- the wire ------------------------------------------------------------------------------- */

static struct {
	uint16_t port;
	uint32_t seq; /* sequence number of the SYN */
} begun[2 * HOGS_MAX];

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

/* holder of the only ring: loses the first segment of each stream. */
static bool lose_first(const struct pkt *pkt)
{
	const uint8_t *ip = pkt->frame + ETH_HDR, *tcp = ip + IP4_HDR;
	uint16_t port = get16(tcp);
	unsigned i = 0, data = get16(ip + 2) - IP4_HDR - (tcp[12] >> 4) * 4u;

	if (ip[9] != IPPROTO_TCP || get16(tcp + 2) != GREEDY_PORT)
		return false;
	while (begun[i].port && begun[i].port != port)
		i++;
	NET_CHECK(i < HOGS_MAX);
	if (tcp[13] & TCP_SYN) {
		begun[i].port = port;
		begun[i].seq = get32(tcp + 4);
	}
	return data && get32(tcp + 4) == begun[i].seq + 1;
}

/* The internal thread polls the ring as well. */
static uint64_t received(void)
{
	uint64_t n;

	NET_CHECK(ring_hold_cold(ring));
	n = ring->stats.rx_frames;
	ring_release_cold(ring);
	return n;
}

static bool frames_ran_short(void)
{
	bool was;

	NET_CHECK(ring_hold_cold(ring));
	was = ring->stats.copied || ring->q->frames_free <= ring->low_water;
	ring_release_cold(ring);
	return was;
}

/*
 * Was a segment retransmitted because of a loss? If this thread did not poll for longer than
 * the retransmission timeout, segments were retransmitted without a loss, and their receiver
 * reports duplicates (RFC 2883).
 */
static bool lost_some(const struct tsock *ts)
{
	struct tcp_info info;

	NET_CHECK(ring_hold_cold(ring));
	tcp_get_info(&tsock_inet(ts)->tcp.conn, &info, clock_now());
	ring_release_cold(ring);
	return info.tcpi_total_retrans > info.tcpi_dsack_dups;
}

/* Polls until the ring is empty. */
static void settle(void)
{
	uint64_t before;

	do {
		before = received();
		for (unsigned i = 0; i < 3; i++)
			sock_poll_ring(ring);
	} while (received() != before);
}

/* ---- hogs ----------------------------------------------------------------------------------- */

static uint8_t byte_at(uint32_t pos)
{
	return (uint8_t)(pos * 2654435761u >> 24);
}

static bool is_connected(const struct tsock *ts)
{
	sock_poll_ring(ring);
	return sock_events(ts->ref.sk) & EPOLLOUT;
}

static void connect_hog(unsigned i)
{
	struct sockaddr_in server = tsock_name(&listener);

	from[i] = tsock_tcp();
	NET_CHECK_EQ(tsock_bind(&from[i], fake_link_addr(1), 0), 0);
	NET_CHECK_EQ(tsock_connect(&from[i], &server), -EINPROGRESS);
	NET_CHECK(NET_WAIT(is_connected(&from[i]), NET_PATIENCE));
	NET_CHECK_EQ(duo_set_nodelay(&from[i], true), 0);
	to[i] = TSOCK_NONE;
	if (!greed->unaccepted)
		to[i] = duo_accept(&listener, NULL);
}

static void bind_hog(unsigned i)
{
	struct sockaddr_in name;

	to[i] = tsock_udp();
	NET_CHECK_EQ(tsock_bind(&to[i], fake_link_addr(0), 0), 0);
	name = tsock_name(&to[i]);
	from[i] = tsock_udp();
	NET_CHECK_EQ(tsock_connect(&from[i], &name), 0);
}

static void open_hogs(void)
{
	listener = tsock_tcp();
	NET_CHECK_EQ(tsock_bind(&listener, fake_link_addr(0), GREEDY_PORT), 0);
	NET_CHECK_EQ(tsock_listen(&listener, HOGS_MAX), 0);
	for (unsigned i = 0; i < greed->hogs; i++) {
		if (greed->udp)
			bind_hog(i);
		else
			connect_hog(i);
	}
}

static void feed(unsigned i)
{
	uint8_t buf[1400], one;
	ssize_t n;

	for (size_t k = 0; k < greed->size; k++)
		buf[k] = byte_at(sent[i] + (uint32_t)k);
	n = tsock_send(&from[i], buf, greed->size, 0);
	NET_CHECK(n >= 0 || n == -EAGAIN || n == -EPIPE);
	if (n > 0)
		sent[i] += (uint32_t)n;
	if (greed->nibbles && tsock_recv(&to[i], &one, 1, 0) == 1)
		NET_CHECK_EQ(one, byte_at(got[i]++));
}

static void feed_all(void)
{
	for (unsigned i = 0; i < greed->hogs; i++)
		feed(i);
}

static bool read_hog(unsigned i)
{
	uint8_t buf[4096];
	ssize_t n;

	if (got[i] == sent[i])
		return true;
	while ((n = tsock_recv(&to[i], buf, sizeof(buf), MSG_DONTWAIT)) > 0) {
		for (ssize_t k = 0; k < n; k++)
			NET_CHECK_EQ(buf[k], byte_at(got[i]++));
	}
	sock_poll_ring(ring);
	return got[i] == sent[i];
}

static bool read_all(void)
{
	bool all = true;

	for (unsigned i = 0; i < greed->hogs; i++)
		all &= read_hog(i);
	return all;
}

static void close_hogs(void)
{
	for (unsigned i = 0; i < greed->hogs; i++) {
		if (!greed->udp)
			tsock_linger_none(&from[i]);
		tsock_close(&from[i]);
		if (to[i].fd < 0)
			continue;
		if (!greed->udp)
			tsock_linger_none(&to[i]);
		tsock_close(&to[i]);
	}
	tsock_close(&listener);
}

/* ---- beside them ---------------------------------------------------------------------------- */

/* Polls until the message has arrived; the call itself polls when it finds nothing. */
static unsigned polls_until_taken(struct duo *echo, unsigned dir)
{
	unsigned polls = 1;

	while (!duo_take(echo, dir)) {
		NET_CHECK(polls < 1000);
		polls++;
	}
	return polls;
}

static unsigned run_echoes(struct duo *echo)
{
	unsigned polls = 0;

	for (unsigned i = 0; i < ECHOES; i++) {
		if (greed)
			feed_all();
		settle();
		for (unsigned dir = 0; dir < 2; dir++) {
			duo_send(echo, dir, 1);
			polls += polls_until_taken(echo, dir);
		}
	}
	settle();
	for (unsigned i = 0; i < 2; i++)
		NET_CHECK(!lost_some(&echo->end[i]));
	return polls;
}

static void run_shape(void *arg)
{
	struct tsock healthy;
	struct duo echo;
	unsigned alone;

	duo_params(HOLD_SPIN);
	params.ring_logic_rx = params.ring_logic_tx = RING_LOGIC_INTERFACE;
	params.rx_bufs = BUFS;
	loop_net_start();
	healthy = duo_listener(PORT);
	duo_open(&echo, DUO_TCP, &healthy);
	ring = tsock_home(&echo.end[0]);
	alone = run_echoes(&echo);

	greed = arg;
	if (greed->holes)
		loop_port_lose(lose_first);
	open_hogs();
	for (unsigned i = 0; i < greed->rounds; i++) {
		feed_all();
		settle();
	}
	for (unsigned i = 0; greed->fin && i < greed->hogs; i++)
		tsock_shutdown(&from[i], SHUT_WR);
	settle();
	NET_CHECK(greed->modest || frames_ran_short());
	NET_CHECK(run_echoes(&echo) * 2 <= alone * 3);

	loop_port_lose(NULL);
	NET_CHECK(!greed->verify || NET_WAIT(read_all(), NET_PATIENCE));
	duo_close(&echo);
	close_hogs();
	duo_end(&healthy);
}

static void test_shape(void **state)
{
	const struct greed *shape = *state;

	print_message("%s\n", shape->name);
	assert_int_equal(loop_net_run(shape->name, run_shape, (void *)(uintptr_t)shape, 60), 0);
}

#define SHAPE(i)                                                   \
	{                                                          \
		.name = "test_shape_" #i, .test_func = test_shape, \
		.initial_state = (void *)(uintptr_t)&shapes[i]     \
	}

static const struct CMUnitTest tests[] = {
	SHAPE(0), SHAPE(1), SHAPE(2), SHAPE(3), SHAPE(4),
	SHAPE(5), SHAPE(6), SHAPE(7), SHAPE(8), SHAPE(9),
};

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

VMA_TEST_MAIN("sock/greed", tests, enter, NULL)
