/* SPDX-License-Identifier: BSD-2-Clause */
#include "sock/core/port/strangers.h"

#include "sock/core/inet_sock.h"
#include "sock/core/port/kernel_input.h"

static struct kernel_input input = KERNEL_INPUT_CLOSED;
static nsec_t due; /* see strangers_may() */

/* Two threads at once may both be allowed: it is a limit of work, not a count. */
bool strangers_may(nsec_t *at, nsec_t now)
{
	nsec_t next = __atomic_load_n(at, __ATOMIC_RELAXED);

	if (next < now)
		next = now;
	if (next - now > (STRANGERS_BURST - 1) * STRANGERS_GAP)
		return false;
	__atomic_store_n(at, next + STRANGERS_GAP, __ATOMIC_RELAXED);
	return true;
}

bool strangers_open(bool ipv4)
{
	control_assert_held();
	return kernel_input_open(&input, ipv4);
}

bool strangers_give(const struct ring *ring, struct pkt *pkt)
{
	pkt->ifindex = ring->ifindex; /* an address of the link needs it */
	if (!kernel_input_send(&input, pkt, pkt->frame + pkt->l3, pkt->frame_len - pkt->l3))
		return false;
	pkt_free(pkt);
	return true;
}

void strangers_forget(void)
{
	input = KERNEL_INPUT_CLOSED;
}

/* holder: deliver of the flow that is not listed. */
static enum drop give_to_kernel(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	(void)flow;
	return strangers_may(&due, now) && strangers_give(ring, pkt) ? DROP_NONE : DROP_NO_FLOW;
}

static struct flow others = {.deliver = give_to_kernel};

/* May the port bring frames of strangers with those of the flow?  See add_entry() of ring_flow.c. */
static bool may_bring(const struct sock_flow *f)
{
	const struct port_queue *q = ring_queue(f->ring);

	return f->flow.key.proto == IPPROTO_UDP && flow_key_is_exact(&f->flow.key) &&
	       f->flow.alone && q && q->port->can.tags;
}

void strangers_follow(const struct sock_flow *f)
{
	ring_assert_held(f->ring);
	if (may_bring(f))
		f->ring->flows.others = &others;
}

void strangers_begin(const struct sock_flow *f)
{
	control_assert_held();
	control_assert_no_ring();
	if (!may_bring(f))
		return;
	if (!strangers_open(addr_is_v4(&f->flow.key.local)))
		return; /* the ring drops what strangers send */
	if (!ring_hold_cold(f->ring))
		return;
	strangers_follow(f);
	ring_release_cold(f->ring);
}
