/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams of one sender to a group that arrive in one burst: taken at once, as if each had come alone. */
#include "sock/core/extra/sock_extra.h"
#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

#define LO 1 /* where the twins join; FAKE_LINK_INDEX for the library */
#define BURST 12u
#define USER 90 /* both members have one ring */

static const char *const group = "239.1.1.1";
static struct tsock ts, second, from;
static unsigned port, theirs;

/* The internal thread leaves rings to this one: what is sent stays in one burst. */
static int start(void **state)
{
	loop_net_enter();
	params.log_level = LOG_WARNING;
	params.progress_interval = 0;
	params.thread_mode = HOLD_YIELD;
	loop_net_start();
	return 0;
}

static struct tsock member(void)
{
	struct ip_mreqn req = {.imr_multiaddr.s_addr = inet_addr(group), .imr_ifindex = LO};
	struct tsock one = tsock_udp();

	assert_int_equal(tsock_set_logic(&one, RING_LOGIC_USER_ID, USER, true, true), 0);
	assert_int_equal(tsock_set_int(&one, SOL_SOCKET, SO_REUSEADDR, 1), 0);
	assert_int_equal(tsock_bind(&one, INADDR_ANY, port), 0);
	assert_int_equal(tsock_set(&one, IPPROTO_IP, IP_ADD_MEMBERSHIP, &req, sizeof(req)), 0);
	return one;
}

static void send_to_group(const char *text)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr.s_addr = inet_addr(group),
				 .sin_port = htons((uint16_t)port)};

	assert_int_equal(tsock_sendto(&from, text, strlen(text), &to), strlen(text));
}

static int begin(void **state)
{
	port = world_port();
	theirs = world_port();
	ts = member();
	from = world_udp(1, theirs);
	assert_int_equal(tsock_set_int(&from, IPPROTO_IP, IP_MULTICAST_LOOP, 0), 0);
	for (int i = 0; i < 3; i++) { /* the headers of the next one are predicted */
		send_to_group("first");
		world_expect(&ts, "first");
	}
	return 0;
}

static int end(void **state)
{
	tsock_close(&ts);
	tsock_close(&from);
	return 0;
}

static struct ring *hold(void)
{
	struct ring *ring;

	assert_true(sock_hold(ts.ref, &ring));
	return ring;
}

/* ---- how often the flow is asked ------------------------------------------------------------ */

static flow_fn real_deliver;
static unsigned asked;

static enum drop count_calls(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	asked++;
	return real_deliver(ring, flow, pkt, now);
}

static struct flow *flow_of_group(void)
{
	list_for_each(link, &tsock_inet(&ts)->flows) {
		if (sock_flow_of(link)->multicast)
			return &sock_flow_of(link)->flow;
	}
	fail_msg("no flow of the group");
	return NULL;
}

/* n datagrams with their numbers, while no thread polls the ring; then one poll takes them all. */
static void arrive(unsigned n)
{
	struct ring *ring;
	int got;

	assert_ptr_not_equal(tsock_home(&ts), tsock_home(&from));
	for (char i = 0; i < (char)n; i++) {
		char text[] = {(char)('a' + i), 0};

		send_to_group(text);
	}
	ring = hold();
	real_deliver = flow_of_group()->deliver;
	flow_of_group()->deliver = count_calls;
	asked = 0;
	got = ring_poll(ring);
	flow_of_group()->deliver = real_deliver;
	sock_release(ring);
	assert_int_equal(got, n);
}

static void expect(struct tsock *one, unsigned n)
{
	char byte;

	for (unsigned i = 0; i < n; i++) {
		char text[] = {(char)('a' + (char)i), 0};

		world_expect(one, text);
	}
	world_settle();
	assert_int_equal(tsock_recv(one, &byte, 1, 0), -EAGAIN);
	assert_int_equal(tsock_inet(one)->udp.bytes, 0);
	assert_int_equal(tsock_inet(one)->udp.count, 0);
}

/* ---- cases -------------------------------------------------------------------------------- */

static void test_a_burst_is_taken_at_once(void **state)
{
	arrive(BURST);
	assert_int_equal(asked, 1);
	assert_true(sock_events(ts.ref.sk) & EPOLLIN);
	expect(&ts, BURST);
	assert_false(sock_events(ts.ref.sk) & EPOLLIN);
}

static void test_each_of_two_members_gets_all(void **state)
{
	second = member();
	assert_ptr_equal(tsock_home(&second), tsock_home(&ts));
	for (int i = 0; i < 3; i++) {
		send_to_group("second");
		world_expect(&ts, "second");
		world_expect(&second, "second");
	}
	arrive(BURST);
	assert_int_equal(asked, BURST);
	expect(&ts, BURST);
	expect(&second, BURST);
	tsock_close(&second);
}

static uint64_t filtered(void)
{
	struct ring *ring = hold();
	uint64_t n = ring->stats.drops[DROP_SOCK_FILTER];

	sock_release(ring);
	return n;
}

/* Each one is dropped, and counted. */
static void test_a_blocked_sender_is_not_heard(void **state)
{
	struct ip_mreq_source req = {.imr_multiaddr.s_addr = inet_addr(group),
				     .imr_interface.s_addr = fake_link_addr(0),
				     .imr_sourceaddr.s_addr = fake_link_addr(1)};
	uint64_t before = filtered();

	assert_int_equal(tsock_set(&ts, IPPROTO_IP, IP_BLOCK_SOURCE, &req, sizeof(req)), 0);
	for (int i = 0; i < 2; i++) { /* the second burst is predicted from the beginning */
		arrive(BURST);
		expect(&ts, 0);
	}
	assert_int_equal(filtered(), before + 2 * BURST);
	assert_int_equal(tsock_set(&ts, IPPROTO_IP, IP_UNBLOCK_SOURCE, &req, sizeof(req)), 0);
	arrive(BURST);
	expect(&ts, BURST);
}

static void test_a_connected_member_hears_its_peer(void **state)
{
	uint64_t before;

	world_connect(&ts, 1, theirs);
	arrive(BURST);
	expect(&ts, BURST);
	world_connect(&ts, 1, theirs + 1000);
	before = filtered();
	arrive(BURST);
	expect(&ts, 0);
	assert_int_equal(filtered(), before + BURST);
}

static unsigned n_seen;

static vma_recv_callback_retval_t callback(int fd, size_t n, struct iovec iov[],
					   struct vma_info_t *info, void *context)
{
	assert_int_equal(n, 1);
	assert_int_equal(*(const char *)iov[0].iov_base, 'a' + (char)n_seen);
	assert_int_equal(info->src->sin_addr.s_addr, fake_link_addr(1));
	assert_int_equal(info->src->sin_port, htons((uint16_t)theirs));
	assert_int_equal(info->dst->sin_addr.s_addr, inet_addr(group));
	assert_int_equal(info->dst->sin_port, htons((uint16_t)port));
	n_seen++;
	return VMA_PACKET_DROP;
}

static void test_a_callback_sees_each(void **state)
{
	n_seen = 0;
	assert_int_equal(sock_set_callback(ts.ref, ts.fd, callback, NULL), 0);
	arrive(BURST);
	assert_int_equal(asked, 1);
	assert_int_equal(n_seen, BURST);
	assert_int_equal(sock_set_callback(ts.ref, ts.fd, NULL, NULL), 0);
	expect(&ts, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_a_burst_is_taken_at_once, begin, end),
	cmocka_unit_test_setup_teardown(test_each_of_two_members_gets_all, begin, end),
	cmocka_unit_test_setup_teardown(test_a_blocked_sender_is_not_heard, begin, end),
	cmocka_unit_test_setup_teardown(test_a_connected_member_hears_its_peer, begin, end),
	cmocka_unit_test_setup_teardown(test_a_callback_sees_each, begin, end),
};

VMA_TEST_MAIN("udp_group_run", tests, start, world_finish)
