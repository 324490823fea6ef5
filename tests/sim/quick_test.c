/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The quick ways of a send and of a read (one buffer) leave the same segments and the same connection
 * as the general ones (two): two simulations in step, of which one has the latter only.
 */
#include <errno.h>

#include "tests/guard.h"
#include "tests/sim/sim.h"
#include "tests/vma_test.h"

enum { QUICK, GENERAL };

/* Without addresses, and where in its memory the send buffer begins. */
static struct tcp_conn bare(const struct sim *sim, int h)
{
	struct tcp_conn c = sim->host[h].conn;

	c.ops = NULL;
	c.flight = NULL;
	c.rare = NULL;
	c.snd.data = NULL;
	c.snd.head = 0;
	c.rcv.head = c.rcv.tail = c.rcv.ooo = c.rcv.ooo_run = NULL;
	return c;
}

static void check_same(struct sim *const sims[2])
{
	assert_int_equal(sims[QUICK]->segments, sims[GENERAL]->segments);
	assert_int_equal(sims[QUICK]->logged, sims[GENERAL]->logged);
	assert_memory_equal(sims[QUICK]->log, sims[GENERAL]->log,
			    sims[QUICK]->logged * sizeof(sims[QUICK]->log[0]));
	for (int h = A; h <= B; h++) {
		struct tcp_conn quick = bare(sims[QUICK], h), general = bare(sims[GENERAL], h);
		const struct tcp_flight *f = sims[QUICK]->host[h].conn.flight;

		assert_memory_equal(&quick, &general, sizeof(quick));
		if (f)
			assert_memory_equal(f, sims[GENERAL]->host[h].conn.flight,
					    sizeof(*f) + f->n * sizeof(f->r[0]));
		assert_int_equal(sims[QUICK]->host[h].readable, sims[GENERAL]->host[h].readable);
	}
}

/* Both programs send a little, read, and wait, in a way that the seed determines. */
static void converse(struct sim_params params, uint64_t seed, unsigned steps)
{
	struct sim *sims[2], *dice;

	params.seed = seed;
	for (int i = QUICK; i <= GENERAL; i++) {
		params.parts = i == GENERAL;
		sims[i] = sim_create(&params);
		sim_establish(sims[i]);
	}
	dice = sim_create(&params);
	for (unsigned step = 0; step < steps; step++) {
		unsigned what = sim_random(dice, 100), h = sim_random(dice, 2);
		uint32_t n = sim_random(dice, what < 30 ? 30 : what < 35 ? 3000 : 400);
		nsec_t time = what < 99 ? 4 * MSEC * sim_random(dice, 6) : 400 * MSEC;

		for (int i = QUICK; i <= GENERAL; i++) {
			if (what < 60)
				sim_send(sims[i], (int)h, n, what == 7 ? TCP_SEND_MORE : 0);
			else if (what < 80)
				sim_recv(sims[i], (int)h, n);
			else
				sim_run(sims[i], time);
		}
		check_same(sims);
	}
	sim_destroy(dice);
	for (int i = QUICK; i <= GENERAL; i++)
		sim_end(sims[i]);
}

static void test_both_ways_are_the_same(void **state)
{
	converse(sim_defaults(), 1, 3000);
}

static void test_with_losses(void **state)
{
	struct sim_params params = sim_defaults();

	for (int h = A; h <= B; h++)
		params.link[h].loss = 50;
	converse(params, 2, 3000);
}

static void test_with_small_buffers(void **state)
{
	struct sim_params params = sim_defaults();

	params.link[A].duplicate = 100;
	params.config[A].sndbuf = params.config[A].sndbuf_max = 4096;
	params.config[B].rcvbuf = params.config[B].rcvbuf_max = 4096;
	converse(params, 3, 3000);
}

static void test_without_delay_and_timestamps(void **state)
{
	struct sim_params params = sim_defaults();

	params.config[A].nodelay = params.config[B].nodelay = true;
	params.config[A].timestamps = params.config[B].timestamps = false;
	converse(params, 4, 3000);
}

static void test_with_ecn(void **state)
{
	struct sim_params params = sim_defaults();

	params.config[A].ecn = params.config[B].ecn = TCP_ECN_ASK;
	params.link[A].mark = 100;
	converse(params, 5, 3000);
}

/* Else the tests above would compare nothing. */
static void test_a_message_takes_the_quick_way(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	for (int i = 0; i < 10; i++) {
		for (int h = A; h <= B; h++) {
			sim_send(sim, h, 14, 0);
			sim_run(sim, 6 * MSEC);
			assert_int_equal(sim_recv(sim, !h, 20), 14);
		}
		assert_true(i == 0 || sim->host[B].conn.snd.head == 0);
	}
	sim_end(sim);
}

/* Memory that cannot be read changes nothing. */
static void test_a_fault(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct iovec bad = {(void *)16, 14};
	struct tcp_conn *c;

	test_guard();
	sim_establish(sim);
	c = &sim->host[A].conn;
	sim_send(sim, A, 14, 0);
	sim_run(sim, SEC);
	assert_int_equal(tcp_send(c, &bad, 1, 0, sim->now), -EFAULT);
	assert_int_equal(c->snd.len, 0);
	sim_send(sim, A, 14, 0);
	sim_run(sim, SEC);
	assert_int_equal(sim_drain(sim, B), 28);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_both_ways_are_the_same),
	cmocka_unit_test(test_with_losses),
	cmocka_unit_test(test_with_small_buffers),
	cmocka_unit_test(test_without_delay_and_timestamps),
	cmocka_unit_test(test_with_ecn),
	cmocka_unit_test(test_a_message_takes_the_quick_way),
	cmocka_unit_test(test_a_fault),
};

VMA_TEST_MAIN("quick", tests, NULL, NULL)
