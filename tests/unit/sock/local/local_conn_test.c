/* SPDX-License-Identifier: BSD-2-Clause */
/* The initiator's end of a local connection: notices at any moment of its life. */
#include "conn_fixture.h"

/* The peer posted it for the connection that had the number before. */
static void test_a_notice_that_comes_before_the_rings_are_open(void **state)
{
	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin();
	notice();
	assert_false(so->shm.established || so->shm.ended);
	assert_int_equal(sock_own_events(so), 0);
	end();
	ring_release_cold(local_ring());
}

static void test_notices_before_the_answer(void **state)
{
	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin();
	assert_int_equal(local_conn_open(so, slot, LOCAL_RING_MIN), 0);
	notice();
	assert_false(so->shm.established || so->shm.ended);
	/* release: as the responder stores it */
	__atomic_store_n(&shared()->answer, LOCAL_ACCEPTED, __ATOMIC_RELEASE);
	notice();
	assert_true(so->shm.established);
	assert_int_equal(sock_own_events(so), EPOLLOUT | EPOLLWRNORM);
	end();
	ring_release_cold(local_ring());
}

/* Any answer but those that exist is a refusal. */
static void test_an_answer_that_cannot_be(void **state)
{
	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin();
	assert_int_equal(local_conn_open(so, slot, LOCAL_RING_MIN), 0);
	/* release: as the responder stores it */
	__atomic_store_n(&shared()->answer, 77, __ATOMIC_RELEASE);
	notice();
	assert_true(local_is_refused(so) && !so->shm.established);
	assert_int_equal(sock_own_events(so), 0); /* the kernel connects */
	end();
	ring_release_cold(local_ring());
}

static void write_byte(void)
{
	char c = 'x';
	struct iovec iov = {&c, 1};

	assert_int_equal(byte_ring_write(&so->shm.out, &iov, 1, 0), 1);
}

/* A peer that closes finishes its direction, and then does not read any more. */
static void test_bytes_that_are_written_while_the_peer_closes(void **state)
{
	struct byte_ring_reader in;
	struct byte_ring_writer out;

	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	byte_ring_finish(&out);
	notice();
	write_byte();
	byte_ring_close(&in);
	assert_false(so->shm.ended);
	notice();
	assert_true(so->shm.ended);
	assert_true(sock_own_events(so) & EPOLLHUP);
	assert_int_equal(local_conn_take_error(so), EPIPE);
	end();
	ring_release_cold(local_ring());
}

static void test_the_peer_has_read_all_before_it_closes(void **state)
{
	struct byte_ring_reader in;
	struct byte_ring_writer out;
	char c;
	struct iovec iov = {&c, 1};

	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	write_byte();
	assert_int_equal(byte_ring_read(&in, &iov, 1, 0), 1);
	byte_ring_finish(&out);
	byte_ring_close(&in);
	notice();
	assert_false(so->shm.ended);
	end();
	ring_release_cold(local_ring());
}

#define READABLE (EPOLLIN | EPOLLRDNORM)
#define WRITABLE (EPOLLOUT | EPOLLWRNORM)

static void send_to_us(struct byte_ring_writer *out, size_t n, unsigned flags)
{
	char bytes[8] = {0};
	struct iovec iov = {bytes, n};

	assert_int_equal(byte_ring_write(out, &iov, 1, flags), n);
	notice();
}

static uint32_t events_after_read(size_t n)
{
	assert_int_equal(byte_ring_discard(&so->shm.in, (uint32_t)n), n);
	local_after_read(so, (ssize_t)n);
	return sock_own_events(so);
}

static void test_it_is_readable_while_bytes_are_there(void **state)
{
	struct byte_ring_reader in;
	struct byte_ring_writer out;

	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	send_to_us(&out, 3, 0);
	assert_int_equal(sock_own_events(so), READABLE | WRITABLE);
	assert_int_equal(events_after_read(2), READABLE | WRITABLE);
	assert_int_equal(events_after_read(1), WRITABLE);
	send_to_us(&out, 1, 0);
	assert_int_equal(sock_own_events(so), READABLE | WRITABLE);
	notice(); /* for nothing */
	assert_int_equal(events_after_read(1), WRITABLE);
	notice();
	assert_int_equal(sock_own_events(so), WRITABLE);
	end();
	ring_release_cold(local_ring());
}

/* SO_RCVLOWAT */
static void test_it_is_not_readable_below_the_low_water_mark(void **state)
{
	struct byte_ring_reader in;
	struct byte_ring_writer out;

	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	so->rcvlowat = 3;
	send_to_us(&out, 2, 0);
	assert_int_equal(sock_own_events(so), WRITABLE);
	send_to_us(&out, 2, 0);
	assert_int_equal(sock_own_events(so), READABLE | WRITABLE);
	assert_int_equal(events_after_read(2), WRITABLE);
	end();
	ring_release_cold(local_ring());
}

static void test_the_end_stays_readable(void **state)
{
	struct byte_ring_reader in;
	struct byte_ring_writer out;

	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	send_to_us(&out, 2, 0);
	assert_int_equal(events_after_read(1), READABLE | WRITABLE);
	byte_ring_finish(&out);
	notice();
	assert_int_equal(events_after_read(1), READABLE | WRITABLE | EPOLLRDHUP);
	end();
	ring_release_cold(local_ring());
}

static void test_urgent_bytes_are_told(void **state)
{
	struct byte_ring_reader in;
	struct byte_ring_writer out;

	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	send_to_us(&out, 2, 0);
	send_to_us(&out, 1, BYTE_RING_URGENT);
	assert_int_equal(sock_own_events(so), READABLE | WRITABLE | EPOLLPRI);
	end();
	ring_release_cold(local_ring());
}

/* With nothing that the peer has not read: what it sends still arrives. */
static void test_a_peer_that_reads_no_more_can_send(void **state)
{
	struct byte_ring_reader in;
	struct byte_ring_writer out;

	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	byte_ring_close(&in);
	send_to_us(&out, 2, 0);
	assert_false(so->shm.ended);
	assert_true(so->shm.out.closed);
	assert_int_equal(sock_own_events(so) & READABLE, READABLE);
	end();
	ring_release_cold(local_ring());
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_notice_that_comes_before_the_rings_are_open),
	cmocka_unit_test(test_notices_before_the_answer),
	cmocka_unit_test(test_an_answer_that_cannot_be),
	cmocka_unit_test(test_bytes_that_are_written_while_the_peer_closes),
	cmocka_unit_test(test_the_peer_has_read_all_before_it_closes),
	cmocka_unit_test(test_it_is_readable_while_bytes_are_there),
	cmocka_unit_test(test_it_is_not_readable_below_the_low_water_mark),
	cmocka_unit_test(test_the_end_stays_readable),
	cmocka_unit_test(test_urgent_bytes_are_told),
	cmocka_unit_test(test_a_peer_that_reads_no_more_can_send),
};

VMA_TEST_MAIN("local_conn", tests, setup, teardown)
