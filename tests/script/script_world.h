/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of a script: a connection (and a listener), segments that it sent and that were not
 * expected yet, virtual time. script.c parses lines, and these functions execute them.
 */
#ifndef TESTS_SCRIPT_SCRIPT_WORLD_H
#define TESTS_SCRIPT_SCRIPT_WORLD_H

#include <stdio.h>

#include "net/tcp/tcp.h"
#include "net/tcp/tcp_internal.h"
#include "net/tcp/tcp_timewait.h"

#define WORLD_SENT 256

/* A segment, in either direction, in absolute numbers. */
struct world_segment {
	nsec_t at;
	uint8_t flags, ecn;
	uint16_t wnd, urg;
	uint32_t seq, ack, len;
	struct tcp_options opt;
};

struct world {
	struct tcp_config config;
	struct tcp_conn conn;
	struct tcp_listener listener;
	struct tcp_timewait tw; /* replaces conn when it is small */
	bool exists, listening, small;
	unsigned accept_fails;
	bool sink_full;
	bool ip6; /* both hosts have addresses of IPv6 */
	nsec_t now, start;
	nsec_t look_at; /* time of the next flush, requested by tcp_flush(); NSEC_NEVER */

	uint32_t iss; /* our initial sequence number; set with the first segment */
	bool iss_known;
	uint64_t sent, received; /* bytes of the two streams */
	uint32_t got;		 /* bytes that the peer has received without gaps */

	unsigned established, closed, readable, writable, urgent;
	uint64_t hole; /* 1 + position in the peer's stream of a byte that is read out of band */
	int error;
	enum drop drop; /* reason to drop the last segment */

	struct world_segment out[WORLD_SENT]; /* sent, not expected yet */
	unsigned out_head, out_tail;
	unsigned buffers, packets;
	char complaint[256]; /* a wrong byte, an unexpected callback; "" */
};

#define WORLD_PEER_ISS 5000u
#define WORLD_PEER_TS 0xfffff000u /* wraps around soon */

void world_init(struct world *w, bool ip6);
/* "": all memory was returned. */
const char *world_fini(struct world *w);

void world_listen(struct world *w);
int world_connect(struct world *w);
void world_input(struct world *w, const struct world_segment *seg);
/*
 * A router says that our segment at seq is larger than mtu: an ICMP error, or Packet Too Big of
 * ICMPv6. False: that message is malformed.
 */
bool world_icmp(struct world *w, uint32_t seq, uint32_t mtu);
void world_flush(struct world *w);
/* After each line: a connection that its program closed becomes small if possible. */
void world_settle(struct world *w);
ssize_t world_send(struct world *w, uint32_t n, unsigned flags);
/* The byte at that position of the peer's stream, from 0. */
uint8_t world_peer_byte(uint64_t at);
ssize_t world_recv(struct world *w, uint32_t n);
/* Advances the time to at, timer by timer. */
void world_pass(struct world *w, nsec_t at);

#endif
