/* SPDX-License-Identifier: BSD-2-Clause */
/* The receive callback of datagram sockets: unseen datagrams wait in a list of their own. */
#include "sock/core/extra/filter.h"
#include "sock/core/sock_options.h"
#include "sock/udp/udp_sock.h"

static struct inet_sock *sock_of(const struct filter *f)
{
	return inet_of(f->ref.sk);
}

enum drop udp_filter_input(struct inet_sock *so, struct ring *ring, struct pkt *pkt)
{
	struct filter *f = so->udp.filter;

	ring_assert_held(ring);
	pkt->stamp = filter_arrived(f, ring, pkt);
	pkt->flags &= (uint8_t)~PKT_ALIKE; /* of an earlier use of its memory */
	pkt_append(&f->head, &f->tail, pkt);
	so->udp.bytes += udp_charge(pkt);
	filter_look(f, ring);
	return DROP_NONE;
}

struct pkt *udp_filter_run(struct inet_sock *so, struct ring *ring, struct pkt *first)
{
	struct udp_state *udp = &so->udp;
	struct filter *f = udp->filter;
	uint32_t bytes = udp->bytes, limit = udp->limit, drops = (uint32_t)udp->dropped;
	int ifindex = ring->ifindex;
	nsec_t now = filter_arrived(f, ring, first);
	bool timed = first->flags & PKT_ARRIVAL; /* now is of the first one */
	struct pkt *pkt, *last = NULL;

	ring_assert_held(ring);
	for (pkt = first; pkt; pkt = pkt->next) {
		if (__builtin_expect(bytes >= limit || (pkt->pool->flags & PKT_POOL_SHARED), 0))
			break;
		pkt->ifindex = ifindex;
		pkt->drops = drops;
		pkt->stamp = now;
		if (__builtin_expect(timed || (pkt->flags & PKT_ARRIVAL), 0))
			pkt->stamp = filter_arrived(f, ring, pkt);
		pkt->flags |= PKT_ALIKE;
		bytes += udp_charge(pkt);
		last = pkt;
	}
	udp->bytes = bytes;
	if (__builtin_expect(!last, 0))
		return pkt;
	first->flags &= (uint8_t)~PKT_ALIKE; /* what is in front of it may have others */
	last->next = NULL;
	pkt_append_run(&f->head, &f->tail, first, last);
	filter_look(f, ring);
	return pkt;
}

void udp_filter_leave(struct inet_sock *so, struct ring *ring)
{
	struct filter *f = so->udp.filter;

	if (f)
		udp_detach_list(ring, &f->head, &f->tail);
	filter_leave(f, ring);
}

void udp_filter_fork_child(struct inet_sock *so)
{
	so->udp.filter = NULL; /* the parent's, and so is what it has not seen */
	sock_options_note(so);
}

/* ---- members of struct filter_kind --------------------------------------------------------- */

static struct filter *get(const struct inet_sock *so)
{
	return so->udp.filter;
}

static bool set(struct inet_sock *so, struct filter *f)
{
	__atomic_store_n(&so->udp.filter, f, __ATOMIC_RELAXED);
	sock_options_note(so);
	return true;
}

static bool waits(const struct filter *f)
{
	return f->head != NULL;
}

static void take(struct filter *f, struct filter_batch *b)
{
	const struct udp_state *udp = &sock_of(f)->udp;

	f->head->flags &= (uint8_t)~PKT_ALIKE;
	b->unseen = b->last = f->head;
	for (unsigned n = 1; n < FILTER_BATCH && b->last->next; n++)
		b->last = b->last->next;
	f->head = b->last->next;
	b->last->next = NULL;
	b->info.socket_ready_queue_pkt_count = udp->count;
	b->info.socket_ready_queue_byte_count = udp->bytes;
}

static void obey(struct filter *f, struct filter_batch *b, struct ring *ring)
{
	struct inet_sock *so = sock_of(f);
	uint32_t n = b->held, bytes = b->held_bytes, charge = 0;
	struct pkt *pkt;

	(void)ring;
	for (pkt = b->dropped; pkt; pkt = pkt->next) {
		n++;
		bytes += pkt->len;
		charge += udp_charge(pkt);
	}
	pkt_free_list(b->dropped);
	b->dropped = NULL;
	so->udp.bytes -= charge;
	sock_count(so, rx_packets, n);
	sock_count(so, rx_bytes, bytes);
	b->held = b->held_bytes = 0;
	if (b->passed)
		udp_queue(so, b->passed);
	b->passed = NULL;
	/* Without a filter, younger ones may be in the queue: it was taken off meanwhile. */
	while (so->udp.filter != f && (pkt = filter_pop(&b->unseen)))
		udp_queue(so, pkt);
	if (!b->unseen)
		return;
	b->last->next = f->head;
	if (!f->head)
		f->tail = b->last;
	f->head = b->unseen;
	b->unseen = NULL;
}

static void pass(struct filter *f)
{
	struct pkt *pkt;

	while ((pkt = filter_pop(&f->head)))
		udp_queue(sock_of(f), pkt);
}

static void discard(struct filter *f)
{
	struct pkt *pkt;

	while ((pkt = filter_pop(&f->head))) {
		sock_of(f)->udp.bytes -= udp_charge(pkt);
		pkt_free(pkt);
	}
}

static __attribute__((noinline, cold)) void describe6(struct filter_batch *b, const struct pkt *pkt)
{
	struct endpoint from = frame_source(pkt), to = frame_destination(pkt);

	filter_set_endpoint(&b->src, &from);
	filter_set_endpoint(&b->dst, &to);
}

static void describe(struct filter_batch *b, const struct pkt *pkt)
{
	const uint8_t *ip = pkt->frame + pkt->l3, *udp = pkt->frame + pkt->l4;

	if (__builtin_expect(ip[0] >> 4 != 4, 0)) {
		describe6(b, pkt);
		return;
	}
	filter_set_address(&b->src.in, ip + 12, udp);
	filter_set_address(&b->dst.in, ip + 16, udp + 2);
	b->alike_src = b->src.in;
	b->alike_dst = b->dst.in;
}

const struct filter_kind udp_filter_kind = {
	.get = get,
	.set = set,
	.waits = waits,
	.take = take,
	.obey = obey,
	.pass = pass,
	.discard = discard,
	.describe = describe,
	.charge = udp_charge,
};
