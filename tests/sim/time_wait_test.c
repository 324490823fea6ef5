/* SPDX-License-Identifier: BSD-2-Clause */
/* TIME-WAIT and FIN-WAIT-2: RFC 9293 sections 3.3.2 and 3.10.7.4, RFC 6191. */
#include <errno.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

/* A closes first and is in TIME_WAIT. */
static struct sim *closed_by_a(const struct sim_params *params)
{
	struct sim *sim = sim_create(params);

	sim_establish(sim);
	sim_close(sim, A);
	sim_run(sim, 50 * MSEC);
	sim_recv(sim, B, 1);
	sim_close(sim, B);
	sim_run(sim, 50 * MSEC);
	assert_int_equal(sim_state(sim, A), TCP_TIME_WAIT);
	assert_int_equal(sim->host[B].closed, 1);
	return sim;
}

static void test_it_lasts_a_minute(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = closed_by_a(&params);

	sim_run(sim, 59 * SEC);
	assert_int_equal(sim->host[A].closed, 0);
	sim_run(sim, 1 * SEC);
	assert_int_equal(sim->host[A].closed, 1);
	assert_int_equal(sim->host[A].error, 0);
	sim_end(sim);
}

static void test_a_repeated_fin_is_acknowledged_and_starts_it_anew(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = closed_by_a(&params);
	struct tcp_segment fin = sim_forge(sim, A, TCP_FIN | TCP_ACK);

	sim_run(sim, 30 * SEC);
	sim_log_clear(sim);
	fin.seq--;
	sim_inject(sim, A, &fin);
	assert_int_equal(sim_count_pure_acks(sim, A), 1);
	/* B has forgotten the connection and answers with RST. */
	sim_run(sim, 59 * SEC);
	assert_int_equal(sim->host[A].closed, 0);
	sim_run(sim, 1 * SEC);
	assert_int_equal(sim->host[A].closed, 1);
	sim_end(sim);
}

static void test_a_newer_syn_ends_it(void **state)
{
	static const struct {
		bool timestamps;
		int32_t seq, tsval;
		bool ends;
	} rows[] = {
		{false, 1000, 0, true},	 {false, -1000, 0, false}, {true, -1000, 1, true},
		{true, 1000, -1, false}, {true, 1000, 0, true},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sim_params params = sim_defaults();
		struct sim *sim;
		struct tcp_segment syn;
		struct tcp_timewait *a;

		params.config[A].timestamps = rows[i].timestamps;
		sim = closed_by_a(&params);
		a = &sim->host[A].tw;
		syn = sim_forge(sim, A, TCP_SYN);
		syn.seq = a->rcv_nxt + (uint32_t)rows[i].seq;
		syn.opt_len = 0;
		if (rows[i].timestamps)
			syn.opt_len = (uint8_t)tcp_options_write_timestamps(
				syn.opts, a->ts_recent + (uint32_t)rows[i].tsval, 0);
		sim_inject(sim, A, &syn);
		assert_int_equal(sim->host[A].closed, rows[i].ends);
		assert_int_equal(sim->drops[DROP_NO_FLOW], rows[i].ends);
		sim_end(sim);
	}
}

/* RFC 1337 section 3 */
static void test_a_reset_does_not_end_it(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = closed_by_a(&params);
	struct tcp_segment rst = sim_forge(sim, A, TCP_RST);

	for (int i = 0; i < 2; i++) {
		rst.seq = sim->host[A].tw.rcv_nxt + (uint32_t)i;
		sim_log_clear(sim);
		sim_inject(sim, A, &rst);
		assert_int_equal(sim->host[A].closed, 0);
		assert_int_equal(sim_count_pure_acks(sim, A), 0);
	}
	sim_end(sim);
}

/* The peer was restarted, and begins with a lower sequence number. */
static void test_a_reset_after_an_old_syn_ends_it_without_error(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = closed_by_a(&params);
	struct tcp_segment syn = sim_forge(sim, A, TCP_SYN), rst = sim_forge(sim, A, TCP_RST);

	syn.seq = sim->host[A].tw.rcv_nxt - 1000;
	syn.opt_len = 0;
	sim_inject(sim, A, &syn);
	assert_int_equal(sim->host[A].closed, 0);
	rst.seq = sim->host[A].tw.rcv_nxt;
	sim_inject(sim, A, &rst);
	assert_int_equal(sim->host[A].closed, 1);
	assert_int_equal(sim->host[A].error, 0);
	sim_end(sim);
}

static bool lose_fins_of_b(struct sim *sim, const struct sim_segment *seg)
{
	return seg->from == B && (seg->flags & TCP_FIN) && sim->filter_arg-- > 0;
}

static void test_a_lost_fin_is_repeated(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim->filter = lose_fins_of_b;
	sim->filter_arg = 3;
	sim_shutdown(sim, A);
	sim_run(sim, 50 * MSEC);
	sim_shutdown(sim, B);
	sim_run(sim, 10 * SEC);
	assert_int_equal(sim_state(sim, A), TCP_TIME_WAIT);
	assert_int_equal(sim->host[B].closed, 1);
	sim_end(sim);
}

static bool lose_acks_of_a(struct sim *sim, const struct sim_segment *seg)
{
	return seg->from == A && seg->flags == TCP_ACK && sim->filter_arg-- > 0;
}

static void test_a_lost_last_ack_is_repeated(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_shutdown(sim, A);
	sim_run(sim, 50 * MSEC);
	sim->filter = lose_acks_of_a;
	sim->filter_arg = 2;
	sim_shutdown(sim, B);
	sim_run(sim, 10 * SEC);
	assert_int_equal(sim->host[B].closed, 1);
	assert_int_equal(sim->host[B].error, 0);
	sim_end(sim);
}

static void test_fin_wait_2_of_a_closed_socket_ends(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_close(sim, A);
	sim_run(sim, 59 * SEC);
	assert_int_equal(sim_state(sim, A), TCP_FIN_WAIT_2);
	sim_run(sim, 2 * SEC);
	assert_int_equal(sim->host[A].closed, 1);
	assert_int_equal(sim_state(sim, B), TCP_CLOSE_WAIT);
	/* The time counts from close(), not from shutdown(). */
	sim_end(sim);
	sim = sim_create(&params);
	sim_establish(sim);
	sim_shutdown(sim, A);
	sim_run(sim, 100 * SEC);
	sim_close(sim, A);
	sim_run(sim, 59 * SEC);
	assert_int_equal(sim->host[A].closed, 0);
	sim_run(sim, 2 * SEC);
	assert_int_equal(sim->host[A].closed, 1);
	sim_end(sim);
}

/*
 * Both ends become small, or one of them while the other has a full connection, over a link
 * that loses, duplicates and delays: both end, and nothing is left.
 */
static void test_small_ends_over_a_bad_link(void **state)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct sim_params params = sim_defaults();
		struct sim *sim;

		params.seed = seed;
		sim = sim_create(&params);
		sim_establish(sim);
		for (int h = A; h <= B; h++) {
			sim->params.link[h].loss = sim_random(sim, 400);
			sim->params.link[h].duplicate = sim_random(sim, 400);
			sim->params.link[h].overtake = sim_random(sim, 400);
			sim->params.link[h].jitter = sim_random(sim, 100) * MSEC;
		}
		sim->params.send_fails = sim_random(sim, 200);
		sim_send(sim, A, sim_random(sim, 5000), 0);
		sim_run(sim, sim_random(sim, 50) * MSEC);
		sim_close(sim, (int)sim_random(sim, 2));
		if (sim_chance(sim, 500))
			sim_run(sim, sim_random(sim, 200) * MSEC);
		sim_end(sim);
	}
}

static void test_it_is_small_only_when_the_program_has_closed_it(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_shutdown(sim, A);
	sim_run(sim, 50 * MSEC);
	sim_recv(sim, B, 1);
	sim_close(sim, B);
	sim_run(sim, 50 * MSEC);
	assert_int_equal(sim_state(sim, A), TCP_TIME_WAIT);
	assert_false(sim->host[A].small);
	sim_recv(sim, A, 1);
	assert_true(sim->host[A].eof);
	sim_close(sim, A);
	assert_true(sim->host[A].small);
	assert_int_equal(sim_state(sim, A), TCP_TIME_WAIT);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_it_lasts_a_minute),
	cmocka_unit_test(test_a_repeated_fin_is_acknowledged_and_starts_it_anew),
	cmocka_unit_test(test_a_newer_syn_ends_it),
	cmocka_unit_test(test_a_reset_does_not_end_it),
	cmocka_unit_test(test_a_reset_after_an_old_syn_ends_it_without_error),
	cmocka_unit_test(test_a_lost_fin_is_repeated),
	cmocka_unit_test(test_a_lost_last_ack_is_repeated),
	cmocka_unit_test(test_fin_wait_2_of_a_closed_socket_ends),
	cmocka_unit_test(test_small_ends_over_a_bad_link),
	cmocka_unit_test(test_it_is_small_only_when_the_program_has_closed_it),
};

VMA_TEST_MAIN("time_wait", tests, NULL, NULL)
