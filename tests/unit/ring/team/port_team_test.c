/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rings with two queues, on two loop-back ports:
 *
 *	at[0] --- port 0 ---+--- ring, other
 *	at[1] --- port 1 ---+
 */
#include "ring/team/port_team.h"

#include <poll.h>
#include <pthread.h>

#include "ring/loop/port_loop.h"
#include "team_rings.h"

#define KEPT 8192

/* Who gets the frames of a flow. */
struct owner {
	struct shared_flow shared; /* first */
	uint64_t got[64];
	unsigned n;
	bool keeps;
	unsigned n_kept;
};

struct fixture {
	struct port *port[2], *team;
	struct port_queue *at[2];
	struct ring *ring, *other;
};

static struct pkt *kept[KEPT];

static enum drop deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct owner *o = (struct owner *)flow;

	if (o->n < 64)
		memcpy(&o->got[o->n], pkt_payload(pkt), sizeof(o->got[0]));
	o->n++;
	if (o->keeps)
		kept[o->n_kept++] = pkt;
	else
		pkt_free(pkt);
	return DROP_NONE;
}

static struct owner owner_of(const struct flow_key *key)
{
	return (struct owner){.shared.flow = {.key = *key, .deliver = deliver}};
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	clock_init();
	ring_mode = HOLD_SPIN;
	rings_init(NULL);
	for (int i = 0; i < 2; i++) {
		struct port *port;

		assert_int_equal(port_loop_open(1500, &port), 0);
		f->port[i] = port;
		assert_int_equal(port->ops->open_queue(port, &f->at[i], why), 0);
	}
	assert_int_equal(port_team_open(f->port, 2, &f->team, why), 0);
	f->ring = open_ring(f->team, 0);
	f->other = open_ring(f->team, 1);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct ring *rings[] = {f->ring, f->other};

	for (int i = 0; i < 2; i++) {
		hold(rings[i]);
		assert_true(rings[i]->ops->idle(rings[i]->q)); /* all packets are back */
		ring_close(rings[i]);
		release(rings[i]);
		mem_free(rings[i]);
		f->at[i]->ops->close_queue(f->at[i]);
	}
	f->team->ops->free_port(f->team);
	free(f);
	return 0;
}

/* It arrives at a port. */
static void inject(struct port_queue *at, const struct flow_key *key, uint64_t number)
{
	struct pkt *pkt = at->ops->tx_get(at);

	assert_non_null(pkt);
	fake_build(pkt, key, number);
	assert_int_equal(at->ops->tx_put(at, pkt), 0);
	at->ops->tx_flush(at);
}

static void poll_ring(struct ring *ring)
{
	hold(ring);
	while (ring_poll(ring))
		;
	release(ring);
}

static void add(struct ring *ring, struct owner *o)
{
	hold(ring);
	assert_int_equal(ring_flow_add(ring, &o->shared.flow), 0);
	release(ring);
}

static void del(struct ring *ring, struct owner *o)
{
	hold(ring);
	ring_flow_del(ring, &o->shared.flow);
	release(ring);
}

/* ---- receiving -------------------------------------------------------------------------- */

static void test_frames_arrive_from_both_ports_in_the_order_of_each(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7), from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	struct owner o = owner_of(&key);
	uint64_t last[2] = {0, 1000};

	add(f->ring, &o);
	for (unsigned n = 1; n <= 20; n++) {
		inject(f->at[0], &from, n);
		inject(f->at[1], &from, 1000 + n);
	}
	poll_ring(f->ring);
	assert_int_equal(o.n, 40);
	for (unsigned i = 0; i < o.n; i++) {
		uint64_t *seen = &last[o.got[i] > 1000];

		assert_int_equal(o.got[i], *seen + 1);
		*seen = o.got[i];
	}
	del(f->ring, &o);
	inject(f->at[0], &from, 1);
	inject(f->at[1], &from, 2);
	poll_ring(f->ring);
	assert_int_equal(o.n, 40);
}

static void test_a_small_burst_leaves_no_port_out(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7), from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	struct owner o = owner_of(&key);
	struct pkt *pkt;
	unsigned of[2] = {0, 0};

	add(f->ring, &o);
	for (unsigned n = 0; n < 8; n++) {
		inject(f->at[0], &from, n);
		inject(f->at[1], &from, n);
	}
	hold(f->ring);
	for (unsigned n = 0; n < 8; n++) {
		assert_int_equal(f->ring->ops->rx_burst(f->ring->q, &pkt, 1), 1);
		of[pkt->pool == &team_queue_of(f->ring->q)->parts[1]->pool]++;
		pkt_free(pkt);
	}
	release(f->ring);
	assert_int_equal(of[0], 4);
	assert_int_equal(of[1], 4);
	poll_ring(f->ring);
	del(f->ring, &o);
}

static void test_a_queue_that_runs_short_makes_the_ring_copy(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7), from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	struct owner o = owner_of(&key);

	o.keeps = true;
	add(f->ring, &o);
	hold(f->ring);
	assert_false(ring_is_short(f->ring));
	release(f->ring);
	for (unsigned n = 0; n < 3700; n++) {
		inject(f->at[1], &from, n);
		poll_ring(f->ring);
	}
	assert_int_equal(o.n_kept, 3700);
	hold(f->ring);
	assert_true(ring_is_short(f->ring));
	while (o.n_kept)
		pkt_free(kept[--o.n_kept]);
	ring_poll(f->ring);
	assert_false(ring_is_short(f->ring));
	release(f->ring);
	del(f->ring, &o);
}

static void *free_kept(void *arg)
{
	struct owner *o = arg;

	while (o->n_kept)
		pkt_free(kept[--o->n_kept]);
	return NULL;
}

static void test_packets_that_another_thread_frees_return_to_their_queues(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7), from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	struct owner o = owner_of(&key);
	pthread_t thread;

	o.keeps = true;
	add(f->ring, &o);
	for (unsigned n = 0; n < 16; n++) {
		inject(f->at[0], &from, n);
		inject(f->at[1], &from, n);
	}
	poll_ring(f->ring);
	assert_int_equal(o.n_kept, 32);
	hold(f->ring);
	assert_false(f->ring->ops->idle(f->ring->q));
	assert_int_equal(pthread_create(&thread, NULL, free_kept, &o), 0);
	pthread_join(thread, NULL);
	assert_false(inbox_empty(&f->ring->inbox));
	ring_drain_inbox(f->ring);
	assert_true(f->ring->ops->idle(f->ring->q));
	release(f->ring);
	del(f->ring, &o);
}

/* ---- sending ---------------------------------------------------------------------------- */

static uint64_t receive_number(struct port_queue *at)
{
	struct flow_key key;
	struct pkt *pkt;
	uint64_t number;

	if (!at->ops->rx_burst(at, &pkt, 1))
		return 0;
	assert_int_equal(frame_parse(pkt, 0, &key), DROP_NONE);
	memcpy(&number, pkt_payload(pkt), sizeof(number));
	pkt_free(pkt);
	return number;
}

static void send_number(struct ring *ring, const struct flow_key *to, uint64_t number)
{
	struct pkt *pkt;

	hold(ring);
	pkt = ring_tx_get(ring);
	assert_non_null(pkt);
	fake_build(pkt, to, number);
	assert_int_equal(ring_tx_put(ring, pkt), 0);
	release(ring);
}

static struct flow_key destination(unsigned d)
{
	struct flow_key key = key5("10.1.0.0", 7, "10.0.0.1", 9);

	key.local = addr_v4(htonl(0x0a010000 + d));
	return key;
}

static void listen_at(struct fixture *f, unsigned d)
{
	struct flow_key key = destination(d);

	key.remote_port = 0;
	for (int i = 0; i < 2; i++)
		assert_int_equal(f->at[i]->ops->add_flow(f->at[i], &key), 0);
}

static void test_each_destination_has_one_port_and_all_ports_are_used(void **state)
{
	struct fixture *f = *state;
	unsigned of[2] = {0, 0};

	for (unsigned d = 0; d < 32; d++)
		listen_at(f, d);
	/* In turn: the frame that was given is often one of the other port. */
	for (uint64_t n = 1; n <= 10; n++) {
		for (unsigned d = 0; d < 32; d++) {
			struct flow_key to = destination(d);

			send_number(f->ring, &to, d * 100 + n);
		}
	}
	uint64_t last[32] = {0};
	int port_of[32];

	memset(port_of, -1, sizeof(port_of));
	for (int i = 0; i < 2; i++) {
		for (uint64_t n; (n = receive_number(f->at[i])); of[i]++) {
			unsigned d = (unsigned)(n / 100);

			assert_true(port_of[d] == -1 || port_of[d] == i);
			port_of[d] = i;
			assert_int_equal(n % 100, ++last[d]);
		}
	}
	assert_int_equal(of[0] + of[1], 320);
	assert_true(of[0] >= 60 && of[1] >= 60);
}

/* ---- sleeping --------------------------------------------------------------------------- */

static void test_a_frame_at_either_port_ends_a_sleep(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7), from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	struct owner o = owner_of(&key);
	int fds[PORT_FDS_MAX];
	struct pollfd pfd = {.events = POLLIN};

	assert_true(f->team->can.must_arm);
	add(f->ring, &o);
	assert_int_equal(ring_fds(f->ring, fds), 1);
	pfd.fd = fds[0];
	for (unsigned n = 0; n < 10; n++) {
		assert_true(ring_arm_fds(f->ring));
		assert_int_equal(poll(&pfd, 1, 0), 0);
		inject(f->at[n % 2], &from, n);
		assert_int_equal(poll(&pfd, 1, 0), 1);
		assert_false(ring_arm_fds(f->ring)); /* it must be polled first */
		poll_ring(f->ring);
		assert_int_equal(o.n, n + 1);
	}
	del(f->ring, &o);
}

/* ---- a port is lost --------------------------------------------------------------------- */

static void test_when_a_port_is_lost_the_other_goes_on(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7), from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	const struct team_queue *q = team_queue_of(f->ring->q);
	struct owner o = owner_of(&key);
	struct pollfd pfd = {.events = POLLIN};
	int fds[PORT_FDS_MAX];
	unsigned sent = 0;

	o.keeps = true;
	add(f->ring, &o);
	inject(f->at[1], &from, 1);
	poll_ring(f->ring);
	__atomic_store_n(&f->port[1]->lost, true, __ATOMIC_RELEASE);
	poll_ring(f->ring);
	poll_ring(f->other);
	assert_null(q->parts[1]);
	assert_non_null(q->lost[1]); /* somebody has one of its packets */
	inject(f->at[1], &from, 2);
	inject(f->at[0], &from, 3);
	poll_ring(f->ring);
	assert_int_equal(o.n, 2);
	assert_int_equal(o.got[1], 3);
	assert_int_equal(f->team->ops->service(f->team, fds), 0);
	assert_false(f->team->lost);

	for (unsigned d = 0; d < 16; d++) {
		struct flow_key to = destination(d);

		listen_at(f, d);
		send_number(f->ring, &to, d + 1);
	}
	while (receive_number(f->at[0]))
		sent++;
	assert_int_equal(sent, 16);

	hold(f->ring);
	while (o.n_kept)
		pkt_free(kept[--o.n_kept]);
	ring_poll(f->ring);
	release(f->ring);
	assert_null(q->lost[1]);
	o.keeps = false;
	assert_int_equal(ring_fds(f->ring, fds), 1);
	pfd.fd = fds[0];
	assert_true(ring_arm_fds(f->ring));
	inject(f->at[0], &from, 4);
	assert_int_equal(poll(&pfd, 1, 0), 1);
	poll_ring(f->ring);
	assert_int_equal(o.n, 3);
	del(f->ring, &o);
}

static void test_a_team_without_ports_is_lost(void **state)
{
	struct fixture *f = *state;
	int fds[PORT_FDS_MAX];
	struct pkt *pkt;

	for (int i = 0; i < 2; i++)
		__atomic_store_n(&f->port[i]->lost, true, __ATOMIC_RELEASE);
	f->team->ops->service(f->team, fds);
	assert_true(f->team->lost);
	poll_ring(f->ring);
	hold(f->ring);
	pkt = ring_tx_get(f->ring);
	release(f->ring);
	assert_null(pkt);
}

/* ---- flows ------------------------------------------------------------------------------ */

static void test_a_flow_has_one_queue(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7);
	const struct port_ops *ops = f->team->ops;

	assert_int_equal(ops->del_flow(f->ring->q, &key), -ENOENT);
	assert_int_equal(ops->move_flow(f->ring->q, &key), -ENOENT);
	assert_int_equal(ops->add_flow(f->ring->q, &key), 0);
	assert_int_equal(ops->add_flow(f->other->q, &key), -EEXIST);
	assert_int_equal(ops->del_flow(f->other->q, &key), -ENOENT);
	assert_int_equal(ops->take_flow(f->other->q, &key), 0);
	assert_int_equal(ops->del_flow(f->ring->q, &key), -ENOENT);
	assert_int_equal(ops->del_flow(f->other->q, &key), 0);
	assert_int_equal(ops->take_flow(f->other->q, &key), 0); /* which closes with it */
}

static int refuse(struct port_queue *q, const struct flow_key *key)
{
	return -ENOMEM;
}

/* Part 1 of the ring's queue fails to add or move flows. */
static void make_fail(struct ring *ring)
{
	static struct port_ops failing;
	struct port_queue *part = team_queue_of(ring->q)->parts[1];

	failing = *part->ops;
	failing.add_flow = refuse;
	failing.move_flow = refuse;
	part->ops = &failing;
}

static void test_a_flow_that_one_port_refuses_is_at_none(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7), from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	const struct port_ops *ops = f->team->ops;
	struct pkt *pkt;

	make_fail(f->ring);
	assert_int_equal(ops->add_flow(f->ring->q, &key), -ENOMEM);
	inject(f->at[0], &from, 1);
	hold(f->ring);
	assert_int_equal(ops->rx_burst(f->ring->q, &pkt, 1), 0);
	release(f->ring);
	assert_int_equal(ops->add_flow(f->other->q, &key), 0);
}

/* As a socket moves; the error of the last step. */
static int move(struct fixture *f, struct owner *o, struct owner *stand_in)
{
	int rc;

	hold(f->other);
	assert_int_equal(ring_flow_list(f->other, &stand_in->shared.flow), 0);
	release(f->other);
	hold(f->ring);
	assert_int_equal(ring_flow_unsteer(f->ring, &o->shared.flow), 0);
	release(f->ring);
	hold(f->other);
	rc = ring_flow_steer(f->other, &stand_in->shared.flow);
	release(f->other);
	return rc;
}

static void test_a_flow_moves_at_all_ports(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7), from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	struct owner o = owner_of(&key), stand_in = owner_of(&key);

	add(f->ring, &o);
	inject(f->at[0], &from, 1);
	inject(f->at[1], &from, 2);
	assert_int_equal(move(f, &o, &stand_in), 0);
	f->team->ops->barrier(f->team);
	inject(f->at[0], &from, 3);
	inject(f->at[1], &from, 4);
	hold(f->ring);
	ring_drain(f->ring);
	release(f->ring);
	poll_ring(f->other);
	assert_int_equal(o.n, 2);
	assert_int_equal(stand_in.n, 2);
	assert_int_equal(stand_in.got[0] + stand_in.got[1], 7);
	del(f->ring, &o);
	del(f->other, &stand_in);
}

static void test_a_move_that_one_port_refuses_is_undone_at_the_others(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7), from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	struct owner o = owner_of(&key), stand_in = owner_of(&key);

	add(f->ring, &o);
	make_fail(f->other);
	assert_int_equal(move(f, &o, &stand_in), -ENOMEM);
	hold(f->ring);
	ring_flow_resteer(f->ring, &o.shared.flow);
	release(f->ring);
	inject(f->at[0], &from, 1);
	inject(f->at[1], &from, 2);
	poll_ring(f->other);
	poll_ring(f->ring);
	assert_int_equal(stand_in.n, 0);
	assert_int_equal(o.n, 2);
	del(f->other, &stand_in);
	del(f->ring, &o);
}

/* ---- shared flows ----------------------------------------------------------------------- */

static void test_members_of_one_ring_get_whole_senders(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7);
	struct owner o[2] = {owner_of(&key), owner_of(&key)};
	unsigned total[2] = {0, 0};

	for (int i = 0; i < 2; i++) {
		shared_flow_init(&o[i].shared, deliver, 0, true);
		add(f->ring, &o[i]);
	}
	assert_int_not_equal(o[0].shared.share.member, o[1].shared.share.member);
	for (unsigned s = 0; s < 64; s++) {
		struct flow_key from = key5("10.0.0.1", 7, "10.0.0.9", (uint16_t)(1000 + s));

		o[0].n = o[1].n = 0;
		inject(f->at[0], &from, 1);
		inject(f->at[1], &from, 2);
		poll_ring(f->ring);
		assert_int_equal(o[0].n + o[1].n, 2);
		assert_true(!o[0].n || !o[1].n); /* by whichever port it comes */
		total[0] += o[0].n;
		total[1] += o[1].n;
	}
	assert_true(total[0] && total[1]);
	del(f->ring, &o[0]);
	del(f->ring, &o[1]);
}

static void test_a_member_moves_and_leaves(void **state)
{
	struct fixture *f = *state;
	struct flow_key key = key3("10.0.0.1", 7), from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	const struct port_ops *ops = f->team->ops;
	struct flow_share share = {.rank = 0};
	struct pkt *pkts[2];

	assert_int_equal(ops->add_flow(f->ring->q, &key), 0);
	assert_int_equal(ops->reuseport_join(f->other->q, &key, &share), -EEXIST);
	assert_int_equal(ops->reuseport_join(f->ring->q, &key, &share), 0);
	assert_int_equal(ops->del_flow(f->ring->q, &key), -ENOENT); /* it became the member */
	assert_int_equal(ops->reuseport_move(f->other->q, &key, &share), 0);
	inject(f->at[0], &from, 1);
	inject(f->at[1], &from, 2);
	hold(f->other);
	assert_int_equal(ops->rx_burst(f->other->q, pkts, 2), 2);
	pkt_free(pkts[0]);
	pkt_free(pkts[1]);
	release(f->other);
	ops->reuseport_leave(f->other->q, &key, &share);
	assert_int_equal(ops->add_flow(f->ring->q, &key), 0);
}

/* ---- teams ------------------------------------------------------------------------------ */

static void test_a_team_can_do_what_all_its_ports_can(void **state)
{
	struct fixture *f = *state;
	struct port *team, *ports[2] = {f->port[0], f->port[1]};

	f->port[0]->can.zero_copy = true;
	f->port[0]->can.timestamps = f->port[1]->can.timestamps = true;
	f->port[1]->mtu = 1400;
	f->port[1]->linger = 13;
	assert_int_equal(port_team_open(ports, 2, &team, why), 0);
	assert_false(team->can.zero_copy);
	assert_true(team->can.timestamps);
	assert_int_equal(team->mtu, 1400);
	assert_int_equal(team->linger, 13);
	mem_free(team);
	f->port[1]->can.partial_csum = true;
	assert_int_equal(port_team_open(ports, 2, &team, why), -EOPNOTSUPP);
	assert_int_equal(port_team_open(ports, TEAM_PORTS_MAX + 1, &team, why), -EOPNOTSUPP);
}

static int part_rc[2], part_frames[2];

static int moderate_first(struct port_queue *q, uint16_t frames, uint16_t usec)
{
	part_frames[0] = frames;
	return part_rc[0];
}

static int moderate_second(struct port_queue *q, uint16_t frames, uint16_t usec)
{
	part_frames[1] = frames;
	return part_rc[1];
}

/* All parts are told, and what one cannot do the ring cannot. */
static void test_moderation_is_for_all_parts(void **state)
{
	struct fixture *f = *state;
	struct port_queue *q = f->ring->q, *parts[2] = {q->parts, q->parts->next};
	const struct port_ops *had[2] = {parts[0]->ops, parts[1]->ops};
	struct port_ops ops[2] = {*had[0], *had[1]};

	assert_int_equal(q->ops->moderate(q, 5, 50), -EOPNOTSUPP);
	ops[0].moderate = moderate_first;
	ops[1].moderate = moderate_second;
	parts[0]->ops = &ops[0];
	parts[1]->ops = &ops[1];
	assert_int_equal(q->ops->moderate(q, 5, 50), 0);
	assert_int_equal(part_frames[0], 5);
	assert_int_equal(part_frames[1], 5);
	part_rc[0] = -EIO;
	assert_int_equal(q->ops->moderate(q, 6, 50), -EIO);
	assert_int_equal(part_frames[1], 6);
	part_rc[0] = 0;
	part_rc[1] = -EIO;
	assert_int_equal(q->ops->moderate(q, 7, 50), -EIO);
	part_rc[1] = 0;
	parts[0]->ops = had[0];
	parts[1]->ops = had[1];
}

static int open_team(int ifindex, struct port **team, char reason[PORT_WHY])
{
	struct port *ports[2];

	for (int i = 0; i < 2; i++)
		assert_int_equal(port_loop_open(1500, &ports[i]), 0);
	return port_team_open(ports, 2, team, reason);
}

static void test_the_registry_opens_rings_of_a_team(void **state)
{
	static const struct port_kind kind = FAKE_KIND(open_team);
	static const struct port_kind *const kinds[] = {&kind, NULL};
	struct ring *ring;
	bool fresh;

	rings_init(kinds);
	assert_int_equal(rings_get(4711, 0, &ring, why, &fresh), 0);
	assert_non_null(team_queue_of(ring->q)->parts[1]);
	rings_close_all();
	assert_false(ring_is_open(ring));
	mem_free(ring);
	rings_forget(false);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	TEST(test_frames_arrive_from_both_ports_in_the_order_of_each),
	TEST(test_a_small_burst_leaves_no_port_out),
	TEST(test_a_queue_that_runs_short_makes_the_ring_copy),
	TEST(test_packets_that_another_thread_frees_return_to_their_queues),
	TEST(test_each_destination_has_one_port_and_all_ports_are_used),
	TEST(test_a_frame_at_either_port_ends_a_sleep),
	TEST(test_when_a_port_is_lost_the_other_goes_on),
	TEST(test_a_team_without_ports_is_lost),
	TEST(test_a_flow_has_one_queue),
	TEST(test_a_flow_that_one_port_refuses_is_at_none),
	TEST(test_a_flow_moves_at_all_ports),
	TEST(test_a_move_that_one_port_refuses_is_undone_at_the_others),
	TEST(test_members_of_one_ring_get_whole_senders),
	TEST(test_a_member_moves_and_leaves),
	TEST(test_a_team_can_do_what_all_its_ports_can),
	TEST(test_moderation_is_for_all_parts),
	TEST(test_the_registry_opens_rings_of_a_team),
};

VMA_TEST_MAIN("port_team", tests, NULL, NULL)
