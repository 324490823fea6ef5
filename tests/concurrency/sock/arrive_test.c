/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VMA_THREAD_MODE=0 and further threads that arrive at random moments: the process goes over to
 * mode 1, and every datagram and byte still comes once and in order (traffic.h). Each seed runs
 * in a process of its own. VMA_ARRIVE_SEED: the first one; VMA_ARRIVE_RUNS: how many.
 */
#include "traffic.h"

#include <sys/wait.h>

#include "base/delay.h"
#include "duo.h"
#include "ring/logic.h"
#include "ring/rings.h"
#include "sock/core/control.h"
#include "sock/core/kind.h"
#include "vma_test.h"

#define ARRIVALS 3		  /* threads beside the first */
#define MOMENT_MAX 20000	  /* usec after the first one, at most */
#define BUSY (80 * NSEC_PER_MSEC) /* all work so long */
#define LIMIT 60		  /* seconds for one run */

static bool all_renewed(void)
{
	bool all = true;

	if (!control_lock())
		return false;
	list_for_each(link, sock_list()) {
		const struct inet_sock *so = container_of(link, struct inet_sock, link);

		for (int kind = 0; kind < INET_KINDS; kind++)
			all = all && (!sock_kinds[kind]->ops ||
				      sock_ops_of(&so->sk) != &sock_kinds[kind]->ops[HOLD_SINGLE]);
	}
	control_unlock();
	return all;
}

/* ---- a busy first thread ------------------------------------------------------------------- */

static struct traffic traffic;

static void *arrive(void *arg)
{
	struct worker *worker = arg;

	usleep(worker_random(worker, MOMENT_MAX));
	while (!hold_single_left())
		traffic_act(worker);
	return traffic_work(arg);
}

static void set_params(unsigned seed)
{
	static const int logics[] = {0, 10, 20, 30};

	params.thread_mode = HOLD_SINGLE;
	params.ring_logic_rx = logics[seed % 4];
	params.ring_logic_tx = logics[seed / 4 % 4];
	params.ring_migration_rx = params.ring_migration_tx = 1;
	params.tx_nonblocked_eagains = true;
	params.progress_interval = 1;
	params.rx_poll = seed % 2 ? 3 : 1000;
	params.log_level = LOG_ERROR;
	loop_port_mtu = 300;
}

static void one_seed(void *arg)
{
	unsigned seed = *(unsigned *)arg;
	struct worker workers[1 + ARRIVALS];
	pthread_t threads[ARRIVALS];

	set_params(seed);
	delay_seed(seed);
	loop_net_start();
	for (unsigned i = 0; i < 1 + ARRIVALS; i++)
		workers[i] = traffic_worker(&traffic, seed, i);
	traffic_init(&traffic, 8, 7, seed % 3 == 0);
	NET_CHECK(!hold_single_left());
	traffic.until = clock_now() + BUSY;
	for (unsigned i = 0; i < ARRIVALS; i++)
		NET_CHECK_EQ(pthread_create(&threads[i], NULL, arrive, &workers[1 + i]), 0);
	traffic_work(&workers[0]);
	for (unsigned i = 0; i < ARRIVALS; i++)
		pthread_join(threads[i], NULL);
	NET_CHECK(hold_single_left());
	NET_CHECK_EQ(ring_mode, HOLD_SPIN);
	NET_CHECK(NET_WAIT(all_renewed(), NET_PATIENCE));
	traffic_end(&workers[0]);
	loop_net_settle();
	loop_net_finish();
}

static void test_threads_arrive_at_random_moments(void **state)
{
	unsigned first = loop_net_number("VMA_ARRIVE_SEED", (unsigned)clock_now() % 1000000);
	unsigned runs = loop_net_number("VMA_ARRIVE_RUNS", 32);

	for (unsigned seed = first; seed < first + runs; seed += 2) {
		unsigned seeds[2] = {seed, seed + 1};
		struct loop_net_child children[2];
		char names[2][32];

		for (unsigned i = 0; i < 2; i++) {
			snprintf(names[i], sizeof(names[i]), "seed %u", seeds[i]);
			children[i] = loop_net_fork(names[i], one_seed, &seeds[i], LIMIT);
		}
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(loop_net_join(&children[i]), 0);
	}
}

/* ---- a first thread that waits --------------------------------------------------------------- */

static struct duo duo;

static bool first_waits(int polls)
{
	const struct sock *sk = duo.end[1].ref.sk;

	if (polls)
		return __atomic_load_n(&sk->waiters, __ATOMIC_RELAXED);
	return sleep_place_used(&tsock_home(&duo.end[1])->sleepers);
}

/* Sends what the first thread waits for. */
static void *send_to_first(void *arg)
{
	const int *polls = arg;

	NET_CHECK(NET_WAIT(first_waits(*polls), NET_PATIENCE));
	duo_send(&duo, 0, 1);
	NET_CHECK(hold_single_left());
	return NULL;
}

/* polls: VMA_RX_POLL; it sleeps in the call, or spins there, while the second thread comes. */
static void wait_in_recv(int polls)
{
	uint8_t buf[2 * DUO_MESSAGE];
	pthread_t thread;

	duo_params(HOLD_SINGLE);
	params.rx_poll = polls;
	params.log_level = LOG_ERROR;
	loop_net_start();
	duo_open(&duo, DUO_UDP, NULL);
	tsock_block(&duo.end[1], true);
	NET_CHECK(!hold_single_left());
	NET_CHECK_EQ(pthread_create(&thread, NULL, send_to_first, &polls), 0);
	NET_CHECK_EQ(tsock_recv(&duo.end[1], buf, sizeof(buf), 0), DUO_MESSAGE);
	duo.got[0]++;
	pthread_join(thread, NULL);
	tsock_block(&duo.end[1], false);
	duo_talk(&duo, 20);
	duo_close(&duo);
	duo_end(NULL);
}

static void while_it_sleeps(void *arg)
{
	(void)arg;
	wait_in_recv(0);
}

static void while_it_spins(void *arg)
{
	(void)arg;
	wait_in_recv(-1);
}

static void test_a_first_thread_that_sleeps_holds_nobody_up(void **state)
{
	assert_int_equal(loop_net_run("sleeps", while_it_sleeps, NULL, LIMIT), 0);
}

static void test_a_first_thread_that_spins_holds_nobody_up(void **state)
{
	assert_int_equal(loop_net_run("spins", while_it_spins, NULL, LIMIT), 0);
}

static int enter(void **state)
{
	clock_init();
	loop_net_enter();
	return !hold_single_supported();
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_threads_arrive_at_random_moments),
	cmocka_unit_test(test_a_first_thread_that_sleeps_holds_nobody_up),
	cmocka_unit_test(test_a_first_thread_that_spins_holds_nobody_up),
};

VMA_TEST_MAIN("arrive", tests, enter, NULL)
