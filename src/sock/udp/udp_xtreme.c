/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socketxtreme of datagram sockets.  What a poll receives goes from the frame to the completion; what
 * other calls receive is queued in the socket, for the next poll or for recv(2).
 */
#include "sock/core/extra/xtreme.h"
#include "sock/udp/mcast.h"
#include "sock/udp/udp_sock.h"

/* Of the traffic of a socket of IPv6, which may be IPv4's. */
static __attribute__((noinline)) void set_sender(struct vma_completion_t *c, const struct pkt *pkt)
{
	struct endpoint from = frame_source(pkt);

	xtreme_set_sender(c, &from);
}

/* holder: the program has pkt, which is charged to the socket.  False: no buffer. */
static inline bool hand_out(struct xtreme_batch *b, struct inet_sock *so,
			    const struct xtreme_name *name, struct pkt *pkt)
{
	uint32_t charge = udp_charge(pkt);
	struct vma_completion_t *c = xtreme_add(b, so, name, pkt, charge);
	const uint8_t *ip = pkt->frame + pkt->l3;
	struct stats_sock *stats = so->udp.stats;

	if (__builtin_expect(!c, 0))
		return false;
	so->udp.bytes += charge;
	if (stats) {
		stats_add(&stats->rx_packets, 1);
		stats_add(&stats->rx_bytes, pkt->len);
	}
	if (__builtin_expect(so->family == AF_INET, 1))
		filter_set_address(&c->src, ip + 12, pkt->frame + pkt->l4);
	else
		set_sender(c, pkt);
	return true;
}

/* Does the socket take a packet as it is, with nothing in front of it? */
static inline bool takes(const struct inet_sock *so, const struct ring *ring, const struct pkt *pkt)
{
	const struct udp_state *udp = &so->udp;

	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	return __atomic_load_n(&so->sk.home, __ATOMIC_ACQUIRE) == ring && so->life > LIFE_CLOSED &&
	       so->inet == INET_UDP && !so->noted && !udp->head && udp->xtreme &&
	       udp->bytes < udp->limit && !ring_keeps_copy(ring, pkt);
}

/*
 * With a free buffer at hand, and without a group, nothing is called on the way but set_sender():
 * otherwise the socket's queue has room, and makes buffers.
 */
static inline __attribute__((always_inline)) enum drop
deliver(struct ring *ring, struct sock_flow *f, struct pkt *pkt, nsec_t now, bool multicast)
{
	struct xtreme_batch *b = xtreme_batch_of(ring);
	struct inet_sock *so = f->so;

	if (__builtin_expect(
		    !b || !xtreme_has_room(b) || !b->store->free || !takes(so, ring, pkt) ||
			    (multicast && (so->udp.connected || !mcast_takes(ring, f, pkt))),
		    0))
		return udp_kind.deliver(ring, &f->flow, pkt, now);
	(void)hand_out(b, so, &so->udp.xtreme->name, pkt); /* there is a buffer */
	return DROP_NONE;
}

static __attribute__((noinline)) enum drop deliver_multicast(struct ring *ring, struct sock_flow *f,
							     struct pkt *pkt, nsec_t now)
{
	return deliver(ring, f, pkt, now, true);
}

enum drop udp_xtreme_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct sock_flow *f = container_of(flow, struct sock_flow, flow);

	if (__builtin_expect(f->multicast, 0))
		return deliver_multicast(ring, f, pkt, now);
	return deliver(ring, f, pkt, now, false);
}

bool udp_xtreme_take(struct inet_sock *so, struct ring *ring, struct xtreme_batch *b,
		     const struct xtreme_name *name)
{
	(void)ring;
	while (so->udp.head) {
		if (!xtreme_has_room(b) || !hand_out(b, so, name, so->udp.head))
			return true;
		udp_pop(so);
	}
	return false;
}
