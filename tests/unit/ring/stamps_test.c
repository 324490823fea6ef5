/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/stamps.h"

#include "base/mem.h"
#include "base/stats/capture.h"
#include "fake_port.h"
#include "ring/capture.h"
#include "ring/rings.h"

#define IFINDEX 4711 /* an interface that no test uses */

static struct port_ops ops, stamping_ops;
static struct port port;

static int open_queue(struct port *of, struct port_queue **q, char why[PORT_WHY])
{
	*q = fake_new(of, &ops);
	return 0;
}

static int rx_burst_stamped(struct port_queue *q, struct pkt **pkts, int max)
{
	return 0;
}

static void take_stamping(struct port_queue *q)
{
	fake_stamp(q);
	q->ops = &stamping_ops;
}

static int open_port(int ifindex, struct port **out, char why[PORT_WHY])
{
	port = (struct port){.ops = &ops, .ifindex = ifindex, .name = "fake0"};
	*out = &port;
	return 0;
}

static const struct port_kind kind = FAKE_KIND(open_port);
static const struct port_kind *const kinds[] = {&kind, NULL};

static int set_up(void **state)
{
	clock_init();
	ring_mode = HOLD_SPIN;
	ops = fake_ops;
	ops.open_queue = open_queue;
	ops.close_queue = fake_free;
	ops.stamp = take_stamping;
	stamping_ops = ops;
	stamping_ops.rx_burst = rx_burst_stamped;
	rings_init(kinds);
	return 0;
}

static int tear_down(void **state)
{
	ring_capture_stop();
	ring_stamps_forget();
	rings_close_all();
	for (unsigned i = 0; i < rings_count(); i++)
		mem_free(rings_at(i));
	rings_forget(false);
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

static bool is_stamping(const struct ring *ring)
{
	return ring->q->ops == &stamping_ops && fake_of(ring->q)->stamping == 1;
}

static void test_rings_stamp_when_somebody_asks(void **state)
{
	struct ring *ring = get(0), *other = get(1), *later;

	assert_int_equal(fake_of(ring->q)->stamping, 0);
	assert_ptr_equal(ring->ops, &ops);
	rings_stamp();
	assert_true(is_stamping(ring));
	assert_true(is_stamping(other));
	assert_ptr_equal(ring->ops, &stamping_ops);
	rings_stamp(); /* does nothing again */
	assert_true(is_stamping(ring));
	later = get(2);
	assert_true(is_stamping(later));
	assert_ptr_equal(later->ops, &stamping_ops);
}

static void test_a_captured_ring_stays_captured(void **state)
{
	struct ring *ring = get(0);
	const struct port_ops *captured;

	assert_true(ring_capture_start(CAPTURE_SNAP_MAX, CAPTURE_SHIFT_MIN) >= 0);
	captured = ring->ops;
	assert_ptr_not_equal(captured, &ops);
	rings_stamp();
	assert_true(is_stamping(ring));
	assert_ptr_equal(ring->ops, captured);
	ring_capture_stop();
	assert_ptr_equal(ring->ops, &stamping_ops);
}

static void test_copies_have_the_time_too(void **state)
{
	struct pkt *pkt, *copy, *second;
	size_t left = pkt_bufs_left();

	pkt = pkt_blank(2000);
	assert_non_null(pkt);
	pkt->frame += sizeof(struct pkt_arrival);
	pkt->room -= (uint32_t)sizeof(struct pkt_arrival);
	memset(pkt->frame, 7, 100);
	pkt->frame_len = 100;
	*pkt_arrival(pkt) = (struct pkt_arrival){.real = 12345, .device = 67890};
	assert_int_equal(pkt_device_stamp(pkt), 0); /* the flag says that it is there */
	assert_true(pkt_arrived(pkt) > 12345);
	pkt->flags = PKT_ARRIVAL;
	assert_int_equal(pkt_arrived(pkt), 12345);
	copy = pkt_copy(pkt);
	second = pkt_copy(copy);
	pkt_free(pkt);
	pkt_free(copy);
	assert_int_equal(pkt_arrived(second), 12345);
	assert_int_equal(pkt_device_stamp(second), 67890);
	assert_int_equal(second->frame[99], 7);
	pkt_free(second);
	assert_int_equal(pkt_bufs_left(), left); /* nothing of the limit is lost */
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(test_rings_stamp_when_somebody_asks, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_a_captured_ring_stays_captured, set_up, tear_down),
	cmocka_unit_test_setup_teardown(test_copies_have_the_time_too, set_up, tear_down),
};

VMA_TEST_MAIN("stamps", tests, NULL, NULL)
