/* SPDX-License-Identifier: BSD-2-Clause */
/* Delayed acknowledgements: RFC 9293 section 3.8.6.3, RFC 5681 section 4.2. */
#include "tests/sim/sim.h"
#include "tests/vma_test.h"

/* Established, and after the first segments, whose acknowledgements are not delayed. */
static struct sim *ready(struct sim_params *params)
{
	struct sim *sim = sim_create(params);

	sim_establish(sim);
	for (int i = 0; i < 3; i++) { /* request and response */
		sim_send(sim, A, 2, 0);
		sim_run(sim, 6 * MSEC);
		sim_drain(sim, B);
		sim_send(sim, B, 2, 0);
		sim_run(sim, 6 * MSEC);
		sim_drain(sim, A);
	}
	sim_run(sim, 100 * MSEC);
	sim_log_clear(sim);
	return sim;
}

static void test_one_segment_waits_40_ms(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);
	nsec_t begin = sim->now;

	sim_send(sim, A, 10, 0);
	sim_run(sim, 44 * MSEC);
	assert_int_equal(sim_count_pure_acks(sim, B), 0);
	sim_run(sim, 2 * MSEC);
	assert_int_equal(sim_count_pure_acks(sim, B), 1);
	assert_int_equal(sim_last(sim, B)->at - begin, 45 * MSEC);
	assert_int_equal(sim->host[B].conn.ack_at, NSEC_NEVER);
	sim_end(sim);
}

static void test_the_second_full_segment_does_not_wait(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	sim_send(sim, A, 2 * 1448, 0);
	sim_run(sim, 6 * MSEC);
	assert_int_equal(sim_count_pure_acks(sim, B), 1);
	sim_end(sim);
}

static void test_an_answer_carries_the_acknowledgement(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	for (int i = 0; i < 20; i++) {
		sim_send(sim, A, 100, 0);
		sim_run(sim, 6 * MSEC);
		assert_int_equal(sim_drain(sim, B), 100);
		sim_send(sim, B, 100, 0);
		sim_run(sim, 6 * MSEC);
		assert_int_equal(sim_drain(sim, A), 100);
	}
	/* Exactly one segment in each direction. */
	assert_int_equal(sim->logged, 40);
	assert_int_equal(sim_count_data(sim, A), 20);
	assert_int_equal(sim_count_data(sim, B), 20);
	sim_end(sim);
}

static void test_the_first_segments_are_not_delayed(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	for (int i = 0; i < 5; i++) {
		sim_send(sim, A, 10, 0);
		sim_run(sim, 11 * MSEC);
		assert_int_equal(sim_count_pure_acks(sim, B), i + 1);
	}
	sim_end(sim);
}

static void test_a_burst_is_acknowledged_once(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	sim_send(sim, A, 8 * 1448, 0); /* all arrive at the same time */
	sim_run(sim, 6 * MSEC);
	assert_int_equal(sim_count_pure_acks(sim, B), 1);
	sim_end(sim);
}

static void test_fin_and_repetitions_are_acknowledged_at_once(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);
	struct tcp_segment old;

	old = sim_forge(sim, B, TCP_ACK);
	old.seq -= 2; /* data that was received before */
	old.part[0].data = (const uint8_t *)"??";
	old.part[0].len = 2;
	old.len = 2;
	sim_inject(sim, B, &old);
	assert_int_equal(sim_count_pure_acks(sim, B), 1);
	assert_int_equal(sim->drops[DROP_TCP_DUPLICATE], 1);
	sim_shutdown(sim, A);
	sim_run(sim, 5 * MSEC);
	assert_int_equal(sim_count_pure_acks(sim, B), 2);
	sim_end(sim);
}

static void test_quickack_turns_it_off(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	sim_send(sim, A, 10, 0);
	sim_run(sim, 6 * MSEC);
	assert_int_equal(sim_count_pure_acks(sim, B), 0);
	tcp_set_quickack(&sim->host[B].conn, true, sim->now);
	assert_int_equal(sim_count_pure_acks(sim, B), 1);
	sim_send(sim, A, 10, 0); /* Nagle waits for this */
	sim_run(sim, 11 * MSEC);
	assert_int_equal(sim_count_pure_acks(sim, B), 2);
	sim_drain(sim, B);
	sim_end(sim);

	params.config[B].quickack = true; /* permanently */
	sim = ready(&params);
	sim_send(sim, A, 10, 0);
	sim_run(sim, 6 * MSEC);
	assert_int_equal(sim_count_pure_acks(sim, B), 1);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_one_segment_waits_40_ms),
	cmocka_unit_test(test_the_second_full_segment_does_not_wait),
	cmocka_unit_test(test_an_answer_carries_the_acknowledgement),
	cmocka_unit_test(test_the_first_segments_are_not_delayed),
	cmocka_unit_test(test_a_burst_is_acknowledged_once),
	cmocka_unit_test(test_fin_and_repetitions_are_acknowledged_at_once),
	cmocka_unit_test(test_quickack_turns_it_off),
};

VMA_TEST_MAIN("delayed_ack", tests, NULL, NULL)
