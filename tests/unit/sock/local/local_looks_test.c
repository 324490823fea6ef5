/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A receive on a local connection that finds nothing looks again for a moment before it waits.  The
 * initiator's end is tested; the responder's rings are in the test's hands.
 */
#include "conn_fixture.h"

#include "base/param.h"
#include "looks.h"

static struct byte_ring_reader in;
static struct byte_ring_writer out;
static char text[LOCAL_RING_MIN];

static void write_bytes(void)
{
	struct iovec iov = {text, 3};

	assert_int_equal(byte_ring_write(&out, &iov, 1, 0), 3);
}

static void end_stream(void)
{
	byte_ring_finish(&out);
	notice_post(&link_to_us->out, so->shm.end.number);
}

static void twin_event(void)
{
	__atomic_store_n(&so->sk.twin_events, EPOLLIN, __ATOMIC_RELAXED);
}

static void signal_handled(void)
{
	sock_signals.handled++;
}

static int begin_test(void **state)
{
	(void)state;
	arrive_at = 0;
	params.rx_poll = -1;
	params.rx_poll_yield = false;
	spin_shared_until = 0;
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	__atomic_store_n(&so->sk.ops, &local_kind.ops[ring_mode_now()], __ATOMIC_RELAXED);
	ring_release_cold(local_ring());
	return 0;
}

static int end_test(void **state)
{
	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	end();
	ring_release_cold(local_ring());
	return 0;
}

static ssize_t receive(int flags)
{
	return look_and_recv(so, text, sizeof(text), flags);
}

/* A receive looks so many times, and returns -EAGAIN. */
static void looks_are(unsigned looks, int flags)
{
	assert_int_equal(receive(flags), -EAGAIN);
	assert_int_equal(looked, looks);
}

static void test_looks_end(void **state)
{
	(void)state;
	looks_are(QUICK_LOOKS, 0);
}

static void test_what_arrives_meanwhile_is_received(void **state)
{
	(void)state;
	arriving = write_bytes;
	arrive_at = 5;
	assert_int_equal(receive(0), 3);
	assert_int_equal(looked, 5);
	assert_int_equal(so->shm.reads, 1);
}

static void test_a_name_and_flags_are_told(void **state)
{
	struct sockaddr_in name;
	struct iovec iov = {text, sizeof(text)};
	struct msghdr msg = {.msg_name = &name,
			     .msg_namelen = sizeof(name),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_flags = MSG_TRUNC};

	(void)state;
	arriving = write_bytes;
	looked = 0;
	arrive_at = 1;
	quick_nothing = true;
	assert_int_equal(sock_ops_of(&so->sk)->recv(sock_ref_of(so), &msg, 0), 3);
	assert_int_equal(looked, 1);
	assert_int_equal(msg.msg_namelen, 0);
	assert_int_equal(msg.msg_flags, 0);
}

/* Anything but bytes is for the other way, at once. */
static void test_the_end_of_the_stream_ends_the_looks(void **state)
{
	(void)state;
	arriving = end_stream;
	arrive_at = 5;
	assert_int_equal(receive(0), 0);
	assert_int_equal(looked, 5);
}

static void test_the_twin_ends_the_looks(void **state)
{
	(void)state;
	arriving = twin_event;
	arrive_at = 5;
	looks_are(5, 0);
}

static void test_a_signal_interrupts_the_call(void **state)
{
	(void)state;
	arriving = signal_handled;
	arrive_at = 5;
	assert_int_equal(receive(0), -EINTR);
	assert_int_equal(looked, QUICK_LOOKS);
}

static void test_a_call_that_does_not_block_does_not_look(void **state)
{
	(void)state;
	looks_are(0, MSG_DONTWAIT);
	__atomic_store_n(&so->sk.nonblock, 1, __ATOMIC_RELAXED);
	looks_are(0, 0);
}

static void test_other_rings_have_their_turn(void **state)
{
	(void)state;
	so->n_rings = 2;
	looks_are(0, 0);
	so->n_rings = 0;
	looks_are(QUICK_LOOKS, 0);
}

static void test_polls_limit_the_looks(void **state)
{
	(void)state;
	params.rx_poll = 0;
	looks_are(0, 0);
	params.rx_poll = 7;
	looks_are(7, 0);
	params.rx_poll = 100000;
	looks_are(QUICK_LOOKS, 0);
}

static void test_a_thread_that_shares_its_core_does_not_look(void **state)
{
	(void)state;
	spin_shared_until = clock_now() + NSEC_PER_SEC;
	looks_are(0, 0);
	spin_shared_until = 0;
	params.rx_poll_yield = true;
	looks_are(0, 0);
}

static unsigned recvs; /* that were left to the other way */

static ssize_t other_recv(int fd, void *buf, size_t len, int flags)
{
	(void)fd;
	(void)buf;
	(void)len;
	(void)flags;
	recvs++;
	return -1;
}

/* Only what the quick way has found quiet is worth a look, and once. */
static void test_the_quick_way_tells_whether_to_look(void **state)
{
	const struct sock_ops *ops = sock_ops_of(&so->sk);
	struct iovec iov = {text, sizeof(text)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	(void)state;
	sock_hooks.recv = other_recv;
	so->rcvtimeo = 1;
	assert_int_equal(ops->quick_recv(7, text, sizeof(text), 0, sock_ref_of(so)), -1);
	assert_true(quick_nothing);
	looked = 0;
	assert_int_equal(ops->recv(sock_ref_of(so), &msg, 0), -EAGAIN);
	assert_int_equal(looked, QUICK_LOOKS);
	assert_int_equal(ops->recv(sock_ref_of(so), &msg, 0), -EAGAIN);
	assert_int_equal(looked, QUICK_LOOKS);
	end_stream();
	quick_nothing = true;
	assert_int_equal(ops->quick_recv(7, text, sizeof(text), 0, sock_ref_of(so)), -1);
	assert_false(quick_nothing);
	assert_int_equal(recvs, 2);
}

/* One look, which finds that it is the other way's. */
static void test_a_receive_of_more_is_left(void **state)
{
	(void)state;
	so->rcvlowat = 2;
	looks_are(1, 0);
	so->rcvlowat = 1;
}

static const struct CMUnitTest tests[] = {
#define EACH(fn) cmocka_unit_test_setup_teardown(fn, begin_test, end_test)
	EACH(test_looks_end),
	EACH(test_what_arrives_meanwhile_is_received),
	EACH(test_a_name_and_flags_are_told),
	EACH(test_the_end_of_the_stream_ends_the_looks),
	EACH(test_the_twin_ends_the_looks),
	EACH(test_a_signal_interrupts_the_call),
	EACH(test_a_call_that_does_not_block_does_not_look),
	EACH(test_other_rings_have_their_turn),
	EACH(test_polls_limit_the_looks),
	EACH(test_a_thread_that_shares_its_core_does_not_look),
	EACH(test_the_quick_way_tells_whether_to_look),
	EACH(test_a_receive_of_more_is_left),
};

VMA_TEST_MAIN("local_looks", tests, setup, teardown)
