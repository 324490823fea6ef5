/* SPDX-License-Identifier: BSD-2-Clause */
/* A record ring with its reader and two writers here: datagrams arrive whole and in order. */
#include "ring/local/record_quick.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "ring/local/segment.h"
#include "tests/guard.h"
#include "tests/lib/record_read.h"
#include "vma_test.h"

#define CELLS RECORD_CELLS_MIN
#define WORD(position) (shared->word[(position) % CELLS])

static struct segment segment;
static struct record_ring_shared *shared;
static struct record_ring_reader reader, *r = &reader;
static struct record_ring_writer writer[2];
static uint8_t bytes[RECORD_MAX], heard[RECORD_MAX];
static bool quick;	 /* try the quick way first */
static unsigned at_once; /* records that took it, in either direction */

static int open_all(void **state)
{
	assert_int_equal(segment_create(&segment, 1, SEGMENT_PAGE + record_ring_size(CELLS)), 0);
	shared = segment_at(&segment, SEGMENT_PAGE, record_ring_size(CELLS), 64);
	assert_int_equal(record_ring_init(r, shared, CELLS, CELLS), 0);
	for (int i = 0; i < 2; i++) {
		int number = record_ring_add_writer(r);

		assert_int_equal(number, i);
		assert_int_equal(record_ring_writer_open(&writer[i], shared, CELLS, (uint32_t)i),
				 0);
	}
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	return 0;
}

static int open_quick(void **state)
{
	quick = true;
	return open_all(state);
}

static int close_all(void **state)
{
	segment_close(&segment);
	quick = false;
	return 0;
}

static int send_from(struct record_ring_writer *w, uint16_t port, size_t len)
{
	struct record_header header = {.from_port = port, .time = len + 1};
	struct iovec iov[2] = {{.iov_base = bytes, .iov_len = len / 3},
			       {.iov_base = bytes + len / 3, .iov_len = len - len / 3}};
	int rc = quick ? record_ring_write_at_once(w, &header, bytes, len) : -EAGAIN;

	if (rc != -EAGAIN) {
		at_once++;
		return rc;
	}
	return record_ring_write(w, &header, iov, 2, len);
}

static int heard_one(const struct record_header *header, ssize_t n)
{
	size_t len = header->len;

	assert_int_equal(header->time, len + 1);
	assert_int_equal(n, len);
	assert_memory_equal(heard, bytes, len);
	assert_true(len == sizeof(heard) || heard[len] == 0xee);
	return header->from_port;
}

/* The port of the next record, whose bytes are right; or -errno. */
static int recv_one(void)
{
	struct iovec iov = {.iov_base = heard, .iov_len = sizeof(heard)};
	struct record_header header;
	ssize_t n = -EAGAIN;
	int rc;

	memset(heard, 0xee, sizeof(heard));
	if (quick)
		n = record_ring_read_at_once(r, &header, heard, sizeof(heard));
	if (n != -EAGAIN) {
		at_once++;
		return heard_one(&header, n);
	}
	rc = record_ring_peek(r);
	if (rc)
		return rc;
	n = record_ring_copy(r, 0, &iov, 1);
	record_ring_consume(r);
	return heard_one(&r->record.header, n);
}

static void test_datagrams_of_every_size_arrive(void **state)
{
	assert_int_equal(recv_one(), -EAGAIN);
	for (size_t len = 0; len <= RECORD_MAX; len += len < 200 ? 1 : 997) {
		assert_int_equal(send_from(&writer[0], 1, len), 0);
		assert_int_equal(send_from(&writer[1], 2, len / 2), 0);
		assert_int_equal(recv_one(), 1);
		assert_int_equal(recv_one(), 2);
		assert_int_equal(recv_one(), -EAGAIN);
	}
	assert_int_equal(send_from(&writer[0], 1, RECORD_MAX), 0);
	assert_int_equal(send_from(&writer[0], 1, RECORD_MAX + 1), -EMSGSIZE);
	assert_int_equal(recv_one(), 1);
}

static void test_a_full_ring_drops_and_counts(void **state)
{
	uint32_t n = 0;

	record_ring_set_limit(r, 10);
	writer[1].limit = 10;
	while (send_from(&writer[1], (uint16_t)n, 33) == 0)
		n++;
	assert_int_equal(n, 5); /* two cells each */
	assert_int_equal(record_ring_dropped(r), 1);
	assert_false(record_ring_has_room(&writer[1], 0));
	record_ring_set_limit(r, CELLS);
	assert_true(record_ring_has_room(&writer[1], 0));
	while (send_from(&writer[1], (uint16_t)n, 33) == 0)
		n++;
	assert_int_equal(n, CELLS / 2);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(recv_one(), i);
	assert_int_equal(recv_one(), -EAGAIN);
	assert_int_equal(send_from(&writer[0], 3, 33), 0);
	assert_int_equal(recv_one(), 3);
	assert_int_equal(record_ring_dropped(r), 2);
}

static void test_a_peeked_record_stays(void **state)
{
	struct iovec iov = {.iov_base = heard, .iov_len = 10};

	assert_int_equal(send_from(&writer[0], 1, 100), 0);
	assert_int_equal(record_ring_peek(r), 0);
	assert_int_equal(send_from(&writer[1], 2, 10), 0);
	assert_int_equal(record_ring_peek(r), 0);
	assert_int_equal(r->record.header.len, 100);
	assert_int_equal(record_ring_copy(r, 95, &iov, 1), 5);
	assert_memory_equal(heard, bytes + 95, 5);
	assert_int_equal(record_ring_copy(r, 20, &iov, 1), 10);
	assert_int_equal(record_ring_copy(r, 100, &iov, 1), 0);
	assert_int_equal(recv_one(), 1);
	assert_int_equal(recv_one(), 2);
}

static void test_numbers_of_writers_are_given_once(void **state)
{
	for (uint32_t i = 2; i < RECORD_WRITERS; i++)
		assert_int_equal(record_ring_add_writer(r), i);
	assert_int_equal(record_ring_add_writer(r), -EUSERS);
	assert_int_equal(send_from(&writer[1], 1, 10), 0);
	record_ring_writer_gone(r, 1);
	/* What it wrote is still there. */
	assert_int_equal(record_ring_add_writer(r), -EUSERS);
	assert_int_equal(recv_one(), 1);
	assert_int_equal(record_ring_add_writer(r), 1);
	assert_int_equal(record_ring_add_writer(r), -EUSERS);
}

static void test_impossible_words_end_the_ring(void **state)
{
	static const uint64_t mark = 1ull << 23; /* a lap */
	const struct {
		uint64_t tail, word;
	} lies[] = {
		{.word = 5 * mark},			   /* a later lap */
		{.word = mark | 1ull << 21},		   /* no cells */
		{.word = mark | 1ull << 21 | 2047u << 10}, /* more than a record has */
		{.tail = (uint64_t)(CELLS - 1) << 21},	   /* behind the reader */
		{.tail = (3ull * CELLS) << 21},		   /* more than the ring has */
		{.tail = (uint64_t)(CELLS + 9) << 21},	   /* nobody described what was before */
		{.tail = (uint64_t)(CELLS + 9) << 21 | 3u << 10},
		{.tail = ~0ull},
	};

	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		assert_int_equal(record_ring_init(r, shared, CELLS, CELLS), 0);
		memset(shared->word, 0, CELLS * 8);
		assert_int_equal(record_ring_peek(r), -EAGAIN);
		if (lies[i].tail)
			shared->tail = lies[i].tail;
		WORD(CELLS) = lies[i].word;
		assert_int_equal(record_ring_peek(r), -EPROTO);
		memset(shared->word, 0, CELLS * 8);
		assert_int_equal(
			record_ring_init(&(struct record_ring_reader){}, shared, CELLS, CELLS), 0);
		assert_int_equal(record_ring_peek(r), -EPROTO);
	}
}

static void test_a_length_beyond_its_cells_is_no_record(void **state)
{
	struct record_header *header = (void *)(shared->word + CELLS);

	assert_int_equal(send_from(&writer[0], 1, 10), 0);
	assert_int_equal(send_from(&writer[0], 2, 10), 0);
	header->len = 33;
	assert_int_equal(recv_one(), 2);
	assert_int_equal(recv_one(), -EAGAIN);
	assert_int_equal(shared->head, CELLS + 2);
}

static void test_an_impossible_tail_is_refused_by_writers(void **state)
{
	shared->tail = (uint64_t)(3 * CELLS) << 21;
	assert_int_equal(send_from(&writer[0], 1, 10), -EPROTO);
	assert_int_equal(record_ring_writer_open(&writer[1], shared, CELLS, 1), -EPROTO);
	assert_int_equal(record_ring_writer_open(&writer[1], shared, CELLS - 1, 1), -EINVAL);
	assert_int_equal(record_ring_writer_open(&writer[1], shared, CELLS, 1024), -EINVAL);
}

/*
 * Each record is written at once but the first, and those that go round the end; and read so, but one
 * in RECORD_STRIDE cells.
 */
static void test_what_is_there_is_taken_at_once(void **state)
{
	at_once = 0;
	for (unsigned i = 0; i < 3 * CELLS; i++) {
		assert_int_equal(send_from(&writer[i % 2], (uint16_t)i, 14 + i % 100), 0);
		assert_int_equal(recv_one(), (uint16_t)i);
	}
	assert_in_range(at_once, 6 * CELLS - 40, 6 * CELLS - 1);
}

static void test_the_quick_way_pauses_where_it_is_told(void **state)
{
	struct record_header header;

	assert_int_equal(send_from(&writer[0], 1, 10), 0);
	record_ring_pause_at(r, record_ring_end(r));
	assert_int_equal(send_from(&writer[0], 2, 10), 0);
	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), 10);
	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), -EAGAIN);
	assert_false(record_ring_is_quiet(r));
	assert_int_equal(r->next, CELLS + 1);
	record_ring_pause_at(r, UINT64_MAX);
	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), 10);
	shared->tail = (uint64_t)(9 * CELLS) << 21;
	assert_int_equal(record_ring_end(r), 2 * CELLS + 2);
}

static void test_a_mark_keeps_its_place_and_stops_the_quick_way(void **state)
{
	struct record_header header = {.from_port = 7}, got;

	assert_int_equal(send_from(&writer[0], 1, 10), 0);
	assert_int_equal(record_ring_mark(&writer[1], &header), 0);
	assert_int_equal(send_from(&writer[1], 2, 10), 0);
	assert_int_equal(recv_one(), 1);
	assert_false(r->record.is_mark);
	assert_int_equal(record_ring_read_at_once(r, &got, heard, 10), -EAGAIN);
	assert_int_equal(record_ring_peek(r), 0);
	assert_true(r->record.is_mark);
	assert_int_equal(r->record.header.from_port, 7);
	assert_int_equal(r->record.header.len, 0);
	record_ring_consume(r);
	assert_int_equal(recv_one(), 2);
	assert_int_equal(record_ring_peek(r), -EAGAIN);
}

static void test_a_mark_that_finds_no_room_is_no_loss(void **state)
{
	struct record_header header = {0};

	record_ring_set_limit(r, 0);
	assert_int_equal(record_ring_writer_open(&writer[0], shared, CELLS, 0), 0);
	assert_int_equal(record_ring_mark(&writer[0], &header), -ENOBUFS);
	assert_int_equal(record_ring_dropped(r), 0);
	record_ring_close(r);
	assert_int_equal(record_ring_mark(&writer[0], &header), -EPIPE);
}

static void test_a_short_buffer_cuts_a_record_that_is_taken_at_once(void **state)
{
	struct record_header header;

	assert_int_equal(send_from(&writer[0], 1, 100), 0);
	assert_int_equal(send_from(&writer[0], 2, 30), 0);
	memset(heard, 0xee, sizeof(heard));
	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), 10);
	assert_int_equal(header.len, 100);
	assert_memory_equal(heard, bytes, 10);
	assert_int_equal(heard[10], 0xee);
	assert_int_equal(recv_one(), 2);
}

static void test_the_quick_way_in_leaves_alone_what_is_long_or_has_no_room(void **state)
{
	struct record_header header = {};
	uint64_t tail;

	record_ring_set_limit(r, 1);
	assert_int_equal(record_ring_writer_open(&writer[0], shared, CELLS, 0), 0);
	assert_int_equal(record_ring_write_at_once(&writer[0], &header, bytes, RECORD_MAX + 1),
			 -EAGAIN);
	assert_int_equal(record_ring_write_at_once(&writer[0], &header, bytes, SIZE_MAX), -EAGAIN);
	assert_int_equal(shared->tail >> 21, CELLS);
	assert_int_equal(record_ring_write_at_once(&writer[0], &header, bytes, 10), 0);
	tail = shared->tail;
	assert_int_equal(record_ring_write_at_once(&writer[0], &header, bytes, 10), -EAGAIN);
	assert_int_equal(shared->tail, tail);
	assert_int_equal(record_ring_dropped(r), 0);
}

/* It describes the reservation of another that is not committed yet, and believes its own only. */
static void test_the_quick_way_in_describes_what_others_reserve(void **state)
{
	assert_int_equal(send_from(&writer[0], 1, 10), 0);
	assert_int_equal(send_from(&writer[1], 2, 10), 0);
	WORD(CELLS + 1) = 0; /* reserved only */
	assert_int_equal(send_from(&writer[0], 3, 10), 0);
	assert_int_equal(WORD(CELLS + 1), 1ull << 23 | 1u << 10 | 1);
	assert_int_equal(send_from(&writer[0], 4, 10), 0);
	assert_int_equal(recv_one(), 1);
	assert_int_equal(recv_one(), 3);
	assert_int_equal(r->n_holes, 1);
	assert_int_equal(recv_one(), 4);
}

/* The head, and with it the room, goes back: what is written stays within the ring. */
static void test_a_head_that_cannot_be_moves_no_record_out_of_the_ring(void **state)
{
	static const uint64_t heads[] = {0, 1, UINT64_MAX, UINT64_MAX - CELLS, 1ull << 63};

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		assert_int_equal(record_ring_init(r, shared, CELLS, CELLS), 0);
		assert_int_equal(record_ring_writer_open(&writer[0], shared, CELLS, 0), 0);
		for (unsigned n = 0; n < 3 * CELLS; n++) {
			(void)send_from(&writer[0], 1, 200);
			shared->head = heads[i];
			(void)record_ring_has_room(&writer[0], 0); /* it sees the head */
			assert_true(writer[0].until <= (writer[0].end | (CELLS - 1)) + 1);
		}
	}
}

static void test_the_quick_way_out_leaves_alone_what_needs_care(void **state)
{
	struct record_header header = {};
	struct record_header *first = (void *)(shared->word + CELLS);

	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), -EAGAIN);
	assert_true(record_ring_is_quiet(r));
	for (int i = 0; i < 4; i++)
		assert_int_equal(send_from(&writer[i / 3], (uint16_t)(i + 1), 10), 0);
	/* a length that is not the word's */
	first->len = 33;
	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), -EAGAIN);
	assert_false(record_ring_is_quiet(r));
	first->len = 10;
	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), 10);
	/* one that was peeked */
	assert_int_equal(record_ring_peek(r), 0);
	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), -EAGAIN);
	record_ring_consume(r);
	/* a writer has gone, of which something is there */
	record_ring_writer_gone(r, 1);
	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), -EAGAIN);
	record_ring_pause_at(r, UINT64_MAX);
	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), -EAGAIN);
	assert_false(record_ring_is_quiet(r));
	assert_int_equal(recv_one(), 3);
	assert_int_equal(recv_one(), 4);
	assert_int_equal(shared->head, CELLS + 4);
	/* a spoilt ring */
	assert_int_equal(send_from(&writer[0], 5, 10), 0);
	assert_int_equal(recv_one(), 5);
	WORD(CELLS + 5) = 9ull << 23 | 1ull << 21 | 1u << 10;
	assert_int_equal(record_ring_peek(r), -EPROTO);
	WORD(CELLS + 5) = 1ull << 23 | 1ull << 21 | 1u << 10;
	record_ring_pause_at(r, UINT64_MAX);
	assert_int_equal(record_ring_read_at_once(r, &header, heard, 10), -EAGAIN);
	assert_false(record_ring_is_quiet(r));
}

/* Of a reservation that was passed over, the record comes first when it is committed. */
static void test_a_hole_is_not_overtaken_by_the_quick_way(void **state)
{
	uint64_t word;

	assert_int_equal(send_from(&writer[0], 1, 10), 0);
	assert_int_equal(send_from(&writer[1], 2, 10), 0);
	assert_int_equal(send_from(&writer[1], 3, 10), 0);
	word = WORD(CELLS);
	WORD(CELLS) = 1ull << 23 | 1u << 10; /* reserved */
	assert_int_equal(recv_one(), 2);
	assert_int_equal(r->n_holes, 1);
	WORD(CELLS) = word;
	assert_int_equal(recv_one(), 1);
	assert_int_equal(recv_one(), 3);
}

/* While the tail is as it was then, nothing is there, also nothing that was passed over. */
static void test_all_is_read_only_without_a_hole(void **state)
{
	uint64_t seen, word, tail;

	assert_true(record_ring_is_read(r, &seen));
	assert_int_equal(send_from(&writer[0], 1, 10), 0);
	assert_int_not_equal(shared->tail, seen);
	assert_false(record_ring_is_read(r, &seen));
	assert_int_equal(send_from(&writer[1], 2, 10), 0);
	word = WORD(CELLS);
	WORD(CELLS) = 1ull << 23 | 1u << 10; /* reserved */
	assert_int_equal(recv_one(), 2);
	assert_false(record_ring_is_read(r, &seen));
	WORD(CELLS) = word;
	assert_int_equal(record_ring_peek(r), 0);
	assert_false(record_ring_is_read(r, &seen));
	assert_int_equal(recv_one(), 1);
	assert_true(record_ring_is_read(r, &seen));
	tail = shared->tail;
	assert_int_equal(seen, tail);
	shared->tail = UINT64_MAX; /* a writer may write anything there */
	assert_false(record_ring_is_read(r, &seen));
	shared->tail = tail;
}

/* The datagram is not sent, or not consumed, and the ring goes on. */
static void test_bad_pointers_are_errors(void **state)
{
	void *bad = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct record_header header = {};
	struct iovec iov = {.iov_base = bad, .iov_len = 10};

	assert_true(bad != MAP_FAILED);
	test_guard();
	assert_int_equal(record_ring_write(&writer[0], &header, &iov, 1, 10), -EFAULT);
	assert_int_equal(record_ring_write(&writer[0], &header, &iov, 1, 10), -EFAULT);
	assert_int_equal(record_ring_write_at_once(&writer[1], &header, bad, 10), -EFAULT);
	assert_int_equal(send_from(&writer[0], 1, 10), 0);
	assert_int_equal(recv_one(), 1);
	assert_int_equal(recv_one(), -EAGAIN);
	assert_int_equal(send_from(&writer[0], 2, 10), 0);
	assert_int_equal(record_ring_read_at_once(r, &header, bad, 10), -EAGAIN);
	assert_int_equal(record_ring_peek(r), 0);
	assert_int_equal(record_ring_copy(r, 0, &iov, 1), -EFAULT);
	assert_int_equal(recv_one(), 2);
	munmap(bad, 4096);
}

static void test_a_closed_ring_keeps_what_it_has_and_takes_no_more(void **state)
{
	assert_int_equal(send_from(&writer[0], 1, 10), 0);
	assert_int_equal(send_from(&writer[1], 2, 100), 0);
	assert_false(record_ring_is_closed(&writer[0]));
	record_ring_close(r);
	assert_true(record_ring_is_closed(&writer[0]));
	assert_false(record_ring_is_drained(r));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(send_from(&writer[i % 2], 3, 10), -EPIPE);
		assert_int_equal(recv_one(), i < 2 ? i + 1 : -EAGAIN);
	}
	assert_true(record_ring_is_drained(r));
	assert_int_equal(record_ring_dropped(r), 0);
	record_ring_close(r); /* again: nothing changes */
	assert_int_equal(send_from(&writer[0], 3, 10), -EPIPE);
	assert_int_equal(recv_one(), -EAGAIN);
}

#define BOTH(test)                                                  \
	cmocka_unit_test_setup_teardown(test, open_all, close_all), \
	{                                                           \
#test " at once", test, open_quick, close_all, NULL \
	}

static const struct CMUnitTest tests[] = {
	BOTH(test_datagrams_of_every_size_arrive),
	BOTH(test_a_full_ring_drops_and_counts),
	BOTH(test_a_peeked_record_stays),
	BOTH(test_numbers_of_writers_are_given_once),
	BOTH(test_impossible_words_end_the_ring),
	BOTH(test_a_length_beyond_its_cells_is_no_record),
	BOTH(test_an_impossible_tail_is_refused_by_writers),
	BOTH(test_bad_pointers_are_errors),
	BOTH(test_a_closed_ring_keeps_what_it_has_and_takes_no_more),
	BOTH(test_a_mark_keeps_its_place_and_stops_the_quick_way),
	BOTH(test_a_mark_that_finds_no_room_is_no_loss),
	cmocka_unit_test_setup_teardown(test_what_is_there_is_taken_at_once, open_quick, close_all),
	cmocka_unit_test_setup_teardown(test_the_quick_way_pauses_where_it_is_told, open_all,
					close_all),
	cmocka_unit_test_setup_teardown(test_a_short_buffer_cuts_a_record_that_is_taken_at_once,
					open_all, close_all),
	cmocka_unit_test_setup_teardown(
		test_the_quick_way_in_leaves_alone_what_is_long_or_has_no_room, open_all,
		close_all),
	cmocka_unit_test_setup_teardown(test_the_quick_way_in_describes_what_others_reserve,
					open_quick, close_all),
	cmocka_unit_test_setup_teardown(test_a_head_that_cannot_be_moves_no_record_out_of_the_ring,
					open_quick, close_all),
	cmocka_unit_test_setup_teardown(test_the_quick_way_out_leaves_alone_what_needs_care,
					open_all, close_all),
	cmocka_unit_test_setup_teardown(test_all_is_read_only_without_a_hole, open_quick,
					close_all),
	cmocka_unit_test_setup_teardown(test_a_hole_is_not_overtaken_by_the_quick_way, open_quick,
					close_all),
};

VMA_TEST_MAIN("record_ring", tests, NULL, NULL)
