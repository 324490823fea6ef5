/* SPDX-License-Identifier: BSD-2-Clause */
/* What a listener does on one ring with what strangers send. */
#include "net/tcp/tcp_wire.h"
#include "sock/tcp/tcp_sock.h"
#include "tests/unit/sock/world.h"

#define FLOOD 2000 /* SYNs, each of another port of a few hosts */
#define HOSTS 8
#define BACKLOG 4

static struct tsock listener;
static unsigned port;

/* The wire: what the listener sends by its ring; any, atomic. */
static struct {
	unsigned answers;   /* SYN-ACKs; each that is not acknowledged comes again after a second */
	unsigned answered;  /* ports of clients that got one; a flood has no port twice */
	bool loses_answers; /* they are lost, so handshakes stay half open */
	uint32_t to;	    /* the host that got the last one */
	bool is_answered[65536];
} wire;

static bool look(const struct pkt *pkt)
{
	const uint8_t *tcp = pkt->frame + pkt->l4;
	bool answer = (pkt->tcp_flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK) &&
		      (tcp[0] << 8 | tcp[1]) == (int)port;
	bool *is_answered = &wire.is_answered[tcp[2] << 8 | tcp[3]];
	uint32_t to;

	if (!answer)
		return false;
	memcpy(&to, pkt->frame + ETH_HDR + 16, 4);
	__atomic_store_n(&wire.to, to, __ATOMIC_RELAXED);
	if (!__atomic_exchange_n(is_answered, true, __ATOMIC_RELAXED))
		__atomic_fetch_add(&wire.answered, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&wire.answers, 1, __ATOMIC_RELEASE);
	return __atomic_load_n(&wire.loses_answers, __ATOMIC_ACQUIRE);
}

static unsigned answers(void)
{
	return __atomic_load_n(&wire.answers, __ATOMIC_ACQUIRE);
}

static unsigned answered(void)
{
	return __atomic_load_n(&wire.answered, __ATOMIC_ACQUIRE);
}

static void lose_answers(bool lose)
{
	__atomic_store_n(&wire.loses_answers, lose, __ATOMIC_RELEASE);
}

static int begin(void **state)
{
	port = world_port();
	memset(&wire, 0, sizeof(wire));
	loop_port_lose(look);
	listener = world_listener(0, port, BACKLOG);
	return 0;
}

static int end(void **state)
{
	tsock_close(&listener);
	loop_port_lose(NULL);
	world_settle(); /* no thread is in look() any more */
	fake_netlink_refuse(0);
	params.tcp_max_syn_rate = 0;
	return 0;
}

/* ---- forged SYNs ------------------------------------------------------------------------- */

static struct tcp_shard *shard_of(const struct tsock *ts)
{
	return sock_flow_of(tsock_inet(ts)->flows.next)->shard;
}

/* A SYN from a stranger arrives at the listener's ring. */
static void forge_syn(uint32_t from, unsigned from_port)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	struct frame_params fp = {
		.src_mac = mac,
		.dst_mac = mac,
		.src = {.addr = addr_v4(from), .port = htons((uint16_t)from_port)},
		.dst = {.addr = addr_v4(fake_link_addr(0)), .port = htons((uint16_t)port)},
		.proto = IPPROTO_TCP,
		.ttl = 64,
	};
	struct tcp_segment seg = {.seq = from_port * 7919, .flags = TCP_SYN, .wnd = 1000};
	struct frame_template tmpl;
	struct pkt *pkt = pkt_blank(256);
	struct ring *ring = tsock_home(&listener);

	assert_non_null(pkt);
	assert_int_equal(frame_template_init(&tmpl, &fp), 0);
	pkt->frame_len = (uint32_t)frame_build_tcp(&tmpl, pkt->frame, &seg);
	assert_true(ring_hold_cold(ring));
	ring_receive(ring, pkt);
	ring_poll(ring);
	ring_release_cold(ring);
}

static unsigned pending(void)
{
	struct ring *ring = tsock_home(&listener);
	unsigned n;

	assert_true(ring_hold_cold(ring));
	n = shard_of(&listener)->l.pending;
	ring_release_cold(ring);
	return n;
}

/* The number of handshakes is bounded, all are answered (cookies), and a client gets in. */
static void test_a_flood_of_syns_neither_fills_memory_nor_shuts_the_door(void **state)
{
	struct tsock client, child;

	lose_answers(true); /* nobody is there, who would send a reset */
	for (unsigned i = 0; i < FLOOD; i++)
		forge_syn(htonl(0x0a030000 + i % HOSTS), 1000 + i);
	assert_true(NET_WAIT(answered() == FLOOD, WORLD_WAIT));
	assert_int_equal(pending(), BACKLOG + 1);
	lose_answers(false);
	world_pair(&listener, port, &client, &child);
	assert_int_equal(tsock_send(&client, "in", 2, 0), 2);
	world_expect(&child, "in");
	tsock_close(&client);
	tsock_close(&child);
}

static void test_a_sender_that_the_kernel_does_not_hear_is_not_answered(void **state)
{
	fake_netlink_refuse(htonl(0x0a020005));
	forge_syn(htonl(0x0a020005), 1000);
	forge_syn(htonl(0x0a020006), 1000);
	assert_true(NET_WAIT(answers() > 0, WORLD_WAIT));
	assert_int_equal(__atomic_load_n(&wire.to, __ATOMIC_RELAXED), htonl(0x0a020006));
	assert_int_equal(pending(), 1);
}

/* A burst that is short passes, the rest is dropped. */
static void test_new_handshakes_have_a_rate(void **state)
{
	nsec_t began = clock_now();

	params.tcp_max_syn_rate = 1;
	for (unsigned i = 0; i < 100; i++)
		forge_syn(htonl(0x0a020006), 1000 + i);
	assert_true(NET_WAIT(answered() >= 1, WORLD_WAIT));
	assert_in_range(answered(), 1, 3 + (unsigned)((clock_now() - began) / NSEC_PER_SEC));
}

/* The host has lost the address: silence, also to SYNs that come again. */
static void test_a_listener_whose_address_is_gone_says_nothing(void **state)
{
	struct ring *ring = tsock_home(&listener);

	assert_true(ring_hold_cold(ring));
	shard_of(&listener)->address_gone = true;
	ring_release_cold(ring);
	forge_syn(htonl(0x0a020007), 1000);
	forge_syn(htonl(0x0a020007), 1000);
	assert_true(NET_WAIT(pending() == 1, WORLD_WAIT));
	assert_int_equal(answers(), 0);
	assert_true(ring_hold_cold(ring));
	shard_of(&listener)->address_gone = false;
	ring_release_cold(ring);
	forge_syn(htonl(0x0a020007), 1000);
	assert_true(NET_WAIT(answered() == 1, WORLD_WAIT));
}

/* ---- connections ---------------------------------------------------------------------------- */

/* Connections that wait to be accepted. */
static unsigned waiting(void)
{
	return __atomic_load_n(&tsock_inet(&listener)->listen.waiting, __ATOMIC_ACQUIRE);
}

/* One more than the backlog, as the kernel counts; the next one waits until there is room. */
static void test_a_full_queue_keeps_handshakes_until_there_is_room(void **state)
{
	struct tsock clients[BACKLOG + 2], children[BACKLOG + 2];

	for (unsigned i = 0; i < BACKLOG + 1; i++) {
		clients[i] = tsock_tcp();
		world_connect(&clients[i], 0, port);
	}
	assert_true(NET_WAIT(waiting() == BACKLOG + 1, WORLD_WAIT));
	clients[BACKLOG + 1] = tsock_tcp();
	world_connect(&clients[BACKLOG + 1], 0, port);
	world_settle();
	assert_int_equal(waiting(), BACKLOG + 1);
	for (unsigned i = 0; i < BACKLOG + 2; i++)
		children[i] = world_accept(&listener);
	for (unsigned i = 0; i < BACKLOG + 2; i++) {
		tsock_close(&clients[i]);
		tsock_close(&children[i]);
	}
}

static void test_children_begin_with_the_options_of_their_listener(void **state)
{
	struct tsock client, child;
	struct inet_sock *so;

	assert_int_equal(tsock_set_timeout(&listener, SO_RCVTIMEO, 2000), 0);
	assert_int_equal(tsock_set_int(&listener, IPPROTO_IP, IP_TTL, 77), 0);
	assert_int_equal(tsock_set_int(&listener, SOL_SOCKET, SO_RCVBUF, 20000), 0);
	world_pair(&listener, port, &client, &child);
	so = tsock_inet(&child);
	assert_int_equal(so->rcvtimeo, 2000);
	assert_int_equal(so->opt->ttl, 77);
	assert_int_equal(so->opt->rcvbuf, 40000);
	assert_int_equal(so->family, AF_INET);
	assert_true(sock_life_is(so, LIFE_CONNECTED));
	tsock_close(&client);
	tsock_close(&child);
}

/* The peers of those in the queue, and of those on their way, are reset; all memory comes back. */
static void test_a_listener_is_closed_with_all_that_waits(void **state)
{
	struct tsock queued = tsock_tcp(), half = tsock_tcp();
	char c;

	world_connect(&queued, 0, port);
	assert_true(NET_WAIT(waiting() == 1, WORLD_WAIT));
	lose_answers(true);
	world_connect(&half, 0, port);
	assert_true(NET_WAIT(pending() == 1, WORLD_WAIT));
	tsock_close(&listener);
	assert_true(NET_WAIT(tsock_recv(&queued, &c, 1, 0) == -ECONNRESET, WORLD_WAIT));
	tsock_close(&queued);
	tsock_close(&half);
}

/* An answer that was lost comes again, by the path that was found for the first one. */
static void test_a_lost_answer_is_repeated(void **state)
{
	struct tsock client = tsock_tcp(), child;

	lose_answers(true);
	world_connect(&client, 0, port);
	assert_true(NET_WAIT(answers() > 0, WORLD_WAIT));
	lose_answers(false);
	child = world_accept(&listener);
	assert_true(answers() >= 2);
	tsock_close(&client);
	tsock_close(&child);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

static const struct CMUnitTest tests[] = {
	CASE(test_a_flood_of_syns_neither_fills_memory_nor_shuts_the_door),
	CASE(test_a_sender_that_the_kernel_does_not_hear_is_not_answered),
	CASE(test_new_handshakes_have_a_rate),
	CASE(test_a_listener_whose_address_is_gone_says_nothing),
	CASE(test_a_full_queue_keeps_handshakes_until_there_is_room),
	CASE(test_children_begin_with_the_options_of_their_listener),
	CASE(test_a_listener_is_closed_with_all_that_waits),
	CASE(test_a_lost_answer_is_repeated),
};

VMA_TEST_MAIN("sock/tcp/tcp_shard", tests, world_start, world_finish)
