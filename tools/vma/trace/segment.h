/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorders of other processes (base/stats/recorder.h): finds and maps them.
 *
 * Nothing in a recorder is believed.  It is a System V segment, whose size cannot change, so that
 * a process that ends, or lies, can show wrong events at most.
 */
#ifndef TOOLS_VMA_TRACE_SEGMENT_H
#define TOOLS_VMA_TRACE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/stats/recorder.h"

#define SEGMENT_WHY 256

struct segment {
	int id;
	uint32_t pid;			 /* of the process that made it */
	const struct recorder *recorder; /* mapped, read-only */
	char name[RECORDER_NAME], version[32];
};

/*
 * The recorder of the process; of several with its id, the one that is in use, else the newest.
 * 0, or -errno and why, a sentence for the user.
 */
int segment_open(uint32_t pid, struct segment *segment, char why[SEGMENT_WHY]);
void segment_close(struct segment *segment);

/*
 * Checks a recorder of size bytes.  0, or -errno and why: -EPROTO: of another version of the
 * library; -EBADMSG: it is none.
 */
int segment_check(const struct recorder *recorder, size_t size, char why[SEGMENT_WHY]);

enum segment_state { SEGMENT_RUNS, SEGMENT_STOPPED, SEGMENT_ENDED };
enum segment_state segment_state(const struct segment *segment);

/* Calls fn for each recorder that can be read.  Their number. */
unsigned segment_each(void (*fn)(const struct segment *segment, enum segment_state state));

#endif
