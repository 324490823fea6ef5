/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared 3-tuples.  The card gives a frame to one queue, so all receivers must be on one ring; the
 * ring asks which of them gets a frame.  Others, on another ring or in another process, are left
 * to the kernel.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "ring/mlx5/mlx5_internal.h"

static struct mlx5_share *find(struct mlx5_port *port, const struct flow_key *key)
{
	list_for_each(link, &port->shares) {
		struct mlx5_share *share = container_of(link, struct mlx5_share, link);

		if (flow_key_eq(&share->key, key))
			return share;
	}
	return NULL;
}

/* lock: the share of the key, made with its rule if there is none. */
static int get(struct mlx5_queue *q, const struct flow_key *key, struct mlx5_share **out)
{
	struct mlx5_rule *rule = mlx5_rule_find(q->port, key);
	struct mlx5_share *share = find(q->port, key);
	int rc;

	*out = share;
	if (share)
		return share->queue == q ? 0 : -ENOSPC;
	if (rule && rule->queue != q)
		return -EEXIST;
	share = mem_zalloc(sizeof(*share));
	if (!share)
		return -ENOMEM;
	/* The rule of a receiver that was alone goes on. */
	rc = rule ? 0 : mlx5_rule_add(q, key);
	if (rc) {
		mem_free(share);
		return rc;
	}
	share->key = *key;
	share->queue = q;
	share->at = q->port->last_share++;
	list_push_back(&q->port->shares, &share->link);
	*out = share;
	return 0;
}

static void share_end(struct mlx5_share *share)
{
	mlx5_rule_del(share->queue, &share->key);
	list_remove(&share->link);
	mem_free(share);
}

/* lock: divides the senders, or ends the share without receivers. */
static void members_changed(struct mlx5_share *share)
{
	uint64_t receivers = reuseport_receivers(&share->members);

	if (receivers)
		reuseport_balance(share->bucket, receivers);
	else
		share_end(share);
}

int mlx5_share_join(struct port_queue *base, const struct flow_key *key, struct flow_share *part)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	struct flow_key one = mlx5_spelled(key);
	struct mlx5_share *share;
	int rc, member = -1;

	mutex_lock(&q->port->lock);
	rc = get(q, &one, &share);
	if (!rc) {
		member = reuseport_add(&share->members, part, 0);
		if (member >= 0) {
			part->at = share->at;
			part->member = (uint8_t)member;
		} else {
			rc = -ENOSPC;
		}
		members_changed(share);
	}
	mutex_unlock(&q->port->lock);
	return rc;
}

void mlx5_share_leave(struct port_queue *base, const struct flow_key *key,
		      const struct flow_share *part)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	struct flow_key one = mlx5_spelled(key);
	struct mlx5_share *share;

	mutex_lock(&q->port->lock);
	share = find(q->port, &one);
	if (share && share->queue == q && part->member < REUSEPORT_MEMBERS) {
		share->members.at[part->member].seq = 0;
		members_changed(share);
	}
	mutex_unlock(&q->port->lock);
}

/* Only one that is alone: the others stay on their ring. */
int mlx5_share_move(struct port_queue *base, const struct flow_key *key,
		    const struct flow_share *part)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	struct flow_key one = mlx5_spelled(key);
	struct mlx5_share *share;
	struct mlx5_rule *rule;
	unsigned others = 0;
	int rc = -ENOENT;

	mutex_lock(&q->port->lock);
	share = find(q->port, &one);
	rule = mlx5_rule_find(q->port, &one);
	for (unsigned i = 0; share && i < REUSEPORT_MEMBERS; i++)
		others += share->members.at[i].seq && i != part->member;
	if (share && rule)
		rc = others ? -ENOSPC : mlx5_rule_move(q, rule);
	if (!rc)
		share->queue = q;
	mutex_unlock(&q->port->lock);
	return rc;
}

unsigned mlx5_share_pick(struct port_queue *base, const struct flow_share *part,
			 const struct flow_key *key5)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	uint64_t remote = key5->remote.q[0] ^ key5->remote.q[1];
	unsigned place = reuseport_bucket((uint32_t)(remote ^ remote >> 32), key5->remote_port, 0);
	unsigned member = part->member;
	struct flow_key key3 = *key5;
	const struct mlx5_share *share;

	key3.remote_port = 0;
	key3 = mlx5_spelled(&key3);
	mutex_lock(&q->port->lock);
	share = find(q->port, &key3);
	if (share)
		member = share->bucket[place];
	mutex_unlock(&q->port->lock);
	return member;
}

void mlx5_shares_end(struct mlx5_queue *q)
{
	mutex_lock(&q->port->lock);
	list_for_each_safe(link, &q->port->shares) {
		struct mlx5_share *share = container_of(link, struct mlx5_share, link);

		if (share->queue == q)
			share_end(share);
	}
	mutex_unlock(&q->port->lock);
}
