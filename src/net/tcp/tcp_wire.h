/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Access to the TCP header in a frame (RFC 9293 section 3.1).
 *
 * Role		pure functions of bytes of a packet that frame_parse() accepted, so the
 *		fixed header is present.
 */
#ifndef NET_TCP_TCP_WIRE_H
#define NET_TCP_TCP_WIRE_H

#include "net/frame.h"
#include "net/pkt.h"
#include "net/tcp/tcp_options.h"

#define TCP_FIN 0x01u
#define TCP_SYN 0x02u
#define TCP_RST 0x04u
#define TCP_PSH 0x08u
#define TCP_ACK 0x10u
#define TCP_URG 0x20u
#define TCP_ECE 0x40u
#define TCP_CWR 0x80u

static inline const uint8_t *tcp_wire_header(const struct pkt *pkt)
{
	return pkt->frame + pkt->l4;
}

static inline uint32_t tcp_wire_ack(const struct pkt *pkt)
{
	return load_be32(tcp_wire_header(pkt) + 8);
}

static inline uint16_t tcp_wire_window(const struct pkt *pkt)
{
	return load_be16(tcp_wire_header(pkt) + 14);
}

/* The ECN field of the IP header, RFC 3168 section 5. */
enum { ECN_NONE, ECN_ECT1, ECN_ECT0, ECN_CE };

static inline uint8_t tcp_wire_ecn(const struct pkt *pkt)
{
	const uint8_t *ip = pkt->frame + pkt->l3;

	return (ip[0] >> 4 == 4 ? ip[1] : ip[1] >> 4) & 3;
}

static inline uint16_t tcp_wire_urgent(const struct pkt *pkt)
{
	return load_be16(tcp_wire_header(pkt) + 18);
}

static inline const uint8_t *tcp_wire_options(const struct pkt *pkt)
{
	return tcp_wire_header(pkt) + TCP_HDR;
}

/* The length between fixed header and payload, before any payload was trimmed. */
static inline uint32_t tcp_wire_options_len(const struct pkt *pkt)
{
	return pkt->off - pkt->l4 - TCP_HDR;
}

#endif
