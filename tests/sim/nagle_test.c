/* SPDX-License-Identifier: BSD-2-Clause */
/* Small segments: RFC 9293 section 3.7.4, RFC 1122 section 4.2.3.4; Nagle, cork and MSG_MORE as on Linux. */
#include "tests/sim/sim.h"
#include "tests/vma_test.h"

#define MSS ((uint32_t)sim_mss(1500) - TCP_OPT_TIMESTAMPS)

static struct sim *ready(struct sim_params *params)
{
	struct sim *sim = sim_create(params);

	sim_establish(sim);
	sim_run(sim, SEC);
	sim_log_clear(sim);
	return sim;
}

static void test_one_small_segment_is_in_flight(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	for (int i = 0; i < 10; i++)
		sim_send(sim, A, 10, 0);
	assert_int_equal(sim_count_data(sim, A), 1);
	sim_run(sim, 11 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 2);
	assert_int_equal(sim_last(sim, A)->len, 90);
	sim_end(sim);
}

static void test_full_segments_do_not_wait(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	sim_send(sim, A, 10, 0);
	sim_send(sim, A, MSS + 5, 0);
	assert_int_equal(sim_count_data(sim, A), 2);
	assert_int_equal(sim_last(sim, A)->len, MSS);
	sim_end(sim);
}

static void test_the_end_of_a_large_send_does_not_wait(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	sim_send(sim, A, 3 * MSS + 5, 0);
	assert_int_equal(sim_count_data(sim, A), 4);
	assert_int_equal(sim_last(sim, A)->len, 5);
	sim_end(sim);
}

/* Another process, which has the connection now, waits for the same segments. */
static void test_an_export_keeps_it_in_mind(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	sim_send(sim, A, MSS, 0);
	sim_restore(sim, A);
	sim_send(sim, A, 10, 0);
	assert_int_equal(sim_count_data(sim, A), 2);
	sim_restore(sim, A);
	sim_send(sim, A, 20, 0);
	assert_int_equal(sim_count_data(sim, A), 2);
	sim_run(sim, 11 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 3);
	assert_int_equal(sim_last(sim, A)->len, 20);
	sim_end(sim);
}

static void test_nodelay_sends_each(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.config[A].nodelay = true;
	sim = ready(&params);
	for (int i = 0; i < 10; i++)
		sim_send(sim, A, 10, 0);
	assert_int_equal(sim_count_data(sim, A), 10);
	sim_end(sim);
}

static void test_setting_nodelay_pushes(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	sim_send(sim, A, 10, 0);
	sim_send(sim, A, 10, 0);
	assert_int_equal(sim_count_data(sim, A), 1);
	tcp_set_nodelay(&sim->host[A].conn, true, sim->now);
	assert_int_equal(sim_count_data(sim, A), 2);
	sim_end(sim);
}

static void test_cork_holds_until_it_is_removed(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	tcp_set_cork(&sim->host[A].conn, true, sim->now);
	sim_send(sim, A, 10, 0);
	sim_send(sim, A, 10, 0);
	sim_run(sim, 100 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 0);
	sim_send(sim, A, 1500, 0);
	assert_int_equal(sim_count_data(sim, A), 1);
	assert_int_equal(sim_last(sim, A)->len, MSS);
	sim_run(sim, 50 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 1);
	tcp_set_cork(&sim->host[A].conn, false, sim->now);
	assert_int_equal(sim_count_data(sim, A), 2);
	assert_int_equal(sim_last(sim, A)->len, 1500 - MSS + 20);
	sim_end(sim);
}

static void test_cork_holds_no_longer_than_200_ms(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	tcp_set_cork(&sim->host[A].conn, true, sim->now);
	sim_send(sim, A, 10, 0);
	sim_run(sim, 199 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 0);
	sim_run(sim, 2 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 1);
	/* A second time. */
	sim_send(sim, A, 10, 0);
	sim_run(sim, 150 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 1);
	sim_run(sim, 60 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 2);
	sim_end(sim);
}

static void test_more_is_a_cork_for_one_call(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.config[A].nodelay = true;
	sim = ready(&params);
	sim_send(sim, A, 10, TCP_SEND_MORE);
	sim_send(sim, A, 10, TCP_SEND_MORE);
	sim_run(sim, 100 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 0);
	sim_send(sim, A, 10, 0);
	assert_int_equal(sim_count_data(sim, A), 1);
	assert_int_equal(sim_last(sim, A)->len, 30);
	sim_end(sim);
}

static void test_push_marks_the_end_of_what_is_queued(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = ready(&params);

	sim_send(sim, A, MSS * 2, 0);
	assert_int_equal(sim->log[0].flags, TCP_ACK);
	assert_int_equal(sim->log[1].flags, TCP_ACK | TCP_PSH);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_one_small_segment_is_in_flight),
	cmocka_unit_test(test_full_segments_do_not_wait),
	cmocka_unit_test(test_the_end_of_a_large_send_does_not_wait),
	cmocka_unit_test(test_an_export_keeps_it_in_mind),
	cmocka_unit_test(test_nodelay_sends_each),
	cmocka_unit_test(test_setting_nodelay_pushes),
	cmocka_unit_test(test_cork_holds_until_it_is_removed),
	cmocka_unit_test(test_cork_holds_no_longer_than_200_ms),
	cmocka_unit_test(test_more_is_a_cork_for_one_call),
	cmocka_unit_test(test_push_marks_the_end_of_what_is_queued),
};

VMA_TEST_MAIN("nagle", tests, NULL, NULL)
