/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inbox: the queue of requests that any thread posts to a ring.
 *
 * Role		inbox_post: any thread.  inbox_take: the holder of the ring.
 * Lifetime	embedded in struct ring.  An item belongs to the ring from
 *		inbox_post() until its run() is called; run() frees it if it was
 *		allocated.
 * Ordering	what a poster wrote before inbox_post() is visible to run().
 *		Items of one poster stay in order; items of different posters
 *		have no order.  No item is left behind: see ring_post().
 * Progress	lock-free and never full: items are links inside the objects
 *		they concern.  Not ck_ring's many-producer enqueue: a producer
 *		preempted there stalls every other one.
 */
#ifndef RING_INBOX_H
#define RING_INBOX_H

#include <ck_stack.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/delay.h"

#if defined(__SANITIZE_THREAD__)
#define VMA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VMA_TSAN 1
#endif
#endif
#ifdef VMA_TSAN
#include <sanitizer/tsan_interface.h>
#define tsan_release(addr) __tsan_release(addr)
#define tsan_acquire(addr) __tsan_acquire(addr)
#else
#define tsan_release(addr) ((void)(addr))
#define tsan_acquire(addr) ((void)(addr))
#endif

/* Keeps stores before it ahead of loads after it. */
static inline void inbox_fence(void)
{
#ifdef VMA_TSAN
	/* TSan knows no fences, and gcc refuses to compile one.  Pairs with itself, as below. */
	ck_pr_fence_memory();
#else
	/* Pairs with another call of inbox_fence(): each caller names the other one. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

struct ring;

struct inbox_item {
	ck_stack_entry_t link; /* first: inbox_take() relies on it */
	void (*run)(struct ring *ring, struct inbox_item *item);
};

_Static_assert(offsetof(struct inbox_item, link) == 0, "inbox_take() casts an entry to its item");

struct inbox {
	ck_stack_t posted; /* newest first */
};

static inline void inbox_init(struct inbox *inbox)
{
	ck_stack_init(&inbox->posted);
}

/* any: costs one load. */
static inline bool inbox_empty(const struct inbox *inbox)
{
	return ck_pr_load_ptr(&inbox->posted.head) == NULL;
}

/* any: the ring owns the item from here on. */
static inline void inbox_post(struct inbox *inbox, struct inbox_item *item)
{
	delay_at(DELAY_INBOX_POST);
	tsan_release(inbox); /* pairs with inbox_take() */
	ck_stack_push_upmc(&inbox->posted, &item->link);
	delay_at(DELAY_INBOX_POSTED);
}

/* holder: everything posted so far, oldest first, linked by ->link.next. */
struct inbox_item *inbox_take(struct inbox *inbox);

#endif
