/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

#define PATH_LEN 512

bool patient_read(const struct patient *patient, char *text, size_t size, const char *path, ...)
{
	char full[2 * PATH_LEN];
	va_list args;
	FILE *file;
	bool any;
	int len;

	len = snprintf(full, PATH_LEN, "%s", patient->root);
	if (len >= PATH_LEN)
		return false;
	va_start(args, path);
	vsnprintf(full + len, PATH_LEN, path, args);
	va_end(args);
	file = fopen(full, "re");
	if (!file)
		return false;
	any = fgets(text, (int)size, file) != NULL;
	fclose(file);
	if (!any)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return *text != '\0';
}

bool patient_parse_cpus(const char *list, cpu_set_t *cpus)
{
	CPU_ZERO(cpus);
	for (;;) {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (end == list)
			return false;
		if (*end == '-') {
			list = end + 1;
			last = strtoul(list, &end, 10);
			if (end == list)
				return false;
		}
		if (last < first || last >= CPU_SETSIZE)
			return false;
		for (; first <= last; first++)
			CPU_SET(first, cpus);
		if (!*end)
			return true;
		if (*end != ',')
			return false;
		list = end + 1;
	}
}

static void check_governor(const struct patient *patient)
{
	char governor[64], slow[64] = "";
	int n = 0, first = -1;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &patient->cpus) ||
		    !patient_read(patient, governor, sizeof(governor),
				  "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu) ||
		    !strcmp(governor, "performance"))
			continue;
		if (!n++) {
			first = cpu;
			snprintf(slow, sizeof(slow), "%s", governor);
		}
	}
	if (n)
		report_finding(
			patient->report, FINDING_SLOW, "processors",
			"cpupower frequency-set -g performance",
			"%d of %d, the first is %d, have the frequency governor %s: they need "
			"time to get fast",
			n, patient->n_cpus, first, slow);
}

/* Threads of one core take each other's time when both spin. */
static void check_siblings(const struct patient *patient)
{
	char list[PATH_LEN];
	cpu_set_t siblings;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &patient->cpus) ||
		    !patient_read(patient, list, sizeof(list),
				  "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
				  cpu) ||
		    !patient_parse_cpus(list, &siblings))
			continue;
		CPU_AND(&siblings, &siblings, &patient->cpus);
		if (CPU_COUNT(&siblings) < 2)
			continue;
		report_finding(patient->report, FINDING_NOTE, "processors", NULL,
			       "%s are threads of one core: let one thread poll on each core",
			       list);
		return;
	}
}

static void check_clock(const struct patient *patient)
{
	/* Those that the vDSO reads, without a system call. */
	static const char *const quick[] = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
					    "arch_sys_counter"};
	char clock[64];

	if (!patient_read(patient, clock, sizeof(clock),
			  "/sys/devices/system/clocksource/clocksource0/current_clocksource"))
		return;
	for (size_t i = 0; i < sizeof(quick) / sizeof(*quick); i++)
		if (!strcmp(clock, quick[i]))
			return;
	report_finding(
		patient->report, FINDING_SLOW, "clock",
		"echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
		"the kernel's clock is %s: each reading is a system call", clock);
}

void doctor_processors(const struct patient *patient)
{
	unsigned before = patient->report->found[FINDING_SLOW];

	if (patient->n_cpus == 1)
		report_finding(
			patient->report, FINDING_SLOW, "processors",
			"give the program more, or set VMA_RX_POLL=0 and VMA_SELECT_POLL=0",
			"this process may use one only: a thread that polls takes it from all "
			"others");
	check_governor(patient);
	check_clock(patient);
	if (patient->report->found[FINDING_SLOW] == before)
		report_finding(patient->report, FINDING_OK, "processors", NULL, "%d may be used",
			       patient->n_cpus);
	check_siblings(patient);
}

/* ---- where a card is -------------------------------------------------------------------- */

static void check_node(const struct patient *patient, const char *ifname)
{
	char text[PATH_LEN], mend[128];
	cpu_set_t cpus;
	int node;

	if (!patient_read(patient, text, sizeof(text), "/sys/class/net/%s/device/numa_node",
			  ifname))
		return;
	node = atoi(text);
	if (node < 0 ||
	    !patient_read(patient, text, sizeof(text), "/sys/devices/system/node/node%d/cpulist",
			  node) ||
	    !patient_parse_cpus(text, &cpus))
		return;
	CPU_AND(&cpus, &cpus, &patient->cpus);
	if (CPU_COUNT(&cpus))
		return;
	snprintf(mend, sizeof(mend), "numactl --cpunodebind=%d --membind=%d PROGRAM", node, node);
	report_finding(patient->report, FINDING_SLOW, ifname, mend,
		       "it is on NUMA node %d, and this process may use no processor there", node);
}

/* Adds the processors that serve the device's interrupts; returns the number of interrupts. */
static int gather_interrupts(const struct patient *patient, const char *ifname, cpu_set_t *all)
{
	char path[2 * PATH_LEN], text[PATH_LEN];
	struct dirent *entry;
	cpu_set_t cpus;
	DIR *dir;
	int n = 0;

	CPU_ZERO(all);
	snprintf(path, sizeof(path), "%s/sys/class/net/%s/device/msi_irqs", patient->root, ifname);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' ||
		    !patient_read(patient, text, sizeof(text),
				  "/proc/irq/%s/effective_affinity_list", entry->d_name) ||
		    !patient_parse_cpus(text, &cpus))
			continue;
		CPU_OR(all, all, &cpus);
		n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

static void check_interrupts(const struct patient *patient, const char *ifname)
{
	cpu_set_t cpus;
	int n = gather_interrupts(patient, ifname, &cpus);

	/* One of them may be for the link alone. */
	if (n < 3 || CPU_COUNT(&cpus) != 1 || patient->n_cpus == 1)
		return;
	report_finding(patient->report, FINDING_SLOW, ifname,
		       "start irqbalance, or write a processor of its own to each "
		       "/proc/irq/N/smp_affinity_list",
		       "one processor serves all of its %d interrupts", n);
}

void doctor_placement(const struct patient *patient, const char *ifname)
{
	check_node(patient, ifname);
	check_interrupts(patient, ifname);
}
