/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports that come, go, and stop to send, while a team has rings:
 *
 *	at[0] --- port 0 ---+
 *	at[1] --- port 1 ---+--- ring, other
 *	at[2] --- port 2 . .+
 */
#include <errno.h>
#include <poll.h>

#include "net/drop.h"
#include "ring/loop/port_loop.h"
#include "ring/team/port_team.h"
#include "team_rings.h"

#define PORTS 3
#define KEPT 16

struct owner {
	struct shared_flow shared; /* first */
	unsigned n;
	uint64_t last;
	bool keeps;
	struct pkt *kept[KEPT];
	unsigned n_kept;
};

struct fixture {
	struct port *port[PORTS], *team;
	struct port_queue *at[PORTS];
	struct ring *ring, *other;
	struct owner o;
};

static unsigned chosen; /* by the hash */

static enum drop deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct owner *o = (struct owner *)flow;

	(void)ring;
	(void)now;
	o->n++;
	memcpy(&o->last, pkt_payload(pkt), sizeof(o->last));
	if (o->keeps && o->n_kept < KEPT)
		o->kept[o->n_kept++] = pkt;
	else
		pkt_free(pkt);
	return DROP_NONE;
}

static uint32_t hash(const uint8_t *frame, const void *arg)
{
	(void)frame;
	(void)arg;
	return chosen;
}

static void view(struct fixture *f, uint32_t sends, uint32_t hears)
{
	struct team_view to = {.hears = hears};

	for (uint8_t slot = 0; slot < TEAM_PORTS_MAX; slot++) {
		if (sends >> slot & 1)
			to.sender[to.n++] = slot;
	}
	port_team_set_view(f->team, &to);
}

static const struct flow_key *key(void)
{
	static struct flow_key k;

	k = key3("10.0.0.1", 7);
	return &k;
}

static int setup(void **state)
{
	static const struct team_rules rules = {.hash = hash, .fragile = true};
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	clock_init();
	ring_mode = HOLD_SPIN;
	rings_init(NULL);
	chosen = 0;
	for (int i = 0; i < PORTS; i++) {
		assert_int_equal(port_loop_open(1500, &f->port[i]), 0);
		assert_int_equal(f->port[i]->ops->open_queue(f->port[i], &f->at[i], why), 0);
	}
	assert_int_equal(port_team_open(f->port, 2, &f->team, why), 0);
	port_team_set_rules(f->team, &rules, NULL);
	f->ring = open_ring(f->team, 0);
	f->other = open_ring(f->team, 1);
	f->o.shared.flow = (struct flow){.key = *key(), .deliver = deliver};
	hold(f->ring);
	assert_int_equal(ring_flow_add(f->ring, &f->o.shared.flow), 0);
	release(f->ring);
	*state = f;
	return 0;
}

static void give_back(struct fixture *f)
{
	hold(f->ring);
	while (f->o.n_kept)
		pkt_free(f->o.kept[--f->o.n_kept]);
	ring_poll(f->ring);
	release(f->ring);
}

/* Before a port is freed. */
static void close_at(struct fixture *f, unsigned i)
{
	f->at[i]->ops->close_queue(f->at[i]);
	f->at[i] = NULL;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct ring *rings[] = {f->ring, f->other};

	give_back(f);
	for (int i = 0; i < 2; i++) {
		hold(rings[i]);
		assert_true(rings[i]->ops->idle(rings[i]->q)); /* all packets are back */
		ring_close(rings[i]);
		release(rings[i]);
		mem_free(rings[i]);
	}
	for (unsigned i = 0; i < PORTS; i++) {
		if (f->at[i])
			close_at(f, i);
	}
	f->team->ops->free_port(f->team);
	free(f);
	return 0;
}

/* Also frees the port that no test has added. */
static int teardown_unused(void **state)
{
	struct fixture *f = *state;

	close_at(f, 2);
	f->port[2]->ops->free_port(f->port[2]);
	return teardown(state);
}

/* ---- frames ----------------------------------------------------------------------------- */

static void inject(struct fixture *f, unsigned i, uint64_t number)
{
	struct flow_key from = key5("10.0.0.1", 7, "10.0.0.9", 9);
	struct port_queue *at = f->at[i];
	struct pkt *pkt = at->ops->tx_get(at);

	assert_non_null(pkt);
	fake_build(pkt, &from, number);
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

/* Does a frame that arrives at the port come to the socket? */
static bool arrives(struct fixture *f, unsigned i)
{
	static uint64_t number;
	unsigned before = f->o.n;

	inject(f, i, ++number);
	poll_ring(f->ring);
	poll_ring(f->other);
	assert_true(f->o.n - before <= 1); /* never twice */
	assert_true(f->o.n == before || f->o.last == number);
	return f->o.n > before;
}

static uint64_t dropped(const struct fixture *f)
{
	return f->ring->stats.drops[DROP_BOND_BACKUP];
}

/* The port by which a frame leaves; -1: by none. */
static int leaves_by(struct fixture *f)
{
	struct flow_key to = key5("10.1.0.1", 7, "10.0.0.1", 9), wide = to;
	struct pkt *pkt;
	int by = -1;

	wide.remote_port = 0;
	for (unsigned i = 0; i < PORTS; i++)
		if (f->at[i])
			assert_int_equal(f->at[i]->ops->add_flow(f->at[i], &wide), 0);
	hold(f->ring);
	pkt = ring_tx_get(f->ring);
	assert_non_null(pkt);
	fake_build(pkt, &to, 1);
	ring_tx_put(f->ring, pkt);
	release(f->ring);
	for (int i = 0; i < PORTS; i++) {
		if (!f->at[i])
			continue;
		while (f->at[i]->ops->rx_burst(f->at[i], &pkt, 1)) {
			assert_int_equal(by, -1);
			by = i;
			pkt_free(pkt);
		}
		f->at[i]->ops->del_flow(f->at[i], &wide);
	}
	return by;
}

/* ---- senders ---------------------------------------------------------------------------- */

static void test_frames_leave_by_the_sender(void **state)
{
	struct fixture *f = *state;

	for (unsigned n = 0; n < 6; n++) {
		view(f, 1u << n % 2, 3);
		assert_int_equal(leaves_by(f), n % 2);
	}
	view(f, 0, 3);
	assert_int_equal(leaves_by(f), -1);
	view(f, 2, 3);
	assert_int_equal(leaves_by(f), 1);
}

static void test_the_hash_chooses_among_the_senders(void **state)
{
	struct fixture *f = *state;

	view(f, 3, 3);
	for (chosen = 0; chosen < 6; chosen++)
		assert_int_equal(leaves_by(f), chosen % 2);
	__atomic_store_n(&f->port[1]->lost, true, __ATOMIC_RELEASE);
	poll_ring(f->ring);
	for (chosen = 0; chosen < 2; chosen++)
		assert_int_equal(leaves_by(f), 0); /* no queue is left there */
}

static void test_a_fragile_team_is_lost_with_one_port(void **state)
{
	struct fixture *f = *state;
	int fds[PORT_FDS_MAX];

	f->team->ops->service(f->team, fds);
	assert_false(f->team->lost);
	__atomic_store_n(&f->port[1]->lost, true, __ATOMIC_RELEASE);
	f->team->ops->service(f->team, fds);
	assert_true(f->team->lost);
}

/* ---- who is heard ------------------------------------------------------------------------- */

static void test_frames_of_a_backup_are_dropped_and_counted(void **state)
{
	struct fixture *f = *state;

	view(f, 1, 1);
	/* The queue learns it, and has room for what had arrived before: there is none. */
	poll_ring(f->ring);
	assert_true(arrives(f, 0));
	for (unsigned n = 0; n < 4; n++)
		assert_false(arrives(f, 1));
	assert_int_equal(dropped(f), 4);
	view(f, 2, 2);
	poll_ring(f->ring);
	assert_true(arrives(f, 1));
	assert_false(arrives(f, 0));
	assert_int_equal(dropped(f), 5);
	view(f, 2, 3);
	assert_true(arrives(f, 0));
	assert_true(arrives(f, 1));
	assert_int_equal(dropped(f), 5);
}

static void test_what_arrived_before_the_change_is_delivered(void **state)
{
	struct fixture *f = *state;

	for (unsigned n = 0; n < 100; n++)
		inject(f, 1, n);
	view(f, 1, 1);
	poll_ring(f->ring);
	assert_int_equal(f->o.n, 100);
	assert_int_equal(f->o.last, 99);
	assert_false(arrives(f, 1));
	assert_int_equal(dropped(f), 1);
}

/* ---- ports come and go ---------------------------------------------------------------------- */

static void test_a_port_that_comes_gets_the_flows_and_sends(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(port_team_add(f->team, f->port[2], why), 2);
	assert_ptr_equal(port_team_at(f->team, 2), f->port[2]);
	view(f, 4, 7);
	for (unsigned i = 0; i < PORTS; i++)
		assert_true(arrives(f, i));
	assert_int_equal(leaves_by(f), 2);
}

static void test_a_port_that_comes_ends_a_sleep(void **state)
{
	struct fixture *f = *state;
	int fds[PORT_FDS_MAX];
	struct pollfd pfd = {.events = POLLIN};

	assert_int_equal(port_team_add(f->team, f->port[2], why), 2);
	assert_int_equal(ring_fds(f->ring, fds), 1);
	pfd.fd = fds[0];
	view(f, 7, 7);
	for (unsigned i = 0; i < PORTS; i++) {
		assert_true(ring_arm_fds(f->ring));
		assert_int_equal(poll(&pfd, 1, 0), 0);
		inject(f, i, i);
		assert_int_equal(poll(&pfd, 1, 0), 1);
		poll_ring(f->ring);
	}
	assert_int_equal(f->o.n, PORTS);
}

static void test_a_port_that_can_less_is_refused(void **state)
{
	struct fixture *f = *state;

	f->port[2]->mtu = 1400;
	close_at(f, 2);
	assert_int_equal(port_team_add(f->team, f->port[2], why), -EOPNOTSUPP);
	assert_non_null(strstr(why, "can do less"));
	assert_null(port_team_at(f->team, 2));
}

static void test_there_is_room_for_so_many(void **state)
{
	struct fixture *f = *state;
	struct port *port;

	for (int slot = 2; slot < TEAM_PORTS_MAX; slot++) {
		assert_int_equal(port_loop_open(1500, &port), 0);
		assert_int_equal(port_team_add(f->team, port, why), slot);
	}
	assert_int_equal(port_loop_open(1500, &port), 0);
	assert_int_equal(port_team_add(f->team, port, why), -ENOSPC);
}

static void test_what_a_port_has_is_delivered_before_it_goes(void **state)
{
	struct fixture *f = *state;

	f->o.keeps = true;
	for (unsigned n = 0; n < 3; n++)
		inject(f, 1, n);
	port_team_remove(f->team, 1);
	assert_int_equal(f->o.n, 3);
	assert_false(arrives(f, 1));
	assert_true(arrives(f, 0));
	assert_int_equal(leaves_by(f), 0);
	/* Its packets keep it. */
	assert_true(port_team_is_leaving(f->team, 1));
	assert_true(port_team_reap(f->team));
	assert_ptr_equal(port_team_at(f->team, 1), f->port[1]);
	give_back(f);
	close_at(f, 1);
	assert_false(port_team_reap(f->team));
	assert_null(port_team_at(f->team, 1));
	assert_int_equal(port_team_add(f->team, f->port[2], why), 1); /* the slot is free */
	assert_true(arrives(f, 2));
}

static void test_a_port_that_is_leaving_can_stay(void **state)
{
	struct fixture *f = *state;

	f->o.keeps = true;
	assert_true(arrives(f, 1));
	port_team_remove(f->team, 1);
	assert_true(port_team_reap(f->team));
	assert_false(arrives(f, 1));
	f->o.keeps = false;
	assert_int_equal(port_team_restore(f->team, 1, why), 1);
	assert_false(port_team_is_leaving(f->team, 1));
	assert_true(arrives(f, 1));
	assert_false(port_team_reap(f->team));
	view(f, 2, 3);
	assert_int_equal(leaves_by(f), 1);
	give_back(f);
	assert_true(arrives(f, 1));
}

static void test_a_flow_that_moves_after_a_port_came_is_at_it(void **state)
{
	struct fixture *f = *state;
	const struct port_ops *ops = f->team->ops;
	struct owner o = {.shared.flow = {.key = *key(), .deliver = deliver}};

	assert_int_equal(port_team_add(f->team, f->port[2], why), 2);
	hold(f->other);
	assert_int_equal(ring_flow_list(f->other, &o.shared.flow), 0);
	release(f->other);
	hold(f->ring);
	assert_int_equal(ring_flow_unsteer(f->ring, &f->o.shared.flow), 0);
	release(f->ring);
	hold(f->other);
	assert_int_equal(ring_flow_steer(f->other, &o.shared.flow), 0);
	release(f->other);
	for (unsigned i = 0; i < PORTS; i++)
		inject(f, i, i);
	poll_ring(f->other);
	poll_ring(f->ring);
	assert_int_equal(o.n, PORTS);
	assert_int_equal(f->o.n, 0);
	hold(f->other);
	ring_flow_del(f->other, &o.shared.flow);
	release(f->other);
	assert_int_equal(ops->del_flow(f->other->q, key()), -ENOENT);
}

static void test_members_join_at_a_port_that_comes(void **state)
{
	struct fixture *f = *state;
	struct flow_key shared = key3("10.0.0.1", 8);
	struct owner o[2] = {0};
	unsigned total[2] = {0, 0};

	for (int i = 0; i < 2; i++) {
		o[i].shared.flow = (struct flow){.key = shared, .deliver = deliver};
		shared_flow_init(&o[i].shared, deliver, 0, true);
		hold(f->ring);
		assert_int_equal(ring_flow_add(f->ring, &o[i].shared.flow), 0);
		release(f->ring);
	}
	assert_int_equal(port_team_add(f->team, f->port[2], why), 2);
	for (unsigned s = 0; s < 64; s++) {
		struct flow_key from = key5("10.0.0.1", 8, "10.0.0.9", (uint16_t)(1000 + s));

		o[0].n = o[1].n = 0;
		for (unsigned i = 0; i < PORTS; i++) {
			struct pkt *pkt = f->at[i]->ops->tx_get(f->at[i]);

			fake_build(pkt, &from, s);
			f->at[i]->ops->tx_put(f->at[i], pkt);
			f->at[i]->ops->tx_flush(f->at[i]);
		}
		poll_ring(f->ring);
		assert_int_equal(o[0].n + o[1].n, PORTS);
		assert_true(!o[0].n || !o[1].n); /* by whichever port it comes */
		total[0] += o[0].n;
		total[1] += o[1].n;
	}
	assert_true(total[0] && total[1]);
	hold(f->ring);
	for (int i = 0; i < 2; i++)
		ring_flow_del(f->ring, &o[i].shared.flow);
	release(f->ring);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_UNUSED(name) cmocka_unit_test_setup_teardown(name, setup, teardown_unused)

static const struct CMUnitTest tests[] = {
	TEST_UNUSED(test_frames_leave_by_the_sender),
	TEST_UNUSED(test_the_hash_chooses_among_the_senders),
	TEST_UNUSED(test_a_fragile_team_is_lost_with_one_port),
	TEST_UNUSED(test_frames_of_a_backup_are_dropped_and_counted),
	TEST_UNUSED(test_what_arrived_before_the_change_is_delivered),
	TEST(test_a_port_that_comes_gets_the_flows_and_sends),
	TEST(test_a_port_that_comes_ends_a_sleep),
	TEST(test_a_port_that_can_less_is_refused),
	TEST_UNUSED(test_there_is_room_for_so_many),
	TEST(test_what_a_port_has_is_delivered_before_it_goes),
	TEST_UNUSED(test_a_port_that_is_leaving_can_stay),
	TEST(test_a_flow_that_moves_after_a_port_came_is_at_it),
	TEST(test_members_join_at_a_port_that_comes),
};

VMA_TEST_MAIN("port_team_change", tests, NULL, NULL)
