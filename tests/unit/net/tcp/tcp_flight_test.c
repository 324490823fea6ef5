/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_flight.h"

#include "net/tcp/tcp_internal.h"
#include "tests/vma_test.h"

#define START 0xfffffc00u /* wraps around soon */
#define BYTES 4096

static bool no_memory;

static void *op_alloc(size_t size)
{
	return no_memory ? NULL : malloc(size);
}

static const struct tcp_ops ops = {.alloc = op_alloc, .free = free};

static struct tcp_conn conn;

static struct tcp_flight *fresh(void)
{
	no_memory = false;
	conn = (struct tcp_conn){.ops = &ops, .snd_nxt = START, .snd_una = START};
	assert_true(tcp_flight_create(&conn));
	return conn.flight;
}

static void send_at(uint32_t end, uint32_t usec)
{
	assert_true(conn.flight->n < conn.flight->max || tcp_flight_reserve(&conn, 1));
	tcp_flight_sent(conn.flight, START + end, usec, 10);
}

static void test_what_is_sent_together_is_one_run(void **state)
{
	struct tcp_flight *f = fresh();

	send_at(100, 1000);
	send_at(200, 1010);
	send_at(300, 1011);
	assert_int_equal(f->n, 2);
	assert_int_equal(f->r[0].end, START + 200);
	assert_int_equal(f->r[0].first, 1000);
	assert_int_equal(f->r[0].last, 1010);
	assert_int_equal(f->r[1].end, START + 300);
	tcp_flight_destroy(&conn);
}

static void test_the_latest_original_is_the_sample(void **state)
{
	struct tcp_news news = {.usec = 5000};
	struct tcp_flight *f = fresh();

	send_at(100, 1000);
	send_at(200, 2000);
	send_at(300, 3000);
	tcp_flight_acked(f, START + 200, &news);
	assert_true(news.sampled);
	assert_int_equal(news.sent, 2000);
	assert_int_equal(news.delivered, 200);
	assert_int_equal(f->rack_rtt, 3000);
	assert_int_equal(f->rack_end, START + 200);
	tcp_flight_destroy(&conn);
}

static void test_what_was_sent_again_is_no_sample(void **state)
{
	struct tcp_news news = {.usec = 5000, .min_rtt = 500};
	struct tcp_flight *f = fresh();

	send_at(100, 1000);
	tcp_flight_lose_all(f);
	assert_int_equal(f->lost, 100);
	tcp_flight_resent(&conn, START, START + 100, 4000);
	assert_int_equal(f->lost, 0);
	tcp_flight_acked(f, START + 100, &news);
	assert_false(news.sampled);
	assert_int_equal(f->rack_rtt, 1000);
	tcp_flight_destroy(&conn);
}

/* RFC 8985 section 6.2 step 2: an answer within less than a round trip belongs to the original. */
static void test_too_soon_an_answer_is_the_originals(void **state)
{
	struct tcp_news news = {.usec = 4100, .min_rtt = 500};
	struct tcp_flight *f = fresh();

	send_at(100, 1000);
	tcp_flight_lose_all(f);
	tcp_flight_resent(&conn, START, START + 100, 4000);
	tcp_flight_acked(f, START + 100, &news);
	assert_int_equal(f->rack_rtt, 0);
	tcp_flight_destroy(&conn);
}

static void test_overtaking_is_noticed(void **state)
{
	struct tcp_news news = {.usec = 5000, .fack = START};

	fresh();
	send_at(100, 1000);
	send_at(200, 2000);
	send_at(300, 3000);
	tcp_flight_sacked(&conn, START + 200, START + 300, &news);
	assert_false(news.reordered);
	news.fack = conn.flight->fack;
	tcp_flight_sacked(&conn, START + 100, START + 200, &news);
	assert_true(news.reordered);
	assert_int_equal(conn.flight->n, 2);
	assert_int_equal(conn.flight->sacked, 200);
	tcp_flight_destroy(&conn);
}

static void test_without_memory_runs_are_joined(void **state)
{
	fresh();
	no_memory = true;
	for (uint32_t i = 1; i <= BYTES; i++)
		send_at(i, i * 1000);
	assert_int_equal(conn.flight->r[conn.flight->n - 1].end, START + BYTES);
	assert_true(conn.flight->n <= TCP_FLIGHT_RUNS);
	tcp_flight_destroy(&conn);
}

/* ---- against a model of every byte --------------------------------------------------------- */

struct model {
	bool sacked[BYTES], lost[BYTES];
	uint32_t una, nxt;
};

static uint32_t random_below(uint32_t n)
{
	static uint64_t seed = 1;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return n ? (uint32_t)(seed >> 33) % n : 0;
}

static void compare(const struct model *m)
{
	const struct tcp_flight *f = conn.flight;
	uint32_t at = m->una, sacked = 0, lost = 0, start = 0, first = m->una, len;

	for (unsigned i = 0; i < f->n; i++) {
		for (; at < f->r[i].end - START; at++) {
			assert_int_equal(m->sacked[at], (f->r[i].what & RUN_SACKED) != 0);
			assert_int_equal(m->lost[at], (f->r[i].what & RUN_LOST) != 0);
			sacked += m->sacked[at];
			lost += m->lost[at];
		}
	}
	assert_int_equal(at, m->nxt);
	assert_int_equal(f->sacked, sacked);
	assert_int_equal(f->lost, lost);
	len = tcp_flight_next_lost(f, &start);
	while (first < m->nxt && !m->lost[first])
		first++;
	assert_int_equal(len != 0, first < m->nxt);
	if (len)
		assert_int_equal(start, START + first);
}

static void mark(bool *map, uint32_t from, uint32_t to, bool value)
{
	for (; from < to; from++)
		map[from] = value;
}

static void random_act(struct model *m, uint32_t usec)
{
	uint32_t from = m->una + random_below(m->nxt - m->una), start, len;
	uint32_t to = from + random_below(m->nxt - from) + 1;
	struct tcp_news news = {.usec = usec, .fack = conn.flight->fack};

	switch (random_below(8)) {
	case 0:
	case 1:
		len = random_below(BYTES - m->nxt < 50 ? BYTES - m->nxt : 50);
		m->nxt += len;
		if (len)
			send_at(m->nxt, usec);
		break;
	case 2:
	case 3:
		if (m->una == m->nxt)
			break;
		tcp_flight_sacked(&conn, START + from, START + to, &news);
		mark(m->sacked, from, to, true);
		mark(m->lost, from, to, false);
		break;
	case 4:
		if (random_below(4))
			break;
		tcp_flight_acked(conn.flight, START + from, &news);
		m->una = from;
		break;
	case 5:
		if (m->una == m->nxt)
			break;
		tcp_flight_lose_below(&conn, START + to);
		for (uint32_t i = m->una; i < to; i++)
			m->lost[i] = !m->sacked[i];
		break;
	default:
		len = tcp_flight_next_lost(conn.flight, &start);
		if (!len)
			break;
		len = random_below(len) + 1;
		tcp_flight_resent(&conn, start, start + len, usec);
		mark(m->lost, start - START, start - START + len, false);
	}
}

static void test_it_agrees_with_a_map_of_every_byte(void **state)
{
	for (int round = 0; round < 300; round++) {
		struct model m = {.una = 0};

		fresh();
		for (uint32_t step = 0; step < 300; step++) {
			random_act(&m, step * 7);
			if (conn.flight->n + 8 > TCP_FLIGHT_RUNS_MAX)
				/* from here on the flight may forget what was acknowledged */
				break;
			compare(&m);
		}
		tcp_flight_destroy(&conn);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_is_sent_together_is_one_run),
	cmocka_unit_test(test_the_latest_original_is_the_sample),
	cmocka_unit_test(test_what_was_sent_again_is_no_sample),
	cmocka_unit_test(test_too_soon_an_answer_is_the_originals),
	cmocka_unit_test(test_overtaking_is_noticed),
	cmocka_unit_test(test_without_memory_runs_are_joined),
	cmocka_unit_test(test_it_agrees_with_a_map_of_every_byte),
};

VMA_TEST_MAIN("tcp_flight", tests, NULL, NULL)
