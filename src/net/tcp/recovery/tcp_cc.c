/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/recovery/tcp_cc.h"

#include <string.h>

#include "net/tcp/recovery/tcp_cc_internal.h"

static uint32_t initial_window(const struct tcp_cc *cc)
{
	return TCP_CC_INITIAL_SEGMENTS * cc->mss;
}

/* ---- NewReno ------------------------------------------------------------------------ */

/* RFC 5681 section 3.1 with byte counting: adds one segment per acknowledged window. */
static void newreno_avoid(struct tcp_cc *cc, uint32_t bytes, nsec_t srtt, nsec_t now)
{
	cc->credit += bytes;
	if (cc->credit >= cc->cwnd) {
		cc->credit -= cc->cwnd;
		tcp_cc_grow(cc, cc->mss);
	}
}

static void no_sampled(struct tcp_cc *cc, uint32_t una, uint32_t nxt, nsec_t rtt)
{
}

/* RFC 5681 equation (4). */
static uint32_t newreno_ssthresh(struct tcp_cc *cc, uint32_t flight)
{
	return max_u32(flight / 2, 2 * cc->mss);
}

static void no_forget(struct tcp_cc *cc)
{
}

const struct tcp_cc_ops tcp_cc_newreno = {
	.avoid = newreno_avoid,
	.forget = no_forget,
	.name = "reno",
	.sampled = no_sampled,
	.ssthresh = newreno_ssthresh,
};

/* ---- none --------------------------------------------------------------------------- */

static void none_avoid(struct tcp_cc *cc, uint32_t bytes, nsec_t srtt, nsec_t now)
{
}

static uint32_t none_ssthresh(struct tcp_cc *cc, uint32_t flight)
{
	return TCP_CC_MAX_WINDOW;
}

const struct tcp_cc_ops tcp_cc_none = {none_avoid, no_sampled, none_ssthresh, no_forget, "none"};

/* ---- all of them -------------------------------------------------------------------- */

static const struct tcp_cc_ops *const algorithms[] = {&tcp_cc_newreno, &tcp_cc_cubic, &tcp_cc_none};

#define ALGORITHMS (int)(sizeof(algorithms) / sizeof(algorithms[0]))

const struct tcp_cc_ops *tcp_cc_by_number(int number)
{
	return number >= 0 && number < ALGORITHMS ? algorithms[number] : algorithms[0];
}

int tcp_cc_number_of(const char *name)
{
	for (int i = 0; i < ALGORITHMS; i++) {
		if (!strcmp(algorithms[i]->name, name))
			return i;
	}
	return -1;
}

void tcp_cc_init(struct tcp_cc *cc, const struct tcp_cc_ops *ops, uint32_t mss)
{
	*cc = (struct tcp_cc){.ops = ops, .mss = mss, .ssthresh = TCP_CC_INFINITE};
	cc->cwnd = ops == &tcp_cc_none ? TCP_CC_MAX_WINDOW : initial_window(cc);
}

void tcp_cc_switch(struct tcp_cc *cc, const struct tcp_cc_ops *ops)
{
	if (ops == cc->ops)
		return;
	if (cc->ops == &tcp_cc_none)
		cc->cwnd = initial_window(cc);
	if (ops == &tcp_cc_none)
		cc->cwnd = TCP_CC_MAX_WINDOW;
	cc->ops = ops;
	cc->credit = 0;
	memset(&cc->cubic, 0, sizeof(cc->cubic));
}

void tcp_cc_set_mss(struct tcp_cc *cc, uint32_t mss)
{
	cc->mss = mss;
	cc->cwnd = max_u32(cc->cwnd, mss);
	cc->ssthresh = max_u32(cc->ssthresh, 2 * mss);
}

void tcp_cc_leave_slow_start(struct tcp_cc *cc, uint32_t ssthresh)
{
	if (cc->ssthresh == TCP_CC_INFINITE) /* the union changes from hystart to cubic */
		memset(&cc->cubic, 0, sizeof(cc->cubic));
	cc->ssthresh = ssthresh;
}

/*
 * The window grows only while it limits the sender (see RFC 7661): in slow start if at least half
 * of it was used, in congestion avoidance if all of it was. In slow start it grows by all
 * acknowledged bytes, as on Linux, because acknowledgements arrive in bursts.
 */
void tcp_cc_acked(struct tcp_cc *cc, uint32_t bytes, uint32_t flight, nsec_t srtt, nsec_t now)
{
	if (cc->cwnd < cc->ssthresh) {
		if (flight < cc->cwnd / 2)
			return;
		if (cc->ssthresh == TCP_CC_INFINITE && cc->hystart.css_base)
			bytes /= TCP_CC_CSS_DIVISOR;
		tcp_cc_grow(cc, bytes);
		return;
	}
	if (flight + cc->mss > cc->cwnd)
		cc->ops->avoid(cc, bytes, srtt, now);
}

void tcp_cc_lost(struct tcp_cc *cc, uint32_t flight)
{
	tcp_cc_leave_slow_start(cc, cc->ssthresh);
	cc->ssthresh = cc->ops->ssthresh(cc, flight);
	cc->cwnd = cc->ssthresh;
	cc->credit = 0;
}

void tcp_cc_recovered(struct tcp_cc *cc)
{
	/* That of an algorithm without windows says nothing to the one that replaced it. */
	if (cc->ssthresh < TCP_CC_MAX_WINDOW)
		cc->cwnd = cc->ssthresh;
}

void tcp_cc_timeout(struct tcp_cc *cc, uint32_t flight, int again)
{
	if (!again) {
		tcp_cc_leave_slow_start(cc, cc->ssthresh);
		cc->ssthresh = cc->ops->ssthresh(cc, flight);
	}
	cc->ops->forget(cc);
	cc->cwnd = cc->mss;
	cc->credit = 0;
}

void tcp_cc_idle(struct tcp_cc *cc, uint32_t initial, nsec_t idle, nsec_t rto)
{
	uint32_t least = min_u32(cc->cwnd, initial);

	if (cc->ops == &tcp_cc_none)
		return;
	if (cc->ssthresh != TCP_CC_INFINITE)
		cc->ssthresh = max_u32(cc->ssthresh, cc->cwnd / 2 + cc->cwnd / 4);
	for (; idle > rto && cc->cwnd > least; idle -= rto)
		cc->cwnd = max_u32(cc->cwnd / 2, least);
}
