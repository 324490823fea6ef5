/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which frames a socket receives: its matches, on the rings of the interfaces that have its
 * addresses.
 */
#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "sock/core/access.h"
#include "sock/core/kernel_conns.h"
#include "sock/core/kind.h"
#include "sock/core/msg/family.h"
#include "sock/core/msg/stamps.h"
#include "sock/core/rules/rules.h"
#include "sock/core/rules/strict.h"
#include "sock/core/stats/sock_stats.h"
#include "sock/core/port/strangers.h"

#define LINKS_MAX 64
#define ADDRS_MAX 64
#define JOIN_TRIES 10 /* each one waits for a moment */

static uint32_t rings_generation; /* any, atomic */

uint32_t sock_rings_generation(void)
{
	/* Pairs with sock_tell_pollers(). */
	return __atomic_load_n(&rings_generation, __ATOMIC_ACQUIRE);
}

/* ---- one match --------------------------------------------------------------------------- */

static void note_ring(struct inet_sock *so, struct ring *ring)
{
	unsigned n = so->n_rings;

	for (unsigned i = 0; i < n && i < INET_RINGS; i++) {
		if (so->rings[i] == ring->id)
			return;
	}
	if (n < INET_RINGS)
		__atomic_store_n(&so->rings[n], (uint16_t)ring->id, __ATOMIC_RELAXED);
	if (n <= INET_RINGS) /* pairs with sock_rings(), which reads the entry after it */
		__atomic_store_n(&so->n_rings, (uint8_t)(n + 1), __ATOMIC_RELEASE);
}

void sock_tell_pollers(void)
{
	/* Pairs with sock_rings_generation(): a thread that sees it sees the new rings. */
	__atomic_fetch_add(&rings_generation, 1, __ATOMIC_ACQ_REL);
	/* If the internal thread sleeps, it does not know a new ring yet. */
	progress_wake();
}

void sock_rings_changed(struct inet_sock *so)
{
	bool datagrams = so->inet == INET_UDP && so->udp.local;
	struct ring *local = datagrams ? sock_upcalls.local_udp_ring(so) : NULL;

	control_assert_no_ring();
	control_assert_held();
	/* Pairs with sock_rings(), which may see a mixture until the generation changes. */
	__atomic_store_n(&so->n_rings, 0, __ATOMIC_RELEASE);
	list_for_each(link, &so->flows)
		note_ring(so, sock_flow_of(link)->ring);
	if (local)
		note_ring(so, local);
	sock_tell_pollers();
}

/* ---- receivers of one address and port ------------------------------------------------ */

static bool is_shared(const struct inet_sock *so)
{
	if (so->joins || so->opt->reuseport)
		return true;
	return so->inet == INET_UDP && so->opt->reuseaddr;
}

#define RANK_ADDRESS 4 /* bound to one local address */
#define RANK_DEVICE 2  /* bound to the interface */
#define RANK_FAMILY 1  /* AF_INET */

/* The score that the kernel gives sockets of one port. */
static uint8_t rank_of(const struct inet_sock *so)
{
	return (uint8_t)((so->wildcard ? 0 : RANK_ADDRESS) |
			 (so->opt->bind_ifindex ? RANK_DEVICE : 0) |
			 (so->family == AF_INET ? RANK_FAMILY : 0));
}

static bool spreads(const struct inet_sock *so)
{
	return so->joins || so->opt->reuseport;
}

/*
 * Not flows of multicast groups, which are shared in another way (share_group()), and not
 * those of connected sockets: the datagrams of one peer have one receiver.
 */
static bool may_share(const struct sock_flow *f)
{
	return !f->multicast && !flow_key_is_exact(&f->flow.key);
}

int sock_flows_share(struct inet_sock *so)
{
	int rc = 0;

	control_assert_held();
	control_assert_no_ring();
	sock_upcalls.move_settle(so);
	list_for_each(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);
		int one = -EAGAIN;

		if (!may_share(f))
			continue;
		if (ring_hold_cold(f->ring)) {
			one = ring_flow_share(f->ring, &f->shared, rank_of(so), spreads(so));
			if (!one && sock_kind_of(so)->flow_shared)
				sock_kind_of(so)->flow_shared(f);
			ring_release_cold(f->ring);
		}
		rc = one ? one : rc;
	}
	return rc;
}

int sock_flows_inherited(struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	so->joins = true;
	return sock_flows_share(so);
}

/* ---- matches ---------------------------------------------------------------------------- */

/*
 * Another ring of this process receives the group's frames, for another socket: the flow is
 * added there, and this socket gets copies.
 */
static int share_group(struct sock_flow *f)
{
	struct ring *ring = rings_find_flow(f->ring->ifindex, &f->flow.key);
	int rc = -EEXIST;

	if (!ring || !ring_hold_cold(ring))
		return rc;
	rc = ring_flow_add(ring, &f->flow);
	ring_release_cold(ring);
	if (!rc)
		f->ring = ring;
	return rc;
}

/* Adds the flow to its ring.  -EAGAIN: other receivers are joining or withdrawing; try again. */
static int add_to_ring(struct sock_flow *f)
{
	int rc = -EAGAIN;

	for (int i = 0; i < JOIN_TRIES && rc == -EAGAIN; i++) {
		if (!ring_hold_cold(f->ring))
			return rc;
		rc = ring_flow_add(f->ring, &f->flow);
		ring_release_cold(f->ring);
	}
	return rc;
}

static int add_flow(struct inet_sock *so, struct ring *ring, const struct flow_key *key,
		    const struct mcast_part *part, struct sock_flow **flow)
{
	const struct sock_kind *kind = sock_kind_of(so);
	struct sock_match *match = mem_zalloc(sizeof(*match));
	struct sock_flow *f;
	int rc = -ENOMEM;

	if (!match)
		return rc;
	f = &match->f;
	f->flow.key = *key;
	f->flow.deliver = sock_deliver_fn(kind);
	f->flow.alone = !is_shared(so);
	f->so = so;
	f->gen = so->sk.gen;
	f->ring = ring;
	f->multicast = part != NULL;
	if (is_shared(so) && may_share(f))
		shared_flow_init(&f->shared, f->flow.deliver, rank_of(so), spreads(so));
	if (part)
		match->part = *part;
	if (kind->flow_begin && !kind->flow_begin(so, f))
		goto free_flow;
	rc = add_to_ring(f);
	if (rc == -EEXIST && part)
		rc = share_group(f);
	if (rc)
		goto end_flow;
	ring_get(f->ring);
	list_push_back(&so->flows, &match->link);
	note_ring(so, f->ring);
	sock_tell_pollers();
	if (flow)
		*flow = f;
	if (f->shard)
		kernel_conns_begin(so);
	strangers_begin(f);
	return 0;

end_flow:
	if (kind->flow_free)
		kind->flow_free(f);
free_flow:
	mem_free(match);
	return rc;
}

int sock_flow_add(struct inet_sock *so, struct ring *ring, const struct flow_key *key,
		  struct sock_flow **flow)
{
	control_assert_held();
	control_assert_no_ring();
	return add_flow(so, ring, key, NULL, flow);
}

int sock_flow_add_group(struct inet_sock *so, struct ring *ring, const struct flow_key *key,
			const struct mcast_part *part, struct sock_flow **flow)
{
	control_assert_held();
	control_assert_no_ring();
	return add_flow(so, ring, key, part, flow);
}

void sock_flow_del(struct sock_flow *flow)
{
	const struct sock_kind *kind = sock_kind_of(flow->so);

	control_assert_held();
	control_assert_no_ring();
	if (ring_hold_cold(flow->ring)) {
		ring_flow_del(flow->ring, &flow->flow);
		if (kind->flow_end)
			kind->flow_end(flow);
		ring_release_cold(flow->ring);
	}
	ring_put(flow->ring);
	list_remove(&sock_match_of(flow)->link);
	if (kind->flow_free)
		kind->flow_free(flow);
	mem_free(sock_match_of(flow));
}

void sock_flows_del(struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	if (sock_is_gone(so))
		sock_upcalls.move_cancel(so);
	else
		sock_upcalls.move_settle(so);
	while (!list_empty(&so->flows))
		sock_flow_del(sock_flow_of(so->flows.next));
	sock_rings_changed(so);
}

/* ---- all matches of an address -------------------------------------------------------------- */

struct links {
	int n;
	int ifindex[LINKS_MAX];
};

static void collect_link(const struct link *link, void *arg)
{
	struct links *links = arg;

	if (link->up && !link->loopback && links->n < LINKS_MAX)
		links->ifindex[links->n++] = link->ifindex;
}

static struct flow_key key_for(const struct inet_sock *so, const struct inaddr *local)
{
	struct flow_key key;

	memset(&key, 0, sizeof(key));
	key.local = *local;
	key.local_port = so->local.port;
	key.proto = sock_kind_of(so)->protocol;
	if (so->inet == INET_UDP && so->udp.connected) {
		key.remote = so->remote.addr;
		key.remote_port = so->remote.port;
	}
	return key;
}

static bool has_flow(const struct inet_sock *so, const struct ring *ring,
		     const struct flow_key *key)
{
	list_for_each(link, &so->flows) {
		const struct sock_flow *f = sock_flow_of(link);

		if (f->ring->ifindex == ring->ifindex && flow_key_eq(&f->flow.key, key))
			return true;
	}
	return false;
}

void sock_adopt_home(struct inet_sock *so, struct ring *ring)
{
	struct ring *nowhere;

	control_assert_no_ring();
	control_assert_held();
	if (sock_home(so) != rings_nowhere() || sock_hold_cold(sock_ref_of(so), &nowhere))
		return;
	sock_set_home(so, ring);
	sock_access_init(so);
	ring_release_cold(nowhere);
	sock_stats_begin(so, false);
}

/* Adds the match for one address of one interface. */
static enum verdict attach_addr(struct inet_sock *so, int ifindex, const struct inaddr *local)
{
	struct flow_key key = key_for(so, local);
	struct ring *ring;
	int rc;

	if (so->opt->bind_ifindex && so->opt->bind_ifindex != ifindex)
		return VERDICT_INTERFACE; /* SO_BINDTODEVICE */
	ring = sock_rx_ring(so, ifindex, local);
	if (!ring)
		return VERDICT_PORT_FAILED;
	if (sock_stamps_by_kernel(so, ring))
		return VERDICT_OPTION;
	if (has_flow(so, ring, &key))
		return VERDICT_ACCELERATED;
	sock_adopt_home(so, ring);
	rc = sock_flow_add(so, ring, &key, NULL);
	if (!rc)
		return VERDICT_ACCELERATED;
	log_debug("fd %d: frames cannot be steered: %s", sock_twin(&so->sk), strerror(-rc));
	return VERDICT_FLOW;
}

/* The better one of two verdicts: what a rule denies explains least. */
static enum verdict better(enum verdict a, enum verdict b)
{
	if (a == VERDICT_ACCELERATED || b == VERDICT_ACCELERATED)
		return VERDICT_ACCELERATED;
	return b == VERDICT_DENIED ? a : b;
}

/* Calls fn for each address whose traffic the wildcard socket has, and the link that has it. */
static void each_address(struct inet_sock *so,
			 void (*fn)(struct inet_sock *so, const struct link *link,
				    const struct inaddr *addr, void *arg),
			 void *arg)
{
	bool ipv4 = sock_has_ipv4(so);
	struct inaddr addrs[ADDRS_MAX];
	struct links links = {.n = 0};
	struct link link;

	link_each(collect_link, &links);
	for (int i = 0; i < links.n; i++) {
		int n = link_addrs(links.ifindex[i], addrs, ADDRS_MAX);

		for (int a = 0; a < n && a < ADDRS_MAX; a++) {
			if (sock_serves(so, &addrs[a], ipv4) && !link_get(links.ifindex[i], &link))
				fn(so, &link, &addrs[a], arg);
		}
	}
}

static void attach_one(struct inet_sock *so, const struct link *link, const struct inaddr *addr,
		       void *arg)
{
	enum verdict *best = arg, v = sock_link_verdict(link);

	if (v == VERDICT_ACCELERATED)
		v = attach_addr(so, link->ifindex, addr);
	strict_warn_link(so, rules_ask_receiver(so), link, v);
	*best = *best == VERDICT_UNDECIDED ? v : better(*best, v);
}

static enum verdict attach_wildcard(struct inet_sock *so)
{
	enum verdict best = VERDICT_UNDECIDED;

	each_address(so, attach_one, &best);
	return best == VERDICT_UNDECIDED ? VERDICT_INTERFACE : best;
}

enum verdict sock_attach(struct inet_sock *so)
{
	struct link link;
	enum verdict verdict;
	int ifindex;

	control_assert_held();
	control_assert_no_ring();
	so->wildcard = addr_is_any(&so->local.addr);
	if (rules_ask_receiver(so) == CONF_OS)
		return VERDICT_RULE;
	verdict = sock_start_for(so);
	if (verdict != VERDICT_ACCELERATED)
		return verdict;
	if (so->wildcard)
		return attach_wildcard(so);
	if (addr_is_loopback(&so->local.addr))
		return VERDICT_LOOPBACK;
	if (addr_is_multicast(&so->local.addr))
		return VERDICT_ACCELERATED; /* memberships add matches */
	ifindex = link_of_endpoint(&so->local);
	if (!ifindex || link_get(ifindex, &link))
		return VERDICT_INTERFACE;
	verdict = sock_link_verdict(&link);
	return verdict == VERDICT_ACCELERATED ? attach_addr(so, ifindex, &so->local.addr) : verdict;
}

/* ---- rings without matches ------------------------------------------------------------------ */

/* Takes a reference to the ring that is never put. */
static void reserve_one(struct inet_sock *so, const struct link *link, const struct inaddr *local,
			void *arg)
{
	struct flow_key key = key_for(so, &so->local.addr);
	struct ring *ring;

	(void)arg;
	if (!sock_link_usable(link) ||
	    (so->opt->bind_ifindex && so->opt->bind_ifindex != link->ifindex))
		return;
	ring = sock_rx_ring(so, link->ifindex, local);
	if (ring && !rings_grant(ring, &key))
		ring_get(ring);
}

void sock_reserve(struct inet_sock *so)
{
	struct link link;
	int ifindex;

	control_assert_held();
	control_assert_no_ring();
	if (addr_is_any(&so->local.addr)) {
		each_address(so, reserve_one, NULL);
		return;
	}
	ifindex = link_of_endpoint(&so->local);
	if (ifindex && !link_get(ifindex, &link))
		reserve_one(so, &link, &so->local.addr, NULL);
}

/*
 * Must the match be removed?  Yes if its interface belongs to another one now, or if its
 * address is on another interface, or on none and not expected back soon.
 */
static bool flow_stale(const struct sock_flow *f)
{
	struct endpoint local = {.addr = f->flow.key.local};
	struct link link;
	int ifindex;

	if (f->multicast || !ring_is_open(f->ring))
		return false;
	if (!link_get(f->ring->ifindex, &link) && link.master)
		return true;
	local.scope = ring_scope(f->ring, &local.addr);
	ifindex = link_of_endpoint(&local);
	return ifindex ? ifindex != f->ring->ifindex : !sock_upcalls.addr_expected(&local);
}

/* ---- interfaces that come and go (control lock) ------------------------------------------- */

static bool has_flow_on(const struct inet_sock *so, int ifindex)
{
	list_for_each(link, &so->flows) {
		if (!sock_flow_of(link)->multicast && sock_flow_of(link)->ring->ifindex == ifindex)
			return true;
	}
	return false;
}

/* A socket bound to one address: if an interface has it now, attaches the socket there. */
static void follow_address(struct inet_sock *so)
{
	int ifindex = link_of_endpoint(&so->local);
	struct link link;

	if (!ifindex || has_flow_on(so, ifindex) || link_get(ifindex, &link) ||
	    !sock_link_usable(&link))
		return;
	sock_kind_of(so)->attach_anew(so);
}

static void follow_addresses(struct inet_sock *so)
{
	sock_upcalls.move_settle(so);
	list_for_each_safe(link, &so->flows) {
		struct sock_flow *f = sock_flow_of(link);

		if (flow_stale(f))
			sock_flow_del(f);
	}
	if (attach_wildcard(so) != VERDICT_ACCELERATED)
		return;
	so->verdict = VERDICT_ACCELERATED;
	sock_stats_verdict(so);
	sock_port_claim(so);
}

void sock_reattach(struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	if (!sock_life_in(so, LIFE(RECEIVING) | LIFE(LISTENING)) ||
	    rules_ask_receiver(so) == CONF_OS)
		return;
	if (so->wildcard)
		follow_addresses(so);
	else if (!addr_is_multicast(&so->local.addr))
		follow_address(so);
}

/* If home is on the interface, the socket lives on rings_nowhere() from now on. */
static void leave_home(struct inet_sock *so, int ifindex)
{
	struct ring *ring;

	if (sock_hold_cold(sock_ref_of(so), &ring))
		return;
	if (ring_is_open(ring) && ring->ifindex == ifindex) {
		if (sock_kind_of(so)->leave_home)
			sock_kind_of(so)->leave_home(so, ring);
		sock_set_home(so, rings_nowhere());
		ready_wake_all(&so->sk); /* threads must not sleep on the old ring */
	}
	ring_release_cold(ring);
}

static void del_flows_on(struct inet_sock *so, int ifindex)
{
	list_for_each_safe(link, &so->flows) {
		if (sock_flow_of(link)->ring->ifindex == ifindex)
			sock_flow_del(sock_flow_of(link));
	}
	sock_rings_changed(so);
}

static bool uses_link(const struct inet_sock *so, int ifindex)
{
	if (sock_home(so)->ifindex == ifindex)
		return true;
	list_for_each(link, &so->flows) {
		if (sock_flow_of(link)->ring->ifindex == ifindex)
			return true;
	}
	return false;
}

void sock_detach_from(struct inet_sock *so, int ifindex)
{
	const struct sock_kind *kind = sock_kind_of(so);
	bool anew = kind->detach && sock_life_is(so, LIFE_RECEIVING);

	control_assert_held();
	control_assert_no_ring();
	if (sock_has_connection(so) || !uses_link(so, ifindex))
		return;
	if (anew)
		kind->detach(so);
	else if (so->inet == INET_LISTEN)
		del_flows_on(so, ifindex);
	leave_home(so, ifindex);
	if (anew)
		kind->attach_anew(so); /* to other interfaces, if there are any */
}

void sock_device_changed(struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	sock_follow_scope(so);
	if (sock_kind_of(so)->device_changed)
		sock_kind_of(so)->device_changed(so);
}
