/* SPDX-License-Identifier: BSD-2-Clause */
/* How many packets and buffers a process may have, and that what came back is used again. */
#include "sock/core/extra/held.h"

#include <errno.h>
#include <stdlib.h>

#include "ring/rings.h"
#include "sock/core/extra/buff.h"
#include "vma_test.h"

static void test_a_process_holds_so_many_packets(void **state)
{
	static struct held *all[HELD_MAX];
	struct held *again;

	for (unsigned i = 0; i < HELD_MAX; i++) {
		all[i] = held_new();
		assert_non_null(all[i]);
	}
	for (unsigned i = 1; i < HELD_MAX; i++)
		assert_ptr_not_equal(held_id(all[i - 1]), held_id(all[i]));
	assert_null(held_new());
	held_cancel(all[1000]);
	held_cancel(all[7]);
	again = held_new();
	assert_true(again == all[7] || again == all[1000]);
	assert_non_null(held_new());
	assert_null(held_new());
	assert_int_equal(held_count(), 0); /* none is filled */
	/* A child has all of them. */
	held_fork_child();
	assert_non_null(held_new());
}

static void test_a_process_has_so_many_buffers(void **state)
{
	static struct buff_store stores[2];
	unsigned n = 0, all = 0;

	buff_store_init(&stores[0], 0);
	buff_store_init(&stores[1], 1);
	while (buff_store_extend(&stores[n % 2]))
		n++;
	for (unsigned i = 0; i < 2; i++) {
		for (struct buff *b = stores[i].free; b; b = b->next)
			all += b->store == &stores[i];
	}
	assert_int_equal(all, BUFF_MAX);
	assert_false(buff_store_extend(&stores[0]));
	buff_fork_child();
	assert_true(buff_store_extend(&stores[0]));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_process_holds_so_many_packets),
	cmocka_unit_test(test_a_process_has_so_many_buffers),
};

VMA_TEST_MAIN("held", tests, NULL, NULL)
