/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows of the loop-back port: which queue gets which frames.  See port_loop.h. */
#include "ring/loop/loop_internal.h"

#include <errno.h>

#include "base/mem.h"
#include "ring/hold.h"

struct loop_flow *loop_find_flow(struct loop_port *port, const struct flow_key *key)
{
	list_for_each(link, &port->flows) {
		struct loop_flow *flow = container_of(link, struct loop_flow, link);

		if (flow_key_eq(&flow->key, key))
			return flow;
	}
	return NULL;
}

struct loop_share *loop_find_share(struct loop_port *port, const struct flow_key *key)
{
	list_for_each(link, &port->shares) {
		struct loop_share *share = container_of(link, struct loop_share, link);

		if (flow_key_eq(&share->key, key))
			return share;
	}
	return NULL;
}

unsigned loop_member_of(const struct loop_share *share, const struct flow_key *key5)
{
	uint64_t remote = key5->remote.q[0] ^ key5->remote.q[1];

	return share
		->bucket[reuseport_bucket((uint32_t)(remote ^ remote >> 32), key5->remote_port, 0)];
}

/* ---- flows ------------------------------------------------------------------ */

/* From here to thaw() no thread sends: no frame is on its way, and flows may change. */
static void freeze(struct loop_port *port)
{
	pthread_mutex_lock(&port->lock);
	list_for_each(link, &port->queues) {
		struct loop_queue *q = container_of(link, struct loop_queue, link);

		loop_lock(&q->sending);
		q->recent = NULL;
	}
}

static void thaw(struct loop_port *port)
{
	list_for_each(link, &port->queues)
		ck_spinlock_fas_unlock(&container_of(link, struct loop_queue, link)->sending);
	pthread_mutex_unlock(&port->lock);
}

/* Does another flow have the key?  Only multicast may be received by several queues. */
static bool is_taken(const struct loop_queue *q, const struct flow_key *key)
{
	list_for_each(link, &q->port->flows) {
		const struct loop_flow *flow = container_of(link, struct loop_flow, link);

		if (flow_key_eq(&flow->key, key) &&
		    (flow->queue == q || !addr_is_multicast(&key->local)))
			return true;
	}
	return false;
}

int loop_add_flow(struct port_queue *base, const struct flow_key *key)
{
	struct loop_queue *q = loop_queue_of(base);
	struct loop_flow *flow = mem_alloc(sizeof(*flow));
	bool taken;

	if (!flow)
		return -ENOMEM;
	*flow = (struct loop_flow){.key = loop_spelled(key), .queue = q};
	freeze(q->port);
	taken = is_taken(q, &flow->key) || loop_find_share(q->port, &flow->key);
	if (!taken)
		list_push_back(&q->port->flows, &flow->link);
	thaw(q->port);
	if (taken)
		mem_free(flow);
	return taken ? -EEXIST : 0;
}

int loop_remove_flows(struct loop_queue *q, const struct flow_key *key)
{
	int n = 0;

	freeze(q->port);
	list_for_each_safe(link, &q->port->flows) {
		struct loop_flow *flow = container_of(link, struct loop_flow, link);

		if (flow->queue != q || (key && !flow_key_eq(&flow->key, key)))
			continue;
		list_remove(link);
		mem_free(flow);
		n++;
	}
	thaw(q->port);
	return n;
}

int loop_del_flow(struct port_queue *base, const struct flow_key *key)
{
	struct flow_key one = loop_spelled(key);

	return loop_remove_flows(loop_queue_of(base), &one) ? 0 : -ENOENT;
}

int loop_move_flow(struct port_queue *base, const struct flow_key *key)
{
	struct loop_queue *q = loop_queue_of(base);
	struct flow_key one = loop_spelled(key);
	struct loop_flow *flow;

	freeze(q->port);
	flow = loop_find_flow(q->port, &one);
	if (flow)
		flow->queue = q;
	thaw(q->port);
	return flow ? 0 : -ENOENT;
}

/* ---- shared flows ----------------------------------------------------------- */

/* Frozen: the shared flow of the key, made if there is none; NULL: no memory. */
static struct loop_share *get_share(struct loop_port *port, const struct flow_key *key)
{
	struct loop_share *share = loop_find_share(port, key);

	if (share)
		return share;
	share = mem_zalloc(sizeof(*share));
	if (!share)
		return NULL;
	share->key = *key;
	share->at = port->last_share++;
	list_push_back(&port->shares, &share->link);
	return share;
}

/* Frozen: divides the places among the members, or frees the share without members. */
static void members_changed(struct loop_share *share)
{
	uint64_t receivers = reuseport_receivers(&share->members);

	if (receivers) {
		reuseport_balance(share->bucket, receivers);
		return;
	}
	list_remove(&share->link);
	mem_free(share);
}

static int join(struct loop_queue *q, const struct flow_key *key, struct flow_share *part)
{
	struct loop_flow *flow = loop_find_flow(q->port, key);
	struct loop_share *share;
	int member;

	if (flow && flow->queue != q)
		return -EEXIST;
	share = get_share(q->port, key);
	if (!share)
		return -ENOMEM;
	member = reuseport_add(&share->members, part, 0);
	if (member < 0)
		return -ENOSPC;
	part->at = share->at;
	part->member = (uint8_t)member;
	share->queue[member] = q;
	members_changed(share);
	if (flow) {
		list_remove(&flow->link);
		mem_free(flow);
	}
	return 0;
}

int loop_share_join(struct port_queue *base, const struct flow_key *key, struct flow_share *part)
{
	struct loop_queue *q = loop_queue_of(base);
	struct flow_key one = loop_spelled(key);
	int rc;

	freeze(q->port);
	rc = join(q, &one, part);
	thaw(q->port);
	return rc;
}

void loop_share_leave(struct port_queue *base, const struct flow_key *key,
		      const struct flow_share *part)
{
	struct loop_queue *q = loop_queue_of(base);
	struct flow_key one = loop_spelled(key);
	struct loop_share *share;

	freeze(q->port);
	share = loop_find_share(q->port, &one);
	if (share) {
		share->members.at[part->member].seq = 0;
		members_changed(share);
	}
	thaw(q->port);
}

int loop_share_move(struct port_queue *base, const struct flow_key *key,
		    const struct flow_share *part)
{
	struct loop_queue *q = loop_queue_of(base);
	struct flow_key one = loop_spelled(key);
	struct loop_share *share;

	freeze(q->port);
	share = loop_find_share(q->port, &one);
	if (share)
		share->queue[part->member] = q;
	thaw(q->port);
	return share ? 0 : -ENOENT;
}

/* Under `sending`, not freeze(): the holder of a ring cannot wait for that. */
unsigned loop_share_pick(struct port_queue *base, const struct flow_share *part,
			 const struct flow_key *key5)
{
	struct loop_queue *q = loop_queue_of(base);
	struct flow_key key3 = *key5;
	const struct loop_share *share;
	unsigned member = part->member;

	key3.remote_port = 0;
	key3 = loop_spelled(&key3);
	loop_lock(&q->sending);
	share = loop_find_share(q->port, &key3);
	if (share)
		member = loop_member_of(share, key5);
	ck_spinlock_fas_unlock(&q->sending);
	return member;
}

void loop_leave_shares(struct loop_queue *q)
{
	freeze(q->port);
	list_for_each_safe(link, &q->port->shares) {
		struct loop_share *share = container_of(link, struct loop_share, link);

		for (unsigned i = 0; i < REUSEPORT_MEMBERS; i++) {
			if (share->queue[i] == q)
				share->members.at[i].seq = 0;
		}
		members_changed(share);
	}
	thaw(q->port);
}

int loop_take_flow(struct port_queue *base, const struct flow_key *key)
{
	int rc = loop_move_flow(base, key);

	return rc == -ENOENT ? loop_add_flow(base, key) : rc;
}

void loop_barrier(struct port *base)
{
	struct loop_port *port = container_of(base, struct loop_port, base);

	freeze(port);
	thaw(port);
}

void loop_addrs_gone(struct port *base, const struct inaddr *gone, unsigned n)
{
	struct loop_port *port = container_of(base, struct loop_port, base);

	freeze(port);
	port->n_gone = n < LOOP_GONE ? n : LOOP_GONE;
	if (n) /* C17 7.1.4: gone must be valid even for a copy of no bytes */
		memcpy(port->gone, gone, port->n_gone * sizeof(*gone));
	thaw(port);
}

bool loop_addr_is_gone(const struct loop_port *port, const struct inaddr *local)
{
	for (unsigned i = 0; i < port->n_gone; i++)
		if (addr_eq(&port->gone[i], local))
			return true;
	return false;
}
