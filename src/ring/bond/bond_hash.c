/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/bond/bond_hash.h"

#include <linux/if_bonding.h>
#include <string.h>

#define MAC_LEN 6
#define TYPE_IP 0x0800
#define TYPE_VLAN 0x8100
#define IP_FRAGMENT 0x3fff /* more fragments, or an offset */

static uint32_t be16_at(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

/* As the kernel reads it: in the order of the processor. */
static uint32_t word_at(const uint8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* The last bytes of both link addresses, and the type. */
static uint32_t hash_ethernet(const uint8_t *frame, uint32_t type)
{
	return frame[MAC_LEN - 1] ^ frame[2 * MAC_LEN - 1] ^ type;
}

/* The VLAN, and both halves of the source address. */
static uint32_t hash_vlan(const uint8_t *frame, uint32_t vlan)
{
	const uint8_t *mac = frame + MAC_LEN;

	return vlan ^ ((uint32_t)mac[0] << 16 | be16_at(mac + 1)) ^
	       ((uint32_t)mac[3] << 16 | be16_at(mac + 4));
}

struct hashed_ip {
	uint32_t addrs; /* all words of both addresses */
	uint32_t ports; /* 0 in fragments, which have none */
};

static struct hashed_ip read_ip(const uint8_t *ip, uint32_t type)
{
	struct hashed_ip h = {0};

	if (type == TYPE_IP) {
		h.addrs = word_at(ip + 12) ^ word_at(ip + 16);
		if (!(be16_at(ip + 6) & IP_FRAGMENT))
			h.ports = word_at(ip + (size_t)(ip[0] & 0xf) * 4);
		return h;
	}
	for (unsigned w = 0; w < 8; w++)
		h.addrs ^= word_at(ip + 8 + (size_t)4 * w);
	h.ports = word_at(ip + 40);
	return h;
}

uint32_t bond_hash(const uint8_t *frame, unsigned policy)
{
	const uint8_t *ip = frame + 2 * MAC_LEN + 2;
	uint32_t type = be16_at(ip - 2), vlan = 0, hash;
	struct hashed_ip h;

	if (type == TYPE_VLAN) {
		vlan = be16_at(ip) & 0xfff;
		type = be16_at(ip + 2);
		ip += 4;
	}
	if (policy == BOND_XMIT_POLICY_VLAN_SRCMAC)
		return hash_vlan(frame, vlan);
	if (policy == BOND_XMIT_POLICY_LAYER2)
		return hash_ethernet(frame, type);
	h = read_ip(ip, type);
	hash = policy == BOND_XMIT_POLICY_LAYER23 || policy == BOND_XMIT_POLICY_ENCAP23
		       ? hash_ethernet(frame, type)
		       : h.ports;
	hash ^= h.addrs;
	hash ^= hash >> 16;
	hash ^= hash >> 8;
	/* Ports of one program are often all even. */
	if (policy == BOND_XMIT_POLICY_LAYER34 || policy == BOND_XMIT_POLICY_ENCAP34)
		hash >>= 1;
	return hash;
}
