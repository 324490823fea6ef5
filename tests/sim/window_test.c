/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow control: RFC 9293 section 3.8.6 (probes, silly windows, shrinking), RFC 7323 section 2. */
#include <errno.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static struct sim *ready(uint32_t rcvbuf)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.config[B].rcvbuf = rcvbuf;
	sim = sim_create(&params);
	sim_establish(sim);
	sim_run(sim, SEC);
	sim_log_clear(sim);
	return sim;
}

/* Fills B's window, including a last small part; the program reads nothing. */
static struct sim *filled(uint32_t rcvbuf)
{
	struct sim *sim = ready(rcvbuf);

	sim_send(sim, A, 60000, 0);
	sim_run(sim, 300 * MSEC);
	return sim;
}

static void test_what_does_not_fit_waits(void **state)
{
	struct sim *sim = filled(8192);

	assert_in_range(tcp_readable_bytes(&sim->host[B].conn), 8192 - 128, 8192);
	assert_int_equal(sim->host[A].conn.snd_wnd, 0);
	assert_int_equal(sim->host[A].events[TCP_EVENT_WINDOW_CLOSED], 1);
	assert_int_equal(sim->host[A].events[TCP_EVENT_WINDOW_OPEN], 0);
	for (int i = 0; i < 20; i++) {
		sim_drain(sim, B);
		sim_run(sim, 100 * MSEC);
	}
	/* It may close once more, each time the window is full again. */
	assert_true(sim->host[A].events[TCP_EVENT_WINDOW_OPEN] >= 1);
	assert_int_equal(sim->host[A].events[TCP_EVENT_WINDOW_OPEN],
			 sim->host[A].events[TCP_EVENT_WINDOW_CLOSED]);
	assert_int_equal(sim->host[B].received, 60000);
	sim_end(sim);
}

static void test_a_closed_window_is_probed_at_doubling_intervals(void **state)
{
	struct sim *sim = filled(8192);
	nsec_t at[4];
	unsigned n = 0;

	sim_log_clear(sim);
	sim_run(sim, 10 * SEC);
	for (unsigned i = 0; i < sim->logged && n < 4; i++) {
		if (sim->log[i].from == A) {
			assert_int_equal(sim->log[i].len, 0);
			at[n++] = sim->log[i].at;
		}
	}
	assert_int_equal(n, 4);
	assert_true(sim->host[A].events[TCP_EVENT_PROBE] >= 4);
	assert_in_range((at[2] - at[1]) * 10 / (at[1] - at[0]), 19, 21);
	assert_in_range((at[3] - at[2]) * 10 / (at[2] - at[1]), 19, 21);
	assert_int_equal(sim_count_pure_acks(sim, B), sim_count_pure_acks(sim, A));
	sim_end(sim);
}

static void test_probing_goes_on_while_the_peer_answers(void **state)
{
	struct sim *sim = filled(8192);

	sim_run(sim, 24 * 3600 * SEC);
	assert_int_equal(sim->host[A].closed, 0);
	sim_drain(sim, B);
	sim_run(sim, SEC);
	sim_drain(sim, B);
	sim_run(sim, 5 * SEC);
	assert_true(sim->host[B].received > 8192);
	sim_end(sim);
}

static bool lose_all_of_b(struct sim *sim, const struct sim_segment *seg)
{
	return seg->from == B && sim->filter_arg-- > 0;
}

static void test_a_peer_that_answers_no_probe_is_gone(void **state)
{
	struct sim *sim = filled(8192);

	sim->filter = lose_all_of_b;
	sim->filter_arg = 1000;
	sim_run(sim, 3600 * SEC);
	assert_int_equal(sim->host[A].closed, 1);
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	sim_end(sim);
}

static void test_a_closed_socket_does_not_probe_for_ever(void **state)
{
	struct sim *sim = filled(8192);

	/* As Linux: until the interval has its maximum, although the peer answers. */
	sim_close(sim, A);
	sim_run(sim, 150 * SEC);
	assert_int_equal(sim->host[A].closed, 0);
	sim_run(sim, 200 * SEC);
	assert_int_equal(sim->host[A].closed, 1);
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	sim_end(sim);
}

static void test_a_closed_socket_probes_eight_times_in_vain(void **state)
{
	struct sim *sim = filled(8192);

	sim->filter = lose_all_of_b;
	sim->filter_arg = 1000;
	sim_close(sim, A);
	sim_run(sim, 80 * SEC);
	assert_int_equal(sim->host[A].closed, 0);
	sim_run(sim, 60 * SEC);
	assert_int_equal(sim->host[A].closed, 1);
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	sim_end(sim);
}

static void test_a_lost_window_update_is_made_good_by_a_probe(void **state)
{
	struct sim *sim = filled(8192);

	sim->filter = lose_all_of_b;
	sim->filter_arg = 1;
	sim_drain(sim, B);
	assert_int_equal(sim->filter_arg, 0); /* the probe was sent */
	sim_run(sim, 2 * SEC);
	assert_true(sim_drain(sim, B) > 0);
	sim_end(sim);
}

static bool lose_bare_of_a(struct sim *sim, const struct sim_segment *seg)
{
	return seg->from == A && seg->len == 0 && sim->filter_arg-- > 0;
}

static void test_lost_probes_and_updates_only_delay(void **state)
{
	struct sim *sim = filled(8192);

	sim->filter = lose_all_of_b;
	sim->filter_arg = 1;
	sim_drain(sim, B);
	sim->filter = lose_bare_of_a;
	sim->filter_arg = 2;
	sim_run(sim, 5 * SEC);
	assert_true(sim_drain(sim, B) > 0);
	sim_end(sim);
}

static void test_a_receiver_offers_no_silly_windows(void **state)
{
	struct sim *sim = filled(8192);

	sim_log_clear(sim);
	for (int i = 0; i < 10; i++)
		sim_recv(sim, B, 100);
	assert_int_equal(sim->logged, 0);
	for (int i = 0; i < 10; i++)
		sim_recv(sim, B, 100);
	assert_int_equal(sim_count_pure_acks(sim, B), 1);
	assert_true(sim_last(sim, B)->wnd << 7 >= 1448 - 127);
	sim_end(sim);
}

static void test_a_sender_does_not_fill_silly_windows(void **state)
{
	struct sim *sim = filled(8192);
	struct tcp_segment ack;

	/* The peer nevertheless offers small windows. */
	sim_log_clear(sim);
	ack = sim_forge(sim, A, TCP_ACK);
	ack.wnd = 2; /* 256 bytes */
	sim_inject(sim, A, &ack);
	assert_int_equal(sim_count_data(sim, A), 0);
	ack.wnd = 40; /* 5120: more than half of the largest so far */
	sim_inject(sim, A, &ack);
	assert_int_equal(sim_count_data(sim, A), 3);
	sim_end(sim);
}

static void test_silly_windows_are_used_when_no_others_come(void **state)
{
	struct sim *sim = filled(8192);
	struct tcp_segment ack = sim_forge(sim, A, TCP_ACK);

	sim_log_clear(sim);
	ack.wnd = 2;
	sim_inject(sim, A, &ack);
	sim_run(sim, 205 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 1);
	assert_int_equal(sim->log[0].len, 256);
	sim_end(sim);
}

static void test_a_window_that_shrinks_is_survived(void **state)
{
	struct sim *sim = ready(65536);
	struct tcp_segment ack;

	sim_send(sim, A, 30000, 0);
	sim_run(sim, 6 * MSEC); /* in transit, partly acknowledged */
	ack = sim_forge(sim, A, TCP_ACK);
	ack.wnd = 0;
	sim_inject(sim, A, &ack);
	assert_int_equal(sim->host[A].conn.snd_wnd, 0);
	sim_run(sim, 20 * SEC);
	assert_int_equal(sim_drain(sim, B), 30000);
	sim_end(sim);
}

static void test_windows_beyond_64_kb_are_used(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.config[A].sndbuf = 1 << 20;
	params.config[B].rcvbuf = 1 << 20;
	sim = sim_create(&params);
	sim_establish(sim);
	for (int i = 0; i < 50 && sim->host[B].received < 1000000; i++) {
		sim_send(sim, A, 200000, 0);
		sim_run(sim, 10 * MSEC);
		if (i % 20 == 19)
			sim_drain(sim, B);
	}
	sim_drain(sim, B);
	assert_true(sim->host[B].received >= 1000000);
	assert_true(sim->host[A].conn.snd_wnd_max > 1000000);
	sim_end(sim);
}

static void test_data_beyond_the_window_is_cut_off(void **state)
{
	struct sim *sim = ready(4096);
	struct tcp_segment seg;
	uint8_t data[1400];

	for (uint32_t at = 0; at < 6000; at += 1000) {
		for (uint32_t i = 0; i < 1400; i++)
			data[i] = sim_byte(A, at + i);
		seg = sim_forge(sim, B, TCP_ACK);
		seg.seq += at;
		seg.len = 1400;
		seg.part[0].data = data;
		seg.part[0].len = 1400;
		sim_inject(sim, B, &seg);
	}
	assert_int_equal(tcp_readable_bytes(&sim->host[B].conn), 4096);
	assert_int_equal(sim_recv(sim, B, 5000), 4096);
	tcp_abort(&sim->host[A].conn, 0, sim->now);
	sim_end(sim);
}

static void test_a_full_send_buffer_says_when_there_is_room(void **state)
{
	struct sim *sim = ready(65536);
	ssize_t took = sim_send(sim, A, 70000, 0);

	assert_int_equal(took, 65536);
	assert_int_equal(tcp_writable_bytes(&sim->host[A].conn), 0);
	assert_int_equal(sim_send(sim, A, 1, 0), -EAGAIN);
	assert_int_equal(sim->host[A].writable, 0);
	sim_run(sim, 20 * MSEC);
	sim_drain(sim, B);
	sim_run(sim, SEC);
	assert_int_equal(sim->host[A].writable, 1);
	assert_true(tcp_writable_bytes(&sim->host[A].conn) > 20000);
	sim_drain(sim, B);
	sim_end(sim);
}

static void test_an_idle_send_buffer_is_given_back(void **state)
{
	struct sim *sim = ready(65536);

	assert_int_equal(sim->buffers, 0);
	sim_send(sim, A, 100, 0);
	assert_int_equal(sim->buffers, 2); /* and the record of its bytes */
	sim_run(sim, 500 * MSEC);
	sim_send(sim, A, 100, 0);
	sim_run(sim, 900 * MSEC);
	assert_int_equal(sim->buffers, 2);
	sim_run(sim, 200 * MSEC);
	assert_int_equal(sim->buffers, 0);
	sim_send(sim, A, 100, 0);
	sim_run(sim, SEC);
	assert_int_equal(sim_drain(sim, B), 300);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_does_not_fit_waits),
	cmocka_unit_test(test_a_closed_window_is_probed_at_doubling_intervals),
	cmocka_unit_test(test_probing_goes_on_while_the_peer_answers),
	cmocka_unit_test(test_a_peer_that_answers_no_probe_is_gone),
	cmocka_unit_test(test_a_closed_socket_does_not_probe_for_ever),
	cmocka_unit_test(test_a_closed_socket_probes_eight_times_in_vain),
	cmocka_unit_test(test_a_lost_window_update_is_made_good_by_a_probe),
	cmocka_unit_test(test_lost_probes_and_updates_only_delay),
	cmocka_unit_test(test_a_receiver_offers_no_silly_windows),
	cmocka_unit_test(test_a_sender_does_not_fill_silly_windows),
	cmocka_unit_test(test_silly_windows_are_used_when_no_others_come),
	cmocka_unit_test(test_a_window_that_shrinks_is_survived),
	cmocka_unit_test(test_windows_beyond_64_kb_are_used),
	cmocka_unit_test(test_data_beyond_the_window_is_cut_off),
	cmocka_unit_test(test_a_full_send_buffer_says_when_there_is_room),
	cmocka_unit_test(test_an_idle_send_buffer_is_given_back),
};

VMA_TEST_MAIN("window", tests, NULL, NULL)
