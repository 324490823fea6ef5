/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows as rules of the card.
 *
 * Role		holders of rings, the internal thread; serialised by the port's
 *		lock.  A rule is a command to the card's firmware, which takes up to a
 *		millisecond.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/param.h"
#include "net/netlink/netlink.h"
#include "ring/flow.h"
#include "ring/mlx5/mlx5_internal.h"

static struct list *list_of(struct mlx5_port *port, const struct flow_key *key)
{
	return &port->rules[flow_key_hash(key) & (MLX5_RULE_LISTS - 1)];
}

struct mlx5_rule *mlx5_rule_find(struct mlx5_port *port, const struct flow_key *key)
{
	list_for_each(link, list_of(port, key)) {
		struct mlx5_rule *rule = container_of(link, struct mlx5_rule, link);

		if (flow_key_eq(&rule->key, key))
			return rule;
	}
	return NULL;
}

/* The rule of this queue: several queues may listen to a group. */
static struct mlx5_rule *find_of(struct mlx5_queue *q, const struct flow_key *key)
{
	list_for_each(link, list_of(q->port, key)) {
		struct mlx5_rule *rule = container_of(link, struct mlx5_rule, link);

		if (rule->queue == q && flow_key_eq(&rule->key, key))
			return rule;
	}
	return NULL;
}

/* A rule with another key that may bring the flow's frames, too; false: there is none. */
static bool widen(const struct flow_key *key, struct flow_key *wide)
{
	if (flow_key_is_exact(key))
		*wide = flow_key_widen(key);
	else if (params.eth_mc_l2_only_rules && addr_is_multicast(&key->local))
		*wide = mlx5_group_key(key);
	else
		return false;
	return true;
}

/* ---- one rule --------------------------------------------------------------------------------- */

/*
 * Gives the card a rule: 0, -EEXIST, or -ENOSPC, whatever the reason: the process gave its
 * privileges up (EPERM), the firmware cannot match so, or the card is gone.  errno is the
 * program's.
 */
static int steer(struct mlx5_queue *q, const struct mlx5_rule *rule, bool second,
		 struct ibv_flow **flow)
{
	struct mlx5_match match;
	int saved = errno, rc = 0;

	mlx5_match_of(q->port, &rule->key, second, rule->tag, &match);
	errno = 0;
	*flow = ibv_create_flow(q->qp, &match.attr);
	if (!*flow)
		rc = errno ? -errno : -EIO;
	errno = saved;
	if (rc && rc != -EEXIST) {
		log_debug("%s: the card refuses a rule: %s", q->port->base.name, strerror(-rc));
		rc = -ENOSPC;
	}
	return rc;
}

/* The card may be gone: then its rules are, too. */
static void unsteer(struct ibv_flow *flow)
{
	int saved = errno;

	if (flow)
		ibv_destroy_flow(flow);
	errno = saved;
}

static void free_rule(struct mlx5_port *port, struct mlx5_rule *rule)
{
	mlx5_tag_put(port, &rule->key, rule->tag);
	mlx5_unclaim(port, &rule->key);
	mem_free(rule);
}

/* The key has no rule of this process; of a group, none of this queue. */
static int make(struct mlx5_queue *q, const struct flow_key *key, struct mlx5_rule **out)
{
	struct mlx5_port *port = q->port;
	struct mlx5_rule *rule;
	int rc;

	if (port->fenced)
		return -ENOSPC;
	rc = mlx5_claim(port, key);
	if (rc)
		return rc;
	rule = mem_zalloc(sizeof(*rule));
	if (!rule) {
		mlx5_unclaim(port, key);
		return -ENOMEM;
	}
	*rule = (struct mlx5_rule){.key = *key, .queue = q, .tag = mlx5_tag_get(port, key)};
	rc = steer(q, rule, false, &rule->flow);
	if (rc) {
		free_rule(port, rule);
		return rc;
	}
	list_push_back(list_of(port, key), &rule->link);
	*out = rule;
	return 0;
}

static void rule_end(struct mlx5_rule *rule)
{
	unsteer(rule->flow);
	list_remove(&rule->link);
	free_rule(rule->queue->port, rule);
}

static void end_if_unused(struct mlx5_rule *rule)
{
	if (!rule->own && !rule->wide)
		rule_end(rule);
}

static int add_own(struct mlx5_queue *q, const struct flow_key *key)
{
	struct mlx5_rule *rule = addr_is_multicast(&key->local) ? find_of(q, key)
								: mlx5_rule_find(q->port, key);
	int rc = 0;

	if (rule && (rule->own || rule->queue != q))
		return -EEXIST;
	if (!rule)
		rc = make(q, key, &rule);
	if (!rc)
		rule->own = true;
	return rc;
}

/* -EEXIST: the frames of the wide key go to another queue, or another process. */
static int add_to_wide(struct mlx5_queue *q, const struct flow_key *wide)
{
	struct mlx5_rule *rule = find_of(q, wide);
	int rc = 0;

	if (!rule && !addr_is_multicast(&wide->local) && mlx5_rule_find(q->port, wide))
		return -EEXIST;
	if (!rule)
		rc = make(q, wide, &rule);
	if (!rc)
		rule->wide++;
	return rc;
}

int mlx5_rule_add(struct mlx5_queue *q, const struct flow_key *key)
{
	struct flow_key wide;

	if (addr_is_multicast(&key->local) && widen(key, &wide))
		return add_to_wide(q, &wide);
	return add_own(q, key);
}

int mlx5_rule_del(struct mlx5_queue *q, const struct flow_key *key)
{
	struct mlx5_rule *rule = find_of(q, key);
	struct flow_key wide;

	if (rule && rule->own) {
		rule->own = false;
		end_if_unused(rule);
		return 0;
	}
	rule = widen(key, &wide) ? find_of(q, &wide) : NULL;
	if (!rule || !rule->wide)
		return -ENOENT;
	rule->wide--;
	end_if_unused(rule);
	return 0;
}

/* ---- moves ------------------------------------------------------------------------------------ */

/*
 * The new rule has the other priority of the two.  If that is the better one, it takes over when
 * it is made, else when the old one is destroyed: the card never has none, and never two of one
 * priority.  Of a group other queues have rules, too, which must keep theirs: these have one
 * priority, so a datagram may arrive twice.
 */
int mlx5_rule_move(struct mlx5_queue *q, struct mlx5_rule *rule)
{
	bool second = !rule->second && !addr_is_multicast(&rule->key.local);
	struct ibv_flow *flow = NULL;
	int rc = 0;

	if (rule->queue == q)
		return 0;
	/* Flows of both kinds would have to move, and only one does. */
	if (rule->own && rule->wide)
		return -ENOSPC;
	if (rule->flow)
		rc = steer(q, rule, second, &flow);
	if (rc)
		return rc;
	unsteer(rule->flow);
	rule->flow = flow;
	rule->second = second;
	rule->queue = q;
	return 0;
}

/* One of the flows of a rule with a wide key; a rule of its own is better, so it takes over. */
static int move_from_wide(struct mlx5_queue *q, const struct flow_key *key, struct mlx5_rule *wide)
{
	int rc;

	if (wide->queue == q)
		return 0;
	if (wide->wide == 1 && !wide->own)
		return mlx5_rule_move(q, wide);
	rc = addr_is_multicast(&key->local) ? add_to_wide(q, &wide->key) : add_own(q, key);
	if (rc)
		return rc;
	wide->wide--;
	end_if_unused(wide);
	return 0;
}

static int move(struct mlx5_queue *q, const struct flow_key *key)
{
	struct mlx5_rule *rule = mlx5_rule_find(q->port, key);
	struct flow_key wide;

	if (rule && rule->own)
		return mlx5_rule_move(q, rule);
	rule = widen(key, &wide) ? mlx5_rule_find(q->port, &wide) : NULL;
	return rule && rule->wide ? move_from_wide(q, key, rule) : -ENOENT;
}

/* ---- operations of struct port_ops ------------------------------------------------------------ */

int mlx5_add_flow(struct port_queue *base, const struct flow_key *key)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	struct flow_key one = mlx5_spelled(key);
	int rc;

	mutex_lock(&q->port->lock);
	rc = mlx5_rule_add(q, &one);
	mutex_unlock(&q->port->lock);
	return rc;
}

/*
 * Where the wide key is another queue's, a rule of its own: the card prefers it.
 */
int mlx5_add_wide(struct port_queue *base, const struct flow_key *key)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	struct flow_key wide = flow_key_widen(key);
	int rc;

	mutex_lock(&q->port->lock);
	rc = add_to_wide(q, &wide);
	if (rc == -EEXIST)
		rc = add_own(q, key);
	mutex_unlock(&q->port->lock);
	return rc;
}

int mlx5_del_flow(struct port_queue *base, const struct flow_key *key)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	struct flow_key one = mlx5_spelled(key);
	int rc;

	mutex_lock(&q->port->lock);
	rc = mlx5_rule_del(q, &one);
	mutex_unlock(&q->port->lock);
	return rc;
}

int mlx5_move_flow(struct port_queue *base, const struct flow_key *key)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	struct flow_key one = mlx5_spelled(key);
	int rc;

	mutex_lock(&q->port->lock);
	rc = move(q, &one);
	mutex_unlock(&q->port->lock);
	return rc;
}

/* Only from queues of this process: the rules of another one are not ours to remove. */
int mlx5_take_flow(struct port_queue *base, const struct flow_key *key)
{
	int rc = mlx5_move_flow(base, key);

	return rc == -ENOENT ? mlx5_add_flow(base, key) : rc;
}

bool mlx5_flow_is_foreign(struct port *base, const struct flow_key *key)
{
	const struct mlx5_port *port = mlx5_port_of(base);
	struct flow_key wide = *key;

	memset(&wide.remote, 0, sizeof(wide.remote));
	wide.remote_port = 0;
	return mlx5_is_claimed(port, key) || mlx5_is_claimed(port, &wide);
}

static bool is_one_of(const struct inaddr *addr, const struct inaddr *list, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (addr_eq(addr, &list[i]))
			return true;
	return false;
}

static void follow_addr(struct mlx5_port *port, struct mlx5_rule *rule, const struct inaddr *gone,
			unsigned n)
{
	if (is_one_of(&rule->key.local, gone, n)) {
		unsteer(rule->flow);
		rule->flow = NULL;
	} else if (!rule->flow && link_of_addr(&rule->key.local)) {
		steer(rule->queue, rule, rule->second, &rule->flow);
	}
	port->any_gone |= !rule->flow;
}

/* Without a rule the kernel gets the frames, and drops them: the address is not its own. */
void mlx5_addrs_gone(struct port *base, const struct inaddr *gone, unsigned n)
{
	struct mlx5_port *port = mlx5_port_of(base);

	mutex_lock(&port->lock);
	if (n || port->any_gone) {
		port->any_gone = false;
		for (unsigned i = 0; i < MLX5_RULE_LISTS; i++)
			list_for_each(link, &port->rules[i])
				follow_addr(port, container_of(link, struct mlx5_rule, link), gone,
					    n);
	}
	mutex_unlock(&port->lock);
}

void mlx5_flows_end(struct mlx5_queue *q)
{
	mutex_lock(&q->port->lock);
	for (unsigned i = 0; i < MLX5_RULE_LISTS; i++)
		list_for_each_safe(link, &q->port->rules[i]) {
			struct mlx5_rule *rule = container_of(link, struct mlx5_rule, link);

			if (rule->queue == q)
				rule_end(rule);
		}
	mutex_unlock(&q->port->lock);
}
