/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of routes are noted while threads ask for them: each sees a change whole, or not at all.
 */
#include <pthread.h>

#include "net/netlink/netlink_internal.h"
#include "tests/vma_test.h"

#define READERS 3
#define CHANGES 200000
#define RARE 97 /* one change of so many concerns the destination */

/* The prefixes differ in all words, so that a mixture of two is seen. */
static void note(uint32_t n)
{
	struct route_prefix mine = {.addr = {.q = {1, 2}}, .bits = 128};
	struct route_prefix other = {.addr = {.q = {1, ~0ull}}, .bits = 128};
	struct route_prefix far = {.addr = {.q = {~0ull, 2}}, .bits = 128};

	changes_note(n, n % RARE == 0 ? &mine : n % 2 ? &other : &far);
	__atomic_store_n(&netlink_generation_now, n, __ATOMIC_RELEASE);
}

static void *read_all(void *arg)
{
	struct inaddr to = {.q = {1, 2}};
	unsigned *wrong = arg;
	uint32_t since = 1, until;

	while (since < CHANGES) {
		until = netlink_still(since, &to);
		/* No change of those that concern the destination was missed. */
		if (until)
			*wrong += until < since || until / RARE != since / RARE;
		since = until ? until : netlink_generation();
	}
	return NULL;
}

static void test_no_change_is_missed(void **state)
{
	unsigned wrong[READERS] = {0};
	pthread_t reader[READERS];

	(void)state;
	note(1);
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&reader[i], NULL, read_all, &wrong[i]), 0);
	for (uint32_t n = 2; n <= CHANGES; n++)
		note(n);
	for (int i = 0; i < READERS; i++) {
		pthread_join(reader[i], NULL);
		assert_int_equal(wrong[i], 0);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_no_change_is_missed),
};

VMA_TEST_MAIN("changes", tests, NULL, NULL)
