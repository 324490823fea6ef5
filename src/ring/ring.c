/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/ring.h"

#include <errno.h>
#include <linux/membarrier.h>

#include "base/delay.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/gro.h"
#include "ring/rings.h"

enum hold_mode ring_mode = HOLD_SPIN;

/* A frame of ours that the holder of another ring is done with. */
static void returned_run(struct ring *ring, struct inbox_item *item)
{
	(void)ring;
	pkt_free((struct pkt *)(void *)item);
}

/* The packet itself is the item: it is nobody's, and its first words are free. */
_Static_assert(offsetof(struct pkt, next) == offsetof(struct inbox_item, link) &&
		       offsetof(struct pkt, stamp) == offsetof(struct inbox_item, run),
	       "a packet that goes home is an inbox item");

static void ring_give_back(struct port_queue *q, struct pkt *pkt)
{
	struct inbox_item *item = (struct inbox_item *)(void *)pkt;

	item->run = returned_run;
	ring_post(container_of(q->owner, struct ring, hold), item);
}

void ring_open(struct ring *ring, struct port_queue *q)
{
	int fds[PORT_FDS_MAX], n = q->ops->fds(q, fds);

	q->owner = &ring->hold;
	q->give_back = ring_give_back;
	ring->parse_flags = q->port->flags & PORT_PARTIAL_CSUM ? FRAME_PARTIAL_CSUM : 0;
	ring->low_water = q->frames / 8;
	for (int i = 0; i < n; i++)
		__atomic_store_n(&ring->fds[i], fds[i], __ATOMIC_RELAXED);
	__atomic_store_n(&ring->n_fds, n, __ATOMIC_RELEASE); /* pairs with ring_fds() */
	ring->ops = q->ops;
	__atomic_store_n(&ring->q, q, __ATOMIC_RELEASE); /* pairs with ring_queue() */
	ring->ifindex = q->port->ifindex;
	ring->unused_since = 0;
	memset(&ring->stats, 0, sizeof(ring->stats));
	wheel_init(&ring->wheel, clock_now());
	/* Who still slept at what it was before might be the watchman of what it is now. */
	sleep_call_all(&ring->sleepers);
}

void ring_close(struct ring *ring)
{
	__atomic_store_n(&ring->n_fds, 0, __ATOMIC_RELAXED);
	/* Nobody has a socket here any more; who still sleeps lets go of the descriptors. */
	sleep_call_all(&ring->sleepers);
	ring->ops->close_queue(ring->q);
	flow_table_fini(&ring->flows);
	adj_table_fini(&ring->adjs);
	ring->ops = &port_null_ops;
	__atomic_store_n(&ring->q, NULL, __ATOMIC_RELAXED);
	ring->ifindex = 0;
	ring->tx_dirty = false;
}

void ring_init(struct ring *ring, struct port_queue *q, unsigned id)
{
	memset(ring, 0, sizeof(*ring));
	ring->ops = &port_null_ops;
	ring->id = id;
	inbox_init(&ring->inbox);
	hold_init(&ring->hold);
	sleep_place_init(&ring->sleepers, true);
	wheel_init(&ring->wheel, clock_now());
	flow_table_init(&ring->flows);
	adj_table_init(&ring->adjs);
	ring->direct.state = NEIGH_REACHABLE;
	list_init(&ring->direct.users);
	list_init(&ring->work);
	list_init(&ring->later);
	if (q)
		ring_open(ring, q);
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

/* ---- holding ------------------------------------------------------------------ */

void ring_drain_inbox(struct ring *ring)
{
	struct inbox_item *item = inbox_take(&ring->inbox);

	ring_set_now(ring, clock_now()); /* items may ask; the last poll can be long ago */
	while (item) {
		struct inbox_item *next = (struct inbox_item *)(void *)item->link.next;

		item->run(ring, item); /* may free it */
		item = next;
	}
}

__thread struct ring_thread ring_thread __attribute__((tls_model("initial-exec")));

/* In HOLD_SINGLE everybody but the program's thread uses the other door. */
static bool by_other_door(void)
{
	return ring_mode == HOLD_SINGLE && ring_thread.internal;
}

static void finish(struct ring *ring)
{
	if (!list_empty(&ring->work))
		ring_run_late_work(ring);
	if (ring->tx_dirty) {
		ring->tx_dirty = false;
		ring->ops->tx_flush(ring->q);
	}
	if (by_other_door())
		hold_release_other(&ring->hold, ring_mode);
	else
		hold_release(&ring->hold, ring_mode);
	delay_at(DELAY_HOLD_RELEASED);
	inbox_fence(); /* as in ring_release() */
}

static bool try_hold(struct ring *ring)
{
	if (ring_mode == HOLD_SINGLE && !ring_thread.internal)
		return hold_acquire(&ring->hold, HOLD_SINGLE);
	return hold_try(&ring->hold, ring_mode);
}

/* Something was posted while the ring was being let go. */
void ring_look_again(struct ring *ring, enum hold_mode mode)
{
	(void)mode;
	while (!inbox_empty(&ring->inbox)) {
		if (!try_hold(ring))
			return; /* whoever holds it now will look */
		ring_drain_inbox(ring);
		finish(ring);
	}
}

bool ring_try(struct ring *ring)
{
	if (!try_hold(ring))
		return false;
	if (!inbox_empty(&ring->inbox))
		ring_drain_inbox(ring);
	return true;
}

bool ring_hold_cold(struct ring *ring)
{
	if (!by_other_door())
		return ring_hold(ring, ring_mode);
	if (hold_current)
		return false;
	while (!ring_try(ring))
		sys_sched_yield();
	return true;
}

void ring_release_cold(struct ring *ring)
{
	finish(ring);
	ring_look_again(ring, ring_mode);
	if (ring_thread.posted)
		ring_try_posted();
}

/* It is tried when we hold none. */
static void remember_posted(struct ring *ring)
{
	for (unsigned i = 0; i < ring_thread.posted && i < RING_POSTED_MAX; i++) {
		if (ring_thread.to[i] == ring)
			return;
	}
	if (ring_thread.posted < RING_POSTED_MAX)
		ring_thread.to[ring_thread.posted] = ring;
	if (ring_thread.posted <= RING_POSTED_MAX)
		ring_thread.posted++;
}

/* More rings were posted to than could be remembered. */
static void try_every_ring(void)
{
	ring_look_again(rings_nowhere(), ring_mode);
	for (unsigned i = 0; i < rings_count(); i++)
		ring_look_again(rings_at(i), ring_mode);
}

void ring_try_posted(void)
{
	while (ring_thread.posted && !hold_current) {
		/* A copy: a signal handler may post, and try, at any time from here on. */
		struct ring_thread due = ring_thread;

		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		ring_thread.posted = 0;
		ring_thread.afterwards = NULL;
		for (unsigned i = 0; i < due.posted && i < RING_POSTED_MAX; i++)
			ring_look_again(due.to[i], ring_mode);
		if (due.posted > RING_POSTED_MAX)
			try_every_ring();
		if (due.afterwards)
			due.afterwards();
	}
}

void ring_run_afterwards(void (*fn)(void))
{
	ring_thread.afterwards = fn;
	remember_posted(rings_nowhere()); /* so that ring_release() looks */
}

void ring_post(struct ring *ring, struct inbox_item *item)
{
	inbox_post(&ring->inbox, item);
	if (hold_current) {
		remember_posted(ring);
		return;
	}
	/*
	 * Keeps the push before the look at the lock; pairs with the fence in
	 * ring_release().  An application in HOLD_SINGLE has no fence there: the
	 * barrier that hold_try() makes it execute stands for it.
	 */
	inbox_fence();
	ring_look_again(ring, ring_mode);
	if (ring_thread.posted) /* by what ran just now */
		ring_try_posted();
}

/* ---- receiving ------------------------------------------------------------------ */

/* Several sockets may share a multicast flow: all but the last get copies. */
static enum drop deliver_shared(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	for (struct flow *next = flow_next(flow); next; flow = next, next = flow_next(flow)) {
		struct pkt *copy = pkt_copy(pkt);
		enum drop reason = DROP_NO_MEMORY;

		if (copy) {
			reason = flow->deliver(ring, flow, copy, now);
			if (reason != DROP_NONE)
				pkt_free(copy);
		}
		if (reason != DROP_NONE)
			ring_drop(ring, reason);
	}
	return flow->deliver(ring, flow, pkt, now);
}

static void drop(struct ring *ring, struct pkt *pkt, enum drop reason)
{
	ring_drop(ring, reason);
	pkt_free(pkt);
}

/* gro: collects what can be handed over in chains; NULL: nothing. */
static inline __attribute__((always_inline)) void receive(struct ring *ring, struct pkt *pkt,
							  struct gro *gro, nsec_t now)
{
	struct flow_key key;
	struct flow *flow;
	enum drop reason = frame_parse(pkt, ring->parse_flags, &key);

	pkt->next = NULL;
	if (__builtin_expect(reason == DROP_NONE, 1)) {
		flow = flow_find(&ring->flows, &key);
		if (!flow)
			reason = DROP_NO_FLOW;
		else if (gro && flow->chains && gro_add(gro, flow, pkt))
			return;
		else if (__builtin_expect(addr_is_multicast(&key.local), 0))
			reason = deliver_shared(ring, flow, pkt, now);
		else
			reason = flow->deliver(ring, flow, pkt, now);
	}
	if (__builtin_expect(reason != DROP_NONE, 0))
		drop(ring, pkt, reason);
}

/* Packets that make no chain.  One of them may end the flow: then they are looked up anew. */
static void deliver_each(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct pkt *next;
	enum drop reason;

	for (; pkt; pkt = next) {
		next = pkt->next;
		pkt->next = NULL;
		if (__builtin_expect(!flow->listed, 0)) {
			receive(ring, pkt, NULL, now);
			continue;
		}
		reason = flow->deliver(ring, flow, pkt, now);
		if (reason != DROP_NONE)
			drop(ring, pkt, reason);
	}
}

static void receive_burst(struct ring *ring, struct pkt **pkts, int n, nsec_t now)
{
	struct gro gro; /* not cleared: it is large */

	gro.n = 0;
	gro.max = (unsigned)params.gro_streams_max < GRO_STREAMS ? (unsigned)params.gro_streams_max
								 : GRO_STREAMS;
	for (int i = 0; i < n; i++) {
		if (i + 1 < n)
			__builtin_prefetch(pkts[i + 1]->frame);
		ring->stats.rx_bytes += pkts[i]->frame_len;
		receive(ring, pkts[i], &gro, now);
	}
	for (unsigned i = 0; i < gro.n; i++) {
		const struct gro_stream *s = &gro.stream[i];

		if (s->first == s->last ||
		    s->flow->deliver(ring, s->flow, s->first, now) != DROP_NONE)
			deliver_each(ring, s->flow, s->first, now);
	}
}

void ring_run_work(struct ring *ring)
{
	struct list *link;

	while ((link = list_pop_front(&ring->work))) {
		struct ring_work *work = container_of(link, struct ring_work, link);

		work->run(ring, work, ring->now);
	}
}

void ring_run_late_work(struct ring *ring)
{
	ring_set_now(ring, clock_now());
	ring_run_work(ring);
}

static __attribute__((noinline)) void run_later(struct ring *ring)
{
	struct list *link;

	__atomic_store_n(&ring->has_later, false, __ATOMIC_RELAXED);
	while ((link = list_pop_front(&ring->later)))
		ring_work_add(ring, container_of(link, struct ring_work, link));
}

void ring_settle(struct ring *ring)
{
	ring_assert_held(ring);
	if (list_empty(&ring->later))
		return;
	ring->settling = true;
	run_later(ring);
	ring_run_late_work(ring);
	ring->settling = false;
}

int ring_poll(struct ring *ring)
{
	struct pkt *pkts[128];
	int n = 0;

	ring_assert_held(ring);
	ring_set_now(ring, clock_now());
	__atomic_store_n(&ring->polls, ring->polls + 1, __ATOMIC_RELAXED);
	if (__builtin_expect(!list_empty(&ring->later), 0))
		run_later(ring);
	if (__builtin_expect(ring->q != NULL, 1))
		n = ring->ops->rx_burst(ring->q, pkts, params.cq_poll_batch_max);
	if (n == 1) {
		ring->stats.rx_bytes += pkts[0]->frame_len;
		receive(ring, pkts[0], NULL, ring->now);
	} else if (n > 1) {
		receive_burst(ring, pkts, n, ring->now);
	}
	ring->stats.rx_frames += (unsigned)n;
	if (!list_empty(&ring->work))
		ring_run_work(ring);
	wheel_run(&ring->wheel, ring->now);
	if (!list_empty(&ring->work))
		ring_run_work(ring);
	return n;
}

/* ---- flows ---------------------------------------------------------------------- */

/* Does a wider flow bring its frames here anyway? */
static bool covered(const struct ring *ring, const struct flow_key *key)
{
	struct flow_key wide;
	struct flow *f;

	if (!flow_key_is_exact(key))
		return false;
	wide = flow_key_widen(key);
	f = flow_lookup(&ring->flows, &wide);
	while (f && !f->steered)
		f = flow_next(f);
	return f != NULL;
}

/* A flow of the same key that the port was told of, or NULL. */
static struct flow *steered_twin(const struct ring *ring, const struct flow_key *key)
{
	struct flow *f = flow_lookup(&ring->flows, key);

	while (f && !f->steered)
		f = flow_next(f);
	return f;
}

int ring_flow_add(struct ring *ring, struct flow *flow)
{
	int rc = 0;

	ring_assert_held(ring);
	flow->steered = false;
	if (!steered_twin(ring, &flow->key) && !covered(ring, &flow->key)) {
		rc = ring->ops->add_flow(ring->q, &flow->key);
		if (rc)
			return rc;
		flow->steered = true;
	}
	rc = flow_insert(&ring->flows, flow);
	if (rc && flow->steered) {
		ring->ops->del_flow(ring->q, &flow->key);
		flow->steered = false;
	}
	return rc;
}

/*
 * A 3-tuple goes: the connections it brought frames for get entries of their own.
 * The last error; those it could not be done for get no more frames.
 */
static int steer_covered(struct ring *ring, const struct flow_key *wide)
{
	struct flow_table *table = &ring->flows;
	int error = 0;

	for (unsigned i = 0; table->buckets && i <= table->mask; i++) {
		for (struct flow *f = table->buckets[i]; f; f = f->next) {
			struct flow_key w = flow_key_widen(&f->key);
			int rc;

			if (f->steered || !flow_key_is_exact(&f->key) || !flow_key_eq(&w, wide))
				continue;
			rc = ring->ops->add_flow(ring->q, &f->key);
			f->steered = rc == 0;
			error = rc ? rc : error;
		}
	}
	return error;
}

void ring_flow_del(struct ring *ring, struct flow *flow)
{
	struct flow *heir;

	ring_assert_held(ring);
	if (!flow->listed)
		return;
	flow_remove(&ring->flows, flow);
	if (!flow->steered)
		return;
	flow->steered = false;
	heir = flow_lookup(&ring->flows, &flow->key);
	if (heir) {
		heir->steered = true;
		return;
	}
	if (!flow_key_is_exact(&flow->key))
		steer_covered(ring, &flow->key);
	ring->ops->del_flow(ring->q, &flow->key);
}

int ring_flow_list(struct ring *ring, struct flow *flow)
{
	ring_assert_held(ring);
	flow->steered = false;
	return flow_insert(&ring->flows, flow);
}

int ring_flow_unsteer(struct ring *ring, struct flow *flow)
{
	const struct flow *first = flow_lookup(&ring->flows, &flow->key);
	int rc;

	ring_assert_held(ring);
	if (first != flow || flow_next(flow))
		return 1;
	if (!flow->steered || flow_key_is_exact(&flow->key)) {
		flow->steered = false;
		return 0;
	}
	/* From here on, connections that are accepted are not covered any more. */
	flow->steered = false;
	rc = steer_covered(ring, &flow->key);
	if (rc)
		flow->steered = true;
	return rc;
}

void ring_flow_resteer(struct ring *ring, struct flow *flow)
{
	ring_assert_held(ring);
	flow->steered = !covered(ring, &flow->key);
}

int ring_flow_steer(struct ring *ring, struct flow *flow)
{
	int rc;

	ring_assert_held(ring);
	if (steered_twin(ring, &flow->key))
		return 0;
	rc = ring->ops->move_flow(ring->q, &flow->key);
	if (rc == -ENOENT) /* a wider one brought its frames to the old ring */
		rc = ring->ops->add_flow(ring->q, &flow->key);
	flow->steered = rc == 0;
	return rc;
}

void ring_flow_replace(struct ring *ring, struct flow *stand_in, struct flow *flow)
{
	ring_assert_held(ring);
	flow->steered = stand_in->steered;
	stand_in->steered = false;
	flow_replace(&ring->flows, stand_in, flow);
}

/* ---- sending ---------------------------------------------------------------------- */

int ring_tx_to(struct ring *ring, struct adj *adj, struct pkt *pkt)
{
	adj->used = true;
	if (__builtin_expect(adj->state == NEIGH_REACHABLE, 1))
		return ring_tx_put(ring, pkt);
	if (adj->state == NEIGH_FAILED) {
		ring_drop(ring, DROP_NEIGH_FAILED);
	} else {
		struct pkt *copy = pkt_copy(pkt);

		/* Copied: a neighbour that stays silent must not hold frames. */
		if (copy && adj_wait(adj, copy)) {
			pkt_free(pkt);
			return 0;
		}
		if (copy)
			pkt_free(copy);
		ring_drop(ring, copy ? DROP_NEIGH_FULL : DROP_NO_MEMORY);
	}
	pkt_free(pkt);
	return -EHOSTUNREACH;
}

struct neigh_item {
	struct inbox_item item;
	struct inaddr addr;
	enum neigh_state state;
	uint8_t mac[6];
};

static void send_waiting(struct ring *ring, struct pkt *pkt)
{
	struct pkt *frame = ring_tx_get(ring);

	if (!frame || frame->room < pkt->frame_len) {
		if (frame)
			pkt_free(frame);
		ring_drop(ring, DROP_NO_MEMORY);
	} else {
		memcpy(frame->frame, pkt->frame, pkt->frame_len);
		frame->frame_len = pkt->frame_len;
		ring_tx_put(ring, frame);
	}
}

void ring_adj_update(struct ring *ring, struct adj *adj, enum neigh_state state,
		     const uint8_t mac[6])
{
	struct pkt *pkt = adj_update(adj, state, mac);

	while (pkt) {
		struct pkt *next = pkt->next;

		if (state == NEIGH_REACHABLE)
			send_waiting(ring, pkt);
		else
			ring_drop(ring, DROP_NEIGH_FAILED);
		pkt_free(pkt);
		pkt = next;
	}
}

static void neigh_item_run(struct ring *ring, struct inbox_item *item)
{
	struct neigh_item *n = container_of(item, struct neigh_item, item);
	bool wanted = n->state == NEIGH_UNKNOWN;
	struct adj *adj = wanted ? adj_get(&ring->adjs, &n->addr) : adj_find(&ring->adjs, &n->addr);

	/* What is wanted and known already stays known. */
	if (adj && !(wanted && adj->state == NEIGH_REACHABLE))
		ring_adj_update(ring, adj, n->state, n->mac);
	mem_free(n);
}

void ring_neigh_changed(struct ring *ring, const struct inaddr *addr, enum neigh_state state,
			const uint8_t mac[6])
{
	struct neigh_item *n = mem_zalloc(sizeof(*n));

	if (!n)
		return; /* the next event or refresh repeats it */
	n->item.run = neigh_item_run;
	n->addr = *addr;
	n->state = state;
	if (state == NEIGH_REACHABLE)
		memcpy(n->mac, mac, sizeof(n->mac));
	ring_post(ring, &n->item);
}

/* ---- packets in ordinary memory --------------------------------------------------- */

static unsigned heap_pkts; /* any, atomic: how many there are, for VMA_RX_BUFS */

static void heap_put(struct pkt_pool *pool, struct pkt *pkt)
{
	__atomic_fetch_sub(&heap_pkts, 1, __ATOMIC_RELAXED);
	mem_free(pkt);
}

static struct pkt_pool heap_pool = {.put = heap_put, .flags = PKT_POOL_SHARED};

struct pkt *pkt_copy(const struct pkt *pkt)
{
	struct pkt *copy;

	if (__atomic_load_n(&heap_pkts, __ATOMIC_RELAXED) >= (unsigned)params.rx_bufs)
		return NULL;
	copy = mem_alloc(sizeof(*copy) + pkt->frame_len);
	if (!copy)
		return NULL;
	__atomic_fetch_add(&heap_pkts, 1, __ATOMIC_RELAXED);
	*copy = *pkt;
	copy->pool = &heap_pool;
	copy->frame = (uint8_t *)(copy + 1);
	copy->room = pkt->frame_len;
	copy->next = NULL;
	memcpy(copy->frame, pkt->frame, pkt->frame_len);
	return copy;
}

struct pkt *ring_copy_out(struct ring *ring, struct pkt *pkt)
{
	struct pkt *copy;

	if (pkt->pool->flags & PKT_POOL_SHARED)
		return pkt;
	copy = pkt_copy(pkt);
	if (copy) {
		ring->stats.copied++;
		pkt_free(pkt);
	}
	return copy;
}

struct pkt *ring_travel(struct ring *ring, struct pkt *pkt)
{
	struct pkt *copy = ring_copy_out(ring, pkt);

	return copy ? copy : pkt;
}
