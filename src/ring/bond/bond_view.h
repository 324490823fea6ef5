/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A bond as the kernel describes it: its slaves, by which of them frames leave, and from which of
 * them the kernel takes frames.
 *
 * Role		pure; one thread.
 */
#ifndef RING_BOND_BOND_VIEW_H
#define RING_BOND_BOND_VIEW_H

#include "net/netlink/netlink.h"
#include "ring/team/port_team.h"

#define BOND_SLAVES_MAX TEAM_PORTS_MAX

struct bond_slave {
	int ifindex;
	char name[16];
	bool ready; /* administratively up: a port can be opened */
	struct link_slave state;
};

struct bond_view {
	int ifindex;
	struct link bond; /* bond.ifindex is 0: there is no such interface */
	unsigned n;	  /* of slaves; more than BOND_SLAVES_MAX: not all are listed */
	char sharer[16];  /* a device on top of the bond that takes some of its frames, or "" */
	struct bond_slave slaves[BOND_SLAVES_MAX]; /* by number */
};

/* Begin with the interface's number, and add all links in any order: a function of link_each(). */
void bond_view_begin(struct bond_view *view, int ifindex);
void bond_view_add(const struct link *link, void *view);

/*
 * Can such a bond be served?  0; -PORT_UNTRIED and an empty why: it is no bond; or -PORT_UNTRIED
 * and why, one line.
 */
int bond_view_decide(const struct bond_view *view, char why[PORT_WHY]);

/* Does the kernel send by the slave; and does it take what arrives there? */
bool bond_view_sends(const struct bond_view *view, const struct bond_slave *slave);
bool bond_view_hears(const struct bond_view *view, const struct bond_slave *slave);

/* As the kernel names it. */
const char *bond_mode_name(unsigned mode);

#endif
