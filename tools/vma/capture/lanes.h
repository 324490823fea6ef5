/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the memory of a capture (base/stats/capture.h) that another process writes.
 *
 * Nothing there is believed: the memory is sealed, each record is copied before it is checked, and
 * a lane that contradicts itself is not read any more.
 */
#ifndef TOOLS_VMA_CAPTURE_LANES_H
#define TOOLS_VMA_CAPTURE_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/stats/capture.h"

#define LANES_WHY 128

struct lane {
	const uint8_t *data; /* NULL: not in use yet */
	char interface[CAPTURE_NAME];
	uint32_t ring;
	uint64_t tail;
	bool broken; /* it contradicts itself */
	bool waits;  /* next is the header of the record at tail */
	struct capture_record next;
};

struct lanes {
	struct capture_header *header; /* mapped */
	int fd;
	uint64_t size; /* of a lane */
	uint32_t snap;
	unsigned n; /* lanes in use */
	struct lane lane[CAPTURE_LANES];
};

struct lanes_frame {
	unsigned lane;
	bool sent;
	uint32_t len, kept;
	uint64_t when;	     /* nsec, CLOCK_REALTIME */
	const uint8_t *data; /* kept bytes, until the next call */
};

/* Consumes fd, which must be writable.  0, or -errno and why. */
int lanes_open(struct lanes *lanes, int fd, char why[LANES_WHY]);
void lanes_close(struct lanes *lanes);

/* Looks for lanes that came into use; returns how many lanes there are. */
unsigned lanes_look(struct lanes *lanes);

/*
 * Takes the oldest frame of all lanes.  With several lanes, only one that is not younger than
 * until, since others may still write older ones.  False: there is none.
 */
bool lanes_take(struct lanes *lanes, uint64_t until, struct lanes_frame *frame);

/* What the process counted: frames, and those of them that were lost. */
void lanes_counts(const struct lanes *lanes, unsigned lane, uint64_t *frames, uint64_t *drops);
/* Rings whose frames are not captured. */
uint32_t lanes_without(const struct lanes *lanes);
bool lanes_are_broken(const struct lanes *lanes);

#endif
