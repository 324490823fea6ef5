/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/move/links.h"

#include "base/log.h"
#include "base/mem.h"
#include "sock/core/access.h"
#include "sock/move/kernel_handover.h"
#include "sock/move/move.h"
#include "sock/tcp/tcp_sock.h"

#define GONE_MAX PORTS_GONE_MAX		  /* addresses; the oldest are forgotten */
#define EXPECTED_TIME (60 * NSEC_PER_SEC) /* time that flows wait for their address to come back */
#define LOOKUPS_AT_ONCE 256
#define NO_ROUTE_INTERVAL (250 * NSEC_PER_MSEC) /* not every new route is reported */

/* Addresses that the host has lost. */
static struct {
	struct endpoint addr[GONE_MAX]; /* oldest first */
	nsec_t until[GONE_MAX];		/* flows wait for it until then; 0: no longer */
	bool used[GONE_MAX];		/* by one of our flows */
	unsigned n;
	bool changed; /* any, atomic: ports and flows must be told */
} gone;

static int changed_link; /* the interface that changed; RINGS_ANY_INTERFACE; 0: none */

/* ---- events from netlink ------------------------------------------------------------ */

void links_changed(int ifindex)
{
	struct link link;

	/* Its descriptors report an error whenever they are polled. */
	if (link_get(ifindex, &link) == -ENODEV)
		rings_interface_deaf(ifindex);
	if (!changed_link || changed_link == ifindex)
		changed_link = ifindex;
	else
		changed_link = RINGS_ANY_INTERFACE;
}

static int find_gone(const struct endpoint *addr)
{
	for (unsigned i = 0; i < gone.n; i++)
		if (endpoint_eq(&gone.addr[i], addr))
			return (int)i;
	return -1;
}

static void remove_gone(unsigned i)
{
	--gone.n;
	memmove(&gone.addr[i], &gone.addr[i + 1], (gone.n - i) * sizeof(gone.addr[0]));
	memmove(&gone.until[i], &gone.until[i + 1], (gone.n - i) * sizeof(gone.until[0]));
}

void links_addr(const struct endpoint *addr, bool present)
{
	int at = find_gone(addr);

	if (present && at >= 0)
		remove_gone((unsigned)at);
	if (!present && at < 0) {
		if (gone.n == GONE_MAX)
			remove_gone(0);
		gone.until[gone.n] = clock_now() + EXPECTED_TIME;
		gone.addr[gone.n++] = *addr;
	}
	__atomic_store_n(&gone.changed, true, __ATOMIC_RELAXED);
	changed_link =
		RINGS_ANY_INTERFACE; /* connections of any interface may follow the address */
}

bool links_addr_expected(const struct endpoint *addr)
{
	int at = find_gone(addr);

	return at >= 0 && gone.until[at];
}

/* Flows stop waiting for addresses whose time is over. True: there was one. */
static bool expire_expected(nsec_t now)
{
	bool some = false;

	for (unsigned i = 0; i < gone.n; i++) {
		if (!gone.until[i] || gone.until[i] > now)
			continue;
		gone.until[i] = 0;
		some = true;
	}
	return some;
}

void links_new_port(void)
{
	__atomic_store_n(&gone.changed, true, __ATOMIC_RELAXED);
	progress_wake();
}

void links_forget(void)
{
	gone.n = 0;
	gone.changed = false;
	changed_link = 0;
}

/* ---- wildcard sockets (control lock) ------------------------------------------------ */

static void reattach_sock(struct inet_sock *so, void *arg)
{
	(void)arg;
	sock_reattach(so);
}

/* ---- addresses that are gone (holder of the flow's ring) ---------------------------- */

static flow_fn flow_deliver_fn(struct flow *flow)
{
	return flow->shared ? container_of(flow, struct shared_flow, flow)->deliver : flow->deliver;
}

static struct inet_sock *connection_of(struct flow *flow)
{
	return flow->deliver == tcp_deliver ? container_of(flow, struct inet_sock, tcp.flow) : NULL;
}

static bool update_flow(struct flow *flow, void *arg)
{
	struct inet_sock *conn = connection_of(flow);
	struct endpoint local = {.addr = flow->key.local,
				 .scope = ring_scope(arg, &flow->key.local)};
	int at = find_gone(&local);

	if (at >= 0)
		gone.used[at] = true;
	if (at >= 0 && conn)
		tcp_lose_route(conn);
	if (flow_deliver_fn(flow) == tcp_listen_deliver)
		container_of(flow, struct sock_flow, flow)->shard->address_gone = at >= 0;
	return true;
}

static void update_flows(void)
{
	memset(gone.used, 0, sizeof(gone.used));
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);
		unsigned bucket = 0;

		if (!ring_hold_cold(ring))
			continue;
		flow_table_walk(&ring->flows, &bucket, update_flow, ring);
		ring_release_cold(ring);
	}
}

static void update_ports(void)
{
	struct endpoint used[GONE_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < gone.n; i++) {
		if (gone.used[i])
			used[n++] = gone.addr[i];
	}
	rings_addrs_gone(used, n);
}

/* ---- routes of connections (control lock) ------------------------------------------- */

/*
 * A connection whose route is to be looked up. It may end meanwhile, so it is known by reference.
 */
struct lookup {
	struct sock_ref ref;
	struct dst_query query;
};

struct lookups {
	struct ring *ring; /* home of the connections */
	struct lookup *entries;
	unsigned n, room;
	bool all; /* else only those without a route */
};

static bool note_connection(struct flow *flow, void *arg)
{
	struct lookups *lookups = arg;
	struct inet_sock *so = connection_of(flow);
	struct lookup *lookup;

	if (!so || sock_has_ended(so) || !(lookups->all || so->tcp.dst.unroutable))
		return true;
	if (lookups->n == lookups->room) {
		unsigned room = lookups->room ? 2 * lookups->room : LOOKUPS_AT_ONCE;

		lookup = mem_realloc(lookups->entries, room * sizeof(*lookup));
		if (!lookup)
			return false;
		lookups->entries = lookup;
		lookups->room = room;
	}
	lookup = &lookups->entries[lookups->n++];
	lookup->ref = sock_ref_of(so);
	lookup->query = sock_query(so);
	return lookups->n < LOOKUPS_AT_ONCE;
}

/*
 * Does the connection need a ring of another interface, because its address is there now or
 * its own interface is gone?
 */
static bool needs_rehome(const struct lookup *lookup, const struct ring *ring,
			 const struct dst_found *found)
{
	if (found->verdict != VERDICT_ACCELERATED || found->ring->ifindex == ring->ifindex)
		return false;
	return !ring_is_open(ring) || link_of_addr(&lookup->query.src) == found->ring->ifindex;
}

static void find_routes(struct lookups *lookups)
{
	for (unsigned i = 0; i < lookups->n; i++) {
		struct lookup *lookup = &lookups->entries[i];
		struct dst_found found;
		int rc;

		dst_find(&lookup->query, &found);
		rc = needs_rehome(lookup, lookups->ring, &found)
			     ? tcp_rehome(lookup->ref, &found)
			     : tcp_use_route(lookup->ref, &found);
		if (rc) /* the connection may have ended meanwhile */
			log_debug("a connection still has no route: %s", strerror(-rc));
	}
	lookups->n = 0;
}

static void refresh_ring(struct ring *ring, struct lookups *lookups)
{
	unsigned bucket = 0;
	bool more = true;

	lookups->ring = ring;
	while (more && ring_hold_cold(ring)) {
		more = flow_table_walk(&ring->flows, &bucket, note_connection, lookups);
		ring_release_cold(ring);
		find_routes(lookups);
	}
}

/* Looks up routes of the connections of this interface, and of all that have none. */
static void refresh_routes(int ifindex)
{
	struct lookups lookups = {.n = 0};

	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		lookups.all = ifindex == RINGS_ANY_INTERFACE ||
			      (ifindex && ring->ifindex == ifindex);
		if (lookups.all || __atomic_load_n(&dst_unroutable_count, __ATOMIC_RELAXED))
			refresh_ring(ring, &lookups);
	}
	mem_free(lookups.entries);
}

/*
 * True: connections without a route look for one again, because routes have changed or some
 * time has passed.
 */
static bool routes_due(nsec_t now)
{
	static uint32_t generation;
	static nsec_t next;
	uint32_t latest = netlink_generation();

	if (!__atomic_load_n(&dst_unroutable_count, __ATOMIC_RELAXED) ||
	    (generation == latest && now < next))
		return false;
	generation = latest;
	next = now + NO_ROUTE_INTERVAL;
	return true;
}

/* No frame for it arrives at its home any more. */
static bool is_unreachable(const struct inet_sock *so)
{
	const struct ring *home = sock_home(so);
	int ifindex;

	if (home->retired)
		return true;
	ifindex = ring_is_open(home) ? link_of_endpoint(&so->local) : 0;
	return ifindex && ifindex != home->ifindex;
}

/*
 * There is a route, but by an interface that we cannot use: the kernel takes over the connection.
 */
static void hand_over(struct inet_sock *so, void *arg)
{
	struct dst_query query;
	struct dst_found found;
	int rc;

	(void)arg;
	if (!sock_has_connection(so) || sock_has_ended(so) || !is_unreachable(so))
		return;
	query = sock_query(so);
	dst_find(&query, &found);
	if (found.verdict == VERDICT_ACCELERATED || found.verdict == VERDICT_NO_ROUTE)
		return;
	rc = kernel_handover(so, found.verdict);
	if (rc)
		log_debug("fd %d: cannot be given to the kernel: %s", sock_twin(&so->sk),
			  strerror(-rc));
}

/* ---- interfaces that are gone (control lock) ---------------------------------------- */

static void detach_sock(struct inet_sock *so, void *arg)
{
	const int *ifindex = arg;
	struct ring *ring;

	sock_detach_from(so, *ifindex);
	if (!sock_has_connection(so) || sock_hold_cold(sock_ref_of(so), &ring))
		return;
	/* A connection without a flow may still have unread data. */
	if (ring->ifindex == *ifindex)
		tcp_detach_unread(so, ring);
	ring_release_cold(ring);
}

static bool detach_connection(struct flow *flow, void *arg)
{
	struct inet_sock *conn = connection_of(flow);

	if (!conn)
		return true;
	tcp_detach_unread(conn, arg);
	tcp_lose_route(conn);
	return true;
}

static void retire_ring(struct ring *ring)
{
	unsigned bucket = 0;

	if (!ring_hold_cold(ring))
		return;
	while (flow_table_walk(&ring->flows, &bucket, detach_connection, ring))
		;
	ring_retire(ring);
	ring_release_cold(ring);
}

static void interface_gone(int ifindex)
{
	/* Frames that have arrived already are delivered. */
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		if (ring->ifindex != ifindex || !ring_hold_cold(ring))
			continue;
		ring_drain(ring);
		ring_release_cold(ring);
	}
	rings_interface_leaving(ifindex);
	sock_each(detach_sock, &ifindex);
	for (unsigned i = 0; i < rings_count(); i++) {
		if (rings_at(i)->ifindex == ifindex)
			retire_ring(rings_at(i));
	}
	rings_interface_gone(ifindex);
	/*
	 * The interface may still exist, with another port. The kernel reports nothing in that
	 * case.
	 */
	netlink_expire();
	sock_tell_pollers();
}

static void handle_gone_interfaces(void)
{
	int ifindex;

	if (rings_gone()) {
		sock_moves_settle();
		while ((ifindex = rings_gone()))
			interface_gone(ifindex);
	}
	/* Ports without rings. */
	while ((ifindex = rings_lost()))
		rings_interface_gone(ifindex);
}

/* ---- once per round ----------------------------------------------------------------- */

static void follow_links(nsec_t now)
{
	int ifindex = changed_link ? changed_link : rings_lost();

	if (gone.n && expire_expected(now))
		ifindex = changed_link = RINGS_ANY_INTERFACE;
	if ((!ifindex && !__atomic_load_n(&dst_unroutable_count, __ATOMIC_RELAXED)) ||
	    !control_trylock())
		return;
	changed_link = 0;
	if (ifindex) {
		if (rings_follow())
			links_new_port();
		handle_gone_interfaces();
		rings_interface_changed(ifindex);
		sock_each(reattach_sock, NULL);
	}
	if (ifindex || routes_due(now)) {
		refresh_routes(ifindex);
		if (__atomic_load_n(&dst_unroutable_count, __ATOMIC_RELAXED))
			sock_each(hand_over, NULL);
	}
	control_unlock();
}

void links_follow(nsec_t now)
{
	bool changed = __atomic_exchange_n(&gone.changed, false, __ATOMIC_RELAXED);

	/* First, because flows that are removed with their address need nothing more. */
	follow_links(now);
	if (!changed)
		return;
	update_flows();
	update_ports();
}
