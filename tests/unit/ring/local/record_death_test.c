/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A writer of a record ring ends at each of its steps: the others and the reader go on, and its
 * cells come back.
 */
#include "tests/lib/record_read.h"

#include <errno.h>
#include <string.h>

#include "vma_test.h"

#define CELLS RECORD_CELLS_MIN
#define STEPS_MAX 16

static struct {
	uint8_t bytes[sizeof(struct record_ring_shared) + CELLS * (RECORD_CELL + 8)];
} memory __attribute__((aligned(64)));
static struct record_ring_shared *const shared = (void *)&memory;
static struct record_ring_reader reader, *r = &reader;
static struct record_ring_writer writer[3];
static jmp_buf dies;
static volatile int left; /* steps until it dies */

static void step(void)
{
	if (left > 0 && --left == 0)
		longjmp(dies, 1);
}

static int open_all(void **state)
{
	memset(&memory, 0, sizeof(memory));
	assert_int_equal(record_ring_init(r, shared, CELLS, CELLS), 0);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(record_ring_add_writer(r), i);
		assert_int_equal(record_ring_writer_open(&writer[i], shared, CELLS, i), 0);
	}
	record_ring_step = step;
	left = 0;
	return 0;
}

static int write_one(uint32_t from, uint16_t port, size_t len)
{
	static uint8_t bytes[RECORD_MAX];
	struct record_header header = {.from_port = port};
	struct iovec iov = {.iov_base = bytes, .iov_len = len};

	return record_ring_write(&writer[from], &header, &iov, 1, len);
}

/* True: the writer died at the n-th step of the write. */
static bool write_and_die(uint32_t from, uint16_t port, size_t len, int n)
{
	left = n;
	if (setjmp(dies))
		return true;
	assert_int_equal(write_one(from, port, len), 0);
	left = 0;
	return false;
}

static int recv_one(void)
{
	struct record_header header;
	uint8_t byte;
	int rc;

	if (record_ring_read_at_once(r, &header, &byte, 1) != -EAGAIN)
		return header.from_port;
	rc = record_ring_peek(r);
	if (!rc)
		record_ring_consume(r);
	return rc ? rc : r->record.header.from_port;
}

/*
 * Others write before, then: none, one, or many after the death; the reader hears of it late.
 * behind: another writer has stopped right before, so this one describes its reservation.
 */
static void round_of_death(int at, uint32_t after, size_t len, bool behind, bool *died)
{
	open_all(NULL);
	assert_int_equal(write_one(1, 1, 10), 0);
	if (behind)
		assert_true(write_and_die(2, 98, 500, 2));
	*died = write_and_die(0, 99, len, at);
	for (uint32_t i = 0; i < after; i++)
		assert_int_equal(write_one(1, (uint16_t)(2 + i), 100), 0);
	assert_int_equal(recv_one(), 1);
	if (!*died)
		assert_int_equal(recv_one(), 99);
	/* Those behind it are not held up. */
	for (uint32_t i = 0; i < after; i++)
		assert_int_equal(recv_one(), 2 + i);
	assert_int_equal(recv_one(), -EAGAIN);
	record_ring_writer_gone(r, 0);
	assert_int_equal(recv_one(), -EAGAIN);
	if (behind) {
		assert_int_equal(r->n_holes, 1);
		record_ring_writer_gone(r, 2);
		assert_int_equal(recv_one(), -EAGAIN);
		assert_int_equal(record_ring_add_writer(r), 0);
		assert_int_equal(record_ring_add_writer(r), 2);
	} else {
		assert_int_equal(record_ring_add_writer(r), 0);
	}
	/* All of it can be used again. */
	assert_int_equal(shared->head, r->next);
	assert_int_equal(r->n_holes, 0);
	for (uint32_t i = 0; i < 3 * CELLS; i++) {
		assert_int_equal(write_one(i % 3, (uint16_t)i, 100), 0);
		assert_int_equal(recv_one(), (uint16_t)i);
	}
}

static void test_a_writer_may_die_at_every_step(void **state)
{
	static const uint32_t after[] = {0, 1, 2, 40};
	static const size_t lens[] = {0, 14, 1000, RECORD_MAX / 2};

	for (unsigned i = 0; i < 32; i++) {
		bool died = true, behind = i / 16;
		int at;

		for (at = 1; died; at++) {
			assert_true(at < STEPS_MAX);
			round_of_death(at, after[i % 4], lens[i / 4 % 4], behind, &died);
		}
		/* Before the exchange of the tail, after it, after the header, before the commit. */
		assert_int_equal(at - 2, behind ? 6 : 4);
	}
}

static void test_a_stopped_writer_holds_up_no_other_and_its_record_follows(void **state)
{
	assert_true(write_and_die(0, 99, 2000, 3)); /* it is only stopped */
	for (uint16_t i = 0; i < 10; i++)
		assert_int_equal(write_one(1, i, 10), 0);
	for (uint16_t i = 0; i < 10; i++)
		assert_int_equal(recv_one(), i);
	assert_int_equal(recv_one(), -EAGAIN);
	assert_int_equal(shared->head, CELLS);
	/* It goes on: the same record, in the ring's first cell. */
	shared->word[0] |= 1u << 21;
	assert_int_equal(recv_one(), 99);
	assert_int_equal(recv_one(), -EAGAIN);
	assert_int_equal(shared->head, r->next);
}

static void test_more_stopped_writers_than_can_be_passed_over(void **state)
{
	uint16_t n = 0;

	for (uint32_t i = 0; i < RECORD_HOLES + 3; i++) {
		/* Opened anew: what goes on after a step has not been stopped there. */
		assert_int_equal(record_ring_writer_open(&writer[0], shared, CELLS, 0), 0);
		assert_true(write_and_die(0, 99, 10, 4));
	}
	while (write_one(1, n, 10) == 0)
		n++;
	assert_int_equal(n, CELLS - RECORD_HOLES - 3);
	assert_int_equal(recv_one(), -EAGAIN);
	record_ring_writer_gone(r, 0);
	for (uint16_t i = 0; i < n; i++)
		assert_int_equal(recv_one(), i);
	assert_int_equal(recv_one(), -EAGAIN);
	assert_int_equal(shared->head, 2 * CELLS);
}

/* The ring is closed while a writer is at one of its steps. */
static void test_a_writer_that_has_its_place_is_waited_for_when_the_ring_closes(void **state)
{
	bool died = true;

	for (int at = 1; died; at++) {
		open_all(NULL);
		assert_int_equal(write_one(1, 1, 10), 0);
		died = write_and_die(0, 99, 100, at);
		record_ring_close(r);
		assert_int_equal(write_one(1, 2, 10), -EPIPE);
		assert_int_equal(recv_one(), 1);
		if (!died)
			assert_int_equal(recv_one(), 99);
		assert_int_equal(recv_one(), -EAGAIN);
		/* From its second step on it has a place. */
		assert_int_equal(record_ring_is_drained(r), !died || at < 2);
		record_ring_writer_gone(r, 0);
		assert_int_equal(recv_one(), -EAGAIN);
		assert_true(record_ring_is_drained(r));
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(test_a_writer_may_die_at_every_step, open_all),
	cmocka_unit_test_setup(test_a_stopped_writer_holds_up_no_other_and_its_record_follows,
			       open_all),
	cmocka_unit_test_setup(test_a_writer_that_has_its_place_is_waited_for_when_the_ring_closes,
			       open_all),
	cmocka_unit_test_setup(test_more_stopped_writers_than_can_be_passed_over, open_all),
};

VMA_TEST_MAIN("record_death", tests, NULL, NULL)
