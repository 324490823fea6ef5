/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast membership.  The kernel twin joins as well, so that IGMP is the
 * kernel's; here a match per group brings the frames to the socket.
 */
#include "sock/mcast.h"

#include <errno.h>
#include <net/if.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sock/move.h"

/* A membership, whether its match is in place or not. */
struct membership {
	struct list link; /* of udp_state->groups */
	struct inaddr group;
	struct inaddr source; /* any: from everybody */
	int ifindex;
	struct sock_flow *flow; /* NULL: the kernel receives it */
};

static struct membership *find(struct inet_sock *so, const struct inaddr *group,
			       const struct inaddr *source, int ifindex)
{
	list_for_each(link, &so->udp.groups) {
		struct membership *m = container_of(link, struct membership, link);

		if (addr_eq(&m->group, group) && addr_eq(&m->source, source) &&
		    (!ifindex || m->ifindex == ifindex))
			return m;
	}
	return NULL;
}

/* The interface the kernel chose for a membership that named none. */
static int default_interface(const struct inaddr *group)
{
	struct route_query query = {.dst = *group, .src = addr_v4_any()};
	struct route route;

	return route_get(&query, &route) ? 0 : route.ifindex;
}

/* Puts the match in place if the socket can have it. */
static void steer(struct inet_sock *so, struct membership *m)
{
	struct flow_key key;
	struct ring *ring;
	struct link link;
	int rc;

	if (m->flow || !so->bound || !sock_start())
		return;
	/* Bound to an address of its own it gets no multicast: ip(7). */
	if (so->bound_addr && !addr_eq(&so->local.addr, &m->group))
		return;
	if (link_get(m->ifindex, &link) || !sock_link_usable(&link))
		return;
	ring = sock_rx_ring(so, m->ifindex, &so->local.addr);
	if (!ring)
		return;
	sock_adopt_home(so, ring);
	memset(&key, 0, sizeof(key));
	key.local = m->group;
	key.local_port = so->local.port;
	key.proto = IPPROTO_UDP;
	rc = sock_flow_add_source(so, ring, &key, &m->source, &m->flow);
	if (rc)
		log_debug("fd %d: group is left to the kernel: %s", sock_twin(&so->sk),
			  strerror(-rc));
	else
		so->verdict = VERDICT_ACCELERATED;
}

static void join(struct inet_sock *so, const struct inaddr *group, const struct inaddr *source,
		 int ifindex)
{
	struct membership *m;

	if (!ifindex)
		ifindex = default_interface(group);
	if (!ifindex || find(so, group, source, ifindex))
		return;
	m = mem_zalloc(sizeof(*m));
	if (!m)
		return; /* the twin receives it */
	m->group = *group;
	m->source = *source;
	m->ifindex = ifindex;
	list_push_back(&so->udp.groups, &m->link);
	steer(so, m);
}

static void drop(struct membership *m)
{
	if (m->flow)
		sock_flow_del(m->flow);
	list_remove(&m->link);
	mem_free(m);
}

/* Without a source: every membership of the group goes, as the kernel does it. */
static void leave(struct inet_sock *so, const struct inaddr *group, const struct inaddr *source,
		  int ifindex)
{
	list_for_each_safe(link, &so->udp.groups) {
		struct membership *m = container_of(link, struct membership, link);

		if (addr_eq(&m->group, group) && (!ifindex || m->ifindex == ifindex) &&
		    (addr_is_any(source) || addr_eq(&m->source, source)))
			drop(m);
	}
}

void mcast_attach(struct inet_sock *so)
{
	list_for_each(link, &so->udp.groups)
		steer(so, container_of(link, struct membership, link));
}

void mcast_leave_to_kernel(struct inet_sock *so)
{
	sock_move_settle(so);
	list_for_each(link, &so->udp.groups) {
		struct membership *m = container_of(link, struct membership, link);

		if (m->flow)
			sock_flow_del(m->flow);
		m->flow = NULL;
	}
	sock_rings_changed(so);
}

void mcast_detach(struct inet_sock *so)
{
	if (so->inet != INET_UDP)
		return;
	list_for_each(link, &so->udp.groups)
		container_of(link, struct membership, link)->flow = NULL;
}

void mcast_forget(struct inet_sock *so)
{
	struct list *link;

	if (so->inet != INET_UDP)
		return;
	while ((link = list_pop_front(&so->udp.groups)))
		mem_free(container_of(link, struct membership, link));
}

/* ---- what setsockopt was given ------------------------------------------------------------ */

/* ip_mreq and ip_mreqn differ in their length only. */
static bool read_interface(const void *val, socklen_t len, int *ifindex)
{
	struct ip_mreqn req;
	struct inaddr addr;

	memset(&req, 0, sizeof(req));
	if (len < sizeof(struct ip_mreq))
		return false;
	memcpy(&req, val, len < sizeof(req) ? len : sizeof(req));
	if (len < sizeof(req))
		req.imr_ifindex = 0;
	*ifindex = req.imr_ifindex;
	addr = addr_v4(req.imr_address.s_addr);
	if (!*ifindex && !addr_is_any(&addr))
		*ifindex = link_of_addr(&addr);
	return true;
}

static void change(struct inet_sock *so, int name, const void *val, socklen_t len)
{
	struct inaddr group, source = addr_v4_any(), interface;
	struct ip_mreq_source sreq;
	struct in_addr first;
	int ifindex = 0;

	memcpy(&first, val, sizeof(first));
	group = addr_v4(first.s_addr);
	if (name == IP_ADD_MEMBERSHIP || name == IP_DROP_MEMBERSHIP) {
		if (!read_interface(val, len, &ifindex))
			return;
	} else {
		memcpy(&sreq, val, sizeof(sreq));
		group = addr_v4(sreq.imr_multiaddr.s_addr);
		source = addr_v4(sreq.imr_sourceaddr.s_addr);
		interface = addr_v4(sreq.imr_interface.s_addr);
		if (!addr_is_any(&interface))
			ifindex = link_of_addr(&interface);
	}
	if (name == IP_ADD_MEMBERSHIP || name == IP_ADD_SOURCE_MEMBERSHIP)
		join(so, &group, &source, ifindex);
	else
		leave(so, &group, &source, ifindex);
}

int mcast_setsockopt(struct inet_sock *so, int name, const void *val, socklen_t len)
{
	int rc = sys_setsockopt(sock_twin(&so->sk), IPPROTO_IP, name, val, len);

	if (rc)
		return rc;
	sock_move_settle(so);
	if (sock_start())
		change(so, name, val, len);
	return 0;
}
