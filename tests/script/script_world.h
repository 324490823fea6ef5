/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The world of a script: a connection (and a listener), what it sent and was
 * not expected yet, virtual time.  script.c reads lines, this does what they say.
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
	struct tcp_timewait tw; /* what became of it, when small */
	bool exists, listening, small;
	unsigned accept_fails;
	bool sink_full;
	nsec_t now, start;
	nsec_t look_at; /* when it is flushed again, because tcp_flush() asked for it; NSEC_NEVER */

	uint32_t iss; /* of ours; set once something was sent */
	bool iss_known;
	uint64_t sent, received; /* bytes of the two streams */
	uint32_t got;		 /* bytes of the stream the peer was sent, contiguous */

	unsigned established, closed, readable, writable, urgent;
	uint64_t hole; /* 1 + where in the peer's stream a byte is read out of band */
	int error;
	enum drop drop; /* of the last segment */

	struct world_segment out[WORLD_SENT]; /* sent, not yet expected */
	unsigned out_head, out_tail;
	unsigned buffers, packets;
	char complaint[256]; /* a wrong byte, a callback too many; "" */
};

#define WORLD_PEER_ISS 5000u
#define WORLD_PEER_TS 0xfffff000u /* wraps soon */

void world_init(struct world *w);
/* "": all was given back. */
const char *world_fini(struct world *w);

void world_listen(struct world *w);
int world_connect(struct world *w);
void world_input(struct world *w, const struct world_segment *seg);
void world_flush(struct world *w);
/* After anything: a connection that its program closed becomes small when it can. */
void world_settle(struct world *w);
ssize_t world_send(struct world *w, uint32_t n, unsigned flags);
/* The byte of the peer's stream at that place, from 0. */
uint8_t world_peer_byte(uint64_t at);
ssize_t world_recv(struct world *w, uint32_t n);
/* Lets time pass until at, timer by timer. */
void world_pass(struct world *w, nsec_t at);

#endif
