/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams of one sender that arrive in one burst: as if each had come alone. */
#include "sock/core/extra/held.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

#define BURST 12u

static struct tsock ts, peer;
static unsigned ours, theirs;

/* As world_start(), but the internal thread leaves rings to this one: what is sent stays in one burst. */
static int start(void **state)
{
	loop_net_enter();
	params.log_level = LOG_WARNING;
	params.progress_interval = 0;
	params.thread_mode = HOLD_YIELD;
	params.cq_poll_batch_max = 64; /* more than a callback's thread takes at a time */
	loop_net_start();
	return 0;
}

/* It is connected; its ring is its own, so that sends of the peer do not poll it. */
static int begin(void **state)
{
	static unsigned user = 70;

	ours = world_port();
	theirs = world_port();
	ts = tsock_udp();
	assert_int_equal(tsock_set_logic(&ts, RING_LOGIC_USER_ID, user++, true, true), 0);
	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), ours), 0);
	peer = world_udp(1, theirs);
	world_connect(&ts, 1, theirs);
	for (int i = 0; i < 3; i++) {
		world_send(&peer, 0, ours, "first");
		world_expect(&ts, "first");
	}
	return 0;
}

static int end(void **state)
{
	tsock_close(&ts);
	tsock_close(&peer);
	return 0;
}

static struct ring *hold(void)
{
	struct ring *ring;

	assert_true(sock_hold(ts.ref, &ring));
	return ring;
}

/* n datagrams with their numbers, while no thread polls the ring; then one poll takes them all. */
static void arrive(unsigned n)
{
	struct ring *ring;
	int got;

	assert_ptr_not_equal(tsock_home(&ts), tsock_home(&peer));
	for (char i = 0; i < (char)n; i++) {
		char text[] = {(char)('a' + i), 0};

		world_send(&peer, 0, ours, text);
	}
	ring = hold();
	got = ring_poll(ring);
	sock_release(ring);
	assert_int_equal(got, n);
}

static void expect(char from, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char text[] = {(char)(from + (char)i), 0};

		world_expect(&ts, text);
	}
}

static void expect_nothing(void)
{
	char byte;

	world_settle();
	assert_int_equal(tsock_recv(&ts, &byte, 1, 0), -EAGAIN);
	assert_int_equal(tsock_inet(&ts)->udp.bytes, 0);
	assert_int_equal(tsock_inet(&ts)->udp.count, 0);
}

static void test_a_burst_is_queued_in_order(void **state)
{
	arrive(BURST);
	assert_true(sock_events(ts.ref.sk) & EPOLLIN);
	expect('a', BURST);
	assert_false(sock_events(ts.ref.sk) & EPOLLIN);
	expect_nothing();
}

/* What does not fit is dropped and counted, one for one; what fits is there. */
static void test_a_burst_that_does_not_fit(void **state)
{
	struct udp_state *udp = &tsock_inet(&ts)->udp;
	uint64_t dropped, ring_dropped;
	uint32_t one;
	struct ring *ring;

	arrive(1);
	one = udp->bytes;
	expect('a', 1);
	ring = hold();
	udp->limit = 5 * one;
	dropped = udp->dropped;
	ring_dropped = ring->stats.drops[DROP_SOCK_FULL];
	sock_release(ring);
	arrive(BURST);
	ring = hold();
	assert_int_equal(udp->dropped, dropped + BURST - 5);
	assert_int_equal(ring->stats.drops[DROP_SOCK_FULL], ring_dropped + BURST - 5);
	sock_release(ring);
	expect('a', 5);
	expect_nothing();
	arrive(3);
	expect('a', 3);
	expect_nothing();
}

/* Free frames run low: each datagram becomes a copy. */
static void test_a_burst_is_copied_when_frames_run_low(void **state)
{
	struct ring *ring = hold();
	unsigned low_water = ring->low_water;
	uint64_t copied = ring->stats.copied;

	ring->low_water = UINT32_MAX;
	sock_release(ring);
	arrive(BURST);
	ring = hold();
	ring->low_water = low_water;
	assert_true(ring->stats.copied >= copied + BURST);
	sock_release(ring);
	expect('a', BURST);
	expect_nothing();
}

static void test_a_burst_for_a_socket_that_was_closed(void **state)
{
	for (char i = 0; i < (char)BURST; i++)
		world_send(&peer, 0, ours, "late");
	tsock_close(&ts);
	world_settle();
	ts = world_udp(0, ours);
	world_connect(&ts, 1, theirs);
	expect_nothing();
	world_send(&peer, 0, ours, "new");
	world_expect(&ts, "new");
}

/* ---- with a callback, from two senders ------------------------------------------------- */

#define SEEN_MAX 32u

/* What the callback was told: in the order of its calls. */
static struct seen {
	char text;
	uint16_t from, to; /* ports, host order */
	uint32_t from_addr, to_addr;
	bool timed;
} seen[SEEN_MAX];
static unsigned n_seen;
static char lets_pass; /* the datagram that it passes; 0: none */
static char ends_at;   /* the one at which its thread ends; 0: none */
static bool holds;     /* it holds each second one */
static void *held[SEEN_MAX];
static unsigned n_held;

/* It writes where it was told the addresses, and at the times. */
static vma_recv_callback_retval_t see(int fd, size_t n, struct iovec iov[], struct vma_info_t *info,
				      void *context)
{
	struct seen *s = &seen[n_seen++ % SEEN_MAX];

	(void)fd;
	(void)context;
	assert_int_equal(n, 1);
	assert_int_equal(info->payload_sz, iov[0].iov_len);
	*s = (struct seen){
		.text = *(const char *)iov[0].iov_base,
		.from = ntohs(info->src->sin_port),
		.to = ntohs(info->dst->sin_port),
		.from_addr = info->src->sin_addr.s_addr,
		.to_addr = info->dst->sin_addr.s_addr,
		.timed = info->sw_timestamp.tv_sec != 0,
	};
	assert_int_equal(info->src->sin_family, AF_INET);
	assert_int_equal(info->dst->sin_family, AF_INET);
	memset(info->src, 0xee, sizeof(*info->src));
	memset(info->dst, 0xee, sizeof(*info->dst));
	if (s->text == ends_at)
		pthread_exit(NULL);
	if (holds && s->text % 2) {
		held[n_held++] = info->packet_id;
		return VMA_PACKET_HOLD;
	}
	return s->text == lets_pass ? VMA_PACKET_RECV : VMA_PACKET_DROP;
}

/* Not connected, with a callback. */
static int begin_open(void **state)
{
	begin(state);
	tsock_close(&ts);
	ts = tsock_udp();
	assert_int_equal(tsock_set_logic(&ts, RING_LOGIC_USER_ID, 100, true, true), 0);
	assert_int_equal(tsock_bind(&ts, fake_link_addr(0), ours), 0);
	for (int i = 0; i < 3; i++) {
		world_send(&peer, 0, ours, "first");
		world_expect(&ts, "first");
	}
	assert_int_equal(sock_set_callback(ts.ref, 5, see, NULL), 0);
	n_seen = 0;
	n_held = 0;
	lets_pass = ends_at = 0;
	holds = false;
	return 0;
}

/* Runs the callback, which may end the thread. */
static void *poll_once(void *polled)
{
	struct ring *ring = hold();

	*(int *)polled = ring_poll(ring);
	sock_release(ring);
	return NULL;
}

/* Each of runs is so many from one of both; they come in one burst, and have letters in turn. */
static void arrive_by_turns(struct tsock *other, const unsigned *runs, unsigned n_runs)
{
	unsigned sent = 0;
	pthread_t thread;
	int polled;

	for (unsigned r = 0; r < n_runs; r++) {
		for (unsigned i = 0; i < runs[r]; i++) {
			char text[] = {(char)('a' + (char)sent++), 0};

			world_send(r % 2 ? other : &peer, 0, ours, text);
		}
	}
	assert_int_equal(pthread_create(&thread, NULL, poll_once, &polled), 0);
	pthread_join(thread, NULL);
	assert_int_equal(polled, sent);
}

static void check_seen(unsigned at, char text, unsigned from)
{
	assert_int_equal(seen[at].text, text);
	assert_int_equal(seen[at].from, from);
	assert_int_equal(seen[at].to, ours);
	assert_int_equal(seen[at].from_addr, fake_link_addr(1));
	assert_int_equal(seen[at].to_addr, fake_link_addr(0));
	assert_true(seen[at].timed);
}

static void test_a_callback_is_told_each_sender(void **state)
{
	static const unsigned runs[] = {4, 5, 3, 1, 3};
	unsigned other_port = world_port(), at = 0;
	struct tsock other = world_udp(1, other_port);

	for (int round = 0; round < 2; round++) {
		n_seen = at = 0;
		arrive_by_turns(&other, runs, 5);
		assert_int_equal(n_seen, 16);
		for (unsigned r = 0; r < 5; r++) {
			for (unsigned i = 0; i < runs[r]; i++, at++)
				check_seen(at, (char)('a' + (char)at), r % 2 ? other_port : theirs);
		}
		expect_nothing();
	}
	tsock_close(&other);
}

/* What it has not seen goes back, and is seen later, as if it were the first of its run. */
static void test_a_callback_passes_one_of_a_run(void **state)
{
	static const unsigned runs[] = {3, 9};
	unsigned other_port = world_port();
	struct tsock other = world_udp(1, other_port);

	lets_pass = 'f';
	arrive_by_turns(&other, runs, 2);
	expect('f', 1);
	expect_nothing();
	assert_int_equal(n_seen, 12);
	for (unsigned at = 0; at < 12; at++)
		check_seen(at, (char)('a' + (char)at), at < 3 ? theirs : other_port);
	tsock_close(&other);
}

/*
 * What is passed has all that recvmsg() tells, wherever it was: at the beginning of what was taken at
 * once, in it, and behind it.
 */
static void test_what_a_callback_passes_has_all(void **state)
{
	static const unsigned one[] = {FILTER_BATCH + 5};
	static const char which[] = "acpqst";
	struct udp_state *udp = &tsock_inet(&ts)->udp;

	for (unsigned i = 0; i < sizeof(which) - 1; i++) {
		struct ring *ring = hold();
		struct pkt passed = {.len = 0};
		int ifindex;

		udp->dropped = 7 + i;
		sock_release(ring);
		n_seen = 0;
		lets_pass = which[i];
		arrive_by_turns(&peer, one, 1);
		ring = hold();
		if (udp->head)
			passed = *udp->head;
		ifindex = ring->ifindex;
		sock_release(ring);
		assert_int_equal(passed.ifindex, ifindex);
		assert_int_equal(passed.drops, 7 + i);
		assert_true(passed.stamp > NSEC_PER_SEC);
		expect(which[i], 1);
		expect_nothing();
		assert_int_equal(n_seen, FILTER_BATCH + 5);
		for (unsigned at = 0; at < n_seen; at++)
			check_seen(at, (char)('a' + (char)at), theirs);
	}
}

/* The others are dropped, and what is held is charged until it is back. */
static void test_a_callback_holds_each_second_one(void **state)
{
	static const unsigned one[] = {FILTER_BATCH + 5};

	holds = true;
	arrive_by_turns(&peer, one, 1);
	assert_int_equal(n_seen, FILTER_BATCH + 5);
	assert_int_equal(n_held, FILTER_BATCH / 2 + 3);
	for (unsigned at = 0; at < n_seen; at++)
		check_seen(at, (char)('a' + (char)at), theirs);
	assert_true(tsock_inet(&ts)->udp.bytes > 0);
	for (unsigned i = 0; i < n_held; i++)
		assert_int_equal(held_free(held[i], ts.ref), 0);
	expect_nothing();
}

/* It is called for none that has arrived before, once it is another one; the new one sees all. */
static vma_recv_callback_retval_t replace(int fd, size_t n, struct iovec iov[],
					  struct vma_info_t *info, void *context)
{
	see(fd, n, iov, info, context);
	assert_int_equal(sock_set_callback(ts.ref, 5, see, NULL), 0);
	n_seen += 10;
	return VMA_PACKET_DROP;
}

static void test_a_callback_is_replaced_in_a_run(void **state)
{
	static const unsigned one[] = {4};

	assert_int_equal(sock_set_callback(ts.ref, 5, replace, NULL), 0);
	arrive_by_turns(&peer, one, 1);
	assert_int_equal(n_seen, 14);
	check_seen(0, 'a', theirs);
	for (unsigned at = 1; at < 4; at++)
		check_seen(10 + at, (char)('a' + (char)at), theirs);
	expect_nothing();
}

/* Another thread sees the rest of the run. */
static void test_a_callback_ends_its_thread(void **state)
{
	static const unsigned one[] = {8};

	ends_at = 'd';
	arrive_by_turns(&peer, one, 1);
	assert_int_equal(n_seen, 4);
	expect_nothing();
	assert_int_equal(n_seen, 8);
	for (unsigned at = 0; at < 8; at++)
		check_seen(at, (char)('a' + (char)at), theirs);
}

/* Datagrams that do not fit are dropped; the others are seen. */
static void test_a_callback_and_a_burst_that_does_not_fit(void **state)
{
	static const unsigned one[] = {1}, many[] = {8};
	struct udp_state *udp = &tsock_inet(&ts)->udp;
	uint64_t dropped = udp->dropped;
	uint32_t limit = udp->limit;
	struct ring *ring;

	arrive_by_turns(&peer, one, 1);
	assert_int_equal(n_seen, 1);
	ring = hold();
	udp->limit = 1; /* the first one fits */
	sock_release(ring);
	arrive_by_turns(&peer, many, 1);
	assert_int_equal(n_seen, 2);
	check_seen(1, 'a', theirs);
	assert_int_equal(udp->dropped, dropped + 7);
	ring = hold();
	udp->limit = limit;
	sock_release(ring);
	expect_nothing();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define OPEN_TEST(name) cmocka_unit_test_setup_teardown(name, begin_open, end)

static const struct CMUnitTest tests[] = {
	TEST(test_a_burst_is_queued_in_order),
	TEST(test_a_burst_that_does_not_fit),
	TEST(test_a_burst_is_copied_when_frames_run_low),
	TEST(test_a_burst_for_a_socket_that_was_closed),
	OPEN_TEST(test_a_callback_is_told_each_sender),
	OPEN_TEST(test_a_callback_passes_one_of_a_run),
	OPEN_TEST(test_what_a_callback_passes_has_all),
	OPEN_TEST(test_a_callback_holds_each_second_one),
	OPEN_TEST(test_a_callback_is_replaced_in_a_run),
	OPEN_TEST(test_a_callback_ends_its_thread),
	OPEN_TEST(test_a_callback_and_a_burst_that_does_not_fit),
};

VMA_TEST_MAIN("udp_run", tests, start, world_finish)
