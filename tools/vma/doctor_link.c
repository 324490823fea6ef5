/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <net/if.h>

#include "doctor.h"
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
static void try(const struct patient *patient, int ifindex, const char *name)
{
	char text[PORT_WHY];
	int rc = xdp_try(ifindex, text);

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

void doctor_link(const struct patient *patient, int ifindex, bool attach)
{
	struct xdp_facts facts;
	char why[PORT_WHY];
	int rc;

	if (is_card(patient, ifindex, attach))
		return;
	rc = xdp_check(ifindex, &facts, why);
	if (rc) {
		report_text(patient->report, FINDING_BLOCKS,
			    facts.name[0] ? facts.name : "interface", why);
		return;
	}
	if (attach)
		try(patient, ifindex, facts.name);
	else
		report_finding(patient->report, FINDING_OK, facts.name, NULL,
			       "it can be accelerated; with --attach it is tried");
	check_carrier(patient, &facts);
	check_queues(patient, &facts);
	doctor_placement(patient, facts.name);
}
