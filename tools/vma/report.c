/* SPDX-License-Identifier: BSD-2-Clause */
#include "report.h"

#include <stdarg.h>
#include <string.h>

static const char *const severity_names[] = {"ok", "note", "slow", "blocks"};

/* Counts the finding and prints its first columns.  False: it is not to be shown. */
static bool begin(struct report *report, enum severity severity, const char *subject)
{
	report->found[severity]++;
	if (report->brief && severity < FINDING_SLOW)
		return false;
	fprintf(report->out, "%-7s %-16s ", severity_names[severity], subject);
	return true;
}

/* Further lines of a finding stand below its text. */
static void indent(struct report *report)
{
	fprintf(report->out, "%25s", "");
}

void report_finding(struct report *report, enum severity severity, const char *subject,
		    const char *mend, const char *fmt, ...)
{
	va_list args;

	if (!begin(report, severity, subject))
		return;
	va_start(args, fmt);
	vfprintf(report->out, fmt, args);
	va_end(args);
	fputc('\n', report->out);
	if (!mend)
		return;
	indent(report);
	fprintf(report->out, "mend: %s\n", mend);
}

void report_text(struct report *report, enum severity severity, const char *subject,
		 const char *text)
{
	if (!begin(report, severity, subject))
		return;
	for (bool first = true; *text; first = false) {
		size_t len = strcspn(text, "\n");

		if (!first)
			indent(report);
		fprintf(report->out, "%.*s\n", (int)len, text);
		text += len;
		text += *text == '\n';
	}
}

static const char *plural(unsigned n)
{
	return n == 1 ? "" : "s";
}

int report_end(const struct report *report)
{
	unsigned blocks = report->found[FINDING_BLOCKS], slow = report->found[FINDING_SLOW];

	if (blocks)
		fprintf(report->out, "\n%u finding%s block%s acceleration, %u cost%s speed.\n",
			blocks, plural(blocks), blocks == 1 ? "s" : "", slow, slow == 1 ? "s" : "");
	else if (slow)
		fprintf(report->out, "\nNothing blocks acceleration; %u finding%s cost%s speed.\n",
			slow, plural(slow), slow == 1 ? "s" : "");
	else
		fputs("\nThis machine is set up right.\n", report->out);
	return blocks ? 2 : slow ? 1 : 0;
}
