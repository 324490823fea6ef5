/* SPDX-License-Identifier: BSD-2-Clause */
/* Closing one direction: RFC 9293 section 3.6, RFC 1122 section 4.2.2.13. */
#include <errno.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static void test_the_other_direction_stays_open(void **state)
{
	for (int h = A; h <= B; h++) {
		struct sim_params params = sim_defaults();
		struct sim *sim = sim_create(&params);

		sim_establish(sim);
		sim_send(sim, h, 5000, 0);
		sim_shutdown(sim, h);
		assert_int_equal(sim_send(sim, h, 1, 0), -EPIPE);
		sim_run(sim, 100 * MSEC);
		assert_int_equal(sim_state(sim, h), TCP_FIN_WAIT_2);
		assert_int_equal(sim_state(sim, !h), TCP_CLOSE_WAIT);
		assert_int_equal(sim_drain(sim, !h), 5000);
		assert_true(sim->host[!h].eof);
		for (int i = 0; i < 10; i++) {
			sim_send(sim, !h, 3000, 0);
			sim_run(sim, 100 * MSEC);
			assert_int_equal(sim_drain(sim, h), 3000);
		}
		/* Regardless of the time, because the program still reads. */
		sim_run(sim, 3600 * SEC);
		assert_int_equal(sim_state(sim, h), TCP_FIN_WAIT_2);
		sim_shutdown(sim, !h);
		assert_int_equal(sim_state(sim, !h), TCP_LAST_ACK);
		sim_run(sim, 100 * MSEC);
		assert_int_equal(sim->host[!h].closed, 1);
		assert_int_equal(sim_state(sim, h), TCP_TIME_WAIT);
		assert_int_equal(sim_recv(sim, h, 10), 0);
		sim_end(sim);
	}
}

static void test_fin_goes_with_the_last_data(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_send(sim, A, 100, TCP_SEND_MORE);
	sim_shutdown(sim, A);
	assert_int_equal(sim_count_data(sim, A), 1);
	assert_int_equal(sim_last(sim, A)->flags, TCP_FIN | TCP_PSH | TCP_ACK);
	sim_end(sim);
}

static void test_shutdown_read_ends_a_stream_without_data(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_send(sim, A, 100, 0);
	sim_run(sim, 100 * MSEC);
	tcp_shutdown_read(&sim->host[B].conn);
	assert_int_equal(sim_recv(sim, B, 1000), 100); /* data that had arrived */
	assert_int_equal(sim_recv(sim, B, 1000), 0);
	sim_send(sim, A, 500, 0);
	sim_run(sim, SEC);
	assert_int_equal(tcp_unacked_bytes(&sim->host[A].conn), 0);
	assert_int_equal(sim_recv(sim, B, 1000), 500);
	assert_int_equal(sim_recv(sim, B, 1000), 0);
	sim_end(sim);
}

static void test_calls_on_what_is_not_connected(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_end(sim);
	sim = sim_create(&params);
	sim->host[A].exists = false;
	sim_open(sim, A);
	assert_int_equal(sim_send(sim, A, 1, 0), -EAGAIN);
	assert_int_equal(sim_recv(sim, A, 1), -EAGAIN);
	assert_int_equal(tcp_connect(&sim->host[A].conn, (struct tcp_start){0}, sim->now),
			 -EISCONN);
	sim_shutdown(sim, A);
	assert_int_equal(sim->host[A].error, ECONNRESET);
	assert_int_equal(tcp_shutdown(&sim->host[A].conn, sim->now), -ENOTCONN);
	assert_int_equal(sim_recv(sim, A, 1), -ECONNRESET);
	assert_int_equal(sim_recv(sim, A, 1), 0);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_the_other_direction_stays_open),
	cmocka_unit_test(test_fin_goes_with_the_last_data),
	cmocka_unit_test(test_shutdown_read_ends_a_stream_without_data),
	cmocka_unit_test(test_calls_on_what_is_not_connected),
};

VMA_TEST_MAIN("half_close", tests, NULL, NULL)
