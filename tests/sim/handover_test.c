/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net/tcp/tcp_handover.h: the description of a connection is sufficient for another TCP to
 * continue it. No byte of either stream is repeated or lost, whatever is in transit and
 * whichever side has ended.
 */
#include <string.h>

#include "net/tcp/tcp_handover.h"
#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static struct tcp_handover describe(struct sim *sim, int host)
{
	struct tcp_handover h;

	assert_true(tcp_handover_describe(&sim->host[host].conn, sim->now, &h));
	return h;
}

static void test_what_one_sends_the_other_reads(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_handover a, b;
	uint8_t sent[5000], got[5000];

	sim_establish(sim);
	assert_int_equal(sim_send(sim, A, 5000, 0), 5000);
	a = describe(sim, A);
	b = describe(sim, B);
	/* Sent, but not received. */
	assert_int_equal(a.to_send, 5000);
	assert_true(a.sent > 0 && a.sent <= 5000);
	assert_int_equal(a.send_seq, b.read_seq);
	assert_int_equal(b.to_read, 0);
	tcp_handover_copy_to_send(&sim->host[A].conn, sent);
	sim_run(sim, SEC);
	a = describe(sim, A);
	b = describe(sim, B);
	/* Received, but not read. */
	assert_int_equal(a.to_send, 0);
	assert_int_equal(b.to_read, 5000);
	assert_int_equal(a.send_seq, b.read_seq + 5000);
	assert_int_equal(b.send_seq, a.read_seq);
	tcp_handover_copy_to_read(&sim->host[B].conn, got);
	assert_memory_equal(sent, got, 5000);
	assert_true(a.wscale == b.wscale && a.sack == b.sack && a.timestamps == b.timestamps);
	assert_int_equal(a.snd_wscale, b.rcv_wscale);
	assert_true(a.mss >= 536 && a.snd_wnd_max >= a.snd_wnd && b.rcv_wnd);
	assert_false(a.no_more_to_send || a.no_more_to_read || b.no_more_to_send);
	sim_drain(sim, B);
	sim_end(sim);
}

static void test_an_end_is_told_with_its_place(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_handover a, b;

	sim_establish(sim);
	assert_int_equal(sim_send(sim, A, 1000, 0), 1000);
	sim_shutdown(sim, A);
	a = describe(sim, A); /* FIN_WAIT_1 */
	assert_int_equal(a.to_send, 1000);
	assert_true(a.no_more_to_send && !a.no_more_to_read);
	sim_run(sim, SEC);
	assert_int_equal(sim_state(sim, A), TCP_FIN_WAIT_2);
	b = describe(sim, B);
	assert_int_equal(b.to_read, 1000);
	assert_true(b.no_more_to_read && !b.no_more_to_send);
	/* The FIN follows the bytes; it arrives once more as an old segment. */
	a = describe(sim, A);
	assert_int_equal(a.send_seq + 1, b.read_seq + b.to_read);
	assert_int_equal(a.to_send, 0);
	assert_true(a.no_more_to_send);
	sim_drain(sim, B);
	sim_shutdown(sim, B);
	sim_run(sim, SEC);
	assert_false(tcp_handover_describe(&sim->host[A].conn, sim->now, &a)); /* TIME_WAIT */
	sim_end(sim);
}

static void test_what_is_no_connection_is_not_told(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);
	struct tcp_handover h;

	sim_listen(sim, B);
	sim_open(sim, A);
	assert_false(tcp_handover_describe(&sim->host[A].conn, sim->now, &h)); /* SYN_SENT */
	sim_run(sim, SEC);
	assert_true(tcp_handover_describe(&sim->host[A].conn, sim->now, &h));
	sim_end(sim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_one_sends_the_other_reads),
		cmocka_unit_test(test_an_end_is_told_with_its_place),
		cmocka_unit_test(test_what_is_no_connection_is_not_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
