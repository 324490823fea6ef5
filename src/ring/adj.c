/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/adj.h"

#include <string.h>

#include "base/mem.h"

void adj_table_init(struct adj_table *table)
{
	for (int i = 0; i < ADJ_BUCKETS; i++)
		list_init(&table->buckets[i]);
	table->count = 0;
}

static struct list *bucket_of(struct adj_table *table, const struct inaddr *addr)
{
	uint64_t h = (addr->q[0] ^ addr->q[1]) * 0x9e3779b97f4a7c15ull;

	return &table->buckets[h >> 58];
}

_Static_assert(ADJ_BUCKETS == 64, "the top six bits choose a bucket");

static void free_packets(struct pkt *pkt)
{
	while (pkt) {
		struct pkt *next = pkt->next;

		pkt_free(pkt);
		pkt = next;
	}
}

void adj_table_fini(struct adj_table *table)
{
	for (int i = 0; i < ADJ_BUCKETS; i++) {
		struct list *link;

		while ((link = list_pop_front(&table->buckets[i]))) {
			struct adj *adj = container_of(link, struct adj, link);

			while (list_pop_front(&adj->users))
				;
			free_packets(adj->head);
			mem_free(adj);
		}
	}
	table->count = 0;
}

void adj_table_shrink(struct adj_table *table)
{
	for (int i = 0; i < ADJ_BUCKETS; i++) {
		list_for_each_safe(link, &table->buckets[i]) {
			struct adj *adj = container_of(link, struct adj, link);

			if (adj->pending || adj->used || !list_empty(&adj->users))
				continue;
			list_remove(&adj->link);
			mem_free(adj);
			table->count--;
		}
	}
}

struct adj *adj_find(struct adj_table *table, const struct inaddr *addr)
{
	list_for_each(link, bucket_of(table, addr)) {
		struct adj *adj = container_of(link, struct adj, link);

		if (addr_eq(&adj->addr, addr))
			return adj;
	}
	return NULL;
}

struct adj *adj_get(struct adj_table *table, const struct inaddr *addr)
{
	struct adj *adj = adj_find(table, addr);

	if (adj)
		return adj;
	adj = mem_zalloc(sizeof(*adj));
	if (!adj)
		return NULL;
	adj->addr = *addr;
	list_init(&adj->users);
	list_push_front(bucket_of(table, addr), &adj->link);
	table->count++;
	return adj;
}

void adj_user_add(struct adj *adj, struct adj_user *user)
{
	list_push_back(&adj->users, &user->link);
}

void adj_user_remove(struct adj_user *user)
{
	list_remove(&user->link);
}

bool adj_wait(struct adj *adj, struct pkt *pkt)
{
	if (adj->pending >= ADJ_PENDING_MAX)
		return false;
	pkt_append(&adj->head, &adj->tail, pkt);
	adj->pending++;
	return true;
}

struct pkt *adj_update(struct adj *adj, enum neigh_state state, const uint8_t mac[6])
{
	struct pkt *waiting = NULL;

	adj->state = state;
	if (state == NEIGH_REACHABLE)
		memcpy(adj->mac, mac, sizeof(adj->mac));
	if (state != NEIGH_UNKNOWN) {
		waiting = adj->head;
		adj->head = NULL;
		adj->pending = 0;
	}
	if (state == NEIGH_REACHABLE) {
		for (struct pkt *pkt = waiting; pkt; pkt = pkt->next)
			memcpy(pkt->frame, mac, sizeof(adj->mac));
	}
	list_for_each_safe(link, &adj->users) {
		struct adj_user *user = container_of(link, struct adj_user, link);

		user->changed(user, adj);
	}
	return waiting;
}
