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

static void test_data_waits_for_a_fin_that_is_expected(void **state)
{
	for (int closes = 0; closes <= 1; closes++) {
		struct sim_params params = sim_defaults();
		struct sim *sim = sim_create(&params);

		sim_establish(sim);
		tcp_expect_fin(&sim->host[A].conn);
		sim_send(sim, A, 100, 0);
		assert_int_equal(sim_count_data(sim, A), 0);
		assert_true(tcp_fin_follows(&sim->host[A].conn, sim->now + SEC));
		if (closes)
			sim_close(sim, A);
		else
			sim_shutdown(sim, A);
		assert_int_equal(sim_count_data(sim, A), 1);
		assert_int_equal(sim_last(sim, A)->flags, TCP_FIN | TCP_PSH | TCP_ACK);
		sim_run(sim, 100 * MSEC);
		assert_int_equal(sim_state(sim, B), TCP_CLOSE_WAIT);
		assert_int_equal(sim_drain(sim, B), 100);
		sim_end(sim);
	}
}

static void test_an_expected_fin_that_does_not_come(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_conn *conn = &sim->host[A].conn;

	sim_establish(sim);
	tcp_expect_fin(conn);
	sim_send(sim, A, 100, 0);
	assert_true(tcp_awaits_fin(conn));
	assert_true(tcp_deadline(conn) < sim->now);
	tcp_timer(conn, sim->now);
	assert_false(tcp_awaits_fin(conn));
	assert_int_equal(sim_count_data(sim, A), 1);
	assert_int_equal(sim_last(sim, A)->flags, TCP_PSH | TCP_ACK);
	assert_true(tcp_fin_follows(conn, sim->now));
	assert_false(tcp_fin_follows(conn, sim->now + 1)); /* another call came between */
	sim_run(sim, 100 * MSEC);
	sim_send(sim, A, 100, 0); /* only the first data waits */
	assert_int_equal(sim_count_data(sim, A), 2);
	assert_false(tcp_fin_follows(conn, sim->now));
	sim_end(sim);
}

static void test_data_that_does_not_wait_for_a_fin(void **state)
{
	static const struct {
		uint32_t len, then;
		unsigned flags;
		int segments;
	} row[] = {
		{0, 0, 0, 1}, /* a full segment */
		{5000, 0, 0, 4},
		{100, 100, 0, 1},	     /* with the second data */
		{100, 0, TCP_SEND_MORE, 0},  /* it waits for the program */
		{100, 50, TCP_SEND_MORE, 1}, /* ... which says when it ends */
	};

	for (unsigned i = 0; i < sizeof(row) / sizeof(*row); i++) {
		struct sim_params params = sim_defaults();
		struct sim *sim;

		params.config[A].nodelay = true;
		sim = sim_create(&params);
		sim_establish(sim);
		tcp_expect_fin(&sim->host[A].conn);
		sim_send(sim, A, row[i].len ? row[i].len : sim->host[A].conn.mss, row[i].flags);
		if (row[i].then)
			sim_send(sim, A, row[i].then, 0);
		assert_false(tcp_awaits_fin(&sim->host[A].conn));
		assert_int_equal(sim_count_data(sim, A), row[i].segments);
		sim_end(sim);
	}
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
	cmocka_unit_test(test_data_waits_for_a_fin_that_is_expected),
	cmocka_unit_test(test_an_expected_fin_that_does_not_come),
	cmocka_unit_test(test_data_that_does_not_wait_for_a_fin),
	cmocka_unit_test(test_shutdown_read_ends_a_stream_without_data),
	cmocka_unit_test(test_calls_on_what_is_not_connected),
};

VMA_TEST_MAIN("half_close", tests, NULL, NULL)
