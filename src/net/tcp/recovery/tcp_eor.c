/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MSG_EOR, as on Linux: no later data comes into the segment of the last byte, neither when it is sent
 * nor when it is sent again.  A connection remembers the last TCP_EORS such places that are not
 * acknowledged.  While there are some, it has WAY_EOR.
 */
#include <string.h>

#include "net/tcp/tcp_internal.h"

static void forget(struct tcp_rare *rare, unsigned n)
{
	rare->eors = (uint8_t)(rare->eors - n);
	memmove(rare->eor, rare->eor + n, rare->eors * sizeof(rare->eor[0]));
}

void tcp_eor_acked(struct tcp_conn *c)
{
	unsigned n = 0;

	while (n < c->rare->eors && seq_leq(c->rare->eor[n], c->snd_una))
		n++;
	forget(c->rare, n);
	if (!c->rare->eors)
		c->way &= (uint8_t)~WAY_EOR;
}

void tcp_eor_queued(struct tcp_conn *c)
{
	struct tcp_rare *rare = tcp_rare(c);

	if (!rare)
		return;
	if (!(c->way & WAY_EOR))
		rare->eors = 0;
	else if (rare->eors == TCP_EORS)
		forget(rare, 1);
	rare->eor[rare->eors++] = tcp_data_end(c);
	c->way |= WAY_EOR;
}

uint32_t tcp_eor_cut(const struct tcp_conn *c, uint32_t seq, uint32_t len)
{
	for (unsigned i = 0; i < c->rare->eors; i++) {
		if (seq_gt(c->rare->eor[i], seq))
			return min_u32(len, c->rare->eor[i] - seq);
	}
	return len;
}

uint32_t tcp_eor_begin(const struct tcp_conn *c, uint32_t seq, uint32_t end)
{
	for (unsigned i = 0; i < c->rare->eors; i++) {
		if (seq_gt(c->rare->eor[i], seq) && seq_lt(c->rare->eor[i], end))
			seq = c->rare->eor[i];
	}
	return seq;
}
