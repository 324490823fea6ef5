/* SPDX-License-Identifier: BSD-2-Clause */
/* Keepalive and user timeout: RFC 9293 section 3.8.4, RFC 5482, TCP_USER_TIMEOUT as on Linux. */
#include <errno.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static const struct tcp_keepalive ten = {.on = true, .idle = 10, .interval = 2, .probes = 3};

static bool lose_all(struct sim *sim, const struct sim_segment *seg)
{
	return true;
}

static struct sim *ready(void)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_run(sim, SEC);
	sim_log_clear(sim);
	tcp_set_keepalive(&sim->host[A].conn, &ten, sim->now);
	return sim;
}

static void test_an_idle_peer_is_probed_and_answers(void **state)
{
	struct sim *sim = ready();

	sim_run(sim, 8 * SEC);
	assert_int_equal(sim->logged, 0);
	sim_run(sim, 95 * SEC);
	assert_in_range(sim_count_pure_acks(sim, A), 9, 11);
	assert_int_equal(sim_count_pure_acks(sim, B), sim_count_pure_acks(sim, A));
	assert_int_equal(sim->host[A].closed, 0);
	sim_end(sim);
}

static void test_a_silent_peer_is_given_up(void **state)
{
	struct sim *sim = ready();
	nsec_t begin = sim->now;

	sim->filter = lose_all;
	while (!sim->host[A].closed)
		sim_step(sim);
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	/* After about a second of data: three probes, then a reset. */
	assert_in_range(sim->now - begin, (8 + 3 * 2) * SEC, (10 + 3 * 2) * SEC);
	assert_int_equal(sim_count_pure_acks(sim, A), 3);
	assert_int_equal(sim_last(sim, A)->flags, TCP_RST | TCP_ACK);
	sim->filter = NULL;
	sim_end(sim);
}

static void test_traffic_puts_it_off(void **state)
{
	struct sim *sim = ready();

	for (int i = 0; i < 20; i++) {
		sim_run(sim, 5 * SEC);
		sim_send(sim, B, 10, 0);
	}
	assert_int_equal(sim_count_data(sim, A), 0);
	for (unsigned i = 0; i < sim->logged; i++) {
		if (sim->log[i].from == A) /* acknowledgements, no probes */
			assert_int_equal(sim->log[i].seq, 1);
	}
	sim_end(sim);
}

static void test_turned_off_it_stops(void **state)
{
	struct sim *sim = ready();
	struct tcp_keepalive off = ten;

	off.on = false;
	tcp_set_keepalive(&sim->host[A].conn, &off, sim->now);
	sim_run(sim, 1000 * SEC);
	assert_int_equal(sim->logged, 0);
	assert_int_equal(tcp_deadline(&sim->host[A].conn), NSEC_NEVER);
	sim_end(sim);
}

static void test_set_before_connecting_it_begins_with_the_connection(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_listen(sim, B);
	sim_open(sim, A);
	tcp_set_keepalive(&sim->host[A].conn, &ten, sim->now);
	sim_run(sim, 5 * SEC);
	sim_log_clear(sim);
	sim_run(sim, 6 * SEC);
	assert_int_equal(sim_count_pure_acks(sim, A), 1);
	sim_end(sim);
}

static void test_user_timeout_bounds_retransmission(void **state)
{
	struct sim *sim = ready();
	nsec_t begin = sim->now;

	tcp_set_user_timeout(&sim->host[A].conn, 3 * SEC);
	sim->filter = lose_all;
	sim_send(sim, A, 10, 0);
	while (!sim->host[A].closed)
		sim_step(sim);
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	assert_int_equal(sim->now - begin, 3 * SEC);
	sim->filter = NULL;
	sim_end(sim);
}

static void test_user_timeout_counts_from_the_last_progress(void **state)
{
	struct sim *sim = ready();

	tcp_set_user_timeout(&sim->host[A].conn, 3 * SEC);
	for (int i = 0; i < 10; i++) {
		sim_send(sim, A, 10, 0);
		sim->filter = lose_all;
		sim_run(sim, 0);
		sim->filter = NULL;
		sim_run(sim, 2 * SEC);
		sim_drain(sim, B);
	}
	assert_int_equal(sim->host[A].closed, 0);
	sim_end(sim);
}

static void test_user_timeout_bounds_a_closed_window(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;
	nsec_t begin;

	params.config[B].rcvbuf = 4096;
	sim = sim_create(&params);
	sim_establish(sim);
	tcp_set_user_timeout(&sim->host[A].conn, 5 * SEC);
	begin = sim->now;
	sim_send(sim, A, 60000, 0);
	while (!sim->host[A].closed)
		sim_step(sim);
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	assert_in_range(sim->now - begin, 5 * SEC, 6 * SEC);
	sim_end(sim);
}

static void test_user_timeout_bounds_connecting(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim->filter = lose_all;
	sim_open(sim, A);
	tcp_set_user_timeout(&sim->host[A].conn, 4 * SEC);
	sim_run(sim, 10 * SEC);
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	sim_end(sim);
}

static void test_user_timeout_replaces_the_number_of_probes(void **state)
{
	struct sim *sim = ready();
	nsec_t begin = sim->now;

	tcp_set_user_timeout(&sim->host[A].conn, 12 * SEC);
	sim->filter = lose_all;
	while (!sim->host[A].closed)
		sim_step(sim);
	assert_in_range(sim->now - begin, 10 * SEC, 14 * SEC);
	sim->filter = NULL;
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_an_idle_peer_is_probed_and_answers),
	cmocka_unit_test(test_a_silent_peer_is_given_up),
	cmocka_unit_test(test_traffic_puts_it_off),
	cmocka_unit_test(test_turned_off_it_stops),
	cmocka_unit_test(test_set_before_connecting_it_begins_with_the_connection),
	cmocka_unit_test(test_user_timeout_bounds_retransmission),
	cmocka_unit_test(test_user_timeout_counts_from_the_last_progress),
	cmocka_unit_test(test_user_timeout_bounds_a_closed_window),
	cmocka_unit_test(test_user_timeout_bounds_connecting),
	cmocka_unit_test(test_user_timeout_replaces_the_number_of_probes),
};

VMA_TEST_MAIN("keepalive", tests, NULL, NULL)
