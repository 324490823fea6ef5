/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socketxtreme of datagram sockets.  What a poll receives goes from the frame to the completion; what
 * other calls receive is queued in the socket, for the next poll or for recv(2).
 */
#include "sock/core/extra/xtreme.h"
#include "sock/udp/mcast.h"
#include "sock/udp/udp_sock.h"

/* Of the traffic of a socket of IPv6, which may be IPv4's. */
static __attribute__((noinline)) void set_sender6(struct vma_completion_t *c, const struct pkt *pkt)
{
	struct endpoint from = frame_source(pkt);

	xtreme_set_sender(c, &from);
}

static inline void set_sender(struct vma_completion_t *c, const struct inet_sock *so,
			      const struct pkt *pkt)
{
	if (__builtin_expect(so->family == AF_INET, 1))
		filter_set_address(&c->src, pkt->frame + pkt->l3 + 12, pkt->frame + pkt->l4);
	else
		set_sender6(c, pkt);
}

/* holder: the program has n packets, which are charged to the socket. */
static inline void count_out(struct inet_sock *so, unsigned n, uint32_t bytes, uint32_t charge)
{
	so->udp.bytes += charge;
	udp_count_in(so, n, bytes);
}

/* holder: the program has pkt.  False: no buffer. */
static inline bool hand_out(struct xtreme_batch *b, struct inet_sock *so,
			    const struct xtreme_name *name, struct pkt *pkt)
{
	struct vma_completion_t *c = xtreme_add(b, sock_ref_of(so), name, pkt, udp_charge(pkt));

	if (__builtin_expect(!c, 0))
		return false;
	set_sender(c, so, pkt);
	count_out(so, 1, pkt->len, udp_charge(pkt));
	return true;
}

/* Does the socket take packets as they are, with nothing in front of them? */
static inline bool takes(const struct inet_sock *so, const struct ring *ring)
{
	const struct udp_state *udp = &so->udp;

	/* Pairs with sock_set_home() and with the ARRIVE of a move. */
	return __atomic_load_n(&so->sk.home, __ATOMIC_ACQUIRE) == ring && so->life > LIFE_CLOSED &&
	       so->inet == INET_UDP && !so->noted && !udp->head && udp->xtreme &&
	       !ring_is_short(ring);
}

/*
 * With a free buffer at hand nothing is called on the way to the completion but set_sender6(): otherwise
 * the socket's queue has room, and makes buffers.
 */
static inline bool takes_pkt(const struct xtreme_batch *b, const struct inet_sock *so,
			     const struct pkt *pkt)
{
	return xtreme_has_room(b) && b->store->free && so->udp.bytes < so->udp.limit &&
	       !(pkt->pool->flags & PKT_POOL_SHARED);
}

static inline __attribute__((always_inline)) enum drop
deliver(struct ring *ring, struct sock_flow *f, struct pkt *pkt, nsec_t now, bool multicast)
{
	struct xtreme_batch *b = xtreme_batch_of(ring);
	struct inet_sock *so = f->so;

	if (__builtin_expect(!b || !takes(so, ring) || !takes_pkt(b, so, pkt) ||
				     (multicast &&
				      (so->udp.connected || !mcast_takes(ring, f, pkt))),
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

/* holder: the program has the first packets of a list, which have one sender; returns the rest. */
static inline __attribute__((always_inline)) struct pkt *
hand_out_run(struct xtreme_batch *b, struct inet_sock *so, struct pkt *first, bool shared)
{
	struct sock_ref ref = sock_ref_of(so);
	uint32_t room, bytes = 0, charge = 0;
	struct pkt *pkt = first;
	struct vma_completion_t *c, *end, like;
	struct sockaddr_in sender;
	struct xtreme_name name;
	struct buff *buff;
	unsigned n;

	name = so->udp.xtreme->name;
	set_sender(&like, so, first);
	sender = like.src;
	room = so->udp.bytes < so->udp.limit ? so->udp.limit - so->udp.bytes : 0;
	c = &b->completions[b->n];
	end = &b->completions[b->max];
	/* As takes_pkt(). */
	for (buff = b->store->free; pkt; pkt = pkt->next) {
		uint32_t of_pkt = udp_charge(pkt);
		uint16_t len = pkt->len;
		struct buff *next;

		if (c == end || charge >= room || !buff ||
		    (!shared && (pkt->pool->flags & PKT_POOL_SHARED)))
			break;
		next = buff->next;
		buff_fill(buff, ref, pkt, of_pkt);
		xtreme_fill(c, &name, len, buff);
		__builtin_memcpy(&c->src, &sender, sizeof(sender));
		charge += of_pkt;
		bytes += len;
		buff = next;
		c++;
	}
	n = (unsigned)(c - &b->completions[b->n]);
	b->store->free = buff;
	b->n += n;
	count_out(so, n, bytes, charge);
	return pkt;
}

/* All have one sender; if they are to a group, it was looked at. */
static __attribute__((noinline)) enum drop deliver_run(struct ring *ring, struct sock_flow *f,
						       struct pkt *first, nsec_t now)
{
	struct xtreme_batch *b = xtreme_batch_of(ring);
	struct inet_sock *so = f->so;
	struct pkt *rest;

	if (__builtin_expect(!b || !takes(so, ring), 0))
		return udp_kind.deliver(ring, &f->flow, first, now);
	rest = hand_out_run(b, so, first, false);
	if (__builtin_expect(rest != NULL, 0))
		udp_input_rest(so, ring, rest);
	return DROP_NONE;
}

struct pkt *udp_xtreme_run(struct inet_sock *so, const struct ring *ring, struct pkt *first)
{
	struct xtreme_batch *b = xtreme_batch_of(ring);

	return b && takes(so, ring) ? hand_out_run(b, so, first, true) : first;
}

enum drop udp_xtreme_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct sock_flow *f = container_of(flow, struct sock_flow, flow);

	if (pkt->next)
		return deliver_run(ring, f, pkt, now);
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
