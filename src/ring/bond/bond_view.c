/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/bond/bond_view.h"

#include <linux/if_bonding.h>
#include <stdio.h>
#include <string.h>

#include "ring/xdp/port_xdp.h"

static const char *const modes[] = {
	"balance-rr", "active-backup", "balance-xor", "broadcast",
	"802.3ad",    "balance-tlb",   "balance-alb",
};

const char *bond_mode_name(unsigned mode)
{
	return mode < sizeof(modes) / sizeof(*modes) ? modes[mode] : "unknown";
}

void bond_view_begin(struct bond_view *view, int ifindex)
{
	memset(view, 0, sizeof(*view));
	view->ifindex = ifindex;
}

/* In the order of their numbers, so that all processes open them in the same order. */
static void add_slave(struct bond_view *view, const struct link *link)
{
	struct bond_slave slave = {
		.ifindex = link->ifindex, .ready = link->up, .state = link->slave};
	unsigned at = view->n++;

	if (at >= BOND_SLAVES_MAX)
		return;
	memcpy(slave.name, link->name, sizeof(slave.name));
	for (; at && view->slaves[at - 1].ifindex > slave.ifindex; at--)
		view->slaves[at] = view->slaves[at - 1];
	view->slaves[at] = slave;
}

void bond_view_add(const struct link *link, void *arg)
{
	struct bond_view *view = arg;

	if (link->ifindex == view->ifindex)
		view->bond = *link;
	else if (link->master == view->ifindex && link->slave.of_bond)
		add_slave(view, link);
	else if (link->lower == view->ifindex && !link->lower_elsewhere &&
		 port_xdp_is_sharing(link->kind))
		memcpy(view->sharer, link->name, sizeof(view->sharer));
}

static int refuse(const struct bond_view *view, char why[PORT_WHY], const char *reason)
{
	snprintf(why, PORT_WHY, "%s (kind bond) is left to the kernel: %s\n", view->bond.name,
		 reason);
	return -PORT_UNTRIED;
}

static int refuse_mode(const struct bond_view *view, char why[PORT_WHY])
{
	char reason[160];

	snprintf(reason, sizeof(reason),
		 "its mode is %s; active-backup and 802.3ad are accelerated",
		 bond_mode_name(view->bond.bond.mode));
	return refuse(view, why, reason);
}

static int refuse_sharer(const struct bond_view *view, char why[PORT_WHY])
{
	char reason[160];

	snprintf(reason, sizeof(reason), "%s shares it; remove that, or use another interface",
		 view->sharer);
	return refuse(view, why, reason);
}

int bond_view_decide(const struct bond_view *view, char why[PORT_WHY])
{
	const struct link_bond *bond = &view->bond.bond;

	why[0] = '\0';
	if (strcmp(view->bond.kind, "bond") != 0)
		return -PORT_UNTRIED;
	if (bond->mode != BOND_MODE_ACTIVEBACKUP && bond->mode != BOND_MODE_8023AD)
		return refuse_mode(view, why);
	if (bond->mode == BOND_MODE_ACTIVEBACKUP && bond->fail_over_mac)
		return refuse(view, why,
			      "its link address changes with the slave (fail_over_mac); "
			      "fail_over_mac none is accelerated");
	if (bond->uncoupled)
		return refuse(view, why,
			      "slaves receive before they send (coupled_control off); "
			      "coupled_control on is accelerated");
	if (view->bond.master)
		return refuse(view, why,
			      "it belongs to another device; take it out, or use another "
			      "interface");
	if (view->sharer[0])
		return refuse_sharer(view, why);
	if (view->n > BOND_SLAVES_MAX)
		return refuse(view, why, "it has more than 8 slaves");
	return 0;
}
_Static_assert(BOND_SLAVES_MAX == 8, "the text above says so");

bool bond_view_sends(const struct bond_view *view, const struct bond_slave *slave)
{
	if (view->bond.bond.mode == BOND_MODE_ACTIVEBACKUP)
		return slave->ifindex == view->bond.bond.active;
	return slave->state.active && slave->state.up;
}

bool bond_view_hears(const struct bond_view *view, const struct bond_slave *slave)
{
	if (view->bond.bond.all_slaves_active)
		return true;
	if (view->bond.bond.mode == BOND_MODE_ACTIVEBACKUP)
		return slave->ifindex == view->bond.bond.active;
	return slave->state.active;
}
