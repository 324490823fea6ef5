/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of neighbours, updated by events as those of netlink_cache.c. */
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/sys.h"
#include "net/netlink/netlink_internal.h"

#define BUCKET_BITS 8
#define DISCARD 9

struct neigh_entry {
	struct list entry;
	uint32_t epoch; /* as in netlink_cache.c */
	int ifindex;
	enum neigh_state state;
	bool fixed; /* in the kernel's last answer: it is not resolved, but set */
	uint8_t mac[6];
	struct inaddr addr;
};

static struct list neigh_buckets[1 << BUCKET_BITS];

#define entry_of(pos) container_of(pos, struct neigh_entry, entry)

static void report_neigh(const struct neigh_entry *neigh)
{
	struct cache_event *e = cache_add_event(neigh->ifindex);

	if (!e)
		return;
	e->state = neigh->state;
	e->addr = neigh->addr;
	memcpy(e->mac, neigh->mac, sizeof(e->mac));
}

static struct list *neigh_bucket(int ifindex, const struct inaddr *addr)
{
	uint64_t h = (addr->q[0] ^ addr->q[1] ^ (uint32_t)ifindex) * 0x9e3779b97f4a7c15;

	return &neigh_buckets[h >> (64 - BUCKET_BITS)];
}

static struct neigh_entry *find_neigh(int ifindex, const struct inaddr *addr)
{
	list_for_each(pos, neigh_bucket(ifindex, addr)) {
		struct neigh_entry *n = entry_of(pos);

		if (n->ifindex == ifindex && addr_eq(&n->addr, addr))
			return n;
	}
	return NULL;
}

static enum neigh_state state_of(uint16_t nud)
{
	if (nud & (NUD_NOARP | NUD_PERMANENT | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE))
		return NEIGH_REACHABLE;
	return nud & NUD_FAILED ? NEIGH_FAILED : NEIGH_UNKNOWN;
}

/* A deleted entry becomes NEIGH_UNKNOWN. */
static bool parse_neigh(struct nlmsghdr *msg, struct neigh_entry *out)
{
	struct nlattr *tb[NDA_MAX + 1];
	struct ndmsg *head = nlmsg_data(msg);

	if (nlmsg_parse(msg, sizeof(*head), tb, NDA_MAX, NULL) < 0)
		return false;
	if ((head->ndm_flags & NTF_PROXY) || !tb[NDA_DST] ||
	    !netlink_attr_addr(tb[NDA_DST], head->ndm_family, &out->addr))
		return false; /* a bridge's entry, or proxy ARP */
	out->ifindex = head->ndm_ifindex;
	out->state = msg->nlmsg_type == RTM_NEWNEIGH ? state_of(head->ndm_state) : NEIGH_UNKNOWN;
	out->fixed = head->ndm_state & (NUD_PERMANENT | NUD_NOARP);
	memset(out->mac, 0, sizeof(out->mac));
	if (out->state == NEIGH_REACHABLE && tb[NDA_LLADDR] &&
	    nla_len(tb[NDA_LLADDR]) == sizeof(out->mac))
		memcpy(out->mac, nla_data(tb[NDA_LLADDR]), sizeof(out->mac));
	return true;
}

static void remove_neigh(struct neigh_entry *n)
{
	if (n->state != NEIGH_UNKNOWN) {
		n->state = NEIGH_UNKNOWN;
		memset(n->mac, 0, sizeof(n->mac));
		report_neigh(n);
	}
	list_remove(&n->entry);
	mem_free(n);
}

static void neigh_reply(struct nlmsghdr *msg, void *arg)
{
	struct neigh_entry *n = arg, parsed;

	if (parse_neigh(msg, &parsed) && addr_eq(&parsed.addr, &n->addr)) {
		n->state = parsed.state;
		n->fixed = parsed.fixed;
		memcpy(n->mac, parsed.mac, sizeof(n->mac));
	}
}

/* Asks the kernel for an entry. */
static void ask_neigh(struct neigh_entry *n)
{
	struct ndmsg head = {.ndm_family = (uint8_t)addr_family(&n->addr),
			     .ndm_ifindex = n->ifindex};
	struct netlink_request rq;

	netlink_request_init(&rq, RTM_GETNEIGH, 0, &head, sizeof(head));
	netlink_request_addr(&rq, NDA_DST, &n->addr);
	netlink_ask(&rq, neigh_reply, n); /* on error the state stays NEIGH_UNKNOWN */
}

/*
 * Unlike a dump, an event may be old: neigh_use() may have restarted resolution after the failure
 * that it reports, and that resolution has not ended. So the kernel is asked for the current state.
 */
static void refresh_failed(const struct nlmsghdr *msg, struct neigh_entry *neigh)
{
	if (neigh->state != NEIGH_FAILED || msg->nlmsg_seq)
		return;
	neigh->state = NEIGH_UNKNOWN;
	ask_neigh(neigh);
}

void neigh_apply(struct nlmsghdr *msg, uint32_t epoch)
{
	struct neigh_entry neigh, *n;

	if (!parse_neigh(msg, &neigh))
		return;
	refresh_failed(msg, &neigh);
	n = find_neigh(neigh.ifindex, &neigh.addr);
	if (neigh.state == NEIGH_UNKNOWN) {
		if (n)
			remove_neigh(n);
		return;
	}
	if (!n) {
		n = cache_new_entry(sizeof(*n));
		if (!n)
			return;
		n->ifindex = neigh.ifindex;
		n->addr = neigh.addr;
		list_push_back(neigh_bucket(n->ifindex, &n->addr), &n->entry);
	}
	n->epoch = epoch;
	if (n->state == neigh.state && memcmp(n->mac, neigh.mac, sizeof(n->mac)) == 0)
		return;
	n->state = neigh.state;
	memcpy(n->mac, neigh.mac, sizeof(n->mac));
	report_neigh(n);
}

/*
 * If the entry had failed, it is being resolved again: removes it, so that a new failure is
 * reported.
 */
static void forget_failure(int ifindex, const struct inaddr *addr)
{
	struct neigh_entry *n = find_neigh(ifindex, addr);

	if (n && n->state == NEIGH_FAILED) {
		n->state = NEIGH_UNKNOWN;
		remove_neigh(n);
	}
}

void neigh_table_init(void)
{
	for (size_t i = 0; i < 1 << BUCKET_BITS; i++)
		list_init(&neigh_buckets[i]);
}

void neigh_sweep(uint32_t epoch)
{
	for (size_t i = 0; i < 1 << BUCKET_BITS; i++) {
		list_for_each_safe(pos, &neigh_buckets[i]) {
			if (entry_of(pos)->epoch != epoch)
				remove_neigh(entry_of(pos));
		}
	}
}

/* ---- questions ------------------------------------------------------------------- */

enum neigh_state neigh_get(int ifindex, const struct inaddr *addr, uint8_t mac[6])
{
	struct neigh_entry n = {.ifindex = ifindex, .addr = *addr, .state = NEIGH_UNKNOWN};
	const struct neigh_entry *known;

	netlink_lock();
	known = find_neigh(ifindex, addr);
	if (known)
		n = *known;
	else
		ask_neigh(&n);
	netlink_unlock();
	if (n.state == NEIGH_REACHABLE)
		memcpy(mac, n.mac, sizeof(n.mac));
	return n.state;
}

/*
 * Sends an empty datagram to the discard port (RFC 863) on the interface, so that the kernel
 * resolves the neighbour: without CAP_NET_ADMIN, or when the kernel has to take the source of the
 * solicitation from a packet.
 */
static int send_to_neighbour(int ifindex, const struct inaddr *addr)
{
	bool v4 = addr_is_v4(addr);
	struct sockaddr_in6 to6 = {.sin6_family = AF_INET6,
				   .sin6_port = htons(DISCARD),
				   .sin6_scope_id = (uint32_t)ifindex};
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(DISCARD),
				 .sin_addr.s_addr = v4 ? addr_v4_of(addr) : 0};
	int fd = sys_socket(addr_family(addr), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct msghdr msg = {.msg_name = v4 ? (void *)&to : &to6,
			     .msg_namelen = v4 ? sizeof(to) : sizeof(to6)};
	int ttl = 1, rc;

	if (fd < 0)
		return fd;
	memcpy(&to6.sin6_addr, addr, sizeof(to6.sin6_addr));
	rc = sys_setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &ifindex, sizeof(ifindex));
	if (!rc)
		rc = v4 ? sys_setsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl))
			: sys_setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &ttl, sizeof(ttl));
	if (!rc)
		rc = (int)sys_sendmsg(fd, &msg, MSG_NOSIGNAL);
	sys_close(fd);
	return rc;
}

/* netlink lock */
static bool is_fixed(int ifindex, const struct inaddr *addr)
{
	struct neigh_entry n = {.ifindex = ifindex, .addr = *addr};

	ask_neigh(&n);
	return n.fixed;
}

int neigh_use(int ifindex, const struct inaddr *addr)
{
	struct ndmsg head = {.ndm_family = (uint8_t)addr_family(addr),
			     .ndm_ifindex = ifindex,
			     .ndm_flags = NTF_USE};
	struct netlink_request rq;
	uint8_t mac[6];
	bool packet;
	int rc = 0;

	netlink_request_init(&rq, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, &head, sizeof(head));
	netlink_request_addr(&rq, NDA_DST, addr);
	netlink_lock();
	/* NTF_USE would make it an ordinary one, which is resolved again (Linux 5.16). */
	if (is_fixed(ifindex, addr)) {
		netlink_unlock();
		return 0;
	}
	/*
	 * Without a packet the source is the link-local address, and as long as that is tentative
	 * (RFC 4862 section 5.4) or missing, nothing is sent.
	 */
	packet = !addr_is_v4(addr) && !cache_has_link_local(ifindex);
	if (!packet)
		rc = netlink_ask(&rq, NULL, NULL);
	if (!rc)
		forget_failure(ifindex, addr);
	netlink_unlock();
	if ((packet || rc == -EPERM) && neigh_get(ifindex, addr, mac) != NEIGH_REACHABLE)
		rc = send_to_neighbour(ifindex, addr);
	return rc;
}
