/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/capture.h"

#include <stdio.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/sealed.h"
#include "base/stats/capture.h"
#include "base/sys.h"
#include "ring/rings.h"

/* The frames of one ring.  holder of the ring; made with the control lock. */
struct captured {
	struct port_ops ops; /* of the ring's port, but for three; what ring->ops points to */
	struct capture_writer writer;
};

/* control lock, but for what a struct captured says */
static struct {
	struct capture_header *header; /* NULL: no capture; atomic: ring_capture_runs() */
	int fd;
	uint64_t lane_size;
	unsigned n; /* lanes in use */
	struct captured captured[CAPTURE_LANES];
} capture = {.fd = -1};

bool ring_capture_runs(void)
{
	return __atomic_load_n(&capture.header, __ATOMIC_RELAXED);
}

/* ---- operations of captured rings (holder) -------------------------------------------- */

static struct captured *captured_of(const struct port_queue *q)
{
	const struct ring *ring = container_of(q->owner, struct ring, hold);

	return container_of((uintptr_t)ring->ops, struct captured, ops);
}

/* Frames of a burst have one time, unless the port knows when each arrived. */
static int captured_rx_burst(struct port_queue *q, struct pkt **pkts, int max)
{
	struct capture_writer *w = &captured_of(q)->writer;
	int n = q->ops->rx_burst(q, pkts, max);
	nsec_t now;

	if (n <= 0)
		return n;
	now = clock_real();
	for (int i = 0; i < n; i++)
		capture_put(w, pkts[i]->frame, pkts[i]->frame_len, 0,
			    (uint64_t)(pkts[i]->flags & PKT_ARRIVAL ? pkt_arrival(pkts[i])->real
								    : now));
	capture_publish(w);
	return n;
}

/* Copied before, since the port consumes the frame; but seen only if the port took it. */
static int captured_tx_put(struct port_queue *q, struct pkt *pkt)
{
	struct capture_writer *w = &captured_of(q)->writer;
	int rc;

	capture_put(w, pkt->frame, pkt->frame_len, CAPTURE_SENT, (uint64_t)clock_real());
	rc = q->ops->tx_put(q, pkt);
	if (rc)
		capture_take_back(w);
	capture_publish(w);
	return rc;
}

/* A capture has the segments: the library makes them. */
static int captured_tx_large(struct port_queue *q, const struct frame_large *large)
{
	return -EOPNOTSUPP;
}

void ring_capture_put(struct ring *ring, const uint8_t *frame, uint32_t len, bool sent)
{
	struct capture_writer *w;

	ring_assert_held(ring);
	if (ring->ops->rx_burst != captured_rx_burst)
		return;
	w = &container_of((uintptr_t)ring->ops, struct captured, ops)->writer;
	capture_put(w, frame, len, sent ? CAPTURE_SENT : 0, (uint64_t)clock_real());
	capture_publish(w);
}

/* ---- lanes (control lock) -------------------------------------------------------------- */

/* Resident from the start: to copy causes no page fault. */
static uint8_t *map_lane(unsigned lane)
{
	off_t at = (off_t)(CAPTURE_LANES_AT + lane * capture.lane_size);
	long rc = sys_call(SYS_fallocate, capture.fd, 0, at, capture.lane_size, 0, 0);

	if (!rc)
		rc = sys_call(SYS_mmap, NULL, capture.lane_size, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_POPULATE, capture.fd, at);
	if (rc < 0 && rc >= -4095)
		return NULL;
	sys_call(SYS_madvise, rc, capture.lane_size, MADV_DONTFORK, 0, 0, 0);
	return (uint8_t *)rc;
}

/* The lane that the ring had on this interface before, or a new one; NULL: there is none. */
static struct captured *lane_for(const struct ring *ring)
{
	struct capture_lane *lane = capture.header->lanes;
	const char *interface = ring->q->port->name;
	struct captured *c;
	uint8_t *data;

	for (unsigned i = 0; i < capture.n; i++) {
		c = &capture.captured[i];
		if (c->writer.lane->ring == ring->id &&
		    !strcmp(c->writer.lane->interface, interface))
			return c;
	}
	if (capture.n == CAPTURE_LANES)
		return NULL;
	data = map_lane(capture.n);
	if (!data)
		return NULL;
	c = &capture.captured[capture.n];
	lane += capture.n++;
	snprintf(lane->interface, sizeof(lane->interface), "%s", interface);
	lane->ring = ring->id;
	capture_writer_init(&c->writer, lane, data, capture.lane_size, capture.header->snap);
	/* Release: pairs with the tool, which then sees whose lane it is. */
	__atomic_store_n(&lane->used, 1, __ATOMIC_RELEASE);
	return c;
}

void ring_capture_opened(struct ring *ring)
{
	struct captured *c;

	ring_assert_held(ring);
	if (!capture.header)
		return;
	c = lane_for(ring);
	if (!c) {
		log_debug("ring %u is not captured: there is no memory for it", ring->id);
		__atomic_fetch_add(&capture.header->without_lane, 1, __ATOMIC_RELAXED);
		return;
	}
	c->ops = *ring->q->ops;
	c->ops.rx_burst = captured_rx_burst;
	c->ops.tx_large = captured_tx_large;
	c->ops.tx_put = captured_tx_put;
	ring->ops = &c->ops;
}

/* ---- start and stop (control lock) ------------------------------------------------------- */

static void let_go(struct ring *ring)
{
	ring->ops = ring->q->ops;
}

static void each_ring(void (*fn)(struct ring *ring))
{
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		if (ring->q && ring_hold_cold(ring)) {
			fn(ring);
			ring_release_cold(ring);
		}
	}
}

int ring_capture_start(uint32_t snap, unsigned shift)
{
	struct capture_header *header;
	long at;

	ring_capture_stop();
	capture.fd = sealed_create(CAPTURE_MEMFD, capture_size(shift));
	if (capture.fd < 0)
		return capture.fd;
	at = sys_call(SYS_mmap, NULL, CAPTURE_LANES_AT, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_POPULATE, capture.fd, 0);
	if (at < 0 && at >= -4095) {
		sys_close_fd(&capture.fd);
		return (int)at;
	}
	sys_call(SYS_madvise, at, CAPTURE_LANES_AT, MADV_DONTFORK, 0, 0, 0);
	header = (struct capture_header *)at;
	header->magic = CAPTURE_MAGIC;
	header->version = CAPTURE_VERSION;
	header->shift = shift;
	header->snap = snap;
	header->lanes_at = CAPTURE_LANES_AT;
	capture.lane_size = 1ull << shift;
	capture.n = 0;
	__atomic_store_n(&capture.header, header, __ATOMIC_RELAXED);
	each_ring(ring_capture_opened);
	log_debug("all frames are captured, %u bytes of each", snap);
	return capture.fd;
}

void ring_capture_stop(void)
{
	if (!capture.header)
		return;
	each_ring(let_go);
	/* No holder uses a lane any more: each ring was held once meanwhile. */
	for (unsigned i = 0; i < capture.n; i++)
		sys_call(SYS_munmap, capture.captured[i].writer.data, capture.lane_size, 0, 0, 0,
			 0);
	sys_call(SYS_munmap, capture.header, CAPTURE_LANES_AT, 0, 0, 0, 0);
	__atomic_store_n(&capture.header, NULL, __ATOMIC_RELAXED);
	sys_close_fd(&capture.fd);
	log_debug("the capture has ended");
}

void ring_capture_forget(void)
{
	sys_close_fd(&capture.fd);
	capture.n = 0;
	__atomic_store_n(&capture.header, NULL, __ATOMIC_RELAXED);
}
