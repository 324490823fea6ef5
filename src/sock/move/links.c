/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/move/links.h"

#include "base/log.h"
#include "base/mem.h"
#include "sock/core/access.h"
#include "sock/move/kernel_handover.h"
#include "sock/move/move.h"
#include "sock/tcp/tcp_sock.h"

#define GONE_MAX 1024		     /* addresses; of more, the oldest are forgotten */
#define EXPECTED (60 * NSEC_PER_SEC) /* so long, flows wait for their address to come back */
#define WAYS_ATONCE 256
#define MUTE_INTERVAL (250 * NSEC_PER_MSEC) /* routes may come without telling */

/* The addresses that the host has lost. */
static struct {
	struct inaddr addr[GONE_MAX]; /* oldest first */
	nsec_t until[GONE_MAX];	      /* flows wait for it; 0: no more */
	bool used[GONE_MAX];	      /* by a flow of ours */
	unsigned n;
	bool changed; /* any, atomic: ports and flows have to hear of it */
} gone;

static int changed_link; /* the one that did; RINGS_ANY_INTERFACE; 0: none */

/* ---- what netlink says ------------------------------------------------------------------ */

void links_changed(int ifindex)
{
	struct link link;

	/* Its descriptors tell of an error for ever. */
	if (link_get(ifindex, &link) == -ENODEV)
		rings_interface_deaf(ifindex);
	if (!changed_link || changed_link == ifindex)
		changed_link = ifindex;
	else
		changed_link = RINGS_ANY_INTERFACE;
}

static int find_gone(const struct inaddr *addr)
{
	for (unsigned i = 0; i < gone.n; i++)
		if (addr_eq(&gone.addr[i], addr))
			return (int)i;
	return -1;
}

static void remove_gone(unsigned i)
{
	--gone.n;
	memmove(&gone.addr[i], &gone.addr[i + 1], (gone.n - i) * sizeof(gone.addr[0]));
	memmove(&gone.until[i], &gone.until[i + 1], (gone.n - i) * sizeof(gone.until[0]));
}

void links_addr(const struct inaddr *addr, bool present)
{
	int at = find_gone(addr);

	if (!addr_is_v4(addr))
		return;
	if (present && at >= 0)
		remove_gone((unsigned)at);
	if (!present && at < 0) {
		if (gone.n == GONE_MAX)
			remove_gone(0);
		gone.until[gone.n] = clock_now() + EXPECTED;
		gone.addr[gone.n++] = *addr;
	}
	__atomic_store_n(&gone.changed, true, __ATOMIC_RELAXED);
	changed_link = RINGS_ANY_INTERFACE; /* connections of whichever may follow it */
}

bool links_addr_expected(const struct inaddr *addr)
{
	int at = find_gone(addr);

	return at >= 0 && gone.until[at];
}

/* True: of one or more it was too long. */
static bool give_up(nsec_t now)
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

/* ---- sockets of 0.0.0.0 (control lock) -------------------------------------------------- */

static void reattach(struct inet_sock *so, void *arg)
{
	(void)arg;
	sock_reattach(so);
}

/* ---- addresses that are gone (holder of the flow's ring) ----------------------------------- */

static flow_fn deliver_of(struct flow *flow)
{
	return flow->shared ? container_of(flow, struct shared_flow, flow)->deliver : flow->deliver;
}

static struct inet_sock *connection_of(struct flow *flow)
{
	return flow->deliver == tcp_deliver ? container_of(flow, struct inet_sock, tcp.flow) : NULL;
}

static bool hush(struct flow *flow, void *arg)
{
	struct inet_sock *conn = connection_of(flow);
	int at = find_gone(&flow->key.local);

	(void)arg;
	if (at >= 0)
		gone.used[at] = true;
	if (at >= 0 && conn)
		tcp_mute(conn);
	if (deliver_of(flow) == tcp_listen_deliver)
		container_of(flow, struct sock_flow, flow)->shard->mute = at >= 0;
	return true;
}

static void hush_all(void)
{
	memset(gone.used, 0, sizeof(gone.used));
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);
		unsigned bucket = 0;

		if (!ring_hold_cold(ring))
			continue;
		flow_table_walk(&ring->flows, &bucket, hush, NULL);
		ring_release_cold(ring);
	}
}

static void tell_ports(void)
{
	struct inaddr used[GONE_MAX];
	unsigned n = 0;

	for (unsigned i = 0; i < gone.n; i++) {
		if (gone.used[i])
			used[n++] = gone.addr[i];
	}
	rings_addrs_gone(used, n);
}

/* ---- ways of connections (control lock) --------------------------------------------------- */

/* A connection whose way is to be found: it may end meanwhile, but for its name. */
struct way {
	struct sock_ref ref;
	struct dst_query query;
};

struct ways {
	struct ring *ring; /* they live on */
	struct way *way;
	unsigned n, room;
	bool all; /* else those that are mute */
};

static bool note_way(struct flow *flow, void *arg)
{
	struct ways *ways = arg;
	struct inet_sock *so = connection_of(flow);
	struct way *way;

	if (!so || sock_has_ended(so) || !(ways->all || so->tcp.dst.mute))
		return true;
	if (ways->n == ways->room) {
		unsigned room = ways->room ? 2 * ways->room : WAYS_ATONCE;

		way = mem_realloc(ways->way, room * sizeof(*way));
		if (!way)
			return false;
		ways->way = way;
		ways->room = room;
	}
	way = &ways->way[ways->n++];
	way->ref = sock_ref_of(so);
	way->query = sock_query(so);
	return ways->n < WAYS_ATONCE;
}

/* The address, or the whole interface, is another one's now. */
static bool is_elsewhere(const struct way *way, const struct ring *ring,
			 const struct dst_found *found)
{
	if (found->verdict != VERDICT_ACCELERATED || found->ring->ifindex == ring->ifindex)
		return false;
	return !ring->q || link_of_addr(&way->query.src) == found->ring->ifindex;
}

static void find_ways(struct ways *ways)
{
	for (unsigned i = 0; i < ways->n; i++) {
		struct way *way = &ways->way[i];
		struct dst_found found;
		int rc;

		dst_find(&way->query, &found);
		rc = is_elsewhere(way, ways->ring, &found) ? tcp_transplant(way->ref, &found)
							   : tcp_go_by(way->ref, &found);
		if (rc) /* it may have ended meanwhile */
			log_debug("a connection stays without a way: %s", strerror(-rc));
	}
	ways->n = 0;
}

static void refresh_ring(struct ring *ring, struct ways *ways)
{
	unsigned bucket = 0;
	bool more = true;

	ways->ring = ring;
	while (more && ring_hold_cold(ring)) {
		more = flow_table_walk(&ring->flows, &bucket, note_way, ways);
		ring_release_cold(ring);
		find_ways(ways);
	}
}

/* Of connections of this interface, and of all that are mute. */
static void refresh(int ifindex)
{
	struct ways ways = {.n = 0};

	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		ways.all = ifindex == RINGS_ANY_INTERFACE || (ifindex && ring->ifindex == ifindex);
		if (ways.all || __atomic_load_n(&dst_mutes, __ATOMIC_RELAXED))
			refresh_ring(ring, &ways);
	}
	mem_free(ways.way);
}

/* Has anything happened that those who are mute wait for? */
static bool mutes_due(nsec_t now)
{
	static uint32_t generation;
	static nsec_t next;
	uint32_t latest = netlink_generation();

	if (!__atomic_load_n(&dst_mutes, __ATOMIC_RELAXED) || (generation == latest && now < next))
		return false;
	generation = latest;
	next = now + MUTE_INTERVAL;
	return true;
}

/* Nothing reaches it where it lives. */
static bool is_stranded(const struct inet_sock *so)
{
	const struct ring *home = sock_home(so);
	int ifindex;

	if (home->retired)
		return true;
	ifindex = home->q ? link_of_addr(&so->local.addr) : 0;
	return ifindex && ifindex != home->ifindex;
}

/* A route there is, and no interface that we can take: the kernel goes on with it. */
static void give_away(struct inet_sock *so, void *arg)
{
	struct dst_query query;
	struct dst_found found;
	int rc;

	(void)arg;
	if (!sock_has_connection(so) || sock_has_ended(so) || !is_stranded(so))
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

/* ---- interfaces that are gone (control lock) ---------------------------------------------- */

static void detach(struct inet_sock *so, void *arg)
{
	const int *ifindex = arg;
	struct ring *ring;

	sock_detach_from(so, *ifindex);
	if (!sock_has_connection(so) || sock_hold_cold(sock_ref_of(so), &ring))
		return;
	/* It may have no flow any more, and still something to read. */
	if (ring->ifindex == *ifindex)
		tcp_take_along(so, ring);
	ring_release_cold(ring);
}

static bool strand(struct flow *flow, void *arg)
{
	struct inet_sock *conn = connection_of(flow);

	if (!conn)
		return true;
	tcp_take_along(conn, arg);
	tcp_mute(conn);
	return true;
}

static void retire(struct ring *ring)
{
	unsigned bucket = 0;

	if (!ring_hold_cold(ring))
		return;
	while (flow_table_walk(&ring->flows, &bucket, strand, ring))
		;
	ring_retire(ring);
	ring_release_cold(ring);
}

static void interface_gone(int ifindex)
{
	/* Frames that had arrived are as good as any. */
	for (unsigned i = 0; i < rings_count(); i++) {
		struct ring *ring = rings_at(i);

		if (ring->ifindex != ifindex || !ring_hold_cold(ring))
			continue;
		ring_drain(ring);
		ring_release_cold(ring);
	}
	rings_interface_leaving(ifindex);
	sock_each(detach, &ifindex);
	for (unsigned i = 0; i < rings_count(); i++) {
		if (rings_at(i)->ifindex == ifindex)
			retire(rings_at(i));
	}
	rings_interface_gone(ifindex);
	/* It may be there still, and only its port is another: the kernel says nothing then. */
	netlink_expire();
	sock_tell_pollers();
}

/* It is not there, or another device's by now, or has another address than when it was taken. */
static bool is_gone(const struct port *port)
{
	struct link link;

	if (port->ifindex <= 0) /* a port of tests */
		return false;
	return port->lost || link_get(port->ifindex, &link) == -ENODEV || link.master ||
	       memcmp(link.mac, port->mac, sizeof(link.mac)) != 0;
}

/* Of which rings are there whose interface is gone?  0: none. */
static int find_gone_interface(void)
{
	for (unsigned i = 0; i < rings_count(); i++) {
		struct port_queue *q = ring_queue(rings_at(i));

		if (q && is_gone(q->port))
			return q->port->ifindex;
	}
	return 0;
}

static void leave_interfaces(void)
{
	int ifindex;

	if (find_gone_interface()) {
		sock_moves_settle();
		while ((ifindex = find_gone_interface()))
			interface_gone(ifindex);
	}
	/* Ports without rings. */
	while ((ifindex = rings_lost()))
		rings_interface_gone(ifindex);
}

/* ---- the round ------------------------------------------------------------------------------ */

static void follow_links(nsec_t now)
{
	int ifindex = changed_link ? changed_link : rings_lost();

	if (gone.n && give_up(now))
		ifindex = changed_link = RINGS_ANY_INTERFACE;
	if ((!ifindex && !__atomic_load_n(&dst_mutes, __ATOMIC_RELAXED)) || !control_trylock())
		return;
	changed_link = 0;
	if (ifindex) {
		leave_interfaces();
		rings_interface_changed(ifindex);
		sock_each(reattach, NULL);
	}
	if (ifindex || mutes_due(now)) {
		refresh(ifindex);
		if (__atomic_load_n(&dst_mutes, __ATOMIC_RELAXED))
			sock_each(give_away, NULL);
	}
	control_unlock();
}

void links_follow(nsec_t now)
{
	bool hear = __atomic_exchange_n(&gone.changed, false, __ATOMIC_RELAXED);

	/* First: a flow that goes with its address needs nothing more. */
	follow_links(now);
	if (!hear)
		return;
	hush_all();
	tell_ports();
}
