/* SPDX-License-Identifier: BSD-2-Clause */
/* What a connection reports: TCP_INFO as on Linux, RFC 9293 section 3.9.1.6 (STATUS). */
#include <errno.h>
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
	assert_int_equal(info.tcpi_snd_mss, sim_mss(1500) - 12);
	assert_int_equal(info.tcpi_pmtu, 1500);
	assert_int_equal(info.tcpi_snd_cwnd, 10);
	assert_int_equal(info.tcpi_unacked, 10);
	assert_int_equal(info.tcpi_notsent_bytes, 20000 - 10 * info.tcpi_snd_mss);
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

static struct tcp_info info_of(const struct sim *sim, int host)
{
	struct tcp_info info;

	tcp_get_info(&sim->host[host].conn, &info, sim->now);
	return info;
}

/* Without losses, one side counts as sent what the other counts as received. */
static void test_both_sides_count_the_same(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_info a, b;

	sim_establish(sim);
	for (int i = 0; i < 10; i++) {
		sim_send(sim, A, 19000, 0);
		sim_send(sim, B, 100, 0);
		sim_run(sim, SEC);
		sim_drain(sim, A);
		sim_drain(sim, B);
	}
	sim_run(sim, SEC);
	a = info_of(sim, A);
	b = info_of(sim, B);
	assert_int_equal(a.tcpi_bytes_acked, 190000);
	assert_int_equal(a.tcpi_bytes_sent, 190000);
	assert_int_equal(b.tcpi_bytes_received, 190000);
	assert_int_equal(b.tcpi_bytes_acked, 1000);
	assert_int_equal(a.tcpi_bytes_received, 1000);
	assert_int_equal(a.tcpi_bytes_retrans, 0);
	assert_int_equal(a.tcpi_data_segs_out, b.tcpi_data_segs_in);
	assert_int_equal(b.tcpi_data_segs_out, a.tcpi_data_segs_in);
	assert_int_equal(a.tcpi_data_segs_out, 10 * 14);
	assert_int_equal(a.tcpi_segs_out, b.tcpi_segs_in + 1); /* the listener received the SYN */
	assert_int_equal(b.tcpi_segs_out + 1, a.tcpi_segs_in); /* the listener sent the SYN-ACK */
	assert_int_equal(a.tcpi_delivered, 10 * 14 + 1);
	sim_shutdown(sim, A);
	sim_run(sim, SEC);
	assert_int_equal(info_of(sim, A).tcpi_bytes_acked, 190000); /* a FIN is not a byte */
	assert_int_equal(info_of(sim, B).tcpi_bytes_received, 190000);
	sim_end(sim);
}

static void test_what_is_lost_is_counted(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;
	struct tcp_info a, b;

	params.link[A].loss = 30;
	params.link[A].overtake = 20;
	params.config[A].sndbuf = 1u << 20;
	sim = sim_create(&params);
	sim_establish(sim);
	for (int i = 0; i < 100; i++) {
		sim_send(sim, A, 40000, 0);
		sim_run(sim, 100 * MSEC);
		sim_drain(sim, B);
	}
	a = info_of(sim, A);
	b = info_of(sim, B);
	assert_true(a.tcpi_total_retrans > 10);
	assert_in_range(a.tcpi_bytes_retrans, 1 + a.tcpi_total_retrans * 100ull,
			a.tcpi_total_retrans * (sim_mss(1500) - 12ull));
	assert_true(a.tcpi_bytes_sent >= a.tcpi_bytes_acked + a.tcpi_bytes_retrans);
	assert_true(b.tcpi_rcv_ooopack > 10);
	assert_true(a.tcpi_reord_seen + a.tcpi_dsack_dups > 0);
	assert_in_range(b.tcpi_data_segs_in, a.tcpi_data_segs_out * 9ull / 10,
			a.tcpi_data_segs_out - 1);
	sim_end(sim);
}

static void test_bytes_are_counted_beyond_the_sequence_numbers(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;
	struct tcp_conn *a, *b;

	params.link[A].loss = 20;
	sim = sim_create(&params);
	sim_establish(sim);
	a = &sim->host[A].conn;
	b = &sim->host[B].conn;
	/* As if 4 GB minus 20 KB had been sent before. */
	a->iss += 20000;
	b->irs += 20000;
	for (int i = 0; i < 50; i++) {
		sim_send(sim, A, 1000, 0);
		sim_run(sim, SEC);
		sim_drain(sim, B);
	}
	assert_int_equal(info_of(sim, A).tcpi_bytes_acked, (1ull << 32) + 50000 - 20000);
	assert_int_equal(info_of(sim, B).tcpi_bytes_received, (1ull << 32) + 50000 - 20000);
	a->iss -= 20000;
	b->irs -= 20000;
	sim_end(sim);
}

static void test_it_is_told_what_held_the_sender_up(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;
	struct tcp_info info;

	params.config[A].sndbuf = 20000;
	params.config[A].nodelay = true;
	sim = sim_create(&params);
	sim_establish(sim);
	sim_run(sim, SEC);
	sim_send(sim, A, 100, 0);
	sim_run(sim, 2 * SEC);
	info = info_of(sim, A);
	assert_in_range(info.tcpi_busy_time, 10000, 60000); /* until the data was acknowledged */
	assert_int_equal(info.tcpi_rwnd_limited, 0);
	for (int i = 0; i < 200; i++) { /* more than the buffer holds, read at once */
		sim_send(sim, A, 50000, 0);
		sim_run(sim, 5 * MSEC);
		sim_drain(sim, B);
	}
	info = info_of(sim, A);
	assert_true(info.tcpi_sndbuf_limited > 500000);
	assert_int_equal(info.tcpi_rwnd_limited, 0);
	for (int i = 0; i < 20; i++) { /* no program reads */
		sim_send(sim, A, 50000, 0);
		sim_run(sim, 100 * MSEC);
	}
	info = info_of(sim, A);
	assert_in_range(info.tcpi_rwnd_limited, 1500000, 2000000);
	assert_in_range(info.tcpi_busy_time, info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited,
			3100000);
	sim_drain(sim, B);
	sim_run(sim, 10 * SEC);
	sim_drain(sim, B);
	sim_end(sim);
}

static void test_the_rate_is_that_of_the_link(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;
	struct tcp_info info;

	params.link[A].bytes_per_sec = 1250000;
	params.link[A].queue = 50000;
	sim = sim_create(&params);
	sim_establish(sim);
	for (int i = 0; i < 500; i++) {
		sim_send(sim, A, 50000, 0);
		sim_run(sim, 5 * MSEC);
		sim_drain(sim, B);
	}
	info = info_of(sim, A);
	assert_in_range(info.tcpi_delivery_rate, 1250000 * 8 / 10, 1250000);
	assert_true(info.tcpi_pacing_rate == UINT64_MAX);
	sim_end(sim);
}

static void test_states_have_the_kernels_numbers(void **state)
{
	static const struct {
		enum tcp_state ours;
		uint8_t linux_state;
	} rows[] = {
		{TCP_ESTABLISHED, 1},
		{TCP_SYN_SENT, 2},
		{TCP_SYN_RECEIVED, 3},
		/* In TIME_WAIT the connection does not belong to the socket any more. */
		{TCP_FIN_WAIT_1, 4},
		{TCP_FIN_WAIT_2, 5},
		{TCP_TIME_WAIT, 7},
		{TCP_CLOSED, 7},
		{TCP_CLOSE_WAIT, 8},
		{TCP_LAST_ACK, 9},
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

static void test_nothing_sent_is_nothing_counted(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim_run(sim, SEC);
	assert_int_equal(sim_send(sim, A, 0, 0), 0);
	sim_run(sim, SEC);
	assert_int_equal(info_of(sim, A).tcpi_busy_time, 0);
	assert_in_range(info_of(sim, A).tcpi_last_data_recv, 1900, 2100);
	sim_end(sim);
}

static bool lose_all(struct sim *sim, const struct sim_segment *seg)
{
	return true;
}

/* Programs ask afterwards how much arrived. */
static void test_a_closed_connection_reports_correct_values(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_info info;

	sim_establish(sim);
	sim_send(sim, A, 1000, 0);
	sim_run(sim, 100 * SEC);
	sim->filter = lose_all;
	sim_send(sim, A, 5000, 0);
	sim_run(sim, 3600 * SEC);
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	info = info_of(sim, A);
	assert_int_equal(info.tcpi_bytes_acked, 1000);
	assert_int_equal(info.tcpi_unacked, 0);
	assert_in_range(info.tcpi_busy_time, 600u * 1000000, 3600u * 1000000);
	assert_int_equal(info.tcpi_rwnd_limited, 0);
	sim_close(sim, A);
	tcp_abort(&sim->host[B].conn, 0, sim->now);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_is_told_is_true),
	cmocka_unit_test(test_both_sides_count_the_same),
	cmocka_unit_test(test_what_is_lost_is_counted),
	cmocka_unit_test(test_bytes_are_counted_beyond_the_sequence_numbers),
	cmocka_unit_test(test_it_is_told_what_held_the_sender_up),
	cmocka_unit_test(test_the_rate_is_that_of_the_link),
	cmocka_unit_test(test_nothing_sent_is_nothing_counted),
	cmocka_unit_test(test_a_closed_connection_reports_correct_values),
	cmocka_unit_test(test_states_have_the_kernels_numbers),
};

VMA_TEST_MAIN("info", tests, NULL, NULL)
