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
	bool kernel_done; /* see struct port_ops */
};

/* A member of a shared flow: one for each port. */
struct team_share {
	struct list link; /* of team->shares: the oldest is first */
	struct flow_key key;
	struct team_queue *owner;
	unsigned member; /* the team's number, unique for the key */
	bool kernel_done;
	struct flow_share wanted; /* as it joined */
	uint32_t joined;	  /* bit i: it is a member at port i */
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
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
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
			del_from(q, key, TEAM_PORTS_MAX);
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
		del_from(q, key, TEAM_PORTS_MAX);
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
	for (unsigned i = 0; old && i < TEAM_PORTS_MAX; i++) {
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

bool team_part_flow(struct port_queue *base, const struct flow_key *key, bool over)
{
	struct team_queue *q = team_queue_of(base);
	bool parted = true;

	mutex_lock(&q->team->lock);
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++)
		if (q->parts[i])
			parted &= q->parts[i]->ops->part_flow(q->parts[i], key, over);
	mutex_unlock(&q->team->lock);
	return parted;
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
			del_from(q, key, TEAM_PORTS_MAX);
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

/* lock: removes the member from a port. */
static void leave_part(struct team_share *s, unsigned i)
{
	struct port_queue *part = s->owner->parts[i];

	if (part && s->joined >> i & 1)
		part->ops->reuseport_leave(part, &s->key, &s->at[i]);
	s->joined &= ~(1u << i);
}

static void leave_parts(struct team_share *s)
{
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++)
		leave_part(s, i);
}

/* lock: with the part of q, which is the owner or about to be it. */
static int join_part(struct team_share *s, struct team_queue *q, unsigned i)
{
	struct port_queue *part = q->parts[i];
	int rc;

	s->at[i] = s->wanted;
	if (!part)
		return 0;
	rc = part->ops->reuseport_join(part, &s->key, &s->at[i]);
	if (rc)
		return rc;
	s->joined |= 1u << i;
	if (s->kernel_done)
		part->ops->kernel_done(part, &s->key);
	return 0;
}

/* lock: at every port, or at none and -errno. */
static int join_parts(struct team_share *s)
{
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
		int rc = join_part(s, s->owner, i);

		if (rc) {
			leave_parts(s);
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
	s->wanted = *share;
	mutex_lock(&q->team->lock);
	tf = find_flow(q->team, &s->key);
	rc = tf && tf->owner != q ? -EEXIST : join_parts(s);
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
		leave_parts(s);
		list_remove(&s->link);
	}
	mutex_unlock(&team->lock);
	mem_free(s);
}

/* lock: at one port; one that came late may not have the member. */
static int move_share(struct team_share *s, struct team_queue *to, unsigned i)
{
	struct port_queue *part = to->parts[i];

	if (!part)
		return 0;
	return s->joined >> i & 1 ? part->ops->reuseport_move(part, &s->key, &s->at[i])
				  : join_part(s, to, i);
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
	for (unsigned i = 0; s && i < TEAM_PORTS_MAX; i++) {
		rc = move_share(s, q, i);
		if (!rc)
			continue;
		while (i-- > 0)
			move_share(s, s->owner, i);
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
	while (i < TEAM_PORTS_MAX && !(q->parts[i] && s && s->joined >> i & 1))
		i++;
	if (s && i < TEAM_PORTS_MAX) {
		picked = q->parts[i]->ops->reuseport_pick(q->parts[i], &s->at[i], key);
		list_for_each(link, &q->team->shares) {
			s = container_of(link, struct team_share, link);
			if (flow_key_eq(&s->key, &wide) && s->joined >> i & 1 &&
			    s->at[i].member == picked)
				member = s->member;
		}
	}
	mutex_unlock(&q->team->lock);
	return member;
}

/* ---- parts that come and go -------------------------------------------------------------- */

void team_kernel_done(struct port_queue *base, const struct flow_key *key)
{
	struct team_queue *q = team_queue_of(base);
	struct flow_key one = plain_key(key);
	struct team_flow *tf;

	mutex_lock(&q->team->lock);
	tf = find_flow(q->team, &one);
	if (tf)
		tf->kernel_done = true;
	list_for_each(link, &q->team->shares) {
		struct team_share *s = container_of(link, struct team_share, link);

		if (flow_key_eq(&s->key, &one))
			s->kernel_done = true;
	}
	for (unsigned i = 0; i < TEAM_PORTS_MAX; i++) {
		if (q->parts[i])
			q->parts[i]->ops->kernel_done(q->parts[i], key);
	}
	mutex_unlock(&q->team->lock);
}

/* Calls fn for each flow of the queue, until it fails.  lock; fn may free the flow. */
static int each_flow(struct team_queue *q,
		     int (*fn)(struct team_queue *q, struct team_flow *tf, void *arg), void *arg)
{
	const struct flow_table *table = &q->team->flows;
	int rc = 0;

	for (unsigned i = 0; table->buckets && i <= table->mask; i++) {
		for (struct flow *f = table->buckets[i], *next; f && !rc; f = next) {
			struct team_flow *tf = (struct team_flow *)f;

			next = f->next;
			if (tf->owner == q)
				rc = fn(q, tf, arg);
		}
	}
	return rc;
}

static int add_late(struct team_queue *q, struct team_flow *tf, void *arg)
{
	struct port_queue *part = arg;
	int rc = add_part(part, &tf->flow.key);

	(void)q;
	/* It moved here while the queue lacked this part, and the old queue had one. */
	if (rc == -EEXIST)
		rc = part->ops->move_flow(part, &tf->flow.key);
	if (!rc && tf->kernel_done)
		part->ops->kernel_done(part, &tf->flow.key);
	return rc;
}

int team_steer_part(struct team_queue *q, struct port_queue *part)
{
	int rc;

	mutex_lock(&q->team->lock);
	rc = each_flow(q, add_late, part);
	mutex_unlock(&q->team->lock);
	return rc;
}

static int del_early(struct team_queue *q, struct team_flow *tf, void *arg)
{
	struct port_queue *part = arg;

	(void)q;
	part->ops->del_flow(part, &tf->flow.key);
	return 0;
}

void team_unsteer_part(struct team_queue *q, unsigned slot)
{
	mutex_lock(&q->team->lock);
	each_flow(q, del_early, q->parts[slot]);
	list_for_each(link, &q->team->shares) {
		struct team_share *s = container_of(link, struct team_share, link);

		if (s->owner == q)
			leave_part(s, slot);
	}
	mutex_unlock(&q->team->lock);
}

/* lock: the oldest member that has not joined at the port, and whose queue has a part there. */
static struct team_share *next_to_join(struct team_port *team, unsigned slot)
{
	list_for_each(link, &team->shares) {
		struct team_share *s = container_of(link, struct team_share, link);

		if (s->owner->parts[slot] && !(s->joined >> slot & 1))
			return s;
	}
	return NULL;
}

int team_join_slot(struct team_port *team, unsigned slot)
{
	struct team_share *s;
	int rc = 0;

	do {
		struct ring *ring;

		mutex_lock(&team->lock);
		s = next_to_join(team, slot);
		ring = s ? team_ring_of(s->owner) : NULL;
		mutex_unlock(&team->lock);
		if (!s)
			break;
		/* A ring is held before the lock: what was found may have changed until then. */
		if (!ring_hold_cold(ring))
			return -EAGAIN;
		mutex_lock(&team->lock);
		s = next_to_join(team, slot);
		if (s && team_ring_of(s->owner) == ring)
			rc = join_part(s, s->owner, slot);
		mutex_unlock(&team->lock);
		ring_release_cold(ring);
	} while (!rc);
	return rc;
}

/* ---- a queue ends ------------------------------------------------------------------ */

static int forget_one(struct team_queue *q, struct team_flow *tf, void *arg)
{
	(void)arg;
	forget(q->team, tf);
	return 0;
}

void team_forget_flows(struct team_queue *q)
{
	mutex_lock(&q->team->lock);
	each_flow(q, forget_one, NULL);
	list_for_each_safe(link, &q->team->shares) {
		struct team_share *s = container_of(link, struct team_share, link);

		if (s->owner == q) {
			list_remove(&s->link);
			mem_free(s);
		}
	}
	mutex_unlock(&q->team->lock);
}
