/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/inbox.h"

#include "base/list.h"
#include "vma_test.h"

struct message {
	struct inbox_item item;
	int number;
};

static struct inbox inbox;

static int setup(void **state)
{
	inbox_init(&inbox);
	return 0;
}

static struct message *next_of(struct message *message)
{
	return (struct message *)(void *)message->item.link.next;
}

static struct message *take(void)
{
	return (struct message *)(void *)inbox_take(&inbox);
}

static void test_an_empty_inbox_gives_nothing(void **state)
{
	assert_true(inbox_empty(&inbox));
	assert_null(take());
}

static void test_items_come_out_oldest_first(void **state)
{
	struct message messages[100], *message;

	for (int i = 0; i < 100; i++) {
		messages[i].number = i;
		inbox_post(&inbox, &messages[i].item);
		assert_false(inbox_empty(&inbox));
	}
	message = take();
	for (int i = 0; i < 100; i++, message = next_of(message))
		assert_int_equal(message->number, i);
	assert_null(message);
}

static void test_what_was_taken_is_gone(void **state)
{
	struct message a, b, *message;

	inbox_post(&inbox, &a.item);
	assert_ptr_equal(take(), &a);
	assert_true(inbox_empty(&inbox));
	assert_null(take());
	inbox_post(&inbox, &b.item);
	message = take();
	assert_ptr_equal(message, &b);
	assert_null(next_of(message));
}

static void test_an_item_may_be_posted_again(void **state)
{
	struct message a;

	for (int i = 0; i < 10; i++) {
		inbox_post(&inbox, &a.item);
		assert_ptr_equal(take(), &a);
	}
	assert_true(inbox_empty(&inbox));
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

static const struct CMUnitTest tests[] = {
	TEST(test_an_empty_inbox_gives_nothing),
	TEST(test_items_come_out_oldest_first),
	TEST(test_what_was_taken_is_gone),
	TEST(test_an_item_may_be_posted_again),
};

VMA_TEST_MAIN("inbox", tests, NULL, NULL)
