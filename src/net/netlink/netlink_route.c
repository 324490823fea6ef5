/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routes: the kernel is asked for each destination, and its answer is cached until any route,
 * rule, link or address changes.  There is no routing table here that could differ.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include "base/mem.h"
#include "net/netlink/netlink_internal.h"
#include "net/tcp/recovery/tcp_cc.h"

#define SLOTS 4096 /* a power of two */

/* Each query maps to one slot and replaces the previous one there. */
struct slot {
	uint32_t generation; /* valid only in this generation; 0: empty */
	struct route_query query;
	struct route route;
};

static struct slot *route_slots; /* mapped at first use; pages are allocated as they are used */

static struct slot *slot_of(const struct route_query *q)
{
	uint64_t h = q->dst.q[0] * 31 + q->dst.q[1];

	h = h * 31 + q->src.q[0];
	h = h * 31 + q->src.q[1];
	h = h * 31 + ((uint64_t)q->mark << 32 | (uint32_t)q->oif);
	h = (h * 31 + q->tos) * 0x9e3779b97f4a7c15;
	if (!route_slots)
		route_slots = mem_map(SLOTS * sizeof(*route_slots));
	return route_slots ? &route_slots[(h >> 40) % SLOTS] : NULL;
}

static bool query_eq(const struct route_query *a, const struct route_query *b)
{
	return addr_eq(&a->dst, &b->dst) && addr_eq(&a->src, &b->src) && a->oif == b->oif &&
	       a->mark == b->mark && a->tos == b->tos;
}

void route_cache_fini(bool abandon)
{
	if (route_slots && !abandon)
		mem_unmap(route_slots, SLOTS * sizeof(*route_slots));
	route_slots = NULL;
}

/* ---- the kernel's answer ------------------------------------------------------- */

struct answer {
	int error;
	struct route route;
};

static int parse_type(uint8_t type, enum route_type *to)
{
	switch (type) {
	case RTN_UNICAST:
		*to = ROUTE_UNICAST;
		return 0;
	case RTN_LOCAL:
		*to = ROUTE_LOCAL;
		return 0;
	case RTN_BROADCAST:
		*to = ROUTE_BROADCAST;
		return 0;
	case RTN_MULTICAST:
		*to = ROUTE_MULTICAST;
		return 0;
	/* For IPv4 the kernel returns the error, for IPv6 a route of this type. */
	case RTN_UNREACHABLE:
		return -EHOSTUNREACH;
	case RTN_PROHIBIT:
		return -EACCES;
	case RTN_BLACKHOLE:
		return -EINVAL;
	case RTN_THROW:
		return -ENETUNREACH;
	default:
		*to = ROUTE_OTHER;
		return 0;
	}
}

static uint16_t at_most_u16(uint32_t n)
{
	return n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
}

static uint8_t parse_congestion(struct nlattr *name)
{
	int number = tcp_cc_number_of(nla_get_string(name));

	return number < 0 ? ROUTE_CC_UNKNOWN : (uint8_t)(ROUTE_CC_FIRST + (unsigned)number);
}

/* Those that are plain numbers. 0: the route does not have it. */
static uint32_t number_in(struct nlattr *attr)
{
	return attr ? nla_get_u32(attr) : 0;
}

static void parse_metrics(struct nlattr *metrics, struct route *route)
{
	static const struct nla_policy policy[RTAX_MAX + 1] = {
		[RTAX_LOCK] = {.type = NLA_U32},       [RTAX_MTU] = {.type = NLA_U32},
		[RTAX_WINDOW] = {.type = NLA_U32},     [RTAX_ADVMSS] = {.type = NLA_U32},
		[RTAX_HOPLIMIT] = {.type = NLA_U32},   [RTAX_INITCWND] = {.type = NLA_U32},
		[RTAX_FEATURES] = {.type = NLA_U32},   [RTAX_RTO_MIN] = {.type = NLA_U32},
		[RTAX_INITRWND] = {.type = NLA_U32},   [RTAX_QUICKACK] = {.type = NLA_U32},
		[RTAX_CC_ALGO] = {.type = NLA_STRING},
	};
	uint32_t locked;
	struct route_metrics *to = &route->metrics;
	struct nlattr *tb[RTAX_MAX + 1];

	if (nla_parse_nested(tb, RTAX_MAX, metrics, policy) < 0)
		return;
	locked = number_in(tb[RTAX_LOCK]);
	route->mtu = number_in(tb[RTAX_MTU]);
	to->hoplimit = (uint8_t)number_in(tb[RTAX_HOPLIMIT]);
	to->initcwnd = at_most_u16(number_in(tb[RTAX_INITCWND]));
	/* The kernel regards it only if it is locked, and ip-route(8) locks it. */
	if (locked & 1u << RTAX_RTO_MIN)
		to->rto_min = number_in(tb[RTAX_RTO_MIN]);
	to->quickack = number_in(tb[RTAX_QUICKACK]) != 0;
	to->advmss = at_most_u16(number_in(tb[RTAX_ADVMSS]));
	to->window = number_in(tb[RTAX_WINDOW]);
	to->initrwnd = at_most_u16(number_in(tb[RTAX_INITRWND]));
	to->ecn = number_in(tb[RTAX_FEATURES]) & RTAX_FEATURE_ECN;
	if (tb[RTAX_CC_ALGO]) {
		to->cc = parse_congestion(tb[RTAX_CC_ALGO]);
		to->cc_locked = locked & 1u << RTAX_CC_ALGO;
	}
}

/* RTA_VIA: a gateway of the other address family. */
static bool parse_via(struct nlattr *attr, struct inaddr *gateway)
{
	struct rtvia via;
	size_t len = (size_t)nla_len(attr);
	uint8_t *addr = (uint8_t *)nla_data(attr) + sizeof(via);

	if (len < sizeof(via))
		return false;
	memcpy(&via, nla_data(attr), sizeof(via));
	len -= sizeof(via);
	if (via.rtvia_family != AF_INET6 || len != sizeof(*gateway))
		return false;
	memcpy(gateway, addr, len);
	return true;
}

bool route_parse_prefix(struct nlmsghdr *msg, struct route_prefix *prefix)
{
	struct nlattr *tb[RTA_MAX + 1];
	struct rtmsg *head = nlmsg_data(msg);
	bool v4 = head->rtm_family == AF_INET;

	if ((msg->nlmsg_type != RTM_NEWROUTE && msg->nlmsg_type != RTM_DELROUTE) ||
	    nlmsg_parse(msg, sizeof(*head), tb, RTA_MAX, NULL) < 0 ||
	    (!v4 && head->rtm_family != AF_INET6) || head->rtm_dst_len > (v4 ? 32 : 128))
		return false;
	prefix->addr = v4 ? addr_v4_any() : (struct inaddr){.q = {0, 0}};
	prefix->bits = head->rtm_dst_len + (v4 ? 96u : 0);
	if (tb[RTA_DST])
		return netlink_attr_addr(tb[RTA_DST], head->rtm_family, &prefix->addr);
	return head->rtm_dst_len == 0;
}

static int parse_route(struct nlmsghdr *msg, struct route *route)
{
	static const struct nla_policy policy[RTA_MAX + 1] = {
		[RTA_OIF] = {.type = NLA_U32},
		[RTA_METRICS] = {.type = NLA_NESTED},
	};
	struct rtmsg *head = nlmsg_data(msg);
	struct nlattr *tb[RTA_MAX + 1];
	int family, rc;

	if (msg->nlmsg_type != RTM_NEWROUTE ||
	    nlmsg_parse(msg, sizeof(*head), tb, RTA_MAX, policy) < 0)
		return -EBADMSG;
	rc = parse_type(head->rtm_type, &route->type);
	if (rc)
		return rc;
	if (!tb[RTA_OIF])
		return -ENETUNREACH;
	family = head->rtm_family;
	route->ifindex = (int)nla_get_u32(tb[RTA_OIF]);
	if (tb[RTA_PREFSRC])
		netlink_attr_addr(tb[RTA_PREFSRC], family, &route->src);
	if (tb[RTA_GATEWAY])
		netlink_attr_addr(tb[RTA_GATEWAY], family, &route->gateway);
	if (tb[RTA_METRICS])
		parse_metrics(tb[RTA_METRICS], route);
	/* Only the kernel can use a route with a tunnel or with a gateway that we cannot parse. */
	if (tb[RTA_ENCAP] || (tb[RTA_VIA] && !parse_via(tb[RTA_VIA], &route->gateway)))
		route->type = ROUTE_OTHER;
	return 0;
}

static void route_reply(struct nlmsghdr *msg, void *arg)
{
	struct answer *answer = arg;

	answer->error = parse_route(msg, &answer->route);
}

static int ask_route(const struct route_query *q, struct route *route)
{
	uint8_t bits = addr_is_v4(&q->dst) ? 32 : 128;
	struct rtmsg head = {.rtm_family = (uint8_t)addr_family(&q->dst),
			     .rtm_dst_len = bits,
			     .rtm_tos = q->tos};
	struct answer answer = {.error = -EBADMSG};
	struct netlink_request rq;
	int rc;

	if (!addr_is_any(&q->src)) {
		if (addr_is_v4(&q->src) != addr_is_v4(&q->dst))
			return -EAFNOSUPPORT;
		head.rtm_src_len = bits;
	}
	netlink_request_init(&rq, RTM_GETROUTE, 0, &head, sizeof(head));
	netlink_request_addr(&rq, RTA_DST, &q->dst);
	if (head.rtm_src_len)
		netlink_request_addr(&rq, RTA_SRC, &q->src);
	if (q->oif)
		netlink_request_u32(&rq, RTA_OIF, (uint32_t)q->oif);
	if (q->mark)
		netlink_request_u32(&rq, RTA_MARK, q->mark);
	answer.route.src = q->src; /* the answer does not repeat it if the query has it */
	if (addr_is_v4(&q->dst))
		answer.route.gateway = addr_v4_any();
	rc = netlink_ask(&rq, route_reply, &answer);
	if (!rc)
		rc = answer.error;
	if (!rc)
		*route = answer.route;
	return rc;
}

/* ---- would the kernel receive it? ----------------------------------------------- */

static void input_reply(struct nlmsghdr *msg, void *arg)
{
	const struct rtmsg *head = nlmsg_data(msg);
	int *accepts = arg;

	if (msg->nlmsg_type == RTM_NEWROUTE)
		*accepts = head->rtm_type == RTN_LOCAL || head->rtm_type == RTN_BROADCAST ||
			   head->rtm_type == RTN_MULTICAST;
}

/* Errors of the request itself, which say nothing about the sender. */
static bool is_no_answer(int rc)
{
	return rc == -ENOTCONN || rc == -EAGAIN || rc == -ENOBUFS || rc == -ENOMEM || rc == -EIO ||
	       rc == -EBADMSG || rc == -ENODEV || rc == -EPERM;
}

int route_ask_input(int ifindex, const struct inaddr *local, const struct inaddr *remote)
{
	uint8_t bits = addr_is_v4(local) ? 32 : 128;
	struct rtmsg head = {.rtm_family = (uint8_t)addr_family(local),
			     .rtm_dst_len = bits,
			     .rtm_src_len = bits};
	struct netlink_request rq;
	int accepts = -EBADMSG, rc;

	netlink_request_init(&rq, RTM_GETROUTE, 0, &head, sizeof(head));
	netlink_request_addr(&rq, RTA_DST, local);
	netlink_request_addr(&rq, RTA_SRC, remote);
	netlink_request_u32(&rq, RTA_IIF, (uint32_t)ifindex);
	rc = netlink_ask(&rq, input_reply, &accepts);
	if (!rc)
		return accepts;
	return is_no_answer(rc) ? rc : 0;
}

static bool is_current(struct slot *slot, uint32_t generation)
{
	uint32_t still;

	if (slot->generation == generation)
		return true;
	still = netlink_still(slot->generation, &slot->query.dst);
	if (still)
		slot->generation = still;
	return still == generation;
}

int route_lookup(const struct route_query *query, uint32_t generation, struct route *route)
{
	struct slot *slot = slot_of(query);
	/*
	 * While events are pending, a cached route may be out of date, and a new answer would be
	 * cached for too long.
	 */
	bool keep = slot && !netlink_pending();
	int rc;

	if (keep && is_current(slot, generation) && query_eq(&slot->query, query)) {
		*route = slot->route;
		return 0;
	}
	rc = ask_route(query, route);
	/*
	 * Errors are not cached: they are rare, and a program that retries wants the current state.
	 * Neither are routes through a link that is down: the kernel reports the link down before
	 * it stops routing there, and sends no event then.
	 */
	if (!rc && keep && (cache_link_running(route->ifindex) || route->type == ROUTE_LOCAL)) {
		slot->generation = generation;
		slot->query = *query;
		slot->route = *route;
	}
	return rc;
}
