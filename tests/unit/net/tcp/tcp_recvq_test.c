/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_recvq.h"

#include <string.h>

#include "net/tcp/tcp_seq.h"
#include "net/tcp/tcp_wire.h"
#include "tests/vma_test.h"

#define ROOM 2048
#define OFF 54

static unsigned alive;

static void put(struct pkt_pool *pool, struct pkt *pkt)
{
	alive--;
	free(pkt->frame);
	free(pkt);
}

static struct pkt_pool pool = {.put = put};

/* The value of each byte is its sequence number. */
static struct pkt *make_in(uint32_t room, uint32_t seq, uint16_t len, uint8_t flags)
{
	struct pkt *pkt = calloc(1, sizeof(*pkt));

	pkt->frame = malloc(room);
	pkt->room = room;
	pkt->pool = &pool;
	pkt->off = OFF;
	pkt->len = len;
	pkt->seq = seq;
	pkt->tcp_flags = flags;
	pkt->frame_len = OFF + len;
	for (uint16_t i = 0; i < len; i++)
		pkt->frame[OFF + i] = (uint8_t)(seq + i);
	alive++;
	return pkt;
}

static struct pkt *make(uint32_t seq, uint16_t len, uint8_t flags)
{
	return make_in(ROOM, seq, len, flags);
}

static struct tcp_recvq queue(uint32_t rcvbuf)
{
	struct tcp_recvq q = {0};

	tcp_recvq_set_limit(&q, rcvbuf);
	return q;
}

/* Each run begins after a hole, and its first packet knows where the run ends. */
static void check_runs(const struct tcp_recvq *q)
{
	const struct pkt *first = NULL, *before = NULL;
	uint32_t runs = 0;

	for (const struct pkt *p = q->ooo; p; before = p, p = p->next) {
		if (!before || before->seq + before->len != p->seq) {
			assert_true(!first || first->run_last == before);
			first = p;
			runs++;
		}
	}
	assert_true(!first || first->run_last == before);
	assert_ptr_equal(q->ooo_run, first);
	assert_int_equal(q->runs, runs);
}

static bool insert(struct tcp_recvq *q, uint32_t seq, uint16_t len, uint8_t flags)
{
	struct pkt *pkt = make(seq, len, flags);
	uint32_t start, end;

	if (tcp_recvq_insert(q, pkt, &start, &end)) {
		check_runs(q);
		assert_true(seq_geq(start, seq) && seq_leq(end, seq + len));
		return true;
	}
	pkt_free(pkt);
	return false;
}

static void read_all(struct tcp_recvq *q, uint32_t from, uint32_t bytes)
{
	uint8_t buf[3];
	struct iovec iov[2] = {{buf, 1}, {buf + 1, 2}};
	uint32_t n, done = 0;

	while ((n = tcp_recvq_read(q, iov, 2, false))) {
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(buf[i], (uint8_t)(from + done + i));
		done += n;
	}
	assert_int_equal(done, bytes);
	assert_int_equal(q->room, 0);
}

static void test_what_is_appended_is_read_in_order(void **state)
{
	struct tcp_recvq q = queue(65536);
	bool pruned;

	for (uint32_t seq = 0; seq < 1000; seq += 100)
		assert_true(tcp_recvq_append(&q, make(seq, 100, 0), &pruned));
	assert_int_equal(q.bytes, 1000);
	read_all(&q, 0, 1000);
	assert_int_equal(alive, 0);
}

static void test_a_packet_is_taken_with_what_is_unread_of_it(void **state)
{
	struct tcp_recvq q = queue(65536);
	uint8_t buf[10];
	struct iovec iov = {buf, sizeof(buf)};
	struct pkt *pkt;
	bool pruned;

	tcp_recvq_append(&q, make(0, 100, 0), &pruned);
	tcp_recvq_append(&q, make(100, 100, 0), &pruned);
	assert_int_equal(tcp_recvq_read(&q, &iov, 1, false), 10);
	pkt = tcp_recvq_take(&q);
	assert_int_equal(pkt->len, 90);
	assert_int_equal(pkt_payload(pkt)[0], 10);
	assert_int_equal(q.bytes, 100);
	pkt_free(pkt);
	pkt = tcp_recvq_take(&q);
	assert_int_equal(pkt->seq, 100);
	pkt_free(pkt);
	assert_int_equal(q.bytes, 0);
	assert_int_equal(q.room, 0);
	tcp_recvq_append(&q, make(200, 100, 0), &pruned);
	read_all(&q, 200, 100);
	assert_int_equal(alive, 0);
}

static void test_peeking_leaves_it(void **state)
{
	struct tcp_recvq q = queue(65536);
	uint8_t buf[150];
	struct iovec iov = {buf, sizeof(buf)};
	bool pruned;

	tcp_recvq_append(&q, make(0, 100, 0), &pruned);
	tcp_recvq_append(&q, make(100, 100, 0), &pruned);
	assert_int_equal(tcp_recvq_read(&q, &iov, 1, true), 150);
	assert_int_equal(buf[149], 149);
	assert_int_equal(q.bytes, 200);
	iov.iov_len = 10;
	assert_int_equal(tcp_recvq_read(&q, &iov, 1, false), 10);
	assert_int_equal(tcp_recvq_read(&q, &iov, 1, true), 10);
	assert_int_equal(buf[0], 10);
	tcp_recvq_purge(&q);
	assert_int_equal(alive, 0);
}

static void test_gaps_are_filled_in_any_order(void **state)
{
	uint32_t x = 7;

	for (int round = 0; round < 2000; round++) {
		struct tcp_recvq q = queue(65536);
		uint32_t base = 0xfffffe00u; /* wraps around */
		bool fin = false;

		for (int i = 0; i < 20; i++) {
			x = x * 1664525u + 1013904223u;
			insert(&q, base + 1 + (x >> 10) % 900, (uint16_t)(1 + (x >> 24) % 100), 0);
		}
		for (const struct pkt *p = q.ooo; p && p->next; p = p->next)
			assert_true(seq_leq(p->seq + p->len, p->next->seq));
		if (round % 2) { /* take only a part first: the rest consists of runs as well */
			uint32_t next = base + (x >> 8) % 900;

			insert(&q, base, (uint16_t)(next - base), 0);
			next = tcp_recvq_advance(&q, base, &fin);
			check_runs(&q);
			insert(&q, next, (uint16_t)(base + 1000 - next), TCP_FIN);
			assert_int_equal(tcp_recvq_advance(&q, next, &fin), base + 1000);
			assert_true(fin);
			assert_null(q.ooo);
			read_all(&q, base, 1000);
			continue;
		}
		insert(&q, base, 1000, TCP_FIN);
		assert_int_equal(tcp_recvq_advance(&q, base, &fin), base + 1000);
		assert_true(fin);
		assert_null(q.ooo);
		read_all(&q, base, 1000);
		assert_int_equal(alive, 0);
	}
}

/* The search for a place depends on the number of holes, not of packets. */
static void test_segments_without_holes_are_one_run(void **state)
{
	struct tcp_recvq q = queue(64 << 20);
	bool fin = false;

	for (uint32_t seq = 2; seq < 1000; seq += 2)
		assert_true(insert(&q, seq, 1, 0));
	assert_int_equal(q.runs, 499);
	for (uint32_t seq = 1; seq < 5000; seq++)
		assert_true(insert(&q, seq, 1, 0) || (seq < 1000 && seq % 2 == 0));
	assert_int_equal(q.runs, 1);
	assert_int_equal(tcp_recvq_advance(&q, 1, &fin), 5000);
	check_runs(&q);
	tcp_recvq_purge(&q);
	assert_int_equal(alive, 0);
}

/* A peer that creates many holes cannot make each search long. */
static void test_holes_are_kept_up_to_a_number(void **state)
{
	struct tcp_recvq q = queue(64 << 20);
	bool fin = false;

	for (uint32_t n = 0; n < TCP_RECVQ_RUNS_MAX; n++)
		assert_true(insert(&q, 2 + 2 * n, 1, 0));
	assert_false(insert(&q, 2 + 2 * TCP_RECVQ_RUNS_MAX, 1, 0));
	/* A segment that fills a hole is taken, and then there is room for another hole. */
	assert_true(insert(&q, 3, 1, 0));
	assert_true(insert(&q, 2 + 2 * TCP_RECVQ_RUNS_MAX, 1, 0));
	assert_true(insert(&q, 1, 1, 0));
	assert_int_equal(tcp_recvq_advance(&q, 1, &fin), 5);
	check_runs(&q);
	tcp_recvq_purge(&q);
	assert_int_equal(alive, 0);
}

static void test_what_is_there_already_is_refused(void **state)
{
	struct tcp_recvq q = queue(65536);

	assert_true(insert(&q, 100, 100, 0));
	assert_false(insert(&q, 100, 100, 0));
	assert_false(insert(&q, 150, 20, 0));
	assert_true(insert(&q, 150, 100, 0)); /* 200 .. 249 */
	assert_true(insert(&q, 50, 300, 0));  /* overlaps on both sides */
	assert_true(insert(&q, 400, 0, TCP_FIN));
	assert_false(insert(&q, 400, 0, TCP_FIN));
	tcp_recvq_purge(&q);
	assert_int_equal(alive, 0);
}

static void test_frames_are_charged_whole(void **state)
{
	struct tcp_recvq q = queue(0); /* TCP_RECVQ_ROOM_MIN */
	struct pkt *pkt;
	uint32_t seq = 0;
	bool pruned = false;

	for (; seq < 100000; seq++) {
		pkt = make(seq, 1, 0);
		if (!tcp_recvq_append(&q, pkt, &pruned)) {
			pkt_free(pkt);
			break;
		}
		assert_true(q.room <= TCP_RECVQ_ROOM_MIN);
	}
	assert_true(seq > 25000); /* data that is copied together needs few frames */
	assert_true(alive <= TCP_RECVQ_ROOM_MIN / ROOM);
	read_all(&q, 0, seq);
	assert_int_equal(alive, 0);
}

static void test_order_has_precedence_when_memory_is_short(void **state)
{
	struct tcp_recvq q = queue(0);
	bool pruned = false;
	uint32_t seq = 1000, n = 0;

	while (insert(&q, seq, 1, 0)) {
		seq += 1000;
		n++;
	}
	assert_int_equal(n, TCP_RECVQ_ROOM_MIN / (ROOM + sizeof(struct pkt)));
	assert_true(tcp_recvq_append(&q, make(0, 10, 0), &pruned));
	assert_true(pruned);
	assert_null(q.ooo);
	read_all(&q, 0, 10);
	assert_int_equal(alive, 0);
}

static void test_an_empty_queue_takes_a_packet_of_any_size(void **state)
{
	struct tcp_recvq q = queue(0);
	struct pkt *pkt = make(0, 10, 0);
	bool pruned;

	q.limit = 100;
	assert_true(tcp_recvq_append(&q, pkt, &pruned));
	pkt = make(10, ROOM - OFF, 0);
	assert_false(tcp_recvq_append(&q, pkt, &pruned));
	pkt_free(pkt);
	read_all(&q, 0, 10);
}

static void test_nothing_is_taken_behind_a_fin(void **state)
{
	struct tcp_recvq q = queue(65536);
	bool fin = false;

	assert_true(insert(&q, 10, 10, TCP_FIN));
	assert_true(insert(&q, 20, 10, 0));
	assert_true(insert(&q, 40, 10, 0));
	assert_true(insert(&q, 0, 10, 0));
	assert_int_equal(tcp_recvq_advance(&q, 0, &fin), 20);
	assert_true(fin);
	assert_null(q.ooo);
	read_all(&q, 0, 20);
	assert_int_equal(alive, 0);
}

/* An owner without frames: a copy has room for its own bytes and the spare room. */
static void gather_one(struct tcp_recvq *q, uint32_t seq, uint16_t len)
{
	struct pkt *pkt = make_in(OFF + len, seq, len, 0);
	bool pruned, stays = tcp_recvq_keeps(q, pkt);
	unsigned before = alive;

	if (stays) {
		uint32_t spare = tcp_recvq_spare(q, pkt);

		pkt_free(pkt);
		pkt = make_in(OFF + len + spare, seq, len, 0);
	}
	assert_true(tcp_recvq_append(q, pkt, &pruned));
	assert_int_equal(alive, stays ? before : before - 1);
}

static void test_what_is_gathered_holds_little_more_than_its_bytes(void **state)
{
	enum { BYTES = 20000 };
	struct tcp_recvq q = queue(65536);

	q.gather = true;
	for (uint32_t seq = 0; seq < BYTES; seq++) {
		gather_one(&q, seq, 1);
		assert_true(q.room <= 2 * q.bytes + 20 * (sizeof(struct pkt) + OFF));
	}
	read_all(&q, 0, BYTES);
	assert_int_equal(alive, 0);
}

static void test_full_segments_are_gathered_in_pairs_at_most(void **state)
{
	struct tcp_recvq q = queue(1 << 20);

	q.gather = true;
	for (uint32_t seq = 0; seq < 100 * 1448; seq += 1448) {
		gather_one(&q, seq, 1448);
		assert_true(q.room <= 2 * q.bytes + 2 * (sizeof(struct pkt) + OFF));
	}
	read_all(&q, 0, 100 * 1448);
	assert_int_equal(alive, 0);
}

/* Packets without bytes are freed by the queue, except a FIN that came too early. */
static void test_what_has_no_bytes_is_not_kept(void **state)
{
	struct tcp_recvq q = queue(65536);
	struct pkt *ack = make(0, 0, TCP_ACK), *fin = make(0, 0, TCP_ACK | TCP_FIN);

	assert_false(tcp_recvq_keeps(&q, ack));
	assert_true(tcp_recvq_keeps(&q, fin));
	pkt_free(ack);
	pkt_free(fin);
}

/* Data behind a hole cannot be appended to a previous packet. */
static void test_what_comes_too_early_gets_no_spare_room(void **state)
{
	struct tcp_recvq q = queue(65536);
	struct pkt *late = make(200, 10, 0);
	bool pruned;

	assert_true(tcp_recvq_append(&q, make(0, 100, 0), &pruned));
	assert_true(tcp_recvq_keeps(&q, late));
	assert_int_equal(tcp_recvq_spare(&q, late), 0);
	pkt_free(late);
	tcp_recvq_purge(&q);
	assert_int_equal(alive, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_what_is_appended_is_read_in_order),
	cmocka_unit_test(test_a_packet_is_taken_with_what_is_unread_of_it),
	cmocka_unit_test(test_peeking_leaves_it),
	cmocka_unit_test(test_gaps_are_filled_in_any_order),
	cmocka_unit_test(test_segments_without_holes_are_one_run),
	cmocka_unit_test(test_holes_are_kept_up_to_a_number),
	cmocka_unit_test(test_what_is_there_already_is_refused),
	cmocka_unit_test(test_frames_are_charged_whole),
	cmocka_unit_test(test_order_has_precedence_when_memory_is_short),
	cmocka_unit_test(test_an_empty_queue_takes_a_packet_of_any_size),
	cmocka_unit_test(test_nothing_is_taken_behind_a_fin),
	cmocka_unit_test(test_what_is_gathered_holds_little_more_than_its_bytes),
	cmocka_unit_test(test_full_segments_are_gathered_in_pairs_at_most),
	cmocka_unit_test(test_what_has_no_bytes_is_not_kept),
	cmocka_unit_test(test_what_comes_too_early_gets_no_spare_room),
};

VMA_TEST_MAIN("tcp_recvq", tests, NULL, NULL)
