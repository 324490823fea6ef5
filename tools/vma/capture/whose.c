/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/capture/whose.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/stats/stats_text.h"

#define ETHERNET 14u /* bytes of its header; a VLAN tag has 4 */
#define VLAN_TAG 4u
#define TYPE_IPV4 0x0800u
#define TYPE_IPV6 0x86ddu
#define TYPE_VLAN 0x8100u
#define IPV4 20u /* bytes of the headers */
#define IPV6 40u
#define FRAGMENT_OFFSET 0x1fffu

static uint16_t number_at(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* The IP header at ip: addresses, protocol, and offset of the ports. False: there are no ports. */
static bool read_ipv4(const uint8_t *frame, size_t len, size_t ip, struct stats_addr addr[2],
		      uint8_t *proto, size_t *ports)
{
	size_t header;

	if (len < ip + IPV4 || frame[ip] >> 4 != 4)
		return false;
	header = (frame[ip] & 15u) * 4u;
	if (header < IPV4 || (number_at(frame + ip + 6) & FRAGMENT_OFFSET))
		return false;
	for (int i = 0; i < 2; i++) {
		addr[i] = (struct stats_addr){.w = {0, 0, htonl(0xffff)}};
		memcpy(&addr[i].w[3], frame + ip + 12 + 4 * i, 4);
	}
	*proto = frame[ip + 9];
	*ports = ip + header;
	return true;
}

/* Without extension headers: accelerated traffic has none. */
static bool read_ipv6(const uint8_t *frame, size_t len, size_t ip, struct stats_addr addr[2],
		      uint8_t *proto, size_t *ports)
{
	if (len < ip + IPV6 || frame[ip] >> 4 != 6)
		return false;
	memcpy(addr, frame + ip + 8, 2 * sizeof(addr[0]));
	*proto = frame[ip + 6];
	*ports = ip + IPV6;
	return true;
}

bool whose_key_of(const uint8_t *frame, size_t len, bool sent, struct whose_key *key)
{
	size_t ip = ETHERNET, ports;
	struct stats_addr addr[2];
	uint16_t port[2], type;
	bool known;

	if (len >= ETHERNET && number_at(frame + 12) == TYPE_VLAN)
		ip += VLAN_TAG;
	if (len < ip)
		return false;
	type = number_at(frame + ip - 2);
	known = type == TYPE_IPV4   ? read_ipv4(frame, len, ip, addr, &key->proto, &ports)
		: type == TYPE_IPV6 ? read_ipv6(frame, len, ip, addr, &key->proto, &ports)
				    : false;
	if (!known || (key->proto != IPPROTO_UDP && key->proto != IPPROTO_TCP) ||
	    len < ports + sizeof(port))
		return false;
	memcpy(port, frame + ports, sizeof(port));
	key->local_addr = addr[!sent];
	key->local_port = port[!sent];
	key->remote_addr = addr[sent];
	key->remote_port = port[sent];
	return true;
}

/* 0: it is not the frame's; 3: it is connected to the frame's peer. */
static int suits(const struct stats_sock *slot, const struct whose_key *key)
{
	bool any = stats_addr_is_any(&slot->local_addr);

	if (!slot->accelerated || slot->local_port != key->local_port ||
	    (slot->type == STATS_UDP) != (key->proto == IPPROTO_UDP) ||
	    (!any && !stats_addr_eq(&slot->local_addr, &key->local_addr)))
		return 0;
	if (any && !(slot->flags & STATS_INET6) && !stats_addr_is_ipv4(&key->local_addr))
		return 0;
	if (slot->remote_port)
		return slot->remote_port == key->remote_port &&
				       stats_addr_eq(&slot->remote_addr, &key->remote_addr)
			       ? 3
			       : 0;
	return any ? 1 : 2;
}

const struct stats_sock *whose_find(const struct snapshot *s, const struct whose_key *key,
				    bool *exact)
{
	const struct stats_sock *best = NULL;
	int best_suits = 0;

	for (unsigned i = 0; i < s->n_socks && best_suits < 3; i++) {
		int how = suits(&s->socks[i], key);

		if (how > best_suits) {
			best = &s->socks[i];
			best_suits = how;
		}
	}
	*exact = best_suits == 3;
	return best;
}

void whose_text(const char *interface, uint32_t ring, const struct whose_key *key,
		const struct stats_sock *sock, char text[WHOSE_TEXT])
{
	char local[STATS_ENDPOINT], remote[STATS_ENDPOINT];
	int n = snprintf(text, WHOSE_TEXT, "accelerated over %s on ring %u", interface, ring);

	if (key) {
		stats_endpoint_text(&key->local_addr, key->local_port, local);
		stats_endpoint_text(&key->remote_addr, key->remote_port, remote);
		n += snprintf(text + n, (size_t)(WHOSE_TEXT - n), "; %s %s to %s",
			      key->proto == IPPROTO_UDP ? "udp" : "tcp", local, remote);
	}
	if (sock)
		snprintf(text + n, (size_t)(WHOSE_TEXT - n), "; fd %d", sock->fd);
}
