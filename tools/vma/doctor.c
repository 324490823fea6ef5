/* SPDX-License-Identifier: BSD-2-Clause */
/* vma doctor: is this machine set up right? */
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "doctor.h"
#include "net/netlink/netlink.h"
#include "vma.h"

const char doctor_help[] =
	"usage: vma doctor [--attach] [--brief] [INTERFACE...]\n"
	"Examines this machine: is everything there for acceleration, and is it fast?\n"
	"Without INTERFACE: all Ethernet interfaces that are up and have an IPv4 address.\n"
	"  --attach  attach to the interfaces for a moment, as a program would, and say how\n"
	"            they are accelerated; this resets the link of many cards for seconds\n"
	"  --brief   only what is to be mended\n"
	"Exit status: 0 all is right, 1 something costs speed, 2 something blocks\n"
	"acceleration, 3 wrong usage.\n";

#define LINKS_MAX 256

struct links {
	int ifindex[LINKS_MAX];
	unsigned n;
};

/* link_each() has a lock, so the links are examined afterwards. */
static void collect(const struct link *link, void *arg)
{
	struct links *links = arg;

	if (link->up && !link->loopback && link->ethernet && links->n < LINKS_MAX)
		links->ifindex[links->n++] = link->ifindex;
}

static void examine_all(const struct patient *patient, bool attach)
{
	struct links links = {.n = 0};
	struct inaddr addr;
	unsigned n = 0;

	link_each(collect, &links);
	for (unsigned i = 0; i < links.n; i++)
		if (link_addrs(links.ifindex[i], &addr, 1) > 0) {
			doctor_link(patient, links.ifindex[i], attach);
			n++;
		}
	if (!n)
		report_finding(patient->report, FINDING_BLOCKS, "interfaces",
			       "ip link set IF up; ip address add ADDRESS/PREFIX dev IF",
			       "no Ethernet interface is up and has an IPv4 address");
}

static void examine_named(const struct patient *patient, char *const *names, bool attach)
{
	for (; *names; names++) {
		unsigned ifindex = if_nametoindex(*names);

		if (ifindex)
			doctor_link(patient, (int)ifindex, attach);
		else
			report_finding(patient->report, FINDING_BLOCKS, *names,
				       "ip -brief link shows the names",
				       "there is no such interface in this network namespace");
	}
}

int cmd_doctor(int argc, char **argv)
{
	static const struct option options[] = {
		{"attach", no_argument, NULL, 'a'},
		{"brief", no_argument, NULL, 'b'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	static const struct netlink_events events;
	struct report report = {.out = stdout};
	struct patient patient = {.report = &report, .root = ""};
	bool attach = false;
	int option, rc;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'a')
			attach = true;
		else if (option == 'b')
			report.brief = true;
		else if (option == 'h')
			return fputs(doctor_help, stdout), 0;
		else
			return fputs(doctor_help, stderr), 3;
	}
	param_init(vma_variable);
	log_init(LOG_NONE, 0, false, ""); /* what matters is in the findings */
	sched_getaffinity(0, sizeof(patient.cpus), &patient.cpus);
	patient.n_cpus = CPU_COUNT(&patient.cpus);
	doctor_system(&patient);
	doctor_processors(&patient);
	rc = netlink_open(&events);
	if (rc)
		report_finding(&report, FINDING_BLOCKS, "interfaces", NULL,
			       "the kernel does not list them (%s)", strerrordesc_np(-rc));
	else if (argv[optind])
		examine_named(&patient, argv + optind, attach);
	else
		examine_all(&patient, attach);
	return report_end(&report);
}
