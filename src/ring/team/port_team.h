/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A team: several ports that rings see as one (the slaves of a bond; a card and shared memory).
 * A ring of a team has one queue on each of them.  Each port has a slot of the team.
 *
 *  - Frames arrive at all ports that the team hears; those of one port stay in order.  What
 *    arrives at another one is dropped.
 *  - A frame leaves by one of the senders: a hash of the frame chooses it.  Without rules, all
 *    packets to one destination address leave by one port.
 *  - A flow is steered at each port.
 *  - When a port is lost, its queues leave the rings, and the others go on.  The team is lost
 *    when all its ports are, or one of them, as its rules say.
 *  - Ports come and go while the team has rings (port_team_add(), port_team_remove()).
 *
 * Role		as of struct port_ops, unless a function says otherwise.
 * Lifetime	the team owns its ports from port_team_open() or port_team_add() on.
 * Ordering	a mutex inside guards which queue has which flow.  It is held during the
 *		operations of the ports that steer.
 */
#ifndef RING_TEAM_PORT_TEAM_H
#define RING_TEAM_PORT_TEAM_H

#include "ring/port.h"

#define TEAM_PORTS_MAX 8

/* By which ports frames leave, and from which ones they are taken. */
struct team_view {
	unsigned n;			/* of senders; 0: what is sent is dropped */
	uint8_t sender[TEAM_PORTS_MAX]; /* slots, in the order that the hash counts */
	uint32_t hears;			/* bit i: slot i */
};

/* What the opener of a team decides.  Constant; any may be NULL. */
struct team_rules {
	/* holder: sender number `result % n` sends the frame, which has its IP header. */
	uint32_t (*hash)(const uint8_t *frame, const void *arg);
	/* Once per service(): see struct port_ops. */
	void (*look)(struct port *team);
	/* As port_ops.follow. */
	void (*follow)(struct port *team);
	/* The team is about to be freed: frees arg. */
	void (*forget)(void *arg);
	bool fragile; /* the team is lost as soon as one port is */
};

/*
 * Name, interface and link address are those of the first port; an opener may change them
 * afterwards.  The MTU is that of the port with the lowest one.  Port i gets slot i, and all of
 * them send and are heard.  -errno and why: the ports stay the caller's.  -EOPNOTSUPP: they accept
 * different checksums, or there are too many.
 */
int port_team_open(struct port *const ports[], unsigned n, struct port **team, char why[PORT_WHY]);

/* Before the team has a queue. */
void port_team_set_rules(struct port *team, const struct team_rules *rules, void *arg);
void *port_team_arg(struct port *team);

/* The internal thread, or before the team has a queue. */
void port_team_set_view(struct port *team, const struct team_view *view);

/* The internal thread, or with the control lock: the port of a slot, NULL if it is free. */
struct port *port_team_at(struct port *team, unsigned slot);

/* Is the port of the slot about to be freed? */
bool port_team_is_leaving(struct port *team, unsigned slot);

/*
 * The internal thread with the control lock, holding no ring.
 *
 * add: opens a queue of the port for each ring of the team, and steers all flows there.  Returns the
 * slot.  -ENOSPC: there are TEAM_PORTS_MAX ports; -EOPNOTSUPP: it can do less than the team; or
 * another error, and why.  The port is the team's also if it failed.
 * remove: delivers what has arrived, and takes the port's queues out of the rings.  The slot is
 * free, and the port freed, when all packets were given back: see reap.
 * restore: the port of a slot that port_team_is_leaving() stays; errors as of add.
 * reap: frees ports that were removed.  True: others still wait for packets.
 */
int port_team_add(struct port *team, struct port *port, char why[PORT_WHY]);
void port_team_remove(struct port *team, unsigned slot);
int port_team_restore(struct port *team, unsigned slot, char why[PORT_WHY]);
bool port_team_reap(struct port *team);

#endif
