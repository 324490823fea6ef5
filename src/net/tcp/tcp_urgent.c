/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Urgent data, RFC 9293 section 3.8.5, as on Linux (RFC 6093 section 3): the pointer points after
 * one urgent byte.  The program reads it out of band, unless SO_OOBINLINE is set; reads of the
 * stream stop before it.
 */
#include <errno.h>

#include "net/tcp/tcp_internal.h"

enum { URGENT_NONE, URGENT_ANNOUNCED, URGENT_HERE, URGENT_READ };

/* ---- sending ------------------------------------------------------------------------ */

void tcp_urgent_queued(struct tcp_conn *c)
{
	if (!tcp_rare(c))
		return;
	c->rare->snd_up = tcp_data_end(c);
	c->flags |= CONN_URG_OUT;
}

void tcp_urgent_mark(struct tcp_conn *c, struct tcp_segment *seg)
{
	if (seq_geq(c->snd_una, c->rare->snd_up)) {
		c->flags &= ~(uint32_t)CONN_URG_OUT;
		return;
	}
	if (!seq_lt(seg->seq, c->rare->snd_up))
		return;
	seg->flags |= TCP_URG;
	seg->urg = (uint16_t)min_u32(c->rare->snd_up - seg->seq, UINT16_MAX);
}

/* ---- receiving ---------------------------------------------------------------------- */

/* The sequence number of the next byte to read. */
static uint32_t read_at(const struct tcp_conn *c)
{
	return c->rcv.head ? c->rcv.head->seq : c->rcv_nxt - ((c->flags & CONN_FIN_RCVD) != 0);
}

static void set_urgent(struct tcp_conn *c, uint8_t state)
{
	c->urgent = state;
	c->flags &= ~(uint32_t)CONN_URG_WAIT;
	if (state == URGENT_ANNOUNCED) /* the fast path does not check for it */
		c->flags |= CONN_URG_WAIT;
}

static void urgent_announced(struct tcp_conn *c, const struct tcp_arrival *a)
{
	uint32_t up = tcp_wire_urgent(a->pkt), at = a->seq + (up ? up - 1 : 0);
	uint32_t next = read_at(c);

	if (seq_lt(at, next) || seq_lt(at, c->rcv_nxt))
		return; /* it was read, or is already among the readable bytes */
	if (seq_gt(at, c->rcv_nxt + UINT16_MAX) || !tcp_rare(c))
		return;
	if (c->urgent && !seq_gt(at, c->rare->urgent_at))
		return;
	/*
	 * The previous urgent byte was read out of band and is still in the queue: drops it, so
	 * that it is not read inline.
	 */
	if (c->urgent == URGENT_READ && c->rare->urgent_at == next && c->rcv.bytes &&
	    !(c->flags & CONN_OOBINLINE))
		tcp_recvq_discard(&c->rcv, 1);
	c->rare->urgent_at = at;
	set_urgent(c, URGENT_ANNOUNCED);
	c->ops->urgent(c);
}

void tcp_urgent_step_6(struct tcp_conn *c, const struct tcp_arrival *a)
{
	uint32_t offset;

	if (c->flags & (CONN_DETACHED | CONN_FIN_RCVD))
		return;
	if (a->flags & TCP_URG)
		urgent_announced(c, a);
	if (c->urgent != URGENT_ANNOUNCED)
		return;
	offset = c->rare->urgent_at - a->pkt->seq;
	if (offset >= a->pkt->len)
		return;
	c->rare->urgent_byte = pkt_payload(a->pkt)[offset];
	set_urgent(c, URGENT_HERE);
	c->ops->urgent(c);
}

bool tcp_urgent_here(const struct tcp_conn *c)
{
	return c->urgent == URGENT_HERE;
}

bool tcp_at_mark(const struct tcp_conn *c)
{
	return c->urgent && c->rare->urgent_at == read_at(c);
}

void tcp_set_oobinline(struct tcp_conn *c, bool on)
{
	if (on)
		c->flags |= CONN_OOBINLINE;
	else
		c->flags &= ~(uint32_t)CONN_OOBINLINE;
}

int tcp_recv_urgent(struct tcp_conn *c, uint8_t *byte, bool peek)
{
	if ((c->flags & CONN_OOBINLINE) || c->urgent == URGENT_NONE || c->urgent == URGENT_READ)
		return -EINVAL;
	if (c->urgent == URGENT_HERE) {
		*byte = c->rare->urgent_byte;
		if (!peek)
			set_urgent(c, URGENT_READ);
		return 1;
	}
	return c->state == TCP_CLOSED || (c->flags & CONN_READ_SHUT) ? 0 : -EAGAIN;
}

uint32_t tcp_urgent_readable(const struct tcp_conn *c)
{
	uint32_t offset = c->rare->urgent_at - read_at(c), bytes = c->rcv.bytes;

	if ((c->flags & CONN_OOBINLINE) || offset >= bytes)
		return bytes;
	return offset ? offset : bytes - 1;
}

ssize_t tcp_urgent_read(struct tcp_conn *c, const struct iovec *iov, int iovcnt, bool peek)
{
	uint32_t offset = c->rare->urgent_at - read_at(c), skip = 0, most = UINT32_MAX;
	ssize_t n;

	if (offset == 0)
		skip = !(c->flags & CONN_OOBINLINE);
	else if (offset < c->rcv.bytes)
		most = offset;
	if (peek)
		return tcp_recvq_peek(&c->rcv, iov, iovcnt, skip, most);
	if (skip && c->rcv.bytes)
		tcp_recvq_discard(&c->rcv, 1);
	n = tcp_recvq_read_some(&c->rcv, iov, iovcnt, most);
	if (seq_gt(read_at(c), c->rare->urgent_at) && c->urgent != URGENT_ANNOUNCED)
		set_urgent(c, URGENT_NONE);
	return n;
}
