/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma/capture/whose.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/stats/stats_text.h"

#define ETHERNET 14u /* bytes of its header; a VLAN tag has 4 */
#define VLAN_TAG 4u
#define TYPE_IPV4 0x0800u
#define TYPE_VLAN 0x8100u
#define IPV4 20u
#define FRAGMENT_OFFSET 0x1fffu

static uint16_t number_at(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

bool whose_key_of(const uint8_t *frame, size_t len, bool sent, struct whose_key *key)
{
	size_t ip = ETHERNET, header;
	uint32_t addr[2];
	uint16_t port[2];

	if (len >= ETHERNET && number_at(frame + 12) == TYPE_VLAN)
		ip += VLAN_TAG;
	if (len < ip + IPV4 || number_at(frame + ip - 2) != TYPE_IPV4 || frame[ip] >> 4 != 4)
		return false;
	header = (frame[ip] & 15u) * 4u;
	key->proto = frame[ip + 9];
	if (header < IPV4 || len < ip + header + sizeof(port) ||
	    (number_at(frame + ip + 6) & FRAGMENT_OFFSET) ||
	    (key->proto != IPPROTO_UDP && key->proto != IPPROTO_TCP))
		return false;
	memcpy(addr, frame + ip + 12, sizeof(addr));
	memcpy(port, frame + ip + header, sizeof(port));
	key->local_addr = addr[!sent];
	key->local_port = port[!sent];
	key->remote_addr = addr[sent];
	key->remote_port = port[sent];
	return true;
}

/* 0: it is not the frame's; 3: it is connected to the frame's peer. */
static int suits(const struct stats_sock *slot, const struct whose_key *key)
{
	if (!slot->accelerated || slot->local_port != key->local_port ||
	    (slot->type == STATS_UDP) != (key->proto == IPPROTO_UDP) ||
	    (slot->local_addr && slot->local_addr != key->local_addr))
		return 0;
	if (slot->remote_port)
		return slot->remote_port == key->remote_port &&
				       slot->remote_addr == key->remote_addr
			       ? 3
			       : 0;
	return slot->local_addr ? 2 : 1;
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
	char local[24], remote[24];
	int n = snprintf(text, WHOSE_TEXT, "accelerated over %s on ring %u", interface, ring);

	if (key) {
		stats_endpoint_text(key->local_addr, key->local_port, local);
		stats_endpoint_text(key->remote_addr, key->remote_port, remote);
		n += snprintf(text + n, (size_t)(WHOSE_TEXT - n), "; %s %s to %s",
			      key->proto == IPPROTO_UDP ? "udp" : "tcp", local, remote);
	}
	if (sock)
		snprintf(text + n, (size_t)(WHOSE_TEXT - n), "; fd %d", sock->fd);
}
