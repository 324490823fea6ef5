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

/* The same for ICMPv6; message begins with its header: a raw socket delivers no IPv6 header. */
bool icmp6_parse_error(const uint8_t *message, size_t len, struct icmp_error *error);

#endif
