/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Batches of datagrams (vma.h).  Some are for this host: such a send lets the ring go for a moment, and the
 * socket may have another home, or be closed, when the thread has the ring again.
 */
#include <netinet/udp.h>
#include <vma/vma.h>

#include "net/frame.h"
#include "sock/udp/udp_sock.h"
#include "tests/unit/sock/world.h"

static struct tsock ts, peer;
static struct sockaddr_in here, there;
static struct sockaddr_in *first; /* where the first message of a batch goes */

/* ---- what the batch calls --------------------------------------------------------------------- */

static void (*meanwhile)(void); /* while the ring is let go */
static bool away;		/* it is */
static unsigned n_local, n_frames, n_wrong;

/* Does this thread hold the home of the socket? */
static bool holds_home(void)
{
	return hold_current == &tsock_home(&ts)->hold;
}

ssize_t __wrap_local_udp_send(struct inet_sock *so, struct dst *dst, const struct msghdr *msg,
			      size_t len, bool lossy);
size_t __real_frame_build_udp_of(const struct frame_template *t, uint8_t *frame, const void *buf,
				 size_t len);
size_t __wrap_frame_build_udp_of(const struct frame_template *t, uint8_t *frame, const void *buf,
				 size_t len);

/* As that of a socket whose home is a ring of an interface. */
ssize_t __wrap_local_udp_send(struct inet_sock *so, struct dst *dst, const struct msghdr *msg,
			      size_t len, bool lossy)
{
	struct ring *home = sock_home(so);

	n_local++;
	ring_release_cold(home);
	away = true;
	meanwhile();
	away = false;
	assert_true(ring_hold_cold(home));
	return (ssize_t)len;
}

size_t __wrap_frame_build_udp_of(const struct frame_template *t, uint8_t *frame, const void *buf,
				 size_t len)
{
	n_frames += !away;
	n_wrong += !holds_home();
	return __real_frame_build_udp_of(t, frame, buf, len);
}

/* ---- a batch ------------------------------------------------------------------------------------ */

static void nothing(void)
{
}

/* Another thread sends, so that the destination is valid again. */
static void send_between(void)
{
	assert_int_equal(tsock_sendto(&ts, "between", 7, &there), 7);
}

static void move_away(void)
{
	static unsigned user = 70;
	const struct ring *home = tsock_home(&ts);

	assert_int_equal(tsock_set_logic(&ts, RING_LOGIC_USER_ID, user++, true, true), 0);
	assert_true(NET_WAIT(tsock_home(&ts) != home, WORLD_WAIT));
	loop_net_settle();
	send_between();
}

/* The next socket is in the same memory. */
static void replace(void)
{
	const struct sock *sk = ts.ref.sk;
	unsigned port = ntohs(tsock_name(&ts).sin_port);

	tsock_close(&ts);
	ts = world_udp(0, port);
	assert_ptr_equal(ts.ref.sk, sk);
	send_between();
}

/* The destination on this host is not the kernel's. */
static void make_local(void)
{
	struct endpoint to;
	struct ring *ring;
	struct dst *dst;

	assert_int_equal(tsock_sendto(&ts, "", 0, &here), SOCK_KERNEL); /* finds it */
	endpoint_from_sin(&to, (struct sockaddr *)&here, sizeof(here));
	assert_int_equal(sock_hold_cold(ts.ref, &ring), 0);
	dst = udp_find_plain(tsock_inet(&ts), &to);
	assert_true(dst && !dst->ring);
	dst->verdict = VERDICT_LOCAL;
	ring_release_cold(ring);
}

static int begin(void **state)
{
	unsigned port = world_port();

	ts = world_udp(0, world_port());
	peer = world_udp(1, port);
	there = world_addr(1, port);
	here = there;
	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(tsock_sendto(&ts, "first", 5, &there), 5);
	world_expect(&peer, "first");
	make_local();
	first = &here;
	n_local = n_frames = n_wrong = 0;
	return 0;
}

static int end(void **state)
{
	if (ts.fd >= 0)
		tsock_close(&ts);
	tsock_close(&peer);
	return 0;
}

/* To `first`, and two to the peer. */
static int send_three(unsigned *done)
{
	static char bytes[] = "012";
	struct vma_message_t m[3];

	memset(m, 0, sizeof(m));
	for (unsigned i = 0; i < 3; i++) {
		m[i].data = &bytes[i];
		m[i].size = 1;
		m[i].addr = (struct sockaddr *)(i ? &there : first);
		m[i].addr_len = sizeof(there);
	}
	return udp_send_batch(ts.ref, m, 3, MSG_DONTWAIT, done);
}

/* One to a receiver of this host, two in frames. */
static void sends_three(void)
{
	unsigned done;

	assert_int_equal(send_three(&done), 0);
	assert_int_equal(done, 3);
	assert_int_equal(n_local, 1);
	assert_int_equal(n_frames, 2);
	assert_int_equal(n_wrong, 0);
}

static void test_it_goes_on_at_home(void **state)
{
	meanwhile = nothing;
	sends_three();
	world_expect(&peer, "1");
	world_expect(&peer, "2");
}

static void test_it_follows_the_socket_to_another_ring(void **state)
{
	meanwhile = move_away;
	sends_three();
	world_expect(&peer, "between");
	world_expect(&peer, "1");
	world_expect(&peer, "2");
}

static void test_it_ends_with_the_socket(void **state)
{
	unsigned done;

	meanwhile = replace;
	assert_int_equal(send_three(&done), -EBADF);
	assert_int_equal(done, 1);
	assert_int_equal(n_frames, 0); /* the next socket has sent nothing of it */
	world_expect(&peer, "between");
}

/* What only sock_ops.send knows is left to it. */
static void test_sends_that_are_not_plain(void **state)
{
	unsigned done = 1;

	first = &there;
	__atomic_fetch_or(&ts.ref.sk->twin_events, EPOLLERR, __ATOMIC_RELAXED);
	assert_int_equal(send_three(&done), SOCK_KERNEL); /* an error waits to be reported */
	assert_int_equal(done, 0);
	__atomic_store_n(&ts.ref.sk->twin_events, 0, __ATOMIC_RELAXED);
	assert_int_equal(tsock_set_int(&ts, IPPROTO_UDP, UDP_CORK, 1), 0);
	assert_int_equal(send_three(&done), SOCK_KERNEL);
	assert_int_equal(done, 0);
	assert_int_equal(n_local + n_frames, 0);
}

/* The datagram is lost, and ends the batch; the next one is there. */
static void test_memory_that_cannot_be_written(void **state)
{
	struct sockaddr_in to = tsock_name(&ts);
	char bytes[2][8] = {"", ""};
	struct vma_message_t m[2] = {{.data = WORLD_BAD, .size = 8}, {.data = bytes[1], .size = 8}};
	unsigned done = 0;

	test_guard();
	assert_int_equal(tsock_sendto(&peer, "one", 3, &to), 3);
	assert_int_equal(tsock_sendto(&peer, "two", 3, &to), 3);
	assert_true(NET_WAIT(world_queued(&ts, 2), WORLD_WAIT));
	udp_recv_batch(ts.ref, m, 2, MSG_DONTWAIT, &done);
	assert_int_equal(done, 1);
	assert_int_equal(m[0].error, EFAULT);
	assert_int_equal(m[0].done, 0);
	assert_int_equal(m[1].done, 0);
	assert_int_equal(udp_recv_batch(ts.ref, &m[1], 1, MSG_DONTWAIT, &done), 0);
	assert_int_equal(done, 1);
	assert_memory_equal(bytes[1], "two", 3);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_it_goes_on_at_home, begin, end),
	cmocka_unit_test_setup_teardown(test_it_follows_the_socket_to_another_ring, begin, end),
	cmocka_unit_test_setup_teardown(test_it_ends_with_the_socket, begin, end),
	cmocka_unit_test_setup_teardown(test_sends_that_are_not_plain, begin, end),
	cmocka_unit_test_setup_teardown(test_memory_that_cannot_be_written, begin, end),
};

VMA_TEST_MAIN("udp_batch", tests, world_start, world_finish)
