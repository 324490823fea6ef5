/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_handover.h"

#include <string.h>

#include "net/tcp/tcp_internal.h"

static bool is_open(const struct tcp_conn *c)
{
	return c->state != TCP_CLOSED && c->state != TCP_LISTEN && c->state != TCP_SYN_SENT &&
	       c->state != TCP_SYN_RECEIVED && c->state != TCP_TIME_WAIT;
}

/* All our data and our FIN are acknowledged. */
static bool fin_is_acked(const struct tcp_conn *c)
{
	return c->state == TCP_FIN_WAIT_2;
}

/* An acknowledged FIN is described as unacknowledged: the peer acknowledges it again. */
bool tcp_handover_describe(const struct tcp_conn *c, nsec_t now, struct tcp_handover *h)
{
	uint32_t out = c->snd_nxt - c->snd_una;

	if (!is_open(c))
		return false;
	*h = (struct tcp_handover){
		.send_seq = c->snd_una - fin_is_acked(c),
		.read_seq = c->rcv_nxt - c->rcv.bytes,
		.to_send = c->snd.len,
		.sent = out < c->snd.len ? out : c->snd.len,
		.to_read = c->rcv.bytes,
		.snd_wl1 = c->snd_wl1,
		.snd_wnd = c->snd_wnd,
		.snd_wnd_max = c->snd_wnd_max > c->snd_wnd ? c->snd_wnd_max : c->snd_wnd,
		.rcv_wnd = c->rcv_edge - c->rcv_nxt,
		.timestamp = tcp_ts_now(c, now),
		.mss = c->agreed_mss,
		.snd_wscale = c->snd_wscale,
		.rcv_wscale = c->rcv_wscale,
		.timestamps = (c->flags & CONN_TIMESTAMPS) != 0,
		.sack = (c->flags & CONN_SACK) != 0,
		.wscale = (c->flags & CONN_WSCALE) != 0,
		.no_more_to_send = (c->flags & CONN_FIN_WANTED) != 0,
		.no_more_to_read = (c->flags & (CONN_FIN_RCVD | CONN_READ_SHUT)) != 0,
	};
	return true;
}

void tcp_handover_copy_to_send(const struct tcp_conn *c, uint8_t *to)
{
	struct tcp_segment seg = {0};

	tcp_sndbuf_parts(&c->snd, 0, c->snd.len, &seg);
	for (int i = 0; i < 2; i++) {
		if (seg.part[i].len)
			memcpy(to, seg.part[i].data, seg.part[i].len);
		to += seg.part[i].len;
	}
}

void tcp_handover_copy_to_read(const struct tcp_conn *c, uint8_t *to)
{
	for (const struct pkt *pkt = c->rcv.head; pkt; pkt = pkt->next) {
		memcpy(to, pkt_payload(pkt), pkt->len);
		to += pkt->len;
	}
}
