/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP_INFO: the connection in the words of <linux/tcp.h>. */
#include <linux/tcp.h>
#include <string.h>

#include "net/tcp_internal.h"

/* The kernel's numbers, <linux/tcp_states.h>. */
static const uint8_t linux_state[] = {
	[TCP_ESTABLISHED] = 1, [TCP_SYN_SENT] = 2,  [TCP_SYN_RECEIVED] = 3, [TCP_FIN_WAIT_1] = 4,
	[TCP_FIN_WAIT_2] = 5,  [TCP_TIME_WAIT] = 6, [TCP_CLOSED] = 7,	    [TCP_CLOSE_WAIT] = 8,
	[TCP_LAST_ACK] = 9,    [TCP_LISTEN] = 10,   [TCP_CLOSING] = 11,
};

static uint32_t usec(nsec_t t)
{
	return (uint32_t)(t / NSEC_PER_USEC);
}

static uint32_t msec_since(nsec_t then, nsec_t now)
{
	return (uint32_t)((now - then) / NSEC_PER_MSEC);
}

void tcp_get_info(const struct tcp_conn *c, struct tcp_info *info, nsec_t now)
{
	uint32_t mss = max_u32(c->mss, 1);

	memset(info, 0, sizeof(*info));
	info->tcpi_state = linux_state[c->state];
	info->tcpi_ca_state = c->recovery == TCP_RECOVERY_TIMEOUT ? 4 /* loss */
			      : c->recovery			  ? 3 /* recovery */
								  : 0;
	info->tcpi_retransmits = c->retries;
	info->tcpi_probes = c->probes;
	if (c->flags & CONN_TIMESTAMPS)
		info->tcpi_options |= TCPI_OPT_TIMESTAMPS;
	if (c->flags & CONN_SACK)
		info->tcpi_options |= TCPI_OPT_SACK;
	if (c->flags & CONN_WSCALE)
		info->tcpi_options |= TCPI_OPT_WSCALE;
	info->tcpi_snd_wscale = c->snd_wscale & 0xf;
	info->tcpi_rcv_wscale = c->rcv_wscale & 0xf;
	info->tcpi_rto = usec(c->rtt.rto);
	info->tcpi_ato = usec(TCP_DELACK);
	info->tcpi_snd_mss = mss;
	info->tcpi_rcv_mss = c->rcv_mss;
	info->tcpi_unacked = (c->snd_nxt - c->snd_una + mss - 1) / mss;
	if (c->flight) {
		info->tcpi_sacked = (c->flight->sacked + mss - 1) / mss;
		info->tcpi_lost = (c->flight->lost + mss - 1) / mss;
		info->tcpi_reord_seen = c->flight->reordered;
	}
	info->tcpi_last_data_sent = msec_since(c->tx_at, now);
	info->tcpi_last_data_recv = msec_since(c->data_rx_at, now);
	info->tcpi_last_ack_recv = msec_since(c->rx_at, now);
	info->tcpi_pmtu = c->path_mss + IP4_HDR + TCP_HDR;
	info->tcpi_rcv_ssthresh = c->rcvbuf;
	info->tcpi_rtt = usec(c->rtt.srtt);
	info->tcpi_rttvar = usec(c->rtt.rttvar);
	info->tcpi_snd_ssthresh = c->cc.ssthresh == TCP_CC_INFINITE ? INT32_MAX
								    : c->cc.ssthresh / mss;
	info->tcpi_snd_cwnd = c->cc.cwnd / mss;
	info->tcpi_advmss = c->config_mss;
	info->tcpi_rcv_space = c->rcvbuf;
	info->tcpi_total_retrans = c->retransmits;
	info->tcpi_min_rtt = usec(c->rtt.min);
	info->tcpi_notsent_bytes = tcp_unsent_bytes(c);
	info->tcpi_snd_wnd = c->snd_wnd;
}
