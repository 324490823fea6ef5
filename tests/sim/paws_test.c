/* SPDX-License-Identifier: BSD-2-Clause */
/* Timestamps: RFC 7323 sections 3 to 5. */
#include <errno.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static struct sim *ready(void)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_send(sim, A, 10, 0);
	sim_run(sim, SEC);
	sim_drain(sim, B);
	sim_log_clear(sim);
	return sim;
}

static struct tcp_segment data_at(struct sim *sim, int32_t tsval)
{
	struct tcp_segment seg = sim_forge(sim, B, TCP_ACK);
	const struct tcp_conn *b = &sim->host[B].conn;

	seg.len = 4;
	seg.part[0].len = 4;
	seg.part[0].data = (const uint8_t *)"evil";
	seg.opt_len = (uint8_t)tcp_options_write_timestamps(
		seg.opts, b->ts_recent + (uint32_t)tsval, sim->host[A].conn.ts_recent);
	return seg;
}

static void test_an_older_timestamp_is_refused_and_answered(void **state)
{
	struct sim *sim = ready();
	struct tcp_segment seg = data_at(sim, -1);

	sim_inject(sim, B, &seg);
	assert_int_equal(sim->drops[DROP_TCP_PAWS], 1);
	assert_int_equal(sim_count_pure_acks(sim, B), 1);
	assert_int_equal(tcp_readable_bytes(&sim->host[B].conn), 0);
	sim_end(sim);
}

static void test_equal_and_newer_ones_are_taken(void **state)
{
	for (int tsval = 0; tsval < 2; tsval++) {
		struct sim *sim = ready();
		uint32_t before = sim->host[B].conn.ts_recent;
		struct tcp_segment seg = data_at(sim, tsval * 7);

		sim_inject(sim, B, &seg);
		assert_int_equal(tcp_readable_bytes(&sim->host[B].conn), 4);
		assert_int_equal(sim->host[B].conn.ts_recent, before + (uint32_t)tsval * 7);
		tcp_abort(&sim->host[A].conn, 0, sim->now);
		sim->host[B].received += 4;
		sim_close(sim, B);
		sim_end(sim);
	}
}

static void test_a_reset_needs_no_timestamp(void **state)
{
	struct sim *sim = ready();
	struct tcp_segment seg = data_at(sim, -1);

	seg.flags = TCP_RST;
	seg.len = 0;
	seg.part[0].len = 0;
	sim_inject(sim, B, &seg);
	assert_int_equal(sim->host[B].error, ECONNRESET);
	sim_end(sim);
}

static void test_after_24_days_the_clock_proves_nothing(void **state)
{
	struct sim *sim = ready();
	struct tcp_segment seg;

	sim_run(sim, 25 * 86400 * SEC);
	seg = data_at(sim, -1000);
	sim_inject(sim, B, &seg);
	assert_int_equal(tcp_readable_bytes(&sim->host[B].conn), 4);
	sim_close(sim, B);
	sim_end(sim);
}

static void test_what_is_out_of_order_does_not_set_the_clock(void **state)
{
	struct sim *sim = ready();
	uint32_t before = sim->host[B].conn.ts_recent;
	struct tcp_segment seg = data_at(sim, 50);

	seg.seq += 100;
	sim_inject(sim, B, &seg);
	assert_int_equal(sim->host[B].conn.ts_recent, before);
	assert_non_null(sim->host[B].conn.rcv.ooo);
	tcp_abort(&sim->host[A].conn, 0, sim->now);
	sim_end(sim);
}

static void test_round_trips_are_measured_during_recovery(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	/* longer than the timeout: all retransmissions are spurious */
	params.link[A].delay = 300 * MSEC;
	params.link[B].delay = 300 * MSEC;
	sim = sim_create(&params);
	sim_establish(sim);
	sim->host[A].conn.rtt.rto = 200 * MSEC;
	sim_send(sim, A, 3000, 0);
	sim_run(sim, 5 * SEC);
	assert_int_equal(sim_drain(sim, B), 3000);
	assert_in_range(sim->host[A].conn.rtt.rto, 600 * MSEC, 2 * SEC);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_an_older_timestamp_is_refused_and_answered),
	cmocka_unit_test(test_equal_and_newer_ones_are_taken),
	cmocka_unit_test(test_a_reset_needs_no_timestamp),
	cmocka_unit_test(test_after_24_days_the_clock_proves_nothing),
	cmocka_unit_test(test_what_is_out_of_order_does_not_set_the_clock),
	cmocka_unit_test(test_round_trips_are_measured_during_recovery),
};

VMA_TEST_MAIN("paws", tests, NULL, NULL)
