/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The examinations of `vma doctor`.
 *
 * Role		one thread, which has read the parameters (param_init()).
 */
#ifndef TOOLS_VMA_DOCTOR_H
#define TOOLS_VMA_DOCTOR_H

#include <sched.h>

#include "report.h"

/* What is examined. */
struct patient {
	struct report *report;
	const char *root; /* where /proc and /sys are: "", or a directory of a test */
	cpu_set_t cpus;	  /* the processors that this process may use */
	int n_cpus;
};

/* Kernel, privileges, limits. */
void doctor_system(const struct patient *patient);
/* Processors: frequency, siblings, clock. */
void doctor_processors(const struct patient *patient);
/*
 * An interface.  attach: attaches to it for a moment, as a program would, to see how it is
 * accelerated; this resets the link of many cards.
 */
void doctor_link(const struct patient *patient, int ifindex, bool attach);
/* Where the interface and its interrupts are; of its device in /sys. */
void doctor_placement(const struct patient *patient, const char *ifname);

/*
 * Reads a line of root + path, without the newline, into text.  False: there is no such file, or
 * it is empty.
 */
__attribute__((format(printf, 4, 5))) bool patient_read(const struct patient *patient, char *text,
							size_t size, const char *path, ...);
/* Reads a list of processors ("0-3,8").  False: it is not one. */
bool patient_parse_cpus(const char *list, cpu_set_t *cpus);

#endif
