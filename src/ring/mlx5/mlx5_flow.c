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
static int steer(struct mlx5_queue *q, const struct mlx5_rule *rule, unsigned nth,
		 struct ibv_flow **flow)
{
	struct mlx5_match match;
	int saved = errno, rc = 0;

	mlx5_match_of(q->port, &rule->key, nth, rule->tag, &match);
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
	if (rule->taken)
		mlx5_claim_taken(port, &rule->key, false);
	mlx5_unclaim(port, &rule->key, rule->nth);
	mem_free(rule);
}

/* Claims a priority other than `but`: false: other processes have them all. */
static bool claim_another(const struct mlx5_port *port, const struct flow_key *key, unsigned but,
			  unsigned *nth)
{
	for (*nth = 0; *nth < mlx5_priorities(key); ++*nth)
		if (*nth != but && !mlx5_claim(port, key, *nth))
			return true;
	return false;
}

#define NONE (~0u)

/* takes: another process has exported the flow, and may have a rule of another priority. */
static bool claim_any(const struct mlx5_port *port, const struct flow_key *key, bool takes,
		      unsigned *nth)
{
	if (takes)
		return claim_another(port, key, NONE, nth);
	*nth = 0;
	if (mlx5_claim(port, key, 0))
		return false;
	if (addr_is_multicast(&key->local) || !mlx5_is_claimed(port, key))
		return true;
	mlx5_unclaim(port, key, 0);
	return false;
}

/* The key has no rule of this process; of a group, none of this queue. */
static int make(struct mlx5_queue *q, const struct flow_key *key, bool takes,
		struct mlx5_rule **out)
{
	struct mlx5_port *port = q->port;
	struct mlx5_rule *rule;
	unsigned nth;
	int rc;

	if (port->fenced)
		return -ENOSPC;
	if (!claim_any(port, key, takes, &nth))
		return -EEXIST;
	rule = mem_zalloc(sizeof(*rule));
	if (!rule) {
		mlx5_unclaim(port, key, nth);
		return -ENOMEM;
	}
	*rule = (struct mlx5_rule){
		.key = *key, .queue = q, .nth = nth, .tag = mlx5_tag_get(port, key)};
	rc = steer(q, rule, nth, &rule->flow);
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
		rc = make(q, key, false, &rule);
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
		rc = make(q, wide, false, &rule);
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
 * The new rule has another priority.  If that is the better one, it takes over when it is made,
 * else when the old one is destroyed: the card never has none, and never two of one priority.  Of a
 * group other queues have rules, too, which must keep theirs: these have one priority, so a datagram
 * may arrive twice.  So may a segment of a connection that has come back, while other processes
 * have the other priorities.
 */
int mlx5_rule_move(struct mlx5_queue *q, struct mlx5_rule *rule)
{
	const struct flow_key *key = &rule->key;
	struct ibv_flow *flow = NULL;
	unsigned old = rule->nth, nth = old;
	bool changes;
	int rc = 0;

	if (rule->queue == q)
		return 0;
	/* Flows of both kinds would have to move, and only one does. */
	if (rule->own && rule->wide)
		return -ENOSPC;
	changes = !addr_is_multicast(&key->local) && claim_another(q->port, key, old, &nth);
	if (!changes)
		nth = old;
	if (rule->flow)
		rc = steer(q, rule, nth, &flow);
	if (!rc) {
		unsteer(rule->flow);
		rule->flow = flow;
		rule->nth = nth;
		rule->queue = q;
	}
	if (changes)
		mlx5_unclaim(q->port, key, rc ? nth : old);
	return rc;
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

/* lock: its rule may still be there, from before the flow was exported. */
static int take(struct mlx5_queue *q, const struct flow_key *key)
{
	struct mlx5_rule *rule = mlx5_rule_find(q->port, key);
	int rc = 0;

	if (rule && rule->own)
		rc = mlx5_rule_move(q, rule);
	else if (rule)
		rc = -EEXIST;
	else
		rc = make(q, key, true, &rule);
	if (rc)
		return rc;
	rule->own = rule->taken = true;
	mlx5_claim_taken(q->port, key, true);
	return 0;
}

int mlx5_take_flow(struct port_queue *base, const struct flow_key *key)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	int rc;

	mutex_lock(&q->port->lock);
	rc = take(q, key);
	mutex_unlock(&q->port->lock);
	return rc;
}

/* Whoever has a rule from before needs no other; this may be someone new. */
bool mlx5_may_part(struct port_queue *base, const struct flow_key *key)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	struct mlx5_rule *rule;
	bool may;

	mutex_lock(&q->port->lock);
	rule = find_of(q, key);
	may = !rule;
	for (unsigned nth = 0; !may && nth < mlx5_priorities(key); nth++)
		may = nth != rule->nth && !mlx5_is_nth_claimed(q->port, key, nth);
	mutex_unlock(&q->port->lock);
	return may;
}

bool mlx5_part_flow(struct port_queue *base, const struct flow_key *key, bool over)
{
	struct mlx5_queue *q = mlx5_queue_of(base);
	struct mlx5_rule *rule;

	mutex_lock(&q->port->lock);
	rule = find_of(q, key);
	if (rule && rule->taken) {
		/* Or one that had it in between, and exports it again, would rely on this rule. */
		mlx5_claim_taken(q->port, key, false);
		rule->taken = false;
	}
	if (rule && mlx5_is_taken(q->port, key))
		over = true;
	/* It may have come back to another queue. */
	if (over && (rule || !mlx5_rule_find(q->port, key)))
		mlx5_rule_del(q, key);
	mutex_unlock(&q->port->lock);
	return over;
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
		steer(rule->queue, rule, rule->nth, &rule->flow);
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
