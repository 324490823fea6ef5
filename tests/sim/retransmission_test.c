/* SPDX-License-Identifier: BSD-2-Clause */
/* Lost data: RFC 6298, RFC 5681 section 3.2, RFC 6582, RFC 6675, RFC 3042. */
#include <errno.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

/* Loses the data segments of A that begin at these numbers. */
static struct {
	uint32_t seq;
	int times;
} lost[16];

static bool lose_listed(struct sim *sim, const struct sim_segment *seg)
{
	if (seg->from != A || seg->len == 0)
		return false;
	for (unsigned i = 0; i < 16; i++) {
		if (lost[i].times && lost[i].seq == seg->seq) {
			lost[i].times--;
			return true;
		}
	}
	return false;
}

static void lose(unsigned slot, uint32_t segment, int times)
{
	lost[slot].seq = 1 + segment * 1000;
	lost[slot].times = times;
}

/* Segments of 1000 bytes. */
static struct sim *ready(bool sack, bool timestamps)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	memset(lost, 0, sizeof(lost));
	params.config[A].timestamps = timestamps;
	params.config[A].mss = timestamps ? 1012 : 1000;
	sim = sim_create(&params);
	sim_establish(sim);
	sim_run(sim, SEC);
	if (!sack) {
		sim->host[A].conn.flags &= ~(uint32_t)CONN_SACK;
		sim->host[B].conn.flags &= ~(uint32_t)CONN_SACK;
	}
	sim->filter = lose_listed;
	sim_log_clear(sim);
	return sim;
}

static void test_a_lone_segment_is_repeated_after_the_timeout(void **state)
{
	struct sim *sim = ready(true, true);
	nsec_t begin = sim->now, rto = sim->host[A].conn.rtt.rto;
	nsec_t pto = 2 * sim->host[A].conn.rtt.srtt + TCP_ACK_DELAY;

	assert_in_range(rto, 200 * MSEC, 240 * MSEC);
	lose(0, 0, 3);
	sim_send(sim, A, 1000, 0);
	sim_run(sim, 2 * SEC);
	assert_int_equal(sim_count_data(sim, A), 4);
	assert_int_equal(sim->log[1].at - begin, pto); /* the probe: RFC 8985 section 7 */
	assert_int_equal(sim->log[2].at - sim->log[1].at, rto);
	assert_int_equal(sim->log[3].at - sim->log[2].at, 2 * rto); /* backed off */
	assert_int_equal(sim_drain(sim, B), 1000);
	assert_int_equal(sim->host[A].conn.recovery, TCP_RECOVERY_NONE);
	sim_end(sim);
}

static void test_sixteen_times_in_vain_is_a_timeout(void **state)
{
	struct sim *sim = ready(true, true);

	lose(0, 0, 1000);
	sim_send(sim, A, 200, 0); /* too few bytes to exceed the path MTU */
	sim_run(sim, 3600 * SEC);
	assert_int_equal(sim->host[A].closed, 1);
	assert_int_equal(sim->host[A].error, ETIMEDOUT);
	assert_int_equal(sim_count_data(sim, A), 2 + TCP_DATA_RETRIES); /* and one probe */
	assert_in_range(sim_last(sim, A)->at - 1000 * SEC, 500 * SEC, 1000 * SEC);
	sim_end(sim);
}

/* How often A reported the event. */
static unsigned events(const struct sim *sim, enum tcp_event event)
{
	return sim->host[A].events[event];
}

static bool lose_all_of_a(struct sim *sim, const struct sim_segment *seg)
{
	return seg->from == A;
}

/* As Linux: without a program there are eight retransmissions, or tcp_orphan_retries. */
static void test_without_a_program_it_is_repeated_less(void **state)
{
	static const struct {
		uint8_t retries;
		nsec_t alive, gone; /* seconds */
	} expected[] = {{0, 95, 30}, {3, 2, 3}};

	for (unsigned i = 0; i < 2; i++) {
		struct sim *sim = ready(true, true);

		tcp_settings.orphan_retries = expected[i].retries;
		sim->filter = lose_all_of_a;
		sim_send(sim, A, 200, 0);
		sim_close(sim, A);
		sim_run(sim, expected[i].alive * SEC);
		assert_int_equal(sim->host[A].closed, 0);
		sim_run(sim, expected[i].gone * SEC);
		assert_int_equal(sim->host[A].closed, 1);
		assert_int_equal(sim->host[A].error, ETIMEDOUT);
		sim_end(sim);
	}
	tcp_settings.orphan_retries = 0;
}

static void test_three_duplicates_repeat_it_at_once(void **state)
{
	for (int sack = 0; sack < 2; sack++) {
		struct sim *sim = ready(sack, true);
		nsec_t begin = sim->now;

		lose(0, 0, 1);
		sim_send(sim, A, 10000, 0);
		sim_run(sim, 30 * MSEC);
		assert_int_equal(sim_drain(sim, B), 10000);
		assert_int_equal(sim_count_data(sim, A), 11);
		assert_int_equal(sim->log[10].from, B);
		for (unsigned i = 0; i < sim->logged; i++) {
			if (i >= 10 && sim->log[i].from == A && sim->log[i].len) {
				assert_int_equal(sim->log[i].seq, 1);
				assert_int_equal(sim->log[i].at - begin, 10 * MSEC);
			}
		}
		/* Halved: ten segments were in flight. */
		assert_int_equal(sim->host[A].conn.cc.ssthresh, 5000);
		assert_int_equal(sim->host[A].conn.retransmits, 1);
		assert_int_equal(events(sim, TCP_EVENT_RETRANSMIT), 1);
		assert_int_equal(events(sim, TCP_EVENT_RECOVERY), 1);
		assert_int_equal(events(sim, TCP_EVENT_RECOVERED), 1);
		assert_int_equal(events(sim, TCP_EVENT_TIMEOUT), 0);
		sim_end(sim);
	}
}

static void test_several_losses_of_one_window_need_no_timeout(void **state)
{
	for (int sack = 0; sack < 2; sack++) {
		for (int ts = 0; ts < 2; ts++) {
			struct sim *sim = ready(sack, ts);

			lose(0, 1, 1);
			lose(1, 3, 1);
			lose(2, 4, 1);
			sim_send(sim, A, 10000, 0);
			sim_run(sim, 120 * MSEC);
			assert_int_equal(sim_drain(sim, B), 10000);
			assert_int_equal(sim->host[A].conn.retransmits, 3);
			assert_int_equal(sim->host[A].conn.recovery, TCP_RECOVERY_NONE);
			sim_end(sim);
		}
	}
}

/* Karn: RFC 6298 section 3. */
static void test_what_was_sent_again_is_no_sample(void **state)
{
	for (int ts = 0; ts < 2; ts++) {
		struct sim *sim = ready(true, ts);

		assert_int_equal(sim->host[A].conn.rtt.srtt, 10 * MSEC);
		lose(0, 0, 1);
		sim_send(sim, A, 10000, 0);
		sim_run(sim, 25 * MSEC);
		assert_int_equal(sim_drain(sim, B), 10000);
		assert_int_equal(sim->host[A].conn.rtt.srtt, 10 * MSEC);
		sim_end(sim);
	}
}

static void test_sack_repairs_them_in_one_round_trip(void **state)
{
	struct sim *sim = ready(true, true);

	lose(0, 0, 1);
	lose(1, 2, 1);
	lose(2, 4, 1);
	sim_send(sim, A, 10000, 0);
	sim_run(sim, 20 * MSEC + MSEC);
	assert_int_equal(sim_drain(sim, B), 10000);
	sim_end(sim);
}

static void test_only_what_is_lost_is_sent_again(void **state)
{
	struct sim *sim = ready(true, true);

	lose(0, 0, 2); /* the retransmission too, so that a timeout follows */
	lose(1, 5, 1);
	sim_send(sim, A, 10000, 0);
	sim_run(sim, 2 * SEC);
	assert_int_equal(sim_drain(sim, B), 10000);
	assert_in_range(sim->host[A].conn.retransmits, 3, 4);
	sim_end(sim);
}

static void test_limited_transmit_finds_the_third_duplicate(void **state)
{
	struct sim *sim = ready(false, true);

	/* Three segments, the first one lost: only two duplicates without RFC 3042. */
	sim->host[A].conn.cc.cwnd = 3000;
	lose(0, 0, 1);
	sim_send(sim, A, 6000, 0);
	sim_run(sim, 100 * MSEC);
	assert_int_equal(sim_drain(sim, B), 6000);
	assert_int_equal(sim->host[A].conn.retransmits, 1);
	sim_end(sim);
}

static void test_after_a_timeout_everything_is_sent_again_slowly(void **state)
{
	struct sim *sim = ready(false, true);

	for (unsigned i = 0; i < 10; i++)
		lose(i, i, 1);
	sim_send(sim, A, 10000, 0);
	assert_int_equal(sim_count_data(sim, A), 10);
	sim_run(sim, 230 * MSEC);
	/* One, then two, ... */
	assert_int_equal(sim->log[10].seq, 1);
	assert_int_equal(sim_drain(sim, B) >= 1000, true);
	sim_run(sim, SEC);
	sim_drain(sim, B);
	assert_int_equal(sim->host[B].received, 10000);
	assert_int_equal(sim->host[A].conn.retransmits, 10);
	assert_int_equal(events(sim, TCP_EVENT_RETRANSMIT), 10);
	assert_int_equal(events(sim, TCP_EVENT_TIMEOUT), 1);
	assert_int_equal(events(sim, TCP_EVENT_RECOVERY), 0);
	sim_end(sim);
}

static void test_ten_segments_start(void **state)
{
	struct sim *sim = ready(true, true);

	sim_send(sim, A, 60000, 0);
	assert_int_equal(sim_count_data(sim, A), 10); /* RFC 6928 */
	sim_run(sim, 11 * MSEC);
	assert_int_equal(sim_count_data(sim, A), 30); /* slow start */
	sim_drain(sim, B);
	sim_end(sim);
}

static void test_an_idle_sender_starts_again(void **state)
{
	struct sim *sim = ready(true, true);
	int i;

	for (i = 0; i < 6; i++) {
		sim_send(sim, A, 60000, 0);
		sim_run(sim, 100 * MSEC);
		sim_drain(sim, B);
	}
	assert_true(sim->host[A].conn.cc.cwnd > 20000);
	sim_run(sim, 5 * SEC);
	sim_log_clear(sim);
	sim_send(sim, A, 60000, 0);
	assert_int_equal(sim_count_data(sim, A), 10);
	sim_run(sim, SEC);
	sim_drain(sim, B);
	sim_end(sim);
}

static void test_sack_blocks_tell_the_latest_first(void **state)
{
	struct sim *sim = ready(true, true);
	const struct tcp_conn *b = &sim->host[B].conn;

	lose(0, 1, 1);
	lose(1, 3, 1);
	lose(2, 5, 1);
	sim_send(sim, A, 8000, 0);
	sim_run(sim, 5 * MSEC);
	/* Segments 2, 4, 6 and 7 have arrived. */
	assert_int_equal(b->sacks, 3);
	assert_int_equal(b->rare->sack[0].start - b->irs, 6001);
	assert_int_equal(b->rare->sack[0].end - b->irs, 8001);
	assert_int_equal(b->rare->sack[1].start - b->irs, 4001);
	assert_int_equal(b->rare->sack[2].start - b->irs, 2001);
	assert_int_equal(sim_last(sim, B)->sacks, 3);
	sim_run(sim, SEC);
	assert_int_equal(b->sacks, 0);
	assert_int_equal(sim_drain(sim, B), 8000);
	sim_end(sim);
}

static void test_a_peer_that_takes_back_its_sacks_is_served(void **state)
{
	struct sim *sim = ready(true, true);

	lose(0, 0, 2); /* the fast retransmission too: only the timeout helps */
	sim_send(sim, A, 10000, 0);
	sim_run(sim, 30 * MSEC);
	tcp_recvq_prune(&sim->host[B].conn.rcv);
	sim->host[B].conn.sacks = 0;
	sim_run(sim, 20 * SEC);
	assert_int_equal(sim_drain(sim, B), 10000);
	sim_end(sim);
}

static bool lose_fin_of_a(struct sim *sim, const struct sim_segment *seg)
{
	return seg->from == A && (seg->flags & TCP_FIN) && sim->filter_arg-- > 0;
}

static void test_a_lost_fin_with_data_is_repeated(void **state)
{
	struct sim *sim = ready(true, true);

	sim->filter = lose_fin_of_a;
	sim->filter_arg = 2;
	sim_send(sim, A, 2500, TCP_SEND_MORE);
	sim_shutdown(sim, A);
	sim_run(sim, 3 * SEC);
	assert_int_equal(sim_drain(sim, B), 2500);
	assert_true(sim->host[B].eof);
	assert_int_equal(sim_state(sim, A), TCP_FIN_WAIT_2);
	sim_end(sim);
}

static void test_a_sink_without_room_is_like_a_loss(void **state)
{
	struct sim *sim = ready(true, true);

	sim->params.send_fails = 1000;
	assert_int_equal(sim_send(sim, A, 3000, 0), 3000);
	sim->params.send_fails = 0;
	sim_run(sim, SEC);
	assert_int_equal(sim_drain(sim, B), 3000);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_lone_segment_is_repeated_after_the_timeout),
	cmocka_unit_test(test_sixteen_times_in_vain_is_a_timeout),
	cmocka_unit_test(test_without_a_program_it_is_repeated_less),
	cmocka_unit_test(test_three_duplicates_repeat_it_at_once),
	cmocka_unit_test(test_several_losses_of_one_window_need_no_timeout),
	cmocka_unit_test(test_what_was_sent_again_is_no_sample),
	cmocka_unit_test(test_sack_repairs_them_in_one_round_trip),
	cmocka_unit_test(test_only_what_is_lost_is_sent_again),
	cmocka_unit_test(test_limited_transmit_finds_the_third_duplicate),
	cmocka_unit_test(test_after_a_timeout_everything_is_sent_again_slowly),
	cmocka_unit_test(test_ten_segments_start),
	cmocka_unit_test(test_an_idle_sender_starts_again),
	cmocka_unit_test(test_sack_blocks_tell_the_latest_first),
	cmocka_unit_test(test_a_peer_that_takes_back_its_sacks_is_served),
	cmocka_unit_test(test_a_lost_fin_with_data_is_repeated),
	cmocka_unit_test(test_a_sink_without_room_is_like_a_loss),
};

VMA_TEST_MAIN("retransmission", tests, NULL, NULL)
