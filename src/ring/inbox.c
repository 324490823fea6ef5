/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/inbox.h"

struct inbox_item *inbox_take(struct inbox *inbox)
{
	ck_stack_entry_t *link, *next, *oldest = NULL;

	delay_at(DELAY_INBOX_TAKE);
	/* Pairs with inbox_post(). */
	link = ck_stack_batch_pop_upmc(&inbox->posted);
	tsan_acquire(inbox);
	for (; link; link = next) {
		next = link->next;
		link->next = oldest;
		oldest = link;
	}
	return (struct inbox_item *)(void *)oldest;
}
