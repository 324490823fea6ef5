/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control: how many bytes may be in the network (RFC 5681).
 *
 * Role		pure; whoever holds the connection.  One per struct tcp_conn,
 *		embedded.  When losses are detected and what is sent again is
 *		tcp_loss.c's business; here is only what they cost.
 * Clock	callers pass now.
 */
#ifndef NET_TCP_CC_H
#define NET_TCP_CC_H

#include <stdint.h>

#include "base/clock.h"

#define TCP_CC_INITIAL_SEGMENTS 10u  /* RFC 6928 */
#define TCP_CC_INFINITE UINT32_MAX   /* ssthresh before the first loss */
#define TCP_CC_MAX_WINDOW (1u << 30) /* the largest window RFC 7323 can offer */

struct tcp_cc;

/* One algorithm.  The null table (tcp_cc_none) keeps the window wide open. */
struct tcp_cc_ops {
	/* bytes were acknowledged above ssthresh: congestion avoidance. */
	void (*avoid)(struct tcp_cc *cc, uint32_t bytes, nsec_t now);
	/* What ssthresh becomes when a loss is found with flight bytes out. */
	uint32_t (*ssthresh)(struct tcp_cc *cc, uint32_t flight, nsec_t now);
	const char *name;
};

extern const struct tcp_cc_ops tcp_cc_newreno;
extern const struct tcp_cc_ops tcp_cc_none;

struct tcp_cc {
	const struct tcp_cc_ops *ops;
	uint32_t cwnd;	   /* bytes, at least one segment */
	uint32_t ssthresh; /* bytes */
	uint32_t mss;
	uint32_t credit; /* bytes acknowledged since cwnd last grew in avoidance */
};

void tcp_cc_init(struct tcp_cc *cc, const struct tcp_cc_ops *ops, uint32_t mss);

/* bytes of new data were acknowledged while flight (with them) was out. */
void tcp_cc_acked(struct tcp_cc *cc, uint32_t bytes, uint32_t flight, nsec_t now);

/* Fast recovery begins: halve (RFC 6675 section 5, step 4.2). */
void tcp_cc_lost(struct tcp_cc *cc, uint32_t flight, nsec_t now);

/* Fast recovery is over with pipe bytes out (RFC 6582 section 3.2, step 3). */
void tcp_cc_recovered(struct tcp_cc *cc, uint32_t pipe);

/* The retransmission timer fired; again: for the same data (RFC 5681 (4)). */
void tcp_cc_timeout(struct tcp_cc *cc, uint32_t flight, int again, nsec_t now);

/* Nothing was sent for longer than a timeout (RFC 5681 section 4.1). */
void tcp_cc_idle(struct tcp_cc *cc);

#endif
