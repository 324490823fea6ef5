/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/stats/capture.h"

#include <string.h>

#include "tests/vma_test.h"

#define SIZE (1u << CAPTURE_SHIFT_MIN)
#define GUARD 64
#define SNAP 1000

static struct capture_lane lane;
static struct capture_writer writer;
static uint8_t memory[SIZE + 2 * GUARD] __attribute__((aligned(64)));
static uint8_t *const data = memory + GUARD;
static uint8_t frame[CAPTURE_SNAP_MAX];

static int set_up(void **state)
{
	memset(&lane, 0, sizeof(lane));
	memset(memory, 0xee, sizeof(memory));
	for (unsigned i = 0; i < sizeof(frame); i++)
		frame[i] = (uint8_t)(i * 7);
	capture_writer_init(&writer, &lane, data, SIZE, SNAP);
	return 0;
}

/* Whatever happened, nothing beside the lane was written. */
static int tear_down(void **state)
{
	for (unsigned i = 0; i < GUARD; i++) {
		assert_int_equal(memory[i], 0xee);
		assert_int_equal(data[SIZE + i], 0xee);
	}
	return 0;
}

static void put(uint32_t len)
{
	capture_put(&writer, frame, len, CAPTURE_SENT, 4711);
	capture_publish(&writer);
}

static struct capture_record record_at(uint64_t at)
{
	struct capture_record r;

	memcpy(&r, data + (at & (SIZE - 1)), sizeof(r));
	return r;
}

static void test_a_frame_is_seen_when_it_is_published(void **state)
{
	struct capture_record r;

	capture_put(&writer, frame, 61, CAPTURE_SENT, 4711);
	assert_true(lane.head == 0);
	assert_true(lane.frames == 0);
	capture_publish(&writer);
	r = record_at(0);
	assert_true(lane.head == r.size);
	assert_true(lane.frames == 1);
	assert_int_equal(r.size, sizeof(r) + 64);
	assert_int_equal(r.flags, CAPTURE_SENT);
	assert_int_equal(r.len, 61);
	assert_int_equal(r.kept, 61);
	assert_true(r.when == 4711);
	assert_memory_equal(data + sizeof(r), frame, 61);
}

static void test_only_the_first_bytes_are_kept(void **state)
{
	put(SNAP + 1);
	assert_int_equal(record_at(0).len, SNAP + 1);
	assert_int_equal(record_at(0).kept, SNAP);
}

static void test_a_frame_that_was_taken_back_is_not_seen(void **state)
{
	uint64_t head;

	put(100);
	head = lane.head;
	capture_put(&writer, frame, 200, 0, 1);
	capture_take_back(&writer);
	capture_publish(&writer);
	assert_true(lane.head == head);
	assert_true(lane.frames == 1);
	put(300);
	assert_int_equal(record_at(head).len, 300);
	/* There was nothing to take back. */
	capture_take_back(&writer);
	assert_true(writer.frames == 2);
}

static void test_a_full_lane_drops_and_counts(void **state)
{
	uint64_t head;

	while (!lane.drops)
		put(900);
	head = lane.head;
	assert_true(head <= SIZE);
	assert_true(lane.frames == head / record_at(0).size + 1);
	put(900);
	assert_true(lane.drops == 2);
	assert_true(lane.head == head);
	/* There is room for one, but not for the end of the lane, too, where it does not fit. */
	assert_true(SIZE - head < record_at(0).size);
	lane.tail = record_at(0).size - 8;
	put(900);
	assert_true(lane.drops == 3);
	/* The reader has read one of them: there is room for one. */
	lane.tail = record_at(0).size;
	put(900);
	assert_true(lane.drops == 3);
	put(900);
	assert_true(lane.drops == 4);
}

/* Frames of all sizes, over the end of the lane many times. */
static void test_no_record_is_split(void **state)
{
	unsigned pads = 0;

	for (unsigned i = 0; i < 20000; i++) {
		uint32_t len = i * 13 % SNAP;

		put(len);
		while (lane.tail != lane.head) {
			uint64_t left = SIZE - (lane.tail & (SIZE - 1));
			struct capture_record r = {.size = (uint32_t)left, .flags = CAPTURE_PAD};

			if (left >= sizeof(r))
				r = record_at(lane.tail);
			if (r.flags & CAPTURE_PAD) {
				assert_true(r.size == left);
				pads++;
			} else {
				assert_true(r.size <= left);
				assert_int_equal(r.len, len);
				assert_memory_equal(data + (lane.tail & (SIZE - 1)) + sizeof(r),
						    frame, len);
			}
			lane.tail += r.size;
		}
	}
	assert_true(lane.drops == 0);
	assert_true(pads > 10);
}

/* The reader may store anything in tail. */
static void test_a_tail_that_lies_harms_nobody(void **state)
{
	uint64_t random = 88172645463325252ull;

	for (unsigned i = 0; i < 200000; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		lane.tail = i & 1 ? random : lane.head - (random & (2 * SIZE - 1));
		put((uint32_t)(random >> 40) % (SNAP + 10));
	}
	assert_true(lane.frames == 200000);
	assert_true(lane.drops > 0 && lane.drops < 200000);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_a_frame_is_seen_when_it_is_published, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_only_the_first_bytes_are_kept, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_a_frame_that_was_taken_back_is_not_seen, set_up,
					tear_down),
	cmocka_unit_test_setup_teardown(test_a_full_lane_drops_and_counts, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_no_record_is_split, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_a_tail_that_lies_harms_nobody, set_up, tear_down),
};

VMA_TEST_MAIN("capture", tests, NULL, NULL)
