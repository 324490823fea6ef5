/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads sleep at one ring, each for its own frames. No thread stays blocked while it has
 * a frame, and a frame wakes two of the threads, not all.
 */
#include "crew.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/mem.h"
#include "base/param.h"
#include "ring/loop/port_loop.h"
#include "ring/rings.h"
#include "ring/sleep.h"

#define SLEEPERS 12
#define STUCK (60 * NSEC_PER_SEC) /* a sleep of this length has missed a wake-up */
#if defined(__SANITIZE_THREAD__)
#define FRAMES 4000
#else
#define FRAMES 20000
#endif

/* A thread, and the flow that it waits for. */
struct member {
	struct flow flow; /* first */
	struct sleep_place place;
	pthread_t thread;
	unsigned number;
	/* any, atomic */
	uint64_t got, taken;
	uint64_t wakes; /* returns of ppoll() */
	/* used by one thread */
	unsigned seed;
};

static struct ring *ring;
static struct port *port;
static struct member members[SLEEPERS];
static int over; /* any, atomic */

static enum drop deliver(struct ring *r, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct member *m = (struct member *)(void *)flow;

	pkt_free(pkt);
	__atomic_fetch_add(&m->got, 1, __ATOMIC_SEQ_CST);
	sleep_call(&m->place);
	return DROP_NONE;
}

static void hold(void)
{
	TEST_CHECK(ring_hold(ring, HOLD_YIELD));
}

static void release(void)
{
	ring_release(ring, HOLD_YIELD);
}

static int setup(void **state)
{
	struct port_queue *q;
	char why[PORT_WHY];

	clock_init();
	ring_mode = HOLD_YIELD;
	rings_init(NULL);
	assert_int_equal(port_loop_open(1500, &port), 0);
	assert_int_equal(port->ops->open_queue(port, &q, why), 0);
	ring = mem_aligned(64, sizeof(*ring));
	assert_non_null(ring);
	ring_init(ring, q, 0);
	memset(members, 0, sizeof(members));
	over = 0;
	for (unsigned i = 0; i < SLEEPERS; i++) {
		struct member *m = &members[i];

		m->number = i;
		m->seed = i + 1;
		sleep_place_init(&m->place, false);
		m->flow.key.local = addr_v4(inet_addr("10.0.0.1"));
		m->flow.key.local_port = htons((uint16_t)(100 + i));
		m->flow.key.proto = IPPROTO_UDP;
		m->flow.deliver = deliver;
		hold();
		assert_int_equal(ring_flow_add(ring, &m->flow), 0);
		release();
	}
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(sleep_place_used(&ring->sleepers), 0);
	assert_int_equal(ring->sleepers.awake, 0);
	hold();
	for (unsigned i = 0; i < SLEEPERS; i++)
		ring_flow_del(ring, &members[i].flow);
	ring_close(ring);
	release();
	port->ops->free_port(port);
	mem_free(ring);
	return 0;
}

static void send_to(const struct member *m)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	struct frame_params fp = {
		.src_mac = mac,
		.dst_mac = mac,
		.src = {.addr = addr_v4(inet_addr("10.0.0.9")), .port = htons(99)},
		.dst = {.addr = m->flow.key.local, .port = m->flow.key.local_port},
		.proto = IPPROTO_UDP,
		.ttl = 64,
	};
	struct iovec iov = {&fp, 8};
	struct frame_template t;
	struct pkt *pkt = NULL;

	TEST_CHECK(frame_template_init(&t, &fp) == 0);
	while (!pkt) {
		hold();
		pkt = ring_tx_get(ring);
		if (pkt) {
			pkt->frame_len = (uint32_t)frame_build_udp(&t, pkt->frame, &iov, 1, 8);
			TEST_CHECK(ring_tx_put(ring, pkt) == 0);
		}
		release();
	}
}

/* ---- as a blocking recv(), by turns of all kinds --------------------------------------- */

static bool has_some(const struct member *m)
{
	return __atomic_load_n(&m->got, __ATOMIC_SEQ_CST) != m->taken ||
	       __atomic_load_n(&over, __ATOMIC_SEQ_CST);
}

static void poll_ring(void)
{
	hold();
	ring_poll(ring);
	release();
}

struct nap {
	struct sleep sleep;
	struct sleeper own, at;
};

static void end_nap(void *nap)
{
	sleep_end(&((struct nap *)nap)->sleep);
}

/* 0, -EINTR, or 1: the time is over. */
static int nap_on(struct member *m, struct nap *nap, nsec_t deadline)
{
	struct pollfd fds[1 + PORT_FDS_MAX];
	int rc;

	for (;;) {
		unsigned n = 1;

		if (!sleep_listen(&nap->sleep) || has_some(m))
			return 0;
		if (nap->at.watch && !ring_arm_fds(ring)) {
			poll_ring();
			continue;
		}
		if (nap->at.watch) {
			int of_ring[PORT_FDS_MAX], k = ring_fds(ring, of_ring);

			while (k-- > 0)
				fds[n++] = (struct pollfd){.fd = of_ring[k], .events = POLLIN};
		}
		rc = sleep_now(&nap->sleep, fds, n, deadline, NULL);
		__atomic_fetch_add(&m->wakes, 1, __ATOMIC_SEQ_CST);
		if (rc < 0)
			return rc;
		if (rc > 0)
			poll_ring();
		if (clock_now() >= deadline)
			return 1;
	}
}

static int take_a_nap(struct member *m, nsec_t deadline)
{
	struct nap nap;
	int rc;

	sleep_begin(&nap.sleep);
	sleep_enter(&nap.sleep, &nap.own, &m->place, false);
	sleep_enter(&nap.sleep, &nap.at, &ring->sleepers, false);
	pthread_cleanup_push(end_nap, &nap);
	rc = nap_on(m, &nap, deadline);
	pthread_cleanup_pop(1);
	return rc;
}

static void *receive(void *arg)
{
	struct member *m = arg;

	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		nsec_t began = clock_now();

		if (!has_some(m))
			TEST_CHECK(take_a_nap(m, began + STUCK) <= 0);
		TEST_CHECK(clock_now() - began < STUCK);
		__atomic_store_n(&m->taken, __atomic_load_n(&m->got, __ATOMIC_SEQ_CST),
				 __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/* Enters, leaves after a short time, polls. */
static void *receive_restlessly(void *arg)
{
	struct member *m = arg;

	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		nsec_t patience = rand_r(&m->seed) % 400 * NSEC_PER_USEC;

		if (rand_r(&m->seed) % 8 == 0)
			poll_ring();
		if (!has_some(m))
			take_a_nap(m, clock_now() + patience);
		__atomic_store_n(&m->taken, __atomic_load_n(&m->got, __ATOMIC_SEQ_CST),
				 __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void start(struct member *m, void *(*fn)(void *))
{
	assert_int_equal(pthread_create(&m->thread, NULL, fn, m), 0);
}

static void stop(unsigned first, unsigned n)
{
	__atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
	for (unsigned i = first; i < first + n; i++) {
		sleep_call_all(&members[i].place);
		pthread_join(members[i].thread, NULL);
	}
}

static uint64_t taken(const struct member *m)
{
	return __atomic_load_n(&m->taken, __ATOMIC_SEQ_CST);
}

/* Only the sleepers receive the frames: a loss shows at once. */
static void wait_for_taken(const struct member *m, uint64_t sent)
{
	nsec_t began = clock_now();

	while (taken(m) < sent) {
		TEST_CHECK(clock_now() - began < STUCK);
		sched_yield();
	}
}

static void wait_until_all_block(unsigned n)
{
	struct sleep_place *place = &ring->sleepers;
	nsec_t began = clock_now();
	bool blocked = false;

	while (!blocked) {
		TEST_CHECK(clock_now() - began < STUCK);
		sched_yield();
		sleep_place_lock(place);
		blocked = place->sleepers == n && !place->awake;
		sleep_place_unlock(place);
	}
}

static uint64_t all_wakes(void)
{
	uint64_t wakes = 0;

	for (unsigned i = 0; i < SLEEPERS; i++)
		wakes += __atomic_load_n(&members[i].wakes, __ATOMIC_SEQ_CST);
	return wakes;
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void test_a_frame_wakes_two_not_all(void **state)
{
	uint64_t wakes, sent[SLEEPERS] = {0};
	unsigned seed = 4711;

	for (unsigned i = 0; i < SLEEPERS; i++)
		start(&members[i], receive);
	wait_until_all_block(SLEEPERS);
	wakes = all_wakes();
	for (unsigned n = 0; n < FRAMES / 4; n++) {
		unsigned to = (unsigned)rand_r(&seed) % SLEEPERS;

		send_to(&members[to]);
		wait_for_taken(&members[to], ++sent[to]);
		wait_until_all_block(SLEEPERS); /* as before */
		usleep(200);			/* the port notices it */
	}
	wakes = all_wakes() - wakes;
	stop(0, SLEEPERS);
	print_message("%d sleepers, %.2f wake-ups a frame\n", SLEEPERS, (double)wakes * 4 / FRAMES);
	assert_true(wakes <= FRAMES / 4 * 5 / 2);
}

static void test_no_thread_sleeps_through_a_frame(void **state)
{
	uint64_t sent[SLEEPERS] = {0};
	unsigned seed = 4711;

	for (unsigned i = 0; i < SLEEPERS; i++)
		start(&members[i], receive);
	for (unsigned n = 0; n < FRAMES; n++) {
		unsigned burst = 1 + (unsigned)rand_r(&seed) % 3, to = 0;

		for (unsigned b = 0; b < burst; b++) {
			to = (unsigned)rand_r(&seed) % SLEEPERS;
			send_to(&members[to]);
			sent[to]++;
		}
		wait_for_taken(&members[to], sent[to]);
	}
	for (unsigned i = 0; i < SLEEPERS; i++)
		wait_for_taken(&members[i], sent[i]);
	stop(0, SLEEPERS);
}

static void test_nor_while_others_come_and_go(void **state)
{
	uint64_t sent[SLEEPERS] = {0};
	unsigned seed = 4711, patient = SLEEPERS / 2;

	for (unsigned i = 0; i < SLEEPERS; i++)
		start(&members[i], i < patient ? receive : receive_restlessly);
	for (unsigned n = 0; n < FRAMES; n++) {
		unsigned to = (unsigned)rand_r(&seed) % patient;

		send_to(&members[to]);
		wait_for_taken(&members[to], ++sent[to]);
	}
	stop(0, SLEEPERS);
}

static void *receive_until_cancelled(void *arg)
{
	for (;;)
		take_a_nap(arg, NSEC_NEVER);
	return NULL;
}

static void test_nor_while_others_are_cancelled(void **state)
{
	uint64_t sent = 0;
	unsigned seed = 4711;

	start(&members[0], receive);
	for (unsigned n = 0; n < FRAMES / 20; n++) {
		struct member *m = &members[1 + n % (SLEEPERS - 1)];

		start(m, receive_until_cancelled);
		usleep((unsigned)rand_r(&seed) % 300);
		pthread_cancel(m->thread);
		send_to(&members[0]);
		wait_for_taken(&members[0], ++sent);
		pthread_join(m->thread, NULL);
	}
	stop(0, 1);
}

static uint64_t begun, ended, handled; /* any, atomic: rounds; handlers that have returned */

/* A slow handler: it waits until the frame that was sent with the signal has been taken. */
static void slow_handler(int sig)
{
	uint64_t round = __atomic_load_n(&begun, __ATOMIC_SEQ_CST);

	sleep_interrupted();
	/*
	 * A handler that interrupts the holder of a ring delays all others, so it returns at
	 * once.
	 */
	while (!hold_current && __atomic_load_n(&ended, __ATOMIC_SEQ_CST) < round)
		usleep(50);
	__atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static void test_nor_while_signal_handlers_run(void **state)
{
	struct sigaction action = {.sa_handler = slow_handler};
	uint64_t sent[SLEEPERS] = {0};
	unsigned seed = 4711;

	sigaction(SIGUSR1, &action, NULL);
	begun = ended = handled = 0;
	for (unsigned i = 0; i < SLEEPERS; i++)
		start(&members[i], receive);
	for (unsigned n = 1; n <= FRAMES / 50; n++) {
		unsigned to = (unsigned)rand_r(&seed) % SLEEPERS;

		wait_until_all_block(SLEEPERS);
		__atomic_store_n(&begun, n, __ATOMIC_SEQ_CST);
		/* All but one thread: the leader is most likely among them. */
		for (unsigned i = 0; i < SLEEPERS; i++) {
			if (i != to)
				pthread_kill(members[i].thread, SIGUSR1);
		}
		send_to(&members[to]);
		wait_for_taken(&members[to], ++sent[to]);
		__atomic_store_n(&ended, n, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) < n * (SLEEPERS - 1))
			sched_yield();
	}
	stop(0, SLEEPERS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_a_frame_wakes_two_not_all),	  TEST(test_no_thread_sleeps_through_a_frame),
	TEST(test_nor_while_others_come_and_go),  TEST(test_nor_while_others_are_cancelled),
	TEST(test_nor_while_signal_handlers_run),
};

VMA_TEST_MAIN("sleep, many threads", tests, NULL, NULL)
