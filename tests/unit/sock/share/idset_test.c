/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/share/idset.h"

#include "tests/vma_test.h"

#define MANY 100000u

static void test_an_empty_set_has_nothing_and_costs_nothing(void **state)
{
	struct idset set = {0};

	assert_false(idset_has(&set, 1));
	assert_false(idset_has(&set, UINT64_MAX));
	assert_null(set.slots);
	idset_fini(&set);
}

static void test_has_what_was_added_and_nothing_else(void **state)
{
	struct idset set = {0};

	/* The even numbers: many of them have the same low bits of the hash. */
	for (uint64_t id = 2; id <= MANY; id += 2) {
		assert_true(idset_add(&set, id));
		assert_true(idset_has(&set, id));
	}
	assert_int_equal(set.n, MANY / 2);
	for (uint64_t id = 1; id <= MANY; id++)
		assert_int_equal(idset_has(&set, id), id % 2 == 0);
	idset_fini(&set);
}

static void test_the_same_number_counts_once(void **state)
{
	struct idset set = {0};

	for (int i = 0; i < 1000; i++)
		assert_true(idset_add(&set, 7));
	assert_int_equal(set.n, 1);
	assert_true(idset_has(&set, 7));
	idset_fini(&set);
}

static void test_numbers_at_the_ends_of_the_range(void **state)
{
	static const uint64_t ids[] = {1, UINT32_MAX, 1ull << 32, 1ull << 63, UINT64_MAX};
	struct idset set = {0};

	for (unsigned i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		assert_false(idset_has(&set, ids[i]));
		assert_true(idset_add(&set, ids[i]));
	}
	for (unsigned i = 0; i < sizeof(ids) / sizeof(*ids); i++)
		assert_true(idset_has(&set, ids[i]));
	idset_fini(&set);
}

/*
 * Their hashes begin at the same slot: they use the slots behind it, around the end of the
 * table.
 */
static void test_numbers_with_the_same_place(void **state)
{
	struct idset set = {0};
	unsigned n = 0;

	for (uint64_t id = 1; n < 2000; id++) {
		if ((id * 0x9e3779b97f4a7c15u >> 32 & 1023) != 1023)
			continue;
		assert_true(idset_add(&set, id));
		n++;
	}
	n = 0;
	for (uint64_t id = 1; n < 2000; id++) {
		bool ours = (id * 0x9e3779b97f4a7c15u >> 32 & 1023) == 1023;

		assert_int_equal(idset_has(&set, id), ours);
		n += ours;
	}
	idset_fini(&set);
}

/* There is always an empty slot, so that a search for a missing element ends. */
static void test_is_never_more_than_half_full(void **state)
{
	struct idset set = {0};

	for (uint64_t id = 1; id < 5000; id++) {
		assert_true(idset_add(&set, id));
		assert_true(2 * set.n <= set.size);
		assert_int_equal(set.size & (set.size - 1), 0);
	}
	idset_fini(&set);
}

static void test_can_be_used_after_its_end(void **state)
{
	struct idset set = {0};

	assert_true(idset_add(&set, 1));
	idset_fini(&set);
	assert_false(idset_has(&set, 1));
	assert_true(idset_add(&set, 2));
	assert_false(idset_has(&set, 1));
	assert_true(idset_has(&set, 2));
	idset_fini(&set);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_an_empty_set_has_nothing_and_costs_nothing),
	cmocka_unit_test(test_has_what_was_added_and_nothing_else),
	cmocka_unit_test(test_the_same_number_counts_once),
	cmocka_unit_test(test_numbers_at_the_ends_of_the_range),
	cmocka_unit_test(test_numbers_with_the_same_place),
	cmocka_unit_test(test_is_never_more_than_half_full),
	cmocka_unit_test(test_can_be_used_after_its_end),
};

VMA_TEST_MAIN("idset", tests, NULL, NULL)
