/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows of a team: each is steered at every port that is not lost.  The team knows the queue
 * that has it, so that a step that fails at one port can be undone at the others.
 */
#include <errno.h>

#include "base/mem.h"
#include "base/mutex.h"
#include "ring/team/team_internal.h"

struct team_flow {
	struct flow flow; /* first; only its key and links are used */
	struct team_queue *owner;
};

/* A member of a shared flow: one for each port. */
struct team_share {
	struct list link; /* of team->shares */
	struct flow_key key;
	struct team_queue *owner;
	unsigned member; /* the team's number, unique for the key */
	struct flow_share at[TEAM_PORTS_MAX];
};

/* With one form for "any sender". */
static struct flow_key plain_key(const struct flow_key *key)
{
	return flow_key_is_exact(key) ? *key : flow_key_widen(key);
}

/* lock; NULL: no queue has the flow. */
static struct team_flow *find_flow(struct team_port *team, const struct flow_key *key)
{
	return (struct team_flow *)flow_lookup(&team->flows, key);
}

/* lock: -ENOMEM */
static int remember(struct team_queue *q, const struct flow_key *key)
{
	struct team_flow *tf = mem_zalloc(sizeof(*tf));
	int rc;

	if (!tf)
		return -ENOMEM;
	tf->flow.key = *key;
	tf->owner = q;
	rc = flow_insert(&q->team->flows, &tf->flow);
	if (rc)
		mem_free(tf);
	return rc;
}

/* lock */
static void forget(struct team_port *team, struct team_flow *tf)
{
	flow_remove(&team->flows, &tf->flow);
	mem_free(tf);
}

/* Removes the flow from the first n parts. */
static void del_from(struct team_queue *q, const struct flow_key *key, unsigned n)
{
	while (n-- > 0) {
		if (q->parts[n])
			q->parts[n]->ops->del_flow(q->parts[n], key);
	}
}

typedef int (*steer_fn)(struct port_queue *part, const struct flow_key *key);

static int add_part(struct port_queue *part, const struct flow_key *key)
{
	return part->ops->add_flow(part, key);
}

static int take_part(struct port_queue *part, const struct flow_key *key)
{
	return part->ops->take_flow(part, key);
}

/* lock: at every port, or at none and -errno. */
static int steer_parts(struct team_queue *q, const struct flow_key *key, steer_fn steer)
{
	for (unsigned i = 0; i < q->team->n; i++) {
		int rc = q->parts[i] ? steer(q->parts[i], key) : 0;

		if (rc) {
			del_from(q, key, i);
			return rc;
		}
	}
	return 0;
}

int team_add_flow(struct port_queue *base, const struct flow_key *key)
{
	struct team_queue *q = team_queue_of(base);
	struct flow_key one = plain_key(key);
	int rc = -EEXIST;

	mutex_lock(&q->team->lock);
	if (!find_flow(q->team, &one))
		rc = steer_parts(q, key, add_part);
	if (!rc) {
		rc = remember(q, &one);
		if (rc)
			del_from(q, key, q->team->n);
	}
	mutex_unlock(&q->team->lock);
	return rc;
}

int team_del_flow(struct port_queue *base, const struct flow_key *key)
{
	struct team_queue *q = team_queue_of(base);
	struct flow_key one = plain_key(key);
	struct team_flow *tf;
	int rc = -ENOENT;

	mutex_lock(&q->team->lock);
	tf = find_flow(q->team, &one);
	if (tf && tf->owner == q) {
		del_from(q, key, q->team->n);
		forget(q->team, tf);
		rc = 0;
	}
	mutex_unlock(&q->team->lock);
	return rc;
}

/* lock: moves the flow at one port; a port that joined the flow late may not have it. */
static int move_part(struct port_queue *part, const struct flow_key *key)
{
	int rc = part->ops->move_flow(part, key);

	return rc == -ENOENT ? part->ops->add_flow(part, key) : rc;
}

int team_move_flow(struct port_queue *base, const struct flow_key *key)
{
	struct team_queue *q = team_queue_of(base), *old;
	struct flow_key one = plain_key(key);
	struct team_flow *tf;
	int rc = 0;

	mutex_lock(&q->team->lock);
	tf = find_flow(q->team, &one);
	old = tf ? tf->owner : NULL;
	for (unsigned i = 0; old && i < q->team->n; i++) {
		rc = q->parts[i] ? move_part(q->parts[i], key) : 0;
		if (!rc)
			continue;
		/* Back: the frames of the flow must come to one ring. */
		while (i-- > 0) {
			if (old->parts[i])
				move_part(old->parts[i], key);
		}
		break;
	}
	if (old && !rc)
		tf->owner = q;
	mutex_unlock(&q->team->lock);
	return old ? rc : -ENOENT;
}

int team_take_flow(struct port_queue *base, const struct flow_key *key)
{
	struct team_queue *q = team_queue_of(base);
	struct flow_key one = plain_key(key);
	struct team_flow *tf;
	int rc;

	mutex_lock(&q->team->lock);
	tf = find_flow(q->team, &one);
	rc = steer_parts(q, key, take_part);
	if (!rc && tf) {
		tf->owner = q;
	} else if (!rc) {
		rc = remember(q, &one);
		if (rc)
			del_from(q, key, q->team->n);
	} else if (tf) {
		forget(q->team, tf); /* steer_parts() removed what it had taken */
	}
	mutex_unlock(&q->team->lock);
	return rc;
}

/* ---- shared flows ----------------------------------------------------------------- */

/* lock; NULL: there is none. */
static struct team_share *find_share(struct team_port *team, const struct flow_key *key,
				     unsigned member)
{
	list_for_each(link, &team->shares) {
		struct team_share *s = container_of(link, struct team_share, link);

		if (s->member == member && flow_key_eq(&s->key, key))
			return s;
	}
	return NULL;
}

/* lock: removes the member from the first n ports. */
static void leave_parts(const struct team_share *s, unsigned n)
{
	while (n-- > 0) {
		struct port_queue *part = s->owner->parts[n];

		if (part)
			part->ops->reuseport_leave(part, &s->key, &s->at[n]);
	}
}

/* lock: at every port, or at none and -errno. */
static int join_parts(struct team_share *s, const struct flow_share *share)
{
	struct team_queue *q = s->owner;

	for (unsigned i = 0; i < q->team->n; i++) {
		int rc;

		s->at[i] = *share;
		if (!q->parts[i])
			continue;
		rc = q->parts[i]->ops->reuseport_join(q->parts[i], &s->key, &s->at[i]);
		if (rc) {
			leave_parts(s, i);
			return rc;
		}
	}
	return 0;
}

int team_share_join(struct port_queue *base, const struct flow_key *key, struct flow_share *share)
{
	struct team_queue *q = team_queue_of(base);
	struct team_share *s = mem_zalloc(sizeof(*s));
	struct team_flow *tf;
	int rc;

	if (!s)
		return -ENOMEM;
	s->key = plain_key(key);
	s->owner = q;
	mutex_lock(&q->team->lock);
	tf = find_flow(q->team, &s->key);
	rc = tf && tf->owner != q ? -EEXIST : join_parts(s, share);
	if (!rc) {
		while (find_share(q->team, &s->key, s->member))
			s->member++;
		list_push_back(&q->team->shares, &s->link);
		if (tf) /* its entries have become the member's */
			forget(q->team, tf);
		share->member = (uint8_t)s->member;
	}
	mutex_unlock(&q->team->lock);
	if (rc)
		mem_free(s);
	return rc;
}

void team_share_leave(struct port_queue *base, const struct flow_key *key,
		      const struct flow_share *share)
{
	struct team_port *team = team_queue_of(base)->team;
	struct flow_key one = plain_key(key);
	struct team_share *s;

	mutex_lock(&team->lock);
	s = find_share(team, &one, share->member);
	if (s) {
		leave_parts(s, team->n);
		list_remove(&s->link);
	}
	mutex_unlock(&team->lock);
	mem_free(s);
}

int team_share_move(struct port_queue *base, const struct flow_key *key,
		    const struct flow_share *share)
{
	struct team_queue *q = team_queue_of(base);
	struct flow_key one = plain_key(key);
	struct team_share *s;
	int rc = -ENOENT;

	mutex_lock(&q->team->lock);
	s = find_share(q->team, &one, share->member);
	for (unsigned i = 0; s && i < q->team->n; i++) {
		struct port_queue *part = q->parts[i];

		rc = part ? part->ops->reuseport_move(part, key, &s->at[i]) : 0;
		if (!rc)
			continue;
		while (i-- > 0) {
			part = s->owner->parts[i];
			if (part)
				part->ops->reuseport_move(part, key, &s->at[i]);
		}
		break;
	}
	if (s && !rc)
		s->owner = q;
	mutex_unlock(&q->team->lock);
	return rc;
}

/*
 * The first port decides, by whichever port the frame came: one sender's frames are for one
 * member.
 */
unsigned team_share_pick(struct port_queue *base, const struct flow_share *share,
			 const struct flow_key *key)
{
	struct team_queue *q = team_queue_of(base);
	struct flow_key wide = flow_key_widen(key);
	unsigned i = 0, picked, member = REUSEPORT_MEMBERS;
	struct team_share *s;

	mutex_lock(&q->team->lock);
	s = find_share(q->team, &wide, share->member);
	while (i < q->team->n && !q->parts[i])
		i++;
	if (s && i < q->team->n) {
		picked = q->parts[i]->ops->reuseport_pick(q->parts[i], &s->at[i], key);
		list_for_each(link, &q->team->shares) {
			s = container_of(link, struct team_share, link);
			if (flow_key_eq(&s->key, &wide) && s->at[i].member == picked)
				member = s->member;
		}
	}
	mutex_unlock(&q->team->lock);
	return member;
}

/* ---- a queue ends ------------------------------------------------------------------ */

void team_forget_flows(struct team_queue *q)
{
	struct flow_table *table = &q->team->flows;

	mutex_lock(&q->team->lock);
	for (unsigned i = 0; table->buckets && i <= table->mask; i++) {
		for (struct flow *f = table->buckets[i], *next; f; f = next) {
			struct team_flow *tf = (struct team_flow *)f;

			next = f->next;
			if (tf->owner == q)
				forget(q->team, tf);
		}
	}
	list_for_each_safe(link, &q->team->shares) {
		struct team_share *s = container_of(link, struct team_share, link);

		if (s->owner == q) {
			list_remove(&s->link);
			mem_free(s);
		}
	}
	mutex_unlock(&q->team->lock);
}
