/* SPDX-License-Identifier: BSD-2-Clause */
/* What the card matches for a flow. */
#include <errno.h>
#include <netinet/in.h>

#include "ring/mlx5/mlx5_internal.h"

/*
 * Priorities, best first.  The card has no order by length of the match, so a connection must have
 * a better one than the listener that it came by.  Each kind has two: see mlx5_rule_move().
 */
#define PRIORITY_EXACT 0
#define PRIORITY_OPEN 2

static void append(struct mlx5_match *match, const void *spec, size_t size)
{
	memcpy((uint8_t *)&match->attr + match->attr.size, spec, size);
	match->attr.size = (uint16_t)(match->attr.size + size);
	match->attr.num_of_specs++;
}

/* RFC 1112 section 6.4: the last 23 bits of the group. */
static void mac_of_group(uint32_t group, uint8_t mac[6])
{
	uint32_t low = ntohl(group) & 0x7fffff;

	mac[0] = 0x01;
	mac[1] = 0x00;
	mac[2] = 0x5e;
	mac[3] = (uint8_t)(low >> 16);
	mac[4] = (uint8_t)(low >> 8);
	mac[5] = (uint8_t)low;
}

/* A protocol of its own tells it from the key of one group; RFC 1112: 32 groups have an address. */
struct flow_key mlx5_group_key(const struct flow_key *key)
{
	struct flow_key group = {.proto = IPPROTO_RAW};

	group.local = addr_v4((addr_v4_of(&key->local) & htonl(0x7fffff)) | htonl(0xe0000000));
	return group;
}

int mlx5_match_of(const struct mlx5_port *port, const struct flow_key *key, bool second,
		  uint32_t tag, struct mlx5_match *match)
{
	struct ibv_flow_spec_action_tag action = {
		.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(action), .tag_id = tag};
	struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth)};
	struct ibv_flow_spec_ipv4 ip = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(ip)};
	struct ibv_flow_spec_tcp_udp l4 = {.type = key->proto == IPPROTO_TCP ? IBV_FLOW_SPEC_TCP
									     : IBV_FLOW_SPEC_UDP,
					   .size = sizeof(l4)};
	bool exact = key->remote_port != 0;

	if (!addr_is_v4(&key->local))
		return -EAFNOSUPPORT;
	*match = (struct mlx5_match){
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			 .size = sizeof(match->attr),
			 .priority = (uint16_t)((exact ? PRIORITY_EXACT : PRIORITY_OPEN) + second),
			 .port = port->name.port}};
	ip.val.dst_ip = addr_v4_of(&key->local);
	ip.mask.dst_ip = UINT32_MAX;
	if (addr_is_multicast(&key->local))
		mac_of_group(ip.val.dst_ip, eth.val.dst_mac);
	else
		memcpy(eth.val.dst_mac, port->base.mac, sizeof(eth.val.dst_mac));
	memset(eth.mask.dst_mac, 0xff, sizeof(eth.mask.dst_mac));
	l4.val.dst_port = key->local_port;
	l4.mask.dst_port = UINT16_MAX;
	if (exact) {
		ip.val.src_ip = addr_v4_of(&key->remote);
		ip.mask.src_ip = UINT32_MAX;
		l4.val.src_port = key->remote_port;
		l4.mask.src_port = UINT16_MAX;
	}
	append(match, &eth, sizeof(eth));
	if (key->proto == IPPROTO_RAW)
		return 0;
	append(match, &ip, sizeof(ip));
	append(match, &l4, sizeof(l4));
	if (tag)
		append(match, &action, sizeof(action));
	return 0;
}
