/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers that grow with the path: RFC 7323 section 1.1, tcp(7) tcp_moderate_rcvbuf. */
#include "tests/sim/sim.h"
#include "tests/vma_test.h"

/* 80 Mbit/s, round-trip time 200 ms: the bandwidth-delay product is 2 MB. */
#define RATE 10000000u
#define ONE_WAY (100 * MSEC)
#define PIPE (RATE / 5)
#define FIRST (256u << 10)

static struct sim *long_fat(uint32_t rcvbuf_max, uint32_t sndbuf_max)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.config[A].sndbuf = FIRST;
	params.config[A].sndbuf_max = sndbuf_max;
	params.config[B].rcvbuf = FIRST;
	params.config[B].rcvbuf_max = rcvbuf_max;
	params.link[A].bytes_per_sec = RATE;
	params.link[A].delay = ONE_WAY;
	params.link[A].queue = PIPE / 2;
	params.config[A].cc_algo = 1;
	params.link[B].delay = ONE_WAY;
	sim = sim_create(&params);
	sim_establish(sim);
	sim_run(sim, SEC);
	return sim;
}

static void test_fixed_buffers_bound_the_rate(void **state)
{
	struct sim *sim = long_fat(0, 8u << 20);

	sim_pump(sim, 5 * SEC);
	assert_in_range(sim_pump(sim, 5 * SEC), 0, 25 * FIRST * 11 / 10);
	sim_end(sim);
	sim = long_fat(8u << 20, 0);
	sim_pump(sim, 5 * SEC);
	assert_in_range(sim_pump(sim, 5 * SEC), 0, 25 * FIRST * 11 / 10);
	sim_end(sim);
}

static void test_buffers_that_grow_fill_the_pipe(void **state)
{
	struct sim *sim = long_fat(16u << 20, 16u << 20);
	uint64_t bytes;

	sim_pump(sim, 3 * SEC);
	bytes = sim_pump(sim, 5 * SEC);
	print_message("%u %% of the link, receive buffer %u KB, send buffer %u KB\n",
		      (unsigned)(bytes * 20 / RATE), sim->host[B].conn.rcvbuf >> 10,
		      sim->host[A].conn.sndbuf >> 10);
	assert_true(bytes >= 5ull * RATE * 90 / 100);
	assert_in_range(sim->host[B].conn.rcvbuf, PIPE, 8 * PIPE);
	assert_true(sim->host[A].conn.sndbuf >= PIPE);
	sim_end(sim);
}

static void test_a_slow_start_is_not_slowed(void **state)
{
	struct sim *tuned = long_fat(16u << 20, 16u << 20), *wide;
	struct sim_params params = tuned->params;
	uint64_t bytes = sim_pump(tuned, 2 * SEC), more;

	params.config[A].sndbuf = params.config[B].rcvbuf = 16u << 20;
	wide = sim_create(&params);
	sim_establish(wide);
	sim_run(wide, SEC);
	more = sim_pump(wide, 2 * SEC);
	print_message("%llu bytes, with large buffers %llu\n", (unsigned long long)bytes,
		      (unsigned long long)more);
	assert_true(bytes * 100 >= more * 95);
	sim_end(wide);
	sim_end(tuned);
}

static void test_a_slow_reader_does_not_make_it_grow(void **state)
{
	struct sim *sim = long_fat(16u << 20, 16u << 20);

	for (int i = 0; i < 2000; i++) {
		sim_send(sim, A, 500000, 0);
		sim_run(sim, 10 * MSEC);
		sim_recv(sim, B, 4000); /* 80 KB per round trip */
	}
	assert_int_equal(sim->host[B].conn.rcvbuf, FIRST);
	sim_end(sim);
}

static void test_a_reader_that_reads_all_at_times_is_slow(void **state)
{
	struct sim *sim = long_fat(16u << 20, 16u << 20);

	for (int i = 0; i < 10; i++) {
		sim_send(sim, A, 500000, 0);
		sim_run(sim, 3 * SEC);
		for (int k = 0; k < 64; k++) /* in pieces, so that each can change the estimate */
			sim_recv(sim, B, FIRST / 64);
	}
	assert_int_equal(sim->host[B].conn.rcvbuf, FIRST);
	sim_end(sim);
}

static void test_buffers_of_a_short_path_stay_small(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.config[A].sndbuf = params.config[B].rcvbuf = FIRST;
	params.config[A].sndbuf_max = params.config[B].rcvbuf_max = 16u << 20;
	params.link[A].bytes_per_sec = RATE;
	params.link[A].delay = params.link[B].delay = 100 * USEC;
	params.link[A].queue = 20000;
	sim = sim_create(&params);
	sim_establish(sim);
	assert_true(sim_pump(sim, 5 * SEC) >= 4 * RATE);
	assert_int_equal(sim->host[B].conn.rcvbuf, FIRST);
	sim_end(sim);
}

/* The simulator checks every window: its right edge never moves back. */
static void test_the_right_edge_stays_when_the_program_chooses_less(void **state)
{
	struct sim *sim = long_fat(16u << 20, 16u << 20);

	sim_pump(sim, 2 * SEC);
	tcp_set_rcvbuf(&sim->host[B].conn, 65536);
	sim_pump(sim, 2 * SEC);
	assert_int_equal(sim->host[B].conn.rcvbuf, 65536);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_fixed_buffers_bound_the_rate),
	cmocka_unit_test(test_buffers_that_grow_fill_the_pipe),
	cmocka_unit_test(test_a_slow_start_is_not_slowed),
	cmocka_unit_test(test_a_slow_reader_does_not_make_it_grow),
	cmocka_unit_test(test_a_reader_that_reads_all_at_times_is_slow),
	cmocka_unit_test(test_buffers_of_a_short_path_stay_small),
	cmocka_unit_test(test_the_right_edge_stays_when_the_program_chooses_less),
};

VMA_TEST_MAIN("buffers", tests, NULL, NULL)
