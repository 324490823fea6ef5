/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/progress.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/param.h"
#include "ring/loop/port_loop.h"
#include "ring/rings.h"
#include "vma_test.h"

#define IFINDEX 4711		 /* an interface that no test uses */
#define LATE (5 * NSEC_PER_SEC)	 /* no stop of the machine is as long */
#define LOST (60 * NSEC_PER_SEC) /* what a lost wake-up costs: progress_sleep_max */
#define DEADLINE (20 * NSEC_PER_SEC)
#define ASLEEP (150 * NSEC_PER_MSEC) /* by then it is in a long sleep */

static struct ring *ring; /* loop-back */

static const struct port_kind *const kinds[] = {&port_loop_kind, NULL};

static void start(enum hold_mode mode)
{
	char why[PORT_WHY];
	bool fresh;

	ring_mode = mode;
	rings_init(kinds);
	progress_sleep_max = LOST;
	assert_int_equal(rings_get(IFINDEX, 0, &ring, why, &fresh), 0);
	assert_int_equal(progress_start(), 0);
	assert_true(progress_running());
}

static int setup(void **state)
{
	clock_init();
	start(HOLD_SPIN);
	return 0;
}

static int setup_single(void **state)
{
	clock_init();
	if (!hold_single_supported())
		return -1;
	start(HOLD_SINGLE);
	return 0;
}

static int teardown(void **state)
{
	progress_stop();
	progress_set_hook(NULL);
	assert_false(progress_running());
	rings_close_all();
	flow_table_fini(&ring->flows);
	rings_forget(false);
	mem_free(ring); /* rings are permanent, but not in this test */
	return 0;
}

static void nap(nsec_t time)
{
	struct timespec ts = {time / NSEC_PER_SEC, time % NSEC_PER_SEC};

	nanosleep(&ts, NULL);
}

/* ---- timers ------------------------------------------------------------------------- */

static struct {
	struct timer timer;
	nsec_t late; /* holder: time of the last call */
	int fired;   /* any, atomic */
} alarm_;

static void fire(struct timer *timer, nsec_t now)
{
	alarm_.late = clock_now() - alarm_.late;
	__atomic_fetch_add(&alarm_.fired, 1, __ATOMIC_RELEASE);
}

/* Arms a timer without polling, as a send does; the internal thread must run it. */
static nsec_t lateness(nsec_t delay)
{
	nsec_t begin = clock_now();

	timer_init(&alarm_.timer, fire);
	__atomic_store_n(&alarm_.fired, 0, __ATOMIC_RELAXED);
	assert_true(ring_hold(ring, ring_mode));
	alarm_.late = begin + delay;
	ring_arm(ring, &alarm_.timer, begin + delay);
	ring_release(ring, ring_mode);
	while (!__atomic_load_n(&alarm_.fired, __ATOMIC_ACQUIRE)) {
		assert_true(clock_now() < begin + DEADLINE);
		nap(NSEC_PER_MSEC);
	}
	return alarm_.late;
}

static void test_a_timer_of_an_unpolled_ring_runs(void **state)
{
	assert_in_range(lateness(3 * NSEC_PER_MSEC), 0, LATE);
}

static void test_a_timer_armed_while_it_sleeps_for_long_runs_in_time(void **state)
{
	for (int i = 0; i < 3; i++) {
		nap(ASLEEP);
		assert_in_range(lateness(5 * NSEC_PER_MSEC), 0, LATE);
	}
}

/* At each step on the way to sleep: the rounds before that take about 30 ms. */
static void test_no_timer_is_missed_on_its_way_to_sleep(void **state)
{
	nsec_t end = clock_now() + 4 * NSEC_PER_SEC;
	unsigned seed = (unsigned)end;

	print_message("seed %u\n", seed);
	while (clock_now() < end) {
		nap(20 * NSEC_PER_MSEC + rand_r(&seed) % (30 * NSEC_PER_MSEC));
		assert_in_range(lateness(NSEC_PER_MSEC), 0, LATE);
	}
}

/* A thread that arms a timer is seen without a poll: see sleep_long(). */
static void test_arming_leaves_a_trace(void **state)
{
	uint32_t arms;

	assert_true(ring_hold(ring, ring_mode));
	timer_init(&alarm_.timer, fire);
	arms = ring->arms;
	ring_arm(ring, &alarm_.timer, clock_now() + DEADLINE);
	assert_int_equal(ring->arms, arms + 1);
	wheel_cancel(&ring->wheel, &alarm_.timer);
	ring_release(ring, ring_mode);
}

/* ---- frames --------------------------------------------------------------------------- */

static struct {
	struct flow flow;
	int got; /* any, atomic */
} listener;

static enum drop deliver(struct ring *r, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	pkt_free(pkt);
	__atomic_fetch_add(&listener.got, 1, __ATOMIC_RELEASE);
	return DROP_NONE;
}

static void listen_on(const char *local, uint16_t port)
{
	memset(&listener, 0, sizeof(listener));
	listener.flow.key.local = addr_v4(inet_addr(local));
	listener.flow.key.local_port = htons(port);
	listener.flow.key.proto = IPPROTO_UDP;
	listener.flow.deliver = deliver;
	assert_true(ring_hold(ring, ring_mode));
	assert_int_equal(ring_flow_add(ring, &listener.flow), 0);
	ring_release(ring, ring_mode);
}

static void send_one(void)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	struct frame_params params_ = {
		.src_mac = mac,
		.dst_mac = mac,
		.src = {.addr = addr_v4(inet_addr("10.0.0.9")), .port = htons(99)},
		.dst = {.addr = listener.flow.key.local, .port = listener.flow.key.local_port},
		.proto = IPPROTO_UDP,
		.ttl = 64,
	};
	struct iovec iov = {&params_, 8};
	struct frame_template t;
	struct pkt *pkt;

	assert_int_equal(frame_template_init(&t, &params_), 0);
	assert_true(ring_hold(ring, ring_mode));
	pkt = ring_tx_get(ring);
	assert_non_null(pkt);
	pkt->frame_len = (uint32_t)frame_build_udp(&t, pkt->frame, &iov, 1, 8);
	assert_int_equal(ring_tx_put(ring, pkt), 0);
	ring_release(ring, ring_mode);
}

static void test_a_frame_for_an_unpolled_ring_is_delivered(void **state)
{
	listen_on("10.0.0.1", 7);
	for (int i = 1; i <= 3; i++) {
		nsec_t begin;

		nap(i > 1 ? ASLEEP : 0);
		begin = clock_now();
		send_one();
		while (__atomic_load_n(&listener.got, __ATOMIC_ACQUIRE) < i) {
			assert_true(clock_now() < begin + LATE);
			nap(NSEC_PER_MSEC);
		}
	}
	assert_true(ring_hold(ring, ring_mode));
	ring_flow_del(ring, &listener.flow);
	ring_release(ring, ring_mode);
}

/* ---- parameters of it ------------------------------------------------------------------- */

/* With these parameters: while the thread runs, nobody writes them. */
static void restart(int interval, bool arm)
{
	progress_stop();
	params.progress_interval = interval;
	params.internal_thread_arm_cq = arm;
	assert_int_equal(progress_start(), 0);
}

static void stop_listening(void)
{
	assert_true(ring_hold(ring, ring_mode));
	ring_flow_del(ring, &listener.flow);
	ring_release(ring, ring_mode);
}

/* Waits for a frame; returns how long it took. */
static nsec_t time_of_a_frame(void)
{
	int got = __atomic_load_n(&listener.got, __ATOMIC_ACQUIRE);
	nsec_t begin = clock_now();

	send_one();
	while (__atomic_load_n(&listener.got, __ATOMIC_ACQUIRE) == got) {
		assert_true(clock_now() < begin + DEADLINE);
		nap(300 * NSEC_PER_USEC);
	}
	return clock_now() - begin;
}

/*
 * A thread of the program that polls all the time, and takes no frame: at each of its steps the
 * internal thread finds that the ring was polled.
 */
static struct {
	int fd;	   /* readable; -1: nobody polls */
	int steps; /* any, atomic */
} other = {.fd = -1};

static void poll_as_another_thread(void)
{
	__atomic_fetch_add(&ring->polls, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&other.steps, 1, __ATOMIC_RELEASE);
}

static void wait_for_steps(int n)
{
	int end = __atomic_load_n(&other.steps, __ATOMIC_ACQUIRE) + n;
	nsec_t begin = clock_now();

	while (__atomic_load_n(&other.steps, __ATOMIC_ACQUIRE) < end) {
		assert_true(clock_now() < begin + DEADLINE);
		nap(NSEC_PER_MSEC);
	}
}

static void other_begins(void)
{
	other.fd = eventfd(1, EFD_CLOEXEC);
	assert_true(other.fd >= 0);
	progress_watch(other.fd, poll_as_another_thread); /* which wakes the thread */
	wait_for_steps(1);
}

static void other_ends(void)
{
	progress_stop();
	progress_watch(-1, poll_as_another_thread);
	close(other.fd);
	assert_int_equal(progress_start(), 0);
}

static void test_a_frame_wakes_it_when_nobody_polls_any_more(void **state)
{
	int interval = params.progress_interval;

	listen_on("10.0.0.1", 7);
	restart(10000, false);
	for (int i = 0; i < 5; i++) {
		assert_true(ring_hold(ring, ring_mode));
		ring_poll(ring);
		ring_release(ring, ring_mode);
		progress_kick(); /* it sees that; no other round until the frame */
		nap(i * 20 * NSEC_PER_MSEC);
		assert_in_range(time_of_a_frame(), 0, LATE);
	}
	restart(interval, false);
	stop_listening();
}

static void test_vma_internal_thread_arm_cq(void **state)
{
	int interval = params.progress_interval;

	listen_on("10.0.0.1", 7);
	restart(interval, false);
	other_begins();
	send_one();
	wait_for_steps(1000);
	assert_int_equal(__atomic_load_n(&listener.got, __ATOMIC_ACQUIRE), 0);
	restart(interval, true);
	time_of_a_frame();
	other_ends();
	restart(interval, false);
	stop_listening();
}

static int rounds; /* any, atomic */

static bool count_rounds(void)
{
	__atomic_fetch_add(&rounds, 1, __ATOMIC_RELEASE);
	return false;
}

/*
 * A frame waits for a thread that polls.  If it woke this thread each time, every round would
 * have two steps: it blocks, and looks again some time later.
 */
static void test_frames_that_another_thread_takes_do_not_wake_it(void **state)
{
	int steps;

	listen_on("10.0.0.1", 7);
	progress_stop();
	progress_set_hook(count_rounds);
	assert_int_equal(progress_start(), 0);
	other_begins();
	send_one();
	wait_for_steps(200);
	__atomic_store_n(&rounds, 0, __ATOMIC_RELAXED);
	steps = __atomic_load_n(&other.steps, __ATOMIC_ACQUIRE);
	wait_for_steps(1000);
	steps = __atomic_load_n(&other.steps, __ATOMIC_ACQUIRE) - steps;
	assert_in_range(__atomic_load_n(&rounds, __ATOMIC_ACQUIRE), steps * 3 / 4, steps * 2);
	assert_int_equal(__atomic_load_n(&listener.got, __ATOMIC_ACQUIRE), 0);
	other_ends();
	stop_listening();
}

static void test_vma_progress_engine_interval(void **state)
{
	int interval = params.progress_interval;
	nsec_t begin;

	listen_on("10.0.0.1", 7);
	restart(0, false);
	begin = clock_now();
	send_one();
	nap(ASLEEP);
	assert_int_equal(__atomic_load_n(&listener.got, __ATOMIC_ACQUIRE), 0);
	restart(interval, false);
	while (!__atomic_load_n(&listener.got, __ATOMIC_ACQUIRE)) {
		assert_true(clock_now() < begin + DEADLINE);
		nap(NSEC_PER_MSEC);
	}
	assert_true(ring_hold(ring, ring_mode));
	ring_flow_del(ring, &listener.flow);
	ring_release(ring, ring_mode);
}

#define MANY 40

static int most;  /* internal: frames between two rounds */
static int until; /* internal: frames at the last round */

static bool count_frames(void)
{
	int got = __atomic_load_n(&listener.got, __ATOMIC_ACQUIRE);

	if (got - until > most)
		most = got - until;
	until = got;
	return false;
}

/* The most frames that it takes at one visit, of many that wait. */
static int frames_of_a_visit(int max)
{
	int got = __atomic_load_n(&listener.got, __ATOMIC_ACQUIRE);
	nsec_t begin = clock_now();

	progress_stop();
	for (int i = 0; i < MANY; i++)
		send_one();
	params.progress_wce_max = max;
	most = 0;
	until = got;
	progress_set_hook(count_frames);
	assert_int_equal(progress_start(), 0);
	while (__atomic_load_n(&listener.got, __ATOMIC_ACQUIRE) < got + MANY) {
		assert_true(clock_now() < begin + DEADLINE);
		nap(NSEC_PER_MSEC);
	}
	progress_stop(); /* after the hook of the last visit */
	progress_set_hook(NULL);
	return most;
}

static void test_vma_progress_engine_wce_max(void **state)
{
	int batch = params.cq_poll_batch_max, max = params.progress_wce_max;

	listen_on("10.0.0.1", 7);
	params.cq_poll_batch_max = 1;
	assert_int_equal(frames_of_a_visit(5), 5);
	assert_int_equal(frames_of_a_visit(max), MANY);
	params.cq_poll_batch_max = batch;
	params.progress_wce_max = max;
	assert_int_equal(progress_start(), 0);
	assert_true(ring_hold(ring, ring_mode));
	ring_flow_del(ring, &listener.flow);
	ring_release(ring, ring_mode);
}

/* ---- other ---------------------------------------------------------------------------- */

static bool internal_is_known;

static bool hook(void)
{
	assert_null(hold_current);
	internal_is_known = ring_thread.internal;
	return count_rounds();
}

/* poll(2) refuses more descriptors than RLIMIT_NOFILE, which counts for new ones only. */
static void test_a_low_limit_of_descriptors_does_not_stop_it(void **state)
{
	struct rlimit was, low;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	low = (struct rlimit){1, was.rlim_max};
	listen_on("10.0.0.1", 7);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	time_of_a_frame();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	other_begins();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	wait_for_steps(10);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	other_ends();
	stop_listening();
}

static void test_the_hook_runs_on_the_internal_thread_without_a_ring(void **state)
{
	nsec_t begin = clock_now();

	progress_stop();
	rounds = 0;
	progress_set_hook(hook);
	assert_int_equal(progress_start(), 0);
	while (__atomic_load_n(&rounds, __ATOMIC_ACQUIRE) < 3) {
		assert_true(clock_now() < begin + DEADLINE);
		nap(NSEC_PER_MSEC);
	}
	assert_true(internal_is_known);
	assert_false(ring_thread.internal); /* of this thread */
}

static void test_it_sleeps_when_nothing_moves(void **state)
{
	int before;

	progress_stop();
	rounds = 0;
	progress_set_hook(hook);
	assert_int_equal(progress_start(), 0);
	nap(ASLEEP);
	before = __atomic_load_n(&rounds, __ATOMIC_ACQUIRE);
	nap(NSEC_PER_SEC);
	/* With 10 ms per round there would be a hundred. */
	assert_in_range(__atomic_load_n(&rounds, __ATOMIC_ACQUIRE) - before, 0, 20);
}

static void test_a_ring_that_is_held_does_not_stop_it(void **state)
{
	assert_true(ring_hold(ring, ring_mode));
	nap(50 * NSEC_PER_MSEC);
	progress_stop(); /* joins the thread: it does not wait for the test */
	ring_release(ring, ring_mode);
	assert_false(progress_running());
}

static void test_it_can_be_stopped_and_started_at_any_time(void **state)
{
	for (int i = 0; i < 20; i++) {
		nsec_t begin = clock_now();

		nap(i % 5 * 10 * NSEC_PER_MSEC);
		progress_stop();
		assert_true(clock_now() - begin < LATE);
		progress_stop(); /* harmless */
		assert_int_equal(progress_start(), 0);
		assert_int_equal(progress_start(), 0); /* one call is sufficient */
	}
	assert_in_range(lateness(NSEC_PER_MSEC), 0, LATE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_SINGLE(name)                                            \
	{                                                            \
		"single: " #name, name, setup_single, teardown, NULL \
	}

static const struct CMUnitTest tests[] = {
	TEST(test_a_timer_of_an_unpolled_ring_runs),
	TEST(test_a_timer_armed_while_it_sleeps_for_long_runs_in_time),
	TEST(test_no_timer_is_missed_on_its_way_to_sleep),
	TEST(test_arming_leaves_a_trace),
	TEST(test_a_frame_for_an_unpolled_ring_is_delivered),
	TEST(test_a_frame_wakes_it_when_nobody_polls_any_more),
	TEST(test_vma_internal_thread_arm_cq),
	TEST(test_frames_that_another_thread_takes_do_not_wake_it),
	TEST(test_vma_progress_engine_interval),
	TEST(test_vma_progress_engine_wce_max),
	TEST(test_a_low_limit_of_descriptors_does_not_stop_it),
	TEST(test_the_hook_runs_on_the_internal_thread_without_a_ring),
	TEST(test_it_sleeps_when_nothing_moves),
	TEST(test_a_ring_that_is_held_does_not_stop_it),
	TEST(test_it_can_be_stopped_and_started_at_any_time),
	TEST_SINGLE(test_a_timer_armed_while_it_sleeps_for_long_runs_in_time),
	TEST_SINGLE(test_a_frame_for_an_unpolled_ring_is_delivered),
	TEST_SINGLE(test_a_frame_wakes_it_when_nobody_polls_any_more),
	TEST_SINGLE(test_a_ring_that_is_held_does_not_stop_it),
};

VMA_TEST_MAIN("progress", tests, NULL, NULL)
