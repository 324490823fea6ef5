/* SPDX-License-Identifier: BSD-2-Clause */
/* Resets, sent and received: RFC 9293 sections 3.5.2 and 3.5.3, RFC 5961, RFC 2525 section 2.17. */
#include <errno.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static void test_only_the_exact_number_resets(void **state)
{
	static const struct {
		int32_t seq;
		bool resets;
		unsigned challenges;
		enum drop drop;
	} rows[] = {
		{0, true, 0, DROP_NONE},	 {1, false, 1, DROP_TCP_SEQ},
		{1000, false, 1, DROP_TCP_SEQ},	 {-1, false, 0, DROP_TCP_DUPLICATE},
		{70000, false, 0, DROP_TCP_SEQ},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sim_params params = sim_defaults();
		struct sim *sim = sim_create(&params);
		struct tcp_segment rst;
		unsigned before;

		sim_establish(sim);
		rst = sim_forge(sim, A, TCP_RST);
		rst.seq += (uint32_t)rows[i].seq;
		before = sim->drops[rows[i].drop];
		sim_inject(sim, A, &rst);
		assert_int_equal(sim->host[A].closed, rows[i].resets);
		assert_int_equal(sim_count_pure_acks(sim, A), rows[i].challenges);
		assert_int_equal(sim->drops[rows[i].drop], before + 1);
		if (rows[i].resets)
			assert_int_equal(sim->host[A].error, ECONNRESET);
		sim_end(sim);
	}
}

static void test_challenges_are_rationed(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_segment rst;

	sim_establish(sim);
	sim_run(sim, SEC);
	sim_log_clear(sim);
	rst = sim_forge(sim, A, TCP_RST);
	rst.seq += 5;
	for (int i = 0; i < 100; i++) {
		sim_inject(sim, A, &rst);
		sim_run(sim, 10 * MSEC);
	}
	assert_in_range(sim_count_pure_acks(sim, A), 2, 3);
	sim_end(sim);
}

static void test_a_syn_in_a_connection_is_challenged(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_segment syn;

	sim_establish(sim);
	sim_run(sim, SEC);
	sim_log_clear(sim);
	syn = sim_forge(sim, A, TCP_SYN);
	sim_inject(sim, A, &syn);
	assert_int_equal(sim_count_pure_acks(sim, A), 1);
	assert_int_equal(sim_state(sim, A), TCP_ESTABLISHED);
	sim_end(sim);
}

static bool lose_resets(struct sim *sim, const struct sim_segment *seg)
{
	return (seg->flags & TCP_RST) && sim->filter_arg-- > 0;
}

static void test_a_restarted_peer_is_freed_by_the_challenge(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_run(sim, SEC);
	sim->filter = lose_resets;
	sim->filter_arg = 1;
	tcp_abort(&sim->host[A].conn, 0, sim->now);
	sim->host[A].closed = 0;
	sim->host[A].established = 0;
	sim_open(sim, A); /* with the same pair of endpoints */
	sim_run(sim, 50 * MSEC);
	assert_int_equal(sim->host[B].closed, 1);
	assert_int_equal(sim->host[B].error, ECONNRESET);
	sim_end(sim);
}

static void test_acknowledgements_out_of_range_are_not_believed(void **state)
{
	static const int32_t offset[] = {1, 100000, -200000};

	for (unsigned i = 0; i < sizeof(offset) / sizeof(offset[0]); i++) {
		struct sim_params params = sim_defaults();
		struct sim *sim = sim_create(&params);
		struct tcp_segment seg;

		sim_establish(sim);
		sim_run(sim, SEC);
		sim_log_clear(sim);
		seg = sim_forge(sim, A, TCP_ACK);
		seg.ack += (uint32_t)offset[i];
		seg.part[0].data = (const uint8_t *)"evil";
		seg.part[0].len = 4;
		seg.len = 4;
		sim_inject(sim, A, &seg);
		assert_int_equal(sim->drops[DROP_TCP_ACK], 1);
		assert_int_equal(sim_count_pure_acks(sim, A), 1);
		assert_int_equal(tcp_readable_bytes(&sim->host[A].conn), 0);
		sim_end(sim);
	}
}

static void test_nonsense_is_dropped(void **state)
{
	static const struct {
		uint8_t flags;
		uint8_t opts[4];
		enum drop drop;
	} rows[] = {
		{0, {1, 1, 1, 1}, DROP_TCP_STATE},	   {TCP_SYN | TCP_FIN, {0}, DROP_TCP_STATE},
		{TCP_ACK, {8, 10, 0, 0}, DROP_TCP_OPTION}, {TCP_ACK, {1, 1, 1, 5}, DROP_TCP_OPTION},
		{TCP_ACK, {5, 3, 0, 0}, DROP_TCP_OPTION},  {TCP_ACK, {9, 1, 0, 0}, DROP_TCP_OPTION},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sim_params params = sim_defaults();
		struct sim *sim = sim_create(&params);
		struct tcp_segment seg;

		sim_establish(sim);
		sim_run(sim, SEC);
		seg = sim_forge(sim, A, rows[i].flags);
		memcpy(seg.opts, rows[i].opts, 4);
		seg.opt_len = 4;
		sim_inject(sim, A, &seg);
		assert_int_equal(sim->drops[rows[i].drop], 1);
		assert_int_equal(sim_state(sim, A), TCP_ESTABLISHED);
		sim_end(sim);
	}
}

/* As Linux: a segment with RST is a reset, whatever other flags it has. */
static void test_a_reset_with_a_syn_is_a_reset(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_segment seg;

	sim_establish(sim);
	sim_run(sim, SEC);
	seg = sim_forge(sim, A, TCP_SYN | TCP_RST);
	seg.seq++;
	sim_inject(sim, A, &seg);
	assert_int_equal(sim_state(sim, A), TCP_ESTABLISHED);
	seg.seq--;
	sim_inject(sim, A, &seg);
	assert_int_equal(sim_state(sim, A), TCP_CLOSED);
	assert_int_equal(sim->host[A].error, ECONNRESET);
	sim_end(sim);
}

/* As Linux: an ACK for data that was never sent is invalid, however large the window was. */
static void test_an_ack_from_before_the_connection_is_challenged(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_segment seg;

	sim_establish(sim);
	sim_run(sim, SEC);
	seg = sim_forge(sim, A, TCP_ACK | TCP_FIN);
	seg.ack -= 1000;
	sim_inject(sim, A, &seg);
	assert_int_equal(sim->drops[DROP_TCP_ACK], 1);
	assert_int_equal(sim_state(sim, A), TCP_ESTABLISHED);
	sim_end(sim);
}

static void test_what_was_read_before_the_reset_stays_readable(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_send(sim, A, 3000, 0);
	sim_run(sim, SEC);
	tcp_abort(&sim->host[A].conn, ECONNABORTED, sim->now);
	assert_int_equal(sim->host[A].error, ECONNABORTED);
	sim_run(sim, SEC);
	assert_int_equal(sim->host[B].closed, 1);
	assert_int_equal(sim->host[B].error, ECONNRESET);
	assert_int_equal(tcp_readable_bytes(&sim->host[B].conn), 3000);
	assert_int_equal(sim_recv(sim, B, 1000), 1000);
	assert_int_equal(sim_recv(sim, B, 4000), 2000);
	assert_int_equal(sim_recv(sim, B, 4000), -ECONNRESET); /* reported once */
	assert_int_equal(sim_recv(sim, B, 4000), 0);
	sim_end(sim);
}

static void test_a_finished_connection_may_leave_data_unread(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_send(sim, A, 3000, 0);
	sim_run(sim, SEC);
	tcp_abort(&sim->host[A].conn, 0, sim->now);
	sim_run(sim, SEC);
	sim_close(sim, B); /* frees the connection; reports nothing */
	assert_int_equal(sim->packets, 0);
	assert_int_equal(sim->host[B].closed, 1);
	sim_end(sim);
}

static void test_reset_in_close_wait_is_a_broken_pipe(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_shutdown(sim, A);
	sim_run(sim, SEC);
	tcp_abort(&sim->host[A].conn, 0, sim->now);
	sim_run(sim, SEC);
	assert_int_equal(sim->host[B].error, EPIPE);
	sim_end(sim);
}

static void test_closing_with_unread_data_resets(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_send(sim, A, 10, 0);
	sim_run(sim, SEC);
	sim_close(sim, B);
	assert_int_equal(sim_last(sim, B)->flags, TCP_RST | TCP_ACK);
	assert_int_equal(sim->host[B].closed, 1);
	sim_run(sim, SEC);
	assert_int_equal(sim->host[A].error, ECONNRESET);
	sim_end(sim);
}

static void test_data_after_close_resets(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_close(sim, B);
	sim_run(sim, SEC);
	assert_int_equal(sim_state(sim, B), TCP_FIN_WAIT_2);
	sim_send(sim, A, 10, 0);
	sim_run(sim, SEC);
	assert_int_equal(sim->host[B].closed, 1);
	assert_int_equal(sim->host[A].closed, 1);
	assert_int_equal(sim->host[A].error, EPIPE);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_only_the_exact_number_resets),
	cmocka_unit_test(test_challenges_are_rationed),
	cmocka_unit_test(test_a_syn_in_a_connection_is_challenged),
	cmocka_unit_test(test_a_restarted_peer_is_freed_by_the_challenge),
	cmocka_unit_test(test_acknowledgements_out_of_range_are_not_believed),
	cmocka_unit_test(test_nonsense_is_dropped),
	cmocka_unit_test(test_a_reset_with_a_syn_is_a_reset),
	cmocka_unit_test(test_an_ack_from_before_the_connection_is_challenged),
	cmocka_unit_test(test_what_was_read_before_the_reset_stays_readable),
	cmocka_unit_test(test_a_finished_connection_may_leave_data_unread),
	cmocka_unit_test(test_reset_in_close_wait_is_a_broken_pipe),
	cmocka_unit_test(test_closing_with_unread_data_resets),
	cmocka_unit_test(test_data_after_close_resets),
};

VMA_TEST_MAIN("reset", tests, NULL, NULL)
