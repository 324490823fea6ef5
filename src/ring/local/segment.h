/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segment: memory that processes of one user share, a sealed memfd.
 *
 * Role		create, open, close: any thread, one at a time per segment.
 *		segment_at(): any thread.
 * Lifetime	pages become resident when they are first written, so a segment may be
 *		much larger than what it will hold.  A forked child has no mapping of it,
 *		and its descriptor is closed there like every hidden one.
 * Trust	segment_open() accepts only a memfd of the effective user, or of that of
 *		segment_accept_of() in its place, whose size no process can change: an
 *		access cannot go past its end (SIGBUS).  Whoever has the segment may write
 *		any of it at any time, and punch holes, which read as zeros.
 */
#ifndef RING_LOCAL_SEGMENT_H
#define RING_LOCAL_SEGMENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SEGMENT_VERSION 1u
#define SEGMENT_HEADER 64u /* bytes at the beginning that belong to this module */
#define SEGMENT_PAGE 4096u

struct segment {
	/* set when created or opened, read by all */
	uint8_t *base;
	size_t size; /* a multiple of SEGMENT_PAGE */
	int fd;	     /* hidden (base/sys.h) */
};

/* Of a segment that is not open. */
#define SEGMENT_NONE ((struct segment){.fd = -1})

/*
 * Creates a segment of at least size bytes, zero after the header.  kind: a number of the caller,
 * which segment_open() compares.  -ENOMEM, -EMFILE, -ENFILE, ...
 */
int segment_create(struct segment *segment, uint32_t kind, size_t size);

/*
 * Maps the segment that another process created.  Consumes fd, also on failure.
 * -EACCES: of another user, or not writable; -EBADMSG: not a sealed memfd, its size is not within
 * [min, max], or its header is not one of this version and kind; else what mmap(2) says.
 */
int segment_open(struct segment *segment, int fd, uint32_t kind, size_t min, size_t max);

/*
 * Before other threads use segments: this process goes on with what it had as another user, whose
 * segments it opens from now on.
 */
void segment_accept_of(uid_t user);

/* Unmaps and closes.  Does nothing to a segment that is not open. */
void segment_close(struct segment *segment);

/*
 * The size bytes at offset, after the header and inside of the segment; else NULL.  align: a power
 * of two up to SEGMENT_PAGE, which offset must be a multiple of.
 */
static inline void *segment_at(const struct segment *segment, uint64_t offset, uint64_t size,
			       uint64_t align)
{
	if (offset < SEGMENT_HEADER || offset > segment->size || size > segment->size - offset ||
	    offset & (align - 1))
		return NULL;
	return segment->base + offset;
}

/*
 * Gives whole pages within [at, at + size) back to the kernel; they read as zeros afterwards.
 * at: of any mapped segment.  The caller makes sure that nobody needs what is there.
 */
void segment_release(void *at, size_t size);

#endif
