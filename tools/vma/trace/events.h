/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The records of a recorder that somebody wants to see, in the order of time.
 *
 * Role		one thread.  The recorder may contain anything and change at any time.
 */
#ifndef TOOLS_VMA_TRACE_EVENTS_H
#define TOOLS_VMA_TRACE_EVENTS_H

#include <stdbool.h>

#include "base/stats/recorder_text.h"

struct events_filter {
	int ring;	 /* -1: all */
	int fd;		 /* -1: all */
	uint32_t socket; /* 0: all */
	bool sleeps;	 /* also sleeps and wakes */
};

struct event {
	struct record record;
	uint64_t since; /* nsec after the recorder was made */
	unsigned area;
	uint64_t number; /* in its area */
	uint32_t times;	 /* of these were not shown before */
};

/* What was read so far. */
struct events {
	struct events_filter filter;
	uint64_t from[RECORDER_AREAS];
	/* The last record of each area, which may be a series of drops that goes on. */
	struct record last[RECORDER_AREAS];
	struct event *list; /* of the last events_read() */
	unsigned n;
	uint64_t lost; /* were replaced before they were read */
};

/* False: no memory. */
bool events_init(struct events *events, const struct events_filter *filter);
void events_fini(struct events *events);

/* Reads what was recorded since the last call. */
void events_read(struct events *events, const struct recorder *recorder);

#endif
