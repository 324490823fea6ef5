/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/udp/udp_pace.h"

#include "base/mem.h"
#include "base/wheel.h"
#include "sock/core/kind.h"
#include "sock/udp/udp_sock.h"

unsigned udp_pace_waiting;

/* The length of the IP packet. */
static uint32_t packet_len(uint32_t frame_len)
{
	return frame_len - ETH_HDR;
}

/* As sock_def_write_space() of the kernel: EPOLLOUT if at least half of the buffer is free. */
static void update_events(const struct udp_pace *p)
{
	const uint32_t out = EPOLLOUT | EPOLLWRNORM;
	struct inet_sock *so = p->so;
	bool room, is;

	if (!so)
		return;
	room = p->bytes <= so->opt->sndbuf / 2;
	is = sock_own_events(so) & EPOLLOUT;
	if (room == is)
		return;
	sock_set_events(so, room ? sock_own_events(so) | out : sock_own_events(so) & ~out);
	if (room)
		ready_notify(&so->sk, out);
}

static void remove_first(struct udp_pace *p)
{
	struct paced_frame *first = p->head;

	p->head = first->next;
	p->bytes -= udp_pace_charge(first->len);
	dst_hop_put(&first->hop);
	mem_free(first);
	__atomic_fetch_sub(&udp_pace_waiting, 1, __ATOMIC_RELAXED);
}

static void drop_all(struct udp_pace *p, struct ring *ring)
{
	while (p->head) {
		ring_drop(ring, DROP_NO_ROUTE);
		remove_first(p);
	}
}

/* Sends what may leave now, and arms the timer for the rest. */
static void run(struct udp_pace *p, struct ring *ring, nsec_t now)
{
	nsec_t when = NSEC_NEVER;

	if (!ring_is_open(ring))
		drop_all(p, ring);
	while (p->head) {
		const struct paced_frame *first = p->head;

		when = pace_when(&p->pace, packet_len(first->len));
		if (now < when)
			break;
		when = now + WHEEL_TICK; /* sent frames come back */
		if (!dst_hop_send(&first->hop, ring, first->frame, first->len))
			break;
		pace_sent(&p->pace, packet_len(first->len), now);
		remove_first(p);
	}
	if (p->head)
		ring_arm(ring, &p->timer, when);
	else
		wheel_cancel(&ring->wheel, &p->timer);
	update_events(p);
	if (p->so) {
		udp_note_special(p->so);
	} else if (!p->head) {
		ring_put(p->ring);
		mem_free(p);
	}
}

static void fire(struct timer *timer, nsec_t now)
{
	struct udp_pace *p = container_of(timer, struct udp_pace, timer);

	run(p, p->so ? sock_home(p->so) : p->ring, now);
}

/* NULL: no memory. */
static struct udp_pace *pace_of(struct inet_sock *so)
{
	struct udp_pace *p = so->udp.pace;

	if (p)
		return p;
	p = mem_zalloc(sizeof(*p));
	if (!p)
		return NULL;
	timer_init(&p->timer, fire);
	p->so = so;
	pace_start(&p->pace, so->opt->pacing, so->opt->pacing_burst, clock_now());
	so->udp.pace = p;
	return p;
}

static bool append(struct udp_pace *p, const struct dst *dst, const struct pkt *pkt)
{
	struct paced_frame *f = mem_alloc(sizeof(*f) + pkt->frame_len);

	if (!f)
		return false;
	f->next = NULL;
	f->len = pkt->frame_len;
	memcpy(f->frame, pkt->frame, f->len);
	dst_hop_get(dst, &f->hop);
	if (p->head)
		p->tail->next = f;
	else
		p->head = f;
	p->tail = f;
	p->bytes += udp_pace_charge(f->len);
	__atomic_fetch_add(&udp_pace_waiting, 1, __ATOMIC_RELAXED);
	return true;
}

void udp_pace_put(struct inet_sock *so, struct ring *ring, struct dst *dst, struct pkt *pkt)
{
	uint32_t len = packet_len(pkt->frame_len);
	struct udp_pace *p = pace_of(so);
	nsec_t now = clock_now();

	ring_assert_held(ring);
	if (p && !p->head && dst->ring == ring && now >= pace_when(&p->pace, len)) {
		pace_sent(&p->pace, len, now);
		dst_send(dst, ring, pkt);
		return;
	}
	if (!p || !append(p, dst, pkt))
		ring_drop(ring, DROP_NO_MEMORY);
	pkt_free(pkt);
	if (p)
		run(p, ring, now);
}

void udp_pace_changed(struct inet_sock *so)
{
	const struct sock_options *opt = so->opt;
	struct udp_pace *p = so->udp.pace;
	nsec_t now;

	if (!p)
		return;
	now = clock_now();
	if (p->pace.rate != opt->pacing || p->pace.burst != opt->pacing_burst)
		pace_start(&p->pace, opt->pacing, opt->pacing_burst, now);
	run(p, sock_home(so), now);
}

void udp_pace_leave(struct inet_sock *so, struct ring *ring)
{
	if (so->udp.pace)
		wheel_cancel(&ring->wheel, &so->udp.pace->timer);
}

void udp_pace_arrive(struct inet_sock *so, struct ring *ring)
{
	if (so->udp.pace)
		run(so->udp.pace, ring, clock_now());
}

void udp_pace_lose(struct inet_sock *so, struct ring *ring)
{
	struct udp_pace *p = so->udp.pace;

	if (!p)
		return;
	wheel_cancel(&ring->wheel, &p->timer);
	drop_all(p, ring);
	update_events(p);
}

void udp_pace_close(struct inet_sock *so, struct ring *ring)
{
	struct udp_pace *p = so->udp.pace;

	if (!p)
		return;
	so->udp.pace = NULL;
	sock_set_events(so, sock_own_events(so) | EPOLLOUT | EPOLLWRNORM);
	p->so = NULL;
	p->ring = ring;
	ring_get(ring);
	run(p, ring, clock_now());
}

void udp_pace_fork_child(struct inet_sock *so)
{
	__atomic_store_n(&udp_pace_waiting, 0, __ATOMIC_RELAXED);
	if (!so->udp.pace)
		return;
	so->udp.pace = NULL;
	sock_set_events(so, sock_own_events(so) | EPOLLOUT | EPOLLWRNORM);
}
