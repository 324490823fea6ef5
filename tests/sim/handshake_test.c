/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening a connection: RFC 9293 sections 3.5 and 3.10.7.2 to 3.10.7.4. */
#include <errno.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static void test_three_segments_open_a_connection(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_listen(sim, B);
	sim_open(sim, A);
	assert_int_equal(sim_state(sim, A), TCP_SYN_SENT);
	sim_run(sim, 100 * MSEC);
	assert_int_equal(sim_state(sim, A), TCP_ESTABLISHED);
	assert_int_equal(sim_state(sim, B), TCP_ESTABLISHED);
	assert_int_equal(sim->logged, 3);
	assert_int_equal(sim->log[0].flags, TCP_SYN);
	assert_int_equal(sim->log[1].flags, TCP_SYN | TCP_ACK);
	assert_int_equal(sim->log[2].flags, TCP_ACK);
	sim_end(sim);
}

static void test_options_are_used_when_both_offer_them(void **state)
{
	static const struct {
		bool a, b, both;
	} rows[] = {{true, true, true}, {true, false, false}, {false, true, false}};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sim_params params = sim_defaults();
		struct sim *sim;

		params.config[A].timestamps = rows[i].a;
		params.config[B].timestamps = rows[i].b;
		params.config[A].mss = 1000;
		sim = sim_create(&params);
		sim_establish(sim);
		for (int h = A; h <= B; h++) {
			const struct tcp_conn *c = &sim->host[h].conn;

			assert_int_equal(!!(c->flags & CONN_TIMESTAMPS), rows[i].both);
			assert_int_equal(c->mss, rows[i].both ? 988 : 1000);
			assert_int_equal(c->snd_wscale, 7);
			assert_int_equal(c->rcv_wscale, 7);
			assert_true(c->flags & CONN_SACK);
		}
		sim_end(sim);
	}
}

static void test_without_a_listener_the_connection_is_refused(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_open(sim, A);
	sim_run(sim, 100 * MSEC);
	assert_int_equal(sim->host[A].closed, 1);
	assert_int_equal(sim->host[A].error, ECONNREFUSED);
	assert_int_equal(sim_send(sim, A, 1, 0), -ECONNREFUSED); /* reported once */
	assert_int_equal(sim_send(sim, A, 1, 0), -EPIPE);
	sim_end(sim);
}

static bool lose_all(struct sim *sim, const struct sim_segment *seg)
{
	return true;
}

static void test_seven_syns_without_answer_time_out(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	nsec_t begin = sim->now;

	sim->filter = lose_all;
	sim_open(sim, A);
	while (sim_step(sim))
		;
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	assert_int_equal(sim_count(sim, A, TCP_SYN), 1 + TCP_SYN_RETRIES);
	assert_int_equal((sim->now - begin) / SEC, 1 + 2 + 4 + 8 + 16 + 32 + 64);
	sim_end(sim);
}

/* Loses the first filter_arg segments with SYN from host B (bit 8) or A. */
static bool lose_syns(struct sim *sim, const struct sim_segment *seg)
{
	int from = sim->filter_arg & 0x100 ? B : A;

	if (seg->from != from || !(seg->flags & TCP_SYN) || !(sim->filter_arg & 0xff))
		return false;
	sim->filter_arg--;
	return true;
}

static void test_lost_syn_and_syn_ack_are_repeated(void **state)
{
	for (int from = A; from <= B; from++) {
		for (int n = 1; n <= 3; n++) {
			struct sim_params params = sim_defaults();
			struct sim *sim = sim_create(&params);

			sim->filter = lose_syns;
			sim->filter_arg = n | (from == B ? 0x100 : 0);
			sim_establish(sim);
			assert_in_range(sim->now, 1000 * SEC, 1008 * SEC);
			sim_send(sim, A, 100, 0);
			sim_run(sim, SEC);
			assert_int_equal(sim_drain(sim, B), 100);
			sim_end(sim);
		}
	}
}

static bool lose_first_bare_ack(struct sim *sim, const struct sim_segment *seg)
{
	return seg->from == A && seg->flags == TCP_ACK && sim->filter_arg-- > 0;
}

static void test_lost_last_ack_is_made_good_by_data(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim->filter = lose_first_bare_ack;
	sim->filter_arg = 1;
	sim_listen(sim, B);
	sim_open(sim, A);
	sim_run(sim, 20 * MSEC);
	assert_int_equal(sim->host[B].exists, false);
	sim_send(sim, A, 500, 0);
	sim_run(sim, 20 * MSEC);
	assert_int_equal(sim_state(sim, B), TCP_ESTABLISHED);
	assert_int_equal(sim_drain(sim, B), 500);
	sim_end(sim);
}

static void test_lost_last_ack_is_made_good_by_the_syn_ack(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim->filter = lose_first_bare_ack;
	sim->filter_arg = 1;
	sim_listen(sim, B);
	sim_open(sim, A);
	sim_run(sim, 2 * SEC);
	assert_int_equal(sim_state(sim, B), TCP_ESTABLISHED);
	sim_end(sim);
}

static void test_full_accept_queue_leaves_the_peer_to_repeat(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim->host[B].accept_fails = 2;
	sim_listen(sim, B);
	sim_open(sim, A);
	sim_run(sim, 20 * MSEC);
	assert_int_equal(sim->drops[DROP_TCP_BACKLOG], 1);
	sim_run(sim, 10 * SEC);
	assert_int_equal(sim_state(sim, B), TCP_ESTABLISHED);
	sim_end(sim);
}

static void test_fewer_syns_and_syn_acks_when_the_program_says_so(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	nsec_t begin = sim->now;

	sim->filter = lose_all;
	sim_open(sim, A);
	tcp_set_syn_retries(&sim->host[A].conn, 2);
	while (sim_step(sim))
		;
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	assert_int_equal(sim_count(sim, A, TCP_SYN), 1 + 2);
	assert_int_equal((sim->now - begin) / SEC, 1 + 2 + 4);
	sim_end(sim);

	sim = sim_create(&params);
	sim->filter = lose_first_bare_ack;
	sim->filter_arg = 1000;
	sim_listen(sim, B);
	sim->host[B].listener.syn_ack_retries = 1;
	sim_open(sim, A);
	sim_run(sim, 30 * SEC);
	assert_int_equal(sim->host[B].listener.pending, 0);
	assert_int_equal(sim_count(sim, B, TCP_SYN), 1 + 1);
	sim_end(sim);
}

static void test_handshake_that_is_never_finished_is_forgotten(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim->filter = lose_first_bare_ack;
	sim->filter_arg = 1000;
	sim_listen(sim, B);
	sim_open(sim, A);
	sim_run(sim, 30 * SEC);
	assert_int_equal(sim->host[B].listener.pending, 1);
	sim_run(sim, 40 * SEC);
	assert_int_equal(sim->host[B].listener.pending, 0);
	assert_int_equal(tcp_listener_deadline(&sim->host[B].listener), NSEC_NEVER);
	assert_int_equal(sim_count(sim, B, TCP_SYN), 1 + TCP_SYNACK_RETRIES);
	/* From here on a RST answers what A sends. */
	sim->filter = NULL;
	sim_send(sim, A, 10, 0);
	sim_run(sim, SEC);
	assert_int_equal(sim->host[A].error, ECONNRESET);
	sim_end(sim);
}

static void test_reset_ends_a_handshake(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_segment rst = {.flags = TCP_RST};

	sim->filter = lose_first_bare_ack;
	sim->filter_arg = 1000;
	sim_listen(sim, B);
	sim_open(sim, A);
	sim_run(sim, 50 * MSEC);
	assert_int_equal(sim->host[B].listener.pending, 1);
	rst.seq = sim->host[A].conn.iss + 2; /* in the window, but not the exact number */
	sim_inject(sim, B, &rst);
	assert_int_equal(sim->host[B].listener.pending, 1);
	rst.seq = sim->host[A].conn.iss + 1;
	sim_inject(sim, B, &rst);
	assert_int_equal(sim->host[B].listener.pending, 0);
	tcp_abort(&sim->host[A].conn, 0, sim->now);
	sim_end(sim);
}

static void test_backlog_bounds_handshakes(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;
	struct tcp_segment syn = {.flags = TCP_SYN, .seq = 5};

	params.backlog = 0;
	sim = sim_create(&params);
	sim_listen(sim, B);
	sim_inject(sim, B, &syn);
	assert_int_equal(sim->drops[DROP_TCP_BACKLOG], 1);
	assert_int_equal(sim->logged, 0);
	sim_end(sim);
}

static void test_nonsense_to_a_listener_is_dropped_or_reset(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_segment seg = {.seq = 5, .ack = 77};

	sim_listen(sim, B);
	seg.flags = TCP_SYN | TCP_FIN;
	sim_inject(sim, B, &seg);
	seg.flags = 0;
	sim_inject(sim, B, &seg);
	seg.flags = TCP_RST;
	sim_inject(sim, B, &seg);
	assert_int_equal(sim->logged, 0);
	seg.flags = TCP_ACK;
	sim_inject(sim, B, &seg);
	assert_int_equal(sim->logged, 1);
	assert_int_equal(sim->log[0].flags, TCP_RST);
	seg.flags = TCP_SYN | TCP_ACK;
	sim_inject(sim, B, &seg);
	assert_int_equal(sim->logged, 2);
	assert_int_equal(sim->log[1].flags, TCP_RST);
	seg.flags = TCP_SYN;
	seg.opt_len = 4;
	seg.opts[0] = 2; /* an MSS option beyond the end */
	seg.opts[1] = 40;
	sim_inject(sim, B, &seg);
	assert_int_equal(sim->drops[DROP_TCP_OPTION], 1);
	sim_end(sim);
}

static void test_wrong_ack_of_the_syn_is_reset(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_segment seg = {.flags = TCP_SYN | TCP_ACK, .seq = 99};

	sim_listen(sim, B);
	sim_open(sim, A);
	seg.ack = sim->host[A].conn.iss + 2;
	sim_log_clear(sim);
	sim_inject(sim, A, &seg);
	assert_int_equal(sim->log[0].flags, TCP_RST);
	assert_int_equal(sim->log[0].seq, 2);
	/* A reset is valid only if it acknowledges the SYN. */
	seg.flags = TCP_RST;
	sim_inject(sim, A, &seg);
	assert_int_equal(sim_state(sim, A), TCP_SYN_SENT);
	sim_run(sim, 100 * MSEC);
	assert_int_equal(sim_state(sim, A), TCP_ESTABLISHED);
	sim_end(sim);
}

static void test_unreachable_ends_an_attempt_only(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_open(sim, A);
	tcp_unreachable(&sim->host[A].conn, EHOSTUNREACH, sim->now);
	assert_int_equal(sim->host[A].error, EHOSTUNREACH);
	sim_end(sim);
	sim = sim_create(&params);
	sim_establish(sim);
	tcp_unreachable(&sim->host[A].conn, EHOSTUNREACH, sim->now);
	assert_int_equal(sim->host[A].closed, 0);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_three_segments_open_a_connection),
	cmocka_unit_test(test_options_are_used_when_both_offer_them),
	cmocka_unit_test(test_without_a_listener_the_connection_is_refused),
	cmocka_unit_test(test_seven_syns_without_answer_time_out),
	cmocka_unit_test(test_lost_syn_and_syn_ack_are_repeated),
	cmocka_unit_test(test_fewer_syns_and_syn_acks_when_the_program_says_so),
	cmocka_unit_test(test_lost_last_ack_is_made_good_by_data),
	cmocka_unit_test(test_lost_last_ack_is_made_good_by_the_syn_ack),
	cmocka_unit_test(test_full_accept_queue_leaves_the_peer_to_repeat),
	cmocka_unit_test(test_handshake_that_is_never_finished_is_forgotten),
	cmocka_unit_test(test_reset_ends_a_handshake),
	cmocka_unit_test(test_backlog_bounds_handshakes),
	cmocka_unit_test(test_nonsense_to_a_listener_is_dropped_or_reset),
	cmocka_unit_test(test_wrong_ack_of_the_syn_is_reset),
	cmocka_unit_test(test_unreachable_ends_an_attempt_only),
};

VMA_TEST_MAIN("handshake", tests, NULL, NULL)
