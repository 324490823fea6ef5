/* SPDX-License-Identifier: BSD-2-Clause */
/* Moving flows from one ring to another: their stand-ins. */
#include "sock/move/move_internal.h"

#include "base/delay.h"
#include "ring/source.h"
#include "sock/core/port/strangers.h"
#include "sock/tcp/tcp_sock.h"

/* ---- packets for a stand-in (holder of part->to) ------------------------------------ */

static bool move_is_valid(const struct move *move)
{
	/* Pairs with sock_move_closed(), and with the end of references in core/sock.c. */
	return __atomic_load_n(&move->so->sk.gen, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&move->gen, __ATOMIC_ACQUIRE);
}

/*
 * Keeps the packet until ARRIVE: packets that were steered to the old ring are older, and may not
 * have reached its queue yet.
 */
static enum drop stand_in_deliver(struct ring *ring, struct flow *flow, struct pkt *pkt, nsec_t now)
{
	struct move_part *part = container_of(flow, struct move_part, stand_in);

	(void)now;
	if (!move_is_valid(part->move))
		return DROP_SOCK_CLOSED;
	pkt = ring_keep(ring, pkt, part->held, 0);
	if (!pkt)
		return DROP_NO_MEMORY;
	part->held += pkt_size(pkt);
	pkt_append(&part->head, &part->tail, pkt);
	return DROP_NONE;
}

/* ---- steps -------------------------------------------------------------------------- */

/* STEER failed: the old ring gets the flow's frames again. */
static void resteer(struct move_part *part)
{
	if (!ring_hold_cold(part->from))
		return;
	ring_flow_resteer(part->from, part->flow);
	ring_release_cold(part->from);
}

static int unsteer(struct move_part *part, bool *was)
{
	struct flow *flow = part->flow;
	int rc = -ENOENT;

	if (!ring_hold_cold(part->from))
		return -EAGAIN;
	if (flow->listed) {
		*was = flow->steered;
		rc = ring_flow_unsteer(part->from, flow);
	}
	ring_release_cold(part->from);
	return rc > 0 ? -EBUSY : rc;
}

/* The stand-in of a shared flow is the same member. */
static void make_stand_in(struct move_part *part)
{
	part->stand_in.deliver = stand_in_deliver;
	if (part->flow->shared) {
		shared_flow_init(&part->shared_stand_in, stand_in_deliver, 0, false);
		part->shared_stand_in.share =
			container_of(part->flow, struct shared_flow, flow)->share;
	}
}

int move_part_steer(struct move_part *part)
{
	bool was = false;
	int rc;

	part->stand_in.key = part->flow->key;
	make_stand_in(part);
	if (!ring_hold_cold(part->to))
		return -EAGAIN;
	rc = ring_flow_list(part->to, &part->stand_in);
	ring_release_cold(part->to);
	if (rc)
		return rc;
	delay_at(DELAY_MOVE_LISTED);
	rc = unsteer(part, &was);
	if (!rc && ring_hold_cold(part->to)) {
		rc = ring_flow_steer(part->to, &part->stand_in);
		ring_release_cold(part->to);
		delay_at(DELAY_MOVE_STEERED);
		if (rc && was)
			resteer(part);
	}
	if (rc && ring_hold_cold(part->to)) {
		move_part_drop(part);
		ring_release_cold(part->to);
	}
	return rc;
}

void move_part_stay(struct move_part *part)
{
	make_stand_in(part);
	part->to = part->from;
	part->stays = true;
}

static void drop_all(struct ring *ring, struct pkt **head)
{
	while (*head) {
		struct pkt *pkt = *head;

		*head = pkt->next;
		ring_drop(ring, DROP_SOCK_CLOSED);
		pkt_free(pkt);
	}
}

void move_part_drop(struct move_part *part)
{
	ring_flow_del(part->to, &part->stand_in);
	drop_all(part->to, &part->unchecked);
	drop_all(part->to, &part->head);
}

void move_part_leave(struct move_part *part)
{
	if (part->stays) {
		ring_flow_replace(part->from, part->flow, &part->stand_in);
		return;
	}
	part->ended = !part->flow->listed;
	if (!part->ended)
		part->unchecked = source_take(part->from, part->flow);
	ring_flow_del(part->from, part->flow);
	if (part->listed && part->listed->shard)
		tcp_shard_leave(part->listed->shard);
}

/* The flow that gets the kept packets; NULL: there is none. */
static struct flow *receiving_flow(struct move_part *part)
{
	struct flow_key wide = flow_key_widen(&part->stand_in.key);

	return part->ended ? flow_lookup(&part->to->flows, &wide) : part->flow;
}

static void arrive_listed(struct sock_flow *f, struct ring *from, struct ring *to)
{
	ring_get(to);
	ring_put(from);
	f->ring = to;
	strangers_follow(f);
	if (f->shard)
		tcp_shard_arrive(f->shard, to);
}

/* The packets are checked on this ring, and wait again if the answer has not come. */
static void check_all(struct ring *ring, struct pkt **head)
{
	while (*head) {
		struct pkt *pkt = *head;

		*head = pkt->next;
		ring_receive(ring, pkt);
	}
}

void move_part_arrive(struct move_part *part)
{
	struct pkt *pkt, *newest = NULL;

	if (part->unchecked)
		newest = source_take(part->to, &part->stand_in);
	if (part->ended)
		ring_flow_del(part->to, &part->stand_in);
	else
		ring_flow_replace(part->to, &part->stand_in, part->flow);
	if (part->listed) /* a connection's own flow is always at its socket's home */
		arrive_listed(part->listed, part->from, part->to);
	if (part->unchecked) {
		/* None overtakes those before it, which may have to wait again. */
		check_all(part->to, &part->unchecked);
		check_all(part->to, &part->head);
		check_all(part->to, &newest);
	}
	pkt = part->head;
	part->head = NULL;
	part->held = 0;
	while (pkt) {
		struct pkt *next = pkt->next;

		ring_flow_deliver(part->to, receiving_flow(part), pkt);
		pkt = next;
	}
}
