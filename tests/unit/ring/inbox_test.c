/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/inbox.h"

#include "base/list.h"
#include "vma_test.h"

struct letter {
	struct inbox_item item;
	int number;
};

static struct inbox inbox;

static int setup(void **state)
{
	inbox_init(&inbox);
	return 0;
}

static struct letter *next_of(struct letter *letter)
{
	return (struct letter *)(void *)letter->item.link.next;
}

static struct letter *take(void)
{
	return (struct letter *)(void *)inbox_take(&inbox);
}

static void test_an_empty_inbox_gives_nothing(void **state)
{
	assert_true(inbox_empty(&inbox));
	assert_null(take());
}

static void test_items_come_out_oldest_first(void **state)
{
	struct letter letters[100], *letter;

	for (int i = 0; i < 100; i++) {
		letters[i].number = i;
		inbox_post(&inbox, &letters[i].item);
		assert_false(inbox_empty(&inbox));
	}
	letter = take();
	for (int i = 0; i < 100; i++, letter = next_of(letter))
		assert_int_equal(letter->number, i);
	assert_null(letter);
}

static void test_what_was_taken_is_gone(void **state)
{
	struct letter a, b, *letter;

	inbox_post(&inbox, &a.item);
	assert_ptr_equal(take(), &a);
	assert_true(inbox_empty(&inbox));
	assert_null(take());
	inbox_post(&inbox, &b.item);
	letter = take();
	assert_ptr_equal(letter, &b);
	assert_null(next_of(letter));
}

static void test_an_item_may_be_posted_again(void **state)
{
	struct letter a;

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
