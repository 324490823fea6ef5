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

void tcp_begin_window(struct tcp_conn *c)
{
	if (c->flags & CONN_SYN_RTX) /* RFC 5681 section 3.1: the SYN was lost */
		c->cc.cwnd = c->mss;
	else if (c->cc.ops != &tcp_cc_none)
		c->cc.cwnd = tcp_initial_window(c);
}

int tcp_set_route(struct tcp_conn *c, const struct route_metrics *metrics)
{
	bool any = metrics->rto_min || metrics->initcwnd || metrics->quickack;
	nsec_t min_rto = tcp_min_rto(c);

	if (!any && !c->rare)
		return 0;
	if (!tcp_rare(c))
		return -ENOMEM;
	c->rare->route = *metrics;
	if (tcp_min_rto(c) != min_rto && c->rtt.srtt && !c->retries)
		c->rtt.rto = rtt_base(&c->rtt, tcp_min_rto(c));
	if (!c->data_segs_out)
		tcp_begin_window(c);
	return 0;
}
