/* SPDX-License-Identifier: BSD-2-Clause */
/* What the card matches for a flow. */
#include <netinet/in.h>
#include <string.h>

#include "ring/flow.h"
#include "ring/mlx5/mlx5_internal.h"

/*
 * Priorities, best first.  The card has no order by length of the match, so a connection must have
 * a better one than the listener that it came by.  Each kind has two, for mlx5_rule_move(); a
 * connection more, because several processes may have had it that still have a rule.
 */
#define PRIORITIES_EXACT 4
#define PRIORITIES_OPEN 2
#define PRIORITY_EXACT 0
#define PRIORITY_OPEN (PRIORITY_EXACT + PRIORITIES_EXACT)

_Static_assert(PRIORITY_OPEN + PRIORITIES_OPEN <= 8, "no kernel has fewer");

unsigned mlx5_priorities(const struct flow_key *key)
{
	return flow_key_is_exact(key) ? PRIORITIES_EXACT : PRIORITIES_OPEN;
}

static void append(struct mlx5_match *match, const void *spec, size_t size)
{
	memcpy((uint8_t *)&match->attr + match->attr.size, spec, size);
	match->attr.size = (uint16_t)(match->attr.size + size);
	match->attr.num_of_specs++;
}

/*
 * A protocol of its own tells it from the key of one group.  The groups that share an Ethernet
 * address (RFC 1112, RFC 2464) have one key.
 */
struct flow_key mlx5_group_key(const struct flow_key *key)
{
	struct flow_key group = {.proto = IPPROTO_RAW};

	if (addr_is_v4(&key->local))
		group.local =
			addr_v4((addr_v4_of(&key->local) & htonl(0x7fffff)) | htonl(0xe0000000));
	else
		group.local = (struct inaddr){.w = {htonl(0xff000000), 0, 0, key->local.w[3]}};
	return group;
}

static void append_ip4(struct mlx5_match *match, const struct flow_key *key)
{
	struct ibv_flow_spec_ipv4 ip = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(ip)};

	ip.val.dst_ip = addr_v4_of(&key->local);
	ip.mask.dst_ip = UINT32_MAX;
	if (key->remote_port) {
		ip.val.src_ip = addr_v4_of(&key->remote);
		ip.mask.src_ip = UINT32_MAX;
	}
	append(match, &ip, sizeof(ip));
}

static void append_ip6(struct mlx5_match *match, const struct flow_key *key)
{
	struct ibv_flow_spec_ipv6 ip = {.type = IBV_FLOW_SPEC_IPV6, .size = sizeof(ip)};

	memcpy(ip.val.dst_ip, &key->local, sizeof(ip.val.dst_ip));
	memset(ip.mask.dst_ip, 0xff, sizeof(ip.mask.dst_ip));
	if (key->remote_port) {
		memcpy(ip.val.src_ip, &key->remote, sizeof(ip.val.src_ip));
		memset(ip.mask.src_ip, 0xff, sizeof(ip.mask.src_ip));
	}
	append(match, &ip, sizeof(ip));
}

void mlx5_match_of(const struct mlx5_port *port, const struct flow_key *key, unsigned nth,
		   uint32_t tag, struct mlx5_match *match)
{
	struct ibv_flow_spec_action_tag action = {
		.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(action), .tag_id = tag};
	struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth)};
	struct ibv_flow_spec_tcp_udp l4 = {.type = key->proto == IPPROTO_TCP ? IBV_FLOW_SPEC_TCP
									     : IBV_FLOW_SPEC_UDP,
					   .size = sizeof(l4)};
	bool exact = key->remote_port != 0;

	*match = (struct mlx5_match){
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			 .size = sizeof(match->attr),
			 .priority = (uint16_t)((exact ? PRIORITY_EXACT : PRIORITY_OPEN) + nth),
			 .port = port->name.port}};
	if (addr_is_multicast(&key->local))
		addr_multicast_mac(&key->local, eth.val.dst_mac);
	else
		memcpy(eth.val.dst_mac, port->base.mac, sizeof(eth.val.dst_mac));
	memset(eth.mask.dst_mac, 0xff, sizeof(eth.mask.dst_mac));
	l4.val.dst_port = key->local_port;
	l4.mask.dst_port = UINT16_MAX;
	if (exact) {
		l4.val.src_port = key->remote_port;
		l4.mask.src_port = UINT16_MAX;
	}
	append(match, &eth, sizeof(eth));
	if (key->proto == IPPROTO_RAW)
		return;
	if (addr_is_v4(&key->local))
		append_ip4(match, key);
	else
		append_ip6(match, key);
	append(match, &l4, sizeof(l4));
	if (tag)
		append(match, &action, sizeof(action));
}
