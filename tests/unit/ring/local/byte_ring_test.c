/* SPDX-License-Identifier: BSD-2-Clause */
/* A byte ring with both of its sides here: a stream arrives whole, limits hold, lies end it. */
#include "ring/local/byte_ring.h"

#include <errno.h>
#include <string.h>

#include "vma_test.h"

#define CAPACITY 256u

static struct {
	struct byte_ring_shared shared;
	uint8_t data[CAPACITY];
} memory __attribute__((aligned(64)));
static struct byte_ring_reader reader, *r = &reader;
static struct byte_ring_writer writer, *w = &writer;
static char bytes[2 * CAPACITY], heard[2 * CAPACITY];

static int open_both(void **state)
{
	memset(&memory, 0, sizeof(memory));
	byte_ring_init(&memory.shared, CAPACITY);
	assert_int_equal(byte_ring_reader_open(r, &memory.shared, memory.data, CAPACITY), 0);
	assert_int_equal(byte_ring_writer_open(w, &memory.shared, memory.data, CAPACITY, 0), 0);
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 7 + i / 256);
	return 0;
}

static ssize_t send_some(const void *from, size_t n)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)from, .iov_len = n};

	return byte_ring_write(w, &iov, 1, 0);
}

static ssize_t recv_some(size_t n)
{
	struct iovec iov = {.iov_base = heard, .iov_len = n};

	memset(heard, 0, sizeof(heard));
	return byte_ring_read(r, &iov, 1, false);
}

static void test_bytes_arrive_once_at_every_place_of_the_ring(void **state)
{
	assert_int_equal(recv_some(10), -EAGAIN);
	for (size_t n = 1; n <= CAPACITY; n++) {
		assert_int_equal(send_some(bytes, n), n);
		assert_int_equal(byte_ring_readable(r), n);
		assert_int_equal(byte_ring_unread(w), n);
		assert_int_equal(recv_some(sizeof(heard)), n);
		assert_memory_equal(heard, bytes, n);
		assert_int_equal(recv_some(1), -EAGAIN);
		assert_int_equal(byte_ring_unread(w), 0);
	}
}

static void test_a_full_ring_takes_what_fits(void **state)
{
	assert_int_equal(send_some(bytes, 200), 200);
	assert_int_equal(byte_ring_space(w), 56);
	assert_int_equal(send_some(bytes + 200, 200), 56);
	assert_int_equal(send_some(bytes, 1), -EAGAIN);
	assert_int_equal(send_some(bytes, 0), 0);
	assert_int_equal(recv_some(100), 100);
	assert_int_equal(byte_ring_space(w), 100);
	assert_int_equal(send_some(bytes + 256, 200), 100);
	assert_int_equal(recv_some(sizeof(heard)), 256);
	assert_memory_equal(heard, bytes + 100, 256);
}

static void test_vectors_are_one_stream(void **state)
{
	struct iovec out[3] = {{.iov_base = bytes, .iov_len = 3},
			       {.iov_base = NULL, .iov_len = 0},
			       {.iov_base = bytes + 3, .iov_len = 50}};
	struct iovec in[3] = {{.iov_base = heard, .iov_len = 1},
			      {.iov_base = NULL, .iov_len = 0},
			      {.iov_base = heard + 1, .iov_len = 99}};

	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(byte_ring_write(w, out, 3, 0), 53);
		memset(heard, 0, sizeof(heard));
		assert_int_equal(byte_ring_read(r, in, 3, false), 53);
		assert_memory_equal(heard, bytes, 53);
	}
}

static void test_peek_and_discard(void **state)
{
	struct iovec iov = {.iov_base = heard, .iov_len = 20};

	assert_int_equal(send_some(bytes, 100), 100);
	assert_int_equal(byte_ring_read(r, &iov, 1, true), 20);
	assert_int_equal(byte_ring_peek_at(r, 90, &iov, 1), 10);
	assert_memory_equal(heard, bytes + 90, 10);
	assert_int_equal(byte_ring_peek_at(r, 100, &iov, 1), -EAGAIN);
	assert_int_equal(byte_ring_discard(r, 30), 30);
	assert_int_equal(byte_ring_readable(r), 70);
	assert_int_equal(recv_some(5), 5);
	assert_memory_equal(heard, bytes + 30, 5);
	assert_int_equal(byte_ring_discard(r, 1000), 65);
	assert_int_equal(byte_ring_unread(w), 0);
}

static void test_both_buffers_limit_the_stream(void **state)
{
	byte_ring_set_receive_limit(r, 40);
	byte_ring_set_send_limit(w, 60);
	assert_int_equal(byte_ring_space(w), 100);
	assert_int_equal(send_some(bytes, 200), 100);
	assert_int_equal(byte_ring_unread(w), 100);
	assert_int_equal(byte_ring_unsent(w), 60);
	byte_ring_set_send_limit(w, 10); /* below what is there */
	assert_int_equal(byte_ring_space(w), 0);
	assert_int_equal(send_some(bytes, 1), -EAGAIN);
	assert_int_equal(recv_some(60), 60);
	assert_int_equal(byte_ring_unsent(w), 0);
	assert_int_equal(byte_ring_space(w), 10);
	byte_ring_set_receive_limit(r, UINT32_MAX);
	byte_ring_set_send_limit(w, UINT32_MAX);
	assert_int_equal(byte_ring_space(w), CAPACITY - 40);
}

static void test_space_is_wanted_until_it_is_there(void **state)
{
	assert_int_equal(send_some(bytes, CAPACITY), CAPACITY);
	assert_false(byte_ring_is_wanted(r));
	byte_ring_want_space(w, 100);
	assert_false(byte_ring_is_wanted(r));
	assert_int_equal(recv_some(99), 99);
	assert_false(byte_ring_is_wanted(r));
	assert_int_equal(recv_some(1), 1);
	assert_true(byte_ring_is_wanted(r));
	assert_int_equal(byte_ring_space(w), 100);
	byte_ring_want_space(w, 0);
	assert_false(byte_ring_is_wanted(r));
	byte_ring_want_space(w, 50); /* it is there */
	assert_true(byte_ring_is_wanted(r));
	byte_ring_want_space(w, 10 * CAPACITY); /* all of it */
	assert_int_equal(recv_some(CAPACITY - 101), CAPACITY - 101);
	assert_false(byte_ring_is_wanted(r));
	assert_int_equal(recv_some(1), 1);
	assert_true(byte_ring_is_wanted(r));
}

static void test_the_end_comes_after_the_bytes(void **state)
{
	assert_int_equal(send_some(bytes, 10), 10);
	byte_ring_finish(w);
	assert_int_equal(send_some(bytes, 1), -EPIPE);
	assert_int_equal(byte_ring_space(w), 0);
	assert_int_equal(byte_ring_end(r), BYTE_RING_FINISHED);
	assert_int_equal(recv_some(100), 10);
	assert_int_equal(recv_some(100), 0);
	byte_ring_finish(w);
	assert_int_equal(recv_some(100), 0);
	byte_ring_reset(w);
	assert_int_equal(byte_ring_end(r), BYTE_RING_WAS_RESET);
	assert_int_equal(recv_some(100), -ECONNRESET);
	open_both(NULL);
	assert_int_equal(byte_ring_end(r), BYTE_RING_OPEN);
	assert_int_equal(send_some(bytes, 10), 10);
	byte_ring_reset(w);
	assert_int_equal(send_some(bytes, 1), -EPIPE);
	assert_int_equal(recv_some(100), 10);
	assert_int_equal(recv_some(100), -ECONNRESET);
}

static void test_only_bytes_are_waited_for_where_it_is_quiet(void **state)
{
	assert_true(byte_ring_is_quiet(r));
	assert_int_equal(send_some(bytes, 10), 10);
	assert_false(byte_ring_is_quiet(r));
	assert_int_equal(recv_some(4), 4);
	assert_false(byte_ring_is_quiet(r));
	assert_int_equal(recv_some(6), 6);
	assert_true(byte_ring_is_quiet(r));
	byte_ring_finish(w);
	assert_false(byte_ring_is_quiet(r));
	open_both(NULL);
	byte_ring_reset(w);
	assert_false(byte_ring_is_quiet(r));
	open_both(NULL);
	memory.shared.tail = CAPACITY + 1;
	assert_int_equal(recv_some(10), -EPROTO);
	memory.shared.tail = 0;
	assert_false(byte_ring_is_quiet(r));
}

static void test_the_reader_ends_the_stream_of_a_writer_that_is_gone(void **state)
{
	assert_int_equal(send_some(bytes, 10), 10);
	byte_ring_finish_for_writer(r);
	assert_int_equal(byte_ring_end(r), BYTE_RING_FINISHED);
	assert_int_equal(recv_some(4), 4);
	/* Another process that goes on reading. */
	assert_int_equal(byte_ring_reader_open(r, &memory.shared, memory.data, CAPACITY), 0);
	assert_int_equal(byte_ring_end(r), BYTE_RING_FINISHED);
	assert_int_equal(recv_some(100), 6);
	assert_int_equal(recv_some(100), 0);
	open_both(NULL);
	byte_ring_reset(w);
	byte_ring_finish_for_writer(r);
	assert_int_equal(byte_ring_end(r), BYTE_RING_WAS_RESET);
	open_both(NULL);
	memory.shared.tail = CAPACITY + 1;
	byte_ring_finish_for_writer(r);
	assert_int_equal(byte_ring_end(r), BYTE_RING_BROKEN);
	assert_int_equal(memory.shared.tail, CAPACITY + 1);
}

static void test_a_closed_reader_refuses_bytes(void **state)
{
	assert_int_equal(send_some(bytes, 10), 10);
	assert_false(byte_ring_reader_closed(w));
	byte_ring_close(r);
	assert_true(byte_ring_reader_closed(w));
	assert_int_equal(send_some(bytes, 10), -ECONNRESET);
	assert_int_equal(byte_ring_space(w), 0);
}

/* The writer sees them as unread. */
static void test_what_a_reader_refuses_is_lost_for_it_too(void **state)
{
	assert_int_equal(send_some(bytes, 10), 10);
	byte_ring_refuse(r);
	assert_true(byte_ring_reader_closed(w));
	assert_int_equal(byte_ring_unread(w), 10);
	assert_int_equal(byte_ring_readable(r), 0);
	assert_int_equal(recv_some(10), -EPROTO);
	assert_int_equal(send_some(bytes, 10), -ECONNRESET);
}

static void test_urgent_byte_has_a_place(void **state)
{
	struct iovec iov = {.iov_base = bytes, .iov_len = 10};
	int64_t ahead;

	assert_int_equal(send_some(bytes, 5), 5);
	assert_false(byte_ring_urgent(r, &ahead));
	assert_int_equal(byte_ring_write(w, &iov, 1, BYTE_RING_URGENT), 10);
	assert_int_equal(send_some(bytes, 5), 5);
	assert_int_equal(byte_ring_readable(r), 20);
	assert_true(byte_ring_urgent(r, &ahead));
	assert_int_equal(ahead, 14);
	assert_int_equal(recv_some(14), 14);
	assert_true(byte_ring_urgent(r, &ahead));
	assert_int_equal(ahead, 0);
	assert_int_equal(recv_some(2), 2);
	assert_true(byte_ring_urgent(r, &ahead));
	assert_int_equal(ahead, -2);
	assert_int_equal(byte_ring_write(w, &iov, 1, BYTE_RING_URGENT), 10);
	assert_int_equal(byte_ring_readable(r), 14);
	assert_true(byte_ring_urgent(r, &ahead));
	assert_int_equal(ahead, 13);
}

static void test_another_process_goes_on_with_a_side(void **state)
{
	struct byte_ring_reader r2;
	struct byte_ring_writer w2;

	assert_int_equal(send_some(bytes, 200), 200);
	assert_int_equal(recv_some(50), 50);
	assert_int_equal(byte_ring_reader_open(&r2, &memory.shared, memory.data, CAPACITY), 0);
	assert_int_equal(byte_ring_writer_open(&w2, &memory.shared, memory.data, CAPACITY, 0), 0);
	*r = r2;
	*w = w2;
	assert_int_equal(byte_ring_space(w), CAPACITY - 150);
	assert_int_equal(send_some(bytes + 200, 50), 50);
	byte_ring_finish(w);
	assert_int_equal(byte_ring_writer_open(w, &memory.shared, memory.data, CAPACITY, 0), 0);
	assert_int_equal(send_some(bytes, 1), -EPIPE);
	assert_int_equal(recv_some(300), 200);
	assert_memory_equal(heard, bytes + 50, 200);
	assert_int_equal(recv_some(300), 0);
	assert_int_equal(byte_ring_reader_open(r, &memory.shared, memory.data, 100), -EINVAL);
	assert_int_equal(byte_ring_reader_open(r, &memory.shared, memory.data, 32), -EINVAL);
}

/* What the other side must not write, after 100 bytes of which 50 are read. */
static void prepare_lie(void)
{
	open_both(NULL);
	assert_int_equal(send_some(bytes, 100), 100);
	assert_int_equal(recv_some(50), 50);
}

static void test_an_impossible_tail_breaks_the_reader(void **state)
{
	static const uint64_t tails[] = {
		0, 49, 99, 50 + CAPACITY + 1, 1ull << 61, ~0ull, BYTE_RING_FIN | 99};

	for (unsigned i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		prepare_lie();
		memory.shared.tail = tails[i];
		assert_int_equal(byte_ring_readable(r), 0);
		assert_int_equal(recv_some(10), -EPROTO);
		memory.shared.tail = 100; /* too late */
		assert_int_equal(recv_some(10), -EPROTO);
		assert_int_equal(byte_ring_discard(r, 10), -EPROTO);
		assert_int_equal(byte_ring_end(r), BYTE_RING_BROKEN);
		byte_ring_close(r);
		assert_int_equal(memory.shared.head, 50);
	}
	prepare_lie();
	memory.shared.tail = 50 + CAPACITY;
	assert_int_equal(recv_some(1000), CAPACITY);
	prepare_lie();
	byte_ring_finish(w);
	assert_int_equal(recv_some(10), 10);
	memory.shared.tail = 100; /* no end any more */
	assert_int_equal(recv_some(10), -EPROTO);
	prepare_lie();
	byte_ring_finish(w);
	assert_int_equal(recv_some(10), 10);
	memory.shared.tail = 101 | BYTE_RING_FIN;
	assert_int_equal(recv_some(10), -EPROTO);
}

static void test_an_impossible_mark_breaks_the_reader(void **state)
{
	static const uint64_t marks[] = {1, 50, 100, 50 + CAPACITY + 1, ~0ull};

	for (unsigned i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		prepare_lie();
		memory.shared.urgent = marks[i];
		assert_int_equal(send_some(bytes, 1), 1);
		assert_int_equal(recv_some(10), -EPROTO);
	}
	prepare_lie();
	memory.shared.urgent = 120; /* ahead of the tail: it comes later */
	assert_int_equal(send_some(bytes, 1), 1);
	assert_int_equal(recv_some(100), 51);
}

static void test_an_impossible_head_breaks_the_writer(void **state)
{
	static const uint64_t heads[] = {49, 0, 101, 1ull << 61, ~0ull};

	for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		prepare_lie();
		assert_int_equal(byte_ring_space(w), CAPACITY - 50);
		memory.shared.head = heads[i];
		assert_int_equal(byte_ring_space(w), 0);
		assert_int_equal(send_some(bytes, 10), -EPROTO);
		memory.shared.head = 50;
		assert_int_equal(send_some(bytes, 10), -EPROTO);
		byte_ring_finish(w);
		assert_int_equal(memory.shared.tail, 100);
		assert_int_equal(byte_ring_writer_open(w, &memory.shared, memory.data, CAPACITY, 0),
				 0);
	}
	prepare_lie();
	byte_ring_close(r);
	assert_true(byte_ring_reader_closed(w));
	memory.shared.head = 50; /* open again */
	assert_false(byte_ring_space(w));
	assert_int_equal(send_some(bytes, 10), -EPROTO);
	memory.shared.head = 101;
	assert_int_equal(byte_ring_writer_open(w, &memory.shared, memory.data, CAPACITY, 0),
			 -EPROTO);
	assert_int_equal(byte_ring_reader_open(r, &memory.shared, memory.data, CAPACITY), -EPROTO);
}

/* The next n bytes are consumed, and kept from `from` on. */
static const uint8_t *pass(uint32_t n, uint64_t from)
{
	const uint8_t *at;

	assert_true(byte_ring_readable(r) >= n);
	assert_true(byte_ring_piece(r, 0, &at) >= n);
	byte_ring_keep(&memory.shared, from);
	byte_ring_pass(r, n);
	return at;
}

static void test_kept_bytes_are_not_written_over(void **state)
{
	const uint8_t *first, *second;

	assert_int_equal(send_some(bytes, 200), 200);
	first = pass(100, 0);
	second = pass(60, 0);
	assert_ptr_equal(first, memory.data);
	assert_ptr_equal(second, memory.data + 100);
	assert_int_equal(byte_ring_unread(w), 40); /* they are read */
	assert_int_equal(byte_ring_space(w), CAPACITY - 200);
	assert_int_equal(send_some(bytes + 200, 200), 56);
	assert_int_equal(recv_some(200), 96); /* the usual read goes on */
	assert_memory_equal(heard, bytes + 160, 96);
	assert_int_equal(byte_ring_space(w), 0);
	assert_memory_equal(first, bytes, 160);
	byte_ring_keep(&memory.shared, 100);
	assert_int_equal(byte_ring_space(w), 100);
	assert_int_equal(send_some(bytes, 200), 100);
	assert_memory_equal(second, bytes + 100, 60);
	byte_ring_keep(&memory.shared, BYTE_RING_POSITION);
	assert_int_equal(byte_ring_space(w), 156);
	assert_int_equal(byte_ring_unread(w), 100);
}

static void test_a_piece_ends_where_the_ring_does(void **state)
{
	const uint8_t *at;

	assert_int_equal(byte_ring_piece(r, 0, &at), 0);
	assert_int_equal(send_some(bytes, 200), 200);
	assert_int_equal(recv_some(200), 200);
	assert_int_equal(send_some(bytes, 100), 100);
	assert_int_equal(byte_ring_readable(r), 100);
	assert_int_equal(byte_ring_piece(r, 0, &at), 56);
	assert_ptr_equal(at, memory.data + 200);
	assert_int_equal(byte_ring_piece(r, 50, &at), 6);
	assert_int_equal(byte_ring_piece(r, 56, &at), 44);
	assert_ptr_equal(at, memory.data);
	assert_int_equal(byte_ring_piece(r, 100, &at), 0);
}

static void test_kept_bytes_are_waited_for(void **state)
{
	assert_int_equal(send_some(bytes, CAPACITY), CAPACITY);
	pass(CAPACITY, 0);
	assert_int_equal(byte_ring_space(w), 0);
	byte_ring_want_space(w, 10);
	assert_true(byte_ring_is_stopped(r, 0));
	assert_false(byte_ring_is_wanted(r));
	byte_ring_keep(&memory.shared, 9);
	assert_false(byte_ring_is_wanted(r));
	byte_ring_keep(&memory.shared, 10);
	assert_true(byte_ring_is_wanted(r));
	assert_false(byte_ring_is_stopped(r, 10));
	/* Kept bytes count, however often it asks. */
	byte_ring_want_space(w, 20);
	assert_false(byte_ring_is_wanted(r));
	byte_ring_keep(&memory.shared, BYTE_RING_POSITION);
	assert_true(byte_ring_is_wanted(r));
}

/* Bytes come back between the writer's look and its question, which is about what it has seen. */
static void test_room_that_comes_back_meanwhile_is_waited_for(void **state)
{
	assert_int_equal(send_some(bytes, CAPACITY), CAPACITY);
	pass(200, 0);
	byte_ring_set_receive_limit(r, 50); /* as SO_RCVBUF */
	assert_int_equal(byte_ring_space(w), 0);
	byte_ring_keep(&memory.shared, BYTE_RING_POSITION);
	byte_ring_want_space(w, 30);
	assert_int_equal(byte_ring_space(w), 0);
	assert_int_equal(recv_some(CAPACITY), 56);
	assert_true(byte_ring_is_wanted(r));
	assert_int_equal(byte_ring_space(w), 50);
}

static void test_another_reader_does_not_give_kept_bytes_back(void **state)
{
	assert_int_equal(send_some(bytes, 100), 100);
	pass(50, 0);
	assert_int_equal(byte_ring_reader_open(r, &memory.shared, memory.data, CAPACITY), 0);
	assert_true(byte_ring_keeps_others(r));
	assert_int_equal(recv_some(100), 50);
	assert_int_equal(byte_ring_space(w), CAPACITY - 100);
	byte_ring_close(r);
	byte_ring_keep(&memory.shared, BYTE_RING_POSITION);
	assert_false(byte_ring_keeps_others(r));
	assert_true(byte_ring_reader_closed(w));
}

/* A position that cannot be gives the writer no more room than the head does. */
static void test_an_impossible_kept_position_harms_its_writer_only(void **state)
{
	assert_int_equal(send_some(bytes, 100), 100);
	pass(50, 0);
	memory.shared.kept = UINT64_MAX;
	assert_int_equal(byte_ring_space(w), CAPACITY - 50);
	memory.shared.kept = 51;
	assert_int_equal(byte_ring_space(w), CAPACITY - 50);
}

#define TEST(name) cmocka_unit_test_setup(name, open_both)

static const struct CMUnitTest tests[] = {
	TEST(test_bytes_arrive_once_at_every_place_of_the_ring),
	TEST(test_a_full_ring_takes_what_fits),
	TEST(test_vectors_are_one_stream),
	TEST(test_peek_and_discard),
	TEST(test_both_buffers_limit_the_stream),
	TEST(test_space_is_wanted_until_it_is_there),
	TEST(test_the_end_comes_after_the_bytes),
	TEST(test_only_bytes_are_waited_for_where_it_is_quiet),
	TEST(test_the_reader_ends_the_stream_of_a_writer_that_is_gone),
	TEST(test_a_closed_reader_refuses_bytes),
	TEST(test_what_a_reader_refuses_is_lost_for_it_too),
	TEST(test_urgent_byte_has_a_place),
	TEST(test_another_process_goes_on_with_a_side),
	TEST(test_an_impossible_tail_breaks_the_reader),
	TEST(test_an_impossible_mark_breaks_the_reader),
	TEST(test_an_impossible_head_breaks_the_writer),
	TEST(test_kept_bytes_are_not_written_over),
	TEST(test_a_piece_ends_where_the_ring_does),
	TEST(test_kept_bytes_are_waited_for),
	TEST(test_room_that_comes_back_meanwhile_is_waited_for),
	TEST(test_another_reader_does_not_give_kept_bytes_back),
	TEST(test_an_impossible_kept_position_harms_its_writer_only),
};

VMA_TEST_MAIN("byte_ring", tests, NULL, NULL)
