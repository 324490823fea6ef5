/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Very many moves, under traffic from several threads, with sockets that open and close. At
 * times no socket moves: then datagrams arrive in order, too.
 * VMA_MOVES: the number of moves, 20000 by default (fewer with a sanitizer); moves_long.sh
 * makes a million. VMA_STRESS_SEED: the seed.
 */
#include "tests/concurrency/sock/traffic.h"
#include "vma_test.h"

#include "base/delay.h"
#include "ring/logic.h"

#define MOVES_DEFAULT (20000 / NET_SLOW)
#define CALMS 20 /* how often no socket moves */
#define CALM (20 * NSEC_PER_MSEC)
#define THREADS 4
#define PAIRS 24
#define USERS 8 /* rings to move between */

struct plan {
	const char *name;
	int mode, logic;
	unsigned moves, seed;
};

static struct traffic traffic;
static int moving, over; /* any, atomic */

static bool is(const int *flag)
{
	return __atomic_load_n(flag, __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	while (!is(&over)) {
		struct pair *pair = &traffic.pairs[worker_random(worker, PAIRS)];
		unsigned what = worker_random(worker, 1000);

		/* With migration, a thread uses one socket for long. */
		if (what < 500)
			traffic_session(worker, pair,
					ring_logic_moves(params.ring_logic_rx) ? 60 : 4);
		else if (what < 980 && is(&moving) && !ring_logic_moves(params.ring_logic_rx))
			traffic_move(worker, pair, USERS);
		else if (what < 990)
			traffic_accept(worker);
		else if (what < 992)
			traffic_renew(worker, pair);
		else
			traffic_open(worker, pair);
	}
	NET_CHECK(!hold_current);
	return NULL;
}

static unsigned moved(void)
{
	return __atomic_load_n(&sock_moves_rx.finished, __ATOMIC_RELAXED);
}

/* Is there any progress? A slow machine is not a failure. */
static void wait_for_moves(unsigned n)
{
	unsigned last = moved();
	nsec_t since = clock_now();

	while (moved() < n) {
		usleep(1000);
		if (moved() != last) {
			last = moved();
			since = clock_now();
		}
		NET_CHECK(clock_now() - since < NET_PATIENCE * NSEC_PER_MSEC * NET_SLOW);
	}
}

static void direct(const struct plan *plan)
{
	for (unsigned i = 1; i <= CALMS; i++) {
		__atomic_store_n(&moving, 1, __ATOMIC_RELAXED);
		wait_for_moves((unsigned)((uint64_t)plan->moves * i / CALMS));
		__atomic_store_n(&moving, 0, __ATOMIC_RELAXED);
		usleep(CALM / NSEC_PER_USEC);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
}

static void run_plan(void *arg)
{
	const struct plan *plan = arg;
	struct worker workers[THREADS], last = {&traffic, plan->seed + 1};
	pthread_t threads[THREADS];
	nsec_t began;

	params.thread_mode = plan->mode;
	params.ring_logic_rx = params.ring_logic_tx = plan->logic;
	params.ring_migration_rx = params.ring_migration_tx = 1;
	/* the port locks all queues; ThreadSanitizer counts at most 64 locks */
	params.ring_limit = 48;
	params.progress_interval = 1;
	params.tx_nonblocked_eagains = true;
	params.rx_poll = 1000;
	params.log_level = LOG_WARNING;
	loop_port_mtu = 300;
	delay_seed(plan->seed);
	loop_net_start();
	traffic_init(&traffic, PAIRS, 7, false);
	began = clock_now();
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){&traffic, (plan->seed + 1) * 0x9e3779b97f4a7c15ull +
							       i * 7919 + 1};
		NET_CHECK_EQ(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	direct(plan);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%ld.%03ld s: ", (clock_now() - began) / NSEC_PER_SEC,
	       (clock_now() - began) / NSEC_PER_MSEC % 1000);
	traffic_end(&last);
	loop_net_settle();
	traffic_show(&traffic, plan->name);
	loop_net_finish();
}

/* Shares of all moves, per thousand. */
static void test_plan(const char *name, int mode, int logic, unsigned share)
{
	unsigned all = loop_net_number("VMA_MOVES", MOVES_DEFAULT);
	struct plan plan = {.name = name,
			    .mode = mode,
			    .logic = logic,
			    .moves = (unsigned)((uint64_t)all * share / 1000) + 1,
			    .seed = loop_net_number("VMA_STRESS_SEED", 1) + (unsigned)mode};

	assert_int_equal(loop_net_run(name, run_plan, &plan, 60 + plan.moves / 500), 0);
}

static void test_spin(void **state)
{
	test_plan("moved by option, thread mode 1", HOLD_SPIN, RING_LOGIC_SOCKET, 330);
}

static void test_mutex(void **state)
{
	test_plan("moved by option, thread mode 2", HOLD_MUTEX, RING_LOGIC_SOCKET, 330);
}

static void test_yield(void **state)
{
	test_plan("moved by option, thread mode 3", HOLD_YIELD, RING_LOGIC_SOCKET, 330);
}

/* Moves that the calls of the program cause. */
static void test_by_thread(void **state)
{
	test_plan("moved by their threads", HOLD_YIELD, RING_LOGIC_THREAD, 10);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_spin),
	cmocka_unit_test(test_mutex),
	cmocka_unit_test(test_yield),
	cmocka_unit_test(test_by_thread),
};

VMA_TEST_MAIN("moves", tests, enter, NULL)
