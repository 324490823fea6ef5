/* SPDX-License-Identifier: BSD-2-Clause */
/* Congestion control over a bottleneck: RFC 5681, RFC 9438, RFC 9406. */
#include "tests/sim/sim.h"
#include "tests/vma_test.h"

/* 10 Mbit/s, round-trip time 40 ms: the bandwidth-delay product is 50 KB. */
#define RATE 1250000u
#define BYTES_PER_RTT (RATE / 25)

static struct sim *bottleneck(unsigned algorithm, uint32_t queue)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.config[A].cc_algo = (uint8_t)algorithm;
	params.config[A].sndbuf = 1u << 20;
	params.config[B].rcvbuf = 1u << 20;
	params.link[A].bytes_per_sec = RATE;
	params.link[A].queue = queue;
	params.link[A].delay = 20 * MSEC;
	params.link[B].delay = 20 * MSEC;
	sim = sim_create(&params);
	sim_establish(sim);
	sim_run(sim, SEC);
	return sim;
}

static void test_each_algorithm_uses_the_bottleneck(void **state)
{
	for (unsigned algorithm = 0; algorithm < 2; algorithm++) {
		struct sim *sim = bottleneck(algorithm, BYTES_PER_RTT);

		sim_pump(sim, 5 * SEC);
		assert_in_range(sim_pump(sim, 20 * SEC), 20ull * RATE * 90 / 100, 20ull * RATE);
		print_message("%s: %u segments repeated\n", sim->host[A].conn.cc.ops->name,
			      sim->host[A].conn.retransmits);
		sim_end(sim);
	}
}

static void test_an_algorithm_can_be_changed_during_a_connection(void **state)
{
	struct sim *sim = bottleneck(0, BYTES_PER_RTT);

	sim_pump(sim, 3 * SEC);
	tcp_set_congestion(&sim->host[A].conn, 1);
	sim_pump(sim, 3 * SEC);
	tcp_set_congestion(&sim->host[A].conn, 2);
	assert_int_equal(sim->host[A].conn.cc.cwnd, TCP_CC_MAX_WINDOW);
	sim_pump(sim, SEC);
	tcp_set_congestion(&sim->host[A].conn, 0);
	sim_pump(sim, 2 * SEC); /* the losses of the overshoot are repaired */
	assert_in_range(sim_pump(sim, 5 * SEC), 5ull * RATE * 90 / 100, 5ull * RATE);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_each_algorithm_uses_the_bottleneck),
	cmocka_unit_test(test_an_algorithm_can_be_changed_during_a_connection),
};

VMA_TEST_MAIN("congestion", tests, NULL, NULL)
