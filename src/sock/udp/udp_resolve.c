/* SPDX-License-Identifier: BSD-2-Clause */
/* Where datagrams go: the destinations of a socket, and how they are found. */
#include <errno.h>

#include "base/mem.h"
#include "base/param.h"
#include "sock/core/access.h"
#include "sock/core/msg/family.h"
#include "sock/core/rules/rules.h"
#include "sock/core/rules/strict.h"
#include "sock/core/stats/sock_stats.h"
#include "sock/udp/udp_sock.h"

/* holder: the cache entry for a destination, replaced if it was another one; NULL: no memory. */
static struct dst *cache_slot(struct inet_sock *so, const struct endpoint *to)
{
	struct udp_dst **slot;

	if (!so->udp.cache)
		so->udp.cache = mem_zalloc(UDP_DST_CACHE * sizeof(struct udp_dst *));
	if (!so->udp.cache)
		return NULL;
	slot = &so->udp.cache[udp_dst_place(to)];
	if (!*slot) {
		*slot = mem_zalloc(sizeof(**slot));
		if (*slot)
			dst_init(&(*slot)->dst);
	}
	return *slot ? &(*slot)->dst : NULL;
}

struct udp_way udp_plain_way(const struct inet_sock *so, const struct endpoint *to)
{
	struct udp_way way = {
		.to = *to,
		.src = so->bound_addr || so->udp.connected ? so->local.addr : addr_v4_any(),
		.tos = options_tos(so->opt, &to->addr),
		.ttl = addr_is_multicast(&to->addr) ? options_mc_ttl(so->opt, &to->addr)
						    : options_ttl(so->opt, &to->addr),
		.ttl_set = addr_is_multicast(&to->addr) || options_ttl_set(so->opt, &to->addr),
		.plain = true,
	};

	return way;
}

/* The interface, as far as the call and the options for datagrams of IPv6 name it; or 0. */
static int way_oif(const struct inet_sock *so, const struct udp_way *way)
{
	if (way->oif)
		return way->oif;
	return addr_is_multicast(&way->to.addr) ? so->opt->mc_ifindex6 : so->opt->uc_ifindex6;
}

/* To a group: IP_MULTICAST_IF has an address, and counts more than the device. */
static void query_group(const struct inet_sock *so, const struct inaddr *group,
			struct dst_query *query)
{
	if (addr_is_multicast(&query->src))
		query->src = addr_v4_any();
	if (!addr_is_v4(group)) {
		if (!query->oif)
			query->oif = so->opt->mc_ifindex6;
		return;
	}
	if (so->opt->mc_ifindex)
		query->oif = so->opt->mc_ifindex;
	if (addr_is_any(&query->src) && !addr_is_any(&so->opt->mc_addr))
		query->src = so->opt->mc_addr;
}

static struct dst_query query_for(const struct inet_sock *so, const struct udp_way *way)
{
	struct dst_query query = sock_way_query(so, &way->to, way->src);

	query.tos = way->tos;
	query.mc_loop = so->opt->mc_loop;
	if (addr_is_multicast(&way->to.addr))
		query_group(so, &way->to.addr, &query);
	if (way->oif)
		query.oif = way->oif;
	return query;
}

static struct dst_headers udp_headers(const struct inet_sock *so, const struct udp_way *way)
{
	struct dst_headers headers = {
		.src = {.addr = query_for(so, way).src, .port = so->local.port},
		.proto = IPPROTO_UDP,
		.ttl = way->ttl,
		.ttl_set = way->ttl_set,
		.tos = way->tos,
		.no_csum = so->opt->no_check,
		.no_label = so->opt->no_label6,
	};

	return headers;
}

/* holder of home: the place for a way, whether it was found already or not; NULL: no memory. */
static struct dst *dst_for(struct inet_sock *so, const struct udp_way *way)
{
	if (!way->plain)
		return udp_way_slot(so, way);
	return so->udp.connected && endpoint_eq(&way->to, &so->remote) ? &so->udp.dst
								       : cache_slot(so, &way->to);
}

/*
 * Control lock, holding home: the destination's datagrams left by another ring until now.
 * Those that were posted to it go first.  Meanwhile no thread sends, because the
 * destination is not fresh.
 */
static int settle_old_ring(struct sock_ref ref, struct ring **home, struct ring *old)
{
	control_assert_held();
	ring_release_cold(*home);
	if (ring_hold_cold(old))
		ring_release_cold(old);
	return sock_hold_cold(ref, home);
}

/* The twin sends there. */
static void by_kernel(struct dst_found *found, enum verdict reason)
{
	memset(found, 0, sizeof(*found));
	found->generation = netlink_generation();
	found->verdict = reason;
}

/* Control lock: a socket that sends has a port, and a home.  0 or -errno. */
static int begin_sending(struct inet_sock *so, const struct dst_found *found)
{
	int rc = 0;

	control_assert_held();
	if (found->verdict != VERDICT_ACCELERATED)
		return 0;
	if (sock_life_is(so, LIFE_OPEN))
		rc = udp_autobind(so);
	/* A socket that receives nowhere may still send. */
	if (!rc && sock_home(so) == rings_nowhere())
		sock_adopt_home(so, sock_rx_ring_beside(so, found->ring));
	return rc;
}

/*
 * Control lock: the kernel sends to the group, if not shared memory reaches its members on this host.  As
 * find_way().  query: NULL: the datagrams do not leave the host.
 */
static int find_group(struct inet_sock *so, const struct udp_way *way, struct dst_query *query,
		      struct dst_found *found)
{
	struct dst_found wire = {.verdict = found->verdict};

	control_assert_held();
	/* Local parts begin after that. */
	if (!params.local || (!query && sock_start_for(so) != VERDICT_ACCELERATED))
		return 0;
	if (query && found->verdict == VERDICT_LOOPBACK) {
		query->mc_loop = false;
		dst_find(query, &wire);
	}
	if (begin_sending(so, &wire))
		wire.verdict = found->verdict; /* the kernel can send without */
	return sock_upcalls.local_find_group(so, way, &wire, found);
}

/*
 * Control lock: where the way leads.  0; SOCK_KERNEL: the kernel serves the socket from now on;
 * or -errno.
 */
static int find_way(struct inet_sock *so, const struct udp_way *way, struct dst_found *found)
{
	enum conf_says says = rules_ask(so, CONF_UDP_SENDER, &way->to, NULL);
	struct dst_query query;
	enum verdict verdict;
	bool multicast;
	int rc = 0;

	control_assert_held();
	if (says == CONF_OS) {
		by_kernel(found, VERDICT_RULE);
		return 0;
	}
	if (addr_is_multicast(&way->to.addr) && !way->ttl) { /* it stays on this host */
		by_kernel(found, VERDICT_LOOPBACK);
		return find_group(so, way, NULL, found);
	}
	verdict = sock_start_for(so);
	if (verdict != VERDICT_ACCELERATED) {
		rc = strict_check(so, says, verdict);
		rc = rc ? rc : sock_leave(so, verdict);
		return rc ? rc : SOCK_KERNEL;
	}
	if (!sock_may_reach(so, &way->to, way_oif(so, way))) {
		by_kernel(found, VERDICT_FAMILY);
		return strict_check(so, says, VERDICT_FAMILY);
	}
	query = query_for(so, way);
	sock_tx_query(so, &query);
	dst_find(&query, found);
	multicast = addr_is_multicast(&way->to.addr);
	if (found->verdict != VERDICT_LOOPBACK || !params.local)
		rc = strict_check(so, says, found->verdict);
	else if (!multicast)
		rc = sock_upcalls.local_find(so, way, found);
	if (!rc && multicast && found->verdict != VERDICT_ACCELERATED)
		rc = find_group(so, way, &query, found);
	return rc;
}

int udp_resolve(struct sock_ref ref, const struct udp_way *wanted)
{
	struct inet_sock *so = inet_of(ref.sk);
	struct udp_way way = *wanted;
	struct dst_found found = {.fan = NULL};
	struct dst_headers headers;
	struct ring *ring, *old;
	struct dst *dst;
	int rc;

	control_assert_no_ring();
	if (!way.to.port)
		return SOCK_KERNEL; /* EINVAL */
	if (!control_lock())
		return -EAGAIN;
	rc = -EBADF;
	if (!sock_ref_valid(ref))
		goto unlock;
	if (way.plain)
		way = udp_plain_way(so, &way.to); /* the options as they are now */
	rc = find_way(so, &way, &found);
	if (rc)
		goto unlock;
	if (so->verdict == VERDICT_UNDECIDED) {
		so->verdict = found.verdict;
		if (found.verdict != VERDICT_ACCELERATED)
			sock_stats_verdict(so);
	}
	rc = begin_sending(so, &found);
	if (!rc)
		rc = sock_hold_cold(ref, &ring);
	if (rc)
		goto unlock;
	dst = dst_for(so, &way);
	old = dst ? dst_wire_ring(dst) : NULL;
	if (old && old != ring && old != found.ring) {
		rc = settle_old_ring(ref, &ring, old);
		if (rc)
			goto unlock;
		dst = dst_for(so, &way);
	}
	headers = udp_headers(so, &way);
	rc = dst ? dst_apply(dst, ring, &way.to, &found, &headers) : -ENOMEM;
	if (!rc)
		found.fan = NULL;
	if (!rc && !way.plain)
		container_of(dst, struct udp_dst, dst)->way = way;
	else if (!rc && dst != &so->udp.dst)
		container_of(dst, struct udp_dst, dst)->to = way.to;
	ring_release_cold(ring);
	if (!rc)
		dst_resolve_neighbour(&found);
unlock:
	mem_free(found.fan);
	control_unlock();
	if (rc != -EINPROGRESS)
		return rc;
	sock_upcalls.local_await(ref, &way.to, &found.local);
	return 0;
}

int udp_tx_ring(struct inet_sock *so, const struct sockaddr *to, socklen_t len, struct ring **ring)
{
	struct dst_found found;
	struct dst_query query;
	struct udp_way way;
	struct endpoint ep;

	control_assert_held();
	if (!sock_addr_read(so, &ep, to, len))
		return -EINVAL;
	way = udp_plain_way(so, &ep);
	if (!sock_may_reach(so, &ep, way_oif(so, &way)) ||
	    rules_ask(so, CONF_UDP_SENDER, &ep, NULL) == CONF_OS ||
	    sock_start_for(so) != VERDICT_ACCELERATED)
		return -ENODATA;
	query = query_for(so, &way);
	sock_tx_query(so, &query);
	dst_find(&query, &found);
	*ring = found.ring;
	return found.verdict == VERDICT_ACCELERATED ? 0 : -ENODATA;
}
