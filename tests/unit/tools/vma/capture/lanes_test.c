/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/capture/lanes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sealed.h"
#include "tests/vma_test.h"

#define SHIFT CAPTURE_SHIFT_MIN
#define SIZE (1ull << SHIFT)

static int fd;
static struct capture_header *header; /* all of the memory */
static struct capture_writer writers[2];
static struct lanes lanes;
static struct lanes_frame frame;
static char why[LANES_WHY];

static uint8_t *lane_data(unsigned i)
{
	return (uint8_t *)header + capture_lane_at(i, SHIFT);
}

static void use(unsigned i)
{
	struct capture_lane *lane = &header->lanes[i];

	snprintf(lane->interface, sizeof(lane->interface), "v%u", i);
	lane->ring = 7 + i;
	lane->used = 1;
	capture_writer_init(&writers[i], lane, lane_data(i), SIZE, header->snap);
}

static int set_up(void **state)
{
	fd = sealed_create(CAPTURE_MEMFD, capture_size(SHIFT));
	assert_true(fd >= 0);
	header = mmap(NULL, capture_size(SHIFT), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(header != MAP_FAILED);
	header->magic = CAPTURE_MAGIC;
	header->version = CAPTURE_VERSION;
	header->shift = SHIFT;
	header->snap = 500;
	header->lanes_at = CAPTURE_LANES_AT;
	return 0;
}

static int tear_down(void **state)
{
	if (lanes.header)
		lanes_close(&lanes);
	munmap(header, capture_size(SHIFT));
	close(fd);
	return 0;
}

static int open_it(void)
{
	return lanes_open(&lanes, dup(fd), why);
}

static void put(unsigned lane, uint32_t len, uint64_t when)
{
	static uint8_t bytes[1000];

	memset(bytes, (int)when, sizeof(bytes));
	capture_put(&writers[lane], bytes, len, lane ? CAPTURE_SENT : 0, when);
	capture_publish(&writers[lane]);
}

static void test_what_was_written_is_read(void **state)
{
	use(0);
	assert_int_equal(open_it(), 0);
	assert_int_equal(lanes_look(&lanes), 1);
	assert_string_equal(lanes.lane[0].interface, "v0");
	assert_int_equal(lanes.lane[0].ring, 7);
	assert_false(lanes_take(&lanes, UINT64_MAX, &frame));
	put(0, 60, 5);
	put(0, 501, 6);
	assert_true(lanes_take(&lanes, 0, &frame)); /* one lane: at once */
	assert_int_equal(frame.len, 60);
	assert_false(frame.sent);
	assert_true(frame.when == 5 && frame.data[59] == 5);
	assert_true(lanes_take(&lanes, 0, &frame));
	assert_int_equal(frame.len, 501);
	assert_int_equal(frame.kept, 500);
	assert_false(lanes_take(&lanes, 0, &frame));
	assert_true(header->lanes[0].tail == header->lanes[0].head);
}

static void test_lanes_are_merged_by_time(void **state)
{
	static const uint64_t order[] = {1, 2, 3, 4, 5, 6};

	use(0);
	assert_int_equal(open_it(), 0);
	lanes_look(&lanes);
	use(1); /* later */
	assert_int_equal(lanes_look(&lanes), 2);
	put(0, 60, 1);
	put(0, 60, 4);
	put(0, 60, 5);
	put(1, 60, 2);
	put(1, 60, 3);
	put(1, 60, 6);
	for (unsigned i = 0; i < 6; i++) {
		/* One that is younger waits: the other lane may still get older ones. */
		assert_false(lanes_take(&lanes, order[i] - 1, &frame));
		assert_true(lanes_take(&lanes, order[i], &frame));
		assert_true(frame.when == order[i]);
		assert_int_equal(frame.sent, frame.lane == 1);
	}
}

static void test_lanes_wrap(void **state)
{
	uint64_t frames, drops;

	use(0);
	assert_int_equal(open_it(), 0);
	lanes_look(&lanes);
	for (unsigned i = 0; i < 10000; i++) {
		put(0, i % 500, i);
		assert_true(lanes_take(&lanes, 0, &frame));
		assert_int_equal(frame.len, i % 500);
		assert_true(frame.when == i);
		assert_true(!frame.kept || frame.data[frame.kept - 1] == (uint8_t)i);
	}
	lanes_counts(&lanes, 0, &frames, &drops);
	assert_true(frames == 10000 && drops == 0);
	assert_false(lanes_are_broken(&lanes));
	header->without_lane = 3;
	assert_int_equal(lanes_without(&lanes), 3);
}

static void refuses(int rc, const char *text)
{
	why[0] = '\0';
	assert_int_equal(open_it(), rc);
	if (!strstr(why, text))
		fail_msg("\"%s\" lacks \"%s\"", why, text);
	assert_null(lanes.header);
}

static void test_memory_of_something_else_is_refused(void **state)
{
	static const struct capture_header good = {.magic = CAPTURE_MAGIC,
						   .version = CAPTURE_VERSION,
						   .shift = SHIFT,
						   .snap = 500,
						   .lanes_at = CAPTURE_LANES_AT};
	int other = memfd_create("other", MFD_CLOEXEC);

	header->magic++;
	refuses(-EBADMSG, "not that of a capture");
	*header = good;
	header->version++;
	refuses(-EBADMSG, "not that of a capture");
	*header = good;
	header->shift++; /* its lanes would be longer than the memory */
	refuses(-EBADMSG, "not that of a capture");
	header->shift = 200;
	refuses(-EBADMSG, "not that of a capture");
	*header = good;
	header->snap = CAPTURE_SNAP_MAX + 1;
	refuses(-EBADMSG, "not that of a capture");
	*header = good;
	header->lanes_at = 0;
	refuses(-EBADMSG, "not that of a capture");
	assert_int_equal(lanes_open(&lanes, other, why), -EBADMSG);
	assert_string_equal(why, "its memory is not sealed");
	assert_int_equal(lanes_open(&lanes, sealed_create("short", 4096), why), -EBADMSG);
	assert_string_equal(why, "its memory is too short");
}

/* Each of these records, and then one that is good: the lane is not read any more. */
static void test_a_lane_that_lies_is_left_alone(void **state)
{
	static const struct capture_record lies[] = {
		{.size = 0, .len = 0},
		{.size = 16},				      /* shorter than itself */
		{.size = 33, .len = 9, .kept = 9},	      /* not a multiple of 8 */
		{.size = 32, .len = 100, .kept = 9},	      /* more than it has */
		{.size = 32, .len = 4, .kept = 8},	      /* more than there were */
		{.size = 1 << 20, .len = 60, .kept = 60},     /* past the end of the lane */
		{.size = 1024, .len = 60, .kept = 60},	      /* past what is written */
		{.size = SIZE, .flags = CAPTURE_PAD},	      /* past what is written */
		{.size = 64, .flags = CAPTURE_PAD},	      /* not to the end of the lane */
		{.size = UINT32_MAX - 7, .kept = UINT32_MAX}, /* wraps */
	};

	use(0);
	for (unsigned i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		header->lanes[0].head = 0;
		assert_int_equal(open_it(), 0);
		lanes_look(&lanes);
		memcpy(lane_data(0), &lies[i], sizeof(lies[i]));
		header->lanes[0].head = 64;
		assert_false(lanes_take(&lanes, UINT64_MAX, &frame));
		if (!lanes_are_broken(&lanes))
			fail_msg("lie %u is believed", i);
		memcpy(lane_data(0), &(struct capture_record){.size = 24}, 24);
		assert_false(lanes_take(&lanes, UINT64_MAX, &frame));
		lanes_close(&lanes);
	}
	assert_int_equal(open_it(), 0);
	lanes_look(&lanes);
	header->lanes[0].head = 2 * SIZE; /* more than there can be */
	assert_false(lanes_take(&lanes, UINT64_MAX, &frame));
	assert_true(lanes_are_broken(&lanes));
}

static void test_a_name_is_one_word(void **state)
{
	use(0);
	memset(header->lanes[0].interface, '\n', CAPTURE_NAME);
	assert_int_equal(open_it(), 0);
	lanes_look(&lanes);
	assert_string_equal(lanes.lane[0].interface, "???????????????");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	TEST(test_what_was_written_is_read),
	TEST(test_lanes_are_merged_by_time),
	TEST(test_lanes_wrap),
	TEST(test_memory_of_something_else_is_refused),
	TEST(test_a_lane_that_lies_is_left_alone),
	TEST(test_a_name_is_one_word),
};

VMA_TEST_MAIN("lanes", tests, NULL, NULL)
