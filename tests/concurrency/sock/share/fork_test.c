/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork(2) at any moment. The parent continues as if nothing had happened; the child can close
 * what it inherited, create sockets, and exit.
 */
#include "tests/concurrency/sock/duo.h"
#include "tests/concurrency/sock/traffic.h"
#include "vma_test.h"

#include <linux/capability.h>
#include <sys/wait.h>

#define CHILD_SECONDS 60
#define FORKS 20
#define THREADS 3

static void run(const char *name, void (*fn)(void *arg), void *arg)
{
	assert_int_equal(loop_net_run(name, fn, arg, 60), 0);
}

/*
 * Without raw sockets the kernel cannot take over unread datagrams at a fork. Connected
 * datagram sockets then stay accelerated, and these tests find them.
 */
static void give_up_raw_sockets(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	NET_CHECK_EQ(sys_call(SYS_capget, &head, data, 0, 0, 0, 0), 0);
	data[0].effective &= ~(1u << CAP_NET_RAW);
	data[0].permitted &= ~(1u << CAP_NET_RAW);
	NET_CHECK_EQ(sys_call(SYS_capset, &head, data, 0, 0, 0, 0), 0);
}

/* ---- the child ---------------------------------------------------------------------------- */

static void use_new_sockets(void)
{
	struct tsock listener = duo_listener(0);
	struct duo duo;

	for (enum duo_kind kind = 0; kind < DUO_KINDS; kind++) {
		duo_open(&duo, kind, &listener);
		duo_talk(&duo, 5);
		duo_move(&duo.end[1], 1);
		duo_talk(&duo, 5);
		duo_close(&duo);
	}
	tsock_close(&listener);
}

static void be_child(unsigned how)
{
	alarm(CHILD_SECONDS * NET_SLOW);
	if (how & 1)
		loop_net_close_inherited();
	if (how & 2) {
		/* No migration: a test requests each move. */
		params.ring_logic_rx = params.ring_logic_tx = RING_LOGIC_SOCKET;
		use_new_sockets();
		/*
		 * Otherwise this process would receive for sockets that the parent closes
		 * meanwhile.
		 */
		loop_net_close_inherited();
		loop_net_finish();
	}
	_exit(0); /* the memory of the parent's threads has no owner here */
}

static int start_child(unsigned how)
{
	int pid = fork();

	NET_CHECK(pid >= 0);
	if (!pid)
		be_child(how);
	return pid;
}

static void join_child(int pid)
{
	int status;

	NET_CHECK_EQ(waitpid(pid, &status, 0), pid);
	NET_CHECK_EQ(status, 0);
}

/* ---- in the middle of a move ---------------------------------------------------------------- */

static void fork_in_a_move(void *arg)
{
	struct tsock listener;
	struct duo duo;

	give_up_raw_sockets();
	duo_begin();
	loop_net_follow_forks();
	listener = duo_listener(7000);
	duo_open(&duo, *(const enum duo_kind *)arg, &listener);
	duo_send(&duo, 0, 10);
	duo_begin_move(&duo.end[1], 1);
	duo_send(&duo, 0, 10);
	for (unsigned how = 0; how < 4; how++)
		join_child(start_child(how));
	duo_send(&duo, 0, 10);
	loop_port_gate(false);
	duo_drain(&duo, 0);
	NET_CHECK(duo_arrives(&duo.end[1], 1));
	duo_talk(&duo, 10);
	duo_expect_moves(1, 1, 0);
	duo_close(&duo);
	duo_end(&listener);
}

static void test_in_the_middle_of_a_move(void **state)
{
	for (enum duo_kind kind = 0; kind < DUO_KINDS; kind++)
		run("in a move", fork_in_a_move, &kind);
}

/* ---- in the middle of everything --------------------------------------------------------------- */

static struct traffic traffic;
static int over; /* any, atomic */

static void *work(void *arg)
{
	struct worker *worker = arg;

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
		traffic_act(worker);
	return NULL;
}

/* It forks between its own calls; in mode 0 the program has no other thread. */
static void fork_and_act(struct worker *worker)
{
	int running[2] = {0};

	for (unsigned i = 0; i < FORKS; i++) {
		int *child = &running[i % 2];

		if (*child)
			join_child(*child);
		*child = start_child(worker_random(worker, 4));
		for (unsigned n = worker_random(worker, 20); n; n--)
			traffic_act(worker);
	}
	for (unsigned i = 0; i < 2; i++)
		join_child(running[i]);
}

static void fork_under_traffic(void *arg)
{
	struct worker workers[THREADS], own = {&traffic, 12345};
	pthread_t thread[THREADS];
	unsigned threads;

	give_up_raw_sockets();
	duo_params(*(const int *)arg);
	threads = params.thread_mode == HOLD_SINGLE ? 0 : THREADS;
	params.ring_logic_rx = params.ring_logic_tx = RING_LOGIC_THREAD;
	loop_port_mtu = 300;
	loop_net_start();
	loop_net_follow_forks();
	traffic_init(&traffic, 8, 7, true);
	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){&traffic, 777 + i * 7919};
		NET_CHECK_EQ(pthread_create(&thread[i], NULL, work, &workers[i]), 0);
	}
	fork_and_act(&own);
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	traffic_end(&own);
	loop_net_settle();
	traffic_show(&traffic, "with forks");
	loop_net_finish();
}

static void test_in_the_middle_of_everything(void **state)
{
	for (int mode = 0; mode < HOLD_MODES; mode++)
		run("under traffic", fork_under_traffic, &mode);
}

static int enter(void **state)
{
	loop_net_enter();
	return 0;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_in_the_middle_of_a_move),
	cmocka_unit_test(test_in_the_middle_of_everything),
};

VMA_TEST_MAIN("fork", tests, enter, NULL)
