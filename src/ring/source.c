/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/source.h"

#include <errno.h>

#include "base/busy.h"
#include "base/mem.h"
#include "net/netlink/netlink.h"
#include "ring/progress.h"
#include "ring/ring.h"

#define WAYS SOURCE_WAYS
#define AT_ONCE 2 /* questions that a thread of the program answers itself */

/* Bits of an entry's state. */
#define ACCEPTED SOURCE_ACCEPTED
#define WAY_KNOWN 2u /* HERE and HERE_BOUND say something */
#define HERE 4u
#define HERE_BOUND 8u

struct source_bucket source_table[SOURCE_BUCKETS];

struct entry {
	uint32_t generation;
	uint32_t state;
	struct source_way way;
};

/* Something that a ring wants to know; and what waits for it. */
struct question {
	struct inbox_item item; /* first */
	struct list link;	/* of ring->questions; holder */
	struct ring *ring;
	struct flow_key key;
	int ifindex;
	struct pkt *head, *tail; /* holder */
	unsigned waiting;
	/* who answers, until it is posted back */
	bool known; /* the kernel has answered */
	enum neigh_state neigh;
	uint8_t mac[6];
	struct source_way way;
};

static struct inbox questions;
static bool running;   /* any, atomic */
static bool answering; /* any, atomic: somebody writes the table */

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void read_way(uint64_t what, uint64_t way, struct source_way *to)
{
	to->nexthop = addr_v4((uint32_t)(way >> 32));
	to->mtu = (uint32_t)way;
	to->here = what & HERE;
	to->here_bound = what & HERE_BOUND;
}

/*
 * Any.  Pairs with enter(), which clears what before it changes the rest and sets it last:
 * the rest belongs to what, if what is the same before and after.
 */
static inline bool look_up(int ifindex, uint64_t pair, struct entry *e)
{
	struct source_bucket *b = source_bucket(pair);

	for (unsigned i = 0; i < WAYS; i++) {
		uint64_t what = load(&b->what[i]), way;

		if (load(&b->pair[i]) != pair || (int)((uint32_t)what >> 8) != ifindex)
			continue;
		way = load(&b->way[i]);
		if (load(&b->what[i]) != what)
			return false;
		if (__builtin_expect(!__atomic_load_n(&b->used[i], __ATOMIC_RELAXED), 0))
			__atomic_store_n(&b->used[i], true, __ATOMIC_RELAXED);
		e->generation = (uint32_t)(what >> 32);
		e->state = (uint8_t)what;
		read_way(what, way, &e->way);
		return true;
	}
	return false;
}

/* Its own place, an empty one, or that of a sender that has not come back. */
static unsigned place_in(struct source_bucket *b, int ifindex, uint64_t pair)
{
	static unsigned turn;
	unsigned i;

	for (i = 0; i < WAYS; i++) {
		if (b->pair[i] == pair && (int)((uint32_t)b->what[i] >> 8) == ifindex)
			return i;
	}
	for (i = 0; i < WAYS; i++) {
		if (!b->pair[i] || !__atomic_load_n(&b->used[i], __ATOMIC_RELAXED))
			return i;
	}
	for (i = 0; i < WAYS; i++)
		__atomic_store_n(&b->used[i], false, __ATOMIC_RELAXED);
	return turn++ % WAYS;
}

/* Who has set answering. */
static void enter(int ifindex, uint64_t pair, const struct entry *e)
{
	struct source_bucket *b = source_bucket(pair);
	unsigned i = place_in(b, ifindex, pair);

	store(&b->what[i], 0);
	store(&b->pair[i], pair);
	store(&b->way[i], (uint64_t)addr_v4_of(&e->way.nexthop) << 32 | e->way.mtu);
	__atomic_store_n(&b->used[i], false, __ATOMIC_RELAXED);
	store(&b->what[i],
	      (uint64_t)e->generation << 32 | (uint32_t)ifindex << 8 | (uint8_t)e->state);
}

/* ---- questions (holder) ------------------------------------------------------------ */

static struct question *find_question(struct ring *ring, uint64_t pair, uint8_t proto)
{
	list_for_each(link, &ring->questions) {
		struct question *q = container_of(link, struct question, link);

		if (source_pair(&q->key) == pair && q->key.proto == proto)
			return q;
	}
	return NULL;
}

static void answer_now(void);

/*
 * One new sender is a matter of microseconds: this thread asks the kernel as soon as it holds
 * no ring.  Many are left to the internal thread.
 */
static void post_question(struct ring *ring, struct question *q)
{
	bool first = inbox_empty(&questions);

	inbox_post(&questions, &q->item);
	if (ring->n_questions == 1)
		ring_run_afterwards(answer_now);
	else if (first)
		progress_kick();
}

/* The question about the sender of key, asked already or now; NULL: too many, or no memory. */
static struct question *ask(struct ring *ring, const struct flow_key *key)
{
	struct question *q = find_question(ring, source_pair(key), key->proto);

	if (q || ring->n_questions >= SOURCE_QUESTIONS)
		return q;
	q = mem_zalloc(sizeof(*q));
	if (!q)
		return NULL;
	q->ring = ring;
	q->key = *key;
	q->ifindex = ring->ifindex;
	list_push_back(&ring->questions, &q->link);
	ring->sender.pair = 0; /* what comes may have to wait behind what waits */
	ring->n_questions++;
	ring_get(ring);
	post_question(ring, q);
	return q;
}

static __attribute__((noinline)) enum source_result
wait_for_answer(struct ring *ring, const struct flow_key *key, struct pkt *pkt, enum drop *reason)
{
	struct question *q = ask(ring, key);
	struct pkt *copy;

	*reason = DROP_SOURCE_FULL;
	if (!q || q->waiting == SOURCE_WAITING || ring->n_waiting == SOURCE_WAITING_ALL)
		return SOURCE_DROP;
	copy = pkt_copy(pkt);
	*reason = DROP_NO_MEMORY;
	if (!copy)
		return SOURCE_DROP;
	copy->next = NULL;
	if (q->tail)
		q->tail->next = copy;
	else
		q->head = copy;
	q->tail = copy;
	q->waiting++;
	ring->n_waiting++;
	pkt_free(pkt);
	return SOURCE_KEPT;
}

/* What is kept from before the last change of the network, or says no, is asked for anew. */
static __attribute__((noinline)) enum source_result
check_again(struct ring *ring, const struct flow_key *key, struct pkt *pkt, const struct entry *e,
	    bool for_way, enum drop *reason)
{
	bool fresh = e->generation == netlink_generation();

	if (fresh && !(e->state & ACCEPTED)) {
		*reason = DROP_SOURCE;
		return SOURCE_DROP;
	}
	if (for_way || !(e->state & ACCEPTED))
		return wait_for_answer(ring, key, pkt, reason);
	ask(ring, key); /* no datagram waits because some route has changed */
	return SOURCE_PASS;
}

/* Packets of the sender wait for an answer that has just come: this one does not overtake them. */
static __attribute__((noinline)) bool must_queue(struct ring *ring, const struct flow_key *key)
{
	const struct question *q = find_question(ring, source_pair(key), key->proto);

	return q && q->waiting;
}

enum source_result source_check(struct ring *ring, const struct flow_key *key, struct pkt *pkt,
				struct source_way *way, enum drop *reason)
{
	struct entry e;

	if (__builtin_expect(!look_up(ring->ifindex, source_pair(key), &e), 0)) {
		if (__atomic_load_n(&running, __ATOMIC_ACQUIRE))
			return wait_for_answer(ring, key, pkt, reason);
		if (way)
			*way = (struct source_way){.here = false};
		return SOURCE_PASS;
	}
	if (__builtin_expect(!(e.state & ACCEPTED) || (way && !(e.state & WAY_KNOWN)) ||
				     e.generation != netlink_generation(),
			     0)) {
		enum source_result result = check_again(ring, key, pkt, &e, way != NULL, reason);

		if (result != SOURCE_PASS)
			return result;
	}
	if (__builtin_expect(ring->n_questions, 0) && must_queue(ring, key))
		return wait_for_answer(ring, key, pkt, reason);
	if (way)
		*way = e.way;
	return SOURCE_PASS;
}

void source_resolve(struct ring *ring, const struct flow_key *key)
{
	if (__atomic_load_n(&running, __ATOMIC_ACQUIRE))
		ask(ring, key);
}

/* holder: what waited is received once more; senders that are accepted have an entry now. */
static void answered_run(struct ring *ring, struct inbox_item *item)
{
	struct question *q = container_of(item, struct question, item);
	struct adj *adj;
	struct pkt *pkt, *next;

	list_remove(&q->link);
	ring->n_questions--;
	ring->n_waiting -= q->waiting;
	if (q->neigh == NEIGH_REACHABLE && ring->q) {
		adj = ring_adj_for_source(ring, &q->way.nexthop);
		if (adj)
			ring_adj_update(ring, adj, NEIGH_REACHABLE, q->mac);
	}
	for (pkt = q->head; pkt; pkt = next) {
		next = pkt->next;
		if (q->known && ring->q) {
			ring_receive(ring, pkt);
		} else {
			ring_drop(ring, DROP_SOURCE);
			pkt_free(pkt);
		}
	}
	ring_put(ring);
	mem_free(q);
}

/* ---- answers (any, no ring held) ------------------------------------------------------------ */

/* Does the way lead by the interface? */
static bool find_way(const struct question *q, int oif, struct source_way *way)
{
	struct route_query query = {.dst = q->key.remote, .src = q->key.local, .oif = oif};
	struct route route;

	if (route_get(&query, &route) || route.type != ROUTE_UNICAST || route.ifindex != q->ifindex)
		return false;
	way->nexthop = addr_is_any(&route.gateway) ? q->key.remote : route.gateway;
	way->mtu = route.mtu;
	return true;
}

/* The next hop's link address; where it is not known the kernel is at it, and tells later. */
static enum neigh_state find_neighbour(struct question *q)
{
	enum neigh_state state = neigh_get(q->ifindex, &q->way.nexthop, q->mac);

	if (state == NEIGH_REACHABLE)
		return state;
	/* Its entry is made first, so that the ring misses no answer. */
	ring_neigh_changed(q->ring, &q->way.nexthop, NEIGH_UNKNOWN, NULL);
	if (neigh_use(q->ifindex, &q->way.nexthop) == -ENOBUFS)
		ring_neigh_changed(q->ring, &q->way.nexthop, NEIGH_FAILED, NULL);
	return neigh_get(q->ifindex, &q->way.nexthop, q->mac);
}

static void answer(struct question *q)
{
	/* First: a change in between makes what we find stale, not wrong. */
	struct entry e = {.generation = netlink_generation()};
	int accepts = route_accepts(q->ifindex, &q->key.local, &q->key.remote);

	q->known = accepts >= 0;
	if (!q->known)
		return;
	if (accepts)
		e.state |= ACCEPTED;
	if (accepts && q->key.proto == IPPROTO_TCP) {
		e.state |= WAY_KNOWN;
		if (find_way(q, 0, &e.way))
			e.state |= HERE | HERE_BOUND;
		else if (find_way(q, q->ifindex, &e.way))
			e.state |= HERE_BOUND;
	}
	enter(q->ifindex, source_pair(&q->key), &e);
	q->way = e.way;
	if (e.state & HERE_BOUND)
		q->neigh = find_neighbour(q);
}

static void answer_and_return(struct question *q)
{
	answer(q);
	q->item.run = answered_run;
	ring_post(q->ring, &q->item);
}

/* So many at most; whoever finds another thread at it leaves all to the internal one. */
static void answer_some(unsigned most)
{
	struct inbox_item *item;

	if (inbox_empty(&questions))
		return;
	if (__atomic_exchange_n(&answering, true, __ATOMIC_ACQUIRE)) {
		progress_kick();
		return;
	}
	item = inbox_take(&questions);
	while (item) {
		struct inbox_item *next = (struct inbox_item *)(void *)item->link.next;

		if (most) {
			most--;
			answer_and_return(container_of(item, struct question, item));
		} else {
			inbox_post(&questions, item);
		}
		item = next;
	}
	__atomic_store_n(&answering, false, __ATOMIC_RELEASE);
	if (!inbox_empty(&questions))
		progress_kick();
}

/* A thread that holds no ring any more; a signal handler finds it busy. */
static void answer_now(void)
{
	bool began = busy_begin();

	answer_some(AT_ONCE);
	busy_end(began);
}

void source_answer_all(void)
{
	answer_some(UINT32_MAX);
}

void source_start(void)
{
	__atomic_store_n(&running, true, __ATOMIC_RELEASE);
}

void source_stop(void)
{
	__atomic_store_n(&running, false, __ATOMIC_RELEASE);
}

void source_forget(void)
{
	source_stop();
	inbox_init(&questions);
	answering = false;
}
