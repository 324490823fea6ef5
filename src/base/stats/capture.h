/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captured frames on their way from a process to `vma capture`: the layout of the memory that both
 * map, and how the process writes.
 *
 * The memory is sealed (base/sealed.h); capture_fd of the page of statistics names its descriptor.
 * It has a header and CAPTURE_LANES lanes.  A lane has the frames of one ring, in order.  One lane
 * for each ring, not one for all: then there is one writer, the holder of the ring, which stores
 * plainly and never waits for another thread; thread mode 0 needs no locked instruction.  The tool
 * merges lanes by time.
 *
 * Role		writer: the holder of the lane's ring.  reader: the tool.
 * Lifetime	a lane is of one ring and one interface from `used` on, as long as the memory is.
 * Ordering	the reader sees all of a record before it sees head past it.
 * Progress	a frame for which there is no room is counted, and lost for the capture; nobody
 *		waits.
 * Trust	the writer reads only tail, and whatever is there it writes inside of its lane.
 *		The reader believes nothing (tools/vma/capture).
 */
#ifndef BASE_STATS_CAPTURE_H
#define BASE_STATS_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#define CAPTURE_MAGIC 0x45525554504143ull /* "CAPTURE" */
#define CAPTURE_VERSION 1u		  /* changes with the layout */
#define CAPTURE_MEMFD "vmacapture"
#define CAPTURE_LANES 64u
#define CAPTURE_NAME 16u
#define CAPTURE_SNAP_MAX 65535u /* bytes of a frame */
#define CAPTURE_SHIFT_MIN 17u	/* of the bytes of a lane: 128 KB */
#define CAPTURE_SHIFT_MAX 26u	/* 64 MB */

/* The argument of STATS_CAPTURE: bytes kept of each frame (0: the capture ends), size of a lane. */
#define CAPTURE_ARGUMENT(snap, shift) ((uint32_t)(snap) | (uint32_t)(shift) << 16)
#define CAPTURE_SNAP(argument) ((argument)&0xffffu)
#define CAPTURE_SHIFT(argument) ((argument) >> 16 & 0xffu)

/* The byte of the page of statistics that the tool locks (F_OFD_SETLK) as long as it captures. */
#define CAPTURE_LOCK_BYTE 0

#define CAPTURE_SENT 1u /* the process sent the frame; else it received it */
#define CAPTURE_PAD 2u	/* no frame: the next record is at the beginning of the lane */

/* A record: this, and the kept bytes.  Never split; at a multiple of 8. */
struct capture_record {
	uint32_t size; /* of the record: a multiple of 8 */
	uint32_t flags;
	uint32_t len;  /* of the frame */
	uint32_t kept; /* of its bytes, the first ones */
	uint64_t when; /* nsec, CLOCK_REALTIME */
};

struct capture_lane {
	/* control lock; `used` is stored last, atomic */
	char interface[CAPTURE_NAME];
	uint32_t ring;
	uint32_t used;
	/* writer, atomic; bytes, which only grow: at (head & (size - 1)) the next record begins */
	uint64_t head __attribute__((aligned(64)));
	uint64_t frames; /* seen, with those that were lost */
	uint64_t drops;	 /* lost: there was no room */
	/* reader, atomic */
	uint64_t tail __attribute__((aligned(64)));
} __attribute__((aligned(64)));

struct capture_header {
	/* set when made */
	uint64_t magic;
	uint32_t version;
	uint32_t shift; /* a lane has 1 << shift bytes */
	uint32_t snap;
	uint32_t lanes_at; /* bytes from the beginning: lane 0; a multiple of a page */
	/* control lock, atomic: rings that got no lane, so that their frames are not captured */
	uint32_t without_lane;
	struct capture_lane lanes[CAPTURE_LANES];
};

#define CAPTURE_LANES_AT ((sizeof(struct capture_header) + 4095) & ~4095ul)

static inline uint64_t capture_lane_at(unsigned lane, unsigned shift)
{
	return CAPTURE_LANES_AT + ((uint64_t)lane << shift);
}

/* Bytes of the memory. */
static inline uint64_t capture_size(unsigned shift)
{
	return capture_lane_at(CAPTURE_LANES, shift);
}

/* ---- writing ------------------------------------------------------------------------ */

/* The writer's own view of its lane, in its own memory. */
struct capture_writer {
	struct capture_lane *lane;
	uint8_t *data;
	uint64_t size; /* of the lane */
	uint32_t snap;
	uint64_t head; /* what the reader sees */
	uint64_t next; /* the end of what was put */
	uint64_t frames, drops;
};

/* data: size bytes, a power of two of at least 1 << CAPTURE_SHIFT_MIN. */
void capture_writer_init(struct capture_writer *w, struct capture_lane *lane, uint8_t *data,
			 uint64_t size, uint32_t snap);

/* Copies a frame; the reader does not see it before capture_publish(). */
void capture_put(struct capture_writer *w, const uint8_t *frame, uint32_t len, uint32_t flags,
		 uint64_t when);
/* The reader sees what was put, and the counts. */
void capture_publish(struct capture_writer *w);
/* Takes back the one frame that was put since the last capture_publish(), if there was room. */
void capture_take_back(struct capture_writer *w);

#endif
