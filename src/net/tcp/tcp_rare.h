/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What few connections need: what arrived out of order, urgent data, pacing, how often
 * something went wrong, how long the sender was held up.
 *
 * Role		whoever holds the connection.  One per struct tcp_conn.
 * Lifetime	made when it is needed first, from the owner's memory; stays until
 *		nobody can ask any more.  Without memory nothing is counted, no
 *		SACK and no challenge sent, urgent data is ordinary, and there is
 *		no pacing: none of it is an error.
 */
#ifndef NET_TCP_TCP_RARE_H
#define NET_TCP_TCP_RARE_H

#include <stdint.h>

#include "base/clock.h"
#include "net/tcp/tcp_options.h"

/* What keeps a sender from sending more, although it might by the congestion window. */
enum tcp_limit { TCP_LIMIT_NONE, TCP_LIMIT_WINDOW, TCP_LIMIT_SNDBUF, TCP_LIMITS };

struct tcp_rare {
	struct tcp_range sack[TCP_SACK_BLOCKS]; /* to report, latest first; conn->sacks of them */
	struct tcp_range dsack;			/* came twice; with CONN_DSACK */
	nsec_t probe_at;			/* with hole_mss: when it is tried again */
	nsec_t challenge_at;			/* when the last challenge ACK was sent */
	nsec_t pace_at;				/* when what was sent has had its time */
	uint64_t pace_rate;			/* bytes a second; with WAY_PACED */
	uint32_t snd_up;    /* behind the urgent byte we sent; with CONN_URG_OUT */
	uint32_t urgent_at; /* the peer's urgent byte; with conn->urgent */
	uint32_t ecn_end;   /* snd_nxt when the window was reduced last for ECN's sake */
	uint8_t urgent_byte;
	uint32_t probe_end; /* behind a probe of the path's MTU; with CONN_MTU_PROBE */
	uint64_t peek_at;   /* where the next peek begins, in bytes of the stream; with peek_on */
	uint8_t peek_on;    /* SO_PEEK_OFF */
	/* for TCP_INFO */
	uint32_t dsack_dups;	    /* segments that arrived twice, the peer says */
	uint32_t reord_seen;	    /* times that some were overtaken */
	uint32_t out_of_order;	    /* segments that came so */
	uint32_t delivered_ce;	    /* segments that met with congestion, the peer says */
	uint64_t bytes_retrans;	    /* sent again */
	nsec_t limited[TCP_LIMITS]; /* for how long; less when it began, for the one under way */
};

struct tcp_conn;

/* NULL without memory. */
struct tcp_rare *tcp_rare(struct tcp_conn *c);
void tcp_rare_fini(struct tcp_conn *c);

void tcp_limited_by(struct tcp_conn *c, enum tcp_limit what, nsec_t now);
nsec_t tcp_limited_for(const struct tcp_conn *c, enum tcp_limit what, nsec_t now);

#endif
