/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <net/if.h>

#include "doctor.h"
#include "ring/bond/port_bond.h"
#include "ring/mlx5/port_mlx5.h"
#include "ring/xdp/xdp_check.h"

static void check_carrier(const struct patient *patient, const struct xdp_facts *facts)
{
	if (!facts->carrier)
		report_finding(patient->report, FINDING_BLOCKS, facts->name,
			       "look at its cable, or at the other end of a virtual link",
			       "it has no carrier");
}

static void check_queues(const struct patient *patient, const struct xdp_facts *facts)
{
	unsigned want = (unsigned)patient->n_cpus;
	char mend[64];

	if (want > facts->max_queues)
		want = facts->max_queues;
	if (!facts->rx_queues || facts->rx_queues >= want)
		return;
	snprintf(mend, sizeof(mend), "ethtool -L %s %s %u", facts->name,
		 facts->combined ? "combined" : "rx", want);
	report_finding(patient->report, FINDING_SLOW, facts->name, mend,
		       "it uses %u RX queue%s, and %d processors could receive by %u",
		       facts->rx_queues, facts->rx_queues == 1 ? "" : "s", patient->n_cpus, want);
}

/* Is it accelerated as well as it can be?  The library's own line says what would be better. */
static void try(const struct patient *patient, int ifindex, int master, const char *name)
{
	char text[PORT_WHY];
	int rc = xdp_try(ifindex, master, text);

	report_text(patient->report, rc ? FINDING_BLOCKS : FINDING_OK, name, text);
}

/* Is the interface served by the port for cards? */
static bool is_card(const struct patient *patient, int ifindex, bool attach)
{
	char text[PORT_WHY] = "", name[IF_NAMESIZE];
	struct port *port;
	int rc = if_indextoname((unsigned)ifindex, name) ? mlx5_check(name, text) : -ENODEV;

	if (rc == -ENODEV)
		return false;
	if (!rc && attach) {
		rc = port_mlx5_kind.open(ifindex, &port, text);
		if (!rc)
			port->ops->free_port(port);
	}
	if (rc)
		report_text(patient->report, FINDING_SLOW, name, text);
	else
		report_finding(patient->report, FINDING_OK, name, NULL,
			       "a ConnectX card, and its libraries are there%s",
			       attach ? ", it can be opened" : "; with --attach it is opened");
	return !rc;
}

/* An interface that belongs to the master; 0: to none. */
static void check_device(const struct patient *patient, int ifindex, int master, bool attach)
{
	struct xdp_facts facts;
	char why[PORT_WHY];
	int rc = xdp_check(ifindex, master, &facts, why);

	if (rc) {
		report_text(patient->report, FINDING_BLOCKS,
			    facts.name[0] ? facts.name : "interface", why);
		return;
	}
	if (attach)
		try(patient, ifindex, master, facts.name);
	else
		report_finding(patient->report, FINDING_OK, facts.name, NULL,
			       "it can be accelerated; with --attach it is tried");
	check_carrier(patient, &facts);
	check_queues(patient, &facts);
	doctor_placement(patient, facts.name);
}

/* Its slaves decide. */
static bool is_bond(const struct patient *patient, int ifindex, bool attach)
{
	struct bond_facts facts;
	char why[PORT_WHY];
	int rc = port_bond_check(ifindex, &facts, why);

	if (rc && !why[0])
		return false;
	if (rc) {
		report_text(patient->report, FINDING_BLOCKS, facts.name, why);
		return true;
	}
	if (!facts.n)
		report_finding(patient->report, FINDING_BLOCKS, facts.name,
			       "ip link set INTERFACE master BOND", "it is a bond without slaves");
	else
		report_finding(patient->report, FINDING_OK, facts.name, NULL,
			       "a bond in mode %s; it is accelerated if its slaves can be",
			       facts.mode);
	for (unsigned i = 0; i < facts.n; i++)
		check_device(patient, facts.slaves[i], ifindex, attach);
	return true;
}

void doctor_link(const struct patient *patient, int ifindex, bool attach)
{
	if (!is_card(patient, ifindex, attach) && !is_bond(patient, ifindex, attach))
		check_device(patient, ifindex, 0, attach);
}
