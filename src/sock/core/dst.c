/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/dst.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/param.h"
#include "base/sys.h"
#include "ring/local/record_ring.h"
#include "ring/rings.h"
#include "sock/core/inet_sock.h"

uint32_t dst_host_epoch;
static bool host_watched; /* any, atomic: some destination has by_host */

void dst_watch_host(void)
{
	__atomic_store_n(&host_watched, true, __ATOMIC_RELAXED);
}

/*
 * Once a second is cheap, and as fast as IGMP.  Destinations are found again whether or not
 * memberships changed.
 */
void dst_check_host(nsec_t now)
{
	static nsec_t next; /* internal thread */

	if (now < next || !__atomic_load_n(&host_watched, __ATOMIC_RELAXED))
		return;
	next = now + NSEC_PER_SEC;
	/* Pairs with dst_fresh() and dst_find(). */
	__atomic_fetch_add(&dst_host_epoch, 1, __ATOMIC_ACQ_REL);
}

/*
 * Does a line of /proc/net/igmp, or igmp6, say that the interface is in the group?  igmp has a line
 * for each interface, which sets *index, followed by one for each of its groups, as a hexadecimal
 * number in host byte order.  In igmp6 each line has both, and the group as bytes.
 */
static bool line_is_member(const char *line, int *index, int ifindex, const struct inaddr *group)
{
	char text[33];

	if (line[0] >= '0' && line[0] <= '9')
		*index = atoi(line);
	if (*index != ifindex)
		return false;
	if (addr_is_v4(group))
		return line[0] == '\t' && strtoul(line, NULL, 16) == addr_v4_of(group);
	for (unsigned i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", group->b[i]);
	return strstr(line, text) != NULL;
}

/* Is any socket of this host, twins included, a member of the group on the interface? */
static bool mcast_has_listeners(int ifindex, const struct inaddr *group)
{
	const char *file = addr_is_v4(group) ? "/proc/net/igmp" : "/proc/net/igmp6";
	char buf[16384], *line, *save = NULL;
	int fd = sys_open(file, O_RDONLY | O_CLOEXEC, 0), index = 0;
	size_t have = 0;
	ssize_t n;

	dst_watch_host();
	if (fd < 0)
		return true; /* unknown: the kernel sends, which is correct in any case */
	while (have < sizeof(buf) - 1 && (n = sys_read(fd, buf + have, sizeof(buf) - 1 - have)) > 0)
		have += (size_t)n;
	sys_close(fd);
	buf[have] = '\0';
	for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (line_is_member(line, &index, ifindex, group))
			return true;
	}
	return have == sizeof(buf) - 1; /* the file did not fit: assume that there is one */
}

static uint64_t ring_key_of(const struct dst_query *query, const struct inaddr *src)
{
	return query->alloc.logic == RING_LOGIC_IP ? ring_key(&query->alloc, src, 0) : query->key;
}

/*
 * The kernel refuses a foreign IPv4 source as it looks for the route, but not one of IPv6.  A
 * link-local one is of the interface that the program has named.
 */
static bool may_be_source(const struct dst_query *query)
{
	struct endpoint src = {.addr = query->src};

	if (addr_is_v4(&src.addr) || addr_is_any(&src.addr))
		return true;
	if (addr_is_link_local6(&src.addr) && !query->oif)
		return false;
	src.scope = addr_needs_scope(&src.addr) ? (uint32_t)query->oif : 0;
	return link_of_endpoint(&src) != 0;
}

static enum verdict find_way(const struct dst_query *query, struct dst_found *found)
{
	struct route_query rq = {.dst = query->to.addr,
				 .src = query->src,
				 .oif = query->oif,
				 .mark = query->mark,
				 .tos = query->tos};
	bool multicast = addr_is_multicast(&query->to.addr);
	enum verdict verdict;
	struct route route;
	struct link link;

	if (addr_is_loopback(&query->to.addr) || addr_is_any(&query->to.addr))
		return VERDICT_LOOPBACK;
	if (addr_is_broadcast(&query->to.addr))
		return VERDICT_BROADCAST;
	if (!may_be_source(query))
		return VERDICT_NO_ROUTE;
	if (route_get(&rq, &route))
		return VERDICT_NO_ROUTE;
	if (route.type == ROUTE_LOCAL)
		return VERDICT_LOOPBACK;
	if (route.type == ROUTE_BROADCAST)
		return VERDICT_BROADCAST;
	if (query->onlink && !addr_is_any(&route.gateway))
		return VERDICT_NO_ROUTE;
	if (route.type == ROUTE_OTHER || link_get(route.ifindex, &link))
		return VERDICT_INTERFACE;
	verdict = sock_link_verdict(&link);
	if (verdict != VERDICT_ACCELERATED)
		return verdict;
	found->src = addr_is_any(&query->src) ? route.src : query->src;
	found->ring = sock_ring_for(route.ifindex, ring_key_of(query, &found->src));
	if (!found->ring)
		return VERDICT_PORT_FAILED;
	found->metrics = route.metrics;
	found->mtu = route.mtu && route.mtu < link.mtu ? route.mtu : link.mtu;
	/* The frames of a port have the size that its MTU needed when it was opened. */
	if (found->mtu > ring_mtu(found->ring))
		found->mtu = ring_mtu(found->ring);
	if (params.mtu && found->mtu > (uint32_t)params.mtu)
		found->mtu = (uint32_t)params.mtu;
	if (multicast) {
		found->by_host = query->mc_loop;
		if (query->mc_loop && mcast_has_listeners(route.ifindex, &query->to.addr))
			return VERDICT_LOOPBACK;
		found->nexthop = query->to.addr;
		found->neigh = NEIGH_REACHABLE;
		addr_multicast_mac(&query->to.addr, found->mac);
	} else {
		found->nexthop = addr_is_any(&route.gateway) ? query->to.addr : route.gateway;
		found->neigh = neigh_get(route.ifindex, &found->nexthop, found->mac);
	}
	return VERDICT_ACCELERATED;
}

void dst_find(const struct dst_query *query, struct dst_found *found)
{
	control_assert_held();
	memset(found, 0, sizeof(*found));
	/* Read first: after a change in between, what is found counts as out of date. */
	found->generation = netlink_generation();
	/* Pairs with dst_check_host(); orders the reads of the tables after it. */
	found->host_epoch = __atomic_load_n(&dst_host_epoch, __ATOMIC_ACQUIRE);
	found->verdict = find_way(query, found);
}

void dst_resolve_neighbour(const struct dst_found *found)
{
	uint8_t mac[6];
	int ifindex;

	control_assert_no_ring();
	if (found->verdict != VERDICT_ACCELERATED || found->neigh == NEIGH_REACHABLE)
		return;
	ifindex = found->ring->ifindex;
	/* The entry is made first, so that the ring gets the answer. */
	ring_neigh_changed(found->ring, &found->nexthop, NEIGH_UNKNOWN, NULL);
	neigh_use(ifindex, &found->nexthop);
	/* The kernel may have learned it before the ring had the entry. */
	if (neigh_get(ifindex, &found->nexthop, mac) == NEIGH_REACHABLE)
		ring_neigh_changed(found->ring, &found->nexthop, NEIGH_REACHABLE, mac);
}

/* ---- holder ------------------------------------------------------------------------ */

static void neighbour_changed(struct adj_user *user, const struct adj *adj)
{
	struct dst *dst = container_of(user, struct dst, user);

	if (adj->state == NEIGH_REACHABLE)
		frame_template_set_mac(&dst->tmpl, adj->mac);
}

void dst_init(struct dst *dst)
{
	memset(dst, 0, sizeof(*dst));
	list_init(&dst->user.link);
	dst_expire(dst);
	dst->user.changed = neighbour_changed;
}

unsigned dst_unroutable_count;

void dst_set_unroutable(struct dst *dst)
{
	if (dst->unroutable)
		return;
	dst_detach(dst);
	dst->unroutable = true;
	__atomic_fetch_add(&dst_unroutable_count, 1, __ATOMIC_RELAXED);
}

static __attribute__((noinline, cold)) void end_unusual(struct dst *dst)
{
	if (dst->unroutable)
		__atomic_fetch_sub(&dst_unroutable_count, 1, __ATOMIC_RELAXED);
	dst->unroutable = false;
	if (dst->fans) {
		dst_fini(&dst->fan->wire);
		mem_free(dst->fan);
	}
	dst->fans = false;
}

void dst_fini(struct dst *dst)
{
	dst_detach(dst);
	if (dst->unroutable || dst->fans)
		end_unusual(dst);
	if (dst->ring)
		ring_put(dst->ring);
	dst->ring = NULL;
}

/* What the kernel sends has no headers here, so its destination is not known. */
bool dst_still(struct dst *dst)
{
	struct inaddr to;
	uint32_t still;

	if (!dst->ring)
		return false;
	to = frame_template_dst(&dst->tmpl);
	still = netlink_still(dst->generation, &to);
	if (!still)
		return false;
	dst->generation = still;
	return true;
}

void dst_detach(struct dst *dst)
{
	adj_user_remove(&dst->user);
	dst->adj = NULL;
}

void dst_rebind(struct dst *dst, const struct ring *from, struct ring *to)
{
	dst_expire(dst);
	if (dst->ring != from)
		return; /* it is on a third ring, and stays there */
	ring_get(to);
	ring_put(dst->ring);
	dst->ring = to;
	dst->adj = dst->unroutable ? NULL : &to->direct;
}

/* holder of home, which is the ring of the destination as well */
static void learn_neighbour(struct dst *dst, struct ring *home, const struct dst_found *found)
{
	struct adj *adj = dst->adj;

	if (found->neigh == NEIGH_REACHABLE) {
		if (adj->state != NEIGH_REACHABLE || memcmp(adj->mac, found->mac, 6) != 0)
			ring_adj_update(home, adj, NEIGH_REACHABLE, found->mac);
	} else if (adj->state == NEIGH_FAILED) {
		adj->state = NEIGH_UNKNOWN; /* the kernel is asked again */
	} else if (adj->state == NEIGH_REACHABLE) {
		/* The kernel forgot the address; the ring still knows it. */
		frame_template_set_mac(&dst->tmpl, adj->mac);
	}
	adj_user_add(adj, &dst->user);
}

int dst_template(struct frame_template *tmpl, const struct ring *ring, const uint8_t *mac,
		 const struct endpoint *to, const struct dst_headers *headers)
{
	struct frame_params fp = {.src_mac = ring_mac(ring),
				  .dst_mac = mac,
				  .src = headers->src,
				  .dst = *to,
				  .proto = headers->proto,
				  .ttl = headers->hoplimit && !headers->ttl_set ? headers->hoplimit
										: headers->ttl,
				  .tos = headers->tos,
				  .no_csum = headers->no_csum,
				  .label = headers->no_label ? FRAME_LABEL_NONE : FRAME_LABEL_AUTO};

	return frame_template_init(tmpl, &fp);
}

static void apply_local(struct dst *dst, const struct endpoint *to, const struct dst_found *found,
			const struct dst_headers *h)
{
	_Static_assert(sizeof(struct record_header) <= sizeof(dst->tmpl.bytes) &&
			       !(offsetof(struct dst, tmpl.bytes) % 8),
		       "a header has its place");
	dst->local = found->local;
	*dst_local_header(dst) = (struct record_header){.from = found->record.from,
							.to = found->record.to,
							.flags = found->record.flags,
							.from_port = h->src.port,
							.to_port = to->port,
							.ttl = h->ttl,
							.tos = h->tos};
}

/* What the twin sends, or a fan, which is taken. */
static void apply_loopback(struct dst *dst, const struct endpoint *to,
			   const struct dst_found *found, const struct dst_headers *h)
{
	if (!found->fan) {
		dst->local = found->local;
		return;
	}
	apply_local(dst, to, found, h);
	dst_local_header(dst)->ifindex = found->fan->ifindex;
	dst->fan = found->fan;
	dst->fans = true;
}

int dst_apply(struct dst *dst, struct ring *home, const struct endpoint *to,
	      const struct dst_found *found, const struct dst_headers *headers)
{
	struct frame_template tmpl;
	struct adj *adj = NULL;
	struct dst_headers h = *headers;
	int rc;

	/* First what may fail, so that the destination is unchanged after an error. */
	if (found->verdict == VERDICT_ACCELERATED) {
		if (addr_is_any(&h.src.addr))
			h.src.addr = found->src;
		h.hoplimit = found->metrics.hoplimit;
		rc = dst_template(&tmpl, found->ring, found->mac, to, &h);
		if (rc)
			return rc;
		if (found->ring == home) {
			adj = adj_get(&home->adjs, &found->nexthop);
			if (!adj)
				return -ENOMEM;
		}
	} else if (found->fan) {
		rc = dst_apply(&found->fan->wire, home, to, &found->fan->found, headers);
		if (rc)
			return rc;
	}
	dst_fini(dst);
	dst->verdict = found->verdict;
	dst->generation = found->generation;
	dst->host_epoch = found->host_epoch;
	dst->by_host = found->by_host;
	if (found->verdict == VERDICT_LOCAL)
		apply_local(dst, to, found, headers);
	if (found->verdict == VERDICT_LOOPBACK)
		apply_loopback(dst, to, found, headers);
	if (found->verdict != VERDICT_ACCELERATED)
		return 0;
	dst->tmpl = tmpl;
	dst->payload_max = (uint16_t)((found->mtu < UINT16_MAX ? found->mtu : UINT16_MAX) -
				      frame_template_ip_hdr(&tmpl) - UDP_HDR);
	dst->nexthop = found->nexthop;
	dst->adj = adj;
	if (adj)
		learn_neighbour(dst, home, found);
	dst->ring = found->ring;
	ring_get(dst->ring);
	dst->mac_known = found->neigh == NEIGH_REACHABLE;
	return 0;
}

struct tx_item {
	struct inbox_item item;
	struct inaddr nexthop;
	bool mac_known; /* the frame contains the link address already */
	struct pkt *pkt;
};

/* holder: sends a copy of a frame; mac_known: it contains the link address.  False: it cannot. */
static bool put_copy(struct ring *ring, const struct inaddr *nexthop, bool mac_known,
		     const uint8_t *frame, uint32_t len)
{
	struct adj *adj = adj_get(&ring->adjs, nexthop);
	struct pkt *pkt = adj ? ring_tx_get(ring) : NULL;

	if (!pkt || len > pkt->room) {
		if (pkt)
			pkt_free(pkt);
		return false;
	}
	memcpy(pkt->frame, frame, len);
	pkt->frame_len = len;
	if (mac_known && adj->state != NEIGH_REACHABLE)
		ring_adj_update(ring, adj, NEIGH_REACHABLE, pkt->frame);
	if (adj->state == NEIGH_REACHABLE)
		memcpy(pkt->frame, adj->mac, sizeof(adj->mac));
	ring_tx_to(ring, adj, pkt);
	return true;
}

/* holder of the destination's ring */
static void tx_item_run(struct ring *ring, struct inbox_item *item)
{
	struct tx_item *tx = container_of(item, struct tx_item, item);

	if (!put_copy(ring, &tx->nexthop, tx->mac_known, tx->pkt->frame, tx->pkt->frame_len))
		ring_drop(ring, DROP_NO_MEMORY);
	pkt_free(tx->pkt);
	mem_free(tx);
}

int dst_send_elsewhere(struct dst *dst, struct ring *home, struct pkt *pkt)
{
	struct tx_item *tx;

	if (dst->unroutable) {
		ring_drop(home, DROP_NO_ROUTE);
		pkt_free(pkt);
		return 0;
	}
	tx = dst->ring ? mem_alloc(sizeof(*tx)) : NULL;
	if (tx) {
		tx->item.run = tx_item_run;
		tx->nexthop = dst->nexthop;
		tx->mac_known = dst->mac_known;
		tx->pkt = pkt_copy(pkt);
	}
	pkt_free(pkt);
	if (!tx || !tx->pkt) {
		mem_free(tx);
		ring_drop(home, DROP_NO_MEMORY);
		return -ENOBUFS;
	}
	ring_post(dst->ring, &tx->item);
	return 0;
}

void dst_hop_get(const struct dst *dst, struct dst_hop *hop)
{
	*hop = (struct dst_hop){dst->ring, dst->nexthop, dst->mac_known};
	ring_get(hop->ring);
}

void dst_hop_put(struct dst_hop *hop)
{
	ring_put(hop->ring);
	hop->ring = NULL;
}

bool dst_hop_send(const struct dst_hop *hop, struct ring *home, const uint8_t *frame, uint32_t len)
{
	struct tx_item *tx;

	if (home->ifindex == hop->ring->ifindex)
		return put_copy(home, &hop->nexthop, hop->mac_known, frame, len);
	tx = mem_alloc(sizeof(*tx));
	if (!tx)
		return false;
	*tx = (struct tx_item){.item.run = tx_item_run,
			       .nexthop = hop->nexthop,
			       .mac_known = hop->mac_known,
			       .pkt = pkt_blank(len)};
	if (!tx->pkt) {
		mem_free(tx);
		return false;
	}
	memcpy(tx->pkt->frame, frame, len);
	tx->pkt->frame_len = len;
	ring_post(hop->ring, &tx->item);
	return true;
}
