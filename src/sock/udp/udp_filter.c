/* SPDX-License-Identifier: BSD-2-Clause */
/* The receive callback of datagram sockets: unseen datagrams wait in a list of their own. */
#include "sock/core/extra/filter.h"
#include "sock/core/sock_options.h"
#include "sock/udp/udp_sock.h"

static struct inet_sock *sock_of(const struct filter *f)
{
	return inet_of(f->ref.sk);
}

static inline void add(struct filter_sum *sum, const struct pkt *pkt)
{
	sum->n++;
	sum->bytes += pkt->len;
	sum->charge += udp_charge(pkt);
}

static inline void move_sum(struct filter_sum *to, struct filter_sum *from,
			    const struct filter_sum *part)
{
	to->n += part->n;
	to->bytes += part->bytes;
	to->charge += part->charge;
	from->n -= part->n;
	from->bytes -= part->bytes;
	from->charge -= part->charge;
}

/* What packets that are alike have in common, but for their addresses. */
struct like {
	nsec_t stamp;
	int ifindex;
	uint32_t drops;
};

static struct like like_of(const struct pkt *pkt)
{
	return (struct like){pkt->stamp, pkt->ifindex, pkt->drops};
}

/* pkt does not need the one before any more, which like is of; returns what the next one needs. */
static struct like set_apart(struct pkt *pkt, struct like like)
{
	if (pkt->flags & PKT_APART)
		return like_of(pkt);
	pkt->stamp = like.stamp;
	pkt->ifindex = like.ifindex;
	pkt->drops = like.drops;
	pkt->flags |= PKT_APART;
	return like;
}

enum drop udp_filter_input(struct inet_sock *so, struct ring *ring, struct pkt *pkt)
{
	struct filter *f = so->udp.filter;

	ring_assert_held(ring);
	pkt->stamp = filter_arrived(f, ring, pkt);
	pkt->flags |= PKT_APART;
	pkt_append(&f->head, &f->tail, pkt);
	add(&f->sum, pkt);
	so->udp.bytes += udp_charge(pkt);
	if (!f->running)
		filter_wake(f, ring);
	return DROP_NONE;
}

/* The port knows when some packets of a list have arrived: none is like another. */
static __attribute__((noinline, cold)) void set_all_apart(struct filter *f, const struct ring *ring,
							  struct pkt *pkt)
{
	struct like like = like_of(pkt);

	for (; pkt; pkt = pkt->next) {
		like.stamp = filter_arrived(f, ring, pkt);
		set_apart(pkt, like);
	}
}

/* The last one that has room of a list; not all have it, but the first one has. */
static __attribute__((noinline, cold)) struct pkt *last_with_room(struct pkt *first, uint32_t room)
{
	struct pkt *pkt = first;

	for (uint32_t charge = udp_charge(pkt); charge < room; charge += udp_charge(pkt))
		pkt = pkt->next;
	return pkt;
}

static __attribute__((noinline, cold)) struct filter_sum sum_up_to(const struct pkt *first,
								   const struct pkt *last)
{
	struct filter_sum sum = {0};

	for (const struct pkt *pkt = first; pkt != last->next; pkt = pkt->next)
		add(&sum, pkt);
	return sum;
}

/* Adds a run from first to last, whose ifindex and drops are set. */
static inline __attribute__((always_inline)) void append_run(struct inet_sock *so, struct filter *f,
							     struct ring *ring, struct pkt *first,
							     struct pkt *last,
							     const struct filter_sum *sum)
{
	first->stamp = filter_arrived(f, ring, first);
	first->flags |= PKT_APART;
	so->udp.bytes += sum->charge;
	pkt_append_run(&f->head, &f->tail, first, last);
	f->sum.n += sum->n;
	f->sum.bytes += sum->bytes;
	f->sum.charge += sum->charge;
	if (!f->running)
		filter_wake(f, ring);
}

void udp_filter_append(struct inet_sock *so, struct ring *ring, struct pkt *first, struct pkt *last,
		       const struct filter_sum *sum)
{
	ring_assert_held(ring);
	append_run(so, so->udp.filter, ring, first, last, sum);
}

struct pkt *udp_filter_run(struct inet_sock *so, struct ring *ring, struct pkt *first)
{
	struct udp_state *udp = &so->udp;
	struct filter *f = udp->filter;
	struct filter_sum sum = {0};
	struct pkt *pkt, *last = NULL;
	uint32_t room;
	uint8_t flags = 0;

	ring_assert_held(ring);
	if (__builtin_expect(udp->bytes >= udp->limit, 0))
		return first;
	for (pkt = first; pkt && !(pkt->pool->flags & PKT_POOL_SHARED); pkt = pkt->next) {
		flags |= pkt->flags;
		add(&sum, pkt);
		last = pkt;
	}
	if (__builtin_expect(!last, 0))
		return first;
	room = udp->limit - udp->bytes;
	if (__builtin_expect(sum.charge - udp_charge(last) >= room, 0)) {
		last = last_with_room(first, room);
		sum = sum_up_to(first, last);
		pkt = last->next;
	}
	last->next = NULL;
	first->ifindex = ring->ifindex;
	first->drops = (uint32_t)udp->dropped;
	if (__builtin_expect(flags & PKT_ARRIVAL, 0))
		set_all_apart(f, ring, first);
	append_run(so, f, ring, first, last, &sum);
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

/* Takes the first FILTER_BATCH packets of more. */
static __attribute__((noinline)) void take_some(struct filter *f, struct filter_batch *b)
{
	struct like like = like_of(f->head);
	struct filter_sum sum = {0};
	struct pkt *pkt = f->head, *last = NULL;

	for (; sum.n < FILTER_BATCH; pkt = pkt->next) {
		if (pkt->flags & PKT_APART)
			like = like_of(pkt);
		add(&sum, pkt);
		last = pkt;
	}
	set_apart(pkt, like);
	b->first = f->head;
	b->last = last;
	f->head = pkt;
	last->next = NULL;
	move_sum(&b->sum, &f->sum, &sum);
}

static void take(struct filter *f, struct filter_batch *b)
{
	const struct udp_state *udp = &sock_of(f)->udp;

	b->info.socket_ready_queue_pkt_count = udp->count;
	b->info.socket_ready_queue_byte_count = udp->bytes;
	if (__builtin_expect(f->sum.n > FILTER_BATCH, 0)) {
		take_some(f, b);
		return;
	}
	b->first = f->head;
	b->last = f->tail;
	b->sum = f->sum;
	f->head = NULL;
	f->sum = (struct filter_sum){0};
}

/* What is left of a batch is the oldest again. */
static void put_back(struct filter *f, struct filter_batch *b, struct like like)
{
	struct inet_sock *so = sock_of(f);
	struct pkt *pkt;

	/* Without a filter, younger ones may be in the queue: it was taken off meanwhile. */
	while (so->udp.filter != f && (pkt = filter_pop(&b->first))) {
		like = set_apart(pkt, like);
		udp_queue(so, pkt);
	}
	if (!b->first)
		return;
	set_apart(b->first, like);
	for (pkt = b->first; pkt; pkt = pkt->next)
		add(&f->sum, pkt);
	b->last->next = f->head;
	if (!f->head)
		f->tail = b->last;
	f->head = b->first;
	b->first = NULL;
}

/* Some packets of the batch were not dropped. */
static __attribute__((noinline)) void obey_each(struct filter *f, struct filter_batch *b)
{
	struct inet_sock *so = sock_of(f);
	struct like like = {b->stamp, b->alike_ifindex, b->alike_drops};
	struct pkt *dropped = filter_dropped(b);
	struct filter_sum sum = {0};

	for (const struct pkt *pkt = dropped; pkt; pkt = pkt->next)
		add(&sum, pkt);
	pkt_free_list(dropped);
	so->udp.bytes -= sum.charge;
	udp_count_in(so, sum.n + b->held, sum.bytes + b->held_bytes);
	if (b->passed) {
		set_apart(b->passed, like);
		udp_queue(so, b->passed);
	}
	put_back(f, b, like);
	b->passed = NULL;
	b->held = b->held_bytes = 0;
}

static void obey(struct filter *f, struct filter_batch *b, struct ring *ring)
{
	struct inet_sock *so = sock_of(f);

	(void)ring;
	if (__builtin_expect(b->passed || b->held || b->shown != b->last, 0)) {
		obey_each(f, b);
	} else {
		pkt_free_list(b->first);
		b->first = b->shown = NULL;
		so->udp.bytes -= b->sum.charge;
		udp_count_in(so, b->sum.n, b->sum.bytes);
	}
	b->sum = (struct filter_sum){0};
}

static void pass(struct filter *f)
{
	struct like like = {0};
	struct pkt *pkt;

	while ((pkt = filter_pop(&f->head))) {
		like = set_apart(pkt, like);
		udp_queue(sock_of(f), pkt);
	}
	f->sum = (struct filter_sum){0};
}

static void discard(struct filter *f)
{
	struct pkt *pkt;

	while ((pkt = filter_pop(&f->head))) {
		sock_of(f)->udp.bytes -= udp_charge(pkt);
		pkt_free(pkt);
	}
	f->sum = (struct filter_sum){0};
}

static __attribute__((noinline, cold)) void describe6(struct filter_batch *b, const struct pkt *pkt)
{
	struct endpoint from = frame_source(pkt), to = frame_destination(pkt);

	/* Runs are of IPv4: the next packet has PKT_APART, too. */
	filter_set_endpoint(&b->src, &from);
	filter_set_endpoint(&b->dst, &to);
}

static void describe(struct filter_batch *b, const struct pkt *pkt)
{
	const uint8_t *ip = pkt->frame + pkt->l3, *udp = pkt->frame + pkt->l4;

	b->alike_ifindex = pkt->ifindex;
	b->alike_drops = pkt->drops;
	if (__builtin_expect(ip[0] >> 4 != 4, 0)) {
		describe6(b, pkt);
		return;
	}
	filter_set_address(&b->src.in, ip + 12, udp);
	filter_set_address(&b->dst.in, ip + 16, udp + 2);
	b->alike_src.in = b->src.in;
	b->alike_dst.in = b->dst.in;
}

const struct filter_kind udp_filter_kind = {
	.get = get,
	.set = set,
	.waits = waits,
	.take = take,
	.takes_at_once = true,
	.obey = obey,
	.pass = pass,
	.discard = discard,
	.describe = describe,
	.charge = udp_charge,
};
