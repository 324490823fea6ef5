/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CUBIC, RFC 9438, and HyStart++, RFC 9406, in integers: windows in bytes; times of the curve in
 * milliseconds, because it spans seconds; round trips in microseconds.
 */
#include "net/tcp/recovery/tcp_cc_internal.h"

#define BETA(x) ((uint32_t)((uint64_t)(x)*7 / 10))	/* section 4.6 */
#define CONVERGE(x) ((uint32_t)((uint64_t)(x)*17 / 20)) /* section 4.7: (1 + beta) / 2 */
#define ALPHA_INVERSE(x) ((uint64_t)(x)*17 / 9)		/* section 4.3: 3 (1 - beta) / (1 + beta) */
#define CURVE_MAX (1u << 20)				/* msec: 17 minutes before or after K */

/* ---- the curve ---------------------------------------------------------------------- */

static uint32_t msec_of(nsec_t t)
{
	return (uint32_t)(t / NSEC_PER_MSEC);
}

/* The integer cube root, rounded down. */
static uint32_t cube_root(uint64_t x)
{
	uint64_t root = 0, try;

	for (int bit = 20; bit >= 0; bit--) {
		try = root | 1u << bit;
		if (try * try * try <= x)
			root = try;
	}
	return (uint32_t)root;
}

/* Section 4.2, equation (2): K = cbrt((W_max - cwnd) / C), C = 0.4 segments / s^3. */
static uint32_t time_to(const struct tcp_cc *cc, uint32_t bytes)
{
	return cube_root((uint64_t)bytes * 2500000000u / cc->mss);
}

/* Section 4.2, equation (1), at msec after the epoch began. */
static uint32_t curve_window(const struct tcp_cc *cc, uint32_t msec)
{
	const struct tcp_cubic *cubic = &cc->cubic;
	bool below = msec < cubic->k;
	uint64_t d = min_u32(below ? cubic->k - msec : msec - cubic->k, CURVE_MAX), bytes;

	bytes = d * d * d / 1000000 * 4 * cc->mss / 10000;
	if (bytes > TCP_CC_MAX_WINDOW)
		bytes = TCP_CC_MAX_WINDOW;
	if (below)
		return bytes < cubic->w_max ? cubic->w_max - (uint32_t)bytes : 0;
	return min_u32(cubic->w_max + (uint32_t)bytes, TCP_CC_MAX_WINDOW);
}

static void begin_epoch(struct tcp_cc *cc, uint32_t now)
{
	struct tcp_cubic *cubic = &cc->cubic;

	cubic->epoch = now | 1; /* 0 means none */
	cubic->w_est = cc->cwnd;
	cubic->credit = 0;
	cubic->k = 0;
	if (cubic->w_max <= cc->cwnd) /* the first epoch, or after a timeout: section 4.8 */
		cubic->w_max = cc->cwnd;
	else
		cubic->k = time_to(cc, cubic->w_max - cc->cwnd);
}

/* Section 4.3: the window is at least that of NewReno. */
static void reno_friendly(struct tcp_cc *cc, uint32_t bytes)
{
	struct tcp_cubic *cubic = &cc->cubic;
	uint64_t need = cubic->w_est < cubic->prior ? ALPHA_INVERSE(cc->cwnd) : cc->cwnd;

	cubic->credit += bytes;
	if (cubic->credit >= need) {
		cubic->credit -= (uint32_t)need;
		cubic->w_est = min_u32(cubic->w_est + cc->mss, TCP_CC_MAX_WINDOW);
	}
}

/* Sections 4.4 and 4.5: adds (target - cwnd) / cwnd of the acknowledged bytes. */
static void grow_towards(struct tcp_cc *cc, uint32_t target, uint32_t bytes)
{
	uint64_t need = (uint64_t)cc->cwnd * 100; /* on the plateau: very slow growth */

	target = min_u32(target, cc->cwnd + cc->cwnd / 2);
	if (target > cc->cwnd)
		need = (uint64_t)cc->cwnd * cc->mss / (target - cc->cwnd) + 1;
	cc->credit += bytes;
	if (cc->credit >= need) {
		tcp_cc_grow(cc, (uint32_t)(cc->credit / need * cc->mss));
		cc->credit = (uint32_t)(cc->credit % need);
	}
}

static void cubic_avoid(struct tcp_cc *cc, uint32_t bytes, nsec_t srtt, nsec_t now)
{
	struct tcp_cubic *cubic = &cc->cubic;
	uint32_t at = msec_of(now), rtt = msec_of(srtt), pause = at - cubic->seen;

	if (cubic->epoch == 0)
		begin_epoch(cc, at);
	else if (pause >
		 2 * rtt + 10) /* section 5.8: time without use of the window does not count */
		cubic->epoch = (cubic->epoch + pause) | 1;
	cubic->seen = at;
	reno_friendly(cc, bytes);
	if (cubic->w_est > curve_window(cc, at - cubic->epoch)) {
		if (cubic->w_est > cc->cwnd)
			tcp_cc_grow(cc, cubic->w_est - cc->cwnd);
		return;
	}
	grow_towards(cc, curve_window(cc, at - cubic->epoch + rtt), bytes);
}

/* Sections 4.6 and 4.7. */
static uint32_t cubic_ssthresh(struct tcp_cc *cc, uint32_t flight)
{
	struct tcp_cubic *cubic = &cc->cubic;

	cubic->epoch = 0;
	cubic->prior = cc->cwnd;
	cubic->w_max = cc->cwnd < cubic->w_max ? CONVERGE(cc->cwnd) : cc->cwnd;
	return max_u32(BETA(min_u32(flight, cc->cwnd)), 2 * cc->mss);
}

/* Section 4.8 */
static void cubic_forget(struct tcp_cc *cc)
{
	cc->cubic.w_max = 0;
	cc->cubic.epoch = 0;
}

/* ---- HyStart++ ---------------------------------------------------------------------- */

#define MIN_RTT_THRESH 4000u /* usec; this and those below: RFC 9406 section 4.3 */
#define MAX_RTT_THRESH 16000u
#define MIN_RTT_DIVISOR 8
#define N_RTT_SAMPLE 8
#define CSS_ROUNDS 5

static void begin_round(struct tcp_cc *cc, uint32_t nxt)
{
	struct tcp_hystart *h = &cc->hystart;

	if (h->css_base && ++h->css_rounds >= CSS_ROUNDS) {
		tcp_cc_leave_slow_start(cc, max_u32(cc->cwnd, 2 * cc->mss));
		return;
	}
	h->round_end = nxt;
	h->last_min = h->samples ? h->rtt_min : 0;
	h->rtt_min = UINT32_MAX;
	h->samples = 0;
}

static void cubic_sampled(struct tcp_cc *cc, uint32_t una, uint32_t nxt, nsec_t rtt)
{
	struct tcp_hystart *h = &cc->hystart;
	uint32_t usec = max_u32((uint32_t)(rtt / NSEC_PER_USEC), 1), thresh;

	if (h->samples == 0 || seq_geq(una, h->round_end))
		begin_round(cc, nxt);
	if (cc->ssthresh != TCP_CC_INFINITE)
		return;
	h->rtt_min = min_u32(h->rtt_min, usec);
	if (h->samples < UINT8_MAX)
		h->samples++;
	if (h->samples < N_RTT_SAMPLE)
		return;
	if (h->css_base) { /* the RTT decreased: it was not congestion */
		if (h->rtt_min < h->css_base)
			h->css_base = 0;
		return;
	}
	thresh = max_u32(MIN_RTT_THRESH, min_u32(h->last_min / MIN_RTT_DIVISOR, MAX_RTT_THRESH));
	if (h->last_min && h->rtt_min >= h->last_min + thresh) {
		h->css_base = h->rtt_min;
		h->css_rounds = 0;
	}
}

const struct tcp_cc_ops tcp_cc_cubic = {
	.avoid = cubic_avoid,
	.forget = cubic_forget,
	.name = "cubic",
	.sampled = cubic_sampled,
	.ssthresh = cubic_ssthresh,
};
