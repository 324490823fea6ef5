/* SPDX-License-Identifier: BSD-2-Clause */
/* Receiving: delivers a burst of frames to flows, then runs the work that follows. */
#include "base/log.h"
#include "base/param.h"
#include "ring/gro.h"
#include "ring/ring.h"
#include "ring/source.h"

/* Several flows may have the key of a multicast packet: all but the last get copies. */
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
			ring_drop_of(ring, reason, &flow->key);
	}
	return flow->deliver(ring, flow, pkt, now);
}

void ring_drop_of(struct ring *ring, enum drop reason, const struct flow_key *key)
{
	ring_assert_held(ring);
	ring->stats.drops[reason]++;
	recorder_drop(ring->recorder, ring->now, (uint8_t)reason, key ? ntohs(key->local_port) : 0,
		      key ? ntohs(key->remote_port) : 0);
}

/* key: of the packet, NULL: it has none. */
static void drop(struct ring *ring, struct pkt *pkt, enum drop reason, const struct flow_key *key)
{
	log_fine("ring %u: a frame of %u bytes is dropped: %s", ring->id, pkt->frame_len,
		 drop_text(reason));
	ring_drop_of(ring, reason, key);
	pkt_free(pkt);
}

/* Must the packet's sender be checked?  Not for 5-tuples, and not for the last sender accepted. */
static inline bool must_check(const struct ring *ring, const struct flow *flow,
			      const struct flow_key *key)
{
	return !flow->key.remote_port && (source_pair(key) != ring->sender.pair ||
					  netlink_generation() != ring->sender.generation);
}

static __attribute__((noinline)) void deliver_open(struct ring *ring, struct flow *flow,
						   const struct flow_key *key, struct pkt *pkt,
						   nsec_t now)
{
	enum source_result result = SOURCE_PASS;
	enum drop reason;

	if (key->proto == IPPROTO_TCP) {
		/* A listener's deliver function checks senders. */
	} else if (!addr_is_v4(&key->local)) {
		/* frame_parse() has checked it. */
	} else if (!ring->n_questions && source_is_known(key, ring->ifindex)) {
		ring->sender.pair = source_pair(key);
		ring->sender.generation = netlink_generation();
	} else {
		result = source_check(ring, key, pkt, NULL, &reason);
	}
	if (result == SOURCE_KEPT)
		return;
	if (result == SOURCE_PASS)
		reason = addr_is_multicast(&key->local) ? deliver_shared(ring, flow, pkt, now)
							: flow->deliver(ring, flow, pkt, now);
	if (reason != DROP_NONE)
		drop(ring, pkt, reason, key);
}

/* Delivers a packet with this key to its flow.  gro: as for receive(). */
static inline __attribute__((always_inline)) enum drop deliver(struct ring *ring, struct flow *flow,
							       const struct flow_key *key,
							       struct pkt *pkt, struct gro *gro,
							       nsec_t now)
{
	if (gro && flow->chains && gro_add(gro, flow, pkt, pkt))
		return DROP_NONE;
	if (__builtin_expect(must_check(ring, flow, key), 0)) {
		deliver_open(ring, flow, key, pkt, now);
		return DROP_NONE;
	}
	if (__builtin_expect(addr_is_multicast(&key->local), 0))
		return deliver_shared(ring, flow, pkt, now);
	return flow->deliver(ring, flow, pkt, now);
}

/* The headers are not those that were predicted. */
static __attribute__((noinline)) void receive_other(struct ring *ring, struct pkt *pkt,
						    struct gro *gro, nsec_t now)
{
	struct flow_key key;
	struct flow *flow;
	enum drop reason = frame_parse(pkt, ring->parse_flags, &key);

	if (__builtin_expect(reason == DROP_NONE, 1)) {
		flow = flow_find(&ring->flows, &key, pkt);
		if (__builtin_expect(!flow, 0))
			flow = flow_find_others(&ring->flows, &key);
		reason = flow ? deliver(ring, flow, &key, pkt, gro, now) : DROP_NO_FLOW;
	}
	if (__builtin_expect(reason != DROP_NONE, 0))
		/* The earlier reasons are those of frame_parse(), which then sets no key. */
		drop(ring, pkt, reason, reason >= DROP_NO_FLOW ? &key : NULL);
}

/* gro: collects packets that may be delivered in chains; NULL: delivers each at once. */
static inline __attribute__((always_inline)) void receive(struct ring *ring, struct pkt *pkt,
							  struct gro *gro, nsec_t now)
{
	struct flow_table *flows = &ring->flows;
	struct flow *flow = flows->recent.flow;
	enum drop reason;

	pkt->next = NULL;
	if (!flows->recent.is_predicted ||
	    !frame_is_predicted(pkt, ring->parse_flags, &flows->recent.prediction)) {
		receive_other(ring, pkt, gro, now);
		return;
	}
	if (flows->recent.goes_straight)
		reason = flow->deliver(ring, flow, pkt, now);
	else
		reason = deliver(ring, flow, flows->recent.key, pkt, gro, now);
	if (__builtin_expect(reason != DROP_NONE, 0))
		/* The flow may have ended meanwhile. */
		drop(ring, pkt, reason, flows->recent.flow ? flows->recent.key : NULL);
}

void ring_receive(struct ring *ring, struct pkt *pkt)
{
	ring_assert_held(ring);
	receive(ring, pkt, NULL, ring->now);
}

/* Delivers a chain one by one.  If a packet ends the flow, the rest is looked up again. */
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
			drop(ring, pkt, reason, &flow->key);
	}
}

/* A run to a group that has one receiver here, which takes it: others would need copies. */
static bool take_group_run(struct ring *ring, struct flow *flow, struct pkt *first, nsec_t now)
{
	return flow->group_runs && !must_check(ring, flow, ring->flows.recent.key) &&
	       !flow_next(flow) && flow->deliver(ring, flow, first, now) == DROP_NONE;
}

/* A run for a flow that did not take it as one. */
static __attribute__((noinline)) void receive_each(struct ring *ring, struct flow *flow,
						   struct pkt *first, nsec_t now)
{
	struct flow_table *flows = &ring->flows;
	enum drop reason;

	if (take_group_run(ring, flow, first, now))
		return;
	for (struct pkt *next; first; first = next) {
		next = first->next;
		first->next = NULL;
		if (__builtin_expect(flows->recent.flow != flow, 0)) { /* it has ended */
			receive_other(ring, first, NULL, now);
			continue;
		}
		reason = deliver(ring, flow, flows->recent.key, first, NULL, now);
		if (__builtin_expect(reason != DROP_NONE, 0))
			drop(ring, first, reason, flows->recent.flow ? flows->recent.key : NULL);
	}
}

/* Packets from first to last, in turn, have the key of the recent flow. */
static void receive_run(struct ring *ring, struct pkt *first, struct pkt *last, struct gro *gro,
			nsec_t now)
{
	struct flow_table *flows = &ring->flows;
	struct flow *flow = flows->recent.flow;
	enum drop reason;

	if (flow->chains && gro_add(gro, flow, first, last))
		return;
	if (first != last) {
		if (!flow_takes_runs(flow) || must_check(ring, flow, flows->recent.key) ||
		    flow->deliver(ring, flow, first, now) != DROP_NONE)
			receive_each(ring, flow, first, now);
		return;
	}
	reason = deliver(ring, flow, flows->recent.key, first, NULL, now);
	if (__builtin_expect(reason != DROP_NONE, 0))
		drop(ring, first, reason, flows->recent.flow ? flows->recent.key : NULL);
}

static __attribute__((noinline)) void receive_burst(struct ring *ring, struct pkt **pkts,
						    unsigned n, nsec_t now)
{
	struct flow_table *flows = &ring->flows;
	struct gro gro; /* not cleared: it is large */
	struct frame_run run;

	gro.n = 0;
	gro.max = (unsigned)params.gro_streams_max; /* GRO_STREAMS at most: param_list.h */
	for (unsigned i = 0; i < n; i += run.n) {
		run.n = 0;
		if (flows->recent.is_predicted)
			run = frame_run_predicted(pkts + i, n - i, ring->parse_flags,
						  &flows->recent.prediction);
		if (run.n) {
			ring->stats.rx_bytes += run.bytes;
			receive_run(ring, pkts[i], pkts[i + run.n - 1], &gro, now);
			continue;
		}
		run.n = 1;
		ring->stats.rx_bytes += pkts[i]->frame_len;
		pkts[i]->next = NULL;
		receive_other(ring, pkts[i], &gro, now);
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

	ring_assert_held(ring);
	while ((link = list_pop_front(&ring->work))) {
		struct ring_work *work = container_of(link, struct ring_work, link);

		work->run(ring, work, ring->now);
	}
}

void ring_run_late_work(struct ring *ring)
{
	ring_assert_held(ring);
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
	__atomic_store_n(&ring->has_later, false,
			 __ATOMIC_RELAXED); /* work in ->later may have been removed since */
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
	ring->unpolled = 0;
	__atomic_store_n(&ring->polls, ring->polls + 1, __ATOMIC_RELAXED);
	if (__builtin_expect(!list_empty(&ring->later), 0))
		run_later(ring);
	if (__builtin_expect(ring->q != NULL, 1))
		n = ring->ops->rx_burst(ring->q, pkts, params.cq_poll_batch_max);
	if (n == 1) {
		ring->stats.rx_bytes += pkts[0]->frame_len;
		receive(ring, pkts[0], NULL, ring->now);
	} else if (n > 1) {
		receive_burst(ring, pkts, (unsigned)n, ring->now);
	}
	if (__builtin_expect(n > (int)ring->stats.most, 0))
		ring->stats.most = (uint64_t)n;
	ring->stats.rx_frames += (unsigned)n;
	if (!list_empty(&ring->work))
		ring_run_work(ring);
	if (wheel_next(&ring->wheel) <= ring->now) {
		wheel_run(&ring->wheel, ring->now);
		ring_run_work(ring);
	}
	return n;
}

void ring_drain(struct ring *ring)
{
	unsigned left = ring->q ? ring->q->frames : 0;

	ring_assert_held(ring);
	/* Bounded: frames of other flows go on arriving. */
	for (;;) {
		int n = ring_poll(ring);

		if (n <= 0 || (unsigned)n >= left)
			return;
		left -= (unsigned)n;
	}
}
