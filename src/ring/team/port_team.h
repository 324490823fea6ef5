/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A team: several ports that rings see as one (the slaves of a bond; a card and shared memory).
 * A ring of a team has one queue on each of them.
 *
 *  - Frames arrive at all ports; those of one port stay in order.
 *  - All packets to one destination address leave by one port.
 *  - A flow is steered at each port.
 *  - When a port is lost, its queues leave the rings, and the others go on.  The team is lost
 *    when all its ports are.
 *
 * Role		as of struct port_ops.
 * Lifetime	the team owns its ports from port_team_open() on.
 * Ordering	a mutex inside guards which queue has which flow.  It is held during the
 *		operations of the ports that steer.
 */
#ifndef RING_TEAM_PORT_TEAM_H
#define RING_TEAM_PORT_TEAM_H

#include "ring/port.h"

#define TEAM_PORTS_MAX 4

/*
 * Name, interface and link address are those of the first port; an opener may change them
 * afterwards.  The MTU is that of the port with the lowest one.  -errno and why: the ports stay
 * the caller's.  -EOPNOTSUPP: they accept different checksums, or there are too many.
 */
int port_team_open(struct port *const ports[], unsigned n, struct port **team, char why[PORT_WHY]);

#endif
