/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes one large segment, and that nothing is lost or exchanged when the port refuses. */
#include "net/tcp/tcp_rare.h"
#include "ring/rings.h"
#include "sock/tcp/tcp_sock.h"
#include "tests/unit/sock/world.h"

#define TOTAL (1u << 20)

/* What the port was given; the holder of the sending ring writes it before the data leaves. */
static struct {
	unsigned large, segments, least, refused;
	uint32_t next; /* sequence number after the last one, if together */
	bool together; /* each began where the one before it ended */
	unsigned frames_lost;
} seen;

/* any, atomic: refuse each so many-th large segment, lose each so many-th full frame; 0: none. */
static unsigned refuse_each, lose_each;

static uint32_t seq_of(const struct frame_large *large)
{
	uint32_t seq;

	memcpy(&seq, large->head + large->l4 + 4, sizeof(seq));
	return ntohl(seq);
}

static int take(const struct frame_large *large)
{
	unsigned segments = frame_large_segments(large);
	unsigned each = __atomic_load_n(&refuse_each, __ATOMIC_RELAXED);
	static unsigned count;

	if (each && ++count % each == 0) {
		seen.refused++;
		return -ENOBUFS;
	}
	seen.together &= !seen.large || seq_of(large) == seen.next;
	seen.next = seq_of(large) + large->len;
	seen.large++;
	seen.segments += segments;
	if (!seen.least || segments < seen.least)
		seen.least = segments;
	assert_int_equal(large->part[0].len + large->part[1].len, large->len);
	assert_in_range(large->hdr + large->len, 1, 65535);
	return 0;
}

static bool lose(const struct pkt *pkt)
{
	unsigned each = __atomic_load_n(&lose_each, __ATOMIC_RELAXED);
	static unsigned frames;

	if (!each || pkt->len < 1000 || ++frames % each)
		return false;
	seen.frames_lost++;
	return true;
}

static struct tsock listener, client, child;

static int connected(void **state)
{
	unsigned port = world_port();

	memset(&seen, 0, sizeof(seen));
	seen.together = true;
	listener = world_listener(0, port, 4);
	world_pair(&listener, port, &client, &child);
	loop_port_large(take);
	loop_port_lose(lose);
	return 0;
}

static int disconnected(void **state)
{
	loop_port_large(NULL);
	loop_port_lose(NULL);
	__atomic_store_n(&refuse_each, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&lose_each, 0, __ATOMIC_RELAXED);
	tsock_close(&client);
	tsock_close(&child);
	tsock_close(&listener);
	return 0;
}

static uint8_t byte_at(size_t n)
{
	return (uint8_t)(n * 2654435761u >> 13);
}

/* Reads and compares what has arrived. */
static void read_some(size_t *received)
{
	static uint8_t in[65536];
	ssize_t n;

	while ((n = tsock_recv(&child, in, sizeof(in), 0)) > 0)
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(in[i], byte_at((*received)++));
}

/* Writes total bytes, at most `each` at a time, and checks that the peer gets them. */
static void transfer(size_t total, size_t each)
{
	static uint8_t out[65536];
	size_t sent = 0, received = 0;
	nsec_t end = clock_now() + NET_PATIENCE * NSEC_PER_MSEC * NET_SLOW;

	while (received < total && clock_now() < end) {
		size_t want = total - sent < each ? total - sent : each;
		ssize_t n;

		for (size_t i = 0; i < want; i++)
			out[i] = byte_at(sent + i);
		n = want ? tsock_send(&client, out, want, 0) : 0;
		assert_true(n >= 0 || n == -EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		read_some(&received);
	}
	assert_int_equal(received, total);
}

/* Nothing overtook anything else. */
static bool in_order(void)
{
	const struct tcp_conn *to = &tsock_inet(&child)->tcp.conn;
	struct ring *ring = tsock_home(&child);
	bool is;

	assert_true(ring_hold_cold(ring));
	is = !to->rare || !to->rare->out_of_order;
	ring_release_cold(ring);
	return is;
}

static void test_a_bulk_transfer_is_large_segments_in_order(void **state)
{
	transfer(TOTAL, 65536);
	assert_true(seen.large > 10);
	assert_true(seen.least > 4);
	assert_true(seen.segments * 1460u > TOTAL * 3 / 4);
	assert_true(in_order());
}

static void test_small_sends_are_frames(void **state)
{
	struct tcp_conn *conn = &tsock_inet(&client)->tcp.conn;

	for (int i = 0; i < 100; i++) {
		size_t received = 0;

		transfer(4 * (size_t)conn->mss, 65536);
		read_some(&received);
	}
	assert_int_equal(seen.large, 0);
}

static void test_what_the_port_refuses_is_sent_in_frames(void **state)
{
	__atomic_store_n(&refuse_each, 3, __ATOMIC_RELAXED);
	transfer(TOTAL, 65536);
	assert_true(seen.large && seen.refused);
	assert_false(seen.together);
	assert_true(in_order());
}

static void test_a_port_that_refuses_all(void **state)
{
	__atomic_store_n(&refuse_each, 1, __ATOMIC_RELAXED);
	transfer(TOTAL, 65536);
	assert_int_equal(seen.large, 0);
}

static void test_lost_parts_are_repaired(void **state)
{
	__atomic_store_n(&lose_each, 97, __ATOMIC_RELAXED);
	transfer(4 * TOTAL, 65536);
	assert_true(seen.large && seen.frames_lost);
}

static void test_a_neighbour_that_must_be_asked_gets_no_large_segments(void **state)
{
	struct dst *dst = &tsock_inet(&client)->tcp.dst;
	struct tcp_conn *conn = &tsock_inet(&client)->tcp.conn;
	struct adj adj = {.state = NEIGH_UNKNOWN}, *real = dst->adj;
	struct ring *ring = tsock_home(&client);
	static uint8_t bytes[20000];
	struct tcp_segment seg = {
		.seq = conn->snd_nxt, .len = sizeof(bytes), .part = {{bytes, sizeof(bytes)}}};

	assert_true(ring_hold_cold(ring));
	dst->adj = NULL;
	(void)tcp_send_segments(conn, &seg, 1460);
	dst->adj = &adj;
	adj.state = NEIGH_FAILED;
	(void)tcp_send_segments(conn, &seg, 1460);
	dst->adj = real;
	ring_release_cold(ring);
	assert_int_equal(seen.large, 0);
}

static void test_a_segment_size_beyond_the_port_s_is_not_large(void **state)
{
	struct tcp_conn *conn = &tsock_inet(&client)->tcp.conn;
	struct port *port = tsock_home(&client)->q->port;
	uint32_t max = port->can.segment_max;

	port->can.segment_max = (uint32_t)FRAME_HDR_MAX + 1000;
	assert_true(conn->mss > 1000);
	transfer(100000, 65536);
	port->can.segment_max = max;
	assert_int_equal(seen.large, 0);
}

struct sent {
	uint64_t frames, bytes; /* by the ring */
	uint64_t segments;	/* by the connection */
};

/* The internal thread sends acknowledgements. */
static struct sent sent_so_far(void)
{
	struct ring *ring = tsock_home(&client);
	struct sent sent;

	assert_true(ring_hold_cold(ring));
	sent = (struct sent){ring->stats.tx_frames, ring->stats.tx_bytes,
			     tsock_inet(&client)->tcp.conn.data_segs_out};
	ring_release_cold(ring);
	return sent;
}

static void test_the_ring_counts_the_segments(void **state)
{
	struct sent before = sent_so_far(), after;

	transfer(TOTAL, 65536);
	after = sent_so_far();
	assert_true(after.frames - before.frames >= TOTAL / 1460);
	assert_true(after.bytes - before.bytes >= TOTAL + TOTAL / 1460 * 54);
	assert_true(after.segments >= TOTAL / 1460);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, connected, disconnected)

static const struct CMUnitTest tests[] = {
	TEST(test_a_bulk_transfer_is_large_segments_in_order),
	TEST(test_small_sends_are_frames),
	TEST(test_what_the_port_refuses_is_sent_in_frames),
	TEST(test_a_port_that_refuses_all),
	TEST(test_lost_parts_are_repaired),
	TEST(test_a_neighbour_that_must_be_asked_gets_no_large_segments),
	TEST(test_a_segment_size_beyond_the_port_s_is_not_large),
	TEST(test_the_ring_counts_the_segments),
};

VMA_TEST_MAIN("tcp_frames", tests, world_start, world_finish)
