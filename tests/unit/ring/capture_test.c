/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/capture.h"

#include <sys/mman.h>

#include "base/mem.h"
#include "base/stats/capture.h"
#include "base/sys.h"
#include "fake_port.h"
#include "ring/rings.h"

#define IFINDEX 4711 /* an interface that no test uses */
#define SHIFT CAPTURE_SHIFT_MIN
#define SIZE (1ull << SHIFT)

static struct port_ops ops;
static struct port port;
static int put_error; /* result of tx_put() */

static int open_queue(struct port *of, struct port_queue **q, char why[PORT_WHY])
{
	*q = fake_new(of, &ops);
	return 0;
}

static int tx_put(struct port_queue *q, struct pkt *pkt)
{
	if (!put_error)
		return fake_tx_put(q, pkt);
	pkt_free(pkt);
	return put_error;
}

static int open_port(int ifindex, struct port **out, char why[PORT_WHY])
{
	port = (struct port){.ops = &ops, .ifindex = ifindex, .name = "fake0"};
	*out = &port;
	return 0;
}

static const struct port_kind kind = FAKE_KIND(open_port);
static const struct port_kind *const kinds[] = {&kind, NULL};

static uint8_t *shared; /* the memory of the capture, mapped as a tool does */

static int set_up(void **state)
{
	clock_init();
	ring_mode = HOLD_SPIN;
	ops = fake_ops;
	ops.open_queue = open_queue;
	ops.close_queue = fake_free;
	ops.tx_put = tx_put;
	put_error = 0;
	rings_init(kinds);
	return 0;
}

static int tear_down(void **state)
{
	ring_capture_stop();
	rings_close_all();
	for (unsigned i = 0; i < rings_count(); i++)
		mem_free(rings_at(i));
	rings_forget(false);
	if (shared)
		munmap(shared, capture_size(SHIFT));
	shared = NULL;
	return 0;
}

static struct ring *get(uint64_t key)
{
	char why[PORT_WHY];
	struct ring *ring;
	bool fresh;

	assert_int_equal(rings_get(IFINDEX, key, &ring, why, &fresh), 0);
	return ring;
}

static const struct capture_lane *start(void)
{
	int fd = ring_capture_start(CAPTURE_SNAP_MAX, SHIFT);

	assert_true(fd >= 0);
	if (shared)
		munmap(shared, capture_size(SHIFT));
	shared = mmap(NULL, capture_size(SHIFT), PROT_READ, MAP_SHARED, fd, 0);
	assert_true(shared != MAP_FAILED);
	return ((const struct capture_header *)(const void *)shared)->lanes;
}

static bool send_one(struct ring *ring, uint8_t first)
{
	struct pkt *pkt;
	int rc;

	assert_true(ring_hold(ring, HOLD_SPIN));
	pkt = ring_tx_get(ring);
	assert_non_null(pkt);
	memset(pkt->frame, first, 60);
	pkt->frame_len = 60;
	rc = ring_tx_put(ring, pkt);
	ring_release(ring, HOLD_SPIN);
	return !rc;
}

static void receive_one(struct ring *ring, uint8_t first, nsec_t stamp)
{
	struct fake_queue *f = fake_of(ring->q);
	struct pkt *pkt = fake_take(f);

	memset(pkt->frame, first, 70);
	pkt->frame_len = 70;
	if (stamp) {
		pkt->frame += sizeof(struct pkt_arrival);
		pkt_arrival(pkt)->real = stamp;
		pkt->flags |= PKT_ARRIVAL;
	}
	f->rx[f->n_rx++] = pkt;
	assert_true(ring_hold(ring, HOLD_SPIN));
	ring_poll(ring);
	ring_release(ring, HOLD_SPIN);
}

static struct capture_record record(unsigned lane, uint64_t at)
{
	struct capture_record r;

	memcpy(&r, shared + capture_lane_at(lane, SHIFT) + at, sizeof(r));
	return r;
}

static uint8_t byte_of(unsigned lane, uint64_t at)
{
	return shared[capture_lane_at(lane, SHIFT) + at + sizeof(struct capture_record)];
}

static void test_both_directions_are_captured_in_order(void **state)
{
	struct ring *ring = get(0);
	const struct capture_lane *lane = start();
	nsec_t before = clock_real();
	struct capture_record r;

	assert_string_equal(lane->interface, "fake0");
	assert_int_equal(lane->ring, ring->id);
	assert_int_equal(lane->used, 1);
	assert_true(send_one(ring, 1));
	receive_one(ring, 2, 0);
	receive_one(ring, 3, 12345);
	assert_true(lane->frames == 3);
	r = record(0, 0);
	assert_int_equal(r.flags, CAPTURE_SENT);
	assert_int_equal(r.len, 60);
	assert_true((nsec_t)r.when >= before && (nsec_t)r.when <= clock_real());
	assert_int_equal(byte_of(0, 0), 1);
	assert_int_equal(byte_of(0, r.size), 2);
	assert_int_equal(record(0, r.size).flags, 0);
	r = record(0, r.size + record(0, r.size).size);
	assert_int_equal(r.len, 70);
	assert_true(r.when == 12345); /* the port knows better */
}

static void test_without_a_capture_the_ring_calls_its_port(void **state)
{
	struct ring *ring = get(0);

	assert_false(ring_capture_runs());
	assert_ptr_equal(ring->ops, &ops);
	start();
	assert_true(ring_capture_runs());
	assert_ptr_not_equal(ring->ops, &ops);
	ring_capture_stop();
	assert_false(ring_capture_runs());
	assert_ptr_equal(ring->ops, &ops);
	assert_true(send_one(ring, 1));
	ring_capture_stop(); /* does nothing */
}

static void test_what_the_port_does_not_take_was_not_sent(void **state)
{
	struct ring *ring = get(0);
	const struct capture_lane *lane = start();

	put_error = -ENOBUFS;
	assert_false(send_one(ring, 1));
	assert_true(lane->frames == 0);
	assert_true(lane->head == 0);
	put_error = 0;
	assert_true(send_one(ring, 2));
	assert_true(lane->frames == 1);
	assert_int_equal(byte_of(0, 0), 2);
}

static void close_ring(struct ring *ring)
{
	assert_true(ring_hold(ring, HOLD_SPIN));
	ring_close(ring);
	ring_release(ring, HOLD_SPIN);
}

static void test_a_ring_that_is_opened_later_is_captured(void **state)
{
	struct ring *first = get(0), *second;
	const struct capture_lane *lane = start();

	second = get(1);
	assert_int_equal(lane[1].used, 1);
	assert_int_equal(lane[1].ring, second->id);
	send_one(second, 1);
	assert_true(lane[1].frames == 1);
	assert_true(lane[0].frames == 0);
	/* Closed and opened again: it goes on in the same lane. */
	close_ring(first);
	close_ring(second);
	assert_ptr_equal(get(2), first);
	assert_ptr_equal(get(3), second);
	send_one(second, 1);
	assert_true(lane[1].frames == 2);
	assert_int_equal(lane[2].used, 0);
	/* On another interface it is another lane. */
	close_ring(first);
	snprintf(port.name, sizeof(port.name), "other");
	assert_ptr_equal(get(4), first);
	assert_string_equal(lane[2].interface, "other");
}

static void test_rings_without_a_lane_are_counted(void **state)
{
	const struct capture_header *header =
		(const void *)((const uint8_t *)start() - offsetof(struct capture_header, lanes));

	for (unsigned i = 0; i < CAPTURE_LANES + 2; i++)
		get(i);
	assert_int_equal(header->without_lane, 2);
	send_one(rings_at(CAPTURE_LANES), 1);
	assert_ptr_equal(rings_at(CAPTURE_LANES)->ops, &ops);
}

static void test_a_second_start_is_a_new_capture(void **state)
{
	struct ring *ring = get(0);
	const struct capture_lane *lane = start();

	send_one(ring, 1);
	assert_true(lane->frames == 1);
	lane = start();
	assert_true(lane->frames == 0);
	send_one(ring, 1);
	assert_true(lane->frames == 1);
}

/* There is no ring of the child that it could stop at. */
static void test_a_child_forgets_it(void **state)
{
	int fd;

	get(0);
	fd = ring_capture_start(100, SHIFT);
	ring_capture_forget();
	assert_false(ring_capture_runs());
	assert_false(sys_fd_is_hidden(fd));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static void test_a_captured_ring_sends_segments_itself(void **state)
{
	struct ring *ring = get(1);
	struct frame_large large = {.mss = 1000, .hdr = 54, .len = 5500};
	struct fake_queue *f = fake_of(ring->q);

	assert_true(ring_hold(ring, HOLD_SPIN));
	assert_int_equal(ring_tx_large(ring, &large), 0);
	assert_int_equal(ring->stats.tx_frames, 6);
	assert_int_equal(ring->stats.tx_bytes, 6 * 54 + 5500);
	ring_release(ring, HOLD_SPIN);
	start();
	assert_true(ring_hold(ring, HOLD_SPIN));
	assert_int_equal(ring_tx_large(ring, &large), -EOPNOTSUPP);
	assert_int_equal(ring->stats.tx_frames, 6);
	ring_release(ring, HOLD_SPIN);
	ring_capture_stop();
	assert_true(ring_hold(ring, HOLD_SPIN));
	assert_int_equal(ring_tx_large(ring, &large), 0);
	ring_release(ring, HOLD_SPIN);
	assert_int_equal(f->large, 2);
}

static const struct CMUnitTest tests[] = {
	TEST(test_both_directions_are_captured_in_order),
	TEST(test_without_a_capture_the_ring_calls_its_port),
	TEST(test_what_the_port_does_not_take_was_not_sent),
	TEST(test_a_ring_that_is_opened_later_is_captured),
	TEST(test_rings_without_a_lane_are_counted),
	TEST(test_a_second_start_is_a_new_capture),
	TEST(test_a_captured_ring_sends_segments_itself),
	TEST(test_a_child_forgets_it),
};

VMA_TEST_MAIN("capture", tests, NULL, NULL)
