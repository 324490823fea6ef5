/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Paced datagrams.  The rate is 1 byte per second, so nothing leaves by the real clock during
 * the test; fire() lets simulated time pass, up to the moment that the timer is armed for.
 */
#include <netinet/udp.h>

#include "mellanox/vma_extra.h"
#include "sock/udp/udp_pace.h"
#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

#define LEN 100
#define PACKET (LEN + IP4_HDR + UDP_HDR)
#define CHARGE udp_pace_charge(PACKET + ETH_HDR)

static struct tsock ts, peer;
static unsigned theirs;
static char data[70000], got[2000];
static unsigned frames; /* any, atomic: sent by any ring */

static bool count_frame(const struct pkt *pkt)
{
	__atomic_fetch_add(&frames, 1, __ATOMIC_RELAXED);
	return false;
}

static unsigned sent(void)
{
	return __atomic_load_n(&frames, __ATOMIC_RELAXED);
}

static void set_rate(uint64_t rate)
{
	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate)), 0);
}

/* The destination is known; the next datagram leaves at once, further ones wait. */
static int paced(void **state)
{
	theirs = world_port();
	ts = world_udp(0, world_port());
	peer = world_udp(1, theirs);
	world_connect(&ts, 1, theirs);
	assert_int_equal(tsock_send(&ts, "x", 1, 0), 1);
	world_expect(&peer, "x");
	set_rate(1);
	__atomic_store_n(&frames, 0, __ATOMIC_RELAXED);
	loop_port_lose(count_frame);
	return 0;
}

static int end(void **state)
{
	loop_port_lose(NULL);
	if (ts.fd >= 0)
		tsock_close(&ts);
	tsock_close(&peer);
	assert_int_equal(__atomic_load_n(&udp_pace_waiting, __ATOMIC_RELAXED), 0);
	return 0;
}

static void send_number(char number)
{
	data[0] = number;
	assert_int_equal(tsock_send(&ts, data, LEN, 0), LEN);
}

static void expect_number(char number)
{
	assert_int_equal(world_recv(&peer, got, sizeof(got)), LEN);
	assert_int_equal(got[0], number);
}

static struct udp_pace *pace(void)
{
	return tsock_inet(&ts)->udp.pace;
}

/* Time passes until shortly before the next frame may leave, then until then. */
static void fire(struct udp_pace *p, struct ring *ring)
{
	unsigned before = sent();
	nsec_t when;

	assert_true(ring_hold_cold(ring));
	when = p->timer.when;
	assert_true(when == pace_when(&p->pace, p->head->len - ETH_HDR));
	wheel_cancel(&ring->wheel, &p->timer);
	p->timer.fire(&p->timer, when - 1);
	ring_release_cold(ring);
	assert_int_equal(sent(), before);

	assert_true(ring_hold_cold(ring));
	assert_true(p->timer.when == when);
	wheel_cancel(&ring->wheel, &p->timer);
	p->timer.fire(&p->timer, when);
	ring_release_cold(ring);
	assert_int_equal(sent(), before + 1);
}

static void fire_home(void)
{
	fire(pace(), tsock_home(&ts));
}

static uint32_t writable(void)
{
	return sock_events(ts.ref.sk) & (EPOLLOUT | EPOLLWRNORM);
}

/* ---- cases --------------------------------------------------------------------------------- */

static void test_datagrams_leave_in_order_each_at_its_time(void **state)
{
	nsec_t first;

	for (char i = 0; i < 5; i++)
		send_number(i);
	assert_int_equal(sent(), 1);
	expect_number(0);
	first = pace()->pace.at;
	for (char i = 1; i < 5; i++) {
		assert_true(pace()->timer.when ==
			    first + (i - 1) * PACKET * NSEC_PER_SEC - PACE_EARLY);
		fire_home();
		expect_number(i);
	}
	assert_false(timer_armed(&pace()->timer));
	assert_int_equal(pace()->bytes, 0);
}

/* As in the kernel: what was accepted counts until it has left, half of it gives EPOLLOUT back. */
static void test_a_full_buffer_refuses(void **state)
{
	uint32_t sndbuf;
	unsigned n = 0, waiting;

	assert_int_equal(tsock_set_int(&ts, SOL_SOCKET, SO_SNDBUF, 1), 0);
	sndbuf = tsock_inet(&ts)->opt->sndbuf;
	send_number(0);
	expect_number(0);
	while (n < 1000 && tsock_send(&ts, data, LEN, 0) == LEN)
		n++;
	assert_int_equal(n, (sndbuf + CHARGE - 1) / CHARGE);
	assert_int_equal(tsock_send(&ts, data, LEN, 0), -EAGAIN);
	assert_int_equal(tsock_send(&ts, data, LEN, MSG_MORE), LEN); /* no datagram yet */
	assert_int_equal(tsock_send(&ts, data, LEN, 0), -EAGAIN);    /* and none now */
	assert_int_equal(writable(), 0);
	for (waiting = n; waiting; waiting--) {
		assert_int_equal(pace()->bytes, waiting * CHARGE);
		assert_int_equal(writable() != 0, waiting * CHARGE <= sndbuf / 2);
		fire_home();
	}
	assert_true(writable());
	assert_int_equal(sent(), n + 1);
}

static void *send_one(void *arg)
{
	send_number('b');
	return NULL;
}

static void test_a_full_buffer_blocks(void **state)
{
	pthread_t thread;
	unsigned n = 1;

	assert_int_equal(tsock_set_int(&ts, SOL_SOCKET, SO_SNDBUF, 1), 0);
	while (n < 1000 && tsock_send(&ts, data, LEN, 0) == LEN)
		n++;
	tsock_block(&ts, true);
	assert_int_equal(pthread_create(&thread, NULL, send_one, NULL), 0);
	assert_true(NET_WAIT(__atomic_load_n(&ts.ref.sk->waiters, __ATOMIC_SEQ_CST), 30000));
	while (!writable())
		fire_home();
	pthread_join(thread, NULL);
	tsock_block(&ts, false);
	while (pace()->head)
		fire_home();
	assert_int_equal(sent(), n);
}

static void test_a_closed_socket_still_sends(void **state)
{
	struct udp_pace *p;
	struct ring *ring;

	for (char i = 0; i < 4; i++)
		send_number(i);
	p = pace();
	tsock_close(&ts);
	ts = TSOCK_NONE;
	ring = p->ring;
	assert_int_equal(sent(), 1);
	for (char i = 0; i < 4; i++) {
		expect_number(i);
		if (i < 3)
			fire(p, ring);
	}
}

/* The kernel serves the socket from now on; what waits here leaves as it would have. */
static void test_what_waits_when_the_kernel_takes_over(void **state)
{
	struct udp_pace *p;
	int twin = ts.fd;

	send_number(0);
	send_number(1);
	p = pace();
	assert_int_equal(sock_to_kernel(ts.ref, VERDICT_FORKED), 0);
	ts = TSOCK_NONE;
	fire(p, p->ring);
	expect_number(0);
	expect_number(1);
	close(twin);
}

static void test_without_a_limit_all_leaves_at_once(void **state)
{
	for (char i = 0; i < 4; i++)
		send_number(i);
	assert_true(tsock_inet(&ts)->udp.special);
	set_rate(UINT64_MAX);
	assert_int_equal(sent(), 4);
	for (char i = 0; i < 4; i++)
		expect_number(i);
	assert_false(tsock_inet(&ts)->udp.special);
	send_number(4);
	expect_number(4);
}

static void test_the_socket_moves_to_another_ring(void **state)
{
	struct ring *before = tsock_home(&ts);

	for (char i = 0; i < 4; i++)
		send_number(i);
	assert_int_equal(tsock_set_logic(&ts, RING_LOGIC_USER_ID, 4712, true, true), 0);
	assert_true(NET_WAIT(tsock_home(&ts) != before, 30000));
	loop_net_settle();
	for (char i = 0; i < 4; i++) {
		expect_number(i);
		if (i < 3)
			fire_home();
	}
}

/* Each segment, and each fragment, is a packet. */
static void test_segments_and_fragments_have_times_of_their_own(void **state)
{
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_SEGMENT, LEN), 0);
	assert_int_equal(tsock_send(&ts, data, 3 * LEN, 0), 3 * LEN);
	assert_int_equal(sent(), 1);
	fire_home();
	fire_home();
	assert_int_equal(pace()->bytes, 0);
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_SEGMENT, 0), 0);
	assert_int_equal(tsock_send(&ts, data, 4000, 0), 4000);
	for (unsigned i = 0; i < (4000 + UDP_HDR + 1479) / 1480; i++)
		fire_home();
	assert_null(pace()->head);
}

/* What struct vma_rate_limit_t says about bursts. */
static void test_a_burst_leaves_at_once(void **state)
{
	struct vma_rate_limit_t limit = {.rate = 8, .max_burst_sz = 2, .typical_pkt_sz = 1500};
	const struct inet_sock *so = tsock_inet(&ts);
	struct ring *ring;

	assert_int_equal(tsock_set(&ts, SOL_SOCKET, SO_MAX_PACING_RATE, &limit, sizeof(limit)), 0);
	assert_int_equal(so->opt->pacing, 1000);
	assert_int_equal(so->opt->pacing_burst, 1500);
	set_rate(1);
	assert_int_equal(so->opt->pacing_burst, 0);

	send_number(0);
	assert_true(ring_hold_cold(tsock_home(&ts)));
	ring = tsock_home(&ts);
	pace()->pace.burst = 3 * PACKET + 5;
	pace()->pace.at -= 1000000 * NSEC_PER_SEC; /* since then nothing was sent */
	ring_release_cold(ring);
	for (char i = 1; i < 6; i++)
		send_number(i);
	assert_int_equal(sent(), 1 + 3);
	fire_home();
	fire_home();
	for (char i = 0; i < 6; i++)
		expect_number(i);
}

static void test_a_dummy_is_not_paced(void **state)
{
	send_number(0);
	send_number(1);
	assert_int_equal(tsock_send(&ts, data, LEN, VMA_SND_FLAGS_DUMMY), LEN);
	assert_int_equal(pace()->bytes, CHARGE);
	fire_home();
	assert_int_equal(sent(), 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, paced, end)

static const struct CMUnitTest tests[] = {
	CASE(test_datagrams_leave_in_order_each_at_its_time),
	CASE(test_a_full_buffer_refuses),
	CASE(test_a_full_buffer_blocks),
	CASE(test_a_closed_socket_still_sends),
	CASE(test_what_waits_when_the_kernel_takes_over),
	CASE(test_without_a_limit_all_leaves_at_once),
	CASE(test_the_socket_moves_to_another_ring),
	CASE(test_segments_and_fragments_have_times_of_their_own),
	CASE(test_a_burst_leaves_at_once),
	CASE(test_a_dummy_is_not_paced),
};

VMA_TEST_MAIN("sock/udp/udp_pace", tests, world_start, world_finish)
