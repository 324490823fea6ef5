/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A reader of the flight recorder, while the holder of a ring and threads without a ring write:
 * each record that it sees is whole, and those of one writer are in order, also where the buffer
 * begins anew.
 */
#include "crew.h"

#include "base/stats/recorder.h"
#include "base/stats/recorder_text.h"

static struct {
	struct recorder_area *area;
	unsigned long wraps, seen; /* atomic; the reader writes */
} shared;

/* What a writer stores: each part of the record tells the others. */
static uint32_t argument_of(uint32_t n)
{
	return n * 2654435761u;
}

/* Worker 0 is the holder of the ring, 1 the reader; the others hold no ring. */
static void write_one(struct worker *worker, uint32_t n)
{
	if (worker->number == 0)
		recorder_write(shared.area, n, RECORD_TIMEOUT, n, argument_of(n));
	else
		recorder_write_any(RECORDER_CALLS, RECORD_RESET, n, argument_of(n));
}

static void check_area(const struct recorder_area *area, uint64_t *from, bool one_writer)
{
	static struct record records[RECORDER_RECORDS];
	uint64_t first = *from;
	unsigned n = recorder_read(area, &first, records);

	TEST_CHECK(first >= *from);
	__atomic_store_n(&shared.wraps, shared.wraps + (first > *from), __ATOMIC_RELAXED);
	for (unsigned i = 0; i < n; i++) {
		uint32_t number = (uint32_t)records[i].what;

		if (!records[i].when)
			continue; /* it was being replaced */
		__atomic_store_n(&shared.seen, shared.seen + 1, __ATOMIC_RELAXED);
		TEST_CHECK(records[i].what >> 32 == argument_of(number));
		if (!one_writer)
			continue;
		TEST_CHECK(number == (uint32_t)(first + i));
		TEST_CHECK(records[i].when == record_when(number, RECORD_TIMEOUT));
	}
	*from = first + n;
}

static void work(struct worker *worker)
{
	uint64_t of_ring = 0, of_calls = 0;
	uint32_t n = 0;

	while (crew_goes_on(worker->crew)) {
		if (worker->number != 1) {
			write_one(worker, n++);
			continue;
		}
		check_area(shared.area, &of_ring, true);
		check_area(&recorder()->areas[RECORDER_CALLS], &of_calls, false);
	}
}

/* Also the area of the ring. */
static bool is_seen_to_wrap(void)
{
	return __atomic_load_n(&shared.area->head, __ATOMIC_RELAXED) > RECORDER_RECORDS &&
	       __atomic_load_n(&shared.wraps, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&shared.seen, __ATOMIC_RELAXED);
}

static void test_records_are_whole_and_in_order(void **state)
{
	assert_true(recorder_open());
	recorder_ready();
	shared.area = recorder_area(0, "v0");
	assert_non_null(shared.area);
	crew_run_until(HOLD_SPIN, CREW_MAX, work, is_seen_to_wrap);
	print_message("%lu records seen, %lu times some were replaced before\n", shared.seen,
		      shared.wraps);
	assert_true(is_seen_to_wrap());
	recorder_close();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_records_are_whole_and_in_order),
};

VMA_TEST_MAIN("recorder", tests, NULL, NULL)
