/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reader of local datagrams that is behind its senders: it goes on to read in the quick way, and whoever polls
 * for it neither hides the rest nor makes it slow.
 */
#include "receiver_fixture.h"

#define BURST (8 * LOCAL_PULL_MAX)

static unsigned slow; /* receives that the quick way left to the others */

static ssize_t receive_slowly(int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = {buf, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	(void)fd;
	slow++;
	return local_udp_ops[ring_mode_now()].recv(sock_ref_of(so), &msg, flags | MSG_DONTWAIT);
}

static ssize_t receive(void)
{
	char byte;

	return local_udp_ops[ring_mode_now()].quick_recv(7, &byte, 1, 0, sock_ref_of(so));
}

static int begin_test(void **state)
{
	begin(state);
	open_writer();
	sock_hooks.recv = receive_slowly;
	assert_int_equal(receive(), -EAGAIN); /* the kernel has nothing */
	slow = 0;
	return 0;
}

/* No notice. */
static void write_many(unsigned n)
{
	struct record_header h = header();
	char byte = 'r';
	struct iovec iov = {&byte, 1};

	while (n--)
		assert_int_equal(record_ring_write(&writer, &h, &iov, 1, 1), 0);
}

static void receive_many(unsigned n)
{
	while (n--)
		assert_int_equal(receive(), 1);
}

/* A notice makes datagrams of some of a burst; of how many? */
static unsigned take_some(void)
{
	unsigned n;

	write_many(BURST);
	n = poll_once(true);
	assert_in_range(n, 1, BURST / 2);
	return n;
}

static void test_the_rest_is_read_the_quick_way(void **state)
{
	unsigned taken = take_some();

	receive_many(BURST);
	assert_in_range(slow, taken, taken + 3); /* some more are when the kernel is asked */
	assert_int_equal(receive(), -EAGAIN);
}

static void test_a_poll_finds_the_rest(void **state)
{
	unsigned read = 0;

	take_some();
	for (; so->udp.head; read++)
		receive_many(1);
	assert_in_range(read, 1, BURST / 2 + 3);
	assert_int_equal(poll_once(false), LOCAL_PULL_MAX);
	receive_many(BURST - read);
	assert_int_equal(poll_once(false), 0);
	assert_int_equal(receive(), -EAGAIN);
}

/* Without a writer no poll looks: the queue tells that there is more. */
static void test_the_rest_of_the_dead_is_not_hidden(void **state)
{
	unsigned all = 0;

	take_some();
	assert_true(control_lock());
	assert_true(local_writers_end(so->udp.local));
	control_unlock();
	for (; so->udp.head; all++)
		assert_int_equal(receive(), 1);
	assert_int_equal(all, BURST);
}

/* This thread is the internal one, too. */
static void test_the_internal_thread_leaves_what_others_read(void **state)
{
	progress_stop();
	write_many(BURST);
	receive_many(1);
	ring_thread.internal = true;
	assert_int_equal(poll_once(true), 0);
	ring_thread.internal = false;
	receive_many(1);
	ring_thread.internal = true;
	assert_int_equal(poll_once(false), 0);
	assert_int_equal(poll_once(false), LOCAL_PULL_MAX); /* nobody has read */
	assert_int_equal(poll_once(false), 2 * LOCAL_PULL_MAX);
	ring_thread.internal = false;
	receive_many(BURST - 2);
	assert_int_equal(receive(), -EAGAIN);
	assert_int_equal(progress_start(), 0);
}

static unsigned rounds; /* any, atomic */

static bool count_rounds(void)
{
	__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
	return hook();
}

/*
 * Notices without an end, and reads that do not poll: the internal thread looks every 40 ms. If it did not rest, it
 * would make a round in some 20 us; on a slow machine it makes fewer.
 */
static void test_the_internal_thread_rests_beside_quick_reads(void **state)
{
	nsec_t begin, now;

	progress_stop();
	progress_set_hook(count_rounds);
	assert_int_equal(progress_start(), 0);
	begin = now = clock_now();
	while (now < begin + NSEC_PER_SEC) {
		for (unsigned i = 0; i < 100; i++) {
			write_many(1);
			assert_true(ring_hold_cold(local_ring()));
			local_end_post(&end);
			ring_release_cold(local_ring());
			receive_many(1);
		}
		now = clock_now();
	}
	assert_in_range(__atomic_load_n(&rounds, __ATOMIC_RELAXED), 1,
			(now - begin) / (2 * NSEC_PER_MSEC));
	progress_stop();
	progress_set_hook(hook);
	assert_int_equal(progress_start(), 0);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, finish)

static const struct CMUnitTest tests[] = {
	TEST(test_the_rest_is_read_the_quick_way),
	TEST(test_a_poll_finds_the_rest),
	TEST(test_the_rest_of_the_dead_is_not_hidden),
	TEST(test_the_internal_thread_leaves_what_others_read),
	TEST(test_the_internal_thread_rests_beside_quick_reads),
};

VMA_TEST_MAIN("local_udp_behind", tests, setup, teardown)
