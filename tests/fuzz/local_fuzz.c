/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared words of byte rings, record rings and notice lanes: whatever the other process writes
 * there, both sides stay within the memory, and a broken side stays broken.
 *
 * Input	operations in order: a byte that selects one, and its operand of two bytes.
 *		An operation that changes shared memory has an offset, and eight bytes more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "ring/local/byte_ring.h"
#include "ring/local/notice.h"
#include "tests/lib/record_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CAPACITY 128u
#define CELLS RECORD_CELLS_MIN
#define CONNS 100u

static struct {
	struct byte_ring_shared *ring;
	uint8_t *data;
	struct record_ring_shared *records;
	struct notice_lane *lane;
	struct byte_ring_reader reader;
	struct byte_ring_writer writer;
	struct record_ring_reader taker;
	struct record_ring_writer sender;
	struct notice_reader in;
	struct notice_writer out;
} f;

/* Of its exact size: a byte too far is seen. */
static void *make(size_t size)
{
	void *at = aligned_alloc(64, size);

	if (!at)
		abort();
	memset(at, 0, size);
	return at;
}

static void check(bool so)
{
	if (!so)
		abort();
}

static void start(void)
{
	static int wake = -1;

	if (wake < 0)
		wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	f.ring = make(sizeof(*f.ring));
	f.data = make(CAPACITY);
	f.records = make(record_ring_size(CELLS));
	f.lane = make(sizeof(*f.lane));
	byte_ring_init(f.ring, CAPACITY);
	check(!byte_ring_reader_open(&f.reader, f.ring, f.data, CAPACITY));
	check(!byte_ring_writer_open(&f.writer, f.ring, f.data, CAPACITY, 0));
	check(!record_ring_init(&f.taker, f.records, CELLS, CELLS));
	check(!record_ring_writer_open(&f.sender, f.records, CELLS, 0));
	check(!record_ring_add_writer(&f.taker));
	check(!notice_reader_open(&f.in, f.lane, CONNS));
	check(!notice_writer_open(&f.out, f.lane, CONNS, wake));
}

static void stop(void)
{
	free(f.ring);
	free(f.data);
	free(f.records);
	free(f.lane);
}

/* As the usual calls, which leave to the others what is not usual. */
static void use_bytes_at_once(uint16_t operand)
{
	uint8_t bytes[2 * CAPACITY] = {0};
	size_t size = operand >> 1 & 0xff, n;
	bool stuck = operand & 1 ? f.writer.broken : f.reader.broken;

	if (operand & 1)
		n = byte_ring_write_at_once(&f.writer, bytes, size);
	else
		n = byte_ring_read_at_once(&f.reader, bytes, size);
	check(n <= size && n <= CAPACITY && (!stuck || !n));
}

static void end_bytes(unsigned how)
{
	switch (how) {
	case 0:
	case 2:
		byte_ring_close(&f.reader);
		break;
	case 1:
	case 3:
		byte_ring_finish(&f.writer);
		break;
	case 4:
		byte_ring_reset(&f.writer);
		break;
	default:
		(void)byte_ring_reader_closed(&f.writer);
		byte_ring_writer_lost(&f.writer);
		check(f.writer.broken);
	}
}

static void use_bytes(uint16_t operand)
{
	uint8_t bytes[2 * CAPACITY] = {0};
	struct iovec iov = {.iov_base = bytes, .iov_len = operand % sizeof(bytes)};
	bool broken = f.reader.broken, stuck = f.writer.broken;
	int64_t ahead;
	ssize_t n;

	switch (operand >> 13) {
	case 0:
		n = byte_ring_write(&f.writer, &iov, 1, operand & 1 ? BYTE_RING_URGENT : 0);
		check(n <= (ssize_t)iov.iov_len && n <= CAPACITY && (!stuck || n == -EPROTO));
		break;
	case 1:
		n = byte_ring_read(&f.reader, &iov, 1, operand & 1);
		check(n <= (ssize_t)iov.iov_len && n <= CAPACITY && (!broken || n == -EPROTO));
		break;
	case 2:
		check(byte_ring_peek_at(&f.reader, operand & 0xff, &iov, 1) <= CAPACITY);
		check(byte_ring_discard(&f.reader, operand & 0xff) <= CAPACITY);
		break;
	case 3:
		check(byte_ring_space(&f.writer) <= CAPACITY);
		check(byte_ring_unread(&f.writer) <= CAPACITY);
		check(byte_ring_unsent(&f.writer) <= CAPACITY);
		check(byte_ring_readable(&f.reader) <= CAPACITY);
		break;
	case 4:
		byte_ring_want_space(&f.writer, operand & 0x1fff);
		(void)byte_ring_is_wanted(&f.reader);
		(void)byte_ring_urgent(&f.reader, &ahead);
		break;
	case 5:
		byte_ring_set_send_limit(&f.writer, operand);
		byte_ring_set_receive_limit(&f.reader, operand & 0xff);
		break;
	case 6:
		if (operand & 0x1000) {
			use_bytes_at_once(operand);
			break;
		}
		(void)byte_ring_reader_open(&f.reader, f.ring, f.data, CAPACITY);
		(void)byte_ring_writer_open(&f.writer, f.ring, f.data, CAPACITY, operand & 0xff);
		break;
	default:
		(void)byte_ring_end(&f.reader);
		end_bytes(operand % 6);
	}
	check(f.reader.tail - f.reader.head <= CAPACITY &&
	      f.writer.tail - f.writer.head <= CAPACITY);
}

static void use_records(uint16_t operand)
{
	static uint8_t bytes[RECORD_MAX];
	struct iovec iov = {.iov_base = bytes, .iov_len = operand};
	struct record_header header = {.time = operand};
	bool broken = f.taker.broken;
	int rc;

	switch (operand >> 14) {
	case 0:
		rc = record_ring_write_at_once(&f.sender, &header, bytes, operand);
		check(rc == 0 || rc == -EAGAIN);
		break;
	case 1:
		rc = record_ring_write(&f.sender, &header, &iov, 1, operand);
		check(rc == 0 || rc == -ENOBUFS || rc == -EPROTO || rc == -EMSGSIZE ||
		      rc == -EPIPE);
		break;
	case 2:
		if (operand & 1) {
			ssize_t n = record_ring_read_at_once(&f.taker, &header, bytes,
							     operand >> 1 & 0xfff);

			check(n == -EAGAIN || (n >= 0 && n <= (operand >> 1 & 0xfff)));
			check(n == -EAGAIN || (n <= header.len && header.len <= RECORD_MAX));
			check(n == -EAGAIN || !broken);
			break;
		}
		iov.iov_len = sizeof(bytes);
		rc = record_ring_peek(&f.taker);
		if (rc) {
			check(rc == -EAGAIN || rc == -EPROTO);
			check(!broken || rc == -EPROTO);
			break;
		}
		check(f.taker.record.header.len <= RECORD_MAX);
		check(record_ring_copy(&f.taker, 0, &iov, 1) == f.taker.record.header.len);
		record_ring_consume(&f.taker);
		break;
	default:
		record_ring_writer_gone(&f.taker, operand & 0x7ff);
		(void)record_ring_add_writer(&f.taker);
		(void)record_ring_has_room(&f.sender, operand & 0x3ff);
		(void)record_ring_dropped(&f.taker);
	}
}

static void hear(void *arg, uint32_t conn)
{
	check(conn < CONNS);
	++*(uint32_t *)arg;
}

static void use_lane(uint16_t operand)
{
	uint32_t calls = 0;

	if (operand & 1) {
		notice_post(&f.out, (operand >> 1) % CONNS);
	} else if (operand & 2) {
		notice_arm(&f.in);
		notice_disarm(&f.in);
	} else {
		uint32_t n = notice_take(&f.in, hear, &calls);

		check(n == calls && n <= CONNS + NOTICE_SLOTS);
	}
}

/* A word of one of the memories, the record ring's near its begin. */
static void change(unsigned which, uint16_t operand, uint64_t value)
{
	static const size_t sizes[] = {sizeof(struct byte_ring_shared),
				       sizeof(struct record_ring_shared) + 64,
				       sizeof(struct notice_lane)};
	void *memories[] = {f.ring, f.records, f.lane};

	memcpy((uint8_t *)memories[which] + operand * 8 % sizes[which], &value, sizeof(value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	start();
	while (size >= 3) {
		uint8_t op = data[0];
		uint16_t operand;
		uint64_t value = 0;
		size_t more = op % 6 < 3 ? 0 : sizeof(value);

		memcpy(&operand, data + 1, sizeof(operand));
		if (size < 3 + more)
			break;
		memcpy(&value, data + 3, more);
		data += 3 + more;
		size -= 3 + more;
		if (op % 6 == 0)
			use_bytes(operand);
		else if (op % 6 == 1)
			use_records(operand);
		else if (op % 6 == 2)
			use_lane(operand);
		else
			change(op % 6 - 3, operand, value);
	}
	stop();
	return 0;
}
