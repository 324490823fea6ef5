/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which sockets of this host hear a datagram to a group: the kernel is asked, which knows those of all
 * programs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/in_route.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "net/netlink/netlink_ask.h"
#include "net/netlink/sock_diag.h"
#include "sock/core/control.h"
#include "sock/local/local_group.h"

/* ---- does the kernel give this host a copy? ------------------------------------------------------ */

struct attribute {
	struct rtattr head;
	uint32_t value;
};

struct route_question {
	struct nlmsghdr head;
	struct rtmsg rtm;
	struct attribute dst, src, oif;
};

static struct attribute attribute(unsigned short type, uint32_t value)
{
	return (struct attribute){{sizeof(struct attribute), type}, value};
}

/* The route for sending has a flag, as the kernel finds it for each datagram. */
int local_group_loops(const struct inaddr *group, const struct inaddr *from, int ifindex)
{
	struct route_question q = {
		.head = {.nlmsg_len = sizeof(q),
			 .nlmsg_type = RTM_GETROUTE,
			 .nlmsg_flags = NLM_F_REQUEST},
		.rtm = {.rtm_family = AF_INET, .rtm_dst_len = 32, .rtm_src_len = 32},
		.dst = attribute(RTA_DST, addr_v4_of(group)),
		.src = attribute(RTA_SRC, addr_v4_of(from)),
		.oif = attribute(RTA_OIF, (uint32_t)ifindex),
	};
	char answer[4096] __attribute__((aligned(8)));
	ssize_t n = netlink_ask_once(NETLINK_ROUTE, &q, sizeof(q), answer, sizeof(answer));
	struct nlmsghdr head;
	struct rtmsg rtm;

	control_assert_held();
	if (n < 0)
		return (int)n;
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(rtm)))
		return -EPROTO;
	memcpy(&head, answer, sizeof(head));
	memcpy(&rtm, answer + NLMSG_HDRLEN, sizeof(rtm));
	return head.nlmsg_type == RTM_NEWROUTE ? !!(rtm.rtm_flags & RTCF_LOCAL) : -EPROTO;
}

/* ---- the sockets of a port ---------------------------------------------------------------------- */

struct hearers {
	const struct endpoint *from, *to;
	int ifindex;
	uint64_t *cookies;
	unsigned n, max;
};

/*
 * As the kernel's rule for sockets of a port, but the membership, which only the socket's process knows.
 * An address of IPv6, but ::, is not that of a group of IPv4.
 */
static bool may_hear(const struct hearers *h, const struct diag_socket *s)
{
	if (s->port != h->to->port || s->v6only)
		return false;
	if (s->ifindex && s->ifindex != h->ifindex)
		return false;
	if (!addr_is_any(&s->addr) && !addr_eq(&s->addr, &h->to->addr))
		return false;
	if (addr_is_v4(&s->peer_addr) && !addr_is_any(&s->peer_addr) &&
	    !addr_eq(&s->peer_addr, &h->from->addr))
		return false;
	return !s->peer_port || s->peer_port == h->from->port;
}

static int add_socket(const struct diag_socket *s, void *arg)
{
	struct hearers *h = arg;

	if (!may_hear(h, s))
		return 0;
	if (h->n == h->max)
		return -E2BIG;
	h->cookies[h->n++] = s->cookie;
	return 0;
}

int local_group_hearers(uint8_t protocol, const struct endpoint *from, const struct endpoint *to,
			int ifindex, uint64_t *cookies, unsigned max)
{
	struct hearers h = {from, to, ifindex, cookies, 0, max};
	struct diag_query query = {
		.family = AF_INET, .protocol = protocol, .states = UINT32_MAX, .port = to->port};
	int rc = diag_each(&query, add_socket, &h);

	control_assert_held();
	query.family = AF_INET6;
	if (!rc)
		rc = diag_each(&query, add_socket, &h);
	return rc ? rc : (int)h.n;
}
