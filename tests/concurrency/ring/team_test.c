/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rings with two queues under threads: one sends at each port, one receives at each ring and
 * sleeps, one frees the packets, and one moves the flow from ring to ring.  Halfway a port is
 * lost.  The frames of each port arrive once and in order; those of the other port go on.
 */
#include "crew.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>

#include "base/mem.h"
#include "ring/loop/port_loop.h"
#include "ring/rings.h"
#include "ring/team/port_team.h"

#define STUCK 10000 /* ms */
#define TIME (3 * CREW_TIME)
#define AHEAD 256u /* frames of a port on their way */

/* One of the two rings, and its part in a move. */
struct side {
	struct flow flow;
	struct ring *ring;
	bool waits;		  /* holder: a stand-in, it keeps what arrives */
	struct pkt *first, **end; /* holder */
};

static struct port *port[2], *team;
static struct side sides[2];
static uint64_t sent[2], seen[2]; /* atomic; seen: the side that has the flow writes */
static uint64_t freed[2];	  /* atomic */
static struct pkt *to_free;	  /* atomic, linked by next */
static bool over;		  /* atomic */
static unsigned moves;

static uint64_t get(const uint64_t *n)
{
	return __atomic_load_n(n, __ATOMIC_ACQUIRE);
}

static bool is_over(void)
{
	return __atomic_load_n(&over, __ATOMIC_ACQUIRE);
}

/* The number tells the port by its lowest bit. */
static void take(struct pkt *pkt)
{
	uint64_t n;
	int i;

	memcpy(&n, pkt_payload(pkt), sizeof(n));
	i = n & 1;
	n >>= 1;
	/* What waits in a queue of a lost port is lost, too. */
	TEST_CHECK(n == get(&seen[i]) + 1 ||
		   (n > get(&seen[i]) && __atomic_load_n(&port[i]->lost, __ATOMIC_ACQUIRE)));
	__atomic_store_n(&seen[i], n, __ATOMIC_RELEASE);
	pkt->next = __atomic_load_n(&to_free, __ATOMIC_ACQUIRE);
	while (!__atomic_compare_exchange_n(&to_free, &pkt->next, pkt, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE))
		;
}

static enum drop deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct side *side = container_of(flow, struct side, flow);

	if (side->waits) {
		pkt->next = NULL;
		*side->end = pkt;
		side->end = &pkt->next;
	} else {
		take(pkt);
	}
	return DROP_NONE;
}

/* of_peer: a datagram's; else of all that come to the address. */
static struct flow_key key_of(bool of_peer)
{
	struct flow_key key = {.local = addr_v4(inet_addr("10.0.0.1")),
			       .local_port = htons(7),
			       .proto = IPPROTO_UDP};

	if (of_peer) {
		key.remote = addr_v4(inet_addr("10.0.0.9"));
		key.remote_port = htons(9);
	}
	return key;
}

static void send_one(int i, struct port_queue *q, const struct frame_template *tmpl)
{
	uint64_t n = get(&sent[i]) + 1, number = n << 1 | (unsigned)i;
	struct iovec iov = {&number, sizeof(number)};
	struct pkt *pkt = q->ops->tx_get(q);

	TEST_CHECK(pkt);
	pkt->frame_len = (uint32_t)frame_build_udp(tmpl, pkt->frame, &iov, 1, sizeof(number));
	__atomic_store_n(&sent[i], n, __ATOMIC_RELEASE);
	q->ops->tx_put(q, pkt);
	q->ops->tx_flush(q);
}

static void *send_at(void *arg)
{
	int i = (int)(intptr_t)arg;
	struct flow_key key = key_of(true);
	struct frame_params params = {.src_mac = port[i]->mac,
				      .dst_mac = port[i]->mac,
				      .src = {.addr = key.remote, .port = key.remote_port},
				      .dst = {.addr = key.local, .port = key.local_port},
				      .proto = IPPROTO_UDP,
				      .ttl = 64};
	struct frame_template tmpl;
	struct port_queue *q;
	char why[PORT_WHY];

	TEST_CHECK(!frame_template_init(&tmpl, &params));
	TEST_CHECK(!port[i]->ops->open_queue(port[i], &q, why));
	while (!is_over()) {
		if (get(&sent[i]) - get(&freed[i]) < AHEAD) /* so no queue runs out of frames */
			send_one(i, q, &tmpl);
		else
			sched_yield();
	}
	send_one(i, q, &tmpl); /* wakes a receiver, which sees that it is over */
	q->ops->close_queue(q);
	return NULL;
}

static void poll_ring(struct ring *ring)
{
	TEST_CHECK(ring_hold_cold(ring));
	ring_poll(ring);
	ring_release_cold(ring);
}

/* Sleeps whenever it can. */
static void *receive_at(void *arg)
{
	struct side *side = arg;

	while (!is_over()) {
		struct pollfd pfd = {.events = POLLIN};
		int fds[PORT_FDS_MAX];
		bool has_flow;

		TEST_CHECK(ring_hold_cold(side->ring));
		has_flow = side->flow.listed;
		ring_release_cold(side->ring);
		if (ring_arm_fds(side->ring)) {
			TEST_CHECK(ring_fds(side->ring, fds) == 1);
			pfd.fd = fds[0];
			/* Without the flow nothing comes until it moves here. */
			TEST_CHECK(poll(&pfd, 1, has_flow ? STUCK : 1) || !has_flow || is_over());
		}
		poll_ring(side->ring);
	}
	return NULL;
}

static void *free_all(void *arg)
{
	struct pkt *pkt = NULL, *next;

	while (!is_over() || pkt || __atomic_load_n(&to_free, __ATOMIC_ACQUIRE)) {
		pkt = __atomic_exchange_n(&to_free, NULL, __ATOMIC_ACQ_REL);
		for (; pkt; pkt = next) {
			uint64_t n;

			next = pkt->next;
			memcpy(&n, pkt_payload(pkt), sizeof(n));
			__atomic_fetch_add(&freed[n & 1], 1, __ATOMIC_ACQ_REL);
			pkt_free(pkt);
		}
		sched_yield();
	}
	return NULL;
}

/* See ring_flow_list(). */
static void move(struct side *from, struct side *to)
{
	TEST_CHECK(ring_hold_cold(to->ring));
	to->waits = true;
	to->first = NULL;
	to->end = &to->first;
	TEST_CHECK(!ring_flow_list(to->ring, &to->flow));
	ring_release_cold(to->ring);
	TEST_CHECK(ring_hold_cold(from->ring));
	TEST_CHECK(ring_flow_unsteer(from->ring, &from->flow) == 0);
	ring_release_cold(from->ring);
	TEST_CHECK(ring_hold_cold(to->ring));
	TEST_CHECK(ring_flow_steer(to->ring, &to->flow) == 0);
	ring_release_cold(to->ring);
	team->ops->barrier(team);
	TEST_CHECK(ring_hold_cold(from->ring));
	ring_drain(from->ring);
	ring_flow_del(from->ring, &from->flow);
	ring_release_cold(from->ring);
	TEST_CHECK(ring_hold_cold(to->ring));
	to->waits = false;
	for (struct pkt *pkt = to->first, *next; pkt; pkt = next) {
		next = pkt->next;
		take(pkt);
	}
	ring_release_cold(to->ring);
	moves++;
}

static void start(struct side *side)
{
	char why[PORT_WHY];
	struct port_queue *q;

	side->flow.key = key_of(false);
	side->flow.deliver = deliver;
	side->ring = mem_aligned(64, sizeof(*side->ring));
	TEST_CHECK(side->ring && !team->ops->open_queue(team, &q, why));
	ring_init(side->ring, q, (unsigned)(side - sides));
}

static void stop(struct side *side)
{
	TEST_CHECK(ring_hold_cold(side->ring));
	ring_flow_del(side->ring, &side->flow);
	ring_drain(side->ring);
	TEST_CHECK(side->ring->ops->idle(side->ring->q)); /* all packets are back */
	ring_close(side->ring);
	ring_release_cold(side->ring);
	mem_free(side->ring);
}

static void run(enum hold_mode mode)
{
	pthread_t threads[5];
	char why[PORT_WHY];
	uint64_t at_loss;
	nsec_t begin;

	clock_init();
	ring_mode = mode;
	rings_init(NULL);
	over = false;
	moves = 0;
	memset(sides, 0, sizeof(sides));
	memset(sent, 0, sizeof(sent));
	memset(seen, 0, sizeof(seen));
	memset(freed, 0, sizeof(freed));
	for (int i = 0; i < 2; i++)
		assert_int_equal(port_loop_open(1500, &port[i]), 0);
	assert_int_equal(port_team_open(port, 2, &team, why), 0);
	start(&sides[0]);
	start(&sides[1]);
	assert_true(ring_hold_cold(sides[0].ring));
	assert_int_equal(ring_flow_add(sides[0].ring, &sides[0].flow), 0);
	ring_release_cold(sides[0].ring);
	for (intptr_t i = 0; i < 2; i++) {
		pthread_create(&threads[i], NULL, send_at, (void *)i);
		pthread_create(&threads[2 + i], NULL, receive_at, &sides[i]);
	}
	pthread_create(&threads[4], NULL, free_all, NULL);
	begin = clock_now();
	for (unsigned n = 0; clock_now() - begin < TIME / 2 || get(&seen[1]) == 0; n++)
		move(&sides[n % 2], &sides[1 - n % 2]);
	assert_true(moves > 0);
	/* The flow is where the last move left it. */
	unsigned home = moves % 2;

	__atomic_store_n(&port[1]->lost, true, __ATOMIC_RELEASE);
	at_loss = get(&seen[0]);
	while (get(&seen[0]) < at_loss + 10 * AHEAD) {
		move(&sides[home], &sides[1 - home]);
		home = 1 - home;
	}
	__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	free_all(NULL); /* what was received last */
	stop(&sides[0]);
	stop(&sides[1]);
	team->ops->free_port(team);
}

static void test_frames_of_each_port_arrive_in_order_while_the_flow_moves(void **state)
{
	run(HOLD_SPIN);
}

static void test_the_same_with_a_mutex(void **state)
{
	run(HOLD_MUTEX);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_frames_of_each_port_arrive_in_order_while_the_flow_moves),
	cmocka_unit_test(test_the_same_with_a_mutex),
};

VMA_TEST_MAIN("team", tests, NULL, NULL)
