/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/udp/mcast_twin.h"

#include <errno.h>
#include <net/if.h>

#include "base/mem.h"
#include "base/sys.h"
#include "base/user.h"
#include "net/netlink/netlink.h"

#define SOURCES_AT_FIRST 16 /* net.ipv4.igmp_max_msf is 10 by default */

static int level_of(const struct inaddr *group)
{
	return addr_is_v4(group) ? IPPROTO_IP : IPPROTO_IPV6;
}

static void put_group(const struct inaddr *group, struct sockaddr_storage *to)
{
	const struct endpoint ep = {.addr = *group};
	socklen_t len = sizeof(*to);

	endpoint_to_sockaddr(&ep, addr_is_v4(group) ? AF_INET : AF_INET6, (struct sockaddr *)to,
			     &len);
}

static bool read_addr(const struct sockaddr_storage *from, struct inaddr *addr)
{
	const struct sockaddr *sa = (const struct sockaddr *)from;
	struct endpoint ep;

	if (!endpoint_from_sin(&ep, sa, sizeof(*from)) &&
	    !endpoint_from_sin6(&ep, sa, sizeof(*from)))
		return false;
	*addr = ep.addr;
	return true;
}

/* ---- what the twin has ---------------------------------------------------------------------- */

/* The caller frees *f. */
static int ask(const struct inet_sock *so, const struct inaddr *group, int ifindex,
	       struct group_filter **f)
{
	unsigned room = SOURCES_AT_FIRST;

	for (;;) {
		socklen_t len = (socklen_t)GROUP_FILTER_SIZE(room);
		int rc;

		*f = mem_zalloc(len);
		if (!*f)
			return -ENOMEM;
		(*f)->gf_interface = (uint32_t)ifindex;
		(*f)->gf_numsrc = room;
		put_group(group, &(*f)->gf_group);
		rc = sys_getsockopt(sock_twin(&so->sk), level_of(group), MCAST_MSFILTER, *f, &len);
		if (!rc && (*f)->gf_numsrc <= room)
			return 0;
		room = (*f)->gf_numsrc;
		mem_free(*f);
		if (rc)
			return rc;
	}
}

static int sources_from(const struct group_filter *f, struct mcast_sources **sources)
{
	struct mcast_sources *s;

	*sources = NULL;
	if (f->gf_fmode == MCAST_EXCLUDE && !f->gf_numsrc)
		return 0;
	s = mem_zalloc(sizeof(*s) + f->gf_numsrc * sizeof(s->addr[0]));
	if (!s)
		return -ENOMEM;
	s->exclude = f->gf_fmode == MCAST_EXCLUDE;
	s->n = f->gf_numsrc;
	for (unsigned i = 0; i < s->n; i++)
		read_addr(&f->gf_slist[i], &s->addr[i]);
	*sources = s;
	return 0;
}

int mcast_twin_sources(const struct inet_sock *so, const struct inaddr *group, int ifindex,
		       struct mcast_sources **sources)
{
	struct group_filter *f;
	int rc = ask(so, group, ifindex, &f);

	control_assert_no_ring();
	control_assert_held();
	if (rc)
		return rc;
	rc = sources_from(f, sources);
	mem_free(f);
	return rc;
}

int mcast_default_interface(const struct inaddr *group)
{
	struct route_query query = {.dst = *group, .src = addr_v4_any()};
	struct route route;

	control_assert_held();
	control_assert_no_ring();
	return route_get(&query, &route) ? 0 : route.ifindex;
}

int mcast_twin_leave(const struct inet_sock *so, const struct mcast_request *req)
{
	struct group_req leave = {
		.gr_interface = (uint32_t)(req->ifindex ? req->ifindex
							: mcast_default_interface(&req->group))};

	control_assert_no_ring();
	control_assert_held();
	put_group(&req->group, &leave.gr_group);
	return sys_setsockopt(sock_twin(&so->sk), level_of(&req->group), MCAST_LEAVE_GROUP, &leave,
			      sizeof(leave));
}

/* ---- what setsockopt was given -------------------------------------------------------------- */

static int interface_of(struct in_addr addr)
{
	struct inaddr a = addr_v4(addr.s_addr);

	return addr_is_any(&a) ? 0 : link_of_addr(&a);
}

/* ip_mreq and ip_mreqn differ in their length only. */
static int read_mreq(const void *val, socklen_t len, struct inaddr *group)
{
	struct ip_mreqn req;

	memset(&req, 0, sizeof(req));
	if (user_read(&req, val, len < sizeof(req) ? sizeof(struct ip_mreq) : sizeof(req)))
		return 0;
	*group = addr_v4(req.imr_multiaddr.s_addr);
	return req.imr_ifindex ? req.imr_ifindex : interface_of(req.imr_address);
}

static int read_mreq6(const void *val, struct inaddr *group)
{
	struct ipv6_mreq req;

	if (user_read(&req, val, sizeof(req)))
		return 0;
	memcpy(group, &req.ipv6mr_multiaddr, sizeof(*group));
	return (int)req.ipv6mr_interface;
}

static int read_source(const void *val, struct inaddr *group)
{
	struct ip_mreq_source req;

	if (user_read(&req, val, sizeof(req)))
		return 0;
	*group = addr_v4(req.imr_multiaddr.s_addr);
	return interface_of(req.imr_interface);
}

static int read_filter(const void *val, struct inaddr *group)
{
	struct ip_msfilter filter;

	if (user_read(&filter, val, IP_MSFILTER_SIZE(0)))
		return 0;
	*group = addr_v4(filter.imsf_multiaddr.s_addr);
	return interface_of(filter.imsf_interface);
}

/* All requests that leave the address family open begin like this. */
static int read_group_req(const void *val, struct inaddr *group)
{
	struct group_req req;

	if (user_read(&req, val, sizeof(req)) || !read_addr(&req.gr_group, group))
		return 0;
	return (int)req.gr_interface;
}

/* The interface, or 0. */
static int read_ip(int name, const void *val, socklen_t len, struct inaddr *group)
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

static bool is_join(int level, int name)
{
	if (name == MCAST_JOIN_GROUP || name == MCAST_JOIN_SOURCE_GROUP)
		return true;
	return level == IPPROTO_IPV6
		       ? name == IPV6_ADD_MEMBERSHIP
		       : name == IP_ADD_MEMBERSHIP || name == IP_ADD_SOURCE_MEMBERSHIP;
}

void mcast_read_request(int level, int name, const void *val, socklen_t len,
			struct mcast_request *req)
{
	control_assert_no_ring();
	control_assert_held();
	*req = (struct mcast_request){.join = is_join(level, name)};
	if (level != IPPROTO_IPV6)
		req->ifindex = read_ip(name, val, len, &req->group);
	else if (name == IPV6_ADD_MEMBERSHIP || name == IPV6_DROP_MEMBERSHIP)
		req->ifindex = read_mreq6(val, &req->group);
	else
		req->ifindex = read_group_req(val, &req->group);
}
