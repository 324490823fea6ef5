/* SPDX-License-Identifier: BSD-2-Clause */
/* A receiver of local datagrams that receives frames, too: its home is another ring than the local one. */
#include "receiver_fixture.h"

static int begin_beside(void **state)
{
	struct ring *ring;

	begin(state);
	assert_true(control_lock());
	assert_int_equal(sock_hold_cold(sock_ref_of(so), &ring), 0);
	sock_set_home(so, rings_nowhere());
	ring_release_cold(ring);
	assert_true(local_receive(so)); /* it stays listed */
	/* The local ring is its home again if it has none. */
	assert_ptr_equal(sock_home(so), local_ring());
	assert_int_equal(sock_hold_cold(sock_ref_of(so), &ring), 0);
	sock_set_home(so, rings_nowhere());
	ring_release_cold(ring);
	control_unlock();
	open_writer();
	return 0;
}

static uint32_t datagrams(void)
{
	uint32_t n;

	assert_true(ring_hold_cold(rings_nowhere()));
	n = so->udp.count;
	ring_release_cold(rings_nowhere());
	return n;
}

static uint32_t poll_local(void)
{
	assert_true(ring_hold_cold(local_ring()));
	ring_poll(local_ring());
	ring_release_cold(local_ring()); /* runs what was posted meanwhile */
	return datagrams();
}

static uint32_t write_and_post(char byte)
{
	struct record_header h = header();
	struct iovec iov = {&byte, 1};

	assert_true(ring_hold_cold(local_ring()));
	assert_int_equal(record_ring_write(&writer, &h, &iov, 1, 1), 0);
	local_end_post(&end);
	ring_release_cold(local_ring());
	return poll_local();
}

static void pop(char byte)
{
	assert_true(ring_hold_cold(rings_nowhere()));
	assert_non_null(so->udp.head);
	assert_int_equal(*pkt_payload(so->udp.head), byte);
	pkt_free(udp_pop(so));
	ring_release_cold(rings_nowhere());
}

static void test_a_notice_reaches_its_home(void **state)
{
	assert_int_equal(write_and_post('a'), 1);
	assert_true(sock_events(&so->sk) & EPOLLIN);
	assert_int_equal(write_and_post('b'), 2);
	pop('a');
	pop('b');
}

static void test_what_found_no_room_comes_without_a_notice(void **state)
{
	so->udp.limit = 500;
	for (int i = 0; i < 20; i++)
		write_and_post((char)('a' + i));
	assert_in_range(datagrams(), 2, 10);
	for (int i = 0; i < 20; i++) {
		pop((char)('a' + i));
		(void)poll_local();
	}
	assert_int_equal(poll_local(), 0);
}

/* It has read the only datagram of its queue, and may sleep now: the rest must be there. */
static void test_the_queue_is_not_empty_before_the_ring_is(void **state)
{
	so->udp.limit = 1;
	for (int i = 0; i < 3; i++)
		write_and_post((char)('a' + i));
	assert_int_equal(datagrams(), 1);
	assert_true(ring_hold_cold(rings_nowhere()));
	so->udp.limit = 10000;
	so->sk.twin_events = 0;
	assert_int_equal(local_turn(so, LOCAL_TURN_LOOKED), LOCAL_TURN_OURS);
	assert_int_equal(so->udp.count, 2);
	pkt_free(udp_pop(so));
	assert_int_equal(local_turn(so, LOCAL_TURN_LOOKED), LOCAL_TURN_OURS);
	assert_int_equal(so->udp.count, 2);
	pkt_free(udp_pop(so));
	assert_int_equal(local_turn(so, LOCAL_TURN_LOOKED), LOCAL_TURN_OURS);
	assert_int_equal(so->udp.count, 1);
	ring_release_cold(rings_nowhere());
	assert_int_equal(poll_local(), 1);
}

static void test_a_look_follows_the_socket(void **state)
{
	struct record_header h = header();
	struct local_udp *l = so->udp.local;
	char byte = 'a';
	struct iovec iov = {&byte, 1};

	assert_int_equal(record_ring_write(&writer, &h, &iov, 1, 1), 0);
	assert_true(ring_hold_cold(local_ring())); /* its home was this one when it was posted */
	l->look_state = LOOK_POSTED;
	local_look_run(local_ring(), &l->look);
	assert_int_equal(so->udp.count, 0); /* this is not the holder */
	ring_release_cold(local_ring());
	assert_int_equal(datagrams(), 1);
	assert_int_equal(l->look_state, LOOK_NOT);
}

static void test_an_end_leaves_a_posted_look_its_memory(void **state)
{
	struct local_udp *l = so->udp.local;
	unsigned before = __atomic_load_n(&notices, __ATOMIC_RELAXED);

	l->look_state = LOOK_POSTED;
	assert_true(control_lock());
	local_udp_end(so);
	control_unlock();
	assert_null(so->udp.local);
	assert_int_equal(l->look_state, LOOK_ENDED);
	local_look_run(rings_nowhere(), &l->look); /* frees it */
	await(&notices, before + 1);		   /* the writer was told */
	assert_true(record_ring_is_closed(&writer));
	assert_true(control_lock());
	assert_true(local_receive(so)); /* for finish() */
	control_unlock();
}

static void test_a_receiver_that_stops_keeps_what_it_has(void **state)
{
	struct record_header h = header();
	char byte = 'a';
	struct iovec iov = {&byte, 1};

	assert_int_equal(record_ring_write(&writer, &h, &iov, 1, 1), 0);
	assert_true(control_lock());
	local_receive_stop(so);
	control_unlock();
	assert_int_equal(datagrams(), 1);
	assert_int_equal(record_ring_write(&writer, &h, &iov, 1, 1), -EPIPE);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_beside, finish)

static const struct CMUnitTest tests[] = {
	TEST(test_a_notice_reaches_its_home),
	TEST(test_what_found_no_room_comes_without_a_notice),
	TEST(test_the_queue_is_not_empty_before_the_ring_is),
	TEST(test_a_look_follows_the_socket),
	TEST(test_an_end_leaves_a_posted_look_its_memory),
	TEST(test_a_receiver_that_stops_keeps_what_it_has),
};

VMA_TEST_MAIN("local_beside", tests, setup, teardown)
