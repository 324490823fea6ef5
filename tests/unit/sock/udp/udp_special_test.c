/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams in pieces, cut into segments, and with control messages. */
#include <netinet/udp.h>

#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

#define PIECE 30000
#define SEGMENT 100

static struct tsock ts, peer;
static unsigned port, theirs;
static char big[70000], got[70000];

static int connected(void **state)
{
	port = world_port();
	theirs = world_port();
	ts = world_udp(0, port);
	peer = world_udp(1, theirs);
	world_connect(&ts, 1, theirs);
	for (unsigned i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7 + i / 251);
	return 0;
}

static int end(void **state)
{
	tsock_close(&ts);
	tsock_close(&peer);
	return 0;
}

static bool nothing_arrives(void)
{
	return !NET_WAIT(tsock_recv(&peer, got, sizeof(got), 0) != -EAGAIN, 50);
}

static void expect(size_t offset, size_t len)
{
	assert_int_equal(world_recv(&peer, got, sizeof(got)), len);
	assert_memory_equal(got, big + offset, len);
}

/* ---- in pieces ----------------------------------------------------------------------------- */

static void test_pieces_make_one_datagram(void **state)
{
	assert_int_equal(tsock_send(&ts, big, 100, MSG_MORE), 100);
	assert_int_equal(tsock_send(&ts, big + 100, 0, MSG_MORE), 0);
	assert_int_equal(tsock_send(&ts, big + 100, 1000, MSG_MORE), 1000);
	assert_true(nothing_arrives());
	assert_int_equal(tsock_send(&ts, big + 1100, 50, 0), 50);
	expect(0, 1150);
	assert_false(tsock_inet(&ts)->udp.special);
	assert_int_equal(tsock_send(&ts, big, 10, 0), 10);
	expect(0, 10);
}

static void test_a_cork_keeps_a_datagram_until_it_is_pulled(void **state)
{
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_CORK, 1), 0);
	assert_int_equal(tsock_send(&ts, big, 10, 0), 10);
	assert_int_equal(tsock_send(&ts, big + 10, 10, 0), 10);
	assert_true(nothing_arrives());
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_CORK, 0), 0);
	expect(0, 20);
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_CORK, 0), 0); /* there is none */
	assert_true(nothing_arrives());
}

/* As the kernel: what is too long ends the whole datagram, and the next one begins anew. */
static void test_a_piece_too_many_discards_all(void **state)
{
	assert_int_equal(tsock_send(&ts, big, PIECE, MSG_MORE), PIECE);
	assert_int_equal(tsock_send(&ts, big, PIECE, MSG_MORE), PIECE);
	assert_int_equal(tsock_send(&ts, big, PIECE, MSG_MORE), -EMSGSIZE);
	assert_false(tsock_inet(&ts)->udp.special);
	assert_int_equal(tsock_send(&ts, big, 10, 0), 10);
	expect(0, 10);
}

static void test_a_piece_that_cannot_be_read_discards_all(void **state)
{
	test_guard();
	assert_int_equal(tsock_send(&ts, big, 10, MSG_MORE), 10);
	assert_int_equal(tsock_send(&ts, WORLD_BAD, 10, 0), -EFAULT);
	assert_int_equal(tsock_send(&ts, big, 10, 0), 10);
	expect(0, 10);
	assert_true(nothing_arrives());
}

static void test_calls_that_a_datagram_in_the_making_refuses(void **state)
{
	assert_int_equal(tsock_send(&ts, big, 10, MSG_MORE), 10);
	assert_int_equal(tsock_send(&ts, big, 10, MSG_OOB), -EOPNOTSUPP);
	assert_int_equal(tsock_send(&ts, big, 66000, MSG_MORE), -EMSGSIZE);
	assert_int_equal(tsock_send(&ts, big + 10, 10, 0), 10); /* it is still there */
	expect(0, 20);
	assert_int_equal(tsock_send(&ts, big, 10, MSG_MORE), 10);
	assert_int_equal(tsock_shutdown(&ts, SHUT_WR), 0);
	assert_int_equal(tsock_send(&ts, big, 10, 0), -EPIPE);
	assert_int_equal(tsock_inet(&ts)->udp.pending, UDP_PENDING_NOT);
}

/* The first piece decides where it goes to. */
static void test_the_destination_is_that_of_the_first_piece(void **state)
{
	struct sockaddr_in elsewhere = world_addr(2, theirs);
	struct iovec iov = {big + 10, 10};
	struct msghdr msg = {.msg_name = &elsewhere,
			     .msg_namelen = sizeof(elsewhere),
			     .msg_iov = &iov,
			     .msg_iovlen = 1};

	assert_int_equal(tsock_send(&ts, big, 10, MSG_MORE), 10);
	assert_int_equal(sock_ops_of(ts.ref.sk)->send(ts.ref, &msg, 0), 10);
	expect(0, 20);
}

static unsigned frames; /* any, atomic */

static bool count_frame(const struct pkt *pkt)
{
	__atomic_fetch_add(&frames, 1, __ATOMIC_RELAXED);
	return false;
}

/* As many fragments as the length needs, once. */
static void test_a_long_datagram_of_pieces_leaves_in_fragments(void **state)
{
	loop_port_lose(count_frame);
	assert_int_equal(tsock_send(&ts, big, PIECE, MSG_MORE), PIECE);
	assert_int_equal(__atomic_load_n(&frames, __ATOMIC_RELAXED), 0);
	assert_int_equal(tsock_send(&ts, big + PIECE, PIECE, 0), PIECE);
	loop_port_lose(NULL);
	assert_int_equal(__atomic_load_n(&frames, __ATOMIC_RELAXED), (2 * PIECE + 8 + 1479) / 1480);
	assert_int_equal(tsock_inet(&ts)->udp.pending, UDP_PENDING_NOT);
}

/* What is pending goes along to the kernel, which the rest is added to. */
static void test_the_twin_continues_a_datagram(void **state)
{
	int fd = dup(peer.fd), twin = ts.fd;

	assert_int_equal(tsock_send(&ts, big, 10, MSG_MORE), 10);
	assert_int_equal(sock_to_kernel(ts.ref, VERDICT_FORKED), 0);
	assert_int_equal(send(twin, big + 10, 5, 0), 5);
	assert_true(world_readable(fd, WORLD_WAIT));
	assert_int_equal(recv(fd, got, sizeof(got), MSG_DONTWAIT), 15);
	assert_memory_equal(got, big, 15);
	close(fd);
}

/* Its memory: AddressSanitizer looks. */
static void test_a_socket_is_closed_with_a_datagram_in_the_making(void **state)
{
	assert_int_equal(tsock_send(&ts, big, PIECE, MSG_MORE), PIECE);
	tsock_close(&ts);
	assert_true(nothing_arrives());
}

/* ---- in segments ------------------------------------------------------------------------- */

static void test_a_send_is_cut_into_segments(void **state)
{
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_SEGMENT, SEGMENT), 0);
	assert_int_equal(tsock_send(&ts, big, 2 * SEGMENT + 1, 0), 2 * SEGMENT + 1);
	expect(0, SEGMENT);
	expect(SEGMENT, SEGMENT);
	expect(2 * SEGMENT, 1);
	assert_int_equal(tsock_send(&ts, big, SEGMENT, 0), SEGMENT);
	expect(0, SEGMENT);
}

/* The most segments there may be, and one more, which the kernel refuses. */
static void test_the_number_of_segments_is_bounded(void **state)
{
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_SEGMENT, SEGMENT), 0);
	assert_int_equal(tsock_send(&ts, big, 64 * SEGMENT, 0), 64 * SEGMENT);
	for (unsigned i = 0; i < 64; i++)
		expect(i * SEGMENT, SEGMENT);
	assert_int_equal(tsock_send(&ts, big, 64 * SEGMENT + 1, 0), SOCK_KERNEL);
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_SEGMENT, 2000), 0);
	assert_int_equal(tsock_send(&ts, big, 4000, 0), SOCK_KERNEL); /* longer than a frame */
	assert_true(nothing_arrives());
}

/* All segments or none: the last byte cannot be read. */
static void test_segments_that_cannot_be_read_send_nothing(void **state)
{
	struct iovec iov[2] = {{big, 3 * SEGMENT}, {WORLD_BAD, SEGMENT}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	test_guard();
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_SEGMENT, SEGMENT), 0);
	assert_int_equal(sock_ops_of(ts.ref.sk)->send(ts.ref, &msg, 0), -EFAULT);
	assert_true(nothing_arrives());
	assert_int_equal(iov[0].iov_len, 3 * SEGMENT); /* the program's array is as it was */
	assert_ptr_equal(iov[0].iov_base, big);
}

/* ---- in large segments ------------------------------------------------------------------- */

/* What the port was given, and what it answers. */
static struct {
	unsigned large, segments;
	int error;
} seen;

static int take(const struct frame_large *large)
{
	assert_true(frame_large_is_udp(large));
	if (seen.error)
		return seen.error;
	seen.large++;
	seen.segments += frame_large_segments(large);
	return 0;
}

static int with_large(void **state)
{
	int rc = connected(state);

	memset(&seen, 0, sizeof(seen));
	loop_port_large(take);
	return rc ? rc : tsock_set_int(&ts, IPPROTO_UDP, UDP_SEGMENT, SEGMENT);
}

static int without_large(void **state)
{
	loop_port_large(NULL);
	return end(state);
}

/* A large segment of n datagrams, in `pieces` vectors. */
static ssize_t send_large(unsigned n, unsigned pieces)
{
	static struct iovec iov[100];
	size_t each = n * SEGMENT / pieces;
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = pieces};

	for (unsigned i = 0; i < pieces; i++)
		iov[i] = (struct iovec){big + i * each, each};
	iov[pieces - 1].iov_len = n * SEGMENT - (pieces - 1) * each;
	return sock_ops_of(ts.ref.sk)->send(ts.ref, &msg, 0);
}

static void expect_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		expect(i * SEGMENT, SEGMENT);
}

/* What was sent before and after it arrives before and after it. */
static void test_many_segments_leave_as_one_in_order(void **state)
{
	assert_int_equal(tsock_send(&ts, big + 7, 10, 0), 10);
	assert_int_equal(send_large(40, 1), 40 * SEGMENT);
	assert_int_equal(tsock_send(&ts, big + 9, 11, 0), 11);
	assert_int_equal(send_large(64, 3), 64 * SEGMENT);
	assert_int_equal(send_large(64, 64), 64 * SEGMENT);
	assert_int_equal(tsock_send(&ts, big, 40 * SEGMENT + 1, 0), 40 * SEGMENT + 1);
	assert_int_equal(seen.large, 4);
	assert_int_equal(seen.segments, 40 + 64 + 64 + 41);
	expect(7, 10);
	expect_all(40);
	expect(9, 11);
	expect_all(64);
	expect_all(64);
	expect_all(40);
	expect(40 * SEGMENT, 1);
}

static void test_a_port_that_refuses_gets_frames(void **state)
{
	seen.error = -ENOBUFS;
	assert_int_equal(send_large(40, 3), 40 * SEGMENT);
	expect_all(40);
	seen.error = 0;
	assert_int_equal(send_large(64, 100), 64 * SEGMENT); /* too many vectors for the port */
	expect_all(64);
	assert_int_equal(send_large(10, 1), 10 * SEGMENT); /* fits into one frame */
	expect_all(10);
	assert_int_equal(seen.large, 0);
}

/* Few segments are cheaper as frames. */
static void test_few_segments_are_frames(void **state)
{
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_SEGMENT, 1000), 0);
	assert_int_equal(tsock_send(&ts, big, 4000, 0), 4000);
	assert_int_equal(seen.large, 0);
	assert_int_equal(tsock_send(&ts, big, 4001, 0), 4001);
	assert_int_equal(seen.large, 1);
	for (unsigned i = 0; i < 8; i++)
		expect(i % 4 * 1000, 1000);
	expect(4000, 1);
}

/* Each datagram has its time. */
static void test_a_paced_socket_sends_frames(void **state)
{
	assert_int_equal(tsock_set_int(&ts, SOL_SOCKET, SO_MAX_PACING_RATE, 100000000), 0);
	assert_int_equal(send_large(40, 1), 40 * SEGMENT);
	expect_all(40);
	assert_int_equal(seen.large, 0);
}

static void test_large_segments_that_cannot_be_read_send_nothing(void **state)
{
	struct iovec iov[2] = {{big, 39 * SEGMENT}, {WORLD_BAD, SEGMENT}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	test_guard();
	seen.error = -EFAULT;
	assert_int_equal(sock_ops_of(ts.ref.sk)->send(ts.ref, &msg, 0), -EFAULT);
	assert_true(nothing_arrives());
}

/* ---- control messages ---------------------------------------------------------------------- */

union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(struct in_pktinfo))];
};

static ssize_t send_control(struct tsock *from, int type, const void *data, size_t len)
{
	struct sockaddr_in to = world_addr(1, theirs);
	struct iovec iov = {big, 10};
	union control c;
	struct msghdr msg = {.msg_name = &to,
			     .msg_namelen = sizeof(to),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &c,
			     .msg_controllen = CMSG_SPACE(len)};

	memset(&c, 0, sizeof(c));
	c.head = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(len), .cmsg_level = IPPROTO_IP, .cmsg_type = type};
	memcpy(CMSG_DATA(&c.head), data, len);
	return sock_ops_of(from->ref.sk)->send(from->ref, &msg, 0);
}

/* Only the way differs: more ways than there are places for, each with the right sender. */
static void test_the_sender_may_be_chosen_for_each_datagram(void **state)
{
	struct tsock any = tsock_udp();
	struct sockaddr_in from;

	assert_int_equal(tsock_bind(&any, INADDR_ANY, world_port()), 0);
	for (unsigned i = 0; i < 3 * FAKE_LINK_ADDRS; i++) {
		struct in_pktinfo info = {.ipi_spec_dst.s_addr =
						  fake_link_addr(i % FAKE_LINK_ADDRS)};
		ssize_t n = -1;

		assert_int_equal(send_control(&any, IP_PKTINFO, &info, sizeof(info)), 10);
		assert_true(
			NET_WAIT((n = tsock_recvfrom(&peer, got, sizeof(got), &from)) != -EAGAIN,
				 WORLD_WAIT));
		assert_int_equal(n, 10);
		assert_int_equal(from.sin_addr.s_addr, fake_link_addr(i % FAKE_LINK_ADDRS));
	}
	tsock_close(&any);
}

static void test_a_message_that_is_no_good_is_left_to_the_kernel(void **state)
{
	int ttl = 0;

	assert_int_equal(send_control(&ts, IP_TTL, &ttl, sizeof(ttl)), SOCK_KERNEL);
	ttl = 7;
	assert_int_equal(send_control(&ts, IP_TTL, &ttl, 2), SOCK_KERNEL);
	assert_int_equal(send_control(&ts, IP_TTL, &ttl, sizeof(ttl)), 10);
	expect(0, 10);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, connected, end)
#define LARGE(name) cmocka_unit_test_setup_teardown(name, with_large, without_large)

static const struct CMUnitTest tests[] = {
	CASE(test_pieces_make_one_datagram),
	CASE(test_a_cork_keeps_a_datagram_until_it_is_pulled),
	CASE(test_a_piece_too_many_discards_all),
	CASE(test_a_piece_that_cannot_be_read_discards_all),
	CASE(test_calls_that_a_datagram_in_the_making_refuses),
	CASE(test_the_destination_is_that_of_the_first_piece),
	CASE(test_a_long_datagram_of_pieces_leaves_in_fragments),
	CASE(test_the_twin_continues_a_datagram),
	CASE(test_a_socket_is_closed_with_a_datagram_in_the_making),
	CASE(test_a_send_is_cut_into_segments),
	CASE(test_the_number_of_segments_is_bounded),
	CASE(test_segments_that_cannot_be_read_send_nothing),
	LARGE(test_many_segments_leave_as_one_in_order),
	LARGE(test_a_port_that_refuses_gets_frames),
	LARGE(test_few_segments_are_frames),
	LARGE(test_a_paced_socket_sends_frames),
	LARGE(test_large_segments_that_cannot_be_read_send_nothing),
	CASE(test_the_sender_may_be_chosen_for_each_datagram),
	CASE(test_a_message_that_is_no_good_is_left_to_the_kernel),
};

VMA_TEST_MAIN("sock/udp/udp_special", tests, world_start, world_finish)
