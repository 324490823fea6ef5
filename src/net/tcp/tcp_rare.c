/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/tcp/tcp_rare.h"

#include <string.h>

#include "net/tcp/tcp_internal.h"

struct tcp_rare *tcp_rare(struct tcp_conn *c)
{
	if (!c->rare) {
		c->rare = c->ops->alloc(sizeof(*c->rare));
		if (!c->rare)
			return NULL;
		memset(c->rare, 0, sizeof(*c->rare));
		c->rare->challenge_at = LONG_AGO;
	}
	return c->rare;
}

void tcp_rare_fini(struct tcp_conn *c)
{
	if (c->rare)
		c->ops->free(c->rare);
	c->rare = NULL;
	c->sacks = 0;
	c->urgent = 0;
	c->way &= WAY_HOLE | WAY_FIN;
	c->flags &= ~(uint32_t)(CONN_DSACK | CONN_URG_OUT | CONN_URG_WAIT);
}

void tcp_limited_by(struct tcp_conn *c, enum tcp_limit what, nsec_t now)
{
	if (c->limit == what || !tcp_rare(c))
		return;
	if (c->limit)
		c->rare->limited[c->limit] += now;
	c->limit = (uint8_t)what;
	if (what)
		c->rare->limited[what] -= now;
}

nsec_t tcp_limited_for(const struct tcp_conn *c, enum tcp_limit what, nsec_t now)
{
	if (!c->rare)
		return 0;
	return c->rare->limited[what] + (c->limit == what ? now : 0);
}

/* ---- packets that the owner has taken ------------------------------------------------------ */

void tcp_recv_returned(struct tcp_conn *c, uint32_t size)
{
	/* The connection that the packet came by may have ended, and another one have begun. */
	if (c->rare)
		c->rare->taken -= min_u32(size, c->rare->taken);
}

void tcp_recv_borrow(struct tcp_conn *c)
{
	c->rare->taken += pkt_size(tcp_recvq_take(&c->rcv));
}

void tcp_recv_put_back(struct tcp_conn *c, struct pkt *pkt)
{
	tcp_recv_returned(c, pkt_size(pkt));
	tcp_recvq_put_back(&c->rcv, pkt);
}
