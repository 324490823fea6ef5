/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ring.h"

#include <pthread.h>

#include "base/mem.h"
#include "base/param.h"
#include "fake_port.h"
#include "ring/rings.h"

static const uint8_t mac[6] = {2, 1, 2, 3, 4, 5};

struct fixture {
	struct ring ring; /* first */
	struct fake_queue queue;
	struct port port;
};

static int setup(void **state)
{
	struct fixture *f = mem_aligned(64, sizeof(*f));

	assert_non_null(f);
	memset(f, 0, sizeof(*f));
	clock_init();
	ring_mode = HOLD_SPIN;
	rings_init(NULL);
	f->port = (struct port){.ops = &fake_ops, .mtu = 1500};
	fake_init(&f->queue, &f->port);
	ring_init(&f->ring, &f->queue.base, 0);
	*state = f;
	return 0;
}

/* Every test ends with all packets returned and no work left. */
static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_null(hold_current);
	assert_int_equal(ring_thread.posted, 0);
	assert_true(inbox_empty(&f->ring.inbox));
	assert_true(list_empty(&f->ring.work));
	adj_table_fini(&f->ring.adjs);
	flow_table_fini(&f->ring.flows);
	assert_int_equal(fake_missing(&f->queue), 0);
	mem_free(f);
	return 0;
}

static void hold(struct ring *ring)
{
	assert_true(ring_hold(ring, ring_mode));
}

static void release(struct ring *ring)
{
	ring_release(ring, ring_mode);
}

/* ---- work ------------------------------------------------------------------------------ */

struct counted {
	struct ring_work work; /* first */
	unsigned runs;
	bool again; /* the work asks for the next poll, unless the ring settles */
};

static void count_run(struct ring *ring, struct ring_work *work, nsec_t now)
{
	struct counted *c = (struct counted *)work;

	c->runs++;
	if (c->again && !ring->settling)
		ring_work_later(ring, work);
}

static void test_work_for_later_runs_at_each_poll_and_when_the_ring_settles(void **state)
{
	struct fixture *f = *state;
	struct counted c = {.work.run = count_run, .again = true};

	list_init(&c.work.link);
	hold(&f->ring);
	ring_work_add(&f->ring, &c.work);
	ring_work_add(&f->ring, &c.work);
	release(&f->ring);
	assert_int_equal(c.runs, 1);
	assert_false(ring_settled(&f->ring));
	hold(&f->ring);
	release(&f->ring);
	assert_int_equal(c.runs, 1); /* holding a ring is not a poll */
	hold(&f->ring);
	ring_poll(&f->ring);
	assert_int_equal(c.runs, 2);
	ring_settle(&f->ring);
	assert_int_equal(c.runs, 3);
	assert_true(ring_settled(&f->ring));
	ring_poll(&f->ring);
	release(&f->ring);
	assert_int_equal(c.runs, 3);
}

static void test_a_ring_without_late_work_is_settled(void **state)
{
	struct fixture *f = *state;
	struct counted c = {.work.run = count_run};

	list_init(&c.work.link);
	hold(&f->ring);
	ring_work_later(&f->ring, &c.work);
	list_remove(&c.work.link); /* as an ending connection does */
	assert_false(ring_settled(&f->ring));
	ring_settle(&f->ring);
	assert_true(ring_settled(&f->ring));
	release(&f->ring);
	assert_int_equal(c.runs, 0);
}

static void test_work_for_later_that_is_due_runs_with_this_hold(void **state)
{
	struct fixture *f = *state;
	struct counted c = {.work.run = count_run};

	list_init(&c.work.link);
	hold(&f->ring);
	ring_work_later(&f->ring, &c.work);
	ring_work_add(&f->ring, &c.work);
	release(&f->ring);
	assert_int_equal(c.runs, 1);
	hold(&f->ring);
	ring_poll(&f->ring);
	release(&f->ring);
	assert_int_equal(c.runs, 1);
}

/* ---- steering: what the ring tells the port -------------------------------------------- */

static struct flow *flow_of(struct flow *flow, struct flow_key key)
{
	*flow = (struct flow){.key = key};
	return flow;
}

static void add(struct fixture *f, struct flow *flow, struct flow_key key)
{
	assert_int_equal(ring_flow_add(&f->ring, flow_of(flow, key)), 0);
}

static void test_a_flow_is_steered_while_it_is_there(void **state)
{
	struct fixture *f = *state;
	struct flow flow;

	hold(&f->ring);
	add(f, &flow, key3("10.0.0.1", 7));
	assert_true(fake_steers(&f->queue, &flow.key));
	ring_flow_del(&f->ring, &flow);
	assert_int_equal(f->queue.n_flows, 0);
	ring_flow_del(&f->ring, &flow); /* harmless */
	release(&f->ring);
}

static void test_connections_of_a_listener_cost_the_port_nothing(void **state)
{
	struct fixture *f = *state;
	struct flow listener, children[50];

	hold(&f->ring);
	add(f, &listener, key3("10.0.0.1", 7));
	for (int i = 0; i < 50; i++)
		add(f, &children[i], key5("10.0.0.1", 7, "10.0.0.9", (uint16_t)(100 + i)));
	assert_int_equal(f->queue.added, 1);
	for (int i = 0; i < 50; i++)
		ring_flow_del(&f->ring, &children[i]);
	assert_int_equal(f->queue.added, 1);
	assert_int_equal(f->queue.deleted, 0);
	ring_flow_del(&f->ring, &listener);
	assert_int_equal(f->queue.n_flows, 0);
	release(&f->ring);
}

static void test_connections_outlive_their_listener(void **state)
{
	struct fixture *f = *state;
	struct flow listener, other, children[3];

	hold(&f->ring);
	add(f, &listener, key3("10.0.0.1", 7));
	add(f, &other, key3("10.0.0.1", 8));
	for (int i = 0; i < 3; i++)
		add(f, &children[i], key5("10.0.0.1", 7, "10.0.0.9", (uint16_t)(100 + i)));
	ring_flow_del(&f->ring, &children[0]);
	ring_flow_del(&f->ring, &listener);
	assert_false(fake_steers(&f->queue, &listener.key));
	assert_false(fake_steers(&f->queue, &children[0].key));
	for (int i = 1; i < 3; i++) {
		assert_true(fake_steers(&f->queue, &children[i].key));
		ring_flow_del(&f->ring, &children[i]);
	}
	ring_flow_del(&f->ring, &other);
	assert_int_equal(f->queue.n_flows, 0);
	release(&f->ring);
}

/* The ring adds the narrow flows before it removes the wide one: no frame is lost in between. */
static void test_a_connection_older_than_the_listener_stays_steered(void **state)
{
	struct fixture *f = *state;
	struct flow connection, listener;

	hold(&f->ring);
	add(f, &connection, key5("10.0.0.1", 7, "10.0.0.9", 99));
	add(f, &listener, key3("10.0.0.1", 7));
	assert_int_equal(f->queue.n_flows, 2);
	ring_flow_del(&f->ring, &listener);
	assert_true(fake_steers(&f->queue, &connection.key));
	ring_flow_del(&f->ring, &connection);
	assert_int_equal(f->queue.n_flows, 0);
	release(&f->ring);
}

static void test_flows_of_one_key_are_steered_once_until_the_last_goes(void **state)
{
	struct fixture *f = *state;
	struct flow members[4];
	const int order[4] = {1, 0, 3, 2};

	hold(&f->ring);
	for (int i = 0; i < 4; i++)
		add(f, &members[i], key3("239.1.1.1", 7));
	assert_int_equal(f->queue.added, 1);
	for (int i = 0; i < 4; i++) {
		assert_true(fake_steers(&f->queue, &members[0].key));
		ring_flow_del(&f->ring, &members[order[i]]);
	}
	assert_int_equal(f->queue.n_flows, 0);
	assert_int_equal(f->queue.added, 1);
	assert_int_equal(f->queue.deleted, 1);
	release(&f->ring);
}

static void test_the_next_flow_of_a_listener_covers_its_connections(void **state)
{
	struct fixture *f = *state;
	struct flow first, second, child;

	hold(&f->ring);
	add(f, &first, key3("10.0.0.1", 7));
	add(f, &second, key3("10.0.0.1", 7));
	add(f, &child, key5("10.0.0.1", 7, "10.0.0.9", 99));
	ring_flow_del(&f->ring, &first);
	assert_int_equal(f->queue.added, 1);
	ring_flow_del(&f->ring, &second);
	assert_true(fake_steers(&f->queue, &child.key));
	ring_flow_del(&f->ring, &child);
	assert_int_equal(f->queue.n_flows, 0);
	release(&f->ring);
}

static void test_a_flow_the_port_refuses_is_not_there(void **state)
{
	struct fixture *f = *state;
	struct flow flow;

	hold(&f->ring);
	f->queue.add_error = -ENOSPC;
	assert_int_equal(ring_flow_add(&f->ring, flow_of(&flow, key3("10.0.0.1", 7))), -ENOSPC);
	assert_null(flow_lookup(&f->ring.flows, &flow.key));
	ring_flow_del(&f->ring, &flow);
	add(f, &flow, key3("10.0.0.1", 7)); /* the next time */
	ring_flow_del(&f->ring, &flow);
	release(&f->ring);
}

/* ---- receiving -------------------------------------------------------------------------- */

struct receiver {
	struct flow flow; /* first */
	enum drop answer; /* DROP_NONE: consumes the packet */
	unsigned got;
	struct pkt *kept; /* the last packet, not freed */
	struct ring_work work;
	unsigned worked;
	unsigned got_when_worked;
	struct receiver *next_work; /* the work itself asks for it */
};

static enum drop deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct receiver *r = container_of(flow, struct receiver, flow);

	ring_assert_held(ring);
	assert_true(now == ring->now);
	r->got++;
	if (r->answer)
		return r->answer;
	ring_work_add(ring, &r->work);
	if (r->kept)
		pkt_free(r->kept);
	r->kept = pkt;
	return DROP_NONE;
}

static void work(struct ring *ring, struct ring_work *work, nsec_t now)
{
	struct receiver *r = container_of(work, struct receiver, work);

	ring_assert_held(ring);
	assert_true(now == ring->now);
	r->worked++;
	r->got_when_worked = r->got;
	if (r->next_work)
		ring_work_add(ring, &r->next_work->work);
}

static void receiver_init(struct receiver *r)
{
	memset(r, 0, sizeof(*r));
	list_init(&r->work.link);
	r->work.run = work;
}

static void receiver_add(struct fixture *f, struct receiver *r, struct flow_key key)
{
	receiver_init(r);
	r->flow.key = key;
	r->flow.deliver = deliver;
	assert_int_equal(ring_flow_add(&f->ring, &r->flow), 0);
}

static void receiver_del(struct fixture *f, struct receiver *r)
{
	if (r->kept)
		pkt_free(r->kept);
	r->kept = NULL;
	ring_flow_del(&f->ring, &r->flow);
}

static void test_a_frame_goes_to_its_flow(void **state)
{
	struct fixture *f = *state;
	struct flow_key from = key5("10.0.0.1", 7, "10.0.0.9", 99);
	struct receiver three, five;
	struct pkt *pkt;

	hold(&f->ring);
	receiver_add(f, &three, key3("10.0.0.1", 7));
	receiver_add(f, &five, from);
	pkt = fake_arrive(&f->queue, &from, 1);
	assert_int_equal(ring_poll(&f->ring), 1);
	assert_int_equal(five.got, 1);
	assert_int_equal(three.got, 0);
	assert_ptr_equal(five.kept, pkt); /* the packet itself, not a copy */
	assert_int_equal(f->ring.stats.rx_frames, 1);
	assert_int_equal(ring_poll(&f->ring), 0);
	receiver_del(f, &three);
	receiver_del(f, &five);
	release(&f->ring);
}

static void test_frames_without_a_flow_are_freed_and_counted_by_reason(void **state)
{
	struct fixture *f = *state;
	struct flow_key known = key5("10.0.0.1", 7, "10.0.0.9", 99);
	struct flow_key unknown = key5("10.0.0.1", 8, "10.0.0.9", 99);
	struct receiver r;
	struct pkt *pkt;

	hold(&f->ring);
	receiver_add(f, &r, known);
	r.answer = DROP_SOCK_FULL;
	fake_arrive(&f->queue, &known, 1);
	fake_arrive(&f->queue, &known, 2);
	fake_arrive(&f->queue, &unknown, 3);
	pkt = fake_arrive(&f->queue, &known, 4);
	pkt->frame_len = 20; /* less than the headers */
	pkt = fake_arrive(&f->queue, &known, 5);
	pkt->frame[pkt->frame_len - 1] ^= 1;
	assert_int_equal(ring_poll(&f->ring), 5);
	assert_int_equal(r.got, 2);
	assert_int_equal(f->ring.stats.drops[DROP_SOCK_FULL], 2);
	assert_int_equal(f->ring.stats.drops[DROP_NO_FLOW], 1);
	assert_int_equal(f->ring.stats.drops[DROP_SHORT], 1);
	assert_int_equal(f->ring.stats.drops[DROP_UDP_CSUM], 1);
	assert_int_equal(fake_missing(&f->queue), 0);
	receiver_del(f, &r);
	release(&f->ring);
}

/* Not segments, nor datagrams to a group. */
static void test_datagrams_without_a_flow_go_to_the_one_for_others(void **state)
{
	struct fixture *f = *state;
	struct flow_key peer = key5("10.0.0.1", 7, "10.0.0.9", 99);
	struct flow_key stranger = key5("10.0.0.1", 7, "10.0.0.8", 99), group = stranger;
	struct receiver r, others;

	group.local = addr_v4(inet_addr("239.1.1.1"));
	hold(&f->ring);
	receiver_add(f, &r, peer);
	receiver_init(&others);
	others.flow.deliver = deliver;
	f->ring.flows.others = &others.flow;
	for (unsigned i = 0; i < 3; i++) /* in one burst, each after one of the peer */
		fake_arrive(&f->queue, i & 1 ? &stranger : &peer, i);
	fake_arrive(&f->queue, &group, 3);
	ring_poll(&f->ring);
	assert_int_equal(r.got, 2);
	assert_int_equal(others.got, 1);
	assert_int_equal(f->ring.stats.drops[DROP_NO_FLOW], 1);
	others.answer = DROP_NO_FLOW;
	fake_arrive(&f->queue, &stranger, 4);
	ring_poll(&f->ring);
	assert_int_equal(others.got, 2);
	assert_int_equal(f->ring.stats.drops[DROP_NO_FLOW], 2);
	stranger.proto = IPPROTO_TCP;
	assert_null(flow_find_others(&f->ring.flows, &stranger));
	pkt_free(others.kept);
	receiver_del(f, &r);
	release(&f->ring);
}

static void test_every_member_of_a_group_gets_a_copy_of_its_own(void **state)
{
	struct fixture *f = *state;
	struct flow_key group = key3("239.1.1.1", 7), from = group;
	struct receiver members[3];
	struct pkt *pkt;

	from.remote = addr_v4(inet_addr("10.0.0.9"));
	from.remote_port = htons(99);
	hold(&f->ring);
	for (int i = 0; i < 3; i++)
		receiver_add(f, &members[i], group);
	members[1].answer = DROP_SOCK_FILTER;
	pkt = fake_arrive(&f->queue, &from, 1);
	ring_poll(&f->ring);
	for (int i = 0; i < 3; i++)
		assert_int_equal(members[i].got, 1);
	assert_int_equal(f->ring.stats.drops[DROP_SOCK_FILTER], 1);
	assert_ptr_not_equal(members[0].kept, members[2].kept);
	assert_true(members[0].kept == pkt || members[2].kept == pkt);
	assert_memory_equal(pkt_payload(members[0].kept), pkt_payload(members[2].kept), 8);
	for (int i = 0; i < 3; i++)
		receiver_del(f, &members[i]);
	release(&f->ring);
}

static void test_a_unicast_frame_goes_to_one_of_those_that_share_it(void **state)
{
	struct fixture *f = *state;
	struct flow_key from = key5("10.0.0.1", 7, "10.0.0.9", 99);
	struct receiver first, second;

	hold(&f->ring);
	receiver_add(f, &first, key3("10.0.0.1", 7));
	receiver_add(f, &second, key3("10.0.0.1", 7));
	fake_arrive(&f->queue, &from, 1);
	ring_poll(&f->ring);
	assert_int_equal(first.got, 0);
	assert_int_equal(second.got, 1);
	receiver_del(f, &second);
	fake_arrive(&f->queue, &from, 2);
	ring_poll(&f->ring);
	assert_int_equal(first.got, 1);
	receiver_del(f, &first);
	release(&f->ring);
}

static void test_a_burst_is_bounded(void **state)
{
	struct fixture *f = *state;
	struct flow_key from = key5("10.0.0.1", 7, "10.0.0.9", 99);

	hold(&f->ring);
	for (int i = 0; i < 2 * params.cq_poll_batch_max; i++)
		fake_arrive(&f->queue, &from, 1);
	assert_int_equal(ring_poll(&f->ring), params.cq_poll_batch_max);
	assert_int_equal(ring_poll(&f->ring), params.cq_poll_batch_max);
	assert_int_equal(ring_poll(&f->ring), 0);
	release(&f->ring);
}

static void test_a_ring_without_a_port_can_be_polled(void **state)
{
	struct ring *ring = rings_nowhere();
	struct flow flow;

	hold(ring);
	assert_int_equal(ring_poll(ring), 0);
	assert_null(ring_tx_get(ring));
	assert_int_equal(ring_flow_add(ring, flow_of(&flow, key3("10.0.0.1", 7))), -EOPNOTSUPP);
	release(ring);
}

/* ---- work, timers -------------------------------------------------------------------------- */

static void test_work_runs_once_at_the_end_of_the_burst(void **state)
{
	struct fixture *f = *state;
	struct flow_key from = key5("10.0.0.1", 7, "10.0.0.9", 99);
	struct receiver r, second;

	hold(&f->ring);
	receiver_add(f, &r, from);
	receiver_init(&second);
	r.next_work = &second; /* work may ask for further work */
	for (int i = 0; i < 5; i++)
		fake_arrive(&f->queue, &from, 1);
	ring_poll(&f->ring);
	assert_int_equal(r.got_when_worked, 5);
	assert_int_equal(r.worked, 1);
	assert_int_equal(second.worked, 1);
	ring_poll(&f->ring);
	assert_int_equal(r.worked, 1);
	receiver_del(f, &r);
	release(&f->ring);
}

/* Without a burst it runs at the end of the hold, in hot and cold calls, at the current time. */
static void test_work_runs_at_the_end_of_a_hold(void **state)
{
	struct fixture *f = *state;
	struct receiver r;
	nsec_t before;

	receiver_init(&r);
	hold(&f->ring);
	before = clock_now();
	ring_work_add(&f->ring, &r.work);
	release(&f->ring);
	assert_int_equal(r.worked, 1);
	assert_true(f->ring.now >= before);
	assert_true(ring_hold_cold(&f->ring));
	before = clock_now();
	ring_work_add(&f->ring, &r.work);
	ring_release_cold(&f->ring);
	assert_int_equal(r.worked, 2);
	assert_true(f->ring.now >= before);
}

struct alarm {
	struct timer timer;
	struct ring *ring;
	struct receiver *asks;
	unsigned fired;
	nsec_t at;
};

static void fire(struct timer *timer, nsec_t now)
{
	struct alarm *alarm = container_of(timer, struct alarm, timer);

	ring_assert_held(alarm->ring);
	alarm->fired++;
	alarm->at = now;
	if (alarm->asks)
		ring_work_add(alarm->ring, &alarm->asks->work);
}

static void test_timers_run_in_a_poll_and_not_before_their_time(void **state)
{
	struct fixture *f = *state;
	struct alarm alarm = {.ring = &f->ring};
	struct receiver r;
	nsec_t due;

	receiver_init(&r);
	alarm.asks = &r;
	timer_init(&alarm.timer, fire);
	hold(&f->ring);
	due = clock_now() + 5 * NSEC_PER_MSEC;
	wheel_arm(&f->ring.wheel, &alarm.timer, due);
	ring_poll(&f->ring);
	while (!alarm.fired) {
		assert_true(clock_now() < due + 5 * NSEC_PER_SEC);
		ring_poll(&f->ring);
	}
	assert_true(alarm.at >= due);
	assert_int_equal(r.worked, 1); /* work that a timer asks for is done in the same poll */
	ring_poll(&f->ring);
	assert_int_equal(alarm.fired, 1);
	release(&f->ring);
}

/* ---- sending -------------------------------------------------------------------------------- */

static struct pkt *frame_to(struct fixture *f, uint64_t number)
{
	struct flow_key key = key5("10.0.0.2", 7, "10.0.0.1", 99);
	struct pkt *pkt = ring_tx_get(&f->ring);

	assert_non_null(pkt);
	fake_build(pkt, &key, number);
	return pkt;
}

/* The number in the frame that was sent as number i. */
static uint64_t sent(const struct fixture *f, unsigned i)
{
	uint64_t number;

	assert_true(i < f->queue.n_sent);
	memcpy(&number, f->queue.sent[i].bytes + f->queue.sent[i].len - sizeof(number),
	       sizeof(number));
	return number;
}

static struct adj *neighbour(struct fixture *f)
{
	struct inaddr addr = addr_v4(inet_addr("10.0.0.2"));
	struct adj *adj = adj_get(&f->ring.adjs, &addr);

	assert_non_null(adj);
	return adj;
}

static void test_the_wire_is_kicked_once_a_hold_and_only_for_a_reason(void **state)
{
	struct fixture *f = *state;

	hold(&f->ring);
	release(&f->ring);
	assert_int_equal(f->queue.flushes, 0);
	hold(&f->ring);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(ring_tx_put(&f->ring, frame_to(f, i)), 0);
	assert_int_equal(f->queue.flushes, 0);
	release(&f->ring);
	assert_int_equal(f->queue.flushes, 1);
	assert_int_equal(f->queue.n_sent, 10);
	assert_int_equal(f->ring.stats.tx_frames, 10);
}

static void test_frames_to_a_known_neighbour_leave_at_once(void **state)
{
	struct fixture *f = *state;

	hold(&f->ring);
	ring_adj_update(&f->ring, neighbour(f), NEIGH_REACHABLE, mac);
	assert_int_equal(ring_tx_to(&f->ring, neighbour(f), frame_to(f, 1)), 0);
	assert_true(neighbour(f)->used);
	release(&f->ring);
	assert_int_equal(f->queue.n_sent, 1);
}

static void test_frames_that_wait_for_a_neighbour_are_copies_and_leave_in_order(void **state)
{
	struct fixture *f = *state;

	hold(&f->ring);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(ring_tx_to(&f->ring, neighbour(f), frame_to(f, i)), 0);
	assert_int_equal(fake_missing(&f->queue), 0);
	ring_adj_update(&f->ring, neighbour(f), NEIGH_REACHABLE, mac);
	assert_int_equal(ring_tx_to(&f->ring, neighbour(f), frame_to(f, 20)), 0);
	release(&f->ring);
	assert_int_equal(f->queue.n_sent, 21);
	for (unsigned i = 0; i < 21; i++)
		assert_int_equal(sent(f, i), i);
	assert_memory_equal(f->queue.sent[0].bytes, mac, sizeof(mac));
	assert_memory_equal(f->queue.sent[19].bytes, mac, sizeof(mac));
}

static void test_too_many_frames_for_a_silent_neighbour_are_dropped(void **state)
{
	struct fixture *f = *state;

	hold(&f->ring);
	for (unsigned i = 0; i < ADJ_PENDING_MAX; i++)
		assert_int_equal(ring_tx_to(&f->ring, neighbour(f), frame_to(f, i)), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ring_tx_to(&f->ring, neighbour(f), frame_to(f, 1000)),
				 -EHOSTUNREACH);
	assert_int_equal(f->ring.stats.drops[DROP_NEIGH_FULL], 3);
	release(&f->ring);
	assert_int_equal(f->queue.n_sent, 0);
}

static void test_frames_for_a_neighbour_that_failed_are_dropped(void **state)
{
	struct fixture *f = *state;

	hold(&f->ring);
	for (unsigned i = 0; i < 5; i++)
		ring_tx_to(&f->ring, neighbour(f), frame_to(f, i));
	ring_adj_update(&f->ring, neighbour(f), NEIGH_FAILED, NULL);
	assert_int_equal(f->ring.stats.drops[DROP_NEIGH_FAILED], 5);
	assert_int_equal(ring_tx_to(&f->ring, neighbour(f), frame_to(f, 5)), -EHOSTUNREACH);
	assert_int_equal(f->ring.stats.drops[DROP_NEIGH_FAILED], 6);
	release(&f->ring);
	assert_int_equal(f->queue.n_put, 0);
}

static void test_what_the_kernel_learns_of_a_neighbour_sends_what_waits(void **state)
{
	struct fixture *f = *state;
	struct inaddr addr = addr_v4(inet_addr("10.0.0.2")), other = addr_v4(inet_addr("10.0.0.3"));

	hold(&f->ring);
	ring_tx_to(&f->ring, neighbour(f), frame_to(f, 1));
	release(&f->ring);
	ring_neigh_changed(&f->ring, &addr, NEIGH_REACHABLE, mac);
	assert_int_equal(f->queue.n_sent, 1);
	ring_neigh_changed(&f->ring, &other, NEIGH_REACHABLE, mac);
	assert_null(adj_find(&f->ring.adjs, &other)); /* no ring sends to the neighbour */
}

/*
 * A sender at home on another ring asks the kernel before it sends: the answer arrives before its
 * packet.
 */
static void test_an_answer_for_a_neighbour_that_is_wanted_is_not_missed(void **state)
{
	struct fixture *f = *state;
	struct inaddr addr = addr_v4(inet_addr("10.0.0.2"));

	ring_neigh_changed(&f->ring, &addr, NEIGH_UNKNOWN, NULL);
	ring_neigh_changed(&f->ring, &addr, NEIGH_REACHABLE, mac);
	ring_neigh_changed(&f->ring, &addr, NEIGH_UNKNOWN, NULL); /* requested again */
	hold(&f->ring);
	assert_int_equal(neighbour(f)->state, NEIGH_REACHABLE);
	ring_tx_to(&f->ring, neighbour(f), frame_to(f, 1));
	release(&f->ring);
	assert_int_equal(f->queue.n_sent, 1);
	ring_neigh_changed(&f->ring, &addr, NEIGH_FAILED, NULL);
	ring_neigh_changed(&f->ring, &addr, NEIGH_UNKNOWN, NULL);
	assert_int_equal(adj_find(&f->ring.adjs, &addr)->state, NEIGH_UNKNOWN);
}

/* ---- keeping packets ---------------------------------------------------------------------------- */

static void test_frames_are_kept_while_there_are_plenty(void **state)
{
	struct fixture *f = *state;
	struct pkt *pkt = fake_take(&f->queue);

	hold(&f->ring);
	assert_ptr_equal(ring_keep(&f->ring, pkt, 0, 0), pkt);
	assert_int_equal(f->ring.stats.copied, 0);
	pkt_free(pkt);
	release(&f->ring);
}

static void test_frames_are_copied_out_when_they_run_low(void **state)
{
	struct fixture *f = *state;
	struct pkt *taken[FAKE_FRAMES], *pkt, *kept;
	unsigned n = 0, missing;

	hold(&f->ring);
	while (f->queue.base.frames_free >= f->ring.low_water)
		taken[n++] = fake_take(&f->queue);
	pkt = frame_to(f, 4711);
	pkt->off = 42;
	pkt->stamp = 17;
	missing = fake_missing(&f->queue);
	kept = ring_keep(&f->ring, pkt, 0, 0);
	assert_non_null(kept);
	assert_ptr_not_equal(kept, pkt);
	assert_int_equal(fake_missing(&f->queue), missing - 1); /* the frame was returned */
	assert_int_equal(f->ring.stats.copied, 1);
	assert_int_equal(kept->off, 42);
	assert_int_equal(kept->stamp, 17);
	assert_true(kept->pool->flags & PKT_POOL_SHARED);
	assert_ptr_equal(ring_keep(&f->ring, kept, 0, 0), kept); /* a copy is not copied again */
	pkt_free(kept);
	while (n)
		pkt_free(taken[--n]);
	release(&f->ring);
}

/* VMA_RX_BUFS counts the bytes that are really in use. */
static void test_copies_are_bounded_by_the_buffers_of_the_process(void **state)
{
	struct fixture *f = *state;
	int bufs = params.rx_bufs;
	struct pkt *pkt, *copies[PKT_BUF / sizeof(struct pkt)];
	unsigned n = 0;

	hold(&f->ring);
	pkt = frame_to(f, 1);
	params.rx_bufs = 1;
	while ((copies[n] = pkt_copy(pkt)))
		n++;
	assert_int_equal(n, PKT_BUF / (sizeof(*pkt) + pkt->frame_len));
	f->ring.low_water = FAKE_FRAMES + 1;
	assert_null(ring_keep(&f->ring, pkt, 0, 0)); /* and the caller still owns pkt */
	pkt_free(copies[--n]);
	assert_null(ring_keep(&f->ring, pkt, 0, PKT_BUF));
	copies[n] = ring_keep(&f->ring, pkt, 0, 0);
	assert_non_null(copies[n++]);
	while (n)
		pkt_free(copies[--n]);
	params.rx_bufs = bufs;
	release(&f->ring);
}

/* An empty queue gets something, even if many queues take what they can get. */
static void test_a_full_queue_leaves_room_for_an_empty_one(void **state)
{
	enum { QUEUES = 100, COPIES = 4096 };
	struct fixture *f = *state;
	int bufs = params.rx_bufs;
	uint32_t held[QUEUES] = {0};
	struct pkt *copies[COPIES], *pkt;
	unsigned n = 0, before;

	hold(&f->ring);
	f->ring.low_water = FAKE_FRAMES + 1;
	params.rx_bufs = 64;
	do {
		before = n;
		for (unsigned q = 0; q < QUEUES; q++) {
			pkt = frame_to(f, 1);
			copies[n] = ring_keep(&f->ring, pkt, held[q], 0);
			if (copies[n])
				held[q] += pkt_size(copies[n++]);
			else
				pkt_free(pkt);
			assert_true(n < COPIES);
		}
	} while (n != before);
	for (unsigned q = 0; q < QUEUES; q++) /* equal shares, give or take one packet */
		assert_true(held[q] + pkt_size(copies[0]) >= held[0] && held[q] <= held[0]);
	pkt = frame_to(f, 1);
	assert_null(ring_keep(&f->ring, pkt, held[0], 0));
	copies[n] = ring_keep(&f->ring, pkt, 0, 0);
	assert_non_null(copies[n]);
	assert_null(ring_keep(&f->ring, copies[n], held[0], 0)); /* also a copy */
	n++;
	while (n)
		pkt_free(copies[--n]);
	params.rx_bufs = bufs;
	release(&f->ring);
}

/* ---- the inbox ------------------------------------------------------------------------------------ */

struct message {
	struct inbox_item item;
	int runs;
	struct ring *forward; /* an item posts itself again, once */
};

static void message_run(struct ring *ring, struct inbox_item *item)
{
	struct message *message = container_of(item, struct message, item);
	struct ring *forward = message->forward;

	ring_assert_held(ring);
	message->runs++;
	message->forward = NULL;
	if (forward)
		ring_post(forward, item);
}

static struct message message_to(struct ring *forward)
{
	return (struct message){.item.run = message_run, .forward = forward};
}

static struct ring *another_ring(void)
{
	struct ring *ring = mem_aligned(64, sizeof(*ring));

	assert_non_null(ring);
	ring_init(ring, NULL, 1);
	return ring;
}

/* Two rings send to one receiver, which must not mix their fragments. */
static void test_the_numbers_of_fragments_begin_apart(void **state)
{
	struct ring *ring = another_ring();
	uint16_t begin[16];

	for (unsigned i = 0; i < 16; i++) {
		ring_init(ring, NULL, i);
		begin[i] = (uint16_t)ring->ip_id;
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(begin[i], begin[k]);
	}
	mem_free(ring);
}

static void test_what_is_posted_to_a_free_ring_runs_at_once(void **state)
{
	struct fixture *f = *state;
	struct message message = message_to(NULL);

	ring_post(&f->ring, &message.item);
	assert_int_equal(message.runs, 1);
}

static void test_what_is_posted_while_we_hold_the_ring_runs_when_we_let_go(void **state)
{
	struct fixture *f = *state;
	struct message message = message_to(NULL);

	hold(&f->ring);
	ring_post(&f->ring, &message.item);
	/* an item never runs in the middle of the holder's work */
	assert_int_equal(message.runs, 0);
	release(&f->ring);
	assert_int_equal(message.runs, 1);
	assert_true(ring_hold_cold(&f->ring));
	ring_post(&f->ring, &message.item);
	ring_release_cold(&f->ring);
	assert_int_equal(message.runs, 2);
}

static void test_what_is_posted_while_we_hold_another_runs_when_we_let_go(void **state)
{
	struct fixture *f = *state;
	struct ring *other = another_ring();
	struct message a = message_to(NULL), b = message_to(NULL);

	hold(other);
	ring_post(&f->ring, &a.item);
	ring_post(&f->ring, &b.item);
	assert_int_equal(a.runs, 0);
	release(other);
	assert_int_equal(a.runs, 1);
	assert_int_equal(b.runs, 1);
	mem_free(other);
}

struct other_holder {
	struct ring *ring;
	int held, go; /* atomic */
};

static void *hold_for_a_while(void *arg)
{
	struct other_holder *other = arg;

	hold(other->ring);
	__atomic_store_n(&other->held, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&other->go, __ATOMIC_ACQUIRE))
		usleep(100);
	release(other->ring);
	return NULL;
}

static void test_items_posted_to_a_held_ring_are_run_by_its_holder(void **state)
{
	struct fixture *f = *state;
	struct other_holder other = {.ring = &f->ring};
	struct message message = message_to(NULL);
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, hold_for_a_while, &other), 0);
	while (!__atomic_load_n(&other.held, __ATOMIC_ACQUIRE))
		usleep(100);
	ring_post(&f->ring, &message.item); /* the poster does not wait */
	assert_false(inbox_empty(&f->ring.inbox));
	assert_false(ring_try(&f->ring));
	__atomic_store_n(&other.go, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(message.runs, 1);
}

static void test_a_new_holder_finds_posted_items_done(void **state)
{
	struct fixture *f = *state;
	struct message message = message_to(NULL);

	inbox_post(&f->ring.inbox, &message.item);
	hold(&f->ring);
	assert_int_equal(message.runs, 1);
	release(&f->ring);
	inbox_post(&f->ring.inbox, &message.item);
	assert_true(ring_try(&f->ring));
	assert_int_equal(message.runs, 2);
	ring_release_cold(&f->ring);
}

/* A chain over rings: each item posts the next one while its ring is held. */
static void test_what_is_posted_by_what_was_posted_is_not_stranded(void **state)
{
	struct fixture *f = *state;
	struct ring *other = another_ring();
	struct message message = message_to(other);

	ring_post(&f->ring, &message.item);
	assert_int_equal(message.runs, 2);
	assert_true(inbox_empty(&other->inbox));
	message = message_to(&f->ring);
	hold(other);
	ring_post(other, &message.item);
	release(other);
	assert_int_equal(message.runs, 2);
	message = message_to(&f->ring); /* to the ring that it runs on */
	ring_post(&f->ring, &message.item);
	assert_int_equal(message.runs, 2);
	mem_free(other);
}

static struct port many_port;
static struct fake_queue many_queues[RING_POSTED_MAX + 4];
static unsigned many_opened;

static int many_open_queue(struct port *port, struct port_queue **q, char why[PORT_WHY])
{
	fake_init(&many_queues[many_opened], port);
	*q = &many_queues[many_opened++].base;
	return 0;
}

static int many_open(int ifindex, struct port **port, char why[PORT_WHY])
{
	static struct port_ops ops;

	ops = fake_ops;
	ops.open_queue = many_open_queue;
	many_port = (struct port){.ops = &ops, .ifindex = ifindex};
	*port = &many_port;
	return 0;
}

static const struct port_kind many_kind = FAKE_KIND(many_open);
static const struct port_kind *const many_kinds[] = {&many_kind, NULL};

static void test_posts_to_many_rings_from_inside_one_are_not_stranded(void **state)
{
	struct fixture *f = *state;
	struct message messages[RING_POSTED_MAX + 4];
	char why[PORT_WHY];
	bool fresh;

	struct ring *rings[RING_POSTED_MAX + 4];

	rings_init(many_kinds);
	for (unsigned i = 0; i < RING_POSTED_MAX + 4; i++)
		assert_int_equal(rings_get(1, i, &rings[i], why, &fresh), 0);
	hold(&f->ring);
	for (unsigned i = 0; i < RING_POSTED_MAX + 4; i++) {
		messages[i] = message_to(NULL);
		ring_post(rings[i], &messages[i].item);
	}
	release(&f->ring);
	for (unsigned i = 0; i < RING_POSTED_MAX + 4; i++)
		assert_int_equal(messages[i].runs, 1);
	for (unsigned i = 0; i < rings_count(); i++)
		mem_free(rings_at(i));
	rings_forget(false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_work_for_later_runs_at_each_poll_and_when_the_ring_settles),
	TEST(test_work_for_later_that_is_due_runs_with_this_hold),
	TEST(test_a_ring_without_late_work_is_settled),
	TEST(test_a_flow_is_steered_while_it_is_there),
	TEST(test_connections_of_a_listener_cost_the_port_nothing),
	TEST(test_connections_outlive_their_listener),
	TEST(test_a_connection_older_than_the_listener_stays_steered),
	TEST(test_flows_of_one_key_are_steered_once_until_the_last_goes),
	TEST(test_the_next_flow_of_a_listener_covers_its_connections),
	TEST(test_a_flow_the_port_refuses_is_not_there),
	TEST(test_a_frame_goes_to_its_flow),
	TEST(test_frames_without_a_flow_are_freed_and_counted_by_reason),
	TEST(test_datagrams_without_a_flow_go_to_the_one_for_others),
	TEST(test_every_member_of_a_group_gets_a_copy_of_its_own),
	TEST(test_a_unicast_frame_goes_to_one_of_those_that_share_it),
	TEST(test_a_burst_is_bounded),
	TEST(test_a_ring_without_a_port_can_be_polled),
	TEST(test_work_runs_once_at_the_end_of_the_burst),
	TEST(test_work_runs_at_the_end_of_a_hold),
	TEST(test_timers_run_in_a_poll_and_not_before_their_time),
	TEST(test_the_wire_is_kicked_once_a_hold_and_only_for_a_reason),
	TEST(test_frames_to_a_known_neighbour_leave_at_once),
	TEST(test_frames_that_wait_for_a_neighbour_are_copies_and_leave_in_order),
	TEST(test_too_many_frames_for_a_silent_neighbour_are_dropped),
	TEST(test_frames_for_a_neighbour_that_failed_are_dropped),
	TEST(test_what_the_kernel_learns_of_a_neighbour_sends_what_waits),
	TEST(test_an_answer_for_a_neighbour_that_is_wanted_is_not_missed),
	TEST(test_frames_are_kept_while_there_are_plenty),
	TEST(test_frames_are_copied_out_when_they_run_low),
	TEST(test_copies_are_bounded_by_the_buffers_of_the_process),
	TEST(test_a_full_queue_leaves_room_for_an_empty_one),
	TEST(test_the_numbers_of_fragments_begin_apart),
	TEST(test_what_is_posted_to_a_free_ring_runs_at_once),
	TEST(test_what_is_posted_while_we_hold_the_ring_runs_when_we_let_go),
	TEST(test_what_is_posted_while_we_hold_another_runs_when_we_let_go),
	TEST(test_items_posted_to_a_held_ring_are_run_by_its_holder),
	TEST(test_a_new_holder_finds_posted_items_done),
	TEST(test_what_is_posted_by_what_was_posted_is_not_stranded),
	TEST(test_posts_to_many_rings_from_inside_one_are_not_stranded),
};

VMA_TEST_MAIN("ring", tests, NULL, NULL)
