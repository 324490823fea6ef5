/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every allocation logic with every thread mode and 1, 2, 4 and 16 threads. The threads open,
 * use, pass on, move and close sockets at random. Each combination runs in a separate process.
 * VMA_STRESS_MSEC: the duration; VMA_STRESS_SEED: the seed; VMA_STRESS_ONLY=logic/mode/threads:
 * one combination only; VMA_STRESS_SHOW=1: prints what each one did.
 */
#include "traffic.h"

#include "base/delay.h"
#include "vma_test.h"

#define AT_ONCE 3
#define MSEC_DEFAULT 400

struct combination {
	int rx, tx, mode;
	unsigned threads, seed;
	char name[64];
};

/* ---- one of them ------------------------------------------------------------------------- */

static struct traffic traffic;

static void run_threads(const struct combination *c)
{
	pthread_t threads[16];
	struct worker workers[16];

	for (unsigned i = 0; i < c->threads; i++)
		workers[i] = traffic_worker(&traffic, c->seed, i);
	if (c->mode == HOLD_SINGLE) {
		traffic_work(&workers[0]);
		return;
	}
	for (unsigned i = 0; i < c->threads; i++)
		NET_CHECK_EQ(pthread_create(&threads[i], NULL, traffic_work, &workers[i]), 0);
	for (unsigned i = 0; i < c->threads; i++)
		pthread_join(threads[i], NULL);
}

static void set_params(const struct combination *c)
{
	params.thread_mode = c->mode;
	params.ring_logic_rx = c->rx == RING_LOGIC_USER_ID ? 0 : c->rx;
	params.ring_logic_tx = c->tx == RING_LOGIC_USER_ID ? 0 : c->tx;
	params.ring_migration_rx = 1;
	params.ring_migration_tx = 1;
	params.ring_limit = c->seed % 3 == 2 ? 6 : 48;
	params.tx_nonblocked_eagains = true;
	params.progress_interval = 1;
	params.rx_poll = c->seed % 2 ? 3 : 1000;
	params.log_level = (enum log_level)loop_net_number("VMA_STRESS_LOG", LOG_WARNING);
	loop_port_mtu = 300;
}

static void run_one(void *arg)
{
	struct combination *c = arg;
	struct worker worker = {&traffic, c->seed + 1};
	bool options = c->seed % 2 || c->rx == RING_LOGIC_USER_ID;

	set_params(c);
	delay_seed(c->seed);
	loop_net_start();
	traffic_init(&traffic, c->threads < 4 ? 8 : 16, 7, options);
	traffic.until =
		clock_now() + loop_net_number("VMA_STRESS_MSEC", MSEC_DEFAULT) * NSEC_PER_MSEC;
	run_threads(c);
	traffic_end(&worker);
	loop_net_settle();
	traffic_show(&traffic, c->name);
	loop_net_finish();
}

/* ---- all of them --------------------------------------------------------------------------- */

static bool is_wanted(const struct combination *c)
{
	const char *only = getenv("VMA_STRESS_ONLY");
	char name[64];

	if (!only)
		return true;
	snprintf(name, sizeof(name), "%d/%d/%u", c->rx, c->mode, c->threads);
	return strcmp(name, only) == 0;
}

static void join(struct loop_net_child *children, struct combination *combos, unsigned i,
		 unsigned *failed)
{
	if (!loop_net_join(&children[i]))
		return;
	(*failed)++;
	fprintf(stderr, "%s failed (seed %u)\n", combos[i].name, combos[i].seed);
}

/* Runs several at a time, because they often wait. */
static unsigned run_all(struct combination *all, unsigned n)
{
	struct loop_net_child children[AT_ONCE];
	struct combination running[AT_ONCE];
	unsigned failed = 0, started = 0;
	unsigned seconds = 60 + loop_net_number("VMA_STRESS_MSEC", 0) / 1000;

	for (unsigned i = 0; i < n; i++) {
		unsigned at = started % AT_ONCE;

		if (!is_wanted(&all[i]))
			continue;
		if (started >= AT_ONCE)
			join(children, running, at, &failed);
		running[at] = all[i];
		children[at] = loop_net_fork(all[i].name, run_one, &all[i], seconds);
		children[at].name = running[at].name;
		started++;
	}
	for (unsigned i = 0; i < AT_ONCE && i < started; i++)
		join(children, running, i, &failed);
	return failed;
}

static const int logics[] = {0, 1, 10, 11, 20, 30, 31};
static const unsigned crews[] = {1, 2, 4, 16};
#define LOGICS (sizeof(logics) / sizeof(logics[0]))
#define CREWS (sizeof(crews) / sizeof(crews[0]))

static struct combination combination(int rx, int tx, int mode, unsigned threads)
{
	static unsigned seed;
	struct combination c = {.rx = rx, .tx = tx, .mode = mode, .threads = threads};

	c.seed = loop_net_number("VMA_STRESS_SEED", 1) + seed++;
	snprintf(c.name, sizeof(c.name), "logic %d/%d, thread mode %d, %u threads", rx, tx, mode,
		 threads);
	return c;
}

static void test_mode(int mode)
{
	struct combination all[LOGICS * CREWS];
	unsigned n = 0;

	for (unsigned l = 0; l < LOGICS; l++) {
		for (unsigned t = 0; t < CREWS; t++) {
			if (mode != HOLD_SINGLE || crews[t] == 1)
				all[n++] = combination(logics[l], logics[l], mode, crews[t]);
		}
	}
	assert_int_equal(run_all(all, n), 0);
}

static void test_single(void **state)
{
	assert_true(hold_single_supported());
	test_mode(HOLD_SINGLE);
}

static void test_spin(void **state)
{
	test_mode(HOLD_SPIN);
}

static void test_mutex(void **state)
{
	test_mode(HOLD_MUTEX);
}

static void test_yield(void **state)
{
	test_mode(HOLD_YIELD);
}

/* One ring for receiving, another one for sending. */
static void test_sides_differ(void **state)
{
	static const int sides[][2] = {{20, 0}, {0, 20}, {10, 20}, {20, 10}, {10, 0},
				       {0, 10}, {30, 0}, {0, 30},  {1, 20},  {20, 1}};
	struct combination all[sizeof(sides) / sizeof(sides[0])];
	unsigned n = sizeof(sides) / sizeof(sides[0]);

	for (unsigned i = 0; i < n; i++)
		all[i] = combination(sides[i][0], sides[i][1], (int)(1 + i % 3), i % 2 ? 4 : 2);
	assert_int_equal(run_all(all, n), 0);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_single),	     cmocka_unit_test(test_spin),
	cmocka_unit_test(test_mutex),	     cmocka_unit_test(test_yield),
	cmocka_unit_test(test_sides_differ),
};

VMA_TEST_MAIN("stress", tests, enter, NULL)
