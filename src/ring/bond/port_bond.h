/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port for bonds: a team (ring/team) of the xdp ports of the slaves.
 *
 *	mode		frames leave by			frames are taken from
 *	active-backup	the active slave		the active slave
 *	802.3ad		one of the slaves in state	the slaves in state
 *			"active", by xmit_hash_policy	"active"
 *
 * All of the protocol is the kernel's: it watches the slaves, speaks LACP, decides, and tells by
 * netlink.  What the slaves get that belongs to no flow is the kernel's, too.  Slaves that come and
 * go are followed.  When one of them cannot be served, the bond is lost (see struct port), and its
 * sockets go to the kernel.
 *
 * In 802.3ad the kernel counts slaves in the order in which they came; this port counts them in the
 * order of their numbers.
 */
#ifndef RING_BOND_PORT_BOND_H
#define RING_BOND_PORT_BOND_H

#include "ring/ports.h"
#include "ring/team/port_team.h"

/* -PORT_UNTRIED with an empty why: it is no bond. */
int port_bond_open(int ifindex, struct port **port, char why[PORT_WHY]);

/*
 * For tools: would such a bond be served, if all of its slaves are?  facts are filled in.  Errors
 * as of port_bond_open().
 */
struct bond_facts {
	char name[16];
	const char *mode;
	unsigned n;
	int slaves[TEAM_PORTS_MAX];
};
int port_bond_check(int ifindex, struct bond_facts *facts, char why[PORT_WHY]);

/* Stands behind port_xdp_kind, which refuses bonds without a reason. */
extern const struct port_kind port_bond_kind;

#endif
