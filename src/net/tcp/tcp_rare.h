/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State that few connections need: out-of-order data, urgent data, pacing, error counters, packets
 * that the owner has taken, and the time that the sender was limited.
 *
 * Role		whoever holds the connection.  One per struct tcp_conn.
 * Lifetime	created at first need, from the owner's memory; exists until the
 *		program can no longer query it.  Without memory nothing is counted,
 *		no SACK and no challenge ACK is sent, urgent data is ordinary data,
 *		and there is no pacing; none of this is an error.
 */
#ifndef NET_TCP_TCP_RARE_H
#define NET_TCP_TCP_RARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "net/pace.h"
#include "net/route_metrics.h"
#include "net/tcp/tcp_options.h"

/* What limits the sender when the congestion window does not. */
enum tcp_limit { TCP_LIMIT_NONE, TCP_LIMIT_WINDOW, TCP_LIMIT_SNDBUF, TCP_LIMITS };

#define TCP_EORS 16 /* more sends with MSG_EOR than these may share a segment */

struct tcp_rare {
	struct tcp_range sack[TCP_SACK_BLOCKS]; /* to report, latest first; conn->sacks entries */
	struct tcp_range dsack;			/* received twice; with CONN_DSACK */
	nsec_t probe_at;			/* with hole_mss: time of the next probe */
	nsec_t challenge_at;			/* when the last challenge ACK was sent */
	struct pace pace;			/* with WAY_PACED */
	uint32_t snd_up;    /* after the urgent byte that we sent; with CONN_URG_OUT */
	uint32_t urgent_at; /* the peer's urgent byte; with conn->urgent */
	uint32_t ecn_end;   /* snd_nxt when ECN last reduced the window */
	uint8_t urgent_byte;
	uint8_t eors;		/* entries used in eor[]; with WAY_EOR */
	uint32_t eor[TCP_EORS]; /* ends of sends with MSG_EOR, in order: tcp_eor.c */
	uint32_t probe_end;	/* end of a path MTU probe; with CONN_MTU_PROBE */
	uint64_t peek_at;	/* start of the next peek, in bytes of the stream; with peek_on */
	uint8_t peek_on;	/* SO_PEEK_OFF */
	bool window_closed;	/* the last event said so */
	uint32_t taken;		/* memory of packets taken by tcp_recv_take() that are still used */
	void *owner;		/* the owner's; NULL at first, and in another process */
	struct route_metrics route; /* of the first route or of the present one, as it says */
	/* with window_opens: conn->window_clamp is less for now, see tcp_open_window() */
	uint32_t window_clamp;
	uint32_t window_opens; /* the first window, bytes; 0: the clamp is as it stays */
	/* for TCP_INFO */
	uint32_t dsack_dups;	    /* duplicate segments that the peer reported */
	uint32_t reord_seen;	    /* reordering events seen */
	uint32_t out_of_order;	    /* segments received out of order */
	uint32_t delivered_ce;	    /* CE-marked segments that the peer reported */
	uint64_t bytes_retrans;	    /* bytes retransmitted */
	nsec_t limited[TCP_LIMITS]; /* total time; minus its start for the current one */
};

struct tcp_conn;

/* The connection's struct tcp_rare, created if necessary; NULL without memory. */
struct tcp_rare *tcp_rare(struct tcp_conn *c);
void tcp_rare_fini(struct tcp_conn *c);

void tcp_limited_by(struct tcp_conn *c, enum tcp_limit what, nsec_t now);
nsec_t tcp_limited_for(const struct tcp_conn *c, enum tcp_limit what, nsec_t now);

#endif
