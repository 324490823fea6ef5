/* SPDX-License-Identifier: BSD-2-Clause */
#include "ring/bond/port_bond.h"

#include <linux/if_bonding.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "ring/bond/bond_hash.h"
#include "ring/bond/bond_view.h"
#include "ring/xdp/port_xdp.h"

struct bond {
	/* internal thread */
	uint32_t generation; /* of netlink, when look() looked last */
	/* atomic: the internal thread writes, holders read */
	unsigned policy; /* BOND_XMIT_POLICY_* */
};

/* ---- what the kernel says (internal thread, or while it is opened) ------------------------ */

static unsigned slot_of(struct port *team, int ifindex)
{
	unsigned slot = 0;

	while (slot < TEAM_PORTS_MAX &&
	       (!port_team_at(team, slot) || port_team_at(team, slot)->ifindex != ifindex))
		slot++;
	return slot;
}

static void apply(struct port *team, const struct bond_view *view)
{
	struct bond *bond = port_team_arg(team);
	struct team_view to = {.n = 0};

	for (unsigned i = 0; i < view->n; i++) {
		const struct bond_slave *slave = &view->slaves[i];
		unsigned slot = slot_of(team, slave->ifindex);

		if (slot == TEAM_PORTS_MAX)
			continue;
		if (bond_view_sends(view, slave))
			to.sender[to.n++] = (uint8_t)slot;
		if (bond_view_hears(view, slave))
			to.hears |= 1u << slot;
	}
	__atomic_store_n(&bond->policy, view->bond.bond.hash, __ATOMIC_RELAXED);
	port_team_set_view(team, &to);
}

static uint32_t hash(const uint8_t *frame, const void *arg)
{
	const struct bond *bond = arg;

	return bond_hash(frame, __atomic_load_n(&bond->policy, __ATOMIC_RELAXED));
}

/* Its rings are retired, and its sockets look for another way. */
static void lose(struct port *team, const char *why)
{
	log_warn("%s: its sockets leave it: %.*s", team->name, (int)strcspn(why, "\n"), why);
	/* release: pairs with rings_gone(), which the same thread calls later */
	__atomic_store_n(&team->lost, true, __ATOMIC_RELEASE);
}

/*
 * What the tables of netlink say; now: what the kernel says, which does not report that a slave's
 * state has changed and changed back between two of its messages.  False: the bond is gone, or
 * cannot be served any more.
 */
static bool see(struct port *team, struct bond_view *view, bool now)
{
	char why[PORT_WHY];

	bond_view_begin(view, team->ifindex);
	if (!now || link_each_now(bond_view_add, view)) {
		bond_view_begin(view, team->ifindex);
		link_each(bond_view_add, view);
	}
	if (!view->bond.ifindex || port_is_lost(team))
		return false;
	if (!bond_view_decide(view, why))
		return true;
	lose(team, why);
	return false;
}

static void look(struct port *team)
{
	struct bond *bond = port_team_arg(team);
	uint32_t latest = netlink_generation();
	struct bond_view view;

	if (bond->generation == latest)
		return;
	bond->generation = latest;
	if (!see(team, &view, false))
		return;
	if (view.bond.bond.mode != BOND_MODE_8023AD || see(team, &view, true))
		apply(team, &view);
}

/* ---- slaves that come and go (internal thread with the control lock) ------------------------ */

static bool has_slave(const struct bond_view *view, int ifindex)
{
	for (unsigned i = 0; i < view->n; i++) {
		if (view->slaves[i].ifindex == ifindex)
			return true;
	}
	return false;
}

static void remove_others(struct port *team, const struct bond_view *view)
{
	for (unsigned slot = 0; slot < TEAM_PORTS_MAX; slot++) {
		const struct port *port = port_team_at(team, slot);

		if (!port || port_team_is_leaving(team, slot) || has_slave(view, port->ifindex))
			continue;
		log_info("%s: %s has left it", team->name, port->name);
		port_team_remove(team, slot);
	}
}

/* 0 or -errno and why. */
static int add_slave(struct port *team, const struct bond_slave *slave, char why[PORT_WHY])
{
	unsigned slot = slot_of(team, slave->ifindex);
	struct port *port;
	int rc;

	if (slot < TEAM_PORTS_MAX) {
		rc = port_team_restore(team, slot, why);
	} else {
		rc = port_xdp_open_slave(slave->ifindex, team->ifindex, &port, why);
		if (!rc)
			rc = port_team_add(team, port, why);
	}
	if (rc < 0)
		return rc;
	log_info("%s: %s has come to it", team->name, slave->name);
	return 0;
}

static void follow(struct port *team)
{
	struct bond_view view;
	char why[PORT_WHY];

	if (!see(team, &view, true))
		return;
	remove_others(team, &view);
	for (unsigned i = 0; i < view.n; i++) {
		unsigned slot = slot_of(team, view.slaves[i].ifindex);

		if (!view.slaves[i].ready ||
		    (slot < TEAM_PORTS_MAX && !port_team_is_leaving(team, slot)))
			continue;
		if (add_slave(team, &view.slaves[i], why)) {
			lose(team, why);
			return;
		}
	}
	apply(team, &view);
	port_team_reap(team);
}

static void forget(void *arg)
{
	mem_free(arg);
}

static const struct team_rules rules = {
	.hash = hash,
	.look = look,
	.follow = follow,
	.forget = forget,
	.fragile = true,
};

/* ---- opening ------------------------------------------------------------------------------ */

static int open_slaves(const struct bond_view *view, struct port *ports[], unsigned *n,
		       char why[PORT_WHY])
{
	char reason[PORT_WHY];
	int rc = 0;

	*n = 0;
	for (unsigned i = 0; i < view->n && !rc; i++) {
		const struct bond_slave *slave = &view->slaves[i];

		if (!slave->ready)
			continue;
		rc = port_xdp_open_slave(slave->ifindex, view->ifindex, &ports[*n], reason);
		if (!rc)
			++*n;
		else
			snprintf(
				why, PORT_WHY,
				"%s (kind bond) is left to the kernel because of its slave: %.900s",
				view->bond.name, reason);
	}
	if (rc || *n)
		return rc;
	snprintf(why, PORT_WHY, "%s (kind bond) is left to the kernel: no slave of it is up\n",
		 view->bond.name);
	return -ENETDOWN;
}

static void tell(const struct port *team, const struct bond_view *view)
{
	char names[BOND_SLAVES_MAX * 18] = "";
	size_t len = 0;

	for (unsigned i = 0; i < view->n; i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i ? ", " : "",
					view->slaves[i].name);
	log_info("%s: bond in mode %s of %s", team->name, bond_mode_name(view->bond.bond.mode),
		 names);
}

static int make_team(const struct bond_view *view, struct port *const ports[], unsigned n,
		     struct port **out, char why[PORT_WHY])
{
	struct bond *bond = mem_zalloc(sizeof(*bond));
	struct port *team;
	int rc = -ENOMEM;

	snprintf(why, PORT_WHY, "%s is not accelerated: out of memory.\n", view->bond.name);
	if (bond)
		rc = port_team_open(ports, n, &team, why);
	if (rc) {
		mem_free(bond);
		return rc;
	}
	team->ifindex = view->ifindex;
	memcpy(team->name, view->bond.name, sizeof(team->name));
	memcpy(team->mac, view->bond.mac, sizeof(team->mac));
	port_team_set_rules(team, &rules, bond);
	apply(team, view);
	tell(team, view);
	*out = team;
	return 0;
}

/* What the kernel says now; 0 if such a bond is served. */
static int ask(int ifindex, struct bond_view *view, char why[PORT_WHY])
{
	bond_view_begin(view, ifindex);
	if (!link_each_now(bond_view_add, view))
		return bond_view_decide(view, why);
	why[0] = '\0'; /* the xdp port cannot ask either, and says so */
	return -PORT_UNTRIED;
}

int port_bond_check(int ifindex, struct bond_facts *facts, char why[PORT_WHY])
{
	struct bond_view view;
	int rc = ask(ifindex, &view, why);

	memcpy(facts->name, view.bond.name, sizeof(facts->name));
	facts->mode = bond_mode_name(view.bond.bond.mode);
	facts->n = view.n < BOND_SLAVES_MAX ? view.n : BOND_SLAVES_MAX;
	for (unsigned i = 0; i < facts->n; i++)
		facts->slaves[i] = view.slaves[i].ifindex;
	return rc;
}

int port_bond_open(int ifindex, struct port **out, char why[PORT_WHY])
{
	struct port *ports[BOND_SLAVES_MAX];
	struct bond_view view;
	unsigned n;
	int rc = ask(ifindex, &view, why);

	if (rc)
		return rc;
	rc = open_slaves(&view, ports, &n, why);
	if (!rc)
		rc = make_team(&view, ports, n, out, why);
	for (unsigned i = 0; rc && i < n; i++)
		ports[i]->ops->free_port(ports[i]);
	return rc;
}

/* Without a reason: the xdp port has one for what belongs to another device. */
static bool bond_takes(const struct link *link, char why[PORT_WHY])
{
	(void)why;
	return !strcmp(link->kind, "bond") && !link->master;
}

const struct port_kind port_bond_kind = {
	.name = "bond",
	.takes = bond_takes,
	.open = port_bond_open,
	/* The xdp kind does for its ports what is to be done. */
	.thread_begins = port_kind_ignores,
	.thread_ends = port_kind_ignores,
	.forget = port_kind_ignores,
};
