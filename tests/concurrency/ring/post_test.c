/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is posted to a ring runs, even if no thread polls it: when every thread has ended, every
 * inbox is empty.
 */
#include "crew.h"

#include "base/mem.h"

#define RINGS 3
#define LETTERS 1024

struct message {
	struct inbox_item item;
	unsigned poster;
	unsigned long number;
	unsigned hops; /* how often it is posted again, each time to the next ring */
	int free;      /* atomic */
};

struct shared {
	struct ring rings[RINGS];
	/* holder of each ring */
	unsigned long next[RINGS][CREW_MAX];
	unsigned long ran[RINGS];
	/* written by one thread only */
	unsigned long posted[CREW_MAX][RINGS];
	struct message messages[CREW_MAX][LETTERS];
};

static struct shared *shared;

static int setup(void **state)
{
	clock_init();
	shared = mem_aligned(64, sizeof(*shared));
	assert_non_null(shared);
	memset(shared, 0, sizeof(*shared));
	for (unsigned i = 0; i < RINGS; i++)
		ring_init(&shared->rings[i], NULL, i);
	for (unsigned p = 0; p < CREW_MAX; p++) {
		for (unsigned i = 0; i < LETTERS; i++)
			shared->messages[p][i].free = 1;
	}
	return 0;
}

static int teardown(void **state)
{
	mem_free(shared);
	return 0;
}

static void run_in_order(struct ring *ring, struct inbox_item *item)
{
	struct message *message = container_of(item, struct message, item);

	TEST_CHECK(hold_current == &ring->hold);
	TEST_CHECK(message->number == shared->next[ring->id][message->poster]);
	shared->next[ring->id][message->poster]++;
	shared->ran[ring->id]++;
	__atomic_store_n(&message->free, 1, __ATOMIC_RELEASE);
}

static void run_and_post_on(struct ring *ring, struct inbox_item *item)
{
	struct message *message = container_of(item, struct message, item);

	TEST_CHECK(hold_current == &ring->hold);
	shared->ran[ring->id]++;
	if (message->hops--)
		ring_post(&shared->rings[(ring->id + 1) % RINGS], item);
	else
		__atomic_store_n(&message->free, 1, __ATOMIC_RELEASE);
}

static struct message *message_for(struct worker *worker, unsigned long n)
{
	struct message *message = &shared->messages[worker->number][n % LETTERS];

	while (!__atomic_load_n(&message->free, __ATOMIC_ACQUIRE))
		sched_yield(); /* it runs without this thread */
	message->free = 0;
	message->poster = worker->number;
	return message;
}

static void check_all_ran(unsigned long want)
{
	unsigned long ran = 0;

	for (unsigned i = 0; i < RINGS; i++) {
		assert_true(inbox_empty(&shared->rings[i].inbox));
		ran += shared->ran[i];
	}
	print_message("mode %d: %lu\n", (int)ring_mode, ran);
	assert_int_equal(ran, want);
	assert_true(ran > 0);
}

/* ---- posters and holders that come and go ----------------------------------------------- */

static void post_or_hold(struct worker *worker)
{
	unsigned long n = 0;

	for (unsigned i = 0; !i || i % 64 || crew_goes_on(worker->crew); i++) {
		unsigned r = (unsigned)rand_r(&worker->seed) % RINGS;

		if (rand_r(&worker->seed) % 4) {
			struct message *message = message_for(worker, n++);

			message->item.run = run_in_order;
			message->number = shared->posted[worker->number][r]++;
			ring_post(&shared->rings[r], &message->item);
		} else if (crew_hold(&shared->rings[r])) {
			worker_pause(worker);
			crew_release(&shared->rings[r]);
		}
	}
}

static void test_each_posters_items_run_in_order_and_all_of_them(void **state)
{
	for (unsigned m = 0; m < CREW_MODES; m++) {
		unsigned long want = 0;

		setup(state);
		crew_run(crew_modes[m], CREW_MAX, post_or_hold);
		for (unsigned i = 0; i < CREW_MAX; i++) {
			for (unsigned r = 0; r < RINGS; r++)
				want += shared->posted[i][r];
		}
		check_all_ran(want);
		teardown(state);
	}
}

/* ---- the last moment ----------------------------------------------------------------------- */

/*
 * One post against one hold that ends, and then nothing. In every order, the item has run when
 * both threads are done. A missing fence shows here.
 */
static void post_against_release(struct worker *worker)
{
	struct crew *crew = worker->crew;
	struct ring *ring = &shared->rings[0];

	for (unsigned long n = 0;; n++) {
		static int goes_on; /* the decision of thread 0, between two meetings */

		if (worker->number == 0)
			goes_on = !n || n % 64 || crew_goes_on(crew);
		crew_meet(crew);
		if (!goes_on)
			return;
		if ((n + worker->number) % crew->size == 0) {
			struct message *message = &shared->messages[0][0];

			message->item.run = run_in_order;
			message->number = n;
			message->poster = 0;
			crew_stall_stores(); /* then the holder's stores are slow */
			worker_pause(worker);
			ring_post(ring, &message->item);
		} else if (crew_hold(ring)) {
			worker_pause(worker);
			crew_stall_stores();
			crew_release(ring);
		}
		crew_meet(crew);
		TEST_CHECK(inbox_empty(&ring->inbox));
		TEST_CHECK(shared->ran[0] == n + 1);
	}
}

static void test_a_post_against_a_release_is_not_stranded(void **state)
{
	for (unsigned m = 0; m < CREW_MODES; m++) {
		setup(state);
		crew_run(crew_modes[m], 2, post_against_release);
		check_all_ran(shared->ran[0]);
		teardown(state);
	}
}

/* ---- posts from inside a hold, and from inside an item ---------------------------------------- */

static void post_across(struct worker *worker)
{
	unsigned long n = 0;

	for (unsigned i = 0; !i || i % 64 || crew_goes_on(worker->crew); i++) {
		unsigned r = (unsigned)rand_r(&worker->seed) % RINGS;
		bool held = rand_r(&worker->seed) % 2 && crew_hold(&shared->rings[r]);
		struct message *message = NULL;

		/* Not message_for(): the holder of a ring must not wait for another ring. */
		if (__atomic_load_n(&shared->messages[worker->number][n % LETTERS].free,
				    __ATOMIC_ACQUIRE))
			message = message_for(worker, n++);
		if (message) {
			message->item.run = run_and_post_on;
			message->hops = (unsigned)rand_r(&worker->seed) % 4;
			shared->posted[worker->number][0] += message->hops + 1;
			ring_post(&shared->rings[(r + 1) % RINGS], &message->item);
		}
		if (held)
			crew_release(&shared->rings[r]);
	}
}

static void test_posts_between_rings_that_are_held_all_run(void **state)
{
	for (unsigned m = 0; m < CREW_MODES; m++) {
		unsigned long want = 0;

		setup(state);
		crew_run(crew_modes[m], CREW_MAX, post_across);
		for (unsigned i = 0; i < CREW_MAX; i++)
			want += shared->posted[i][0];
		check_all_ran(want);
		teardown(state);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_each_posters_items_run_in_order_and_all_of_them),
	cmocka_unit_test(test_a_post_against_a_release_is_not_stranded),
	cmocka_unit_test(test_posts_between_rings_that_are_held_all_run),
};

VMA_TEST_MAIN("post", tests, NULL, NULL)
