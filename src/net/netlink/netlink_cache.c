/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of links and addresses, updated by events and whole dumps only.  If the answer to a
 * single request were applied too, the event that follows would change nothing, and the
 * threads that wait for this event would not be told.
 */
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/netlink/netlink_internal.h"

struct link_entry {
	struct list entry;
	uint32_t epoch; /* of the last dump or event that had it */
	struct link link;
};

struct addr_entry {
	struct list entry;
	uint32_t epoch;
	int ifindex;
	uint8_t prefix_len; /* a link may have one address with several prefix lengths */
	struct inaddr addr;
};

static struct {
	struct list links; /* in the kernel's order */
	struct list addrs; /* in the kernel's order: primary addresses first */
	uint32_t epoch;
	struct cache_event *events;
	size_t n_events, max_events;
} cache;

#define entry_of(pos, type) container_of(pos, struct type, entry)

/* ---- events -------------------------------------------------------------------- */

struct cache_event *cache_add_event(int ifindex)
{
	if (cache.n_events == cache.max_events) {
		size_t max = cache.max_events ? 2 * cache.max_events : 16;
		struct cache_event *more = mem_realloc(cache.events, max * sizeof(*more));

		if (!more)
			return NULL;
		cache.events = more;
		cache.max_events = max;
	}
	memset(&cache.events[cache.n_events], 0, sizeof(cache.events[0]));
	cache.events[cache.n_events].ifindex = ifindex;
	return &cache.events[cache.n_events++];
}

static void report_link(int ifindex)
{
	struct cache_event *e = cache_add_event(ifindex);

	if (e)
		e->kind = CACHE_LINK;
}

size_t cache_take_events(struct cache_event **events)
{
	size_t n = cache.n_events;

	*events = cache.events;
	cache.events = NULL;
	cache.n_events = cache.max_events = 0;
	return n;
}

void *cache_new_entry(size_t size)
{
	void *entry = mem_zalloc(size);

	if (!entry)
		log_warn("netlink: no memory for an entry of the kernel's tables; it is left out");
	return entry;
}

/* ---- links --------------------------------------------------------------------- */

static struct link_entry *find_link(int ifindex)
{
	list_for_each(pos, &cache.links) {
		struct link_entry *l = entry_of(pos, link_entry);

		if (l->link.ifindex == ifindex)
			return l;
	}
	return NULL;
}

static void parse_kind(struct nlattr *linkinfo, struct link *link)
{
	struct nlattr *tb[IFLA_INFO_MAX + 1];

	if (nla_parse_nested(tb, IFLA_INFO_MAX, linkinfo, NULL) < 0)
		return;
	if (tb[IFLA_INFO_KIND])
		nla_strlcpy(link->kind, tb[IFLA_INFO_KIND], sizeof(link->kind));
	bond_parse(tb, link);
}

/* False for a message that does not describe a link (bridge ports, wireless). */
static bool parse_link(struct nlmsghdr *msg, struct link *link)
{
	static const struct nla_policy policy[IFLA_MAX + 1] = {
		[IFLA_IFNAME] = {.type = NLA_STRING, .maxlen = sizeof(link->name)},
		[IFLA_MTU] = {.type = NLA_U32},
		[IFLA_MASTER] = {.type = NLA_U32},
		[IFLA_LINK] = {.type = NLA_U32},
		[IFLA_LINKINFO] = {.type = NLA_NESTED},
	};
	struct nlattr *tb[IFLA_MAX + 1];
	struct ifinfomsg *head = nlmsg_data(msg);

	if (nlmsg_parse(msg, sizeof(*head), tb, IFLA_MAX, policy) < 0)
		return false;
	if (head->ifi_family != AF_UNSPEC || tb[IFLA_WIRELESS])
		return false;
	memset(link, 0, sizeof(*link));
	link->ifindex = head->ifi_index;
	link->up = (head->ifi_flags & IFF_UP) != 0;
	link->running = link->up && (head->ifi_flags & IFF_RUNNING);
	link->loopback = head->ifi_flags & IFF_LOOPBACK;
	link->ethernet = head->ifi_type == ARPHRD_ETHER;
	if (tb[IFLA_IFNAME])
		nla_strlcpy(link->name, tb[IFLA_IFNAME], sizeof(link->name));
	if (tb[IFLA_MTU])
		link->mtu = nla_get_u32(tb[IFLA_MTU]);
	if (tb[IFLA_MASTER])
		link->master = (int)nla_get_u32(tb[IFLA_MASTER]);
	if (tb[IFLA_LINK] && nla_get_u32(tb[IFLA_LINK]) != (uint32_t)link->ifindex)
		link->lower = (int)nla_get_u32(tb[IFLA_LINK]);
	link->lower_elsewhere = tb[IFLA_LINK_NETNSID] != NULL;
	if (tb[IFLA_ADDRESS] && nla_len(tb[IFLA_ADDRESS]) == sizeof(link->mac))
		memcpy(link->mac, nla_data(tb[IFLA_ADDRESS]), sizeof(link->mac));
	if (tb[IFLA_LINKINFO])
		parse_kind(tb[IFLA_LINKINFO], link);
	return true;
}

static void remove_link(struct link_entry *l)
{
	report_link(l->link.ifindex);
	list_remove(&l->entry);
	mem_free(l);
}

static bool apply_link(struct nlmsghdr *msg)
{
	struct link_entry *l;
	struct link link;

	if (!parse_link(msg, &link))
		return false;
	l = find_link(link.ifindex);
	if (msg->nlmsg_type == RTM_DELLINK) {
		if (!l)
			return false;
		remove_link(l);
		return true;
	}
	if (!l) {
		l = cache_new_entry(sizeof(*l));
		if (!l)
			return true;
		list_push_back(&cache.links, &l->entry);
	}
	l->epoch = cache.epoch;
	if (memcmp(&l->link, &link, sizeof(link)) == 0)
		return false; /* usually an update of counters */
	/* copied with its padding, which the comparison includes */
	memcpy(&l->link, &link, sizeof(link));
	report_link(link.ifindex);
	return true;
}

bool cache_link_running(int ifindex)
{
	struct link_entry *l = find_link(ifindex);

	return l && l->link.running;
}

/* ---- addresses ------------------------------------------------------------------ */

/*
 * present: the address exists and is usable; an IPv6 address is not until duplicate address
 * detection has succeeded.
 */
static bool parse_addr(struct nlmsghdr *msg, struct addr_entry *out, bool *present)
{
	static const struct nla_policy policy[IFA_MAX + 1] = {
		[IFA_FLAGS] = {.type = NLA_U32},
	};
	struct nlattr *tb[IFA_MAX + 1], *attr;
	struct ifaddrmsg *head = nlmsg_data(msg);
	uint32_t flags;

	if (nlmsg_parse(msg, sizeof(*head), tb, IFA_MAX, policy) < 0)
		return false;
	attr = tb[IFA_LOCAL] ? tb[IFA_LOCAL] : tb[IFA_ADDRESS];
	if (!attr || !netlink_attr_addr(attr, head->ifa_family, &out->addr))
		return false;
	out->ifindex = (int)head->ifa_index;
	out->prefix_len = head->ifa_prefixlen;
	flags = tb[IFA_FLAGS] ? nla_get_u32(tb[IFA_FLAGS]) : head->ifa_flags;
	*present = msg->nlmsg_type == RTM_NEWADDR &&
		   (!(flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)) || (flags & IFA_F_OPTIMISTIC));
	return true;
}

static struct addr_entry *find_addr(const struct addr_entry *like)
{
	list_for_each(pos, &cache.addrs) {
		struct addr_entry *a = entry_of(pos, addr_entry);

		if (a->ifindex == like->ifindex && a->prefix_len == like->prefix_len &&
		    addr_eq(&a->addr, &like->addr))
			return a;
	}
	return NULL;
}

/* Is it this address?  scope: of that interface, or 0. */
static bool is_addr(const struct addr_entry *a, const struct inaddr *addr, uint32_t scope)
{
	return addr_eq(&a->addr, addr) && (!scope || (uint32_t)a->ifindex == scope);
}

/* The link that has the address, or 0. */
static int find_link_of(const struct inaddr *addr, uint32_t scope)
{
	list_for_each(pos, &cache.addrs) {
		const struct addr_entry *a = entry_of(pos, addr_entry);

		if (is_addr(a, addr, scope))
			return a->ifindex;
	}
	return 0;
}

bool cache_has_link_local(int ifindex)
{
	list_for_each(pos, &cache.addrs) {
		const struct addr_entry *a = entry_of(pos, addr_entry);

		if (a->ifindex == ifindex && addr_is_link_local6(&a->addr))
			return true;
	}
	return false;
}

/* Reports that a link gained or lost the address. */
static void report_addr(int ifindex, const struct inaddr *addr)
{
	struct cache_event *e;

	report_link(ifindex);
	e = cache_add_event(ifindex);
	if (!e)
		return;
	e->kind = CACHE_ADDR;
	e->addr = *addr;
	e->present = find_link_of(addr, addr_needs_scope(addr) ? (uint32_t)ifindex : 0) != 0;
}

static void remove_addr(struct addr_entry *a)
{
	list_remove(&a->entry);
	report_addr(a->ifindex, &a->addr);
	mem_free(a);
}

static bool apply_addr(struct nlmsghdr *msg)
{
	struct addr_entry addr, *a;
	bool present;

	if (!parse_addr(msg, &addr, &present))
		return false;
	a = find_addr(&addr);
	if (!present) {
		if (!a)
			return false;
		remove_addr(a);
		return true;
	}
	if (a) {
		a->epoch = cache.epoch;
		return false; /* usually a new lifetime */
	}
	a = cache_new_entry(sizeof(*a));
	if (!a)
		return true;
	a->epoch = cache.epoch;
	a->ifindex = addr.ifindex;
	a->prefix_len = addr.prefix_len;
	a->addr = addr.addr;
	list_push_back(&cache.addrs, &a->entry);
	report_addr(a->ifindex, &a->addr);
	return true;
}

/* ---- all of them ----------------------------------------------------------------- */

void cache_init(void)
{
	list_init(&cache.links);
	list_init(&cache.addrs);
	neigh_table_init();
}

bool cache_apply(struct nlmsghdr *msg)
{
	switch (msg->nlmsg_type) {
	case RTM_NEWLINK:
	case RTM_DELLINK:
		return apply_link(msg);
	case RTM_NEWADDR:
	case RTM_DELADDR:
		return apply_addr(msg);
	case RTM_NEWNEIGH:
	case RTM_DELNEIGH:
		neigh_apply(msg, cache.epoch);
		return false;
	case RTM_NEWROUTE:
	case RTM_DELROUTE:
	case RTM_NEWRULE:
	case RTM_DELRULE:
	case RTM_NEWNETCONF: /* rp_filter */
		return true; /* not cached here, the kernel is asked */
	default:
		return false;
	}
}

void cache_sweep_begin(void)
{
	cache.epoch++;
}

void cache_sweep_end(void)
{
	list_for_each_safe(pos, &cache.links) {
		if (entry_of(pos, link_entry)->epoch != cache.epoch)
			remove_link(entry_of(pos, link_entry));
	}
	list_for_each_safe(pos, &cache.addrs) {
		if (entry_of(pos, addr_entry)->epoch != cache.epoch)
			remove_addr(entry_of(pos, addr_entry));
	}
	neigh_sweep(cache.epoch);
}

void cache_fini(bool abandon)
{
	if (!abandon) {
		cache_sweep_begin(); /* nothing is applied in between, so all are removed */
		cache_sweep_end();
		mem_free(cache.events);
	}
	memset(&cache, 0, sizeof(cache));
	cache_init();
}

/* ---- questions ------------------------------------------------------------------- */

static void link_reply(struct nlmsghdr *msg, void *arg)
{
	struct link *link = arg, parsed;

	if (msg->nlmsg_type == RTM_NEWLINK && parse_link(msg, &parsed) &&
	    parsed.ifindex == link->ifindex)
		*link = parsed;
}

/* Asks for a new link whose event was not read yet. */
static int ask_link(int ifindex, struct link *link)
{
	struct ifinfomsg head = {.ifi_index = ifindex};
	struct netlink_request rq;
	int rc;

	memset(link, 0, sizeof(*link));
	link->ifindex = ifindex;
	netlink_request_init(&rq, RTM_GETLINK, 0, &head, sizeof(head));
	rc = netlink_ask(&rq, link_reply, link);
	return rc ? rc : link->name[0] ? 0 : -ENODEV;
}

int link_get(int ifindex, struct link *link)
{
	struct link_entry *l;
	int rc = 0;

	if (ifindex <= 0)
		return -ENODEV;
	netlink_lock();
	l = find_link(ifindex);
	if (l)
		*link = l->link;
	else
		rc = netlink_pending() ? ask_link(ifindex, link) : -ENODEV;
	netlink_unlock();
	return rc;
}

struct addr_question {
	struct inaddr addr;
	uint32_t scope;
	int ifindex;
};

static void addr_reply(struct nlmsghdr *msg, void *arg)
{
	struct addr_question *q = arg;
	struct addr_entry a;
	bool present;

	if (parse_addr(msg, &a, &present) && present && is_addr(&a, &q->addr, q->scope))
		q->ifindex = a.ifindex;
}

int link_of_endpoint(const struct endpoint *ep)
{
	struct addr_question q = {.addr = ep->addr, .scope = ep->scope};

	netlink_lock();
	q.ifindex = find_link_of(&q.addr, q.scope);
	if (!q.ifindex && netlink_pending())
		netlink_dump(RTM_GETADDR, sizeof(struct ifaddrmsg), addr_reply, &q);
	netlink_unlock();
	return q.ifindex;
}

int link_of_addr(const struct inaddr *addr)
{
	const struct endpoint any_scope = {.addr = *addr};

	return link_of_endpoint(&any_scope);
}

int link_addrs(int ifindex, struct inaddr *addrs, int max)
{
	int n = 0;

	netlink_lock();
	for (int v4 = 1; v4 >= 0; v4--) {
		list_for_each(pos, &cache.addrs) {
			const struct addr_entry *a = entry_of(pos, addr_entry);

			if (a->ifindex != ifindex || addr_is_v4(&a->addr) != v4)
				continue;
			if (n < max)
				addrs[n] = a->addr;
			n++;
		}
	}
	netlink_unlock();
	return n;
}

void link_each(void (*fn)(const struct link *link, void *arg), void *arg)
{
	netlink_lock();
	list_for_each(pos, &cache.links)
		fn(&entry_of(pos, link_entry)->link, arg);
	netlink_unlock();
}

struct link_question {
	void (*fn)(const struct link *link, void *arg);
	void *arg;
};

static void each_reply(struct nlmsghdr *msg, void *arg)
{
	const struct link_question *q = arg;
	struct link link;

	if (msg->nlmsg_type == RTM_NEWLINK && parse_link(msg, &link))
		q->fn(&link, q->arg);
}

int link_each_now(void (*fn)(const struct link *link, void *arg), void *arg)
{
	struct link_question q = {fn, arg};
	int rc;

	netlink_lock();
	rc = netlink_dump_alone(RTM_GETLINK, sizeof(struct ifinfomsg), each_reply, &q);
	netlink_unlock();
	return rc;
}
