/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Findings of `vma doctor`: one line each, with the command that mends it.
 *
 * Role		one thread.
 */
#ifndef TOOLS_VMA_REPORT_H
#define TOOLS_VMA_REPORT_H

#include <stdbool.h>
#include <stdio.h>

enum severity {
	FINDING_OK,	/* as it should be */
	FINDING_NOTE,	/* worth knowing; nothing has to be done */
	FINDING_SLOW,	/* accelerated, but slower than it could be */
	FINDING_BLOCKS, /* nothing is accelerated, or not by this interface */
};

struct report {
	FILE *out;
	bool brief; /* leave out FINDING_OK and FINDING_NOTE */
	unsigned found[FINDING_BLOCKS + 1];
};

/*
 * Prints a finding about subject ("kernel", an interface).  The text is one line without a full
 * stop.  mend: the command, or what else helps; NULL: nothing to do.
 */
__attribute__((format(printf, 5, 6))) void report_finding(struct report *report,
							  enum severity severity,
							  const char *subject, const char *mend,
							  const char *fmt, ...);

/*
 * Prints a text of several lines that the library made for the user; the first line is the
 * finding, and the others follow below it.
 */
void report_text(struct report *report, enum severity severity, const char *subject,
		 const char *text);

/* Prints the last line.  The exit status: 0, 1: something is slow, 2: something blocks. */
int report_end(const struct report *report);

#endif
