/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * 14 bytes through a byte ring, and through a record ring, with a notice; steps counts the
 * instructions.
 *
 *	local COUNT
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "ring/local/byte_ring.h"
#include "ring/local/notice.h"
#include "tests/lib/record_read.h"
#include "tests/check.h"
#include "tools/bench/steps.h"

#define CAPACITY 65536u
#define SIZE 14u

static struct byte_ring_shared shared;
static uint8_t data[CAPACITY];
static struct notice_lane lane;
static struct byte_ring_reader reader;
static struct byte_ring_writer writer;
static struct record_ring_reader taker;
static struct record_ring_writer sender;
static struct notice_reader in;
static struct notice_writer out;
static char message[SIZE], heard[SIZE];
static struct record_header got;
static struct iovec from = {.iov_base = message, .iov_len = SIZE};
static struct iovec to = {.iov_base = heard, .iov_len = SIZE};

static void hear(void *arg, uint32_t conn)
{
	(void)arg;
	TEST_CHECK(conn == 1);
}

__attribute__((noinline)) static ssize_t bytes_send(void)
{
	ssize_t n = byte_ring_write(&writer, &from, 1, 0);

	notice_post(&out, 1);
	return n;
}

__attribute__((noinline)) static ssize_t bytes_recv(void)
{
	notice_take(&in, hear, NULL);
	return byte_ring_read(&reader, &to, 1, false);
}

__attribute__((noinline)) static int record_send(void)
{
	static const struct record_header header = {.time = 1};
	int rc = record_ring_write_at_once(&sender, &header, message, SIZE);

	if (rc == -EAGAIN) /* the first one */
		rc = record_ring_write(&sender, &header, &from, 1, SIZE);
	notice_post(&out, 1);
	return rc;
}

__attribute__((noinline)) static ssize_t record_recv(void)
{
	notice_take(&in, hear, NULL);
	return record_ring_read_at_once(&taker, &got, heard, SIZE);
}

static void open_all(void)
{
	struct record_ring_shared *records = aligned_alloc(64, record_ring_size(RECORD_CELLS_MIN));

	TEST_CHECK(records);
	for (size_t i = 0; i < record_ring_size(RECORD_CELLS_MIN); i++)
		((uint8_t *)records)[i] = 0;
	byte_ring_init(&shared, CAPACITY);
	TEST_CHECK(!byte_ring_reader_open(&reader, &shared, data, CAPACITY));
	TEST_CHECK(!byte_ring_writer_open(&writer, &shared, data, CAPACITY, 0));
	TEST_CHECK(!record_ring_init(&taker, records, RECORD_CELLS_MIN, RECORD_CELLS_MIN));
	TEST_CHECK(!record_ring_add_writer(&taker));
	TEST_CHECK(!record_ring_writer_open(&sender, records, RECORD_CELLS_MIN, 0));
	TEST_CHECK(!notice_reader_open(&in, &lane, 64));
	TEST_CHECK(!notice_writer_open(&out, &lane, 64, eventfd(0, EFD_NONBLOCK)));
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	open_all();
	for (int n = atoi(argv[1]); n > 0; n--) {
		steps_count((void *)bytes_send, "bytes_send");
		TEST_CHECK(bytes_send() == SIZE);
		steps_count((void *)bytes_recv, "bytes_recv");
		TEST_CHECK(bytes_recv() == SIZE);
		steps_count((void *)record_send, "record_send");
		TEST_CHECK(record_send() == 0);
		steps_count((void *)record_recv, "record_recv");
		TEST_CHECK(record_recv() == SIZE);
	}
	return 0;
}
