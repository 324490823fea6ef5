/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets in ordinary memory: what a copy has, how VMA_RX_BUFS bounds them, and who owns what. */
#include "base/param.h"
#include "fake_port.h"
#include "ring/ring.h"

#define BUFS 16
#define LIMIT (BUFS * PKT_BUF) /* bytes */
#define SHARE (LIMIT / 8)      /* of a queue, while nothing is used */
#define LEN 100		       /* bytes of the frames here */

static struct ring ring;
static struct fake_queue queue;
static struct port port;

/* The largest packet that fits has so much room while `used` bytes are taken. */
static uint32_t most_room(size_t used)
{
	return (uint32_t)(LIMIT - used - sizeof(struct pkt));
}

/* Exactly `used` bytes are accounted for. */
static void expect_used(size_t used)
{
	struct pkt *pkt = pkt_blank(most_room(used));

	assert_non_null(pkt);
	assert_int_equal(pkt_bufs_left(), 0);
	assert_null(pkt_blank(0));
	pkt_free(pkt);
	assert_null(pkt_blank(most_room(used) + 1));
	assert_int_equal(pkt_bufs_left(), (LIMIT - used) / PKT_BUF);
}

static int setup(void **state)
{
	clock_init();
	params.rx_bufs = BUFS;
	ring_mode = HOLD_SPIN;
	port = (struct port){.ops = &fake_ops, .mtu = 1500};
	fake_init(&queue, &port);
	ring_init(&ring, &queue.base, 0);
	ring.low_water = 0;
	assert_true(ring_hold(&ring, ring_mode));
	return 0;
}

/* Each case gives back all that it took. */
static int teardown(void **state)
{
	ring_release(&ring, ring_mode);
	flow_table_fini(&ring.flows);
	params.rx_bufs = BUFS;
	expect_used(0);
	assert_int_equal(fake_missing(&queue), 0);
	return 0;
}

/* A frame of the ring, with a value in each field that a reader of it uses. */
static struct pkt *received(void)
{
	struct pkt *pkt = fake_take(&queue);

	assert_non_null(pkt);
	pkt->frame_len = LEN;
	for (unsigned i = 0; i < FAKE_ROOM; i++)
		pkt->frame[i] = (uint8_t)(i * 7 + 1);
	pkt->stamp = 12345;
	pkt->seq = 77;
	pkt->l3 = 14;
	pkt->l4 = 34;
	pkt->off = 42;
	pkt->len = LEN - 42;
	pkt->tcp_flags = 0x18;
	pkt->flags = PKT_CSUM_OK | PKT_ISS;
	pkt->iss = 99;
	pkt->drops = 5;
	pkt->next = pkt;
	return pkt;
}

/* The same with the times of arrival in front of the frame. */
static struct pkt *stamped(void)
{
	struct pkt *pkt = received();

	pkt->frame += sizeof(struct pkt_arrival);
	pkt->room -= (uint32_t)sizeof(struct pkt_arrival);
	pkt->flags |= PKT_ARRIVAL;
	*pkt_arrival(pkt) = (struct pkt_arrival){.real = 1111, .device = 2222};
	return pkt;
}

static void expect_same(const struct pkt *copy, const struct pkt *pkt)
{
	assert_ptr_not_equal(copy->frame, pkt->frame);
	assert_int_equal(copy->frame_len, pkt->frame_len);
	assert_memory_equal(copy->frame, pkt->frame, pkt->frame_len);
	assert_int_equal(copy->stamp, pkt->stamp);
	assert_int_equal(copy->seq, pkt->seq);
	assert_int_equal(copy->l3, pkt->l3);
	assert_int_equal(copy->l4, pkt->l4);
	assert_int_equal(copy->off, pkt->off);
	assert_int_equal(copy->len, pkt->len);
	assert_int_equal(copy->tcp_flags, pkt->tcp_flags);
	assert_int_equal(copy->flags, pkt->flags);
	assert_int_equal(copy->iss, pkt->iss);
	assert_int_equal(copy->drops, pkt->drops);
	assert_null(copy->next);
	assert_true(copy->pool->flags & PKT_POOL_SHARED);
}

/* ---- blank packets and copies -------------------------------------------------------------- */

static void test_a_blank_packet_has_room_and_nothing_else(void **state)
{
	static const struct pkt zero;
	struct pkt *pkt = pkt_blank(300), bare;

	assert_non_null(pkt);
	assert_int_equal(pkt->room, 300);
	assert_true(pkt->pool->flags & PKT_POOL_SHARED);
	memset(pkt->frame, 0xff, 300); /* all of it may be written */
	bare = *pkt;
	bare.room = 0;
	bare.frame = NULL;
	bare.pool = NULL;
	assert_memory_equal(&bare, &zero, sizeof(zero));
	expect_used(sizeof(*pkt) + 300);
	pkt_free(pkt);
}

static void test_a_copy_is_the_frame_and_what_was_found_in_it(void **state)
{
	struct pkt *pkt = received(), *copy = pkt_copy(pkt);

	assert_non_null(copy);
	expect_same(copy, pkt);
	assert_int_equal(copy->room, LEN);
	assert_ptr_equal(pkt->next, pkt);	   /* the original stays as it is, */
	assert_int_equal(fake_missing(&queue), 1); /* and with its owner */
	memset(copy->frame, 0, LEN);
	assert_int_equal(pkt->frame[0], 1);
	pkt_free(copy);
	pkt_free(pkt);
}

static void test_a_copy_keeps_the_times_of_arrival(void **state)
{
	struct pkt *pkt = stamped(), *copy = pkt_copy(pkt);

	assert_non_null(copy);
	expect_same(copy, pkt);
	assert_int_equal(pkt_arrived(copy), 1111);
	assert_int_equal(pkt_device_stamp(copy), 2222);
	assert_int_equal(copy->room, LEN); /* the headroom is beside it, and is accounted for */
	expect_used(sizeof(*copy) + LEN + sizeof(struct pkt_arrival));
	pkt_free(copy);
	pkt_free(pkt);
}

static void test_a_copy_of_a_copy_is_the_same(void **state)
{
	struct pkt *pkt = stamped(), *first = pkt_copy(pkt), *second = pkt_copy(first);

	expect_same(second, pkt);
	assert_int_equal(pkt_device_stamp(second), 2222);
	pkt_free(first);
	expect_used(sizeof(*second) + LEN + sizeof(struct pkt_arrival));
	pkt_free(second);
	pkt_free(pkt);
}

/* ---- the limit ----------------------------------------------------------------------------- */

static void test_memory_is_taken_up_to_the_limit(void **state)
{
	struct pkt *pkts[BUFS];

	for (unsigned i = 0; i < BUFS; i++) {
		assert_int_equal(pkt_bufs_left(), BUFS - i);
		pkts[i] = pkt_blank(PKT_BUF - sizeof(struct pkt));
		assert_non_null(pkts[i]);
	}
	assert_int_equal(pkt_bufs_left(), 0);
	assert_null(pkt_blank(0));
	pkt_free(pkts[0]);
	assert_int_equal(pkt_bufs_left(), 1);
	pkts[0] = pkt_blank(PKT_BUF - sizeof(struct pkt));
	assert_non_null(pkts[0]);
	for (unsigned i = 0; i < BUFS; i++)
		pkt_free(pkts[i]);
}

/* The limit may be lower than what is in use, when it is set. */
static void test_more_in_use_than_allowed_is_nothing_left(void **state)
{
	struct pkt *pkt = pkt_blank(3 * PKT_BUF);

	params.rx_bufs = 2;
	assert_int_equal(pkt_bufs_left(), 0);
	assert_null(pkt_blank(0));
	assert_null(pkt_copy(pkt));
	pkt_free(pkt);
	assert_int_equal(pkt_bufs_left(), 2);
}

/* ---- what a queue keeps -------------------------------------------------------------------- */

static void test_a_frame_is_kept_while_there_are_enough(void **state)
{
	struct pkt *pkt = received();

	ring.low_water = FAKE_FRAMES - 1; /* one is out */
	assert_ptr_equal(ring_keep(&ring, pkt, LIMIT, 0), pkt);
	assert_int_equal(ring.stats.copied, 0);
	pkt_free(pkt);
}

static void test_a_copy_is_kept_when_frames_run_low(void **state)
{
	struct pkt *pkt = received(), same = *pkt, *kept;

	ring.low_water = FAKE_FRAMES;
	kept = ring_keep(&ring, pkt, 0, 0);
	assert_non_null(kept);
	expect_same(kept, &same);
	assert_int_equal(fake_missing(&queue), 0); /* the frame is the ring's again */
	assert_int_equal(ring.stats.copied, 1);
	expect_used(sizeof(*kept) + LEN);
	pkt_free(kept);
}

static void test_a_kept_copy_has_spare_room_behind_the_frame(void **state)
{
	struct pkt *pkt = stamped(), *kept;

	ring.low_water = FAKE_FRAMES;
	kept = ring_keep(&ring, pkt, 0, 500);
	assert_non_null(kept);
	assert_int_equal(kept->frame_len, LEN);
	assert_int_equal(kept->room, LEN + 500);
	assert_int_equal(pkt_device_stamp(kept), 2222);
	memset(kept->frame + LEN, 0xff, 500);
	expect_used(sizeof(*kept) + sizeof(struct pkt_arrival) + LEN + 500);
	pkt_free(kept);
}

/* Of what is left, not of the limit: the more is used, the less each may have. */
static void test_a_queue_keeps_no_more_than_its_share(void **state)
{
	struct pkt *pkt = received(), *other, *kept;

	ring.low_water = FAKE_FRAMES;
	assert_null(ring_keep(&ring, pkt, SHARE + 1, 0));
	assert_int_equal(fake_missing(&queue), 1); /* it is still the caller's */
	other = pkt_blank(LIMIT / 2 - sizeof(struct pkt));
	assert_null(ring_keep(&ring, pkt, SHARE / 2 + 1, 0));
	assert_int_equal(ring.stats.copied, 0);
	kept = ring_keep(&ring, pkt, SHARE / 2, 0);
	assert_non_null(kept);
	pkt_free(other);
	pkt_free(kept);
}

static void test_a_packet_that_is_a_copy_already_is_kept_within_the_share(void **state)
{
	struct pkt *pkt = received(), *copy = pkt_copy(pkt);
	size_t used = sizeof(*copy) + LEN;

	assert_null(ring_keep(&ring, copy, (uint32_t)(LIMIT - used) / 8 + 1, 0));
	assert_ptr_equal(ring_keep(&ring, copy, (uint32_t)(LIMIT - used) / 8, 0), copy);
	assert_int_equal(ring.stats.copied, 0);
	expect_used(used);
	pkt_free(copy);
	pkt_free(pkt);
}

static void test_without_memory_the_caller_still_owns_the_packet(void **state)
{
	struct pkt *pkt = received(), *full = pkt_blank(most_room(0) - LEN);

	ring.low_water = FAKE_FRAMES;
	assert_null(ring_keep(&ring, pkt, 0, 0));
	assert_int_equal(fake_missing(&queue), 1);
	assert_int_equal(ring.stats.copied, 0);
	pkt_free(full);
	pkt_free(pkt);
}

/* ---- what goes to another ring ------------------------------------------------------------- */

static void test_a_copy_goes_to_another_ring(void **state)
{
	struct pkt *pkt = received(), same = *pkt, *copy = ring_detach(&ring, pkt);

	expect_same(copy, &same);
	assert_int_equal(fake_missing(&queue), 0);
	assert_int_equal(ring.stats.forwarded, 1);
	assert_int_equal(ring.stats.copied, 1);
	/* Once more: it is in ordinary memory already. */
	assert_ptr_equal(ring_detach(&ring, copy), copy);
	assert_int_equal(ring.stats.forwarded, 2);
	assert_int_equal(ring.stats.copied, 1);
	pkt_free(copy);
}

static void test_without_memory_the_frame_itself_goes_to_another_ring(void **state)
{
	struct pkt *pkt = received(), *full = pkt_blank(most_room(0));

	assert_ptr_equal(ring_detach(&ring, pkt), pkt);
	assert_int_equal(fake_missing(&queue), 1);
	assert_int_equal(ring.stats.forwarded, 1);
	assert_int_equal(ring.stats.copied, 0);
	pkt_free(full);
	pkt_free(pkt);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct CMUnitTest tests[] = {
	CASE(test_a_blank_packet_has_room_and_nothing_else),
	CASE(test_a_copy_is_the_frame_and_what_was_found_in_it),
	CASE(test_a_copy_keeps_the_times_of_arrival),
	CASE(test_a_copy_of_a_copy_is_the_same),
	CASE(test_memory_is_taken_up_to_the_limit),
	CASE(test_more_in_use_than_allowed_is_nothing_left),
	CASE(test_a_frame_is_kept_while_there_are_enough),
	CASE(test_a_copy_is_kept_when_frames_run_low),
	CASE(test_a_kept_copy_has_spare_room_behind_the_frame),
	CASE(test_a_queue_keeps_no_more_than_its_share),
	CASE(test_a_packet_that_is_a_copy_already_is_kept_within_the_share),
	CASE(test_without_memory_the_caller_still_owns_the_packet),
	CASE(test_a_copy_goes_to_another_ring),
	CASE(test_without_memory_the_frame_itself_goes_to_another_ring),
};

VMA_TEST_MAIN("ring/pkt_copy", tests, NULL, NULL)
