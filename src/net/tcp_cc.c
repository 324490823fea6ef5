/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp_cc.h"

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static uint32_t initial_window(const struct tcp_cc *cc)
{
	return TCP_CC_INITIAL_SEGMENTS * cc->mss;
}

static void grow(struct tcp_cc *cc, uint32_t bytes)
{
	cc->cwnd = min_u32(cc->cwnd + min_u32(bytes, TCP_CC_MAX_WINDOW), TCP_CC_MAX_WINDOW);
}

/* RFC 5681 section 3.1 with byte counting: one segment per window acknowledged. */
static void newreno_avoid(struct tcp_cc *cc, uint32_t bytes, nsec_t now)
{
	cc->credit += bytes;
	if (cc->credit >= cc->cwnd) {
		cc->credit -= cc->cwnd;
		grow(cc, cc->mss);
	}
}

/* RFC 5681 equation (4). */
static uint32_t newreno_ssthresh(struct tcp_cc *cc, uint32_t flight, nsec_t now)
{
	return max_u32(flight / 2, 2 * cc->mss);
}

const struct tcp_cc_ops tcp_cc_newreno = {
	.avoid = newreno_avoid,
	.ssthresh = newreno_ssthresh,
	.name = "reno",
};

static void none_avoid(struct tcp_cc *cc, uint32_t bytes, nsec_t now)
{
}

static uint32_t none_ssthresh(struct tcp_cc *cc, uint32_t flight, nsec_t now)
{
	return TCP_CC_MAX_WINDOW;
}

const struct tcp_cc_ops tcp_cc_none = {none_avoid, none_ssthresh, "none"};

void tcp_cc_init(struct tcp_cc *cc, const struct tcp_cc_ops *ops, uint32_t mss)
{
	*cc = (struct tcp_cc){.ops = ops, .mss = mss, .ssthresh = TCP_CC_INFINITE};
	cc->cwnd = ops == &tcp_cc_none ? TCP_CC_MAX_WINDOW : initial_window(cc);
}

/*
 * The window grows only while it is what limits the sender (RFC 7661's concern):
 * in slow start when more than half of it was used, above it when all was.
 */
void tcp_cc_acked(struct tcp_cc *cc, uint32_t bytes, uint32_t flight, nsec_t now)
{
	if (cc->cwnd < cc->ssthresh) {
		if (flight >= cc->cwnd / 2)
			grow(cc,
			     bytes); /* all of them, as Linux: acknowledgements come in bursts */
		return;
	}
	if (flight + cc->mss > cc->cwnd)
		cc->ops->avoid(cc, bytes, now);
}

void tcp_cc_lost(struct tcp_cc *cc, uint32_t flight, nsec_t now)
{
	cc->ssthresh = cc->ops->ssthresh(cc, flight, now);
	cc->cwnd = cc->ssthresh;
	cc->credit = 0;
}

void tcp_cc_recovered(struct tcp_cc *cc, uint32_t pipe)
{
	cc->cwnd = min_u32(cc->ssthresh, max_u32(pipe, cc->mss) + cc->mss);
}

void tcp_cc_timeout(struct tcp_cc *cc, uint32_t flight, int again, nsec_t now)
{
	if (!again)
		cc->ssthresh = cc->ops->ssthresh(cc, flight, now);
	cc->cwnd = cc->mss;
	cc->credit = 0;
}

void tcp_cc_idle(struct tcp_cc *cc)
{
	cc->cwnd = min_u32(cc->cwnd, initial_window(cc));
}
