/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion control: how many bytes may be in flight (RFC 5681).
 *
 * Role		pure; whoever holds the connection.  One per struct tcp_conn, embedded.
 *		tcp_loss.c detects losses and retransmits; this module computes
 *		only their effect on the window.
 * Clock	callers pass now and round trips.
 */
#ifndef NET_TCP_RECOVERY_TCP_CC_H
#define NET_TCP_RECOVERY_TCP_CC_H

#include <stdint.h>

#include "base/clock.h"

#define TCP_CC_INITIAL_SEGMENTS 10u  /* RFC 6928 */
#define TCP_CC_INFINITE UINT32_MAX   /* ssthresh before the first loss */
#define TCP_CC_MAX_WINDOW (1u << 30) /* the largest window RFC 7323 can offer */

struct tcp_cc;

/* An algorithm. The null table (tcp_cc_none) does not limit the window. */
struct tcp_cc_ops {
	/* Congestion avoidance: bytes were acknowledged above ssthresh. */
	void (*avoid)(struct tcp_cc *cc, uint32_t bytes, nsec_t srtt, nsec_t now);
	/*
	 * A round trip was measured before there is an ssthresh; una was acknowledged, nxt is sent
	 * next.
	 */
	void (*sampled)(struct tcp_cc *cc, uint32_t una, uint32_t nxt, nsec_t rtt);
	/* Returns the new ssthresh after a loss with flight bytes in flight. */
	uint32_t (*ssthresh)(struct tcp_cc *cc, uint32_t flight);
	/* Resets the state of the path after a timeout. */
	void (*forget)(struct tcp_cc *cc);
	const char *name; /* as in TCP_CONGESTION */
};

extern const struct tcp_cc_ops tcp_cc_cubic; /* RFC 9438 with RFC 9406 */
extern const struct tcp_cc_ops tcp_cc_newreno;
extern const struct tcp_cc_ops tcp_cc_none;

/* The algorithm for a value of VMA_TCP_CC_ALGO; NewReno for an unknown one. */
const struct tcp_cc_ops *tcp_cc_by_number(int number);
/* The number of a name, or -1. */
int tcp_cc_number_of(const char *name);

/* Congestion avoidance of CUBIC; times in msec, modulo 2^32. */
struct tcp_cubic {
	uint32_t w_max;	 /* bytes: window at the last congestion; 0: none known */
	uint32_t w_est;	 /* bytes: the window that NewReno would have */
	uint32_t prior;	 /* bytes: cwnd before the last congestion; if w_est is above, alpha is 1 */
	uint32_t credit; /* bytes acknowledged since w_est last grew */
	uint32_t epoch;	 /* its start; 0: not started */
	uint32_t seen;	 /* time of the last avoid() */
	uint32_t k;	 /* time from epoch to w_max */
};

/* The initial slow start of CUBIC: RFC 9406. Times in usec. */
struct tcp_hystart {
	uint32_t round_end;
	uint32_t rtt_min;  /* of this round */
	uint32_t last_min; /* of the previous round; 0: none */
	uint32_t css_base; /* RTT at the start of conservative slow start; 0: not in it */
	uint8_t samples;   /* in this round; saturates */
	uint8_t css_rounds;
};

struct tcp_cc {
	const struct tcp_cc_ops *ops;
	uint32_t cwnd;	   /* bytes, at least one segment */
	uint32_t ssthresh; /* bytes */
	uint32_t mss;
	uint32_t credit; /* bytes acknowledged since cwnd last grew in avoidance */
	union {
		struct tcp_hystart hystart; /* while ssthresh is TCP_CC_INFINITE */
		struct tcp_cubic cubic;
	};
} __attribute__((packed, aligned(4)));

void tcp_cc_init(struct tcp_cc *cc, const struct tcp_cc_ops *ops, uint32_t mss);

/* Switches to another algorithm and keeps the window. */
void tcp_cc_switch(struct tcp_cc *cc, const struct tcp_cc_ops *ops);

/* The segment size changed. */
void tcp_cc_set_mss(struct tcp_cc *cc, uint32_t mss);

/* bytes of new data were acknowledged while flight bytes (including them) were in flight. */
void tcp_cc_acked(struct tcp_cc *cc, uint32_t bytes, uint32_t flight, nsec_t srtt, nsec_t now);

/* A round trip was measured. */
static inline void tcp_cc_sampled(struct tcp_cc *cc, uint32_t una, uint32_t nxt, nsec_t rtt)
{
	if (cc->ssthresh == TCP_CC_INFINITE)
		cc->ops->sampled(cc, una, nxt, rtt);
}

/* Fast recovery begins (RFC 6675 section 5, step 4.2). */
void tcp_cc_lost(struct tcp_cc *cc, uint32_t flight);

/* Fast recovery ends (RFC 6582 section 3.2, step 3, option 2; as Linux). */
void tcp_cc_recovered(struct tcp_cc *cc);

/* The retransmission timer expired; again: for the same data (RFC 5681 (4)). */
void tcp_cc_timeout(struct tcp_cc *cc, uint32_t flight, int again);

/*
 * Nothing was sent for as long as idle, more than a timeout: what the window has above initial
 * (bytes) is halved for each timeout, and will soon grow again (RFC 2861, as Linux).
 */
void tcp_cc_idle(struct tcp_cc *cc, uint32_t initial, nsec_t idle, nsec_t rto);

#endif
