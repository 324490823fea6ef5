/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text and FIN: RFC 9293 section 3.10.7.4, seventh and eighth step, and the SACK blocks for
 * out-of-order data.
 */
#include <errno.h>

#include "net/tcp/tcp_internal.h"

/* Records an out-of-order range, latest first (RFC 2018 section 4). */
static void sack_note(struct tcp_conn *c, uint32_t start, uint32_t end)
{
	struct tcp_range old[TCP_SACK_BLOCKS];
	unsigned n = c->sacks;
	struct tcp_rare *rare = tcp_rare(c);

	if (!rare)
		return;
	__builtin_memcpy(old, rare->sack, sizeof(old));
	c->sacks = 1;
	for (unsigned i = 0; i < n; i++) {
		if (seq_leq(old[i].start, end) && seq_geq(old[i].end, start)) {
			start = seq_min(start, old[i].start);
			end = seq_max(end, old[i].end);
		} else if (c->sacks < TCP_SACK_BLOCKS) {
			rare->sack[c->sacks++] = old[i];
		}
	}
	rare->sack[0] = (struct tcp_range){start, end};
}

static void sack_forget(struct tcp_conn *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->sacks; i++) {
		if (c->rcv.ooo && seq_gt(c->rare->sack[i].start, c->rcv_nxt))
			c->rare->sack[n++] = c->rare->sack[i];
	}
	c->sacks = (uint8_t)n;
}

/* Consumes the packet, which continues the stream. */
static bool take_in_order(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	uint32_t len = a->pkt->len, before = c->rcv_nxt;
	bool pruned = false, fin = false;

	if (!tcp_recvq_append(&c->rcv, a->pkt, &pruned)) {
		a->drop = DROP_NO_MEMORY; /* not acknowledged: the peer retransmits it */
		return false;
	}
	a->pkt = NULL;
	c->rcv_nxt += len;
	if (c->rcv.ooo && !(a->flags & TCP_FIN)) {
		c->rcv_nxt = tcp_recvq_advance(&c->rcv, c->rcv_nxt, &fin);
		c->flags |= CONN_ACK_NOW; /* RFC 5681 section 4.2: a gap was filled */
		if (fin)
			a->flags |= TCP_FIN;
	}
	if (c->sacks)
		sack_forget(c);
	if (c->rcv_nxt - c->irs < before - c->irs && c->rcv_nxt - c->irs >= len)
		c->nxt_hi++; /* by out-of-order data, which tcp_data_received() does not see */
	tcp_data_received(c, len, len, (a->flags & TCP_PSH) != 0, now);
	c->ops->readable(c);
	return true;
}

/*
 * The queue refused the packet. If it has no new bytes, reports it as a duplicate, followed by the
 * range that contains it.
 */
static void note_twice(struct tcp_conn *c, const struct pkt *pkt, uint32_t start, uint32_t end)
{
	if (start != end || pkt->len == 0 || !(c->flags & CONN_SACK))
		return;
	sack_note(c, pkt->seq, pkt->seq + pkt->len);
	tcp_note_duplicate(c, pkt->seq, pkt->seq + pkt->len);
}

/*
 * Acknowledges each out-of-order segment at once, so that the peer can count duplicate ACKs (RFC
 * 5681 section 4.2).
 */
static void take_out_of_order(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	uint32_t start = 0, end = 0;

	if (c->rcv_acked != c->rcv_nxt)
		tcp_output_ack(c, now); /* otherwise the next ACK would not be a duplicate */
	if (tcp_recvq_insert(&c->rcv, a->pkt, &start, &end)) {
		a->pkt = NULL;
		if (tcp_rare(c))
			c->rare->out_of_order++;
		if (start != end && (c->flags & CONN_SACK))
			sack_note(c, start, end);
	} else {
		a->drop = DROP_TCP_DUPLICATE;
		note_twice(c, a->pkt, start, end);
	}
	c->quickacks = TCP_QUICKACKS; /* losses are repaired faster without delayed ACKs */
	c->flags &= ~(uint32_t)CONN_PINGPONG;
	tcp_output_ack(c, now);
}

/* RFC 9293 section 3.6.1: true if the program cannot read the data any more. */
static bool is_unwanted(const struct tcp_conn *c)
{
	if (c->flags & CONN_READ_SHUT && (c->state == TCP_FIN_WAIT_1 || c->state == TCP_FIN_WAIT_2))
		return true;
	return c->flags & CONN_DETACHED;
}

/*
 * <SEQ=SEG.ACK><CTL=RST>. Our FIN may be unacknowledged: RFC 5961 obliges the peer to answer a RST
 * with the number after it by a challenge.
 */
static void refuse(struct tcp_conn *c, const struct tcp_arrival *a, nsec_t now)
{
	c->ops->event(c, TCP_EVENT_RESET, 0);
	(void)tcp_emit_bare(c, a->ack, TCP_RST, now);
	tcp_finish(c, ECONNRESET, now);
}

bool tcp_text_step_7(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	bool fin = a->flags & TCP_FIN;

	if (a->pkt->len == 0 && !fin)
		return true;
	if (c->flags & CONN_RTT_WANTED)
		tcp_tune_rtt(c, a, now);
	if (c->flags & CONN_FIN_RCVD) {
		a->drop = DROP_TCP_STATE; /* no data may follow a FIN */
		return false;
	}
	if (a->pkt->len && is_unwanted(c)) {
		refuse(c, a, now);
		return false;
	}
	if (a->pkt->seq != c->rcv_nxt) {
		take_out_of_order(c, a, now);
		return false;
	}
	return a->pkt->len == 0 || take_in_order(c, a, now);
}

void tcp_text_step_8(struct tcp_conn *c, struct tcp_arrival *a, nsec_t now)
{
	if (!(a->flags & TCP_FIN))
		return;
	c->rcv_nxt++;
	c->rcv_edge = seq_max(c->rcv_edge, c->rcv_nxt);
	c->flags |= CONN_FIN_RCVD | CONN_ACK_NOW;
	tcp_recvq_prune(&c->rcv);
	c->sacks = 0;
	switch (c->state) {
	case TCP_ESTABLISHED:
		tcp_set_state(c, TCP_CLOSE_WAIT);
		break;
	case TCP_FIN_WAIT_1: /* with our FIN acknowledged this would be FIN_WAIT_2 */
		tcp_set_state(c, TCP_CLOSING);
		break;
	case TCP_FIN_WAIT_2:
		tcp_enter_time_wait(c, now);
		break;
	}
	if (!(c->flags & CONN_DETACHED))
		c->ops->readable(c);
}
