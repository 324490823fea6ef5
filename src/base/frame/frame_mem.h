/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for the frames of a port: the library's, or, after frame_mem_set_user(), the program's
 * (CMSG_VMA_IOCTL_USER_ALLOC of the extra API).
 *
 * Role		any thread.  The program's functions are called one at a time, with signals blocked, by
 *		whoever opens or closes a port: they must return, and must not call socket functions.
 * Lifetime	of the choice: it holds once memory was asked for, also in a forked child.
 * Trust	none in what the program returns: no memory, an address of any alignment, or a range
 *		that is not mapped or cannot be written, is an error and no fault.  That mapped
 *		memory behind a range that is too short belongs to something else, nobody can know.
 */
#ifndef BASE_FRAME_FRAME_MEM_H
#define BASE_FRAME_FRAME_MEM_H

#include <stdbool.h>
#include <stddef.h>

typedef void *frame_mem_alloc_fn(size_t size);
typedef void frame_mem_free_fn(void *memory);

struct frame_mem {
	void *addr;  /* aligned to pages; NULL: none */
	size_t len;  /* of it */
	void *given; /* what the program returned; NULL: it is the library's */
	frame_mem_free_fn *give_back;
};

/* From now on memory is the program's.  -EINVAL: some was asked for already, or no function. */
int frame_mem_set_user(frame_mem_alloc_fn *alloc, frame_mem_free_fn *give_back);
/* Is memory the program's?  From now on it stays as it is. */
bool frame_mem_is_users(void);

/*
 * Memory of len bytes, a multiple of the page size; resident if it is the program's.  Until it is put, a
 * forked child does not have it.  -ENOMEM: there is none.  -EFAULT: what the program returned cannot be
 * used; it was given back.
 */
int frame_mem_get(struct frame_mem *mem, size_t len);
/* Nobody uses it any more.  Does nothing if there is none. */
void frame_mem_put(struct frame_mem *mem);

#endif
