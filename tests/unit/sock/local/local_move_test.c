/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder moves to another process before the initiator has seen its answer; its process
 * executes a program; answers to moves.
 */
#include "conn_fixture.h"

#include <fcntl.h>

#include "sock/local/local_link_internal.h"
#include "sock/local/local_move.h"

#define TOKEN 0x1122334455667788u

static struct segment memory;
static struct link_shared lanes;
static struct local_link from_new_process; /* where the end goes on */

static struct local_shared *in_memory(void)
{
	return (void *)local_slot(&memory, 0);
}

/* The end in a slot of a segment; its peer has answered, and left for another process. */
static void begin_unseen(void)
{
	begin();
	assert_int_equal(segment_create(&memory, LOCAL_SEGMENT, LOCAL_SEGMENT_SIZE), 0);
	assert_int_equal(local_conn_open(so, local_slot(&memory, 0), LOCAL_RING_MIN), 0);
	so->shm.token = TOKEN;
	local_move_begin(so, 0);
	/* release: as the responder stores them */
	__atomic_store_n(&in_memory()->answer, LOCAL_ACCEPTED, __ATOMIC_RELEASE);
	__atomic_store_n(&in_memory()->side[LOCAL_RESPONDER].moves, 1, __ATOMIC_RELEASE);
}

/* What the new process sends. */
static void move_arrives(void)
{
	struct local_message message = {
		.kind = LOCAL_MOVE,
		.socket = LOCAL_RESPONDER,
		.size = LOCAL_RING_MIN,
		.value = {(uint32_t)TOKEN, (uint32_t)(TOKEN >> 32), 1},
	};
	int fd = sys_fd_hide(fcntl(memory.fd, F_DUPFD_CLOEXEC, 0));

	from_new_process = (struct local_link){.process = 77, .sock = -1, .shared = &lanes};
	list_init(&from_new_process.wanting);
	assert_int_equal(notice_writer_open(&from_new_process.out, &lanes.to_initiator,
					    NOTICE_CONNS, -1),
			 0);
	local_lock();
	assert_true(local_take_move(&from_new_process, &message, &fd, 1));
	local_unlock();
}

static void end_unseen(void)
{
	assert_true(ring_hold_cold(local_ring()));
	end();
	ring_release_cold(local_ring());
	segment_close(&memory);
	mem_free(from_new_process.ends);
	mem_free(from_new_process.begun);
	mem_free(from_new_process.left);
}

static void test_the_message_comes_before_the_answer_is_seen(void **state)
{
	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_unseen();
	ring_release_cold(local_ring());
	assert_false(so->shm.established);
	move_arrives();
	assert_true(so->shm.established);
	assert_ptr_equal(so->shm.end.link, &from_new_process);
	end_unseen();
}

/* The process that answered has ended meanwhile. */
static void test_the_process_that_answered_has_ended(void **state)
{
	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_unseen();
	so->shm.end.ops->died(&so->shm.end);
	ring_release_cold(local_ring());
	assert_false(so->shm.ended || so->shm.died);
	move_arrives();
	assert_ptr_equal(so->shm.end.link, &from_new_process);
	assert_int_equal(sock_own_events(so), EPOLLOUT | EPOLLWRNORM);
	end_unseen();
}

/* Limbo ends with the last process that could go on with the peer's end. */
static void test_nobody_has_the_end_any_more(void **state)
{
	int transit;

	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_unseen();
	assert_int_equal(local_segment_open(&so->shm.own, fcntl(memory.fd, F_DUPFD_CLOEXEC, 0)), 0);
	transit = local_transit_begin(memory.fd, 0, LOCAL_RESPONDER);
	assert_true(transit >= 0);
	in_memory()->side[LOCAL_RESPONDER].locked = 1;
	so->shm.end.ops->died(&so->shm.end);
	ring_release_cold(local_ring());
	assert_true(local_moves_run());
	assert_false(so->shm.died);
	assert_true(list_linked(&so->shm.limbo));
	sys_close(transit);
	assert_false(local_moves_run());
	assert_true(so->shm.died);
	assert_int_equal(so->shm.error, ECONNRESET);
	assert_true(ring_hold_cold(local_ring()));
	end();
	ring_release_cold(local_ring());
	segment_close(&memory);
}

/* Its process could make no lock: limbo lasts. */
static void test_an_end_without_a_lock_may_come(void **state)
{
	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_unseen();
	assert_int_equal(local_segment_open(&so->shm.own, fcntl(memory.fd, F_DUPFD_CLOEXEC, 0)), 0);
	so->shm.end.ops->died(&so->shm.end);
	ring_release_cold(local_ring());
	assert_true(local_moves_run());
	assert_false(so->shm.died);
	move_arrives();
	assert_ptr_equal(so->shm.end.link, &from_new_process);
	assert_false(local_moves_run());
	end_unseen();
}

/* The initiator, established; the responder's process executes a program that does not have its end. */
static void begin_beside_exec(void)
{
	assert_true(ring_hold_cold(local_ring()));
	begin();
	assert_int_equal(local_conn_open(so, slot, LOCAL_RING_MIN), 0);
	/* release: as the responder stores them */
	__atomic_store_n(&shared()->answer, LOCAL_ACCEPTED, __ATOMIC_RELEASE);
	__atomic_store_n(&shared()->side[LOCAL_RESPONDER].execs, 1, __ATOMIC_RELEASE);
	notice();
	assert_int_equal(sock_own_events(so), EPOLLOUT | EPOLLWRNORM);
}

static void end_beside_exec(void)
{
	end();
	ring_release_cold(local_ring());
}

static void test_exec_of_the_peer_closes_its_end(void **state)
{
	(void)state;
	begin_beside_exec();
	so->shm.end.ops->died(&so->shm.end);
	assert_true(so->shm.died);
	assert_false(so->shm.ended);
	assert_int_equal(byte_ring_end(&so->shm.in), BYTE_RING_FINISHED);
	assert_true(sock_own_events(so) & EPOLLRDHUP);
	assert_false(sock_own_events(so) & EPOLLERR);
	end_beside_exec();
}

static void test_exec_with_unread_bytes_is_a_reset(void **state)
{
	struct iovec iov = {(void *)(uintptr_t) "unread", 6};

	(void)state;
	begin_beside_exec();
	assert_int_equal(byte_ring_write(&so->shm.out, &iov, 1, 0), 6);
	so->shm.end.ops->died(&so->shm.end);
	assert_int_equal(so->shm.error, ECONNRESET);
	end_beside_exec();
}

static void test_an_exec_that_failed_closes_nothing(void **state)
{
	(void)state;
	begin_beside_exec();
	so->shm.initiator = false; /* the responder's side is in this process for a moment */
	local_move_execs(so, false);
	so->shm.initiator = true;
	so->shm.end.ops->died(&so->shm.end);
	assert_int_equal(so->shm.error, ECONNRESET);
	end_beside_exec();
}

/* ---- LOCAL_MOVED ------------------------------------------------------------------------------ */

static void answer(uint32_t number, uint32_t moved)
{
	struct local_message message = {.kind = LOCAL_MOVED, .number = number, .value = {moved}};

	local_lock();
	assert_true(local_take_moved(link_to_us, &message, NULL, 0));
	local_unlock();
}

/* What uses a number need not be a connection: its memory stays as it is. */
static void test_an_answer_to_what_is_no_connection(void **state)
{
	static const struct local_end_ops others;
	static struct {
		uint8_t before[4096];
		struct local_end end;
		uint8_t after[4096];
	} sender;

	(void)state;
	memset(&sender, 0x5a, sizeof(sender));
	sender.end = (struct local_end){.ops = &others};
	assert_true(ring_hold_cold(local_ring()));
	assert_int_equal(local_end_begin(link_to_us, &sender.end), 0);
	ring_release_cold(local_ring());
	answer(sender.end.number, 1);
	answer(sender.end.number, 0);
	for (size_t i = 0; i < sizeof(sender.before); i++) {
		assert_int_equal(sender.before[i], 0x5a);
		assert_int_equal(sender.after[i], 0x5a);
	}
	assert_true(ring_hold_cold(local_ring()));
	local_end_leave(&sender.end);
	ring_release_cold(local_ring());
}

/* It is for the end that had the number before: a connection that has asked nothing goes on. */
static void test_an_answer_that_is_late(void **state)
{
	(void)state;
	assert_true(ring_hold_cold(local_ring()));
	begin_unseen();
	notice();
	ring_release_cold(local_ring());
	assert_true(so->shm.established);
	answer(so->shm.end.number, 0);
	assert_false(list_linked(&so->shm.limbo));
	so->shm.told = 77;
	answer(so->shm.end.number, 0);
	assert_true(list_linked(&so->shm.limbo));
	assert_true(ring_hold_cold(local_ring()));
	end();
	ring_release_cold(local_ring());
	segment_close(&memory);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_message_comes_before_the_answer_is_seen),
	cmocka_unit_test(test_the_process_that_answered_has_ended),
	cmocka_unit_test(test_nobody_has_the_end_any_more),
	cmocka_unit_test(test_an_end_without_a_lock_may_come),
	cmocka_unit_test(test_exec_of_the_peer_closes_its_end),
	cmocka_unit_test(test_exec_with_unread_bytes_is_a_reset),
	cmocka_unit_test(test_an_exec_that_failed_closes_nothing),
	cmocka_unit_test(test_an_answer_to_what_is_no_connection),
	cmocka_unit_test(test_an_answer_that_is_late),
};

VMA_TEST_MAIN("local_move", tests, setup, teardown)
