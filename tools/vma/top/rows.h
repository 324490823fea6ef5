/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of `vma top`: the rates of the sockets and rings of several processes, in an order.
 *
 * Role		pure.
 * Lifetime	a row is a copy; the snapshots may be freed.
 */
#ifndef TOOLS_VMA_TOP_ROWS_H
#define TOOLS_VMA_TOP_ROWS_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/vma_stats/reader.h"

enum rows_order {
	ROWS_PACKETS,
	ROWS_BYTES,
	ROWS_DROPS,
	ROWS_RETRANSMITS,
	ROWS_LATENCY,
	ROWS_ORDERS
};

struct socket_row {
	uint32_t pid;
	char program[STATS_NAME];
	struct stats_sock sock; /* rates */
	uint64_t latency;	/* that 99 of 100 reads did not exceed, nsec; 0: not known */
};

struct ring_row {
	uint32_t pid;
	char program[STATS_NAME];
	struct stats_ring ring; /* rates */
	uint64_t drops;
};

/* A process: how its calls of poll, select and epoll_wait ended, per second. */
struct process_row {
	uint32_t pid;
	char program[STATS_NAME];
	unsigned sockets, accelerated;
	uint64_t hits, misses; /* without sleep; after it */
};

struct rows {
	struct socket_row *sockets;
	struct ring_row *rings;
	struct process_row *processes;
	unsigned n_sockets, n_rings, n_processes;
	bool no_memory; /* rows are missing */
};

/* Adds a process; rates: the difference of two of its snapshots, per second (delta()). */
void rows_add(struct rows *rows, const struct process *process, const struct snapshot *rates);
/* Sockets: the largest first.  Rings: those with most frames first.  Then by process, number. */
void rows_sort(struct rows *rows, enum rows_order order);
/* Writes all of them, or at most so many rings and sockets, as lines.  0: all. */
void rows_write(const struct rows *rows, unsigned rings, unsigned sockets, FILE *out);
void rows_free(struct rows *rows);

#endif
