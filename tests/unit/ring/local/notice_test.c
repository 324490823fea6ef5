/* SPDX-License-Identifier: BSD-2-Clause */
/* A notice lane with both of its sides here: nothing posted is missed, a sleeper is woken once. */
#include "ring/local/notice.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "vma_test.h"

#define CONNS 1000u

static struct notice_lane lane;
static struct notice_reader reader, *r = &reader;
static struct notice_writer writer, *w = &writer;
static uint32_t calls[CONNS];

static int open_both(void **state)
{
	memset(&lane, 0, sizeof(lane));
	memset(calls, 0, sizeof(calls));
	assert_int_equal(notice_reader_open(r, &lane, CONNS), 0);
	assert_int_equal(
		notice_writer_open(w, &lane, CONNS, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), 0);
	return 0;
}

static int close_both(void **state)
{
	close(w->wake_fd);
	return 0;
}

static void hear(void *arg, uint32_t conn)
{
	assert_true(conn < CONNS);
	calls[conn]++;
}

static uint64_t wakes(void)
{
	uint64_t n = 0;

	return read(w->wake_fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void test_a_notice_names_its_connection(void **state)
{
	assert_int_equal(notice_take(r, hear, NULL), 0);
	for (uint32_t i = 0; i < CONNS; i++) {
		notice_post(w, i);
		assert_true(notice_is_posted(r));
		assert_int_equal(notice_take(r, hear, NULL), 1);
		assert_int_equal(calls[i], 1);
		assert_false(notice_is_posted(r));
	}
	assert_int_equal(notice_take(r, hear, NULL), 0);
	notice_post(w, 5);
	notice_post(w, 5);
	notice_post(w, 7);
	assert_int_equal(notice_take(r, hear, NULL), 2);
	assert_int_equal(calls[5], 2);
	assert_int_equal(calls[7], 2);
}

static void post_many(uint32_t conn, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		notice_post(w, conn);
}

static void test_a_burst_to_one_connection_is_one_call(void **state)
{
	post_many(9, NOTICE_SLOTS);
	notice_take(r, hear, NULL);
	for (uint32_t n = 1; n < NOTICE_SLOTS; n++) {
		memset(calls, 0, sizeof(calls));
		post_many(9, n);
		assert_int_equal(notice_take(r, hear, NULL), 1);
		assert_int_equal(calls[9], 1);
	}
}

/* At any place, also beyond those that are new. */
static void test_another_one_in_the_burst_is_heard(void **state)
{
	for (uint32_t at = 0; at < NOTICE_SLOTS - 1; at++) {
		post_many(9, NOTICE_SLOTS);
		notice_take(r, hear, NULL);
		memset(calls, 0, sizeof(calls));
		post_many(9, at);
		notice_post(w, 8);
		post_many(9, NOTICE_SLOTS - 2 - at);
		notice_take(r, hear, NULL);
		assert_int_equal(calls[8], 1);
		assert_true(calls[9]);
		notice_post(w, 9); /* so the first one of the next round has the same slot as now */
		notice_take(r, hear, NULL);
	}
}

static void test_a_late_reader_misses_none(void **state)
{
	/* Every number of notices, and every distance of connections. */
	for (uint32_t n = 1; n < 100; n++) {
		for (uint32_t i = 0; i < n; i++)
			notice_post(w, i * 97 % CONNS);
		memset(calls, 0, sizeof(calls));
		assert_true(notice_take(r, hear, NULL) <= CONNS + NOTICE_SLOTS);
		for (uint32_t i = 0; i < n; i++)
			assert_true(calls[i * 97 % CONNS]);
		assert_int_equal(notice_take(r, hear, NULL), 0);
	}
	/* Groups where nothing was posted are left alone. */
	for (uint32_t i = 0; i < 1000; i++)
		notice_post(w, 700);
	memset(calls, 0, sizeof(calls));
	assert_int_equal(notice_take(r, hear, NULL), NOTICE_GROUP);
	assert_int_equal(calls[700], 1);
	assert_int_equal(calls[600], 0);
}

static void test_a_sleeper_is_woken_once(void **state)
{
	notice_post(w, 1);
	assert_int_equal(wakes(), 0);
	notice_take(r, hear, NULL);
	notice_arm(r);
	assert_true(notice_barrier());
	assert_false(notice_is_posted(r));
	notice_post(w, 1);
	notice_post(w, 2);
	assert_int_equal(wakes(), 1);
	assert_int_equal(w->wakes, 1);
	notice_arm(r);
	notice_disarm(r);
	notice_post(w, 3);
	assert_int_equal(wakes(), 0);
}

static void test_both_sides_fence_where_one_cannot_for_both(void **state)
{
	assert_false(w->fenced);
	lane.barrier = 0;
	assert_int_equal(notice_writer_open(w, &lane, CONNS, w->wake_fd), 0);
	assert_true(w->fenced);
	notice_arm(r);
	notice_post(w, 1);
	assert_int_equal(wakes(), 1);
	notice_fence();
}

static void test_lies_stay_inside(void **state)
{
	static const uint64_t posted[] = {1, 15, 16, 17, 1ull << 63, ~0ull, 0};

	for (unsigned i = 0; i < sizeof(posted) / sizeof(posted[0]); i++) {
		memset(lane.slot, 0xff, sizeof(lane.slot));
		memset(lane.group, i % 2 ? 0xff : 0x7f, sizeof(lane.group));
		lane.posted = posted[i];
		assert_true(notice_take(r, hear, NULL) <= CONNS + NOTICE_SLOTS);
	}
	/* A slot that is right among them is heard. */
	lane.posted = r->seen + 2;
	lane.slot[r->seen % NOTICE_SLOTS] = CONNS;
	lane.slot[(r->seen + 1) % NOTICE_SLOTS] = CONNS - 1;
	memset(calls, 0, sizeof(calls));
	assert_int_equal(notice_take(r, hear, NULL), 1);
	assert_int_equal(calls[CONNS - 1], 1);
	assert_int_equal(notice_reader_open(r, &lane, NOTICE_CONNS + 1), -EINVAL);
	assert_int_equal(notice_writer_open(w, &lane, NOTICE_CONNS + 1, w->wake_fd), -EINVAL);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_a_notice_names_its_connection, open_both, close_both),
	cmocka_unit_test_setup_teardown(test_a_burst_to_one_connection_is_one_call, open_both,
					close_both),
	cmocka_unit_test_setup_teardown(test_another_one_in_the_burst_is_heard, open_both,
					close_both),
	cmocka_unit_test_setup_teardown(test_a_late_reader_misses_none, open_both, close_both),
	cmocka_unit_test_setup_teardown(test_a_sleeper_is_woken_once, open_both, close_both),
	cmocka_unit_test_setup_teardown(test_both_sides_fence_where_one_cannot_for_both, open_both,
					close_both),
	cmocka_unit_test_setup_teardown(test_lies_stay_inside, open_both, close_both),
};

VMA_TEST_MAIN("notice", tests, NULL, NULL)
