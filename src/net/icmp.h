/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICMP errors (RFC 792, RFC 1122 section 3.2.2) and ICMPv6 errors (RFC 4443 section 3) about TCP
 * segments and UDP datagrams that this host sent.
 *
 * Role		pure functions of bytes.  The input is untrusted, because any host can
 *		send such a message: a TCP connection must check ->seq (RFC 5927).
 */
#ifndef NET_ICMP_H
#define NET_ICMP_H

#include <stdbool.h>
#include <stddef.h>

#include "net/frame.h"

struct icmp_error {
	struct flow_key key; /* of the sender, as seen from this host; protocol: TCP, UDP */
	uint32_t seq;	     /* of the segment that was not delivered; UDP: 0 */
	int error;	     /* as errno */
	uint32_t mtu;	     /* if it was too long: the path MTU; else 0 */
};

/*
 * packet: begins with the IP header, as a raw socket delivers it. False if it is not such an error,
 * or is truncated.
 */
bool icmp_parse_error(const uint8_t *packet, size_t len, struct icmp_error *error);

/*
 * Is it for the sender of the packet that it quotes, and is its checksum right?  A raw socket of IPv4 delivers
 * messages that the kernel itself ignores: damaged ones, and those to groups and broadcast addresses.
 * packet: as for icmp_parse_error(), and complete.
 */
bool icmp_is_genuine(const uint8_t *packet, size_t len);

/*
 * icmp_parse_error() for ICMPv6; message begins with its header: a raw socket delivers no IPv6 header, and
 * no message whose checksum is wrong.
 */
bool icmp6_parse_error(const uint8_t *message, size_t len, struct icmp_error *error);

#endif
