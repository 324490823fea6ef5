/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Intrusive circular doubly-linked list.
 *
 * Role		whoever owns the list; no locking of its own.
 * Lifetime	links live inside the objects; a list never frees anything.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next;
	struct list *prev;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

/* True if an element that was initialised with list_init() is on a list. */
static inline bool list_linked(const struct list *link)
{
	return link->next != link;
}

static inline void list_insert_between(struct list *link, struct list *prev, struct list *next)
{
	link->prev = prev;
	link->next = next;
	prev->next = link;
	next->prev = link;
}

static inline void list_push_front(struct list *head, struct list *link)
{
	list_insert_between(link, head, head->next);
}

static inline void list_push_back(struct list *head, struct list *link)
{
	list_insert_between(link, head->prev, head);
}

/* Unlinks. The link is empty afterwards, so a second removal does no harm. */
static inline void list_remove(struct list *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	list_init(link);
}

static inline struct list *list_pop_front(struct list *head)
{
	struct list *link = head->next;

	if (link == head)
		return NULL;
	list_remove(link);
	return link;
}

#define list_for_each(pos, head) \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* As list_for_each(), but the body may remove pos and nothing else. */
#define list_for_each_safe(pos, head)                                                 \
	for (struct list *pos = (head)->next, *pos##_next = pos->next; pos != (head); \
	     pos = pos##_next, pos##_next = pos->next)

#endif
