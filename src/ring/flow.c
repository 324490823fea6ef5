/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/flow.h"

#include <errno.h>

#include "base/mem.h"

#define FLOW_BUCKETS_MIN 64u
#define TAGGED_MIN 64u
#define TAGGED_MAX 65536u /* slots: struct flow has 16 bits for one */

void flow_table_init(struct flow_table *table)
{
	memset(table, 0, sizeof(*table));
}

void flow_table_fini(struct flow_table *table)
{
	mem_free(table->buckets);
	mem_free(table->tagged);
	flow_table_init(table);
}

/* Doubles the table.  Without memory an existing table stays as it was, which is no error. */
static int table_grow(struct flow_table *table)
{
	unsigned n = table->buckets ? 2 * (table->mask + 1) : FLOW_BUCKETS_MIN;
	struct flow **buckets = mem_zalloc(n * sizeof(struct flow *));

	if (!buckets)
		return table->buckets ? 0 : -ENOMEM;
	for (unsigned i = 0; table->buckets && i <= table->mask; i++) {
		for (struct flow *f = table->buckets[i], *next; f; f = next) {
			struct flow **to = &buckets[f->hash & (n - 1)];

			next = f->next;
			/* Append: flows of one key keep their order. */
			while (*to)
				to = &(*to)->next;
			f->next = NULL;
			*to = f;
		}
	}
	mem_free(table->buckets);
	table->buckets = buckets;
	table->mask = n - 1;
	return 0;
}

/* ---- tags ------------------------------------------------------------------------- */

static void slot_clear(struct flow_table *table, struct flow *flow)
{
	if (flow->slot)
		table->tagged[flow->slot] = NULL;
	flow->slot = 0;
}

/* The slots of the tags so far stay what they are.  False: no memory. */
static bool slots_grow(struct flow_table *table, uint32_t tag)
{
	unsigned old = table->tagged ? table->tagged_mask + 1 : 0, n = old ? old : TAGGED_MIN;
	struct flow **tagged;

	while (n <= tag && n < TAGGED_MAX)
		n *= 2;
	if (n == old)
		return true;
	tagged = mem_zalloc(n * sizeof(struct flow *));
	if (!tagged)
		return false;
	if (old)
		memcpy(tagged, table->tagged, old * sizeof(struct flow *));
	mem_free(table->tagged);
	table->tagged = tagged;
	table->tagged_mask = n - 1;
	return true;
}

/*
 * Frames with this tag are the flow's.  Not those of listeners, which also bring the frames of
 * connections, nor of several receivers.
 */
static void slot_set(struct flow_table *table, struct flow *flow, uint32_t tag)
{
	unsigned slot;

	if (flow->shared || (!flow_key_is_exact(&flow->key) && flow->key.proto != IPPROTO_UDP) ||
	    !slots_grow(table, tag))
		return;
	slot = tag & table->tagged_mask;
	if (!slot)
		return;
	if (table->tagged[slot])
		table->tagged[slot]->slot = 0;
	slot_clear(table, flow);
	table->tagged[slot] = flow;
	flow->slot = (uint16_t)slot;
}

/* Is it the first flow that the key finds?  A 3-tuple is, as long as no 5-tuple could hide it. */
static inline bool is_found_by(const struct flow_table *table, const struct flow *flow,
			       const struct flow_key *key)
{
	struct flow_key three;

	if (flow_key_is_exact(&flow->key))
		return flow_key_eq(&flow->key, key);
	three = flow_key_widen(key);
	return !table->exact_udp && flow_key_eq(&flow->key, &three);
}

struct flow *flow_find_tagged(struct flow_table *table, const struct flow_key *key, uint32_t tag)
{
	struct flow *f = table->tagged ? table->tagged[tag & table->tagged_mask] : NULL;

	if (f && is_found_by(table, f, key))
		return f;
	f = flow_find_slow(table, key);
	if (f && tag)
		slot_set(table, f, tag);
	return f;
}

/* ---- the recent flow ---------------------------------------------------------------- */

static void forget(struct flow_table *table)
{
	table->recent.flow = NULL;
	table->recent.is_predicted = false;
}

static struct flow *remember(struct flow_table *table, struct flow *flow,
			     const struct flow_key *key)
{
	table->recent.flow = flow;
	if (flow_key_is_exact(&flow->key)) {
		table->recent.key = &flow->key;
	} else {
		table->recent.exact = *key;
		table->recent.key = &table->recent.exact;
	}
	table->recent.again = false;
	table->recent.is_predicted = false;
	return flow;
}

struct flow *flow_find_again(struct flow_table *table)
{
	table->recent.again = true;
	table->recent.is_predicted = frame_predict(&table->recent.prediction, table->recent.key);
	table->recent.goes_straight = flow_goes_straight(table->recent.flow);
	return table->recent.flow;
}

/* ---- flows ------------------------------------------------------------------------ */

static void count_exact(struct flow_table *table, const struct flow *flow, int n)
{
	if (!flow_key_is_exact(&flow->key))
		return;
	table->exact += (unsigned)n;
	if (flow->key.proto == IPPROTO_UDP)
		table->exact_udp += (unsigned)n;
}

int flow_insert(struct flow_table *table, struct flow *flow)
{
	struct flow **to, *hidden;

	if (!table->buckets || table->count > table->mask) {
		int rc = table_grow(table);

		if (rc)
			return rc;
	}
	flow->hash = flow_key_hash(&flow->key);
	flow->slot = 0;
	hidden = table->tagged ? flow_lookup(table, &flow->key) : NULL;
	if (hidden)
		slot_clear(table, hidden);
	/* In front: of flows with one key, the latest receives unicast frames. */
	to = &table->buckets[flow->hash & table->mask];
	flow->next = *to;
	*to = flow;
	flow->listed = true;
	table->count++;
	count_exact(table, flow, 1);
	forget(table);
	return 0;
}

void flow_remove(struct flow_table *table, struct flow *flow)
{
	struct flow **at;

	if (!flow->listed)
		return;
	at = &table->buckets[flow->hash & table->mask];
	while (*at != flow)
		at = &(*at)->next;
	*at = flow->next;
	flow->listed = false;
	table->count--;
	count_exact(table, flow, -1);
	slot_clear(table, flow);
	forget(table);
}

void flow_replace(struct flow_table *table, struct flow *listed, struct flow *flow)
{
	struct flow **at = &table->buckets[listed->hash & table->mask];

	while (*at != listed)
		at = &(*at)->next;
	flow->key = listed->key;
	flow->hash = listed->hash;
	flow->next = listed->next;
	flow->listed = true;
	*at = flow;
	listed->listed = false;
	flow->slot = listed->slot;
	listed->slot = 0;
	if (flow->slot)
		table->tagged[flow->slot] = flow;
	forget(table);
}

struct flow *flow_lookup(const struct flow_table *table, const struct flow_key *key)
{
	uint32_t hash = flow_key_hash(key);
	struct flow *f;

	if (!table->buckets)
		return NULL;
	f = table->buckets[hash & table->mask];

	while (f && !(f->hash == hash && flow_key_eq(&f->key, key)))
		f = f->next;
	return f;
}

struct flow *flow_find_slow(struct flow_table *table, const struct flow_key *key)
{
	struct flow_key three;
	struct flow *f = NULL;

	if (!table->count)
		return NULL;
	if (table->exact)
		f = flow_lookup(table, key);
	if (!f) {
		three = flow_key_widen(key);
		f = flow_lookup(table, &three);
	}
	return f ? remember(table, f, key) : NULL;
}

struct flow *flow_next(const struct flow *flow)
{
	struct flow *f = flow->next;

	while (f && !(f->hash == flow->hash && flow_key_eq(&f->key, &flow->key)))
		f = f->next;
	return f;
}

bool flow_table_walk(struct flow_table *table, unsigned *bucket,
		     bool (*fn)(struct flow *flow, void *arg), void *arg)
{
	bool more = true;

	if (!table->buckets)
		return false;
	while (more && *bucket <= table->mask) {
		for (struct flow *f = table->buckets[*bucket]; f; f = f->next)
			more &= fn(f, arg);
		++*bucket;
	}
	return *bucket <= table->mask;
}
