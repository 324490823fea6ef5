/* SPDX-License-Identifier: BSD-2-Clause */
/* What the host and the route say about connections, instead of the defaults. */
#include <errno.h>

#include "net/tcp/tcp_internal.h"

/* As the kernel, if nobody changed them. */
struct tcp_settings tcp_settings = {
	.retries2 = TCP_DATA_RETRIES,
	.syn_retries = TCP_SYN_RETRIES,
	.syn_ack_retries = TCP_SYNACK_RETRIES,
	.sack = true,
	.window_scaling = true,
	.restart_after_idle = true,
	.min_rto = RTT_MIN_RTO,
};

static const struct route_metrics *route_of(const struct tcp_conn *c)
{
	static const struct route_metrics none;

	return c->rare ? &c->rare->route : &none;
}

nsec_t tcp_min_rto_rare(const struct tcp_conn *c)
{
	uint32_t msec = route_of(c)->rto_min;

	return msec ? min_u32(msec, RTT_MAX_RTO / NSEC_PER_MSEC) * NSEC_PER_MSEC
		    : tcp_settings.min_rto;
}

uint32_t tcp_initial_window(const struct tcp_conn *c)
{
	uint32_t segments = route_of(c)->initcwnd;

	return min_u32(segments ? segments * c->mss : TCP_CC_INITIAL_SEGMENTS * c->mss,
		       TCP_CC_MAX_WINDOW);
}

void tcp_begin_flight(struct tcp_conn *c)
{
	if (c->flags & CONN_SYN_RTX) /* RFC 5681 section 3.1: the SYN was lost */
		c->cc.cwnd = c->mss;
	else if (c->cc.ops != &tcp_cc_none)
		c->cc.cwnd = tcp_initial_window(c);
}

/* Is there anything to remember? */
static bool has_any(const struct route_metrics *m)
{
	return m->rto_min || m->initcwnd || m->quickack || m->window || m->initrwnd || m->cc_locked;
}

void tcp_begin_route(struct tcp_conn *c, const struct route_metrics *metrics)
{
	if (!has_any(metrics) || !tcp_rare(c))
		return; /* without memory, the defaults hold */
	c->rare->route = *metrics;
	tcp_begin_flight(c);
}

int tcp_set_route(struct tcp_conn *c, const struct route_metrics *metrics)
{
	struct route_metrics next = *route_of(c);
	nsec_t min_rto = tcp_min_rto(c);

	next.quickack = metrics->quickack;
	next.rto_min = metrics->rto_min;
	next.initcwnd = metrics->initcwnd;
	if (!has_any(&next) && !c->rare)
		return 0;
	if (!tcp_rare(c))
		return -ENOMEM;
	c->rare->route = next;
	if (tcp_min_rto(c) != min_rto && c->rtt.srtt && !c->retries)
		c->rtt.rto = rtt_base(&c->rtt, tcp_min_rto(c));
	if (!c->data_segs_out)
		tcp_begin_flight(c);
	return 0;
}

const char *tcp_congestion(const struct tcp_conn *c)
{
	return c->cc.ops->name;
}

bool tcp_congestion_is_locked(const struct tcp_conn *c)
{
	return route_of(c)->cc_locked;
}

/* ---- the window that we offer -------------------------------------------------------- */

void tcp_set_window_clamp(struct tcp_conn *c, uint32_t bytes)
{
	uint32_t clamp = bytes ? bytes : route_of(c)->window;

	if (!clamp)
		clamp = UINT32_MAX;
	if (c->rare && c->rare->window_opens) {
		c->rare->window_clamp = clamp;
		clamp = min_u32(clamp, c->window_clamp);
	}
	c->window_clamp = clamp;
}

uint32_t tcp_window_max(const struct tcp_conn *c)
{
	uint32_t clamp = c->rare && c->rare->window_opens ? c->rare->window_clamp : c->window_clamp;

	return min_u32(min_u32(c->rcvbuf, clamp), (uint32_t)UINT16_MAX << c->rcv_wscale);
}

void tcp_begin_window(struct tcp_conn *c, uint32_t mss)
{
	uint32_t clamp = tcp_first_clamp(c->window_clamp, route_of(c)->initrwnd, mss);

	if (clamp == c->window_clamp)
		return;
	c->rare->window_clamp = c->window_clamp;
	c->rare->window_opens = clamp;
	c->window_clamp = clamp;
}

/* As Linux: by twice the data that arrives. */
uint32_t tcp_open_window(struct tcp_conn *c)
{
	struct tcp_rare *rare = c->rare;
	uint64_t opened;

	if (!rare || !rare->window_opens || c->state == TCP_SYN_SENT)
		return c->window_clamp;
	opened = rare->window_opens + 2 * (((uint64_t)c->nxt_hi << 32) + (c->rcv_nxt - c->irs - 1));
	if (opened >= min_u32(rare->window_clamp, c->rcvbuf_max)) {
		rare->window_opens = 0;
		c->window_clamp = rare->window_clamp;
	} else {
		c->window_clamp = (uint32_t)opened;
	}
	return c->window_clamp;
}
