/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports that come to a team, and leave it, while it has rings. */
#include <errno.h>
#include <stdio.h>

#include "base/mutex.h"
#include "ring/team/team_internal.h"

#define each_queue(team, pos, q)                                                                \
	list_for_each(pos, &(team)->queues)                                                     \
		for (struct team_queue * (q) = container_of(pos, struct team_queue, link); (q); \
		     (q) = NULL)

/* Holds the ring of the queue.  NULL: another queue has taken its place. */
static struct ring *hold_ring_of(const struct team_queue *q)
{
	struct ring *ring = team_ring_of(q);

	if (!ring || !ring_hold_cold(ring))
		return NULL;
	if (ring_queue(ring) == &q->base)
		return ring;
	ring_release_cold(ring);
	return NULL;
}

static bool is_leaving(const struct team_port *team, unsigned slot)
{
	return team->leaving >> slot & 1;
}

/* Whose rings have been told of the team's abilities. */
static bool can_less(const struct port *port, const struct port *team)
{
	const struct port_abilities *can = &port->can, *wanted = &team->can;

	return can->partial_csum != wanted->partial_csum || can->tx_csum < wanted->tx_csum ||
	       can->timestamps < wanted->timestamps || can->must_arm > wanted->must_arm ||
	       can->shared_steering < wanted->shared_steering ||
	       can->frame_max < wanted->frame_max || port->mtu < team->mtu;
}

static unsigned free_slot(const struct team_port *team)
{
	unsigned slot = 0;

	while (slot < TEAM_PORTS_MAX && team->ports[slot])
		slot++;
	return slot;
}

/* A queue of the port for the ring; that of before, if it has not been closed. */
static int open_part(struct team_queue *q, unsigned slot, char why[PORT_WHY])
{
	struct port *port = q->team->ports[slot];
	struct port_queue *part, *fresh = NULL;
	struct ring *ring;
	int rc = q->lost[slot] ? 0 : port->ops->open_queue(port, &fresh, why);

	if (rc)
		return rc;
	ring = hold_ring_of(q);
	if (!ring) { /* the queue only waits for its packets */
		if (fresh)
			fresh->ops->close_queue(fresh);
		return 0;
	}
	part = fresh ? fresh : q->lost[slot];
	part->owner = q->base.owner;
	part->give_back = q->base.give_back;
	rc = team_steer_part(q, part);
	if (rc)
		snprintf(why, PORT_WHY, "%s does not take all flows (%s).\n", port->name,
			 strerrordesc_np(-rc));
	q->lost[slot] = NULL;
	team_attach_part(q, slot, part);
	/* Who sleeps has not armed it. */
	ring_fds_changed(ring);
	ring_release_cold(ring);
	return rc;
}

static int open_slot(struct port *base, unsigned slot, char why[PORT_WHY])
{
	struct team_port *team = team_of(base);
	int rc = 0;

	each_queue(team, pos, q)
		rc = rc ? rc : open_part(q, slot, why);
	if (!rc) {
		rc = team_join_slot(team, slot);
		if (rc)
			snprintf(why, PORT_WHY, "%s does not take all shared flows (%s).\n",
				 team->ports[slot]->name, strerrordesc_np(-rc));
	}
	if (!rc)
		return (int)slot;
	port_team_remove(base, slot);
	return rc;
}

int port_team_add(struct port *base, struct port *port, char why[PORT_WHY])
{
	struct team_port *team = team_of(base);
	unsigned slot = free_slot(team);

	if (slot == TEAM_PORTS_MAX || can_less(port, base)) {
		if (slot == TEAM_PORTS_MAX)
			snprintf(why, PORT_WHY, "More than %d ports are not supported.\n",
				 TEAM_PORTS_MAX);
		else
			snprintf(why, PORT_WHY, "%s can do less than the others.\n", port->name);
		port->ops->free_port(port);
		return slot == TEAM_PORTS_MAX ? -ENOSPC : -EOPNOTSUPP;
	}
	mutex_lock(&team->lock);
	team->ports[slot] = port;
	mutex_unlock(&team->lock);
	return open_slot(base, slot, why);
}

int port_team_restore(struct port *base, unsigned slot, char why[PORT_WHY])
{
	struct team_port *team = team_of(base);

	mutex_lock(&team->lock);
	team->leaving &= ~(1u << slot);
	mutex_unlock(&team->lock);
	return open_slot(base, slot, why);
}

bool port_team_is_leaving(struct port *team, unsigned slot)
{
	return is_leaving(team_of(team), slot);
}

void port_team_remove(struct port *base, unsigned slot)
{
	struct team_port *team = team_of(base);

	if (!team->ports[slot] || is_leaving(team, slot))
		return;
	mutex_lock(&team->lock);
	team->leaving |= 1u << slot;
	mutex_unlock(&team->lock);
	each_queue(team, pos, q) {
		struct ring *ring = hold_ring_of(q);

		if (!ring)
			continue;
		if (q->parts[slot]) {
			ring_drain(ring);
			/* Again: draining may have found that its port is lost. */
			if (q->parts[slot]) {
				team_unsteer_part(q, slot);
				team_detach_part(q, slot);
			}
		}
		ring_release_cold(ring);
	}
}

/* Closes a queue that was removed, without holding its ring: that takes some 10 ms.  False: later. */
static bool close_removed(struct team_queue *q, unsigned slot)
{
	struct ring *ring = hold_ring_of(q);
	struct port_queue *part = q->lost[slot];
	bool idle;

	/* If another queue has taken its place, all of this one is closed with its last packet. */
	if (!ring)
		return !part && !q->parts[slot];
	idle = part && part->ops->idle(part);
	if (idle) {
		q->lost[slot] = NULL;
		part->owner = NULL;
	}
	ring_release_cold(ring);
	if (idle)
		part->ops->close_queue(part);
	return idle || !part;
}

bool port_team_reap(struct port *base)
{
	struct team_port *team = team_of(base);
	bool more = false;

	for (unsigned slot = 0; slot < TEAM_PORTS_MAX; slot++) {
		struct port *port = team->ports[slot];
		bool closed = true;

		if (!is_leaving(team, slot))
			continue;
		each_queue(team, pos, q)
			closed &= close_removed(q, slot);
		more |= !closed;
		if (!closed)
			continue;
		mutex_lock(&team->lock);
		team->leaving &= ~(1u << slot);
		team->ports[slot] = NULL;
		mutex_unlock(&team->lock);
		port->ops->free_port(port);
	}
	return more;
}
