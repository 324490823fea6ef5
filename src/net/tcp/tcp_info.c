/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP_INFO: a connection as struct tcp_info of <linux/tcp.h>. */
#include <linux/tcp.h>
#include <string.h>

#include "net/tcp/tcp_internal.h"

/*
 * The kernel's numbers, <linux/tcp_states.h>. In the kernel a TIME_WAIT has no socket any more: the
 * program's socket is closed.
 */
static const uint8_t linux_state[] = {
	[TCP_ESTABLISHED] = 1, [TCP_SYN_SENT] = 2,  [TCP_SYN_RECEIVED] = 3, [TCP_FIN_WAIT_1] = 4,
	[TCP_FIN_WAIT_2] = 5,  [TCP_TIME_WAIT] = 7, [TCP_CLOSED] = 7,	    [TCP_CLOSE_WAIT] = 8,
	[TCP_LAST_ACK] = 9,    [TCP_LISTEN] = 10,   [TCP_CLOSING] = 11,
};

/* Converts bytes to segments. */
static uint32_t segments(const struct tcp_conn *c, uint32_t bytes)
{
	return c->mss ? (bytes + c->mss - 1) / c->mss : 0;
}

static uint32_t msec_since(nsec_t then, nsec_t now)
{
	return (uint32_t)((now - then) / NSEC_PER_MSEC);
}

enum { CA_OPEN, CA_DISORDER, CA_CWR, CA_RECOVERY, CA_LOSS };

static uint8_t ca_state(const struct tcp_conn *c)
{
	uint32_t out = c->snd_nxt - c->snd_una;

	if (c->recovery)
		return c->recovery == TCP_RECOVERY_TIMEOUT ? CA_LOSS : CA_RECOVERY;
	if ((c->flags & CONN_ECN) && c->rare && out && c->rare->ecn_end - c->snd_una - 1 < out)
		return CA_CWR;
	return c->trouble ? CA_DISORDER : CA_OPEN;
}

static uint8_t option_bits(const struct tcp_conn *c)
{
	uint32_t set = 0;

	if (c->flags & CONN_TIMESTAMPS)
		set |= TCPI_OPT_TIMESTAMPS;
	if (c->flags & CONN_SACK)
		set |= TCPI_OPT_SACK;
	if (c->flags & CONN_WSCALE)
		set |= TCPI_OPT_WSCALE;
	if (c->flags & CONN_ECN)
		set |= TCPI_OPT_ECN;
	return (uint8_t)set;
}

/* ---- how much ---------------------------------------------------------------------- */

/* Bytes between the SYN and seq, which has wrapped hi times; SYN and FIN do not count. */
static uint64_t stream_bytes(uint32_t seq, uint32_t first, uint16_t hi, bool fin)
{
	uint64_t n = ((uint64_t)hi << 32) + (seq - first);

	return n > 1u + fin ? n - 1 - fin : 0;
}

static void fill_bytes(const struct tcp_conn *c, struct tcp_info *info)
{
	bool fin = c->flags & CONN_FIN_SENT, fin_out = fin && tcp_in_flight(c);

	if (!(c->flags & CONN_STARTED))
		return;
	info->tcpi_bytes_acked = stream_bytes(c->snd_una, c->iss, c->una_hi, tcp_fin_acked(c));
	if (c->state != TCP_SYN_SENT) {
		info->tcpi_bytes_received =
			stream_bytes(c->rcv_nxt, c->irs, c->nxt_hi, c->flags & CONN_FIN_RCVD);
		info->tcpi_bytes_sent =
			info->tcpi_bytes_acked + (c->snd_nxt - c->snd_una) - fin_out;
	}
	if (c->rare) {
		info->tcpi_bytes_retrans = c->rare->bytes_retrans;
		info->tcpi_bytes_sent += c->rare->bytes_retrans;
	}
}

/* Retransmitted bytes that are in flight. */
static uint32_t resent_bytes(const struct tcp_flight *f)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < f->n; i++) {
		if ((f->r[i].what & (RUN_RTX | RUN_LOST | RUN_SACKED)) == RUN_RTX)
			sum += tcp_run_size(f, i);
	}
	return sum;
}

static void fill_counts(const struct tcp_conn *c, struct tcp_info *info)
{
	uint32_t first;

	info->tcpi_segs_in = c->segs_in;
	info->tcpi_segs_out = c->segs_out;
	info->tcpi_data_segs_in = c->data_segs_in;
	info->tcpi_data_segs_out = c->data_segs_out;
	info->tcpi_total_retrans = c->retransmits;
	if (c->state != TCP_CLOSED)
		info->tcpi_unacked = segments(c, c->snd_nxt - c->snd_una);
	if (c->flight) {
		uint32_t rtx = resent_bytes(c->flight);

		info->tcpi_sacked = segments(c, c->flight->sacked);
		info->tcpi_retrans = segments(c, rtx);
		info->tcpi_lost = segments(c, c->flight->lost + (c->recovery ? rtx : 0));
	}
	if (c->rare) {
		info->tcpi_dsack_dups = c->rare->dsack_dups;
		info->tcpi_reord_seen = c->rare->reord_seen;
		info->tcpi_rcv_ooopack = c->rare->out_of_order;
		info->tcpi_delivered_ce = c->rare->delivered_ce;
	}
	/*
	 * Counts the SYN and each segment once: those sent for the first time, without those in
	 * flight.
	 */
	first = c->data_segs_out - min_u32(c->data_segs_out, c->retransmits) + 1;
	first -=
		min_u32(first, info->tcpi_unacked - min_u32(info->tcpi_unacked, info->tcpi_sacked));
	if (tcp_synchronized(c))
		info->tcpi_delivered = first;
}

/* ---- how fast ---------------------------------------------------------------------- */

static void fill_times(const struct tcp_conn *c, struct tcp_info *info, nsec_t now)
{
	info->tcpi_rto = tcp_usec(c->rtt.rto);
	info->tcpi_ato = tcp_usec(tcp_delack(c));
	info->tcpi_rtt = tcp_usec(c->rtt.srtt);
	info->tcpi_rttvar = tcp_usec(c->rtt.rttvar);
	info->tcpi_min_rtt = c->rtt.min ? tcp_usec(c->rtt.min) : UINT32_MAX;
	info->tcpi_rcv_rtt = c->rcv_rtt;
	info->tcpi_last_data_sent = msec_since(c->tx_at, now);
	info->tcpi_last_data_recv = msec_since(c->data_segs_in ? c->data_rx_at : c->rx_at, now);
	info->tcpi_last_ack_recv = msec_since(c->rx_at, now);
	info->tcpi_busy_time = (uint64_t)(c->busy + (c->snd.len ? now : 0)) / NSEC_PER_USEC;
	info->tcpi_rwnd_limited =
		(uint64_t)tcp_limited_for(c, TCP_LIMIT_WINDOW, now) / NSEC_PER_USEC;
	info->tcpi_sndbuf_limited =
		(uint64_t)tcp_limited_for(c, TCP_LIMIT_SNDBUF, now) / NSEC_PER_USEC;
}

static void fill_rates(const struct tcp_conn *c, struct tcp_info *info)
{
	info->tcpi_max_pacing_rate = tcp_pacing(c) ? tcp_pacing(c) : UINT64_MAX;
	info->tcpi_pacing_rate = info->tcpi_max_pacing_rate;
	info->tcpi_delivery_rate = (uint64_t)c->rate * TCP_RATE_UNIT;
	info->tcpi_snd_ssthresh = c->cc.ssthresh == TCP_CC_INFINITE ? INT32_MAX
								    : segments(c, c->cc.ssthresh);
	info->tcpi_snd_cwnd = c->mss ? c->cc.cwnd / c->mss : 0;
}

void tcp_get_info(const struct tcp_conn *c, struct tcp_info *info, nsec_t now)
{
	memset(info, 0, sizeof(*info));
	info->tcpi_state = linux_state[c->state];
	info->tcpi_ca_state = ca_state(c);
	info->tcpi_retransmits = c->retries;
	info->tcpi_backoff = c->retries;
	info->tcpi_probes = c->probes;
	info->tcpi_options = option_bits(c);
	info->tcpi_snd_wscale = c->snd_wscale & 0xf;
	info->tcpi_rcv_wscale = c->rcv_wscale & 0xf;
	info->tcpi_snd_mss = tcp_maxseg(c);
	info->tcpi_rcv_mss = c->rcv_mss;
	info->tcpi_advmss = c->config_mss;
	info->tcpi_pmtu = c->path_mss + tcp_headers(c);
	info->tcpi_rcv_ssthresh = tcp_window_max(c);
	info->tcpi_rcv_space = c->rcv_space;
	info->tcpi_reordering = TCP_DUPACKS;
	info->tcpi_notsent_bytes = tcp_unsent_bytes(c);
	info->tcpi_snd_wnd = c->snd_wnd;
	fill_times(c, info, now);
	fill_rates(c, info);
	fill_counts(c, info);
	fill_bytes(c, info);
}
