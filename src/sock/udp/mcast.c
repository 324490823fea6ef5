/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast membership.  The kernel twin joins as well: the kernel does IGMP, and knows
 * which senders a socket wants; it is asked after each call.  Here a match for each group
 * and interface brings the frames to the socket.
 */
#include "sock/udp/mcast.h"

#include <errno.h>
#include <net/if.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "base/user.h"
#include "net/netlink/netlink.h"
#include "sock/core/kind.h"
#include "sock/core/rules/rules.h"
#include "sock/core/rules/strict.h"

#define SOURCES_AT_FIRST 16 /* net.ipv4.igmp_max_msf is 10 by default */

/* A membership, whether or not its match is in place. */
struct membership {
	struct list link; /* of udp_state->groups */
	struct inaddr group;
	int ifindex;
	bool overheard;		       /* another socket joined: IP_MULTICAST_ALL */
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
	uint32_t addr = addr_v4_of(from);

	for (unsigned i = 0; i < sources->n; i++) {
		if (sources->addr[i] == addr)
			return !sources->exclude;
	}
	return sources->exclude;
}

/* A socket bound to a unicast address gets no multicast: ip(7). */
static bool may_receive(const struct inet_sock *so, const struct membership *m)
{
	if (so->opt->bind_ifindex && so->opt->bind_ifindex != m->ifindex)
		return false;
	return !so->bound_addr || addr_eq(&so->local.addr, &m->group);
}

static enum verdict add_match(struct inet_sock *so, struct membership *m)
{
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
	rc = sock_flow_add_group(so, ring, &key, m->sources, &m->flow);
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

/*
 * The kernel gives a datagram to every socket of the port that wants all multicast
 * (IP_MULTICAST_ALL) and has no membership of its own in the group.
 */
static bool overhears(struct inet_sock *so, const struct membership *m)
{
	struct membership *own = find(so, &m->group, m->ifindex);

	return so->opt->mc_all && may_receive(so, m) && (!own || own->overheard);
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
	if (so->bound)
		follow(so->local.port, NULL);
}

/* ---- a socket begins, changes, ends --------------------------------------------------------- */

/* control lock: readers of the statistics see these groups. */
static void publish_groups(const struct inet_sock *so)
{
	struct stats_sock *stats = sock_stats(so);
	uint32_t n = 0;

	if (!stats)
		return;
	list_for_each(link, &so->udp.groups) {
		if (n < STATS_GROUPS)
			stats->groups[n] = addr_v4_of(&membership_of(link)->group);
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

/* -EADDRNOTAVAIL: the socket has not joined.  The caller frees *f. */
static int ask_twin(const struct inet_sock *so, const struct inaddr *group, int ifindex,
		    struct group_filter **f)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = addr_v4_of(group)};
	unsigned room = SOURCES_AT_FIRST;

	for (;;) {
		socklen_t len = (socklen_t)GROUP_FILTER_SIZE(room);
		int rc;

		*f = mem_zalloc(len);
		if (!*f)
			return -ENOMEM;
		(*f)->gf_interface = (uint32_t)ifindex;
		(*f)->gf_numsrc = room;
		memcpy(&(*f)->gf_group, &sin, sizeof(sin));
		rc = sys_getsockopt(sock_twin(&so->sk), IPPROTO_IP, MCAST_MSFILTER, *f, &len);
		if (!rc && (*f)->gf_numsrc <= room)
			return 0;
		room = (*f)->gf_numsrc;
		mem_free(*f);
		if (rc)
			return rc;
	}
}

/* NULL: all senders. */
static int sources_from(const struct group_filter *f, struct mcast_sources **sources)
{
	struct mcast_sources *s;

	*sources = NULL;
	if (f->gf_fmode == MCAST_EXCLUDE && !f->gf_numsrc)
		return 0;
	s = mem_alloc(sizeof(*s) + f->gf_numsrc * sizeof(s->addr[0]));
	if (!s)
		return -ENOMEM;
	s->exclude = f->gf_fmode == MCAST_EXCLUDE;
	s->n = f->gf_numsrc;
	for (unsigned i = 0; i < s->n; i++) {
		struct sockaddr_in sin;

		memcpy(&sin, &f->gf_slist[i], sizeof(sin));
		s->addr[i] = sin.sin_addr.s_addr;
	}
	*sources = s;
	return 0;
}

/* Consumes sources. */
static void exchange_sources(struct membership *m, struct mcast_sources *sources)
{
	struct mcast_sources *before = m->sources;

	m->sources = sources;
	if (m->flow && ring_hold_cold(m->flow->ring)) {
		sock_match_of(m->flow)->sources = sources;
		ring_release_cold(m->flow->ring);
	}
	mem_free(before);
}

/* 0, or the error of strict_check(). */
static int refresh(struct inet_sock *so, const struct inaddr *group, int ifindex)
{
	struct membership *m = find(so, group, ifindex);
	struct mcast_sources *sources = NULL;
	struct group_filter *f;
	int rc = ask_twin(so, group, ifindex, &f);

	if (!rc) {
		rc = sources_from(f, &sources);
		mem_free(f);
	}
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

/* The interface the kernel chose for a membership that named none. */
static int default_interface(const struct inaddr *group)
{
	struct route_query query = {.dst = *group, .src = addr_v4_any()};
	struct route route;

	return route_get(&query, &route) ? 0 : route.ifindex;
}

/*
 * The program named ifindex, or none (0): then the membership of any interface may have
 * changed.
 */
static int changed(struct inet_sock *so, const struct inaddr *group, int ifindex)
{
	int chosen = ifindex ? ifindex : default_interface(group), rc = 0;

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
static void leave_again(struct inet_sock *so, const struct inaddr *group, int ifindex)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = addr_v4_of(group)};
	struct group_req req = {.gr_interface =
					(uint32_t)(ifindex ? ifindex : default_interface(group))};

	memcpy(&req.gr_group, &sin, sizeof(sin));
	if (!sys_setsockopt(sock_twin(&so->sk), IPPROTO_IP, MCAST_LEAVE_GROUP, &req, sizeof(req)))
		changed(so, group, ifindex);
}

static bool is_join(int name)
{
	return name == IP_ADD_MEMBERSHIP || name == IP_ADD_SOURCE_MEMBERSHIP ||
	       name == MCAST_JOIN_GROUP || name == MCAST_JOIN_SOURCE_GROUP;
}

/* ---- what setsockopt was given ------------------------------------------------------------ */

static int interface_of(struct in_addr addr)
{
	struct inaddr a = addr_v4(addr.s_addr);

	return addr_is_any(&a) ? 0 : link_of_addr(&a);
}

/* ip_mreq and ip_mreqn differ in their length only. */
static int read_mreq(const void *val, socklen_t len, struct in_addr *group)
{
	struct ip_mreqn req;

	memset(&req, 0, sizeof(req));
	if (user_read(&req, val, len < sizeof(req) ? sizeof(struct ip_mreq) : sizeof(req)))
		return 0;
	*group = req.imr_multiaddr;
	return req.imr_ifindex ? req.imr_ifindex : interface_of(req.imr_address);
}

static int read_source(const void *val, struct in_addr *group)
{
	struct ip_mreq_source req;

	if (user_read(&req, val, sizeof(req)))
		return 0;
	*group = req.imr_multiaddr;
	return interface_of(req.imr_interface);
}

static int read_filter(const void *val, struct in_addr *group)
{
	struct ip_msfilter filter;

	if (user_read(&filter, val, IP_MSFILTER_SIZE(0)))
		return 0;
	*group = filter.imsf_multiaddr;
	return interface_of(filter.imsf_interface);
}

/* All requests without an address family begin like this. */
static int read_group_req(const void *val, struct in_addr *group)
{
	struct group_req req;
	struct sockaddr_in sin;

	if (user_read(&req, val, sizeof(req)))
		return 0;
	memcpy(&sin, &req.gr_group, sizeof(sin));
	*group = sin.sin_addr;
	return (int)req.gr_interface;
}

/* The group, and its interface or 0. */
static int read_group(int name, const void *val, socklen_t len, struct in_addr *group)
{
	switch (name) {
	case IP_ADD_MEMBERSHIP:
	case IP_DROP_MEMBERSHIP:
		return read_mreq(val, len, group);
	case IP_ADD_SOURCE_MEMBERSHIP:
	case IP_DROP_SOURCE_MEMBERSHIP:
	case IP_BLOCK_SOURCE:
	case IP_UNBLOCK_SOURCE:
		return read_source(val, group);
	case IP_MSFILTER:
		return read_filter(val, group);
	default: /* MCAST_* */
		return read_group_req(val, group);
	}
}

int mcast_setsockopt(struct inet_sock *so, int name, const void *val, socklen_t len)
{
	int rc = sys_setsockopt(sock_twin(&so->sk), IPPROTO_IP, name, val, len), ifindex;
	struct in_addr first = {0};
	struct inaddr group;

	control_assert_held();
	control_assert_no_ring();
	if (rc)
		return rc;
	sock_upcalls.move_settle(so);
	ifindex = read_group(name, val, len, &first);
	group = addr_v4(first.s_addr);
	if (addr_is_multicast(&group) && sock_start_for(so) == VERDICT_ACCELERATED) {
		netlink_expire(); /* the kernel refuses senders that a filter excludes */
		rc = changed(so, &group, ifindex);
		if (rc && is_join(name))
			leave_again(so, &group, ifindex);
		publish_groups(so);
	}
	return is_join(name) ? rc : 0;
}
