/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ICMP errors (RFC 792, RFC 1122 section 3.2.2) about TCP segments that we sent.
 *
 * Role		pure functions of bytes; what they read is never trusted: anybody can
 *		send such a message, so the connection looks at ->seq (RFC 5927).
 */
#ifndef NET_ICMP_H
#define NET_ICMP_H

#include <stdbool.h>
#include <stddef.h>

#include "net/frame.h"

struct icmp_error {
	struct flow_key key; /* the connection that it is about, as we see it */
	uint32_t seq;	     /* of the segment that did not get there */
	int error;	     /* as errno */
	uint32_t mtu;	     /* it was too long: the packets that the path takes; else 0 */
};

/*
 * packet: from the IP header on, as a raw socket gives it.  False: it is none of the
 * above, or cut off.
 */
bool icmp_parse_error(const uint8_t *packet, size_t len, struct icmp_error *error);

#endif
