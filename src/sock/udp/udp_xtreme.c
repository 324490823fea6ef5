/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socketxtreme of datagram sockets.  What a poll receives goes from the frame to the completion; what
 * other calls receive is queued in the socket, for the next poll or for recv(2).
 */
#include "sock/core/extra/xtreme.h"
#include "sock/udp/mcast.h"
#include "sock/udp/udp_sock.h"

/* holder: the program has pkt, which stays charged to the socket.  False: no buffer. */
static inline bool hand_out(struct xtreme_batch *b, struct inet_sock *so,
			    const struct xtreme_name *name, struct pkt *pkt)
{
	struct vma_completion_t *c = xtreme_add(b, so, name, pkt, udp_charge(pkt));
	const uint8_t *ip = pkt->frame + pkt->l3;
	struct stats_sock *stats = so->udp.stats;

	if (__builtin_expect(!c, 0))
		return false;
	if (__builtin_expect(so->family == AF_INET, 1)) {
		filter_set_address(&c->src, ip + 12, pkt->frame + pkt->l4);
	} else {
		struct endpoint from = frame_source(pkt);

		xtreme_set_sender(c, &from);
	}
	if (stats) {
		stats_add(&stats->rx_packets, 1);
		stats_add(&stats->rx_bytes, pkt->len);
	}
	return true;
}

/* Does the socket take it as it is, with nothing in front of it? */
static inline bool takes(const struct inet_sock *so, const struct ring *ring, struct sock_flow *f,
			 const struct pkt *pkt)
{
	const struct udp_state *udp = &so->udp;

	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	if (__atomic_load_n(&so->sk.home, __ATOMIC_ACQUIRE) != ring || so->life <= LIFE_CLOSED ||
	    so->inet != INET_UDP || so->noted || udp->head || !udp->xtreme)
		return false;
	if (f->multicast && (udp->connected || !mcast_takes(ring, f, pkt)))
		return false;
	return udp->bytes < udp->limit && !ring_keeps_copy(ring, pkt);
}

enum drop udp_xtreme_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct sock_flow *f = container_of(flow, struct sock_flow, flow);
	struct inet_sock *so = f->so;
	struct xtreme_batch *b = xtreme_batch_of(ring);

	if (!b || !xtreme_has_room(b) || !takes(so, ring, f, pkt) ||
	    !hand_out(b, so, &so->udp.xtreme->name, pkt))
		return udp_kind.deliver(ring, flow, pkt, now);
	so->udp.bytes += udp_charge(pkt);
	return DROP_NONE;
}

bool udp_xtreme_take(struct inet_sock *so, struct ring *ring, struct xtreme_batch *b,
		     const struct xtreme_name *name)
{
	(void)ring;
	while (so->udp.head) {
		struct pkt *pkt = so->udp.head;

		if (!xtreme_has_room(b) || !hand_out(b, so, name, pkt))
			return true;
		udp_pop(so);
		so->udp.bytes += udp_charge(pkt);
	}
	return false;
}
