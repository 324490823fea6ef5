/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows of a ring, and what of them the port is told. */
#include <errno.h>

#include "ring/ring.h"

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
