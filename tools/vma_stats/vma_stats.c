/* SPDX-License-Identifier: BSD-2-Clause */
#include "tools/vma_stats/vma_stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

/* ---- which processes ---------------------------------------------------------------- */

struct found {
	struct process *processes;
	unsigned n;
};

static void complain(const char *why)
{
	fprintf(stderr, "vmastat: %s\n", why);
}

/* One process that was asked for. */
static int open_one(const struct options *o, uint32_t pid, struct found *found)
{
	char why[READER_WHY];
	int rc = reader_open(o->directory, pid, &found->processes[found->n], why);

	if (rc == -ESRCH && !o->forbid_clean)
		reader_clean(o->directory, pid);
	if (rc == -ENOENT) {
		complain("Failed to identify process...");
	} else if (rc) {
		fprintf(stderr, "vmastat: process %u: %s\n", pid, why);
	} else {
		found->n++;
	}
	return rc;
}

/* All that can be read; with a name, those of this name. */
static void open_all(const struct options *o, struct found *found)
{
	static uint32_t pids[READER_PROCESSES];
	int n = reader_list(o->directory, pids);
	char why[READER_WHY];

	if (n < 0)
		fprintf(stderr, "vmastat: %s: %s\n", o->directory, strerror(-n));
	for (int i = 0; i < n; i++) {
		struct process *p = &found->processes[found->n];
		int rc = reader_open(o->directory, pids[i], p, why);

		if (rc == -ESRCH && !o->forbid_clean)
			reader_clean(o->directory, pids[i]);
		if (rc && rc != -ESRCH && rc != -ENOENT)
			fprintf(stderr, "vmastat: process %u: %s\n", pids[i], why);
		if (rc)
			continue;
		if (o->name && strcmp(o->name, p->name) != 0)
			reader_close(p);
		else
			found->n++;
	}
}

static bool takes_several(const struct options *o)
{
	return o->view >= VIEW_NETSTAT && o->view != VIEW_LATENCIES;
}

/* False, after a message: there are none, or several where only one can be shown. */
static bool find(const struct options *o, struct found *found)
{
	found->n = 0;
	found->processes = calloc(READER_PROCESSES, sizeof(*found->processes));
	if (!found->processes)
		return false;
	if (o->pid)
		return !open_one(o, o->pid, found);
	open_all(o, found);
	if (!found->n && !(takes_several(o) && !o->name)) {
		complain("Failed to identify process...");
		return false;
	}
	if (found->n > 1 && !takes_several(o)) {
		fprintf(stderr, "vmastat: %u processes; choose one with -p:", found->n);
		for (unsigned i = 0; i < found->n; i++)
			fprintf(stderr, " %u (%s)", found->processes[i].pid,
				found->processes[i].name);
		fprintf(stderr, "\n");
		return false;
	}
	return true;
}

/* ---- asks --------------------------------------------------------------------------- */

static int ask(struct process *p, enum stats_ask what, uint32_t argument)
{
	char why[READER_WHY];
	int rc = reader_ask(p, what, argument);

	if (rc) {
		reader_why_not(p, rc, why);
		complain(why);
	}
	return rc;
}

/* What changes the process.  *only: there is nothing to show beside that. */
static int change(const struct options *o, struct process *p, bool *only)
{
	int rc = 0;

	*only = true;
	if (o->level >= LOG_NONE)
		rc = ask(p, STATS_LEVEL, (uint32_t)(o->level + 1));
	else if (o->details >= 0)
		*only = true;
	else if (o->dump_fd < 0)
		*only = false;
	if (!rc && o->details >= 0)
		rc = ask(p, STATS_DETAILS, (uint32_t)o->details);
	if (!rc && o->dump_fd >= 0)
		rc = ask(p, STATS_DUMP, (uint32_t)o->dump_fd << 4 | (uint32_t)(o->dump_level + 1));
	if (!rc && o->zero)
		rc = ask(p, STATS_ZERO, 0);
	return rc;
}

/* ---- reports ------------------------------------------------------------------------ */

static int take(struct process *p, struct snapshot *s)
{
	int rc = ask(p, STATS_REFRESH, 0);

	if (rc == -ESRCH)
		return rc;
	return reader_snapshot(p, (uint64_t)clock_now(), s) ? 0 : -ENOMEM;
}

/* Waits for the next report; the times do not drift. */
static void wait_until(nsec_t when)
{
	struct timespec ts = {when / NSEC_PER_SEC, when % NSEC_PER_SEC};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static void show_one(const struct options *o, const struct snapshot *s, unsigned *lines)
{
	if (o->view == VIEW_FULL)
		view_full(o, s);
	else if (o->view == VIEW_GROUPS)
		view_groups(o, s);
	else if (o->view == VIEW_LATENCIES)
		view_latencies(o, s);
	else
		view_table(o, s, lines);
}

static int report_one(const struct options *o, struct process *p)
{
	bool deltas = o->deltas && o->view != VIEW_GROUPS;
	unsigned lines = 0, cycles = o->view == VIEW_GROUPS ? 1 : o->cycles;
	nsec_t next = clock_now();
	struct snapshot before = {0}, now, diff;

	printf("vmastat: stats for application: %s with pid: %u\n", p->name, p->pid);
	if (deltas && take(p, &before))
		return 1;
	for (unsigned cycle = 0; !cycles || cycle < cycles; cycle++) {
		if (cycle || deltas)
			wait_until(next += (nsec_t)o->interval * NSEC_PER_SEC);
		if (take(p, &now))
			return 1;
		if (!deltas) {
			show_one(o, &now, &lines);
			reader_free(&now);
		} else {
			if (!delta(&now, &before, &diff))
				return 1;
			show_one(o, &diff, &lines);
			reader_free(&diff);
			reader_free(&before);
			before = now;
		}
		fflush(stdout);
	}
	reader_free(&before);
	return 0;
}

/* The processes that have not ended; their snapshots. */
static unsigned take_all(struct found *found, struct snapshot *ss)
{
	unsigned n = 0;

	for (unsigned i = 0; i < found->n; i++) {
		if (take(&found->processes[i], &ss[n]))
			reader_close(&found->processes[i]);
		else
			found->processes[n++] = found->processes[i];
	}
	return n;
}

static int report_all(const struct options *o, struct found *found)
{
	size_t size = (found->n + 1) * sizeof(struct snapshot);
	struct snapshot *ss = aligned_alloc(_Alignof(struct snapshot), size);

	if (!ss)
		return 1;
	memset(ss, 0, size);
	found->n = take_all(found, ss);
	if (o->view == VIEW_OPENMETRICS)
		openmetrics(o, found->processes, ss, found->n);
	else if (o->view == VIEW_NETSTAT)
		view_netstat_head();
	else if (o->view == VIEW_VERDICTS)
		view_verdicts_head();
	else
		json_begin();
	for (unsigned i = 0; i < found->n; i++) {
		if (o->view == VIEW_NETSTAT)
			view_netstat(o, &found->processes[i], &ss[i]);
		else if (o->view == VIEW_VERDICTS)
			view_verdicts(o, &found->processes[i], &ss[i]);
		else if (o->view == VIEW_JSON)
			json_process(o, &found->processes[i], &ss[i], i == 0);
		reader_free(&ss[i]);
	}
	if (o->view == VIEW_JSON)
		json_end();
	free(ss);
	return 0;
}

int vma_stats_main(int argc, char **argv)
{
	static struct options o;
	struct found found;
	int rc = options_parse(argc, argv, &o);
	bool only = false;

	if (rc >= 0)
		return rc;
	if (!find(&o, &found)) {
		free(found.processes);
		return 1;
	}
	rc = 0;
	for (unsigned i = 0; i < found.n && !rc; i++)
		rc = change(&o, &found.processes[i], &only) ? 1 : 0;
	if (!rc && !only)
		rc = takes_several(&o) ? report_all(&o, &found)
				       : report_one(&o, &found.processes[0]);
	for (unsigned i = 0; i < found.n; i++)
		reader_close(&found.processes[i]);
	free(found.processes);
	return rc;
}
