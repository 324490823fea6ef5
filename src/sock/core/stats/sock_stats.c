/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/stats/sock_stats.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "sock/core/kind.h"
#include "sock/core/rules/rules.h"
#include "sock/core/stats/sock_record.h"

#define REFRESH_ANYWAY (60 * NSEC_PER_SEC) /* so that 32-bit counts of connections do not wrap */

_Static_assert(DROP_COUNT <= STATS_DROPS, "each reason has a place in struct stats_ring");

/* Who has a slot.  control lock to write so and gen, any to read, atomic; seen: holder. */
struct place {
	struct inet_sock *so; /* NULL: nobody */
	uint32_t gen;
	struct sock_stats_seen seen;
	struct rules_decision rule; /* control lock */
};

static struct place *places; /* [slots + 1]; control lock to write, before the first slot is used */
static unsigned n_places;

/* ---- storing (holder) --------------------------------------------------------------- */

static void publish_sock(struct inet_sock *so, struct stats_sock *slot, struct place *place)
{
	const struct ring *ring = sock_home(so);

	__atomic_store_n(&slot->fd, sock_twin(&so->sk), __ATOMIC_RELAXED);
	slot->flags =
		(uint16_t)((__atomic_load_n(&so->sk.nonblock, __ATOMIC_RELAXED) ? STATS_NONBLOCK
										: 0u) |
			   (so->opt->mc_loop ? STATS_MC_LOOP : 0u) |
			   (so->family == AF_INET6 ? STATS_INET6 : 0u) |
			   (sock_is_exported(&so->sk) ? STATS_EXPORTED : 0u));
	slot->local_addr = sock_stats_addr(&so->local.addr);
	slot->local_port = so->local.port;
	slot->remote_addr = sock_stats_remote(so);
	slot->remote_port = so->remote.port;
	slot->mc_addr = addr_is_any(&so->opt->mc_addr) ? 0 : addr_v4_of(&so->opt->mc_addr);
	slot->ring = ring->id;
	slot->interface[0] = '\0';
	if (ring->q)
		snprintf(slot->interface, sizeof(slot->interface), "%s", ring->q->port->name);
	sock_kind_of(so)->publish(so, slot, &place->seen);
}

static void zero_sock(unsigned number)
{
	struct stats_sock *slot = stats_slot(number);
	struct stats_latency *latency = stats_latency(number);

	if (latency)
		memset(latency, 0, sizeof(*latency));
	/* The counters come first; other threads add to the last of them. */
	for (uint64_t *c = &slot->rx_packets; c <= &slot->retransmits; c++)
		stats_set(c, 0);
}

/* The slot of entry i if its socket lives on this ring. */
static struct inet_sock *sock_here(const struct ring *ring, unsigned i)
{
	/* Pairs with sock_stats_begin(). */
	struct inet_sock *so = __atomic_load_n(&places[i].so, __ATOMIC_ACQUIRE);
	struct sock_ref ref = {so ? &so->sk : NULL,
			       __atomic_load_n(&places[i].gen, __ATOMIC_RELAXED)};

	return so && sock_at_home(ref, ring) && so->stats_slot == i ? so : NULL;
}

static void publish_ring(struct ring *ring, struct stats_ring *slot)
{
	const struct ring_stats *stats = &ring->stats;

	slot->open = ring->q && !ring->q->unused;
	slot->id = ring->id;
	slot->key = ring->key;
	slot->sockets = __atomic_load_n(&ring->refs, __ATOMIC_RELAXED);
	stats_set(&slot->rx_packets, stats->rx_frames);
	stats_set(&slot->rx_bytes, stats->rx_bytes);
	stats_set(&slot->tx_packets, stats->tx_frames);
	stats_set(&slot->tx_bytes, stats->tx_bytes);
	stats_set(&slot->copied, stats->copied);
	stats_set(&slot->forwarded, stats->forwarded);
	stats_set(&slot->retransmits, stats->retransmits);
	stats_set(&slot->interrupt_requests,
		  __atomic_load_n(&ring->sleepers.requests, __ATOMIC_RELAXED));
	stats_set(&slot->interrupts, __atomic_load_n(&ring->sleepers.received, __ATOMIC_RELAXED));
	stats_set(&slot->most, stats->most);
	slot->queue_len = ring->n_waiting;
	slot->frames_free = ring->q ? ring->q->frames_free : 0;
	for (unsigned i = 0; i < DROP_COUNT; i++)
		stats_set(&slot->drops[i], stats->drops[i]);
	slot->interface[0] = '\0';
	if (ring->q)
		snprintf(slot->interface, sizeof(slot->interface), "%s", ring->q->port->name);
}

static unsigned unanswered; /* atomic: rings whose item has not run yet */
static bool zeroing;	    /* internal thread to write, before the items are posted */

/* Role: the internal thread posts the item of a ring, the holder runs it. */
struct ask_item {
	struct inbox_item item;
	bool posted; /* atomic */
};

/* internal thread: the ask that the rings are working on; STATS_ASKS: none. */
static enum stats_ask under_way = STATS_ASKS;
static uint32_t under_way_argument;
static nsec_t refreshed; /* when the rings were asked last */

static struct ask_item asks[STATS_RINGS + 1]; /* of a ring each, and of rings_nowhere() */

static void ask_run(struct ring *ring, struct inbox_item *item)
{
	struct ask_item *ask = container_of(item, struct ask_item, item);
	struct stats_page *page = stats_page();
	unsigned at = (unsigned)(ask - asks);

	for (unsigned i = 1; page && i <= n_places; i++) {
		struct inet_sock *so = sock_here(ring, i);

		if (!so)
			continue;
		publish_sock(so, stats_slot(i), &places[i]);
		if (zeroing)
			zero_sock(i);
	}
	if (page && at < STATS_RINGS) {
		if (zeroing) {
			memset(&ring->stats, 0, sizeof(ring->stats));
			__atomic_store_n(&ring->sleepers.requests, 0, __ATOMIC_RELAXED);
			__atomic_store_n(&ring->sleepers.received, 0, __ATOMIC_RELAXED);
		}
		publish_ring(ring, &page->rings[at]);
	}
	/* Release: pairs with ask_rings() and is_answered(), which see what was stored. */
	__atomic_store_n(&ask->posted, false, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&unanswered, 1, __ATOMIC_RELEASE);
}

/* ---- the life of a slot (control lock) ---------------------------------------------- */

static bool ready(void)
{
	struct stats_page *page;

	if (!stats_open())
		return false;
	page = stats_page();
	if (places)
		return true;
	places = mem_zalloc((page->n_socks + 1) * sizeof(*places));
	n_places = places ? page->n_socks : 0;
	for (unsigned i = 0; i < DROP_COUNT; i++)
		snprintf(page->drop_names[i], STATS_NAME, "%s", drop_name((enum drop)i));
	return places;
}

static uint8_t type_of(const struct inet_sock *so)
{
	return so->inet == INET_UDP	 ? STATS_UDP
	       : so->inet == INET_LISTEN ? STATS_TCP_LISTENER
					 : STATS_TCP;
}

_Static_assert(RULES_TEXT + sizeof("what it receives, ") <= STATS_VERDICT, "room for all of it");

/* The verdict, and the rule that decided, for readers. */
static void tell(const struct inet_sock *so, unsigned number)
{
	enum verdict verdict = sock_told_verdict(so);
	bool ours = verdict == VERDICT_ACCELERATED || verdict == VERDICT_LOCAL ||
		    verdict == VERDICT_UNDECIDED;
	char why[RULES_TEXT], text[STATS_VERDICT];

	rules_verdict_text(ours ? VERDICT_ACCELERATED : verdict, places[number].rule, why);
	snprintf(text, sizeof(text), "%s%s",
		 ours			       ? ""
		 : sock_life_is(so, LIFE_OPEN) ? "what it sends, "
					       : "what it receives, ",
		 why);
	stats_slot_tell(number, STATS_OURS, ours, text);
}

/* holder: so counts in this slot from now on; 0: in none. */
static void set_slot(struct inet_sock *so, unsigned number)
{
	__atomic_store_n(&so->stats_slot, (uint16_t)number, __ATOMIC_RELAXED);
	if (so->inet == INET_UDP)
		so->udp.stats = sock_stats(so);
}

void sock_stats_begin(struct inet_sock *so, bool imported)
{
	static struct stats_sock scratch; /* control lock; not read */
	unsigned number = so->stats_slot;
	struct ring *ring;

	control_assert_held();
	control_assert_no_ring();
	if (!ready() || sock_twin(&so->sk) < 0)
		return;
	if (!number) {
		number = stats_slot_take(sock_twin(&so->sk), STATS_OURS);
		if (!number) {
			stats_page()->without_slot++;
			return;
		}
	}
	if (sock_hold_cold(sock_ref_of(so), &ring)) {
		stats_slot_put(number);
		return;
	}
	stats_slot(number)->type = type_of(so);
	places[number].seen = (struct sock_stats_seen){0};
	if (imported)
		sock_kind_of(so)->publish(so, &scratch, &places[number].seen);
	set_slot(so, number);
	__atomic_store_n(&places[number].gen, so->sk.gen, __ATOMIC_RELAXED);
	/* Pairs with sock_here(). */
	__atomic_store_n(&places[number].so, so, __ATOMIC_RELEASE);
	ring_release_cold(ring);
	places[number].rule = rules_last(so);
	tell(so, number);
}

void sock_stats_verdict(struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	if (!so->stats_slot) {
		if (so->verdict != VERDICT_ACCELERATED) /* or it was tried when it got its home */
			sock_stats_begin(so, false);
		return;
	}
	places[so->stats_slot].rule = rules_last(so);
	tell(so, so->stats_slot);
}

void sock_stats_accepted(struct inet_sock *child, const struct inet_sock *listener)
{
	if (!child->stats_slot || !listener->stats_slot)
		return;
	places[child->stats_slot].rule = places[listener->stats_slot].rule;
	tell(child, child->stats_slot);
}

/* Stores the last counts, and takes the slot from the socket.  Its number; 0: it has none. */
static unsigned detach(struct inet_sock *so)
{
	unsigned number = so->stats_slot;
	struct ring *ring;

	control_assert_held();
	control_assert_no_ring();
	if (!number || sock_hold_cold(sock_ref_of(so), &ring))
		return 0;
	publish_sock(so, stats_slot(number), &places[number]);
	set_slot(so, 0);
	__atomic_store_n(&places[number].so, NULL, __ATOMIC_RELAXED);
	ring_release_cold(ring);
	stats_log_sock(number);
	return number;
}

void sock_stats_end(struct inet_sock *so)
{
	unsigned number = detach(so);

	control_assert_held();
	control_assert_no_ring();
	if (number)
		stats_slot_put(number);
}

void sock_stats_left(struct inet_sock *so, enum verdict reason)
{
	unsigned number = detach(so);
	char text[RULES_TEXT];

	control_assert_held();
	control_assert_no_ring();
	/* Of a process that uses the kernel alone by intention there is nothing to ask. */
	if (!number && (places || (verdict_is_fallback(reason) && ready())))
		number = stats_slot_take(sock_twin(&so->sk), STATS_LEFT);
	if (!number)
		return;
	stats_slot(number)->type = type_of(so);
	rules_verdict_text(reason, rules_last(so), text);
	stats_slot_tell(number, STATS_LEFT, false, text);
}

void sock_stats_moved(struct inet_sock *so, bool receives, unsigned from)
{
	struct ring *ring;

	control_assert_no_ring();
	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (receives)
		sock_count(so, rx_migrations, 1);
	else
		sock_count(so, tx_migrations, 1);
	sock_record(so, receives ? RECORD_MOVED_RX : RECORD_MOVED_TX, from);
	ring_release_cold(ring);
}

void sock_stats_forget(void)
{
	stats_fork_child();
	places = NULL; /* abandoned, as all objects are */
	n_places = 0;
	memset(asks, 0, sizeof(asks));
	unanswered = 0;
	under_way = STATS_ASKS;
}

void sock_stats_fork_child(struct inet_sock *so)
{
	so->stats_slot = 0;
	if (so->inet == INET_UDP)
		so->udp.stats = NULL;
}

void sock_stats_latency(const struct inet_sock *so, nsec_t arrived)
{
	struct stats_latency *latency = so->stats_slot ? stats_latency(so->stats_slot) : NULL;
	nsec_t waited;

	if (!latency || !arrived)
		return;
	waited = clock_real() - arrived;
	latency_add(latency, waited > 0 ? (uint64_t)waited : 0); /* the clock may be set back */
}

/* ---- the twin (any) ----------------------------------------------------------------- */

/* A call without the ring may count after another thread closed the socket: the slot stays. */
static struct stats_sock *slot_of(struct inet_sock *so)
{
	unsigned number = __atomic_load_n(&so->stats_slot, __ATOMIC_RELAXED);

	return number && stats_page() ? stats_slot(number) : NULL;
}

void sock_stats_twin_recv(struct inet_sock *so, ssize_t n)
{
	struct stats_sock *slot = slot_of(so);

	if (!slot)
		return;
	if (n >= 0) {
		stats_add_any(&slot->os_rx_packets, 1);
		stats_add_any(&slot->os_rx_bytes, (size_t)n);
	} else if (n != -EAGAIN) {
		stats_add_any(&slot->os_rx_errors, 1);
	}
}

void sock_stats_twin_send(struct inet_sock *so, size_t n)
{
	struct stats_sock *slot = slot_of(so);

	if (!slot)
		return;
	stats_add_any(&slot->os_tx_packets, 1);
	stats_add_any(&slot->os_tx_bytes, n);
}

/* ---- asks of readers (internal thread) ---------------------------------------------- */

static void ask_ring(struct ring *ring, struct ask_item *ask)
{
	/* Pairs with ask_run(). */
	if (__atomic_load_n(&ask->posted, __ATOMIC_ACQUIRE))
		return; /* an earlier ask, which the holder has still to do */
	__atomic_store_n(&ask->posted, true, __ATOMIC_RELAXED);
	__atomic_fetch_add(&unanswered, 1, __ATOMIC_RELAXED);
	ask->item.run = ask_run;
	ring_post(ring, &ask->item);
}

static void ask_rings(bool zero)
{
	unsigned n = rings_count() < STATS_RINGS ? rings_count() : STATS_RINGS;

	zeroing = zero;
	for (unsigned i = 0; i < n; i++)
		ask_ring(rings_at(i), &asks[i]);
	ask_ring(rings_nowhere(), &asks[STATS_RINGS]);
	__atomic_store_n(&stats_page()->n_rings, n, __ATOMIC_RELAXED);
}

static void zero_iomux(struct stats_iomux *entry)
{
	const uint64_t *now = (const uint64_t *)&entry->now;
	uint64_t *zero = (uint64_t *)&entry->zero;

	for (size_t i = 0; i < sizeof(entry->now) / sizeof(*now); i++)
		stats_set(&zero[i], __atomic_load_n(&now[i], __ATOMIC_RELAXED));
}

static void publish_pools(struct stats_page *page)
{
	uint64_t rx = 0, tx = 0;

	for (unsigned i = 0; i < page->n_rings && i < STATS_RINGS; i++) {
		rx += page->rings[i].drops[DROP_NO_MEMORY];
		tx += page->rings[i].frames_free;
	}
	page->pools[STATS_POOL_RX] = (struct stats_pool){pkt_bufs_left(), rx};
	page->pools[STATS_POOL_TX].size = tx;
}

static void answered(enum stats_ask what, nsec_t now)
{
	struct stats_page *page = stats_page();

	if (control_trylock()) {
		stats_slots_identify();
		control_unlock();
	}
	publish_pools(page);
	page->log_level = log_level;
	page->log_details = log_details_level();
	stats_set(&page->refreshed_at, (uint64_t)now);
	if (what == STATS_ZERO) {
		zero_iomux(&page->poll);
		zero_iomux(&page->select);
		for (unsigned i = 0; i < STATS_EPOLLS; i++)
			zero_iomux(&page->epolls[i]);
		stats_set(&page->zeroed_at, (uint64_t)now);
	}
	stats_answer(what);
}

static bool start(enum stats_ask what, nsec_t now)
{
	if (!stats_asked(what, &under_way_argument) &&
	    (what != STATS_REFRESH || now - refreshed < REFRESH_ANYWAY))
		return false;
	under_way = what;
	refreshed = now;
	ask_rings(what == STATS_ZERO);
	return true;
}

static void finish(nsec_t now)
{
	if (under_way == STATS_DUMP)
		sock_stats_dump(under_way_argument, n_places);
	answered(under_way, now);
	under_way = STATS_ASKS;
}

bool sock_stats_run(nsec_t now)
{
	uint32_t argument;

	if (!stats_page())
		return false;
	if (stats_asked(STATS_LEVEL, &argument)) {
		log_set_level((enum log_level)((int)(argument & 15) - 1));
		answered(STATS_LEVEL, now);
	}
	if (stats_asked(STATS_DETAILS, &argument)) {
		log_set_details((int)(argument & 3));
		answered(STATS_DETAILS, now);
	}
	if (under_way == STATS_ASKS && !start(STATS_ZERO, now) && !start(STATS_DUMP, now))
		start(STATS_REFRESH, now);
	if (under_way == STATS_ASKS)
		return false;
	/* Acquire: pairs with ask_run(). */
	if (!__atomic_load_n(&unanswered, __ATOMIC_ACQUIRE))
		finish(now);
	return true;
}

/* ---- for the program ------------------------------------------------------------------ */

int sock_stats_dump_now(int fd, int level)
{
	struct ring *ring;

	if (!control_lock())
		return -EAGAIN;
	for (unsigned i = 1; i <= n_places; i++) {
		struct sock_ref ref = {places[i].so ? &places[i].so->sk : NULL, places[i].gen};

		if (!ref.sk || sock_hold_cold(ref, &ring))
			continue;
		if (places[i].so->stats_slot == i)
			publish_sock(places[i].so, stats_slot(i), &places[i]);
		ring_release_cold(ring);
	}
	sock_stats_dump((uint32_t)fd << 4 | (uint32_t)(level + 1), n_places);
	control_unlock();
	return 0;
}
