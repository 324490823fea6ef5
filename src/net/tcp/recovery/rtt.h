/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Round-trip estimator and retransmission timeout, RFC 6298.
 *
 * Role		pure; whoever holds the connection.  One per struct tcp_conn,
 *		embedded.
 * Clock	callers pass durations, the estimator never reads the time.
 */
#ifndef NET_TCP_RECOVERY_RTT_H
#define NET_TCP_RECOVERY_RTT_H

#include "base/clock.h"

#define RTT_INITIAL_RTO (1 * NSEC_PER_SEC)  /* RFC 6298 (2.1) */
#define RTT_FALLBACK_RTO (3 * NSEC_PER_SEC) /* RFC 6298 (5.7): the SYN was retransmitted */
#define RTT_MIN_RTO (200 * NSEC_PER_MSEC)   /* as Linux; (2.4) says one second */
#define RTT_LEAST_MIN_RTO NSEC_PER_MSEC	    /* the least that a route or the host may say instead */
#define RTT_MAX_RTO (120 * NSEC_PER_SEC)    /* as Linux; (2.5) says at least 60 */

struct rtt {
	nsec_t srtt; /* 0 until the first sample */
	nsec_t rttvar;
	nsec_t rto; /* always within [RTT_LEAST_MIN_RTO, RTT_MAX_RTO] */
	nsec_t min; /* smallest sample so far; 0 until the first */
};

void rtt_init(struct rtt *rtt);

/*
 * Adds a sample; min_rto: RTT_LEAST_MIN_RTO at least. Never call it for a retransmitted segment
 * (Karn).
 */
void rtt_sample(struct rtt *rtt, nsec_t sample, nsec_t min_rto);

/* The timeout of the estimate, without backoff; RTT_INITIAL_RTO before the first sample. */
nsec_t rtt_base(const struct rtt *rtt, nsec_t min_rto);

/* The timer expired: doubles the timeout and keeps the estimate. */
void rtt_backoff(struct rtt *rtt);

#endif
