/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast membership.  The kernel twin joins as well: the kernel does IGMP and MLD, and knows
 * which senders a socket wants; it is asked after each call (mcast_twin.h).  Here a match for each
 * group and interface brings the frames to the socket.
 */
#include "sock/udp/mcast.h"

#include <errno.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "net/netlink/netlink.h"
#include "sock/core/kind.h"
#include "sock/core/rules/rules.h"
#include "sock/core/rules/strict.h"
#include "sock/udp/mcast_twin.h"

/* A membership, whether or not its match is in place. */
struct membership {
	struct list link; /* of udp_state->groups */
	struct inaddr group;
	int ifindex;
	bool overheard;		       /* another socket joined: IP_MULTICAST_ALL, or see below */
	struct mcast_sources *sources; /* NULL: all senders */
	struct sock_flow *flow;	       /* NULL: the kernel receives for it */
};

static struct membership *membership_of(struct list *link)
{
	return container_of(link, struct membership, link);
}

static struct membership *find(struct inet_sock *so, const struct inaddr *group, int ifindex)
{
	list_for_each(link, &so->udp.groups) {
		struct membership *m = membership_of(link);

		if (addr_eq(&m->group, group) && m->ifindex == ifindex)
			return m;
	}
	return NULL;
}

bool mcast_wants(const struct mcast_sources *sources, const struct inaddr *from)
{
	return !sources || mcast_accepts(sources->exclude, sources->addr, sources->n, from);
}

/*
 * Does a socket that has joined the group want the sender?  Then the interface accepts it.  What has
 * another function is moving, and is taken for such a socket.
 */
static bool is_accepted(const struct ring *ring, const struct sock_flow *f,
			const struct inaddr *from)
{
	struct flow *flow = flow_lookup(&ring->flows, &f->flow.key);

	for (; flow; flow = flow_next(flow)) {
		const struct sock_match *match = container_of(flow, struct sock_match, f.flow);

		if (flow->deliver != f->flow.deliver ||
		    (!match->part.overheard && mcast_wants(match->part.sources, from)))
			return true;
	}
	return false;
}

bool mcast_takes(const struct ring *ring, struct sock_flow *f, const struct pkt *pkt)
{
	const struct mcast_part *part = &sock_match_of(f)->part;
	struct endpoint from = frame_source(pkt);

	if (!mcast_wants(part->sources, &from.addr))
		return false;
	/* Of IPv4 the kernel is asked: ring/source.h. */
	return !part->overheard || addr_is_v4(&from.addr) || is_accepted(ring, f, &from.addr);
}

bool mcast_is_from_peer(const struct inet_sock *so, const struct pkt *pkt)
{
	struct endpoint from = frame_source(pkt);

	return !so->udp.connected ||
	       (so->remote.port == from.port && addr_eq(&so->remote.addr, &from.addr));
}

bool mcast_takes_run(const struct ring *ring, struct sock_flow *f, const struct pkt *first)
{
	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	return __atomic_load_n(&f->so->sk.home, __ATOMIC_ACQUIRE) == ring &&
	       mcast_takes(ring, f, first) && mcast_is_from_peer(f->so, first);
}

/* A socket bound to a unicast address gets no multicast: ip(7), ipv6(7). */
static bool may_receive(const struct inet_sock *so, const struct membership *m)
{
	if (so->opt->bind_ifindex && so->opt->bind_ifindex != m->ifindex)
		return false;
	return !so->bound_addr || addr_eq(&so->local.addr, &m->group);
}

static enum verdict add_match(struct inet_sock *so, struct membership *m)
{
	struct mcast_part part = {.sources = m->sources, .overheard = m->overheard};
	enum verdict verdict = sock_start_for(so);
	struct flow_key key;
	struct ring *ring;
	struct link link;
	int rc;

	if (verdict != VERDICT_ACCELERATED)
		return verdict;
	if (link_get(m->ifindex, &link))
		return VERDICT_INTERFACE;
	if (link.loopback)
		return VERDICT_LOOPBACK;
	verdict = sock_link_verdict(&link);
	if (verdict != VERDICT_ACCELERATED)
		return verdict;
	ring = sock_rx_ring(so, m->ifindex, &so->local.addr);
	if (!ring)
		return VERDICT_PORT_FAILED;
	sock_adopt_home(so, ring);
	memset(&key, 0, sizeof(key));
	key.local = m->group;
	key.local_port = so->local.port;
	key.proto = IPPROTO_UDP;
	rc = sock_flow_add_group(so, ring, &key, &part, &m->flow);
	if (!rc)
		return VERDICT_ACCELERATED;
	log_debug("fd %d: group is left to the kernel: %s", sock_twin(&so->sk), strerror(-rc));
	return VERDICT_FLOW;
}

/* Puts the match in place if the socket may have it.  0, or the error of strict_check(). */
static int steer(struct inet_sock *so, struct membership *m)
{
	struct endpoint to = {.addr = m->group, .port = so->local.port};
	enum conf_says says;
	enum verdict verdict;

	if (m->flow || !so->bound || !may_receive(so, m))
		return 0;
	says = rules_ask(so, CONF_UDP_RECEIVER, &to, NULL);
	if (says == CONF_OS)
		return 0;
	verdict = add_match(so, m);
	if (verdict == VERDICT_ACCELERATED) {
		so->verdict = verdict;
		sock_stats_verdict(so);
	}
	/* Nobody asked for what the socket overhears. */
	return m->overheard ? 0 : strict_check(so, says, verdict);
}

/* NULL: no memory, the twin receives for it. */
static struct membership *add(struct inet_sock *so, const struct inaddr *group, int ifindex)
{
	struct membership *m = mem_zalloc(sizeof(*m));

	if (!m)
		return NULL;
	m->group = *group;
	m->ifindex = ifindex;
	list_push_back(&so->udp.groups, &m->link);
	return m;
}

static void drop(struct membership *m)
{
	if (m->flow)
		sock_flow_del(m->flow);
	list_remove(&m->link);
	mem_free(m->sources);
	mem_free(m);
}

/* ---- who overhears what others joined ----------------------------------------------------- */

static bool has_port(const struct inet_sock *so, uint16_t port)
{
	return so->inet == INET_UDP && so->bound && so->local.port == port;
}

/* The first membership of its own in the group, of any interface; or NULL. */
static const struct membership *joined(struct inet_sock *so, const struct inaddr *group)
{
	list_for_each(link, &so->udp.groups) {
		const struct membership *m = membership_of(link);

		if (!m->overheard && addr_eq(&m->group, group))
			return m;
	}
	return NULL;
}

/*
 * The kernel gives a datagram to every socket of the port that wants all multicast
 * (IP_MULTICAST_ALL, IPV6_MULTICAST_ALL) and has no membership of its own in the group.  Of IPv6 it
 * does not look at the membership's interface: one in the group is one on all interfaces, as long as
 * somebody has joined there, with the same senders.
 */
static bool overhears(struct inet_sock *so, const struct membership *m)
{
	struct membership *own = find(so, &m->group, m->ifindex);

	if (!may_receive(so, m) || (own && !own->overheard))
		return false;
	return addr_is_v4(&m->group) ? so->opt->mc_all : so->opt->mc_all6 || joined(so, &m->group);
}

/* The senders that it wants of what it overhears; see overhears(). */
static void copy_sources(struct inet_sock *so, struct membership *mine)
{
	const struct membership *own = addr_is_v4(&mine->group) ? NULL : joined(so, &mine->group);
	size_t size;

	if (!own || !own->sources)
		return;
	size = sizeof(*own->sources) + own->sources->n * sizeof(own->sources->addr[0]);
	mine->sources = mem_alloc(size);
	if (mine->sources)
		memcpy(mine->sources, own->sources, size);
}

struct follow {
	uint16_t port;
	const struct inet_sock *without; /* is about to be removed */
	struct inet_sock *so;		 /* the socket that overhears */
	const struct membership *m;	 /* the membership that it overhears */
	bool carried;			 /* a socket has joined the group */
};

static void look_for_carrier(struct inet_sock *so, void *arg)
{
	struct follow *f = arg;
	struct membership *m;

	if (so == f->so || so == f->without || !has_port(so, f->port))
		return;
	m = find(so, &f->m->group, f->m->ifindex);
	f->carried |= m && !m->overheard && m->flow;
}

static void drop_silent(struct follow *f)
{
	list_for_each_safe(link, &f->so->udp.groups) {
		struct membership *m = membership_of(link);

		f->m = m;
		f->carried = false;
		if (!m->overheard)
			continue;
		if (overhears(f->so, m))
			sock_each(look_for_carrier, f);
		if (!f->carried)
			drop(m);
	}
}

static void overhear(struct inet_sock *so, void *arg)
{
	struct follow *f = arg;

	if (so == f->so || so == f->without || !has_port(so, f->port))
		return;
	list_for_each(link, &so->udp.groups) {
		const struct membership *m = membership_of(link);
		struct membership *mine;

		if (m->overheard || !m->flow || !overhears(f->so, m) ||
		    find(f->so, &m->group, m->ifindex))
			continue;
		mine = add(f->so, &m->group, m->ifindex);
		if (!mine)
			return;
		mine->overheard = true;
		copy_sources(f->so, mine);
		steer(f->so, mine);
	}
}

static void follow_one(struct inet_sock *so, void *arg)
{
	struct follow *f = arg;

	if (so == f->without || !has_port(so, f->port))
		return;
	f->so = so;
	sock_upcalls.move_settle(so);
	drop_silent(f);
	sock_each(overhear, f);
}

/* Memberships of sockets of the port changed. */
static void follow(uint16_t port, const struct inet_sock *without)
{
	struct follow f = {.port = port, .without = without};

	if (sock_ports_may_be_shared)
		sock_each(follow_one, &f);
}

void mcast_all_changed(struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	if (so->udp.local)
		sock_upcalls.local_groups(so);
	if (so->bound)
		follow(so->local.port, NULL);
}

/* ---- a socket begins, changes, ends --------------------------------------------------------- */

void mcast_each_own(const struct inet_sock *so,
		    void (*fn)(const struct inaddr *group, int ifindex,
			       const struct mcast_sources *sources, void *arg),
		    void *arg)
{
	control_assert_no_ring();
	control_assert_held();
	list_for_each(link, &so->udp.groups) {
		const struct membership *m = membership_of(link);

		if (!m->overheard && addr_is_v4(&m->group))
			fn(&m->group, m->ifindex, m->sources, arg);
	}
}

/* Local senders, and readers of the statistics, know these groups. */
static void publish_groups(struct inet_sock *so)
{
	struct stats_sock *stats = sock_stats(so);
	uint32_t n = 0;

	if (so->udp.local)
		sock_upcalls.local_groups(so);
	if (!stats)
		return;
	list_for_each(link, &so->udp.groups) {
		const struct inaddr *group = &membership_of(link)->group;

		if (!addr_is_v4(group)) /* the page has no room for their addresses */
			continue;
		if (n < STATS_GROUPS)
			stats->groups[n] = addr_v4_of(group);
		n++;
	}
	__atomic_store_n(&stats->n_groups, n, __ATOMIC_RELAXED);
}

int mcast_attach(struct inet_sock *so)
{
	int rc = 0;

	control_assert_held();
	control_assert_no_ring();
	list_for_each(link, &so->udp.groups) {
		int one = steer(so, membership_of(link));

		rc = rc ? rc : one;
	}
	publish_groups(so);
	follow(so->local.port, NULL);
	return rc;
}

void mcast_leave_to_kernel(struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	sock_upcalls.move_settle(so);
	list_for_each(link, &so->udp.groups) {
		struct membership *m = membership_of(link);

		if (m->flow)
			sock_flow_del(m->flow);
		m->flow = NULL;
	}
	sock_rings_changed(so);
}

void mcast_detach(struct inet_sock *so)
{
	control_assert_held();
	control_assert_no_ring();
	if (so->inet != INET_UDP)
		return;
	list_for_each(link, &so->udp.groups)
		membership_of(link)->flow = NULL;
}

void mcast_forget(struct inet_sock *so)
{
	struct list *link;

	control_assert_held();
	control_assert_no_ring();
	if (so->inet != INET_UDP || list_empty(&so->udp.groups))
		return;
	while ((link = list_pop_front(&so->udp.groups))) {
		mem_free(membership_of(link)->sources);
		mem_free(membership_of(link));
	}
	if (so->bound)
		follow(so->local.port, so);
}

/* ---- what the twin has after a call ----------------------------------------------------------- */

/* Consumes sources. */
static void exchange_sources(struct membership *m, struct mcast_sources *sources)
{
	struct mcast_sources *before = m->sources;

	m->sources = sources;
	if (m->flow && ring_hold_cold(m->flow->ring)) {
		sock_match_of(m->flow)->part.sources = sources;
		ring_release_cold(m->flow->ring);
	}
	mem_free(before);
}

/* 0, or the error of strict_check(). */
static int refresh(struct inet_sock *so, const struct inaddr *group, int ifindex)
{
	struct membership *m = find(so, group, ifindex);
	struct mcast_sources *sources = NULL;
	int rc = mcast_twin_sources(so, group, ifindex, &sources);

	/*
	 * The program says itself now what it wants of a group that the socket only
	 * overheard.  A membership that cannot be served here is left to the twin.
	 */
	if (m && (rc || m->overheard)) {
		drop(m);
		m = NULL;
	}
	if (rc)
		return 0;
	if (!m)
		m = add(so, group, ifindex);
	if (!m) {
		mem_free(sources);
		return 0;
	}
	exchange_sources(m, sources);
	return steer(so, m);
}

/* Of IPv6: what follows from the membership that is about to change.  follow() adds it again. */
static void drop_followers(struct inet_sock *so, const struct inaddr *group)
{
	list_for_each_safe(link, &so->udp.groups) {
		struct membership *m = membership_of(link);

		if (m->overheard && !addr_is_v4(group) && addr_eq(&m->group, group))
			drop(m);
	}
}

/*
 * The program named ifindex, or none (0): then the membership of any interface may have
 * changed.
 */
static int changed(struct inet_sock *so, const struct inaddr *group, int ifindex)
{
	int chosen = ifindex ? ifindex : mcast_default_interface(group), rc = 0;

	drop_followers(so, group);
	list_for_each_safe(link, &so->udp.groups) {
		const struct membership *m = membership_of(link);

		if (addr_eq(&m->group, group) && m->ifindex != chosen && !m->overheard)
			refresh(so, group, m->ifindex);
	}
	if (chosen)
		rc = refresh(so, group, chosen);
	if (so->bound)
		follow(so->local.port, NULL);
	return rc;
}

/* Strict: the group that was just joined cannot be received here, so it is left again. */
static void leave_again(struct inet_sock *so, const struct mcast_request *req)
{
	if (!mcast_twin_leave(so, req))
		changed(so, &req->group, req->ifindex);
}

int mcast_setsockopt(struct inet_sock *so, int level, int name, const void *val, socklen_t len)
{
	int rc = sys_setsockopt(sock_twin(&so->sk), level, name, val, len);
	struct mcast_request req;

	control_assert_held();
	control_assert_no_ring();
	if (rc)
		return rc;
	sock_upcalls.move_settle(so);
	mcast_read_request(level, name, val, len, &req);
	if (addr_is_multicast(&req.group) && sock_start_for(so) == VERDICT_ACCELERATED) {
		netlink_expire(); /* the kernel refuses senders that a filter excludes */
		rc = changed(so, &req.group, req.ifindex);
		if (rc && req.join)
			leave_again(so, &req);
		publish_groups(so);
	}
	return req.join ? rc : 0;
}
