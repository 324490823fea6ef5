/* SPDX-License-Identifier: BSD-2-Clause */
/* One record for several rings: all have it, or none. */
#include "ring/local/record_fan.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/record_read.h"
#include "ring/local/segment.h"
#include "vma_test.h"

#define CELLS RECORD_CELLS_MIN
#define RINGS 3

static struct segment segment[RINGS];
static struct record_ring_reader reader[RINGS];
static struct record_ring_writer writer[RINGS];
static unsigned failed;

static int open_all(void **state)
{
	for (int i = 0; i < RINGS; i++) {
		struct record_ring_shared *shared;

		assert_int_equal(
			segment_create(&segment[i], 1, SEGMENT_PAGE + record_ring_size(CELLS)), 0);
		shared = segment_at(&segment[i], SEGMENT_PAGE, record_ring_size(CELLS), 64);
		assert_int_equal(record_ring_init(&reader[i], shared, CELLS, CELLS), 0);
		assert_int_equal(
			record_ring_writer_open(&writer[i], shared, CELLS,
						(uint32_t)record_ring_add_writer(&reader[i])),
			0);
	}
	failed = RINGS;
	return 0;
}

static int close_all(void **state)
{
	for (int i = 0; i < RINGS; i++)
		segment_close(&segment[i]);
	return 0;
}

static int write_to_all(const char *text)
{
	static char copy[RECORD_MAX + 2];
	struct record_part parts[RINGS];
	struct record_header header = {.flags = 2, .ifindex = 5};
	struct iovec bytes = {strcpy(copy, text), strlen(text)};

	for (int i = 0; i < RINGS; i++)
		parts[i].writer = &writer[i];
	return record_fan_write(parts, RINGS, &header, &bytes, &failed);
}

static void expect(int ring, const char *text)
{
	char heard[16] = "";
	struct iovec iov = {heard, sizeof(heard)};

	assert_int_equal(record_ring_peek(&reader[ring]), 0);
	assert_true(reader[ring].record.is_mark);
	assert_int_equal(reader[ring].record.header.flags, 2);
	assert_int_equal(reader[ring].record.header.ifindex, 5);
	assert_int_equal(record_ring_copy(&reader[ring], 0, &iov, 1), strlen(text));
	assert_string_equal(heard, text);
	record_ring_consume(&reader[ring]);
}

static void expect_nothing(int ring)
{
	assert_int_equal(record_ring_peek(&reader[ring]), -EAGAIN);
}

/* Until a record of one cell finds no room. */
static void fill(int ring)
{
	struct record_header header = {.flags = 0};
	struct iovec none = {NULL, 0};

	while (!record_ring_write(&writer[ring], &header, &none, 1, 0))
		continue;
}

static void test_all_rings_have_it(void **state)
{
	assert_int_equal(write_to_all("one"), 0);
	assert_int_equal(write_to_all(""), 0);
	for (int i = 0; i < RINGS; i++) {
		expect(i, "one");
		expect(i, "");
		expect_nothing(i);
	}
}

static void test_the_quick_way_stops_before_it(void **state)
{
	struct record_header header;
	char to[16];

	assert_int_equal(write_to_all("one"), 0);
	assert_int_equal(record_ring_read_at_once(&reader[0], &header, to, sizeof(to)), -EAGAIN);
	expect(0, "one");
}

static void test_where_one_is_closed_none_has_it(void **state)
{
	record_ring_close(&reader[1]);
	assert_int_equal(write_to_all("one"), -EPIPE);
	assert_int_equal(failed, 1);
	for (int i = 0; i < RINGS; i++)
		expect_nothing(i);
	assert_true(record_ring_is_drained(&reader[0]));
}

static void test_a_full_ring_counts_it_and_others_have_it(void **state)
{
	fill(1);
	assert_int_equal(record_ring_dropped(&reader[1]), 1);
	assert_int_equal(write_to_all("one"), 0);
	expect(0, "one");
	expect(2, "one");
	assert_int_equal(record_ring_dropped(&reader[1]), 2);
	assert_int_equal(record_ring_dropped(&reader[0]), 0);
}

static void test_a_full_ring_stays_as_it_is_where_another_is_closed(void **state)
{
	fill(0);
	record_ring_close(&reader[2]);
	assert_int_equal(write_to_all("one"), -EPIPE);
	assert_int_equal(failed, 2);
	assert_int_equal(record_ring_dropped(&reader[0]), 1);
	expect_nothing(1);
}

static void test_it_goes_round_the_end_of_a_ring(void **state)
{
	static char text[2000];

	memset(text, 'x', sizeof(text) - 1);
	for (int round = 0; round < 2 * (int)CELLS; round += 30) {
		assert_int_equal(write_to_all(text), 0);
		for (int i = 0; i < RINGS; i++) {
			assert_int_equal(record_ring_peek(&reader[i]), 0);
			assert_int_equal(reader[i].record.header.len, sizeof(text) - 1);
			record_ring_consume(&reader[i]);
		}
	}
}

static void test_what_is_too_long_is_refused(void **state)
{
	static char text[RECORD_MAX + 2];

	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(write_to_all(text), -EMSGSIZE);
	expect_nothing(0);
}

static void test_a_writer_knows_what_was_read(void **state)
{
	uint64_t position;

	assert_true(record_ring_has_read(&writer[0], record_ring_written(&writer[0])));
	assert_int_equal(write_to_all("one"), 0);
	position = record_ring_written(&writer[0]);
	assert_int_equal(write_to_all("two"), 0);
	assert_false(record_ring_has_read(&writer[0], position));
	expect(0, "one");
	assert_true(record_ring_has_read(&writer[0], position));
	assert_false(record_ring_has_read(&writer[0], record_ring_written(&writer[0])));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

static const struct CMUnitTest tests[] = {
	CASE(test_all_rings_have_it),
	CASE(test_the_quick_way_stops_before_it),
	CASE(test_where_one_is_closed_none_has_it),
	CASE(test_a_full_ring_counts_it_and_others_have_it),
	CASE(test_a_full_ring_stays_as_it_is_where_another_is_closed),
	CASE(test_it_goes_round_the_end_of_a_ring),
	CASE(test_what_is_too_long_is_refused),
	CASE(test_a_writer_knows_what_was_read),
};

VMA_TEST_MAIN("record_fan", tests, NULL, NULL)
