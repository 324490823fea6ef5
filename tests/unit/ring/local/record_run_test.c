/* SPDX-License-Identifier: BSD-2-Clause */
/* Records one after another, taken as a run: they stay where they are, and whatever needs care ends the run. */
#include "ring/local/record_quick.h"

#include <errno.h>
#include <string.h>

#include "ring/local/segment.h"
#include "vma_test.h"

#define CELLS RECORD_CELLS_MIN
#define WORD(position) (shared->word[(position) % CELLS])

static struct segment segment;
static struct record_ring_shared *shared;
static struct record_ring_reader reader, *r = &reader;
static struct record_ring_writer writer[2];
static uint8_t bytes[1000];

static int open_all(void **state)
{
	(void)state;
	assert_int_equal(segment_create(&segment, 1, SEGMENT_PAGE + record_ring_size(CELLS)), 0);
	shared = segment_at(&segment, SEGMENT_PAGE, record_ring_size(CELLS), 64);
	assert_int_equal(record_ring_init(r, shared, CELLS, CELLS), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(record_ring_add_writer(r), i);
		assert_int_equal(record_ring_writer_open(&writer[i], shared, CELLS, (uint32_t)i),
				 0);
	}
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	segment_close(&segment);
	return 0;
}

static void send_from(unsigned i, size_t len)
{
	struct record_header header = {.ttl = 64};
	struct iovec iov = {bytes, len};

	assert_int_equal(record_ring_write(&writer[i], &header, &iov, 1, len), 0);
}

/* The length of the next record, or -errno. */
static int recv_one(void)
{
	int rc = record_ring_peek(r);

	record_ring_consume(r);
	return rc ? rc : r->record.header.len;
}

/* Records of one cell come and go until the next one is there. */
static void read_to(uint32_t cell)
{
	while (r->next % CELLS != cell) {
		send_from(0, 10);
		assert_int_equal(recv_one(), 10);
	}
}

/* Takes the records of a run, which are kept until give_back(); returns their number. */
static unsigned take_run(void)
{
	uint64_t first = r->next;
	struct record_run run;
	struct record_seen seen;
	unsigned n = 0;

	if (!record_ring_run_begin(r, &run))
		return 0;
	for (; record_ring_run_look(&run, &seen); n++) {
		assert_int_equal(record_ring_seen_header(&seen).len, seen.len);
		assert_memory_equal(seen.at + 1, bytes, seen.len);
		record_ring_run_next(&run, &seen);
	}
	if (!n)
		return 0;
	if (!r->keeps)
		record_ring_keep(r, first);
	record_ring_run_end(r, &run);
	return n;
}

static void give_back(void)
{
	record_ring_keep(r, UINT64_MAX);
}

static void test_runs_follow_while_records_are_kept(void **state)
{
	uint64_t head = shared->head;

	(void)state;
	assert_int_equal(take_run(), 0);
	for (unsigned i = 0; i < 10; i++)
		send_from(i / 3 % 2, 30 * i);
	assert_int_equal(take_run(), 10);
	send_from(0, 100);
	assert_int_equal(take_run(), 1);
	send_from(1, 200);
	assert_int_equal(recv_one(), 200);
	assert_int_equal(shared->head, head);
	send_from(1, 300);
	give_back();
	assert_int_equal(shared->head, r->next);
	assert_int_equal(recv_one(), 300);
	assert_int_equal(recv_one(), -EAGAIN);
	assert_int_equal(shared->head, r->next);
}

static void test_a_mark_ends_a_run(void **state)
{
	struct record_header mark = {.from_port = 9};

	(void)state;
	send_from(0, 10);
	assert_int_equal(record_ring_mark(&writer[0], &mark), 0);
	send_from(0, 20);
	assert_int_equal(take_run(), 1);
	assert_int_equal(take_run(), 0);
	give_back();
	assert_int_equal(record_ring_peek(r), 0);
	assert_true(r->record.is_mark);
	assert_int_equal(take_run(), 0); /* it is peeked */
	record_ring_consume(r);
	assert_int_equal(take_run(), 1);
}

static void test_a_pause_ends_a_run(void **state)
{
	(void)state;
	send_from(0, 10);
	send_from(0, 20);
	record_ring_pause_at(r, r->next + 1);
	assert_int_equal(take_run(), 1);
	assert_int_equal(take_run(), 0);
	record_ring_pause_at(r, UINT64_MAX);
	assert_int_equal(take_run(), 1);
}

static void test_the_end_of_the_memory_ends_a_run(void **state)
{
	(void)state;
	read_to(CELLS - 3);
	send_from(0, 20);
	send_from(0, 200); /* its last cells are the first ones */
	send_from(0, 30);
	assert_int_equal(take_run(), 1);
	assert_int_equal(take_run(), 0);
	give_back();
	assert_int_equal(recv_one(), 200);
	assert_int_equal(take_run(), 1);
	give_back();
	assert_int_equal(shared->head, r->next);
}

/* The reservation of another writer is passed over, and its record comes first when it is there. */
static void test_there_is_no_run_beside_a_hole(void **state)
{
	uint64_t word;

	(void)state;
	send_from(0, 10);
	send_from(1, 20);
	send_from(1, 30);
	word = WORD(CELLS);
	WORD(CELLS) = make_word(lap_of(word), RECORD_RESERVED, cells_of(word), 0);
	assert_int_equal(take_run(), 0);
	assert_int_equal(recv_one(), 20);
	assert_int_equal(take_run(), 0);
	WORD(CELLS) = word;
	assert_int_equal(recv_one(), 10);
	assert_int_equal(take_run(), 1);
	record_ring_writer_gone(r, 1);
	send_from(0, 40);
	assert_int_equal(take_run(), 0); /* its number is not free yet */
}

static void test_what_cannot_be_is_in_no_run(void **state)
{
	uint64_t word;

	(void)state;
	/* More bytes than were reserved. */
	send_from(0, 10);
	((struct record_header *)(void *)record_at(r->data, 0))->len = 100;
	assert_int_equal(take_run(), 0);
	assert_int_equal(recv_one(), -EAGAIN); /* it was passed over */
	/* Cells of a record that is kept. */
	read_to(700);
	send_from(0, 20);
	assert_int_equal(take_run(), 1);
	read_to(100);
	word = WORD(r->next);
	WORD(r->next) = make_word(lap_at(r->shift, r->next), RECORD_COMMITTED, 700, 0);
	record_at(r->data, 100)->len = 700 * RECORD_CELL - sizeof(struct record_header);
	assert_int_equal(take_run(), 0);
	WORD(r->next) = word;
	send_from(0, 30);
	assert_int_equal(take_run(), 1);
	/* A ring that was spoilt. */
	WORD(r->next) = make_word(9, RECORD_COMMITTED, 1, 0);
	assert_int_equal(recv_one(), -EPROTO);
	WORD(r->next) = make_word(1, RECORD_COMMITTED, 1, 0);
	assert_int_equal(take_run(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

static const struct CMUnitTest tests[] = {
	TEST(test_runs_follow_while_records_are_kept),
	TEST(test_a_mark_ends_a_run),
	TEST(test_a_pause_ends_a_run),
	TEST(test_the_end_of_the_memory_ends_a_run),
	TEST(test_there_is_no_run_beside_a_hole),
	TEST(test_what_cannot_be_is_in_no_run),
};

VMA_TEST_MAIN("record_run", tests, NULL, NULL)
