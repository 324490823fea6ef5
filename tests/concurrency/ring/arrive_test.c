/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * HOLD_SINGLE: further threads arrive at random moments, while the first one and the internal
 * thread are at work.  One thread at a time holds a ring all the same, no item is left in an
 * inbox, and the process goes over once.  VMA_ARRIVE_SEED: of the first round.
 */
#include "crew.h"

#include <stdlib.h>

#include "base/delay.h"
#include "base/mem.h"
#include "base/log.h"

#define RINGS 3
#define LETTERS 64
#define THREADS 4 /* the first, the internal thread, and two that arrive */
#define ROUND_MAX (3 * NSEC_PER_MSEC)
#define ALL_ROUNDS (4 * NSEC_PER_SEC)
#define ROUNDS_MIN 20

struct letter {
	struct inbox_item item;
	int free; /* atomic */
};

struct place {
	struct ring ring;
	/* holder, plain: TSan reports a race if two threads hold it */
	unsigned long a, b, ran;
	int inside;
};

static struct {
	struct place places[RINGS];
	struct letter letters[THREADS][LETTERS];
	/* one thread each */
	unsigned long entered[THREADS], posted[THREADS];
	unsigned seed;
	int begun, over; /* atomic: the first thread is at work; all shall end */
} shared;

static void run(struct ring *ring, struct inbox_item *item)
{
	struct letter *letter = container_of(item, struct letter, item);

	TEST_CHECK(hold_current == &ring->hold);
	container_of(ring, struct place, ring)->ran++;
	/* Pairs with post(). */
	__atomic_store_n(&letter->free, 1, __ATOMIC_RELEASE);
}

static void post_to(unsigned place, unsigned thread, unsigned *seed)
{
	struct letter *letter = &shared.letters[thread][rand_r(seed) % LETTERS];

	/* Pairs with run(). */
	if (!__atomic_exchange_n(&letter->free, 0, __ATOMIC_ACQUIRE))
		return;
	letter->item.run = run;
	shared.posted[thread]++;
	ring_post(&shared.places[place].ring, &letter->item);
}

static void post(unsigned thread, unsigned *seed)
{
	post_to((unsigned)rand_r(seed) % RINGS, thread, seed);
}

static void use(struct place *place, unsigned thread, unsigned *seed)
{
	TEST_CHECK(place->inside++ == 0);
	TEST_CHECK(place->a == place->b);
	place->a++;
	for (volatile unsigned i = (unsigned)rand_r(seed) % 64; i; i--)
		;
	if (rand_r(seed) % 256 == 0)
		sched_yield();
	place->b++;
	TEST_CHECK(--place->inside == 0);
	shared.entered[thread]++;
}

/* In every way in which a thread of the program may come to a ring, old calls included. */
static void visit(unsigned thread, unsigned *seed)
{
	struct place *place = &shared.places[rand_r(seed) % RINGS];
	struct ring *ring = &place->ring;

	crew_stall_stores();
	switch (rand_r(seed) % 8) {
	case 0:
		if (!ring_hold_cold(ring))
			abort();
		use(place, thread, seed);
		ring_release_cold(ring);
		break;
	case 1:
		if (!ring_try(ring))
			break;
		use(place, thread, seed);
		ring_release_cold(ring);
		break;
	case 2:
		if (!hold_single_left()) /* only then has a socket the calls of HOLD_SPIN */
			break;
		if (!ring_hold(ring, HOLD_SPIN))
			abort();
		use(place, thread, seed);
		ring_release(ring, HOLD_SPIN);
		break;
	case 3:
		post(thread, seed);
		break;
	default:
		if (!ring_hold(ring, HOLD_SINGLE))
			abort();
		use(place, thread, seed);
		ring_release(ring, HOLD_SINGLE);
		break;
	}
}

static bool goes_on(void)
{
	return !__atomic_load_n(&shared.over, __ATOMIC_RELAXED);
}

static void *internal_main(void *arg)
{
	unsigned seed = shared.seed ^ 1;

	(void)arg;
	ring_thread.internal = true;
	while (goes_on()) {
		struct place *place = &shared.places[rand_r(&seed) % RINGS];

		if (rand_r(&seed) % 2)
			post(1, &seed);
		else if (ring_try(&place->ring)) {
			use(place, 1, &seed);
			ring_release_cold(&place->ring);
		}
	}
	return NULL;
}

/* arg: the thread's number.  The ones that arrive come when the first one is at work. */
static void *app_main(void *arg)
{
	unsigned thread = (unsigned)(uintptr_t)arg, seed = shared.seed + thread;

	while (thread && !__atomic_load_n(&shared.begun, __ATOMIC_RELAXED))
		sched_yield();
	for (volatile unsigned n = thread ? (unsigned)rand_r(&seed) % 100000 : 0; n; n--)
		;
	for (unsigned n = 0; goes_on(); n++) {
		visit(thread, &seed);
		if (!thread && n == 8)
			__atomic_store_n(&shared.begun, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static unsigned long sum(const unsigned long *counts)
{
	unsigned long all = 0;

	for (unsigned i = 0; i < THREADS; i++)
		all += counts[i];
	return all;
}

static void check_round(void)
{
	unsigned long entered = 0, ran = 0;

	for (unsigned i = 0; i < RINGS; i++) {
		struct place *place = &shared.places[i];

		assert_true(inbox_empty(&place->ring.inbox));
		assert_int_equal(place->a, place->b);
		entered += place->a;
		ran += place->ran;
	}
	assert_int_equal(entered, sum(shared.entered));
	assert_int_equal(ran, sum(shared.posted));
}

static void prepare(unsigned seed)
{
	memset(&shared, 0, sizeof(shared));
	shared.seed = seed;
	delay_seed(seed);
	ring_mode = HOLD_SINGLE;
	hold_single_begin();
	for (unsigned i = 0; i < RINGS; i++)
		ring_init(&shared.places[i].ring, NULL, i);
	for (unsigned t = 0; t < THREADS; t++) {
		for (unsigned i = 0; i < LETTERS; i++)
			shared.letters[t][i].free = 1;
	}
}

static void await_arrivals(nsec_t length)
{
	nsec_t end = clock_now() + length;

	while (clock_now() < end || !hold_single_left())
		sched_yield();
}

static void one_round(unsigned seed)
{
	pthread_t threads[THREADS];

	prepare(seed);
	for (unsigned t = 0; t < THREADS; t++)
		assert_int_equal(pthread_create(&threads[t], NULL,
						t == 1 ? internal_main : app_main,
						(void *)(uintptr_t)t),
				 0);
	await_arrivals(seed % ROUND_MAX);
	__atomic_store_n(&shared.over, 1, __ATOMIC_RELAXED);
	for (unsigned t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	assert_true(hold_single_left());
	assert_int_equal(ring_mode, HOLD_SPIN);
	check_round();
}

static void test_threads_arrive(void **state)
{
	const char *from = getenv("VMA_ARRIVE_SEED");
	unsigned seed = from ? (unsigned)strtoul(from, NULL, 0) : (unsigned)clock_now();
	nsec_t end = clock_now() + ALL_ROUNDS;
	unsigned rounds = 0;

	print_message("VMA_ARRIVE_SEED=%u\n", seed);
	while (clock_now() < end || rounds < ROUNDS_MIN)
		one_round(seed + 7919 * rounds++);
	print_message("%u rounds\n", rounds);
}

/* ---- the moments themselves, often ------------------------------------------------------- */

/* Returns in all threads at once; false: the time is over. */
static bool meet_again(struct worker *worker)
{
	static bool more; /* the decision of thread 0, between two meetings */

	if (!worker->number)
		more = crew_goes_on(worker->crew);
	crew_meet(worker->crew);
	return more;
}

static void be_alone(struct ring *ring)
{
	ring_mode = HOLD_SINGLE;
	hold_single_begin();
	TEST_CHECK(ring_hold(ring, HOLD_SINGLE));
	ring_release(ring, HOLD_SINGLE);
}

/* The first thread enters and leaves some times; the second one arrives once. */
static void arrive_again(struct worker *worker)
{
	struct place *place = &shared.places[0];
	unsigned number = worker->number;

	if (!number)
		be_alone(&place->ring);
	while (meet_again(worker)) {
		for (unsigned n = number ? 1 : (unsigned)rand_r(&worker->seed) % 8; n; n--) {
			worker_pause(worker);
			crew_stall_stores();
			TEST_CHECK(ring_hold(&place->ring, HOLD_SINGLE));
			use(place, number, &worker->seed);
			ring_release(&place->ring, HOLD_SINGLE);
		}
		crew_meet(worker->crew);
		TEST_CHECK(hold_single_left());
		TEST_CHECK(ring_mode == HOLD_SPIN);
		crew_meet(worker->crew);
		if (!number)
			be_alone(&place->ring);
	}
}

static void test_a_second_thread_arrives_often(void **state)
{
	prepare(4711);
	crew_run(HOLD_SPIN, 2, arrive_again);
	check_round();
	print_message("%lu times\n", shared.entered[1]);
}

/* The calls of HOLD_SINGLE that began before the process went over have no fence of their own. */
static void release_and_post(struct worker *worker)
{
	struct ring *ring = &shared.places[0].ring;
	unsigned number = worker->number;

	while (meet_again(worker)) {
		if (number) {
			crew_stall_stores(); /* then the holder's stores are slow */
			worker_pause(worker);
			post_to(0, number, &worker->seed);
		} else {
			TEST_CHECK(ring_hold(ring, HOLD_SINGLE));
			worker_pause(worker);
			crew_stall_stores();
			ring_release(ring, HOLD_SINGLE);
		}
		crew_meet(worker->crew);
		TEST_CHECK(inbox_empty(&ring->inbox));
	}
}

static void *come_second(void *arg)
{
	struct ring *ring = arg;

	TEST_CHECK(ring_hold(ring, HOLD_SINGLE));
	ring_release(ring, HOLD_SINGLE);
	return NULL;
}

static void test_old_calls_leave_nothing_in_an_inbox(void **state)
{
	struct ring *ring = &shared.places[0].ring;
	pthread_t second;

	prepare(4711);
	be_alone(ring);
	assert_int_equal(pthread_create(&second, NULL, come_second, ring), 0);
	pthread_join(second, NULL);
	assert_true(hold_single_left());
	crew_run(HOLD_SPIN, 2, release_and_post);
	check_round();
	print_message("%lu items\n", shared.posted[1]);
}

/* ---- one thread of the program -------------------------------------------------------------- */

static void *alone_main(void *arg)
{
	unsigned seed = shared.seed;

	(void)arg;
	while (goes_on())
		visit(0, &seed);
	return NULL;
}

/* However often the internal thread comes: it is no second thread of the program. */
static void test_the_internal_thread_is_none_of_them(void **state)
{
	pthread_t threads[2];

	prepare(4711);
	assert_int_equal(pthread_create(&threads[0], NULL, alone_main, NULL), 0);
	assert_int_equal(pthread_create(&threads[1], NULL, internal_main, NULL), 0);
	usleep(200000);
	__atomic_store_n(&shared.over, 1, __ATOMIC_RELAXED);
	for (unsigned t = 0; t < 2; t++)
		pthread_join(threads[t], NULL);
	assert_false(hold_single_left());
	assert_int_equal(ring_mode, HOLD_SINGLE);
	check_round();
}

static int setup(void **state)
{
	clock_init();
	log_set_level(LOG_ERROR); /* not a warning for each round */
	return !hold_single_supported();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_threads_arrive),
	cmocka_unit_test(test_a_second_thread_arrives_often),
	cmocka_unit_test(test_old_calls_leave_nothing_in_an_inbox),
	cmocka_unit_test(test_the_internal_thread_is_none_of_them),
};

VMA_TEST_MAIN("arrive", tests, setup, NULL)
