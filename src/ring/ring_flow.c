/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows of a ring, and the port's entries for them. */
#include <errno.h>

#include "base/param.h"
#include "ring/ring.h"
#include "ring/source.h"

/* Does a 3-tuple on this ring bring the frames of this 5-tuple here? */
static bool covered(const struct ring *ring, const struct flow_key *key)
{
	struct flow_key wide;
	struct flow *f;

	if (!flow_key_is_exact(key))
		return false;
	wide = flow_key_widen(key);
	f = flow_lookup(&ring->flows, &wide);
	/* Not a shared one: its frames may go elsewhere as soon as a member joins or leaves. */
	while (f && (!f->steered || f->shared))
		f = flow_next(f);
	return f != NULL;
}

static bool is_narrow(const struct flow *flow)
{
	return flow->key.proto == IPPROTO_TCP ? !params.tcp_3t_rules : !params.udp_3t_rules;
}

/* Is an entry of its own worth it, although a 3-tuple covers the flow?  For the tag. */
static bool wants_entry(const struct ring *ring, const struct flow *flow)
{
	return ring->q && ring->q->port->can.tags && flow_key_is_exact(&flow->key) &&
	       is_narrow(flow);
}

static int add_entry(struct ring *ring, const struct flow *flow)
{
	bool wide = flow->alone && flow_key_is_exact(&flow->key) && ring->q &&
		    ring->q->port->can.tags && !is_narrow(flow);

	return (wide ? ring->ops->add_wide : ring->ops->add_flow)(ring->q, &flow->key);
}

/* The flow with this key that owns the port's entry, or NULL. */
static struct flow *steered_twin(const struct ring *ring, const struct flow_key *key)
{
	struct flow *f = flow_lookup(&ring->flows, key);

	while (f && (!f->steered || f->shared))
		f = flow_next(f);
	return f;
}

/* ---- shared flows ----------------------------------------------------------------- */

static struct shared_flow *shared_of(struct flow *flow)
{
	return container_of(flow, struct shared_flow, flow);
}

/* Of flow and those after it with the same key, the one of this member; or NULL. */
static struct flow *find_member(struct flow *flow, unsigned member)
{
	while (flow && !(flow->shared && shared_of(flow)->share.member == member))
		flow = flow_next(flow);
	return flow;
}

/* Of several members on this ring, the one that receives from pkt's sender. */
static __attribute__((noinline)) struct flow *pick_member(const struct ring *ring,
							  struct flow *flow, const struct pkt *pkt)
{
	struct endpoint from = frame_source(pkt);
	struct flow_key key = flow->key;
	struct flow *member;

	key.remote = from.addr;
	key.remote_port = from.port;
	member = find_member(flow,
			     ring->ops->reuseport_pick(ring->q, &shared_of(flow)->share, &key));
	/* NULL: pkt was steered here before members joined or left; any member may have it. */
	return member ? member : flow;
}

static enum drop deliver_to_member(struct ring *ring, struct flow *flow, struct pkt *pkt,
				   nsec_t now)
{
	if (flow_next(flow))
		flow = pick_member(ring, flow, pkt);
	return flow->shared ? shared_of(flow)->deliver(ring, flow, pkt, now)
			    : flow->deliver(ring, flow, pkt, now);
}

void shared_flow_init(struct shared_flow *shared, flow_fn deliver, uint8_t rank, bool spread)
{
	shared->deliver = deliver;
	shared->share = (struct flow_share){.rank = rank, .spread = spread};
	shared->flow.deliver = deliver_to_member;
	shared->flow.shared = true;
}

static int add_shared(struct ring *ring, struct flow *flow)
{
	struct flow_share *share = &shared_of(flow)->share;
	const struct flow *other = flow_lookup(&ring->flows, &flow->key);
	int rc = -EEXIST;

	if (!other || other->shared)
		rc = ring->ops->reuseport_join(ring->q, &flow->key, share);
	if (rc)
		return rc;
	rc = flow_insert(&ring->flows, flow);
	if (rc)
		ring->ops->reuseport_leave(ring->q, &flow->key, share);
	else
		flow->steered = true;
	return rc;
}

static void del_shared(struct ring *ring, struct flow *flow)
{
	flow_remove(&ring->flows, flow);
	if (flow->steered)
		ring->ops->reuseport_leave(ring->q, &flow->key, &shared_of(flow)->share);
	flow->steered = false;
}

/* ---- flows ------------------------------------------------------------------------ */

/*
 * May a 5-tuple have no entry when the port has no room?  Yes, if a shared 3-tuple covers it: its
 * frames arrive here as long as no member joins or leaves.
 */
static bool may_do_without_entry(const struct ring *ring, const struct flow_key *key)
{
	struct flow_key wide = flow_key_widen(key);
	const struct flow *f = flow_key_is_exact(key) ? flow_lookup(&ring->flows, &wide) : NULL;

	return f && f->shared;
}

int ring_flow_add(struct ring *ring, struct flow *flow)
{
	bool is_covered;
	int rc = 0;

	ring_assert_held(ring);
	flow->steered = false;
	if (flow->shared)
		return add_shared(ring, flow);
	is_covered = covered(ring, &flow->key);
	if (!steered_twin(ring, &flow->key) && (!is_covered || wants_entry(ring, flow))) {
		rc = add_entry(ring, flow);
		if (rc && !is_covered && !(rc == -ENOSPC && may_do_without_entry(ring, &flow->key)))
			return rc;
		flow->steered = rc == 0;
	}
	rc = flow_insert(&ring->flows, flow);
	if (rc && flow->steered) {
		ring->ops->del_flow(ring->q, &flow->key);
		flow->steered = false;
	}
	return rc;
}

/* ---- handshakes of a shared 3-tuple -------------------------------------------------- */

int ring_flow_expect(struct ring *ring, const struct flow_key *key)
{
	ring_assert_held(ring);
	return ring->ops->add_flow(ring->q, key);
}

int ring_flow_expect_here(struct ring *ring, const struct flow_key *key)
{
	ring_assert_held(ring);
	return ring->ops->move_flow(ring->q, key);
}

void ring_flow_unexpect(struct ring *ring, const struct flow_key *key)
{
	ring_assert_held(ring);
	if (!flow_lookup(&ring->flows, key))
		ring->ops->del_flow(ring->q, key);
}

bool ring_flow_is_foreign(const struct ring *ring, const struct flow_key *key)
{
	return ring->q && ring->ops->flow_is_foreign(ring->q->port, key);
}

int ring_flow_add_expected(struct ring *ring, struct flow *flow)
{
	int rc = ring_flow_list(ring, flow);

	ring_assert_held(ring);
	flow->steered = rc == 0;
	return rc;
}

/* ---- 5-tuples and the 3-tuples that cover them --------------------------------------- */

/*
 * A 3-tuple is removed: the 5-tuples it covered get entries of their own.  Returns the last
 * error; flows without an entry get no more frames.
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
			rc = add_entry(ring, f);
			f->steered = rc == 0;
			error = rc ? rc : error;
		}
	}
	return error;
}

int ring_flow_share(struct ring *ring, struct shared_flow *shared, uint8_t rank, bool spread)
{
	struct flow *flow = &shared->flow;
	int rc;

	ring_assert_held(ring);
	if (flow->shared)
		return 0;
	if (!flow->steered || flow_key_is_exact(&flow->key) ||
	    flow_lookup(&ring->flows, &flow->key) != flow || flow_next(flow))
		return -EBUSY;
	rc = steer_covered(ring, &flow->key);
	if (rc)
		return rc;
	shared_flow_init(shared, flow->deliver, rank, spread);
	rc = ring->ops->reuseport_join(ring->q, &flow->key, &shared->share);
	if (rc) {
		flow->deliver = shared->deliver;
		flow->shared = false;
	}
	return rc;
}

void ring_flow_del(struct ring *ring, struct flow *flow)
{
	struct flow *next;

	ring_assert_held(ring);
	if (!flow->listed)
		return;
	if (flow->shared) {
		del_shared(ring, flow);
		return;
	}
	flow_remove(&ring->flows, flow);
	if (!flow->steered)
		return;
	flow->steered = false;
	next = flow_lookup(&ring->flows, &flow->key);
	if (next) {
		next->steered = true;
		return;
	}
	if (!flow_key_is_exact(&flow->key))
		steer_covered(ring, &flow->key);
	ring->ops->del_flow(ring->q, &flow->key);
}

bool ring_flow_cease(struct ring *ring, struct flow *flow)
{
	ring_assert_held(ring);
	if (!flow->steered || !flow->listed)
		return false;
	if (flow->shared) {
		ring_flow_stop(ring, flow);
		return true;
	}
	if (flow_lookup(&ring->flows, &flow->key) != flow || flow_next(flow))
		return false;
	if (!flow_key_is_exact(&flow->key))
		steer_covered(ring, &flow->key);
	ring->ops->del_flow(ring->q, &flow->key);
	flow->steered = false;
	return true;
}

struct pkt *ring_flow_drain(struct ring *ring, struct flow *flow)
{
	struct pkt *unchecked = NULL;

	ring_assert_held(ring);
	ring_drain(ring);
	if (flow->listed)
		unchecked = source_take(ring, flow);
	if (!unchecked)
		ring_flow_del(ring, flow);
	return unchecked;
}

void ring_flow_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt)
{
	enum drop reason = DROP_NO_FLOW;

	ring_assert_held(ring);
	pkt->next = NULL;
	if (flow)
		reason = flow->deliver(ring, flow, pkt, ring->now);
	if (reason != DROP_NONE) {
		ring_drop(ring, reason);
		pkt_free(pkt);
	}
}

void ring_flow_drained(struct ring *ring, struct flow *flow, struct pkt *pkts)
{
	struct pkt *next;

	ring_assert_held(ring);
	ring_set_now(ring, clock_now());
	for (; pkts; pkts = next) {
		next = pkts->next;
		ring_flow_deliver(ring, flow->listed ? flow : NULL, pkts);
	}
	ring_flow_del(ring, flow);
}

void ring_flow_kernel_done(struct ring *ring, const struct flow *flow)
{
	ring_assert_held(ring);
	if (ring->q)
		ring->ops->kernel_done(ring->q, &flow->key);
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
	if (flow->shared) { /* it covers no 5-tuples, and the port knows each member */
		flow->steered = false;
		return 0;
	}
	if (first != flow || flow_next(flow))
		return 1;
	if (!flow->steered || flow_key_is_exact(&flow->key)) {
		flow->steered = false;
		return 0;
	}
	/* From here on the flow does not cover new 5-tuples: see covered(). */
	flow->steered = false;
	rc = steer_covered(ring, &flow->key);
	if (rc)
		flow->steered = true;
	return rc;
}

void ring_flow_resteer(struct ring *ring, struct flow *flow)
{
	ring_assert_held(ring);
	flow->steered = flow->shared || wants_entry(ring, flow) || !covered(ring, &flow->key);
}

int ring_flow_steer(struct ring *ring, struct flow *flow)
{
	int rc;

	ring_assert_held(ring);
	if (flow->shared) {
		rc = ring->ops->reuseport_move(ring->q, &flow->key, &shared_of(flow)->share);
		flow->steered = rc == 0;
		return rc;
	}
	if (steered_twin(ring, &flow->key))
		return 0;
	rc = ring->ops->move_flow(ring->q, &flow->key);
	if (rc == -ENOENT) /* no entry: a 3-tuple covered it on the old ring */
		rc = ring->ops->add_flow(ring->q, &flow->key);
	flow->steered = rc == 0;
	return rc;
}

void ring_flow_stop(struct ring *ring, struct flow *flow)
{
	ring_assert_held(ring);
	if (flow->shared && flow->steered)
		ring->ops->reuseport_leave(ring->q, &flow->key, &shared_of(flow)->share);
	flow->steered = flow->steered && !flow->shared;
}

int ring_flow_start(struct ring *ring, struct flow *flow)
{
	int rc;

	ring_assert_held(ring);
	if (!flow->shared || flow->steered || !flow->listed)
		return 0;
	rc = ring->ops->reuseport_join(ring->q, &flow->key, &shared_of(flow)->share);
	flow->steered = rc == 0;
	return rc;
}

int ring_flow_take(struct ring *ring, struct flow *flow)
{
	int rc;

	ring_assert_held(ring);
	rc = ring->ops->take_flow(ring->q, &flow->key);
	flow->steered = rc == 0;
	if (rc)
		return rc;
	rc = flow_insert(&ring->flows, flow);
	if (rc) {
		ring->ops->del_flow(ring->q, &flow->key);
		flow->steered = false;
	}
	return rc;
}

/* While another process takes the flow, the port steers it here, too. */
static bool has_entry_of_its_own(const struct ring *ring, const struct flow *flow)
{
	return flow->steered && ring->q && !ring->q->port->can.shared_steering;
}

bool ring_flow_may_part(const struct ring *ring, const struct flow *flow)
{
	ring_assert_held(ring);
	return !has_entry_of_its_own(ring, flow) || ring->ops->may_part(ring->q, &flow->key);
}

bool ring_flow_part(struct ring *ring, struct flow *flow, struct flow *stand_in)
{
	bool stays = flow->steered && ring->q;

	ring_assert_held(ring);
	ring->parting += stays;
	stand_in->key = flow->key;
	flow_replace(&ring->flows, flow, stand_in);
	flow->steered = false;
	stand_in->steered = false;
	return stays;
}

bool ring_flow_parted(struct ring *ring, const struct flow *stand_in, bool over)
{
	bool parted;

	ring_assert_held(ring);
	/* The latest flow with the key is the first one. */
	parted = flow_lookup(&ring->flows, &stand_in->key) != stand_in ||
		 ring->ops->part_flow(ring->q, &stand_in->key, over);
	ring->parting -= parted;
	return parted;
}

void ring_flow_replace(struct ring *ring, struct flow *stand_in, struct flow *flow)
{
	ring_assert_held(ring);
	flow->steered = stand_in->steered;
	stand_in->steered = false;
	flow_replace(&ring->flows, stand_in, flow);
}
