/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Explicit congestion notification, RFC 3168: routers mark packets instead of dropping them, the
 * receiver reports the mark, the sender reduces its window and confirms that.
 */
#include "net/tcp/tcp_internal.h"

void tcp_ecn_reduced(struct tcp_conn *c)
{
	if (tcp_rare(c))
		c->rare->ecn_end = c->snd_nxt;
	c->flags |= CONN_ECN_CWR;
}

/*
 * Section 6.1.2: reduces the window once per window of data, and not again until the peer has
 * received the segment with CWR.
 */
static void congestion_echoed(struct tcp_conn *c)
{
	uint32_t out = c->snd_nxt - c->snd_una;
	uint32_t waits = c->rare ? c->rare->ecn_end - c->snd_una : 0;

	if (c->recovery || waits <= out)
		return;
	tcp_cc_lost(&c->cc, max_u32(out, c->mss));
	tcp_ecn_reduced(c);
}

void tcp_ecn_received(struct tcp_conn *c, const struct tcp_arrival *a)
{
	if (a->flags & TCP_CWR) /* section 6.1.3 */
		c->flags &= ~(uint32_t)CONN_ECN_ECHO;
	if (tcp_wire_ecn(a->pkt) == ECN_CE)
		c->flags |= CONN_ECN_ECHO;
	if (a->flags & TCP_ECE)
		congestion_echoed(c);
}

/* Sections 6.1.4 and 6.1.5: pure ACKs and retransmissions are not ECN-capable. */
void tcp_ecn_mark(struct tcp_conn *c, struct tcp_segment *seg)
{
	if (c->flags & CONN_ECN_ECHO)
		seg->flags |= TCP_ECE;
	if (!seg->len || seg->seq != c->snd_nxt)
		return;
	seg->ecn = ECN_ECT0;
	if (c->flags & CONN_ECN_CWR)
		seg->flags |= TCP_CWR;
	c->flags &= ~(uint32_t)CONN_ECN_CWR;
}

void tcp_ecn_syn_ack(struct tcp_conn *c, uint8_t flags)
{
	if ((flags & (TCP_ECE | TCP_CWR)) != TCP_ECE)
		c->flags &= ~(uint32_t)CONN_ECN;
}
