/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the statistics of other processes (base/stats/stats_page.h).
 *
 * Nothing in a page or a file is believed: sizes are checked against the memfd, which is sealed,
 * so that a process that ends, or lies, can show wrong numbers at most.
 */
#ifndef TOOLS_VMA_STATS_READER_H
#define TOOLS_VMA_STATS_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/stats/stats_page.h"

#define READER_WHY 256
#define READER_PROCESSES 4096

struct process {
	uint32_t pid;
	struct stats_page *page; /* mapped */
	size_t size;
	bool writable; /* asks are possible */
	int fd;	       /* of the page */
	char name[STATS_NAME];
};

/* A consistent copy. */
struct snapshot {
	struct stats_page page; /* strings end, numbers of entries are in range */
	struct stats_sock *socks;
	unsigned n_socks;		 /* those in use */
	struct stats_latency *latencies; /* by stats_sock.place; NULL: they are not measured */
	unsigned n_places;
	uint64_t at; /* nsec, CLOCK_MONOTONIC */
};

/*
 * Opens the page of a process that dir/vmastat.PID names.  0, or -errno and why, a sentence for
 * the user.  -ESRCH: the process has ended, and its file is stale.
 */
int reader_open(const char *dir, uint32_t pid, struct process *process, char why[READER_WHY]);
void reader_close(struct process *process);

/*
 * Checks a page of size bytes.  0, or -errno and why: -EPROTO: another version of the library;
 * -EBADMSG: it is no page.
 */
int reader_check(const struct stats_page *page, size_t size, char why[READER_WHY]);

/* The process ids of the files in dir, at most READER_PROCESSES; -errno. */
int reader_list(const char *dir, uint32_t pids[READER_PROCESSES]);
/* Removes the file of a process that has ended, if it is ours. */
void reader_clean(const char *dir, uint32_t pid);

/*
 * Opens the memory that the process has at descriptor fd under this name.  The descriptor, or
 * -errno and why; -ESRCH: the process has ended, or has no such memory.
 */
int reader_open_memory(uint32_t pid, uint32_t fd, const char *name, bool *writable,
		       char why[READER_WHY]);

/* The state of a process as /proc/PID/stat shows it, such as 'R' or 'T'; 0: there is none. */
char reader_state_of(uint32_t pid);
/* False: the process has ended. */
bool reader_is_alive(const struct process *process);

/*
 * Asks the process for something, without waiting.  Returns what reader_is_answered() takes.  The
 * process must be writable.
 */
uint64_t reader_begin_ask(struct process *process, enum stats_ask what, uint32_t argument);
/* Was it done, or a later ask of another reader? */
bool reader_is_answered(const struct process *process, enum stats_ask what, uint64_t ask);

/*
 * Asks the process for something, and waits until it was done.  0; -EACCES: it belongs to
 * another user; -ESRCH: it ended; -ETIMEDOUT: it does not answer, because it is stopped or hangs.
 */
int reader_ask(struct process *process, enum stats_ask what, uint32_t argument);
/* As text for the user. */
void reader_why_not(const struct process *process, int rc, char why[READER_WHY]);

/* Copies the page.  False: no memory.  nsec: the time of the copy. */
bool reader_snapshot(const struct process *process, uint64_t nsec, struct snapshot *snapshot);
/* The histogram of a socket of the snapshot; NULL: it has none. */
const struct stats_latency *reader_latency(const struct snapshot *snapshot,
					   const struct stats_sock *slot);
void reader_free(struct snapshot *snapshot);

#endif
