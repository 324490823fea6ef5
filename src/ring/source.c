/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/source.h"

#include <errno.h>

#include "base/delay.h"
#include "base/busy.h"
#include "base/mem.h"
#include "net/netlink/netlink.h"
#include "ring/progress.h"
#include "ring/ring.h"
#include "ring/source6.h"

#define WAYS SOURCE_WAYS
#define SOURCE_OLD 64 /* changes of the network since the answer: the kernel is asked again */
#define AT_ONCE 2     /* most questions that a thread of the program answers itself */

/* Bits of an entry's state. */
#define ACCEPTED SOURCE_ACCEPTED
#define PATH_KNOWN SOURCE_PATH_KNOWN
#define HERE SOURCE_HERE
#define HERE_BOUND SOURCE_HERE_BOUND

struct source_bucket source_table[SOURCE_BUCKETS];
/* source_pack_metrics() of each path: words of the buckets, which only connections read. */
static uint64_t source_metrics[SOURCE_BUCKETS][WAYS];

/* A ring's question about a sender, and the packets that wait for the answer. */
struct question {
	struct inbox_item item; /* first; in `questions`, then in the inbox of the ring */
	struct list link;	/* of ring->questions; holder */
	struct ring *ring;
	struct flow_key key;
	int ifindex;
	struct pkt *head, *tail; /* holder */
	unsigned waiting;
	/* the thread that answers, until it posts the item to the ring */
	bool known; /* the kernel has answered */
	enum neigh_state neigh;
	uint8_t mac[6];
	struct source_path path;
};

static struct inbox questions; /* of all rings; any posts, the thread with `answering` takes */
static bool running;	       /* atomic: source_start(), source_stop() write, any reads */
static bool answering;	       /* atomic: a thread that answers sets it, and writes the table */

/* acquire: pairs with store_word() in source_enter() */
static uint64_t load_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* release: pairs with load_word() in look_up() and the loads in source_is_known() */
static void store_word(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint64_t *metrics_of(const struct source_bucket *b, unsigned way)
{
	return &source_metrics[b - source_table][way];
}

/*
 * any: false: the table has no entry for the sender.  Pairs with source_enter(): the words belong
 * together if the bucket's version is the same, and even, before and after they are read.
 */
static inline bool look_up(int ifindex, uint64_t pair, struct source_entry *e)
{
	struct source_bucket *b = source_bucket(pair);
	/* acquire: pairs with the last store in source_enter() */
	uint32_t version = __atomic_load_n(&b->version, __ATOMIC_ACQUIRE);

	for (unsigned i = 0; i < WAYS; i++) {
		uint64_t what = load_word(&b->what[i]), path, metrics;

		if (load_word(&b->pair[i]) != pair || (int)((uint32_t)what >> 8) != ifindex)
			continue;
		delay_at(DELAY_SOURCE_READ);
		path = load_word(&b->path[i]);
		metrics = load_word(metrics_of(b, i));
		if (version & 1 || __atomic_load_n(&b->version, __ATOMIC_RELAXED) != version)
			return false;
		if (__builtin_expect(!__atomic_load_n(&b->used[i], __ATOMIC_RELAXED), 0))
			__atomic_store_n(&b->used[i], true, __ATOMIC_RELAXED);
		e->generation = (uint32_t)(what >> 32);
		e->state = (uint8_t)what;
		e->path.nexthop = addr_v4((uint32_t)(path >> 32));
		source_unpack_path(&e->path, (uint32_t)path, metrics);
		source_read_state(e);
		return true;
	}
	return false;
}

static inline bool look_up_any(int ifindex, const struct flow_key *key, struct source_entry *e)
{
	return addr_is_v4(&key->local) ? look_up(ifindex, source_pair(key), e)
				       : source6_look_up(ifindex, key, e);
}

/* answering: the sender's own place, an empty one, or that of a sender that has not come back. */
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

void source_enter(int ifindex, uint64_t pair, const struct source_entry *e)
{
	struct source_bucket *b = source_bucket(pair);
	unsigned i = place_in(b, ifindex, pair);
	uint32_t version = b->version;

	/* The releases below order it first. */
	__atomic_store_n(&b->version, version + 1, __ATOMIC_RELAXED);
	store_word(&b->what[i], 0);
	store_word(&b->pair[i], pair);
	store_word(&b->path[i],
		   (uint64_t)addr_v4_of(&e->path.nexthop) << 32 | source_pack_path(&e->path));
	store_word(metrics_of(b, i), source_pack_metrics(&e->path.metrics));
	__atomic_store_n(&b->used[i], false, __ATOMIC_RELAXED);
	store_word(&b->what[i],
		   (uint64_t)e->generation << 32 | (uint32_t)ifindex << 8 | (uint8_t)e->state);
	/* release: pairs with look_up() */
	__atomic_store_n(&b->version, version + 2, __ATOMIC_RELEASE);
}

/* ---- questions (holder) ------------------------------------------------------------ */

static struct question *find_question(struct ring *ring, const struct flow_key *key)
{
	list_for_each(link, &ring->questions) {
		struct question *q = container_of(link, struct question, link);

		if (addr_eq(&q->key.remote, &key->remote) && addr_eq(&q->key.local, &key->local) &&
		    q->key.proto == key->proto)
			return q;
	}
	return NULL;
}

static void answer_now(void);

/*
 * The kernel answers one question within microseconds, so this thread asks as soon as it holds
 * no ring.  More questions are left to the internal thread.
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

/* The open question about key's sender, made if there is none; NULL: too many, or no memory. */
static struct question *ask(struct ring *ring, const struct flow_key *key)
{
	struct question *q = find_question(ring, key);

	if (q || ring->n_questions >= SOURCE_QUESTIONS)
		return q;
	q = mem_zalloc(sizeof(*q));
	if (!q)
		return NULL;
	q->ring = ring;
	q->key = *key;
	q->ifindex = ring->ifindex;
	list_push_back(&ring->questions, &q->link);
	ring->sender.pair = 0; /* the next packets must find the question, and wait in order */
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
	pkt_append(&q->head, &q->tail, copy);
	q->waiting++;
	ring->n_waiting++;
	pkt_free(pkt);
	return SOURCE_KEPT;
}

/*
 * No change since concerns the entry.  An old entry is asked for once more: many changes take long
 * to look through.
 */
static bool is_current(struct ring *ring, const struct flow_key *key, const struct source_entry *e)
{
	uint32_t latest = netlink_generation();

	if (latest == e->generation)
		return true;
	if (!netlink_still(e->generation, &key->local) ||
	    !netlink_still(e->generation, &key->remote))
		return false;
	if (latest - e->generation > SOURCE_OLD)
		ask(ring, key);
	return true;
}

/* The entry refuses the sender, is from before the last change of the network, or has no reverse path. */
static __attribute__((noinline)) enum source_result
check_again(struct ring *ring, const struct flow_key *key, struct pkt *pkt,
	    const struct source_entry *e, bool for_path, enum drop *reason)
{
	uint32_t now = netlink_generation();
	bool fresh = is_current(ring, key, e);

	if (fresh && !(e->state & ACCEPTED)) {
		*reason = DROP_SOURCE;
		return SOURCE_DROP;
	}
	if (fresh && !for_path && !ring->n_questions) {
		ring->sender.pair = source_pair(key);
		ring->sender.generation = now;
	}
	if (fresh && (!for_path || (e->state & PATH_KNOWN)))
		return SOURCE_PASS;
	if (for_path || !(e->state & ACCEPTED))
		return wait_for_answer(ring, key, pkt, reason);
	ask(ring,
	    key); /* meanwhile the old answer counts: no datagram waits after a route change */
	return SOURCE_PASS;
}

/* Do packets of the sender still wait?  Then this one must not overtake them. */
static __attribute__((noinline)) bool must_queue(struct ring *ring, const struct flow_key *key)
{
	const struct question *q = find_question(ring, key);

	return q && q->waiting;
}

enum source_result source_check(struct ring *ring, const struct flow_key *key, struct pkt *pkt,
				struct source_path *path, enum drop *reason)
{
	struct source_entry e;

	if (__builtin_expect(!look_up_any(ring->ifindex, key, &e), 0)) {
		/* acquire: pairs with source_start() */
		if (__atomic_load_n(&running, __ATOMIC_ACQUIRE))
			return wait_for_answer(ring, key, pkt, reason);
		if (path)
			*path = (struct source_path){.here = false};
		return SOURCE_PASS;
	}
	if (__builtin_expect(!(e.state & ACCEPTED) || (path && !(e.state & PATH_KNOWN)) ||
				     e.generation != netlink_generation(),
			     0)) {
		enum source_result result = check_again(ring, key, pkt, &e, path != NULL, reason);

		if (result != SOURCE_PASS)
			return result;
	}
	if (__builtin_expect(ring->n_questions, 0) && must_queue(ring, key))
		return wait_for_answer(ring, key, pkt, reason);
	if (path)
		*path = e.path;
	return SOURCE_PASS;
}

void source_resolve(struct ring *ring, const struct flow_key *key)
{
	/* acquire: pairs with source_start() */
	if (__atomic_load_n(&running, __ATOMIC_ACQUIRE))
		ask(ring, key);
}

static bool is_for(struct ring *ring, struct pkt *pkt, const struct flow *flow)
{
	struct flow_key key;

	return frame_parse(pkt, ring->parse_flags, &key) == DROP_NONE &&
	       flow_find_slow(&ring->flows, &key) == flow;
}

struct pkt *source_take(struct ring *ring, const struct flow *flow)
{
	struct pkt *taken = NULL, *last = NULL, *pkt, *next;

	ring_assert_held(ring);
	if (!ring->n_waiting || addr_is_multicast(&flow->key.local) ||
	    (flow->shared && flow_next(flow)))
		return NULL;
	list_for_each(link, &ring->questions) {
		struct question *q = container_of(link, struct question, link);

		pkt = q->head;
		q->head = NULL;
		for (; pkt; pkt = next) {
			next = pkt->next;
			if (!is_for(ring, pkt, flow)) {
				pkt_append(&q->head, &q->tail, pkt);
				continue;
			}
			pkt_append(&taken, &last, pkt);
			q->waiting--;
			ring->n_waiting--;
		}
	}
	return taken;
}

/* holder: receives the packets that waited again; the sender has an entry in the table now. */
static void answered_run(struct ring *ring, struct inbox_item *item)
{
	struct question *q = container_of(item, struct question, item);
	struct adj *adj;
	struct pkt *pkt, *next;

	list_remove(&q->link);
	ring->n_questions--;
	ring->n_waiting -= q->waiting;
	if (q->neigh == NEIGH_REACHABLE && ring->q) {
		adj = ring_adj_for_source(ring, &q->path.nexthop);
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

/* Does the route to the sender, by interface oif (0: any), leave by the interface it came by? */
static bool find_path(const struct question *q, int oif, struct source_path *path)
{
	struct route_query query = {.dst = q->key.remote, .src = q->key.local, .oif = oif};
	struct route route;

	if (route_get(&query, &route) || route.type != ROUTE_UNICAST || route.ifindex != q->ifindex)
		return false;
	path->nexthop = addr_is_any(&route.gateway) ? q->key.remote : route.gateway;
	path->mtu = route.mtu;
	path->metrics = route.metrics;
	return true;
}

/* The link address of the next hop.  If the kernel has to resolve it, netlink tells the result. */
static enum neigh_state find_neighbour(struct question *q)
{
	enum neigh_state state = neigh_get(q->ifindex, &q->path.nexthop, q->mac);

	if (state == NEIGH_REACHABLE)
		return state;
	/* First make the ring's adjacency, so that the ring does not miss the answer. */
	ring_neigh_changed(q->ring, &q->path.nexthop, NEIGH_UNKNOWN, NULL);
	if (neigh_use(q->ifindex, &q->path.nexthop) == -ENOBUFS)
		ring_neigh_changed(q->ring, &q->path.nexthop, NEIGH_FAILED, NULL);
	return neigh_get(q->ifindex, &q->path.nexthop, q->mac);
}

static void answer(struct question *q)
{
	/* Read first: a change in between makes the entry out of date, not wrong. */
	struct source_entry e = {.generation = netlink_generation()};
	bool v4 = addr_is_v4(&q->key.local);
	int accepts = v4 ? route_accepts(q->ifindex, &q->key.local, &q->key.remote) : 1;
	/* A link-local address is that of a host on the link that it was received by. */
	int oif = addr_is_link_local6(&q->key.remote) ? q->ifindex : 0;

	q->known = accepts >= 0;
	if (!q->known)
		return;
	if (accepts)
		e.state |= ACCEPTED;
	if (accepts && q->key.proto == IPPROTO_TCP) {
		e.state |= PATH_KNOWN;
		if (find_path(q, oif, &e.path))
			e.state |= HERE | HERE_BOUND;
		else if (find_path(q, q->ifindex, &e.path))
			e.state |= HERE_BOUND;
	}
	if (v4)
		source_enter(q->ifindex, source_pair(&q->key), &e);
	else
		source6_enter(q->ifindex, &q->key, &e);
	q->path = e.path;
	if (e.state & HERE_BOUND)
		q->neigh = find_neighbour(q);
}

struct pkt *source_ask(const struct ring *ring, struct pkt *pkts, unsigned *refused)
{
	struct pkt *kept = NULL, *last = NULL, *next;
	struct flow_key key, asked = {.proto = 0};
	bool accepts = false;

	*refused = 0;
	for (; pkts; pkts = next) {
		next = pkts->next;
		frame_parse(pkts, ring->parse_flags, &key);
		if (!asked.proto || !addr_eq(&key.remote, &asked.remote)) {
			accepts = route_accepts(ring->ifindex, &key.local, &key.remote) > 0;
			asked = key;
		}
		if (accepts) {
			pkt_append(&kept, &last, pkts);
		} else {
			pkt_free(pkts);
			++*refused;
		}
	}
	return kept;
}

static void answer_and_return(struct question *q)
{
	answer(q);
	q->item.run = answered_run;
	ring_post(q->ring, &q->item);
}

/*
 * Answers up to `most` questions; leaves the others, or all while another thread answers, to the
 * internal thread.
 */
static void answer_some(unsigned most)
{
	struct inbox_item *item;

	if (inbox_empty(&questions))
		return;
	/* acquire: pairs with the store of false below: one thread at a time writes the table */
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
	/* release: pairs with the exchange above */
	__atomic_store_n(&answering, false, __ATOMIC_RELEASE);
	if (!inbox_empty(&questions))
		progress_kick();
}

/* See ring_run_afterwards(): the thread holds no ring.  Busy: the calls of handlers are refused. */
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
	/* release: pairs with the loads in source_check() and source_resolve() */
	__atomic_store_n(&running, true, __ATOMIC_RELEASE);
}

void source_stop(void)
{
	/* release: pairs with the loads in source_check() and source_resolve() */
	__atomic_store_n(&running, false, __ATOMIC_RELEASE);
}

void source_forget(void)
{
	source_stop();
	inbox_init(&questions);
	answering = false;
}
