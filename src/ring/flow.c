/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/flow.h"

#include <errno.h>

#include "base/mem.h"

#define FLOW_BUCKETS_MIN 64u

void flow_table_init(struct flow_table *table)
{
	memset(table, 0, sizeof(*table));
}

void flow_table_fini(struct flow_table *table)
{
	mem_free(table->buckets);
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

int flow_insert(struct flow_table *table, struct flow *flow)
{
	struct flow **to;

	if (!table->buckets || table->count > table->mask) {
		int rc = table_grow(table);

		if (rc)
			return rc;
	}
	flow->hash = flow_key_hash(&flow->key);
	/* In front: of flows with one key, the latest receives unicast frames. */
	to = &table->buckets[flow->hash & table->mask];
	flow->next = *to;
	*to = flow;
	flow->listed = true;
	table->count++;
	table->exact += flow_key_is_exact(&flow->key);
	table->recent = NULL;
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
	table->exact -= flow_key_is_exact(&flow->key);
	table->recent = NULL;
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
	table->recent = NULL;
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
	if (f) {
		/* Only a 5-tuple may be remembered: a 3-tuple could hide one. */
		table->recent = f;
		return f;
	}
	three = flow_key_widen(key);
	return flow_lookup(table, &three);
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
