/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program has bytes of a local connection where its peer has put them: where they are, how long they stay, and
 * what they hold up.
 */
#include "conn_fixture.h"

#include "sock/core/extra/held.h"
#include "sock/core/extra/sock_extra.h"
#include "sock/local/local_link_internal.h"
#include "sock/local/local_move.h"

#define PACKETS 8
#define CAPACITY LOCAL_RING_MIN
#define LIMIT (CAPACITY / 2) /* of its receive buffer */

static struct byte_ring_reader in;
static struct byte_ring_writer out;
static struct {
	size_t n_packet_num;
	struct held_piece packet[PACKETS];
} got;
static struct sock_ref ref;
static uint8_t bytes[2 * CAPACITY], buf[2 * CAPACITY];

static const uint8_t *ring_data(void)
{
	return so->shm.in.data;
}

static int open_conn(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	assert_true(ring_hold_cold(local_ring()));
	begin_established(&in, &out);
	ring_release_cold(local_ring());
	ref = sock_ref_of(so);
	return 0;
}

static int close_conn(void **state)
{
	(void)state;
	end_without_rest();
	return 0;
}

/* The program closes it; the number of the connection stays in link_to_us->ends, if that is needed. */
static void close_now(void)
{
	assert_true(ring_hold_cold(local_ring()));
	local_conn_close(so, false);
	sock_life_set(so, LIFE_CLOSED);
	sock_free(so);
	ring_release_cold(local_ring());
	so = NULL;
}

static void write_some(size_t at, size_t n)
{
	struct iovec iov = {bytes + at, n};

	assert_int_equal(byte_ring_write(&out, &iov, 1, 0), n);
}

static ssize_t take_into(size_t room)
{
	struct iovec iov = {&got, room};
	struct sock_zcopy zcopy = {.msg = {.msg_iov = &iov, .msg_iovlen = 1}};
	ssize_t n = sock_recv_zcopy(ref, &zcopy, MSG_DONTWAIT);

	assert_int_equal(zcopy.done, n > 0);
	return n;
}

static ssize_t take(void)
{
	return take_into(sizeof(got));
}

static ssize_t read_copy(void)
{
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return so->sk.ops->recv(ref, &msg, MSG_DONTWAIT);
}

static int give_back(const struct held_piece *packet)
{
	return sock_free_packet(packet->packet_id, ref);
}

static void check_packet(const struct held_piece *packet, const uint8_t *at, size_t from, size_t n)
{
	assert_int_equal(packet->sz_iov, 1);
	assert_ptr_equal(packet->iov.iov_base, at);
	assert_int_equal(packet->iov.iov_len, n);
	assert_memory_equal(at, bytes + from, n);
}

/* ---- where they are ------------------------------------------------------------------------ */

static void test_bytes_are_in_the_segment(void **state)
{
	(void)state;
	assert_int_equal(take(), -EAGAIN);
	write_some(0, 100);
	assert_int_equal(take(), 100);
	assert_int_equal(got.n_packet_num, 1);
	check_packet(&got.packet[0], ring_data(), 0, 100);
	write_some(100, 50);
	assert_int_equal(give_back(&got.packet[0]), 0);
	assert_int_equal(take(), 50);
	check_packet(&got.packet[0], ring_data() + 100, 100, 50);
	assert_int_equal(give_back(&got.packet[0]), 0);
	assert_int_equal(take(), -EAGAIN);
}

static void test_bytes_round_the_end_are_two_packets(void **state)
{
	(void)state;
	write_some(0, CAPACITY - 10);
	assert_int_equal(read_copy(), CAPACITY - 10);
	write_some(0, 30);
	assert_int_equal(take(), 30);
	assert_int_equal(got.n_packet_num, 2);
	check_packet(&got.packet[0], ring_data() + CAPACITY - 10, 0, 10);
	check_packet(&got.packet[1], ring_data(), 10, 20);
	assert_int_equal(give_back(&got.packet[1]), 0);
	assert_int_equal(give_back(&got.packet[0]), 0);
	/* Without room for the second one, it is the next. */
	write_some(0, CAPACITY - 30);
	assert_int_equal(read_copy(), CAPACITY - 30);
	write_some(0, 30);
	assert_int_equal(take_into(sizeof(struct held_record)), 10);
	check_packet(&got.packet[0], ring_data() + CAPACITY - 10, 0, 10);
	assert_int_equal(give_back(&got.packet[0]), 0);
	assert_int_equal(take(), 20);
	check_packet(&got.packet[0], ring_data(), 10, 20);
	assert_int_equal(give_back(&got.packet[0]), 0);
}

/* ---- how long they stay --------------------------------------------------------------------- */

static void test_room_is_used_again_in_its_order(void **state)
{
	struct held_piece packets[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		write_some(i * 1000, 1000);
		assert_int_equal(take(), 1000);
		packets[i] = got.packet[0];
	}
	assert_int_equal(byte_ring_space(&out), CAPACITY - 3000);
	assert_int_equal(byte_ring_unread(&out), 0);
	assert_int_equal(give_back(&packets[1]), 0);
	assert_int_equal(byte_ring_space(&out), CAPACITY - 3000);
	assert_int_equal(give_back(&packets[0]), 0);
	assert_int_equal(byte_ring_space(&out), CAPACITY - 1000);
	write_some(0, CAPACITY - 1000);
	assert_int_equal(byte_ring_space(&out), 0);
	check_packet(&packets[2], ring_data() + 2000, 2000, 1000);
	assert_int_equal(give_back(&packets[2]), 0);
	assert_int_equal(byte_ring_space(&out), 1000);
	assert_int_equal(read_copy(), CAPACITY - 1000);
	assert_memory_equal(buf, bytes, CAPACITY - 1000);
}

static void test_a_packet_that_is_no_packet(void **state)
{
	struct sock_ref other = {.sk = NULL};

	(void)state;
	write_some(0, 10);
	assert_int_equal(take(), 10);
	assert_int_equal(sock_free_packet(got.packet[0].packet_id, other), -ENOENT);
	assert_int_equal(sock_free_packet((void *)(uintptr_t)1, ref), -ENOENT);
	assert_int_equal(byte_ring_space(&out), CAPACITY - 10);
	assert_int_equal(give_back(&got.packet[0]), 0);
	assert_int_equal(give_back(&got.packet[0]), -ENOENT);
	assert_int_equal(byte_ring_space(&out), CAPACITY);
}

static void test_a_closed_connection_keeps_its_memory_until_all_are_back(void **state)
{
	uint32_t number = so->shm.end.number;
	uint64_t memory = so->shm.memory = 2 * CAPACITY;
	const uint8_t *at = ring_data();
	struct held_piece first;

	(void)state;
	assert_true(local_memory_take(memory));
	write_some(0, 100);
	assert_int_equal(take(), 100);
	first = got.packet[0];
	write_some(100, 100);
	assert_int_equal(take(), 100);
	close_now();
	assert_true(byte_ring_reader_closed(&out));
	assert_int_equal(byte_ring_unread(&out), 0); /* closed in order */
	assert_int_equal(byte_ring_readable(&in), 0);
	assert_int_equal(byte_ring_end(&in), BYTE_RING_FINISHED);
	assert_non_null(local_end_at(link_to_us, number));
	assert_int_equal(give_back(&first), 0);
	assert_non_null(local_end_at(link_to_us, number));
	check_packet(&got.packet[0], at + 100, 100, 100);
	assert_int_equal(give_back(&got.packet[0]), 0);
	assert_null(local_end_at(link_to_us, number));
	assert_int_equal(give_back(&got.packet[0]), -ENOENT);
}

/* Its peer has died, and so has the link: it is not freed while packets need its memory. */
static void test_the_peer_dies(void **state)
{
	const uint8_t *at = ring_data();

	(void)state;
	write_some(0, 100);
	assert_int_equal(take(), 100);
	assert_true(ring_hold_cold(local_ring()));
	so->shm.end.ops->died(&so->shm.end);
	ring_release_cold(local_ring());
	check_packet(&got.packet[0], at, 0, 100);
	assert_int_equal(take(), -ECONNRESET);
	close_now();
	assert_int_equal(link_to_us->used, 1);
	check_packet(&got.packet[0], at, 0, 100);
	assert_int_equal(give_back(&got.packet[0]), 0);
	assert_int_equal(link_to_us->used, 0);
}

/* ---- what they hold up ------------------------------------------------------------------------ */

static void test_a_program_has_no_more_than_its_receive_buffer(void **state)
{
	(void)state;
	write_some(0, LIMIT + 10);
	assert_int_equal(take(), LIMIT);
	assert_int_equal(take_into(sizeof(struct held_record)), -ENOBUFS);
	assert_int_equal(read_copy(), 10); /* copies are not limited */
	write_some(0, 10);
	assert_int_equal(give_back(&got.packet[0]), 0);
	assert_int_equal(take(), 10);
	assert_int_equal(give_back(&got.packet[0]), 0);
}

/* One old byte, and the peer waits for its room: a call would wait for ever. */
static void test_the_peer_waits_for_what_the_program_has(void **state)
{
	struct held_piece old;

	(void)state;
	write_some(0, 1);
	assert_int_equal(take(), 1);
	old = got.packet[0];
	write_some(0, CAPACITY - 1);
	assert_int_equal(read_copy(), CAPACITY - 1);
	assert_int_equal(byte_ring_space(&out), 0);
	assert_int_equal(take(), -EAGAIN);
	byte_ring_want_space(&out, 100);
	assert_int_equal(take(), -ENOBUFS);
	assert_int_equal(read_copy(), -EAGAIN);
	assert_int_equal(give_back(&old), 0);
	assert_int_equal(byte_ring_space(&out), CAPACITY);
	assert_int_equal(take(), -EAGAIN);
}

/* The program has closed it, and another process has it, too: it lives on, and its references do not. */
static void test_room_comes_back_after_close(void **state)
{
	const struct sock_ref none = {NULL, 0};

	(void)state;
	write_some(0, 100);
	assert_int_equal(take(), 100);
	assert_true(ring_hold_cold(local_ring()));
	__atomic_store_n(&so->sk.gen, so->sk.gen + 2, __ATOMIC_RELEASE); /* as sock_keep() */
	ring_release_cold(local_ring());
	assert_int_equal(byte_ring_space(&out), CAPACITY - 100);
	assert_int_equal(sock_free_packet(got.packet[0].packet_id, none), 0);
	assert_int_equal(byte_ring_space(&out), CAPACITY);
}

static unsigned notified;

static void count_notify(struct watch *watch, uint32_t events)
{
	(void)watch;
	notified += (events & EPOLLIN) != 0;
}

static const struct watch_ops count_ops = {.notify = count_notify};

/* The peer begins to wait after a thread here has seen that it does not. */
static void test_a_thread_that_waits_is_told_that_the_peer_waits(void **state)
{
	struct watch watch;
	unsigned before;

	(void)state;
	watch_init(&watch, NULL, &so->sk, EPOLLIN);
	watch.ops = &count_ops;
	write_some(0, 1);
	assert_int_equal(take(), 1);
	write_some(0, CAPACITY - 1);
	assert_int_equal(read_copy(), CAPACITY - 1);
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(byte_ring_space(&out), 0);
	assert_true(ring_hold_cold(local_ring()));
	notice();
	watch_add(&watch);
	notified = 0;
	notice();
	before = notified;
	byte_ring_want_space(&out, 100);
	notice();
	watch_remove(&watch);
	ring_release_cold(local_ring());
	assert_int_equal(before, 0);
	assert_int_equal(notified, 1);
	assert_int_equal(take(), -ENOBUFS);
	assert_int_equal(give_back(&got.packet[0]), 0);
}

/* The other side of the same: the peer is told that this end waits. */
static void test_the_peer_is_told_if_it_keeps_what_is_waited_for(void **state)
{
	struct iovec iov = {bytes, CAPACITY};
	uint64_t posted = link_to_us->out.posted, before;

	(void)state;
	assert_int_equal(byte_ring_write(&so->shm.out, &iov, 1, 0), CAPACITY);
	assert_true(ring_hold_cold(local_ring()));
	local_conn_want_space(so);
	before = link_to_us->out.posted;
	byte_ring_keep(in.shared, 0);
	(void)byte_ring_readable(&in);
	byte_ring_pass(&in, CAPACITY);
	(void)byte_ring_space(&so->shm.out);
	local_conn_want_space(so);
	ring_release_cold(local_ring());
	assert_int_equal(before, posted);
	assert_int_equal(link_to_us->out.posted, posted + 1);
}

/* A writer that waits gets a notice when the room that it waits for is back. */
static void test_the_peer_is_told_of_room(void **state)
{
	uint64_t posted;

	(void)state;
	write_some(0, LIMIT);
	assert_int_equal(take(), LIMIT);
	write_some(0, LIMIT);
	byte_ring_want_space(&out, 100);
	posted = link_to_us->out.posted;
	assert_int_equal(give_back(&got.packet[0]), 0);
	assert_int_equal(link_to_us->out.posted, posted + 1);
	assert_int_equal(read_copy(), LIMIT);
}

static void test_urgent_data_is_copied(void **state)
{
	struct iovec iov = {bytes, 1};

	(void)state;
	write_some(0, 5);
	assert_int_equal(byte_ring_write(&out, &iov, 1, BYTE_RING_URGENT), 1);
	assert_int_equal(take(), SOCK_KERNEL);
	assert_int_equal(read_copy(), 5);
}

static void test_the_end_comes_after_the_bytes(void **state)
{
	(void)state;
	write_some(0, 5);
	byte_ring_finish(&out);
	assert_int_equal(take(), 5);
	assert_int_equal(give_back(&got.packet[0]), 0);
	assert_int_equal(take(), 0);
}

/* ---- moves ------------------------------------------------------------------------------------ */

static void test_it_does_not_leave_the_process(void **state)
{
	char head[8] = {0};

	(void)state;
	write_some(0, 5);
	assert_int_equal(take(), 5);
	assert_int_equal(local_export(so, head, sizeof(head)), -EBUSY);
	assert_int_equal(give_back(&got.packet[0]), 0);
	assert_int_equal(local_export(so, head, sizeof(head)),
			 -EBADF); /* the slot is in no segment */
}

/* A process that had the end has bytes: this one copies until they are back. */
static void test_another_process_has_bytes(void **state)
{
	(void)state;
	write_some(0, 100);
	byte_ring_readable(&so->shm.in);
	byte_ring_keep(so->shm.in.shared, 0);
	byte_ring_pass(&so->shm.in, 50);
	assert_int_equal(take(), SOCK_KERNEL);
	assert_int_equal(read_copy(), 50);
	byte_ring_keep(so->shm.in.shared, BYTE_RING_POSITION);
	write_some(0, 10);
	assert_int_equal(take(), 10);
	assert_int_equal(give_back(&got.packet[0]), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_conn, close_conn)

static const struct CMUnitTest tests[] = {
	TEST(test_bytes_are_in_the_segment),
	TEST(test_bytes_round_the_end_are_two_packets),
	TEST(test_room_is_used_again_in_its_order),
	TEST(test_a_packet_that_is_no_packet),
	TEST(test_a_closed_connection_keeps_its_memory_until_all_are_back),
	TEST(test_the_peer_dies),
	TEST(test_a_program_has_no_more_than_its_receive_buffer),
	TEST(test_the_peer_waits_for_what_the_program_has),
	TEST(test_room_comes_back_after_close),
	TEST(test_a_thread_that_waits_is_told_that_the_peer_waits),
	TEST(test_the_peer_is_told_if_it_keeps_what_is_waited_for),
	TEST(test_the_peer_is_told_of_room),
	TEST(test_urgent_data_is_copied),
	TEST(test_the_end_comes_after_the_bytes),
	TEST(test_it_does_not_leave_the_process),
	TEST(test_another_process_has_bytes),
};

VMA_TEST_MAIN("local_zcopy", tests, setup, teardown)
