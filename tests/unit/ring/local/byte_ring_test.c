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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_bytes_arrive_once_at_every_place_of_the_ring, open_both),
	cmocka_unit_test_setup(test_a_full_ring_takes_what_fits, open_both),
};

VMA_TEST_MAIN("byte_ring", tests, NULL, NULL)
