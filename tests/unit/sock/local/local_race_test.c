/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two writers and a reader that sleeps, while the socket goes from ring to ring, and closes its ring:
 * what was written arrives once and in order, and nobody waits for ever.
 */
#include <pthread.h>

#include "receiver_fixture.h"

#define WRITERS 2
#define MANY 20000u
#define MOVES 300

struct number {
	uint32_t writer, n;
};

static struct number written[WRITERS]; /* n: of writer i, when its thread has ended */

/* One record, and its notice.  False: the ring is closed. */
static bool write_number(struct number number)
{
	struct record_header h = header();
	struct iovec iov = {&number, sizeof(number)};
	int rc;

	do {
		assert_true(ring_hold_cold(local_ring()));
		rc = record_ring_write(&writer, &h, &iov, 1, sizeof(number));
		if (!rc)
			local_end_post(&end);
		ring_release_cold(local_ring());
		if (rc == -ENOBUFS)
			sched_yield(); /* the reader makes room */
	} while (rc == -ENOBUFS);
	if (rc == -EPIPE)
		return false;
	assert_int_equal(rc, 0);
	return true;
}

static void *write_all(void *arg)
{
	struct number *mine = arg;

	while (mine->n < MANY && write_number(*mine))
		mine->n++;
	return NULL;
}

/* Receives one; false: there is none.  Each writer's come in order. */
static bool receive(struct number next[WRITERS], int flags)
{
	struct number number;
	struct iovec iov = {&number, sizeof(number)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n = local_udp_ops[ring_mode_now()].recv(sock_ref_of(so), &msg, flags);

	if (n == -EAGAIN)
		return false;
	assert_int_equal(n, sizeof(number));
	assert_in_range(number.writer, 0, WRITERS - 1);
	assert_int_equal(number.n, next[number.writer].n);
	next[number.writer].n++;
	return true;
}

static void *read_all(void *arg)
{
	struct number *next = arg;

	for (unsigned i = 0; i < WRITERS * MANY; i++)
		assert_true(receive(next, 0));
	return NULL;
}

/* As a move does, between the local ring and the one that has no port. */
static void move_to(struct ring *to)
{
	struct ring *from;

	assert_true(control_lock());
	assert_int_equal(sock_hold_cold(sock_ref_of(so), &from), 0);
	ready_wake_all(&so->sk);
	sock_set_home(so, to);
	ring_release_cold(from);
	control_unlock();
}

static void begin_writers(pthread_t threads[WRITERS])
{
	for (uint32_t i = 0; i < WRITERS; i++) {
		written[i] = (struct number){.writer = i};
		assert_int_equal(pthread_create(&threads[i], NULL, write_all, &written[i]), 0);
	}
}

static void end_writers(const pthread_t threads[WRITERS])
{
	for (uint32_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void test_the_socket_moves(void **state)
{
	struct number next[WRITERS] = {{0}};
	pthread_t threads[WRITERS], reader;

	open_writer();
	assert_int_equal(pthread_create(&reader, NULL, read_all, next), 0);
	begin_writers(threads);
	for (int i = 0; i < MOVES; i++) {
		move_to(i % 2 ? local_ring() : rings_nowhere());
		sched_yield();
	}
	end_writers(threads);
	assert_int_equal(pthread_join(reader, NULL), 0);
	assert_false(receive(next, MSG_DONTWAIT));
}

static void test_the_ring_is_closed(void **state)
{
	struct number next[WRITERS] = {{0}};
	pthread_t threads[WRITERS];
	nsec_t until = clock_now() + PATIENCE;

	open_writer();
	move_to(rings_nowhere());
	begin_writers(threads);
	while (next[0].n + next[1].n < MANY / 10) {
		assert_true(clock_now() < until);
		if (!receive(next, MSG_DONTWAIT))
			sched_yield();
	}
	assert_true(control_lock());
	local_receive_stop(so);
	control_unlock();
	end_writers(threads);
	while (receive(next, MSG_DONTWAIT))
		;
	for (uint32_t i = 0; i < WRITERS; i++)
		assert_int_equal(next[i].n, written[i].n);
}

static const struct CMUnitTest tests[] = {
	TEST(test_the_socket_moves),
	TEST(test_the_ring_is_closed),
};

VMA_TEST_MAIN("local_race", tests, setup, teardown)
