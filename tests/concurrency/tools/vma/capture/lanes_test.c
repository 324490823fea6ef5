/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes' view in one: holders write their lanes while the tool reads. Whatever is read was
 * written, whole and in order; what is missing was counted. Both use one mapping, so that a
 * sanitizer sees both sides of each access.
 */
#include "tools/vma/capture/lanes.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "tests/check.h"
#include "tests/vma_test.h"

#define LANES 3
#define SIZE (1ull << CAPTURE_SHIFT_MIN)
#define FRAMES 200000
#define LONGEST 600

static struct capture_header header;
static uint8_t data[LANES][SIZE] __attribute__((aligned(64)));
static unsigned done; /* atomic: lanes that are complete */

static uint32_t len_of(uint64_t number)
{
	return (uint32_t)(sizeof(number) + number * 7 % (LONGEST - sizeof(number)));
}

/* All bytes after the number are its lowest one. */
static void *write_lane(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	uint8_t frame[LONGEST];
	struct capture_writer writer;

	capture_writer_init(&writer, &header.lanes[i], data[i], SIZE, LONGEST);
	for (uint64_t n = 0; n < FRAMES; n++) {
		memset(frame, (int)(uint8_t)n, sizeof(frame));
		memcpy(frame, &n, sizeof(n));
		if (n % 11 == 5) {
			/* Not sent: what follows is written in its place. */
			capture_publish(&writer);
			capture_put(&writer, frame, len_of(n + 1), 0, n + 1);
			capture_take_back(&writer);
		}
		capture_put(&writer, frame, len_of(n), 0, n);
		if (n % 3 == 0)
			capture_publish(&writer);
		if (n % 512 == 0)
			sched_yield();
	}
	capture_publish(&writer);
	/* Release: pairs with the test, which then reads the last records. */
	__atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void check_frame(const struct lanes_frame *frame, uint64_t next[LANES])
{
	uint64_t n;

	memcpy(&n, frame->data, sizeof(n));
	TEST_CHECK(n == frame->when && n >= next[frame->lane]);
	TEST_CHECK(frame->len == len_of(n) && frame->kept == frame->len);
	for (uint32_t i = sizeof(n); i < frame->kept; i++)
		TEST_CHECK(frame->data[i] == (uint8_t)n);
	next[frame->lane] = n + 1;
}

static void test_frames_are_whole_and_what_is_missing_was_counted(void **state)
{
	struct lanes lanes = {.header = &header, .size = SIZE, .snap = LONGEST, .n = LANES};
	uint64_t next[LANES] = {0}, taken[LANES] = {0}, lost = 0;
	struct lanes_frame frame;
	pthread_t threads[LANES];
	bool last;

	for (unsigned i = 0; i < LANES; i++)
		lanes.lane[i].data = data[i];
	for (uintptr_t i = 0; i < LANES; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_lane, (void *)i), 0);
	do {
		last = __atomic_load_n(&done, __ATOMIC_ACQUIRE) == LANES;
		while (lanes_take(&lanes, UINT64_MAX, &frame)) {
			check_frame(&frame, next);
			taken[frame.lane]++;
		}
		sched_yield();
	} while (!last);
	for (unsigned i = 0; i < LANES; i++) {
		uint64_t frames, drops;

		pthread_join(threads[i], NULL);
		lanes_counts(&lanes, i, &frames, &drops);
		/* Those that were taken back, but found no room, are counted, too. */
		assert_true(frames >= FRAMES && frames <= FRAMES + FRAMES / 11 + 1);
		assert_true(taken[i] == frames - drops);
		lost += drops;
	}
	assert_false(lanes_are_broken(&lanes));
	print_message("%lu frames, %lu of them lost\n", (unsigned long)(LANES * FRAMES),
		      (unsigned long)lost);
	assert_true(taken[0] && taken[1] && taken[2]);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_frames_are_whole_and_what_is_missing_was_counted),
};

VMA_TEST_MAIN("lanes", tests, NULL, NULL)
