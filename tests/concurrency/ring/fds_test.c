/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread goes to sleep at a ring whose descriptors change at the same moment: it blocks on the
 * new ones, or it is woken.
 *
 * A store is visible to another processor only when all earlier stores of its own are. Before
 * each change some stores miss every cache, so that the number of descriptors stays invisible
 * for long, unless a fence waits for it.
 */
#include "crew.h"

#include <string.h>

#include "base/mem.h"
#include "ring/sleep.h"

#define LINES 24 /* stores that miss: less than a store buffer has room for */
#define LINE 64
#define RUNS 5	      /* without the fence, every second run fails */
#define ROUNDS_MIN 20 /* of a run, however busy the machine is */

static struct ring *ring;
static uint8_t *cold;
static int seen;		       /* the number of descriptors, as the sleeper read it */
static bool more;		       /* rounds follow */
static unsigned rounds, rounds_before; /* of all runs, and before this one */

static int set_up(void **state)
{
	(void)state;
	clock_init();
	ring = mem_aligned(LINE, sizeof(*ring));
	cold = mem_aligned(LINE, LINES * LINE);
	assert_true(ring && cold);
	memset(ring, 0, sizeof(*ring));
	memset(cold, 0, LINES * LINE);
	hold_init(&ring->hold);
	inbox_init(&ring->inbox);
	sleep_place_init(&ring->sleepers, false);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mem_free(ring);
	mem_free(cold);
	return 0;
}

static void evict(void)
{
#if defined(__x86_64__)
	for (unsigned i = 0; i < LINES; i++)
		__builtin_ia32_clflush(cold + i * LINE);
	__builtin_ia32_mfence();
#endif
}

static void change(int n)
{
	for (unsigned i = 0; i < LINES; i++)
		__atomic_store_n(&cold[i * LINE], (uint8_t)n, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->n_fds, n, __ATOMIC_RELAXED);
	ring_fds_changed(ring);
}

static void begin_sleep(struct sleep *sleep, struct sleeper *at)
{
	int fds[PORT_FDS_MAX];

	sleep_begin(sleep);
	sleep_enter(sleep, at, &ring->sleepers, false);
	TEST_CHECK(sleep_listen(sleep));
	seen = ring_fds(ring, fds);
}

static void change_and_sleep(struct worker *worker)
{
	struct sleep sleep;
	struct sleeper at;
	int n = 0;

	do {
		n = n % 2 + 1;
		if (worker->number == 0)
			evict();
		crew_meet(worker->crew);
		if (worker->number == 0) {
			change(n);
		} else {
			for (unsigned spin = worker->seed++ % 64 * 8; spin; spin--)
				__asm__ volatile("");
			begin_sleep(&sleep, &at);
		}
		crew_meet(worker->crew);
		if (worker->number == 1) {
			TEST_CHECK(seen == n ||
				   __atomic_load_n(&sleep.wakeup->signalled, __ATOMIC_RELAXED));
			sleep_end(&sleep);
			rounds++;
			more = crew_goes_on(worker->crew);
		}
		crew_meet(worker->crew);
	} while (more);
}

static bool were_enough(void)
{
	return rounds - rounds_before >= ROUNDS_MIN;
}

static void test_a_sleeper_gets_new_descriptors_or_is_woken(void **state)
{
	(void)state;
	for (unsigned run = 0; run < RUNS; run++) {
		rounds_before = rounds;
		crew_run_until(HOLD_SPIN, 2, change_and_sleep, were_enough);
		assert_true(were_enough());
	}
	print_message("%u rounds\n", rounds);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_a_sleeper_gets_new_descriptors_or_is_woken, set_up,
					tear_down),
};

VMA_TEST_MAIN("fds", tests, NULL, NULL)
