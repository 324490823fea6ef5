/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vma_stats: shows the statistics of processes with the library, and changes some of their
 * settings.  Options and formats are those of VMA's vma_stats; the views 6 and 7, --json and
 * --openmetrics are ours.
 */
#ifndef TOOLS_VMA_STATS_VMA_STATS_H
#define TOOLS_VMA_STATS_VMA_STATS_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/vma_stats/reader.h"

#define VIEW_LINES 24 /* of sockets, between two headers */
#define FD_MAX 65536

enum view {
	VIEW_BASIC = 1,
	VIEW_MEDIUM,
	VIEW_FULL,
	VIEW_GROUPS,
	VIEW_NETSTAT,
	VIEW_VERDICTS,
	VIEW_LATENCIES,
	VIEW_JSON,
	VIEW_OPENMETRICS
};

struct options {
	uint32_t pid; /* 0: not given */
	const char *directory, *name;
	bool forbid_clean;
	unsigned interval, cycles;
	enum view view;
	bool deltas;
	bool zero;
	int level, details;	 /* -2: not given */
	int dump_fd, dump_level; /* dump_fd -1: not given; 0: all */
	bool chosen;		 /* bit fds of -s count */
	uint8_t fds[FD_MAX / 8];
};

/* The command.  Its exit status. */
int vma_stats_main(int argc, char **argv);

/* Parses the command line: -1: go on; else the exit status, after a message. */
int options_parse(int argc, char **argv, struct options *options);
bool options_show_fd(const struct options *options, int fd);

/*
 * The difference of two snapshots, per second; counters that became smaller were zeroed
 * meanwhile.  The sockets of *to are to be freed.  False: no memory.
 */
bool delta(const struct snapshot *now, const struct snapshot *before, struct snapshot *to);

/* Views of one process.  *lines: of sockets, since the last header; 0: none yet. */
void view_table(const struct options *options, const struct snapshot *s, unsigned *lines);
void view_full(const struct options *options, const struct snapshot *s);
void view_groups(const struct options *options, const struct snapshot *s);

void view_latencies(const struct options *options, const struct snapshot *s);

/* Views of all processes: head once, then each process. */
void view_netstat_head(void);
void view_netstat(const struct options *options, const struct process *p, const struct snapshot *s);
void view_verdicts_head(void);
void view_verdicts(const struct options *options, const struct process *p,
		   const struct snapshot *s);

/* The verdict of a socket, in one line. */
#define VERDICT_LINE 224
void verdict_line(const struct stats_sock *slot, char text[VERDICT_LINE]);
/* "tcp" or "udp", and the name of a TCP state; "" for UDP. */
const char *proto_name(const struct stats_sock *slot);
const char *state_name(const struct stats_sock *slot);

/* any text format for other programs: begin, each process, end. */
void json_begin(void);
void json_process(const struct options *options, const struct process *p, const struct snapshot *s,
		  bool first);
void json_end(void);
/* OpenMetrics wants the samples of a metric together: all processes at once. */
void openmetrics(const struct options *options, const struct process *ps, const struct snapshot *ss,
		 unsigned n);

#endif
