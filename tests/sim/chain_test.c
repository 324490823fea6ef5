/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive offload: the segments of one burst are processed together, with the same result. */
#include "tests/sim/sim.h"
#include "tests/vma_test.h"

#define BYTES 400000u

static struct sim *napping(nsec_t poll_delay, void (*change)(struct sim_params *params))
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.poll_delay = poll_delay;
	params.config[B].rcvbuf = 1u << 20;
	if (change)
		change(&params);
	sim = sim_create(&params);
	sim_establish(sim);
	return sim;
}

/* A writes BYTES, B reads; the simulator compares every byte. */
static void transfer(struct sim *sim)
{
	uint32_t left = BYTES;

	for (int i = 0; i < 10000 && sim->host[B].received < BYTES; i++) {
		ssize_t n = left ? sim_send(sim, A, left, 0) : 0;

		left -= n > 0 ? (uint32_t)n : 0;
		sim_run(sim, 5 * MSEC);
		sim_drain(sim, B);
	}
	assert_int_equal(sim->host[B].received, BYTES);
}

static void test_a_burst_is_taken_at_once(void **state)
{
	struct sim *sim = napping(100 * USEC, NULL);
	const struct tcp_conn *conn = &sim->host[B].conn;

	transfer(sim);
	assert_true(sim->host[B].chains > 10);
	/* Each segment is counted, as if it had arrived alone. */
	assert_int_equal(conn->data_segs_in, sim->host[A].conn.data_segs_out);
	assert_int_equal(conn->segs_in + 1,
			 sim->host[A].conn.segs_out); /* the listener processed its SYN */
	assert_true(sim->host[B].readable < conn->data_segs_in / 2);
	sim_end(sim);
}

/* The counter continues after 4 GB, at any position in a chain. */
static void test_bytes_are_counted_past_four_gigabytes(void **state)
{
	for (uint32_t before = 500; before < 6000; before += 500) {
		struct sim *sim = napping(100 * USEC, NULL);
		struct tcp_conn *conn = &sim->host[B].conn;

		/* 4 GB are reached after this number of bytes */
		conn->irs = conn->rcv_nxt + before;
		transfer(sim);
		assert_int_equal(conn->nxt_hi, 1);
		sim_end(sim);
	}
}

static void test_without_bursts_there_is_nothing_to_chain(void **state)
{
	struct sim *sim = napping(0, NULL);

	transfer(sim);
	assert_int_equal(sim->host[B].chains, 0);
	sim_end(sim);
}

static void lose(struct sim_params *params)
{
	params->link[A].loss = 20;
	params->link[A].duplicate = 20;
	params->link[A].jitter = USEC;
}

static void test_what_is_no_stream_is_looked_at_one_by_one(void **state)
{
	struct sim *sim = napping(100 * USEC, lose);

	transfer(sim);
	assert_true(sim->host[B].chains > 0);
	sim_end(sim);
}

static void small(struct sim_params *params)
{
	params->config[B].rcvbuf = 8000;
}

static void test_no_chain_beyond_the_window(void **state)
{
	struct sim *sim = napping(100 * USEC, small);

	transfer(sim);
	sim_end(sim);
}

static void plain(struct sim_params *params)
{
	params->config[A].timestamps = false;
}

static void test_chains_without_timestamps(void **state)
{
	struct sim *sim = napping(100 * USEC, plain);

	transfer(sim);
	assert_true(sim->host[B].chains > 10);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_burst_is_taken_at_once),
	cmocka_unit_test(test_bytes_are_counted_past_four_gigabytes),
	cmocka_unit_test(test_without_bursts_there_is_nothing_to_chain),
	cmocka_unit_test(test_what_is_no_stream_is_looked_at_one_by_one),
	cmocka_unit_test(test_no_chain_beyond_the_window),
	cmocka_unit_test(test_chains_without_timestamps),
};

VMA_TEST_MAIN("chain", tests, NULL, NULL)
