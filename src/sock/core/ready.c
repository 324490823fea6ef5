/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/ready.h"

#include <pthread.h>

#include "base/delay.h"
#include "base/mem.h"
#include "ring/inbox.h"
#include "ring/ring.h"

unsigned ready_forks;

void waiter_init(struct waiter *waiter)
{
	ck_stack_init(&waiter->ready);
	waiter->users = 0;
	sleep_place_init(&waiter->sleepers, false);
}

/* ---- the waiter of a thread ---------------------------------------------------- */

static __thread struct waiter *self __attribute__((tls_model("initial-exec")));
static pthread_key_t self_key;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;

static void free_self(void *arg)
{
	self = NULL; /* a destructor that runs later may make another one */
	mem_free(arg);
}

static void make_key(void)
{
	pthread_key_create(&self_key, free_self);
}

struct waiter *waiter_self(void)
{
	struct waiter *waiter = self;

	if (waiter)
		return waiter;
	waiter = mem_alloc(sizeof(*waiter));
	if (!waiter)
		return NULL;
	waiter_init(waiter);
	pthread_once(&self_once, make_key);
	pthread_setspecific(self_key, waiter);
	self = waiter;
	return waiter;
}

__thread bool sock_in_callback __attribute__((tls_model("initial-exec")));

void sock_signal_enters(void)
{
	sleep_interrupted();
}

void sock_signals_wait(void)
{
	ring_thread.put_off = 1;
}

void ready_fork_child(void)
{
	ready_forks++;
	sleep_fork_child();
	if (self)
		waiter_init(self);
}

/* ---- the queue ------------------------------------------------------------------ */

struct watch *waiter_take(struct waiter *waiter)
{
	ck_stack_entry_t *link, *next, *oldest = NULL;

	if (!waiter_pending(waiter))
		return NULL;
	delay_at(DELAY_READY_TAKE);
	/* Pairs with the push in push_ready(). */
	link = ck_stack_batch_pop_upmc(&waiter->ready);
	tsan_acquire(waiter); /* pairs with push_ready() */
	for (; link; link = next) {
		next = link->next;
		link->next = oldest;
		oldest = link;
	}
	return (struct watch *)(void *)oldest;
}

struct watch *watch_next(struct watch *watch)
{
	struct watch *next = (struct watch *)(void *)watch->ready_link.next;

	/*
	 * Pairs with watch_push() and watch_end().  After an exchange the caller sees what a
	 * notifier wrote before it found the watch queued.  With a plain store the caller could
	 * read the events earlier than that: it would miss the event, and the watch was not
	 * pushed again.
	 */
	if (__atomic_exchange_n(&watch->queued, 0, __ATOMIC_SEQ_CST) & WATCH_GONE)
		watch->gone = true; /* no other thread uses the watch any more */
	return next;
}

void waiter_discard(struct waiter *waiter)
{
	struct watch *watch = waiter_take(waiter);

	while (watch)
		watch = watch_next(watch);
}

static void push_ready(struct watch *watch)
{
	struct waiter *waiter = watch->waiter;

	delay_at(DELAY_READY_PUSH);
	tsan_release(waiter); /* pairs with waiter_take() */
	ck_stack_push_upmc(&waiter->ready, &watch->ready_link);
	ck_pr_fence_atomic_load();
	waiter_wake(waiter);
}

void watch_push(struct watch *watch)
{
	/* Pairs with watch_next().  The thread that queued the watch wakes the waiter. */
	if (!(__atomic_fetch_or(&watch->queued, WATCH_QUEUED, __ATOMIC_SEQ_CST) & WATCH_QUEUED))
		push_ready(watch);
}

void watch_end(struct watch *watch)
{
	list_remove(&watch->link);
	if (__builtin_expect(watch->ops != NULL, 0)) {
		watch->ops->free(watch);
		return;
	}
	/* Pairs with watch_next(): the owner frees the watch only after it has seen WATCH_GONE. */
	if (!(__atomic_fetch_or(&watch->queued, WATCH_QUEUED | WATCH_GONE, __ATOMIC_SEQ_CST) &
	      WATCH_QUEUED))
		push_ready(watch);
}

/* ---- watches ---------------------------------------------------------------------- */

void watch_init(struct watch *watch, struct waiter *waiter, struct sock *sk, uint32_t events)
{
	list_init(&watch->link);
	watch->waiter = waiter;
	watch->sk = sk;
	watch->events = events;
	watch->queued = 0;
	watch->gone = false;
	watch->of_set = false;
	watch->ops = NULL;
}

void watch_add(struct watch *watch)
{
	struct list *watches = &watch->sk->watches;

	/* The order in which Linux wakes: the newest watch first, exclusive watches last. */
	if (watch->events & EPOLLEXCLUSIVE)
		list_push_back(watches, &watch->link);
	else
		list_push_front(watches, &watch->link);
}

void watch_remove(struct watch *watch)
{
	list_remove(&watch->link);
}

void ready_notify_slow(struct sock *sk, uint32_t events)
{
	struct watch *served = NULL; /* the first exclusive one with a thread in a wait */

	list_for_each(link, &sk->watches) {
		struct watch *watch = container_of(link, struct watch, link);

		if (__builtin_expect(watch->ops != NULL, 0)) {
			watch->ops->notify(watch, events);
			continue;
		}
		if (!((watch->events | EPOLLERR | EPOLLHUP) & events))
			continue;
		if (watch->events & EPOLLEXCLUSIVE) {
			if (served)
				continue;
			if (__atomic_load_n(&watch->waiter->users, __ATOMIC_RELAXED))
				served = watch;
		}
		watch_push(watch);
	}
	if (served) {
		/* Another set gets the next event. */
		list_remove(&served->link);
		list_push_back(&sk->watches, &served->link);
	}
}

void ready_wake_all(struct sock *sk)
{
	list_for_each(link, &sk->watches) {
		struct watch *watch = container_of(link, struct watch, link);

		if (!watch->ops)
			waiter_wake_all(watch->waiter);
	}
}
