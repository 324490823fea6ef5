/* SPDX-License-Identifier: BSD-2-Clause */
/* Both sides open at once: RFC 9293 section 3.5, figure 7. */
#include <errno.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static void test_both_sides_open_at_once(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_open(sim, A);
	sim_open(sim, B);
	sim_run(sim, 7 * MSEC);
	assert_int_equal(sim_state(sim, A), TCP_SYN_RECEIVED);
	assert_int_equal(sim_state(sim, B), TCP_SYN_RECEIVED);
	sim_run(sim, 20 * MSEC);
	assert_int_equal(sim_state(sim, A), TCP_ESTABLISHED);
	assert_int_equal(sim_state(sim, B), TCP_ESTABLISHED);
	for (int h = A; h <= B; h++) {
		assert_int_equal(sim_count(sim, h, TCP_SYN), 2); /* SYN, SYN-ACK */
		assert_int_equal(sim->host[h].established, 1);
		assert_true(sim->host[h].conn.flags & CONN_TIMESTAMPS);
	}
	sim_send(sim, A, 3000, 0);
	sim_send(sim, B, 3000, 0);
	sim_run(sim, SEC);
	assert_int_equal(sim_drain(sim, A), 3000);
	assert_int_equal(sim_drain(sim, B), 3000);
	sim_end(sim);
}

static bool lose_syn_acks(struct sim *sim, const struct sim_segment *seg)
{
	return seg->flags == (TCP_SYN | TCP_ACK) && sim->filter_arg-- > 0;
}

static void test_lost_syn_acks_are_repeated(void **state)
{
	for (int lost = 1; lost <= 4; lost++) {
		struct sim_params params = sim_defaults();
		struct sim *sim = sim_create(&params);

		sim->filter = lose_syn_acks;
		sim->filter_arg = lost;
		sim_open(sim, A);
		sim_open(sim, B);
		sim_run(sim, 10 * SEC);
		assert_int_equal(sim_state(sim, A), TCP_ESTABLISHED);
		assert_int_equal(sim_state(sim, B), TCP_ESTABLISHED);
		sim_end(sim);
	}
}

static bool lose_first_syn_of_b(struct sim *sim, const struct sim_segment *seg)
{
	return seg->from == B && seg->flags == TCP_SYN && sim->filter_arg-- > 0;
}

static void test_second_syn_meets_syn_received(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim->filter = lose_first_syn_of_b;
	sim->filter_arg = 1;
	sim_open(sim, A);
	sim_open(sim, B);
	sim_run(sim, 5 * SEC);
	assert_int_equal(sim_state(sim, A), TCP_ESTABLISHED);
	assert_int_equal(sim_state(sim, B), TCP_ESTABLISHED);
	sim_end(sim);
}

static void test_closing_in_syn_received_sends_a_fin_later(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_open(sim, A);
	sim_open(sim, B);
	sim_run(sim, 6 * MSEC);
	assert_int_equal(sim_state(sim, A), TCP_SYN_RECEIVED);
	sim_shutdown(sim, A);
	assert_int_equal(sim_count(sim, A, TCP_FIN), 0);
	sim_run(sim, 50 * MSEC);
	assert_int_equal(sim_state(sim, A), TCP_FIN_WAIT_2);
	assert_int_equal(sim_state(sim, B), TCP_CLOSE_WAIT);
	sim_end(sim);
}

static void test_reset_in_syn_received_ends_it(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_segment rst;

	sim_open(sim, A);
	sim_open(sim, B);
	sim_run(sim, 6 * MSEC);
	rst = sim_forge(sim, A, TCP_RST | TCP_ACK);
	sim_inject(sim, A, &rst);
	assert_int_equal(sim->host[A].error, ECONNRESET);
	sim_run(sim, SEC);
	assert_int_equal(sim->host[B].closed, 1);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_both_sides_open_at_once),
	cmocka_unit_test(test_lost_syn_acks_are_repeated),
	cmocka_unit_test(test_second_syn_meets_syn_received),
	cmocka_unit_test(test_closing_in_syn_received_sends_a_fin_later),
	cmocka_unit_test(test_reset_in_syn_received_ends_it),
};

VMA_TEST_MAIN("simultaneous_open", tests, NULL, NULL)
