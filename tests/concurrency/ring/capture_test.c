/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture begins and ends while threads send and receive: each frame is sent and received once,
 * and those that are captured are whole.
 */
#include "ring/capture.h"

#include <sys/mman.h>

#include "base/mem.h"
#include "base/stats/capture.h"
#include "base/sys.h"
#include "crew.h"
#include "ring/rings.h"
#include "tests/unit/ring/fake_port.h"

#define SHIFT CAPTURE_SHIFT_MIN
#define LEN 100u

static struct port_ops ops;
static struct port port;
static struct ring *ring;
static unsigned long sent, received; /* holder */
static unsigned long captures;
static unsigned long captured; /* atomic; who captures writes */

static int open_queue(struct port *of, struct port_queue **q, char why[PORT_WHY])
{
	static struct fake_queue f;

	memset(&f, 0, sizeof(f));
	fake_init(&f, of);
	f.base.ops = &ops;
	*q = &f.base;
	return 0;
}

static int open_port(int ifindex, struct port **out, char why[PORT_WHY])
{
	port = (struct port){.ops = &ops, .ifindex = ifindex, .name = "fake0"};
	*out = &port;
	return 0;
}

static const struct port_kind kind = FAKE_KIND(open_port);
static const struct port_kind *const kinds[] = {&kind, NULL};

static void send_and_receive(void)
{
	struct fake_queue *f = fake_of(ring->q);
	struct pkt *pkt = ring_tx_get(ring);

	memset(pkt->frame, (int)(sent & 0xff), LEN);
	pkt->frame_len = LEN;
	TEST_CHECK(!ring_tx_put(ring, pkt));
	sent++;
	pkt = fake_take(f);
	memset(pkt->frame, 0xee, LEN); /* no frame at all: the ring drops it */
	pkt->frame_len = LEN;
	f->rx[f->n_rx++] = pkt;
	received += (unsigned long)ring_poll(ring);
}

static void check_records(const uint8_t *shared)
{
	const struct capture_lane *lane =
		((const struct capture_header *)(const void *)shared)->lanes;
	const uint8_t *data = shared + capture_lane_at(0, SHIFT);
	struct capture_record r;

	for (uint64_t at = 0; at < lane->head; at += r.size) {
		memcpy(&r, data + at, sizeof(r));
		TEST_CHECK(r.len == LEN && r.kept == LEN);
		for (unsigned i = 1; i < LEN; i++)
			TEST_CHECK(data[at + sizeof(r) + i] == data[at + sizeof(r)]);
		__atomic_store_n(&captured, captured + 1, __ATOMIC_RELAXED);
	}
}

static void begin_and_end(struct worker *worker)
{
	int fd = ring_capture_start(CAPTURE_SNAP_MAX, SHIFT);
	unsigned few = (unsigned)rand_r(&worker->seed) % 50 + 1;
	const struct capture_header *header;
	uint8_t *shared;

	TEST_CHECK(fd >= 0);
	shared = mmap(NULL, capture_size(SHIFT), PROT_READ, MAP_SHARED, fd, 0);
	TEST_CHECK(shared != MAP_FAILED);
	header = (const void *)shared;
	while (crew_goes_on(worker->crew) &&
	       __atomic_load_n(&header->lanes[0].frames, __ATOMIC_RELAXED) < few)
		worker_pause(worker);
	ring_capture_stop();
	/* Nobody writes there any more. */
	check_records(shared);
	munmap(shared, capture_size(SHIFT));
	captures++;
}

/* The last one captures: in HOLD_SINGLE the internal thread, as in a process. */
static void work(struct worker *worker)
{
	bool last = worker->number == worker->crew->size - 1;

	while (crew_goes_on(worker->crew)) {
		if (last) {
			begin_and_end(worker);
		} else if (crew_hold(ring)) {
			send_and_receive();
			crew_release(ring);
		}
	}
}

static bool has_captured(void)
{
	return __atomic_load_n(&captured, __ATOMIC_RELAXED);
}

static void test_a_capture_begins_and_ends_at_any_moment(void **state)
{
	char why[PORT_WHY];
	bool fresh;

	clock_init();
	ops = fake_ops;
	ops.open_queue = open_queue;
	rings_init(kinds);
	for (unsigned i = 0; i < CREW_MODES; i++) {
		ring_mode = HOLD_SPIN;
		assert_int_equal(rings_get(4711, 0, &ring, why, &fresh), 0);
		sent = received = captures = captured = 0;
		crew_run_until(crew_modes[i], CREW_MAX, work, has_captured);
		print_message("mode %d: %lu frames, %lu captured by %lu captures\n", crew_modes[i],
			      sent, captured, captures);
		assert_true(sent > 0 && captures > 0 && captured > 0);
		assert_true(sent == received);
		assert_ptr_equal(ring->ops, &ops);
		assert_int_equal(fake_missing(fake_of(ring->q)), 0);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_a_capture_begins_and_ends_at_any_moment),
};

VMA_TEST_MAIN("capture", tests, NULL, NULL)
