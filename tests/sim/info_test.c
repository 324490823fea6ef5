/* SPDX-License-Identifier: BSD-2-Clause */
/* What a connection tells of itself: TCP_INFO as on Linux, RFC 9293 section 3.9.1.6 (STATUS). */
#include <linux/tcp.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static void test_what_is_told_is_true(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_info info;

	sim_establish(sim);
	sim_run(sim, SEC);
	sim_send(sim, A, 20000, 0);
	tcp_get_info(&sim->host[A].conn, &info, sim->now);
	assert_int_equal(info.tcpi_state, 1); /* ESTABLISHED */
	assert_int_equal(info.tcpi_options, TCPI_OPT_TIMESTAMPS | TCPI_OPT_SACK | TCPI_OPT_WSCALE);
	assert_int_equal(info.tcpi_snd_mss, 1448);
	assert_int_equal(info.tcpi_pmtu, 1500);
	assert_int_equal(info.tcpi_snd_cwnd, 10);
	assert_int_equal(info.tcpi_unacked, 10);
	assert_int_equal(info.tcpi_notsent_bytes, 20000 - 10 * 1448);
	assert_int_equal(info.tcpi_rtt, 10000);
	assert_int_equal(info.tcpi_min_rtt, 10000);
	assert_int_equal(info.tcpi_rto, 210000);
	assert_int_equal(info.tcpi_snd_wscale, 7);
	assert_int_equal(info.tcpi_last_data_sent, 0);
	sim_run(sim, SEC);
	sim_drain(sim, B);
	tcp_get_info(&sim->host[A].conn, &info, sim->now);
	assert_int_equal(info.tcpi_unacked, 0);
	assert_int_equal(info.tcpi_notsent_bytes, 0);
	assert_int_equal(info.tcpi_total_retrans, 0);
	assert_in_range(info.tcpi_last_data_sent, 980, 1000);
	sim_end(sim);
}

static void test_states_have_the_kernels_numbers(void **state)
{
	static const struct {
		enum tcp_state ours;
		uint8_t linux_state;
	} rows[] = {
		{TCP_ESTABLISHED, 1}, {TCP_SYN_SENT, 2},   {TCP_SYN_RECEIVED, 3},
		{TCP_FIN_WAIT_1, 4},  {TCP_FIN_WAIT_2, 5}, {TCP_TIME_WAIT, 6},
		{TCP_CLOSED, 7},      {TCP_CLOSE_WAIT, 8}, {TCP_LAST_ACK, 9},
		{TCP_CLOSING, 11},
	};
	struct tcp_config config = {.mss = 1460};
	static const struct tcp_ops none;
	struct tcp_info info;
	struct tcp_conn c;

	tcp_init(&c, &none, &config);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		c.state = (uint8_t)rows[i].ours;
		tcp_get_info(&c, &info, 0);
		assert_int_equal(info.tcpi_state, rows[i].linux_state);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_is_told_is_true),
	cmocka_unit_test(test_states_have_the_kernels_numbers),
};

VMA_TEST_MAIN("info", tests, NULL, NULL)
