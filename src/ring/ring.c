/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ring.h"

#include <ck_pr.h>

#include "base/busy.h"
#include "base/delay.h"
#include "base/log.h"
#include "base/image/sections.h"
#include "base/sys.h"
#include "ring/capture.h"
#include "ring/rings.h"
#include "ring/stamps.h"

#define RECORDS_OF_DEATH 32 /* last events that are logged when a ring loses its interface */

/* An inbox item: the holder of another ring freed a packet of this one. */
static void returned_run(struct ring *ring, struct inbox_item *item)
{
	(void)ring;
	pkt_free((struct pkt *)(void *)item);
}

/* The packet itself is the item: no one uses it, so its first words are free. */
_Static_assert(offsetof(struct pkt, next) == offsetof(struct inbox_item, link) &&
		       offsetof(struct pkt, stamp) == offsetof(struct inbox_item, run),
	       "a packet that returns to its ring is an inbox item");

static void ring_give_back(struct port_queue *q, struct pkt *pkt)
{
	struct inbox_item *item = (struct inbox_item *)(void *)pkt;

	item->run = returned_run;
	ring_post(container_of(q->owner, struct ring, hold), item);
}

void ring_fds_changed(struct ring *ring)
{
	/*
	 * Pairs with sleep_enter(): a thread that has registered before this reads the new
	 * number, or is seen here and woken.  Callers have stored n_fds plainly.
	 */
	ck_pr_fence_memory();
	sleep_call_all(&ring->sleepers);
}

bool ring_arm_fds_now(struct ring *ring)
{
	bool armed;

	if (!ring_try(ring))
		return false;
	armed = ring->ops->arm(ring->q);
	ring_release_cold(ring);
	return armed;
}

static void own(struct ring *ring, struct port_queue *q)
{
	q->owner = &ring->hold;
	q->give_back = ring_give_back;
	for (struct port_queue *part = q->parts; part; part = part->next)
		own(ring, part);
}

void ring_open(struct ring *ring, struct port_queue *q)
{
	int fds[PORT_FDS_MAX], n = q->ops->fds(q, fds);

	ring_assert_held(ring);
	own(ring, q);
	ring->parse_flags = q->port->can.partial_csum ? FRAME_PARTIAL_CSUM : 0;
	ring->low_water = q->frames / 8;
	for (int i = 0; i < n; i++)
		__atomic_store_n(&ring->fds[i], fds[i], __ATOMIC_RELAXED);
	__atomic_store_n(&ring->must_arm, q->port->can.must_arm, __ATOMIC_RELAXED);
	/* release: pairs with the load in ring_fds() */
	__atomic_store_n(&ring->n_fds, n, __ATOMIC_RELEASE);
	ring->ops = q->ops;
	/* release: pairs with the load in ring_queue() */
	__atomic_store_n(&ring->q, q, __ATOMIC_RELEASE);
	ring->ifindex = q->port->ifindex;
	ring->sender.pair = 0;
	ring->unused_since = 0;
	memset(&ring->stats, 0, sizeof(ring->stats));
	wheel_init(&ring->wheel, clock_now());
	ring->recorder = recorder_area(ring->id, q->port->name);
	ring_record(ring, RECORD_RING_OPEN, 0, 0);
	ring_stamps_opened(ring);
	ring_capture_opened(ring);
	/* A sleeper from before the ring was closed may lead without these descriptors. */
	ring_fds_changed(ring);
}

void ring_close(struct ring *ring)
{
	ring_assert_held(ring);
	ring_record(ring, RECORD_RING_CLOSE, 0, 0);
	__atomic_store_n(&ring->n_fds, 0, __ATOMIC_RELAXED);
	/* Threads that still sleep here have no flow on the ring, but block on its descriptors. */
	ring_fds_changed(ring);
	ring->ops->close_queue(ring->q);
	flow_table_fini(&ring->flows);
	adj_table_fini(&ring->adjs);
	ring->ops = &port_null_ops;
	__atomic_store_n(&ring->q, NULL, __ATOMIC_RELAXED);
	ring->ifindex = 0;
	ring->tx_dirty = false;
}

void ring_retire(struct ring *ring)
{
	ring_assert_held(ring);
	ring_record(ring, RECORD_RING_RETIRED, 0, 0);
	recorder_log(ring->id, RECORDS_OF_DEATH, LOG_DETAILS);
	__atomic_store_n(&ring->n_fds, 0, __ATOMIC_RELAXED);
	ring_fds_changed(ring);
	adj_table_fini(&ring->adjs);
	ring->dead = ring->q;
	ring->ops = &port_null_ops;
	__atomic_store_n(&ring->q, NULL, __ATOMIC_RELAXED);
	ring->ifindex = 0;
	ring->tx_dirty = false;
	ring->retired = true;
}

void ring_recycle(struct ring *ring)
{
	ring_assert_held(ring);
	flow_table_fini(&ring->flows);
	ring->retired = false;
}

/*
 * Rings, and processes, send fragments to the same receiver: their numbers begin far from each
 * other (RFC 791: unique while a datagram lives).
 */
static uint32_t first_ip_id(unsigned id)
{
	return (uint32_t)((uint64_t)clock_now() >> 20) + id * 0x9e379e37u;
}

EARLY_CODE void ring_init(struct ring *ring, struct port_queue *q, unsigned id)
{
	memset(ring, 0, sizeof(*ring));
	ring->ip_id = first_ip_id(id);
	ring->ops = &port_null_ops;
	ring->id = id;
	inbox_init(&ring->inbox);
	hold_init(&ring->hold);
	sleep_place_init(&ring->sleepers, true);
	ring->sleepers.ring = id;
	wheel_init(&ring->wheel, clock_now());
	flow_table_init(&ring->flows);
	adj_table_init(&ring->adjs);
	ring->direct.state = NEIGH_REACHABLE;
	list_init(&ring->direct.users);
	list_init(&ring->work);
	list_init(&ring->later);
	list_init(&ring->questions);
	if (q && ring_hold_cold(ring)) {
		ring_open(ring, q);
		ring_release_cold(ring);
	}
}

void ring_log_stats(const struct ring *ring)
{
	const struct ring_stats *stats = &ring->stats;

	if (!ring->q)
		return;
	log_debug("ring %u on %s: received %lu frames, sent %lu, forwarded %lu, copied out %lu",
		  ring->id, ring->q->port->name, stats->rx_frames, stats->tx_frames,
		  stats->forwarded, stats->copied);
	for (int i = 0; i < DROP_COUNT; i++) {
		if (stats->drops[i])
			log_debug("ring %u on %s: dropped %lu: %s", ring->id, ring->q->port->name,
				  stats->drops[i], drop_text(i));
	}
}

void ring_at_exit(struct ring *ring)
{
	bool held = ring_try(ring);
	struct port_queue *q = ring_queue(ring);

	ring_log_stats(ring);
	if (q)
		q->ops->at_exit(q, held);
	if (held)
		ring_release_cold(ring);
}

/* ---- holding ------------------------------------------------------------------ */

void ring_drain_inbox(struct ring *ring)
{
	struct inbox_item *item = inbox_take(&ring->inbox);

	ring_assert_held(ring);
	ring_set_now(ring, clock_now()); /* items read it; the last poll can be long ago */
	while (item) {
		struct inbox_item *next = (struct inbox_item *)(void *)item->link.next;

		item->run(ring, item); /* may free it */
		item = next;
	}
}

__thread struct ring_thread ring_thread __attribute__((tls_model("initial-exec")));

/* In HOLD_SINGLE the internal thread takes and releases rings by ->wanted (hold.h). */
static bool holds_by_wanted(void)
{
	return ring_mode_now() == HOLD_SINGLE && ring_thread.internal;
}

/* Ends a hold, but for the look at the inbox. */
static void release_ring(struct ring *ring)
{
	if (!list_empty(&ring->work))
		ring_run_late_work(ring);
	if (ring->tx_dirty)
		ring_tx_flush(ring);
	if (holds_by_wanted())
		hold_release_other(&ring->hold, HOLD_SINGLE);
	else
		hold_release(&ring->hold, ring_mode_now());
	delay_at(DELAY_HOLD_RELEASED);
	inbox_fence(); /* pairs with the fence in ring_post(), as in ring_release() */
}

static bool try_hold(struct ring *ring)
{
	enum hold_mode mode = ring_mode_now();

	if (mode == HOLD_SINGLE && !ring_thread.internal)
		return hold_acquire(&ring->hold, HOLD_SINGLE);
	return hold_try(&ring->hold, mode);
}

/* Something was posted while the ring was being released. */
void ring_look_again(struct ring *ring, enum hold_mode mode)
{
	(void)mode;
	while (!inbox_empty(&ring->inbox)) {
		if (!try_hold(ring))
			return; /* its holder looks at the inbox when it releases the ring */
		ring_drain_inbox(ring);
		release_ring(ring);
	}
}

bool ring_try(struct ring *ring)
{
	if (!try_hold(ring)) {
		if (ring_thread.due) /* a signal handler posted meanwhile, or signals wait */
			ring_try_posted();
		return false;
	}
	if (!inbox_empty(&ring->inbox))
		ring_drain_inbox(ring);
	return true;
}

static __attribute__((noinline)) bool hold_in_mode(struct ring *ring, enum hold_mode mode)
{
	if (mode != HOLD_SINGLE || !ring_thread.internal)
		return ring_hold(ring, mode);
	if (hold_current)
		return false;
	while (!ring_try(ring))
		sys_sched_yield();
	return true;
}

/* The usual mode has code of its own, without registers that others need. */
bool ring_hold_cold(struct ring *ring)
{
	enum hold_mode mode = ring_mode_now();

	return mode == HOLD_SPIN ? ring_hold(ring, HOLD_SPIN) : hold_in_mode(ring, mode);
}

static __attribute__((noinline)) void release_in_mode(struct ring *ring, enum hold_mode mode)
{
	if (mode != HOLD_SINGLE) {
		ring_release(ring, mode);
		return;
	}
	release_ring(ring);
	ring_look_again(ring, mode);
	if (ring_thread.due)
		ring_try_posted();
}

/* After the release: something was posted, or this thread has something to do. */
static __attribute__((noinline)) void after_release(struct ring *ring)
{
	if (!inbox_empty(&ring->inbox))
		ring_look_again(ring, HOLD_SPIN);
	if (ring_thread.due)
		ring_try_posted();
}

void ring_release_cold(struct ring *ring)
{
	enum hold_mode mode = ring_mode_now();

	if (__builtin_expect(mode != HOLD_SPIN || !list_empty(&ring->work) || ring->tx_dirty, 0)) {
		release_in_mode(ring, mode);
		return;
	}
	/* As ring_release_clean(). */
	hold_release(&ring->hold, HOLD_SPIN);
	delay_at(DELAY_HOLD_RELEASED);
	inbox_fence();
	if (__builtin_expect(!inbox_empty(&ring->inbox) || ring_thread.due, 0))
		after_release(ring);
}

void ring_look_after_release(struct ring *ring)
{
	for (unsigned i = 0; i < ring_thread.posted && i < RING_POSTED_MAX; i++) {
		if (ring_thread.to[i] == ring)
			return;
	}
	if (!ring_thread.posted)
		busy_defer_begin();
	if (ring_thread.posted < RING_POSTED_MAX)
		ring_thread.to[ring_thread.posted] = ring;
	if (ring_thread.posted <= RING_POSTED_MAX)
		ring_thread.posted++;
}

/* This thread posted to more rings than ring_thread.to holds. */
static void try_every_ring(void)
{
	ring_look_again(rings_nowhere(), ring_mode_now());
	for (unsigned i = 0; i < rings_count(); i++)
		ring_look_again(rings_at(i), ring_mode_now());
}

static __attribute__((noinline)) void try_rings(void)
{
	struct ring_thread due = ring_thread; /* a copy: what runs there may post */

	ring_thread.posted = 0;
	inbox_fence(); /* pairs with the fence in ring_post(): see ring_look_after_release() */
	for (unsigned i = 0; i < due.posted && i < RING_POSTED_MAX; i++)
		ring_look_again(due.to[i], ring_mode_now());
	if (due.posted > RING_POSTED_MAX)
		try_every_ring();
	busy_defer_end();
}

static void run_function(void)
{
	unsigned i = RING_AFTERWARDS - 1;
	void (*fn)(void);

	while (i && !ring_thread.afterwards[i])
		i--;
	fn = ring_thread.afterwards[i];
	ring_thread.afterwards[i] = NULL;
	if (i && (i > 1 || ring_thread.afterwards[0]))
		busy_defer_begin(); /* others are due, too */
	else
		ring_thread.runs = 0;
	fn();
	busy_defer_end();
}

void ring_try_posted(void)
{
	while ((ring_thread.posted || ring_thread.runs) && !hold_current) {
		if (ring_thread.posted)
			try_rings();
		else
			run_function();
	}
	if (__builtin_expect(ring_thread.put_off, 0) && !busy_is()) {
		ring_thread.put_off = 0;
		busy_let_signals_in();
	}
}

static void run_at(unsigned i, void (*fn)(void))
{
	ring_thread.afterwards[i] = fn;
	if (ring_thread.runs)
		return;
	ring_thread.runs = 1;
	busy_defer_begin();
}

void ring_run_afterwards(void (*fn)(void))
{
	unsigned i = 1;

	while (i < RING_AFTERWARDS - 1 && ring_thread.afterwards[i] &&
	       ring_thread.afterwards[i] != fn)
		i++;
	run_at(i, fn);
}

void ring_run_last(void (*fn)(void))
{
	run_at(0, fn);
}

void ring_post(struct ring *ring, struct inbox_item *item)
{
	inbox_post(&ring->inbox, item);
	if (hold_current) {
		ring_look_after_release(ring);
		return;
	}
	/*
	 * Pairs with the fences in ring_release() and release_ring(): keeps the push before
	 * the look at the lock.  In HOLD_SINGLE the program's thread has no fence there:
	 * membarrier(2) in hold.c makes it execute one.
	 */
	inbox_fence();
	ring_look_again(ring, ring_mode_now());
	if (ring_thread.due) /* the items that ran just now may have posted */
		ring_try_posted();
}
