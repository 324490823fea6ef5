/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every item is taken once, those of one poster in order, whichever thread takes them; and what
 * was written before the post is visible.
 */
#include "crew.h"

#include "ring/inbox.h"

#define MESSAGES 4096 /* of a poster, used repeatedly */

struct message {
	struct inbox_item item;
	unsigned poster;
	unsigned long number; /* plain: posting publishes it */
	int free;	      /* atomic: the poster may post it */
};

static struct {
	struct inbox inbox;
	struct hold hold;
	/* holder */
	unsigned long next[CREW_MAX]; /* number that is expected next from each poster */
	unsigned long taken, takes;
	/* any, atomic */
	unsigned long posted;
	struct message messages[CREW_MAX][MESSAGES];
} shared;

static void take_all(void)
{
	struct inbox_item *item = inbox_take(&shared.inbox);

	shared.takes++;
	while (item) {
		struct inbox_item *next = (struct inbox_item *)(void *)item->link.next;
		struct message *message = container_of(item, struct message, item);

		TEST_CHECK(message->number == shared.next[message->poster]);
		shared.next[message->poster]++;
		shared.taken++;
		__atomic_store_n(&message->free, 1, __ATOMIC_RELEASE);
		item = next;
	}
}

static bool post(struct worker *worker, unsigned long number)
{
	struct message *message = &shared.messages[worker->number][number % MESSAGES];

	if (!__atomic_load_n(&message->free, __ATOMIC_ACQUIRE))
		return false; /* not taken yet */
	message->free = 0;
	message->poster = worker->number;
	message->number = number;
	inbox_post(&shared.inbox, &message->item);
	__atomic_fetch_add(&shared.posted, 1, __ATOMIC_RELAXED);
	return true;
}

static void post_and_take(struct worker *worker)
{
	unsigned long number = 0;

	for (unsigned n = 0; !n || n % 256 || crew_goes_on(worker->crew); n++) {
		for (unsigned k = (unsigned)rand_r(&worker->seed) % 8; k; k--)
			number += post(worker, number);
		if (!inbox_empty(&shared.inbox) && hold_try(&shared.hold, HOLD_SPIN)) {
			take_all();
			hold_release(&shared.hold, HOLD_SPIN);
		}
	}
}

static void test_nothing_is_lost_doubled_or_out_of_order(void **state)
{
	memset(&shared, 0, sizeof(shared));
	inbox_init(&shared.inbox);
	hold_init(&shared.hold);
	for (unsigned p = 0; p < CREW_MAX; p++) {
		for (unsigned i = 0; i < MESSAGES; i++)
			shared.messages[p][i].free = 1;
	}
	crew_run(HOLD_SPIN, CREW_MAX, post_and_take);
	take_all();
	assert_true(inbox_empty(&shared.inbox));
	print_message("%lu posts in %lu takes\n", shared.taken, shared.takes);
	assert_int_equal(shared.taken, shared.posted);
	assert_true(shared.taken > 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_nothing_is_lost_doubled_or_out_of_order),
};

VMA_TEST_MAIN("inbox", tests, NULL, NULL)
