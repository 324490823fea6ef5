/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several processes use the same port one after the other: RFC 6528 section 3, RFC 6191, RFC
 * 9293 section 3.5.1. The peer has the last connection in TIME-WAIT, or has half of it, or does
 * not know that it ended.
 */
#include "tests/sim/sim.h"
#include "tests/vma_test.h"

#ifdef NDEBUG
#define SEEDS 5000
#else
#define SEEDS 1000
#endif
#define LIVES 6

enum end { A_CLOSES_FIRST, B_CLOSES_FIRST, BOTH_CLOSE, A_DIES, ENDS };

/* Duration of the handshake of the next connection. */
static nsec_t open_again(struct sim *sim)
{
	nsec_t begin = sim->now;

	sim_log_clear(sim);
	sim_open(sim, A);
	while (!sim->host[A].established && sim_step(sim))
		;
	SIM_CHECK(sim, sim->host[A].established == 1);
	return sim->now - begin;
}

/* Runs until nothing is in transit, or until the next event is a timer of a minute. */
static void calm_down(struct sim *sim)
{
	while (sim_next(sim) - sim->now < 20 * SEC && sim_step(sim))
		;
}

static void close_gently(struct sim *sim, int h)
{
	if (!sim->host[h].exists)
		return;
	sim_drain(sim, h);
	sim_close(sim, h);
}

static void live_and_end(struct sim *sim, enum end end)
{
	sim_send(sim, A, 1 + sim_random(sim, 2000), 0);
	sim_run(sim, sim_random(sim, 50) * MSEC);
	if (end == A_DIES) {
		if (sim_chance(sim, 500))
			calm_down(sim);
		sim_kill(sim, A);
		return;
	}
	calm_down(sim);
	sim_drain(sim, B);
	if (end == BOTH_CLOSE) {
		sim_close(sim, A);
		sim_close(sim, B);
	} else {
		close_gently(sim, end == A_CLOSES_FIRST ? A : B);
		calm_down(sim);
		close_gently(sim, end == A_CLOSES_FIRST ? B : A);
	}
	calm_down(sim);
	sim_kill(sim, A);
}

static struct sim *begin(uint64_t seed, bool bad)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.seed = seed;
	params.again = true;
	params.config[A].timestamps = seed % 3 != 0;
	params.config[B].timestamps = seed % 5 != 0;
	sim = sim_create(&params);
	for (int h = A; h <= B; h++) {
		struct sim_link *link = &sim->params.link[h];

		link->delay = (nsec_t)(1 + sim_random(sim, 60)) * MSEC;
		if (!bad)
			continue;
		link->jitter = sim_random(sim, 40) * MSEC;
		link->loss = sim_random(sim, 100);
		link->duplicate = sim_random(sim, 100);
	}
	sim_listen(sim, B);
	return sim;
}

/* Ends the last connection in any state. */
static void finish(struct sim *sim)
{
	calm_down(sim);
	if (sim->host[B].exists && !sim->host[B].closed)
		close_gently(sim, B);
	sim_run(sim, 4000 * SEC);
	sim_kill(sim, A);
	sim_kill(sim, B);
	SIM_CHECK(sim, sim_next(sim) == NSEC_NEVER);
	sim_destroy(sim);
}

/* The peer accepts the first SYN, unless it does not know that the connection ended. */
static void test_with_the_same_secret_the_first_syn_is_taken(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim *sim = begin(seed, false);
		enum end end = A_CLOSES_FIRST;

		for (int life = 0; life < LIVES; life++) {
			nsec_t took = open_again(sim);

			SIM_CHECK(sim, took < SEC);
			if (end != A_DIES)
				SIM_CHECK(sim, sim_count(sim, A, TCP_SYN) == 1);
			calm_down(sim);
			end = (enum end)sim_random(sim, ENDS);
			live_and_end(sim, end);
			sim_run(sim, (nsec_t)sim_random(sim, 20) * (life % 2 ? SEC : MSEC));
		}
		finish(sim);
	}
}

/* Otherwise the SYN is repeated at once, without waiting for a timer. */
static void test_with_another_secret_it_is_repeated_at_once(void **state)
{
	unsigned repeated = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim *sim = begin(seed, false);

		for (int life = 0; life < LIVES; life++) {
			nsec_t took = open_again(sim);
			unsigned syns = sim_count(sim, A, TCP_SYN);

			SIM_CHECK(sim, took < SEC && syns <= 2);
			repeated += syns - 1;
			calm_down(sim);
			live_and_end(sim, (enum end)sim_random(sim, ENDS));
			sim->host[A].secret[15]++;
		}
		finish(sim);
	}
	assert_true(repeated > SEEDS); /* that case occurred */
}

/* Late segments of one connection do not get into the next one. */
static void test_over_a_bad_link_each_has_its_own_bytes(void **state)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sim *sim = begin(seed, true);

		for (int life = 0; life < LIVES; life++) {
			(void)open_again(sim);
			sim_run(sim, sim_random(sim, 100) * MSEC);
			live_and_end(sim, (enum end)sim_random(sim, ENDS));
			if (sim_chance(sim, 300))
				sim->host[A].secret[15]++;
			sim_run(sim, (nsec_t)sim_random(sim, 3000) * MSEC);
		}
		finish(sim);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_with_the_same_secret_the_first_syn_is_taken),
	cmocka_unit_test(test_with_another_secret_it_is_repeated_at_once),
	cmocka_unit_test(test_over_a_bad_link_each_has_its_own_bytes),
};

VMA_TEST_MAIN("restart", tests, NULL, NULL)
