/* SPDX-License-Identifier: BSD-2-Clause */
/* Routers that cannot forward a segment, for tests: the message, and what the parsers make of it. */
#ifndef TESTS_TOO_BIG_H
#define TESTS_TOO_BIG_H

#include <errno.h>

#include "net/icmp.h"
#include "net/tcp/tcp_wire.h"

/* <netinet/ip_icmp.h> defines macros with the names of ordinary variables. */
#define TOO_BIG_UNREACHABLE 3u /* destination unreachable: RFC 792 ... */
#define TOO_BIG_NEEDED 4u      /* ... fragmentation needed */
#define TOO_BIG_6 2u	       /* RFC 4443 section 3.2 */

/*
 * Fragmentation needed (RFC 1191 section 4), or Packet Too Big (RFC 4443 section 3.2), about the
 * segment at seq of a connection with this template. False if the parser does not understand it,
 * or as another one.
 */
static inline bool too_big_heard(const struct frame_template *t, uint32_t seq, uint32_t mtu,
				 struct icmp_error *error)
{
	uint8_t frame[FRAME_HDR_MAX], message[IP4_HDR + 8 + FRAME_HDR_MAX] = {0};
	struct tcp_segment quoted = {.seq = seq, .flags = TCP_ACK};
	struct inaddr to = frame_template_dst(t);
	bool ip6 = !addr_is_v4(&to), heard;
	size_t len = frame_build_tcp(t, frame, &quoted) - ETH_HDR, outer = ip6 ? 0 : IP4_HDR;
	uint8_t *icmp = message + outer;

	memcpy(icmp + 8, frame + ETH_HDR, len);
	for (int i = 0; i < 4; i++)
		icmp[4 + i] = (uint8_t)(mtu >> (24 - 8 * i));
	if (ip6) {
		icmp[0] = TOO_BIG_6;
		heard = icmp6_parse_error(message, 8 + len, error);
	} else {
		message[0] = 0x45;
		message[9] = IPPROTO_ICMP;
		icmp[0] = TOO_BIG_UNREACHABLE;
		icmp[1] = TOO_BIG_NEEDED;
		heard = icmp_parse_error(message, outer + 8 + len, error);
	}
	return heard && error->seq == seq && error->mtu == mtu && error->error == EMSGSIZE &&
	       addr_eq(&error->key.remote, &to) && error->key.proto == IPPROTO_TCP;
}

#endif
