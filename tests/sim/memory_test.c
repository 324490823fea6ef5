/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much memory a hostile peer can make a connection use: RFC 9293 section 3.10.7.4
 * (overlaps), and our limits.
 */
#include <errno.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/vma_test.h"

static struct sim *ready(uint32_t rcvbuf)
{
	struct sim_params params = sim_defaults();
	struct sim *sim;

	params.config[B].rcvbuf = rcvbuf;
	params.config[A].timestamps = false;
	sim = sim_create(&params);
	sim_establish(sim);
	sim_run(sim, SEC);
	return sim;
}

/* Bytes [from, from + len) of A's stream, xor-ed with lie. */
static void put(struct sim *sim, uint32_t from, uint32_t len, uint8_t lie, uint8_t flags)
{
	struct tcp_segment seg = sim_forge(sim, B, TCP_ACK | flags);
	uint8_t data[1460];

	for (uint32_t i = 0; i < len; i++)
		data[i] = sim_byte(A, from + i) ^ lie;
	seg.seq = sim->host[B].conn.irs + 1 + from;
	seg.len = len;
	seg.part[0].data = data;
	seg.part[0].len = len;
	sim_inject(sim, B, &seg);
}

/* A did not send this data: it must not see the acknowledgements. */
static bool lose_all(struct sim *sim, const struct sim_segment *seg)
{
	return true;
}

static void end(struct sim *sim)
{
	sim_close(sim, B);
	tcp_abort(&sim->host[B].conn, 0, sim->now);
	tcp_abort(&sim->host[A].conn, 0, sim->now);
	sim_end(sim);
}

static void test_bytes_one_by_one_do_not_pin_a_frame_each(void **state)
{
	struct sim *sim = ready(65536);

	sim->filter = lose_all;
	for (uint32_t at = 0; at < 60000; at++)
		put(sim, at, 1, 0, 0);
	assert_true(sim->packets <= 4 * 65536 / 2048 + 1);
	assert_int_equal(sim_drain(sim, B), 60000);
	end(sim);
}

static void test_bytes_with_gaps_do_not_either(void **state)
{
	struct sim *sim = ready(65536);

	sim->filter = lose_all;
	for (uint32_t at = 1; at < 60000; at += 2)
		put(sim, at, 1, 0, 0);
	assert_true(sim->packets <= 4 * 65536 / 2048);
	/* In-order data is still accepted, and replaces out-of-order data. */
	for (uint32_t at = 0; at < 60000; at += 1000)
		put(sim, at, 1000, 0, 0);
	assert_int_equal(sim_drain(sim, B), 60000);
	end(sim);
}

static void test_every_order_of_overlapping_pieces_gives_the_stream(void **state)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct sim *sim = ready(65536);

		sim->random = seed;
		sim->filter = lose_all;
		for (int i = 0; i < 60; i++) {
			uint32_t from = sim_random(sim, 5000);
			uint32_t len = 1 + sim_random(sim, 400);

			put(sim, from, len > 5000 - from ? 5000 - from : len, 0,
			    from + len >= 5000 ? TCP_FIN : 0);
		}
		for (uint32_t from = 0; from < 5000; from += 500)
			put(sim, from, 500, 0, from == 4500 ? TCP_FIN : 0);
		assert_int_equal(sim_drain(sim, B), 5000);
		assert_true(sim->host[B].eof);
		assert_int_equal(sim_state(sim, B), TCP_CLOSE_WAIT);
		end(sim);
	}
}

static void test_the_first_version_of_a_byte_stands(void **state)
{
	struct sim *sim = ready(65536);

	sim->filter = lose_all;
	put(sim, 100, 100, 0, 0);
	put(sim, 50, 150, 0xff, 0); /* 100 .. 199 differ from before; 50 .. 99 are new */
	put(sim, 0, 100, 0, 0);	    /* 50 .. 99 differ from before */
	assert_int_equal(tcp_readable_bytes(&sim->host[B].conn), 200);
	assert_int_equal(sim_recv(sim, B, 50), 50);
	end(sim);
}

static void test_nothing_follows_a_fin(void **state)
{
	struct sim *sim = ready(65536);

	sim->filter = lose_all;
	put(sim, 100, 100, 0, TCP_FIN); /* the stream ends after 200 bytes */
	put(sim, 200, 100, 0, 0);	/* false: beyond the end */
	put(sim, 150, 100, 0, TCP_FIN); /* false as well */
	put(sim, 0, 100, 0, 0);
	assert_int_equal(sim_state(sim, B), TCP_CLOSE_WAIT);
	assert_int_equal(sim_drain(sim, B), 200);
	assert_true(sim->host[B].eof);
	put(sim, 201, 100, 0, 0);
	assert_int_equal(tcp_readable_bytes(&sim->host[B].conn), 0);
	end(sim);
}

static void test_a_fin_ahead_of_its_time_waits(void **state)
{
	struct sim *sim = ready(65536);

	sim->filter = lose_all;
	put(sim, 100, 0, 0, TCP_FIN);
	put(sim, 100, 0, 0, TCP_FIN);
	assert_int_equal(sim_state(sim, B), TCP_ESTABLISHED);
	put(sim, 0, 100, 0, 0);
	assert_int_equal(sim_state(sim, B), TCP_CLOSE_WAIT);
	assert_int_equal(sim_drain(sim, B), 100);
	end(sim);
}

static void test_without_memory_nothing_is_acknowledged(void **state)
{
	struct sim_params params = sim_defaults();
	struct sim *sim = sim_create(&params);

	sim_establish(sim);
	sim->params.alloc_fails = 1000;
	assert_int_equal(sim_send(sim, A, 10, 0), -ENOMEM);
	sim->params.alloc_fails = 0;
	assert_int_equal(sim_send(sim, A, 10, 0), 10);
	sim->params.alloc_fails = 1000; /* the buffer cannot grow: it accepts less */
	assert_int_equal(sim_send(sim, A, 10000, 0), 4096 - 10);
	assert_int_equal(sim_send(sim, A, 10, 0), -EAGAIN);
	sim->params.alloc_fails = 0;
	sim_run(sim, SEC);
	assert_int_equal(sim_drain(sim, B), 4096);
	assert_int_equal(sim->host[A].writable, 1);
	sim_end(sim);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_bytes_one_by_one_do_not_pin_a_frame_each),
	cmocka_unit_test(test_bytes_with_gaps_do_not_either),
	cmocka_unit_test(test_every_order_of_overlapping_pieces_gives_the_stream),
	cmocka_unit_test(test_the_first_version_of_a_byte_stands),
	cmocka_unit_test(test_nothing_follows_a_fin),
	cmocka_unit_test(test_a_fin_ahead_of_its_time_waits),
	cmocka_unit_test(test_without_memory_nothing_is_acknowledged),
};

VMA_TEST_MAIN("memory", tests, NULL, NULL)
