/* SPDX-License-Identifier: BSD-2-Clause */
/* Socketxtreme of connections: a poll takes the packets of the engine's receive queue. */
#include <errno.h>

#include "sock/core/extra/xtreme.h"
#include "sock/tcp/tcp_read.h"

/* holder: the program has the next packet.  Bytes; -ENOBUFS: no buffer, or it holds too many. */
static ssize_t hand_out(struct inet_sock *so, struct ring *ring, struct xtreme_batch *b,
			const struct xtreme_name *name)
{
	struct vma_completion_t *c;
	struct pkt *pkt;
	ssize_t len = tcp_recv_first(&so->tcp.conn, &pkt);

	if (len <= 0)
		return len;
	c = xtreme_add(b, sock_ref_of(so), name, pkt, 0);
	if (!c)
		return -ENOBUFS;
	xtreme_set_peer(c, so);
	if (so->told)
		sock_stats_latency(so, pkt->stamp);
	buff_charge(c->packet.buff_lst, tcp_recv_take(&so->tcp.conn, ring->now));
	return len;
}

bool tcp_xtreme_take(struct inet_sock *so, struct ring *ring, struct xtreme_batch *b,
		     const struct xtreme_name *name)
{
	unsigned before = b->n;
	ssize_t len = 0;

	if (!sock_has_connection(so) || tcp_filter_hides(so))
		return false;
	while (tcp_readable_bytes(&so->tcp.conn) && xtreme_has_room(b)) {
		len = hand_out(so, ring, b, name);
		if (len <= 0)
			break;
	}
	if (b->n > before) {
		sock_count(so, rx_reads, 1);
		tcp_update_events(so, 0);
		tcp_after(so, ring);
	}
	/* Urgent data (-EOPNOTSUPP) is reported by EPOLLIN, for recv(2). */
	return tcp_readable_bytes(&so->tcp.conn) &&
	       (len > 0 || len == -ENOBUFS || !xtreme_has_room(b));
}
